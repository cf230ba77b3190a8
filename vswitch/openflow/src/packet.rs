//! Packets from and to controllers.

use crate::action::{port_32, put_actions, read_actions, reason, reason_number};
use crate::flow::{NO_BUFFER, of_check};
use crate::property::{properties, put_property, put_u64};
use crate::wire::{Reader, Result, Writer, refuse};
use crate::{Codec, Version, oxm};
use std::sync::Arc;
use vswitch_flow::action::{CheckContext, ListPlace, Reason, accept};
use vswitch_flow::{Action, Field, FlowKey, FlowMask, SparseMatch};

/// Properties of a packet-in of Nicira.
mod kind {
    pub(super) const PACKET: u16 = 0;
    pub(super) const FULL_LEN: u16 = 1;
    pub(super) const BUFFER_ID: u16 = 2;
    pub(super) const TABLE_ID: u16 = 3;
    pub(super) const COOKIE: u16 = 4;
    pub(super) const REASON: u16 = 5;
    pub(super) const METADATA: u16 = 6;
    pub(super) const USERDATA: u16 = 7;
    pub(super) const CONTINUATION: u16 = 8;
}

/// The cookie of no flow.
const NO_COOKIE: u64 = u64::MAX;
/// The table of no flow.
const NO_TABLE: u8 = u8::MAX;

/// A packet for a controller. As a resume it goes back to the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketIn {
    /// The packet, or its beginning.
    pub packet: Vec<u8>,
    /// Bytes of the whole packet, where that is more.
    pub full_len: Option<u32>,
    /// Where the packet is buffered. Only in packet-ins of OpenFlow.
    pub buffer_id: Option<u32>,
    /// The table of the flow that sent it.
    pub table: Option<u8>,
    /// The cookie of that flow.
    pub cookie: Option<u64>,
    /// Why it was sent.
    pub reason: Reason,
    /// What else is known of the packet.
    pub metadata: Arc<SparseMatch>,
    /// Of the action that sent it. Only in those of Nicira, as the next.
    pub userdata: Vec<u8>,
    /// What the switch needs to go on with the packet: its own bytes.
    pub continuation: Vec<u8>,
}

/// A packet-out's is one of OpenFlow 1.4, and no packet-in of 1.3 says so.
const fn sent_reason(codec: Codec, reason: Reason) -> u8 {
    match (codec.version, reason) {
        (Version::V13, Reason::ActionSet | Reason::Group | Reason::PacketOut) => 1,
        (_, reason) => reason_number(reason),
    }
}

