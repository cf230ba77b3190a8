//! Messages: header, type, body.

mod nicira;
mod put;

use crate::multipart::{reply, request};
use crate::wire::{Reader, Result, Writer, refusal, refuse};
use crate::{
    AsyncConfig, BundleAdd, BundleControl, Codec, CtFlush, EncodeError, ErrorCode, Failure, Features, FlowMod,
    FlowRemoved, GroupMod, Hello, MeterMod, OptionMod, OptionTable, PacketIn, PacketOut, Part, PortMod, PortStatus,
    Reply, Request, RoleMessage, RoleStatus, SwitchConfig, TableMod, Version,
};

/// Bytes of a header.
pub(crate) const HEADER: usize = 8;
/// Bytes of the headers of a multipart message; an experimenter's has 8 more.
pub(crate) const MULTIPART_HEADER: usize = 24;
/// Most bytes of a message.
pub(crate) const MAX: usize = 0xffff;
const BAD_LEN: &str = "OFPBRC_BAD_LEN";

/// Types of messages.
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 0;
    pub(crate) const ERROR: u8 = 1;
    pub(crate) const ECHO_REQUEST: u8 = 2;
    pub(crate) const ECHO_REPLY: u8 = 3;
    pub(crate) const EXPERIMENTER: u8 = 4;
    pub(crate) const FEATURES_REQUEST: u8 = 5;
    pub(crate) const FEATURES_REPLY: u8 = 6;
    pub(crate) const GET_CONFIG_REQUEST: u8 = 7;
    pub(crate) const GET_CONFIG_REPLY: u8 = 8;
    pub(crate) const SET_CONFIG: u8 = 9;
    pub(crate) const PACKET_IN: u8 = 10;
    pub(crate) const FLOW_REMOVED: u8 = 11;
    pub(crate) const PORT_STATUS: u8 = 12;
    pub(crate) const PACKET_OUT: u8 = 13;
    pub(crate) const FLOW_MOD: u8 = 14;
    pub(crate) const GROUP_MOD: u8 = 15;
    pub(crate) const PORT_MOD: u8 = 16;
    pub(crate) const TABLE_MOD: u8 = 17;
    pub(crate) const MULTIPART_REQUEST: u8 = 18;
    pub(crate) const MULTIPART_REPLY: u8 = 19;
    pub(crate) const BARRIER_REQUEST: u8 = 20;
    pub(crate) const BARRIER_REPLY: u8 = 21;
    pub(crate) const ROLE_REQUEST: u8 = 24;
    pub(crate) const ROLE_REPLY: u8 = 25;
    pub(crate) const GET_ASYNC_REQUEST: u8 = 26;
    pub(crate) const GET_ASYNC_REPLY: u8 = 27;
    pub(crate) const SET_ASYNC: u8 = 28;
    pub(crate) const METER_MOD: u8 = 29;
    pub(crate) const ROLE_STATUS: u8 = 30;
    pub(crate) const BUNDLE_CONTROL: u8 = 33;
    pub(crate) const BUNDLE_ADD: u8 = 34;
}

/// A message with the number that its answer bears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Chosen by who asks.
    pub xid: u32,
    /// The message.
    pub message: Message,
}

/// Says that something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// What.
    pub code: ErrorCode,
    /// The beginning of the message that is wrong.
    pub data: Vec<u8>,
}

impl ErrorMessage {
    /// Bytes of the wrong message that fit. Open vSwitch sends all of it.
    pub const MAX_DATA: usize = MAX - HEADER - 8;

    fn read(input: &mut Reader<'_>) -> Result<Self> {
        const EXPERIMENTER: u16 = 0xffff;
        let (kind, code) = (input.u16()?, input.u16()?);
        let experimenter = if kind == EXPERIMENTER { input.u32()? } else { 0 };
        Ok(Self { code: ErrorCode { experimenter, kind, code }, data: input.rest().to_vec() })
    }

    fn put(&self, out: &mut Writer) {
        let ErrorCode { experimenter, kind, code } = self.code;
        out.u16(kind);
        out.u16(code);
        if kind == 0xffff {
            out.u32(experimenter);
        }
        out.bytes(&self.data);
    }
}

