//! Messages of experimenters: Nicira's, and those that ONF defined for OpenFlow 1.3 before they
//! became a part of later versions.

use crate::error::{NICIRA, ONF};
use crate::wire::{Reader, Result, Writer, refuse};
use crate::{BundleAdd, BundleControl, Codec, CtFlush, Message, OptionMod, OptionTable, PacketIn, RoleStatus, Version};

/// Nicira's types.
mod nx {
    pub(super) const SET_PACKET_IN_FORMAT: u32 = 16;
    pub(super) const SET_CONTROLLER_ID: u32 = 20;
    pub(super) const TLV_TABLE_MOD: u32 = 24;
    pub(super) const TLV_TABLE_REQUEST: u32 = 25;
    pub(super) const TLV_TABLE_REPLY: u32 = 26;
    pub(super) const RESUME: u32 = 28;
    pub(super) const CT_FLUSH_ZONE: u32 = 29;
    pub(super) const PACKET_IN2: u32 = 30;
    pub(super) const CT_FLUSH: u32 = 32;
}

/// ONF's types for OpenFlow 1.3.
mod onf {
    pub(super) const FLOW_MONITOR_CANCEL: u32 = 1870;
    pub(super) const FLOW_MONITOR_PAUSED: u32 = 1871;
    pub(super) const FLOW_MONITOR_RESUMED: u32 = 1872;
    pub(super) const ROLE_STATUS: u32 = 1911;
    pub(super) const BUNDLE_CONTROL: u32 = 2300;
    pub(super) const BUNDLE_ADD: u32 = 2301;
}

const MUST_BE_ZERO: &str = "NXBRC_MUST_BE_ZERO";

/// Reads a message in a bundle.
type Decode = fn(Codec, &[u8]) -> Result<Message>;

pub(super) fn read(codec: Codec, xid: u32, decode: Decode, input: &mut Reader<'_>) -> Result<Message> {
    let (experimenter, kind) = (input.u32()?, input.u32()?);
    let message = match (experimenter, kind) {
        (NICIRA, kind) => return read_nicira(kind, input),
        (ONF, kind) if codec.version == Version::V13 => match kind {
            onf::FLOW_MONITOR_CANCEL => Message::FlowMonitorCancel(input.u32()?),
            onf::FLOW_MONITOR_PAUSED => Message::FlowMonitorPaused,
            onf::FLOW_MONITOR_RESUMED => Message::FlowMonitorResumed,
            onf::ROLE_STATUS => Message::RoleStatus(RoleStatus::read(input)?),
            onf::BUNDLE_CONTROL => Message::BundleControl(BundleControl::read(input)?),
            onf::BUNDLE_ADD => Message::BundleAdd(BundleAdd::read(codec, xid, decode, input)?),
            _ => return bad_subtype(kind),
        },
        (ONF, _) => return bad_subtype(kind),
        _ => {
            let reason = format!("messages of experimenter {experimenter:#x} are not served");
            return refuse("OFPBRC_BAD_VENDOR", reason);
        }
    };
    Ok(message)
}

fn bad_subtype<T>(kind: u32) -> Result<T> {
    refuse("OFPBRC_BAD_SUBTYPE", format!("an experimenter's messages of type {kind} are not served"))
}

fn read_nicira(kind: u32, input: &mut Reader<'_>) -> Result<Message> {
    Ok(match kind {
        nx::SET_PACKET_IN_FORMAT => Message::SetPacketInFormat(packet_in_format(input)?),
        nx::SET_CONTROLLER_ID => {
            input.zeros(6, MUST_BE_ZERO)?;
            Message::SetControllerId(input.u16()?)
        }
        nx::TLV_TABLE_MOD => Message::OptionMod(OptionMod::read(input)?),
        nx::TLV_TABLE_REQUEST => Message::OptionTableRequest,
        nx::TLV_TABLE_REPLY => Message::OptionTable(OptionTable::read(input)?),
        nx::RESUME => Message::Resume(PacketIn::read_nicira(input)?),
        nx::CT_FLUSH_ZONE => {
            input.zeros(6, MUST_BE_ZERO)?;
            Message::CtFlushZone(input.u16()?)
        }
        nx::PACKET_IN2 => Message::PacketIn2(PacketIn::read_nicira(input)?),
        nx::CT_FLUSH => Message::CtFlush(CtFlush::read(input)?),
        kind => return bad_subtype(kind),
    })
}

fn packet_in_format(input: &mut Reader<'_>) -> Result<u32> {
    let format = input.u32()?;
    if !matches!(format, 0 | 2) {
        return refuse("OFPBRC_EPERM", format!("packet-ins have no format {format}"));
    }
    Ok(format)
}

/// The experimenter and type of a message; None: it has none.
fn numbers(codec: Codec, message: &Message) -> Option<(u32, u32)> {
    let v13 = codec.version == Version::V13;
    Some(match message {
        Message::SetPacketInFormat(_) => (NICIRA, nx::SET_PACKET_IN_FORMAT),
        Message::SetControllerId(_) => (NICIRA, nx::SET_CONTROLLER_ID),
        Message::OptionMod(_) => (NICIRA, nx::TLV_TABLE_MOD),
        Message::OptionTableRequest => (NICIRA, nx::TLV_TABLE_REQUEST),
        Message::OptionTable(_) => (NICIRA, nx::TLV_TABLE_REPLY),
        Message::Resume(_) => (NICIRA, nx::RESUME),
        Message::CtFlushZone(_) => (NICIRA, nx::CT_FLUSH_ZONE),
        Message::PacketIn2(_) => (NICIRA, nx::PACKET_IN2),
        Message::CtFlush(_) => (NICIRA, nx::CT_FLUSH),
        Message::FlowMonitorCancel(_) => (ONF, onf::FLOW_MONITOR_CANCEL),
        Message::FlowMonitorPaused => (ONF, onf::FLOW_MONITOR_PAUSED),
        Message::FlowMonitorResumed => (ONF, onf::FLOW_MONITOR_RESUMED),
        Message::RoleStatus(_) if v13 => (ONF, onf::ROLE_STATUS),
        Message::BundleControl(_) if v13 => (ONF, onf::BUNDLE_CONTROL),
        Message::BundleAdd(_) if v13 => (ONF, onf::BUNDLE_ADD),
        _ => return None,
    })
}

/// Writes the experimenter and the type, where a message has them.
pub(super) fn put_numbers(codec: Codec, message: &Message, out: &mut Writer) {
    if let Some((experimenter, kind)) = numbers(codec, message) {
        out.u32(experimenter);
        out.u32(kind);
    }
}

/// Writes a message from the experimenter on.
pub(super) fn put(codec: Codec, message: &Message, out: &mut Writer) {
    put_numbers(codec, message, out);
    match message {
        Message::SetPacketInFormat(number) | Message::FlowMonitorCancel(number) => out.u32(*number),
        Message::SetControllerId(number) | Message::CtFlushZone(number) => {
            out.zeros(6);
            out.u16(*number);
        }
        Message::OptionMod(change) => change.put(out),
        Message::OptionTable(table) => table.put(out),
        Message::Resume(packet) | Message::PacketIn2(packet) => packet.put_nicira(codec, out),
        Message::CtFlush(flush) => flush.put(out),
        Message::RoleStatus(status) => status.put(out),
        Message::BundleControl(control) => control.put(out),
        // The others have no body.
        _ => {}
    }
}
