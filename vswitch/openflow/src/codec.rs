//! Messages to and from bytes.

mod nicira;
mod put;

use crate::header::{HEADER, Header, finish, header, kind, put_header};
use crate::multipart::{reply, request};
use crate::wire::{Reader, Result, Writer, refusal, refuse};
use crate::{
    AsyncConfig, BundleAdd, BundleControl, Codec, EncodeError, Envelope, ErrorMessage, Failure, Features, FlowMod,
    FlowRemoved, GroupMod, Hello, Message, MeterMod, PacketIn, PacketOut, PortMod, PortStatus, RoleMessage, RoleStatus,
    SwitchConfig, TableMod, Version,
};

const BAD_LEN: &str = "OFPBRC_BAD_LEN";

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

/// A message in a bundle.
fn decode_message(codec: Codec, bytes: &[u8]) -> Result<Message> {
    decode(codec, bytes).map(|envelope| envelope.message).map_err(|failure| failure.refusal)
}

fn read(codec: Codec, header: &Header, mut input: Reader<'_>) -> Result<Message> {
    let input = &mut input;
    let v15 = codec.version == Version::V15;
    let message = match header.kind {
        kind::HELLO => Message::Hello(Hello::read(input)),
        kind::ERROR => Message::Error(ErrorMessage::read(input)?),
        kind::ECHO_REQUEST => Message::EchoRequest(input.rest().to_vec()),
        kind::ECHO_REPLY => Message::EchoReply(input.rest().to_vec()),
        kind::EXPERIMENTER => nicira::read(codec, header.xid, decode_message, input)?,
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
        kind::BUNDLE_ADD if v15 => Message::BundleAdd(BundleAdd::read(codec, header.xid, decode_message, input)?),
        kind => return refuse("OFPBRC_BAD_TYPE", format!("messages of type {kind} are not served")),
    };
    input.end()?;
    Ok(message)
}

pub(crate) fn encode(codec: Codec, envelope: &Envelope) -> std::result::Result<Vec<u8>, EncodeError> {
    encode_one(codec, envelope.xid, &envelope.message)
}

fn encode_one(codec: Codec, xid: u32, message: &Message) -> std::result::Result<Vec<u8>, EncodeError> {
    let mut out = Writer::default();
    put_header(codec, put::number(codec.version, message), xid, &mut out);
    if let Message::BundleAdd(add) = message {
        nicira::put_numbers(codec, message, &mut out);
        add.put(&encode_one(codec, xid, &add.message)?, &mut out);
    } else {
        put::put(codec, message, &mut out)?;
    }
    finish(out)
}