/// A message, by OpenFlow's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // OpenFlow's names
pub enum Message {
    Hello(Hello),
    Error(ErrorMessage),
    EchoRequest(Vec<u8>),
    EchoReply(Vec<u8>),
    FeaturesRequest,
    FeaturesReply(Features),
    GetConfigRequest,
    GetConfigReply(SwitchConfig),
    SetConfig(SwitchConfig),
    PacketIn(PacketIn),
    FlowRemoved(FlowRemoved),
    PortStatus(PortStatus),
    PacketOut(PacketOut),
    FlowMod(FlowMod),
    GroupMod(GroupMod),
    PortMod(PortMod),
    TableMod(TableMod),
    MeterMod(MeterMod),
    MultipartRequest(Part<Request>),
    MultipartReply(Part<Reply>),
    BarrierRequest,
    BarrierReply,
    RoleRequest(RoleMessage),
    RoleReply(RoleMessage),
    RoleStatus(RoleStatus),
    GetAsyncRequest,
    GetAsyncReply(AsyncConfig),
    SetAsync(AsyncConfig),
    BundleControl(BundleControl),
    BundleAdd(BundleAdd),
    /// Nicira's packet-in, with userdata and continuation.
    PacketIn2(PacketIn),
    /// A packet-in goes back: the switch goes on with the packet.
    Resume(PacketIn),
    /// 0: packet-ins of OpenFlow, 2: those of Nicira.
    SetPacketInFormat(u32),
    /// Which `controller(id=N)` this connection gets.
    SetControllerId(u16),
    OptionMod(OptionMod),
    OptionTableRequest,
    OptionTable(OptionTable),
    CtFlushZone(u16),
    CtFlush(CtFlush),
    /// Ends a monitor. In OpenFlow 1.3, as the next two; in 1.5 they are multipart messages.
    FlowMonitorCancel(u32),
    FlowMonitorPaused,
    FlowMonitorResumed,
}

/// What a header says.
pub(crate) struct Header {
    pub(crate) version: u8,
    pub(crate) kind: u8,
    pub(crate) len: u16,
    pub(crate) xid: u32,
}

/// The header of a message; None: there are not enough bytes.
pub(crate) fn header(bytes: &[u8]) -> Option<Header> {
    let bytes = bytes.first_chunk::<HEADER>()?;
    Some(Header {
        version: bytes[0],
        kind: bytes[1],
        len: u16::from_be_bytes([bytes[2], bytes[3]]),
        xid: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
    })
}

/// Whether messages of a type take effect together with others.
pub(crate) const fn may_be_bundled(kind: u8) -> bool {
    matches!(kind, kind::FLOW_MOD | kind::GROUP_MOD | kind::PORT_MOD | kind::PACKET_OUT)
}

pub(crate) fn decode(codec: Codec, bytes: &[u8]) -> std::result::Result<Envelope, Failure> {
    let Some(header) = header(bytes) else {
        let refusal = refusal(BAD_LEN, format!("a message of {} bytes has no header", bytes.len()));
        return Err(Failure { xid: 0, refusal });
    };
    let fail = |refusal| Failure { xid: header.xid, refusal };
    if usize::from(header.len) != bytes.len() {
        return Err(fail(refusal(
            BAD_LEN,
            format!("a message of {} bytes says that it has {}", bytes.len(), header.len),
        )));
    }
    // A hello of any version, and an error about it, are understood.
    if header.version != codec.version.number() && !matches!(header.kind, kind::HELLO | kind::ERROR) {
        return Err(fail(refusal("OFPBRC_BAD_VERSION", format!("version {} is not spoken here", header.version))));
    }
    let message = read(codec, &header, Reader::new(&bytes[HEADER..], BAD_LEN)).map_err(fail)?;
    Ok(Envelope { xid: header.xid, message })
}

