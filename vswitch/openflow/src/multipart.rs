//! Multipart messages: requests for statistics and descriptions, and their replies, which may take
//! many messages.

pub(crate) mod reply;
pub(crate) mod request;
mod segments;

pub use reply::{Description, Reply};
pub use request::Request;
pub use segments::Segments;

use crate::error::{NICIRA, ONF};
use crate::wire::{Reader, Result, Writer, refuse};
use crate::{Codec, Version};

/// Types of multipart messages.
mod kind {
    pub(super) const DESCRIPTION: u16 = 0;
    pub(super) const FLOWS: u16 = 1;
    pub(super) const AGGREGATE: u16 = 2;
    pub(super) const TABLES: u16 = 3;
    pub(super) const PORTS: u16 = 4;
    pub(super) const GROUPS: u16 = 6;
    pub(super) const GROUP_DESCRIPTIONS: u16 = 7;
    pub(super) const GROUP_FEATURES: u16 = 8;
    pub(super) const METERS: u16 = 9;
    pub(super) const METER_CONFIGS: u16 = 10;
    pub(super) const METER_FEATURES: u16 = 11;
    pub(super) const TABLE_FEATURES: u16 = 12;
    pub(super) const PORT_DESCRIPTIONS: u16 = 13;
    pub(super) const TABLE_DESCRIPTIONS: u16 = 14;
    pub(super) const FLOW_MONITOR: u16 = 16;
    pub(super) const EXPERIMENTER: u16 = 0xffff;
}

/// ONF's number of the flow monitor for OpenFlow 1.3.
const ONF_FLOW_MONITOR: u32 = 1870;
/// Nicira's numbers of the statistics of IPFIX.
const IPFIX: [u32; 2] = [3, 4];
/// More parts follow.
const MORE: u16 = 1;

/// One message of a multipart request or reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<T> {
    /// More parts of it follow.
    pub more: bool,
    /// What this part has.
    pub body: T,
}

/// Reads the header; an experimenter's type is that of OpenFlow 1.5.
fn read_header(codec: Codec, input: &mut Reader<'_>) -> Result<(u16, bool)> {
    let (mut kind, flags) = (input.u16()?, input.u16()?);
    input.skip(4)?;
    let v13 = codec.version == Version::V13;
    if kind == kind::EXPERIMENTER {
        let (experimenter, subtype) = (input.u32()?, input.u32()?);
        match experimenter {
            ONF if v13 && subtype == ONF_FLOW_MONITOR => kind = kind::FLOW_MONITOR,
            NICIRA if IPFIX.contains(&subtype) => {
                return refuse("NXST_NOT_CONFIGURED", "the switch exports nothing by IPFIX");
            }
            NICIRA | ONF => {
                return refuse("OFPBRC_BAD_SUBTYPE", format!("statistics {subtype} of an experimenter are not served"));
            }
            _ => {
                let reason = format!("statistics of experimenter {experimenter:#x} are not served");
                return refuse("OFPBRC_BAD_VENDOR", reason);
            }
        }
    } else if v13 && kind > kind::PORT_DESCRIPTIONS {
        return bad_kind(kind);
    }
    Ok((kind, flags & MORE != 0))
}

fn bad_kind<T>(kind: u16) -> Result<T> {
    refuse("OFPBRC_BAD_STAT", format!("statistics of type {kind} are not served"))
}

fn put_header(codec: Codec, kind: u16, more: bool, out: &mut Writer) {
    let extension = codec.version == Version::V13 && kind == kind::FLOW_MONITOR;
    out.u16(if extension { kind::EXPERIMENTER } else { kind });
    out.u16(if more { MORE } else { 0 });
    out.u32(0);
    if extension {
        out.u32(ONF);
        out.u32(ONF_FLOW_MONITOR);
    }
}
