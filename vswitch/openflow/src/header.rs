//! Headers of messages, and the types in them.

use crate::wire::Writer;
use crate::{Codec, EncodeError};

/// Bytes of a header.
pub(crate) const HEADER: usize = 8;
/// Bytes of the headers of a multipart message; an experimenter's has 8 more.
pub(crate) const MULTIPART_HEADER: usize = 24;
/// Most bytes of a message.
pub(crate) const MAX: usize = 0xffff;
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

pub(crate) fn put_header(codec: Codec, kind: u8, xid: u32, out: &mut Writer) {
    out.u8(codec.version.number());
    out.u8(kind);
    out.u16(0);
    out.u32(xid);
}

/// Writes the length into the header.
pub(crate) fn finish(mut out: Writer) -> Result<Vec<u8>, EncodeError> {
    if out.len() > MAX {
        return Err(EncodeError::TooLong(out.len()));
    }
    out.length(2, 0);
    Ok(out.0)
}
