//! Writes messages of OpenFlow itself.

use super::nicira;
use crate::header::kind;
use crate::multipart::{reply, request};
use crate::wire::{Result, Writer};
use crate::{Codec, Message, Version};

/// The type of a message in a version.
pub(super) const fn number(version: Version, message: &Message) -> u8 {
    let v13 = matches!(version, Version::V13);
    match message {
        Message::Hello(_) => kind::HELLO,
        Message::Error(_) => kind::ERROR,
        Message::EchoRequest(_) => kind::ECHO_REQUEST,
        Message::EchoReply(_) => kind::ECHO_REPLY,
        Message::FeaturesRequest => kind::FEATURES_REQUEST,
        Message::FeaturesReply(_) => kind::FEATURES_REPLY,
        Message::GetConfigRequest => kind::GET_CONFIG_REQUEST,
        Message::GetConfigReply(_) => kind::GET_CONFIG_REPLY,
        Message::SetConfig(_) => kind::SET_CONFIG,
        Message::PacketIn(_) => kind::PACKET_IN,
        Message::FlowRemoved(_) => kind::FLOW_REMOVED,
        Message::PortStatus(_) => kind::PORT_STATUS,
        Message::PacketOut(_) => kind::PACKET_OUT,
        Message::FlowMod(_) => kind::FLOW_MOD,
        Message::GroupMod(_) => kind::GROUP_MOD,
        Message::PortMod(_) => kind::PORT_MOD,
        Message::TableMod(_) => kind::TABLE_MOD,
        Message::MeterMod(_) => kind::METER_MOD,
        Message::MultipartRequest(_) => kind::MULTIPART_REQUEST,
        Message::MultipartReply(_) => kind::MULTIPART_REPLY,
        Message::BarrierRequest => kind::BARRIER_REQUEST,
        Message::BarrierReply => kind::BARRIER_REPLY,
        Message::RoleRequest(_) => kind::ROLE_REQUEST,
        Message::RoleReply(_) => kind::ROLE_REPLY,
        Message::RoleStatus(_) if v13 => kind::EXPERIMENTER,
        Message::RoleStatus(_) => kind::ROLE_STATUS,
        Message::GetAsyncRequest => kind::GET_ASYNC_REQUEST,
        Message::GetAsyncReply(_) => kind::GET_ASYNC_REPLY,
        Message::SetAsync(_) => kind::SET_ASYNC,
        Message::BundleControl(_) if !v13 => kind::BUNDLE_CONTROL,
        Message::BundleAdd(_) if !v13 => kind::BUNDLE_ADD,
        _ => kind::EXPERIMENTER,
    }
}

/// Writes what is behind the header.
pub(super) fn put(codec: Codec, message: &Message, out: &mut Writer) -> Result<()> {
    match message {
        Message::Hello(hello) => hello.put(out),
        Message::Error(error) => error.put(out),
        Message::EchoRequest(data) | Message::EchoReply(data) => out.bytes(data),
        Message::FeaturesReply(features) => features.put(out),
        Message::GetConfigReply(config) | Message::SetConfig(config) => config.put(out),
        Message::PacketIn(packet) => packet.put(codec, out),
        Message::FlowRemoved(removed) => removed.put(codec, out),
        Message::PortStatus(status) => status.put(codec, out),
        Message::PacketOut(packet) => return packet.put(codec, out),
        Message::FlowMod(change) => return change.put(codec, out),
        Message::GroupMod(change) => return change.put(codec, out),
        Message::PortMod(change) => change.put(codec, out),
        Message::TableMod(change) => change.put(codec, out),
        Message::MeterMod(change) => change.put(out),
        Message::MultipartRequest(part) => request::put(codec, part, out),
        Message::MultipartReply(part) => return reply::put(codec, part, out),
        Message::RoleRequest(role) | Message::RoleReply(role) => role.put(out),
        Message::GetAsyncReply(config) | Message::SetAsync(config) => config.put(codec, out),
        Message::FeaturesRequest
        | Message::GetConfigRequest
        | Message::BarrierRequest
        | Message::BarrierReply
        | Message::GetAsyncRequest => {}
        message => nicira::put(codec, message, out),
    }
    Ok(())
}