fn read(codec: Codec, header: &Header, mut input: Reader<'_>) -> Result<Message> {
    let input = &mut input;
    let v15 = codec.version == Version::V15;
    let message = match header.kind {
        kind::HELLO => Message::Hello(Hello::read(input)),
        kind::ERROR => Message::Error(ErrorMessage::read(input)?),
        kind::ECHO_REQUEST => Message::EchoRequest(input.rest().to_vec()),
        kind::ECHO_REPLY => Message::EchoReply(input.rest().to_vec()),
        kind::EXPERIMENTER => nicira::read(codec, header.xid, input)?,
        kind::FEATURES_REQUEST => Message::FeaturesRequest,
        kind::FEATURES_REPLY => Message::FeaturesReply(Features::read(input)?),
        kind::GET_CONFIG_REQUEST => Message::GetConfigRequest,
        kind::GET_CONFIG_REPLY => Message::GetConfigReply(SwitchConfig::read(input)?),
        kind::SET_CONFIG => Message::SetConfig(SwitchConfig::read(input)?),
        kind::PACKET_IN => Message::PacketIn(PacketIn::read(input)?),
        kind::FLOW_REMOVED => Message::FlowRemoved(FlowRemoved::read(codec, input)?),
        kind::PORT_STATUS => Message::PortStatus(PortStatus::read(codec, input)?),
        kind::PACKET_OUT => Message::PacketOut(PacketOut::read(codec, input)?),
        kind::FLOW_MOD => Message::FlowMod(FlowMod::read(codec, input)?),
        kind::GROUP_MOD => Message::GroupMod(GroupMod::read(codec, input)?),
        kind::PORT_MOD => Message::PortMod(PortMod::read(codec, input)?),
        kind::TABLE_MOD => Message::TableMod(TableMod::read(input)?),
        kind::METER_MOD => Message::MeterMod(MeterMod::read(input)?),
        kind::MULTIPART_REQUEST => Message::MultipartRequest(request::read(codec, input)?),
        kind::MULTIPART_REPLY => Message::MultipartReply(reply::read(codec, input)?),
        kind::BARRIER_REQUEST => Message::BarrierRequest,
        kind::BARRIER_REPLY => Message::BarrierReply,
        kind::ROLE_REQUEST => Message::RoleRequest(RoleMessage::read(input)?),
        kind::ROLE_REPLY => Message::RoleReply(RoleMessage::read(input)?),
        kind::ROLE_STATUS if v15 => Message::RoleStatus(RoleStatus::read(input)?),
        kind::GET_ASYNC_REQUEST => Message::GetAsyncRequest,
        kind::GET_ASYNC_REPLY => Message::GetAsyncReply(AsyncConfig::read(codec, input)?),
        kind::SET_ASYNC => Message::SetAsync(AsyncConfig::read(codec, input)?),
        kind::BUNDLE_CONTROL if v15 => Message::BundleControl(BundleControl::read(input)?),
        kind::BUNDLE_ADD if v15 => Message::BundleAdd(BundleAdd::read(codec, header.xid, input)?),
        kind => return refuse("OFPBRC_BAD_TYPE", format!("messages of type {kind} are not served")),
    };
    input.end()?;
    Ok(message)
}

pub(crate) fn encode(codec: Codec, envelope: &Envelope) -> std::result::Result<Vec<u8>, EncodeError> {
    encode_one(codec, envelope.xid, &envelope.message)
}

pub(crate) fn encode_one(codec: Codec, xid: u32, message: &Message) -> std::result::Result<Vec<u8>, EncodeError> {
    let mut out = Writer::default();
    put_header(codec, put::number(codec.version, message), xid, &mut out);
    if let Message::BundleAdd(add) = message {
        nicira::put_numbers(codec, message, &mut out);
        add.put(codec, xid, &mut out)?;
    } else {
        put::put(codec, message, &mut out)?;
    }
    finish(out)
}

pub(crate) fn put_header(codec: Codec, kind: u8, xid: u32, out: &mut Writer) {
    out.u8(codec.version.number());
    out.u8(kind);
    out.u16(0);
    out.u32(xid);
}

/// Writes the length into the header.
pub(crate) fn finish(mut out: Writer) -> std::result::Result<Vec<u8>, EncodeError> {
    if out.len() > MAX {
        return Err(EncodeError::TooLong(out.len()));
    }
    out.length(2, 0);
    Ok(out.0)
}