impl PacketIn {
    /// Reads one of OpenFlow.
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let (buffer, total, number, table) = (input.u32()?, input.u16()?, input.u8()?, input.u8()?);
        let cookie = input.u64()?;
        let metadata = oxm::read_metadata(input)?.into();
        input.skip(2)?;
        let packet = input.rest().to_vec();
        Ok(Self {
            full_len: Some(u32::from(total)).filter(|total| *total as usize != packet.len()),
            packet,
            buffer_id: (buffer != NO_BUFFER).then_some(buffer),
            table: (table != NO_TABLE).then_some(table),
            cookie: (cookie != NO_COOKIE).then_some(cookie),
            reason: reason(number, "NXBRC_BAD_REASON")?,
            metadata,
            ..Self::default()
        })
    }

    /// Writes one of OpenFlow.
    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) {
        let total = self.full_len.unwrap_or_else(|| u32::try_from(self.packet.len()).unwrap_or(u32::MAX));
        out.u32(self.buffer_id.unwrap_or(NO_BUFFER));
        out.u16(u16::try_from(total).unwrap_or(u16::MAX));
        out.u8(sent_reason(codec, self.reason));
        out.u8(self.table.unwrap_or(NO_TABLE));
        out.u64(self.cookie.unwrap_or(NO_COOKIE));
        oxm::put_matching(codec, &self.metadata, out);
        out.zeros(2);
        out.bytes(&self.packet);
    }

    /// Reads one of Nicira (`NXT_PACKET_IN2`), or a resume.
    pub(crate) fn read_nicira(input: &mut Reader<'_>) -> Result<Self> {
        let mut packet_in = Self::default();
        for property in properties(Reader::new(input.rest(), "OFPBPC_BAD_LEN")) {
            let mut property = property?;
            let data = &mut property.data;
            match property.kind {
                kind::PACKET => packet_in.packet = data.rest().to_vec(),
                kind::FULL_LEN => packet_in.full_len = Some(property.number_u32()?),
                kind::BUFFER_ID => packet_in.buffer_id = Some(property.number_u32()?),
                kind::TABLE_ID => packet_in.table = Some(property.number_u8()?),
                kind::COOKIE => packet_in.cookie = Some(property.number_u64()?),
                kind::REASON => packet_in.reason = reason(property.number_u8()?, "NXBRC_BAD_REASON")?,
                kind::METADATA => packet_in.metadata = oxm::list(data)?.into(),
                kind::USERDATA => packet_in.userdata = data.rest().to_vec(),
                kind::CONTINUATION => {
                    data.skip(4)?;
                    packet_in.continuation = data.rest().to_vec();
                }
                other => return refuse("OFPBPC_BAD_TYPE", format!("packet-ins have no property {other}")),
            }
        }
        Ok(packet_in)
    }

    /// Writes one of Nicira, or a resume.
    pub(crate) fn put_nicira(&self, codec: Codec, out: &mut Writer) {
        put_property(kind::PACKET, &self.packet, out);
        if let Some(len) = self.full_len {
            put_property(kind::FULL_LEN, &len.to_be_bytes(), out);
        }
        if let Some(buffer) = self.buffer_id {
            put_property(kind::BUFFER_ID, &buffer.to_be_bytes(), out);
        }
        if let Some(table) = self.table {
            put_property(kind::TABLE_ID, &[table], out);
        }
        if let Some(cookie) = self.cookie {
            put_u64(kind::COOKIE, cookie, out);
        }
        put_property(kind::REASON, &[sent_reason(codec, self.reason)], out);
        let mut metadata = Writer::default();
        oxm::put_list(codec, &self.metadata, &mut metadata);
        put_property(kind::METADATA, &metadata.0, out);
        if !self.continuation.is_empty() {
            put_property(kind::CONTINUATION, &[&[0; 4], &*self.continuation].concat(), out);
        }
        if !self.userdata.is_empty() {
            put_property(kind::USERDATA, &self.userdata, out);
        }
    }
}

/// Sends a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// A packet that the switch has buffered. None are: it is refused.
    pub buffer_id: u32,
    /// Where it comes from, and in OpenFlow 1.5 what else is known of it.
    pub metadata: Arc<SparseMatch>,
    /// What is done with it.
    pub actions: Arc<[Action]>,
    /// The packet.
    pub packet: Vec<u8>,
}

impl PacketOut {
    /// Its actions, checked and in their normal form.
    ///
    /// # Errors
    /// What Open vSwitch refuses of it.
    pub fn accepted(&self) -> Result<Vec<Action>> {
        if self.buffer_id != NO_BUFFER {
            let reason = format!("there is no buffered packet {:#x}: the switch buffers none", self.buffer_id);
            return refuse("OFPBRC_BUFFER_UNKNOWN", reason);
        }
        let context = CheckContext { matching: None, place: ListPlace::PacketOut };
        accept(self.actions.to_vec(), &context).map_err(of_check)
    }

    pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Self> {
        let buffer_id = input.u32()?;
        let (metadata, len) = if codec.version == Version::V13 {
            let port = port_32(input.u32()?, "OFPBRC_BAD_PORT")?;
            let len = input.u16()?;
            input.skip(6)?;
            (of_port(port), len)
        } else {
            let len = input.u16()?;
            input.skip(2)?;
            (oxm::read_metadata(input)?, len)
        };
        let actions = read_actions(codec, &mut input.part(len.into(), "OFPBRC_BAD_LEN")?)?;
        let packet = input.rest().to_vec();
        Ok(Self { buffer_id, metadata: metadata.into(), actions: actions.into(), packet })
    }

    #[allow(clippy::cast_possible_truncation)] // 32 bits
    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) -> Result<()> {
        out.u32(self.buffer_id);
        let (at, start);
        if codec.version == Version::V13 {
            out.u32(self.metadata.get(Field::InPort).0 as u32);
            at = out.len();
            out.zeros(8);
            start = out.len();
        } else {
            at = out.len();
            out.u32(0);
            oxm::put_matching(codec, &self.metadata, out);
            start = out.len();
        }
        put_actions(codec, &self.actions, out)?;
        out.length(at, start);
        out.bytes(&self.packet);
        Ok(())
    }
}

/// A packet of which only the port is known.
fn of_port(port: u32) -> SparseMatch {
    let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
    key.set(Field::InPort, port.into());
    mask.add(Field::InPort);
    SparseMatch::new(&key, &mask)
}
