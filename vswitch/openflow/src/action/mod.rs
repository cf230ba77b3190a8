//! Actions on the wire: OpenFlow's own and Nicira's.
//!
//! Each action is a header (type, length in multiples of 8), for experimenters with the id and a
//! subtype, and a body. `read` and `nicira` read them, `put` and `put_nicira` write them. The order
//! of actions, their places and prerequisites are judged by `vswitch_flow::action`.

mod body;
mod controller;
mod ct;
mod hash;
mod learn;
mod nicira;
mod put;
mod put_nicira;
mod read;
mod set;

pub(crate) use controller::{reason, reason_number};
pub(crate) use put::put_actions;
pub(crate) use read::read_actions;

use crate::Codec;
use crate::oxm::{self, Names, header_by};
use crate::wire::{Reader, Result, Writer, refuse};
use vswitch_flow::action::{PortNo, limits, port};
use vswitch_flow::{Field, Subfield};

const BAD_LEN: &str = "OFPBAC_BAD_LEN";
const BAD_ARGUMENT: &str = "OFPBAC_BAD_ARGUMENT";
/// The action type of experimenters.
const EXPERIMENTER: u16 = 0xffff;

/// Subtypes of Nicira's actions.
mod subtype {
    pub(super) const RESUBMIT: u16 = 1;
    pub(super) const SET_TUNNEL: u16 = 2;
    pub(super) const REG_MOVE: u16 = 6;
    pub(super) const REG_LOAD: u16 = 7;
    pub(super) const NOTE: u16 = 8;
    pub(super) const SET_TUNNEL64: u16 = 9;
    pub(super) const MULTIPATH: u16 = 10;
    pub(super) const BUNDLE: u16 = 12;
    pub(super) const BUNDLE_LOAD: u16 = 13;
    pub(super) const RESUBMIT_TABLE: u16 = 14;
    pub(super) const OUTPUT_REG: u16 = 15;
    pub(super) const LEARN: u16 = 16;
    pub(super) const EXIT: u16 = 17;
    pub(super) const FIN_TIMEOUT: u16 = 19;
    pub(super) const CONTROLLER: u16 = 20;
    pub(super) const DEC_TTL_CNT_IDS: u16 = 21;
    pub(super) const WRITE_METADATA: u16 = 22;
    pub(super) const STACK_PUSH: u16 = 27;
    pub(super) const STACK_POP: u16 = 28;
    pub(super) const SAMPLE: u16 = 29;
    pub(super) const OUTPUT_REG2: u16 = 32;
    pub(super) const REG_LOAD2: u16 = 33;
    pub(super) const CONJUNCTION: u16 = 34;
    pub(super) const CT: u16 = 35;
    pub(super) const NAT: u16 = 36;
    pub(super) const CONTROLLER2: u16 = 37;
    pub(super) const SAMPLE2: u16 = 38;
    pub(super) const OUTPUT_TRUNC: u16 = 39;
    pub(super) const SAMPLE3: u16 = 41;
    pub(super) const CLONE: u16 = 42;
    pub(super) const CT_CLEAR: u16 = 43;
    pub(super) const RESUBMIT_TABLE_CT: u16 = 44;
    pub(super) const LEARN2: u16 = 45;
    pub(super) const CHECK_PKT_LARGER: u16 = 49;
    pub(super) const DELETE_FIELD: u16 = 50;
}

/// Types of OpenFlow's actions.
mod kind {
    pub(super) const OUTPUT: u16 = 0;
    pub(super) const SET_VLAN_VID: u16 = 1;
    pub(super) const SET_TP_SRC: u16 = 9;
    pub(super) const SET_TP_DST: u16 = 10;
    pub(super) const PUSH_VLAN: u16 = 17;
    pub(super) const POP_VLAN: u16 = 18;
    pub(super) const GROUP: u16 = 22;
    pub(super) const SET_NW_TTL: u16 = 23;
    pub(super) const DEC_NW_TTL: u16 = 24;
    pub(super) const SET_FIELD: u16 = 25;
    pub(super) const COPY_FIELD: u16 = 28;
    pub(super) const METER: u16 = 29;
}

/// A port number of 16 bits as one of 32.
pub(crate) const fn port_16(number: u16) -> PortNo {
    if number >= 0xff00 { number as PortNo | 0xffff_0000 } else { number as PortNo }
}

/// The 16-bit form of a port number. Ports have no other numbers.
#[allow(clippy::cast_possible_truncation)] // that is the form
pub(crate) const fn to_port_16(number: PortNo) -> u16 {
    number as u16
}

/// A port number of 32 bits.
pub(crate) fn port_32(number: u32, code: &'static str) -> Result<PortNo> {
    if port::is_physical(number) || number >= 0xffff_ff00 {
        return Ok(number);
    }
    refuse(code, format!("{number:#x} is no port number"))
}

/// Offset and width of a subfield in one number.
const fn ofs_nbits(start: u8, len: u8) -> u16 {
    (start as u16) << 6 | len.saturating_sub(1) as u16
}

#[allow(clippy::cast_possible_truncation)] // 6 bits
const fn bits_of(ofs_nbits: u16) -> (u16, u16) {
    (ofs_nbits >> 6, (ofs_nbits & 0x3f) + 1)
}

/// Bits of the field that a header names.
fn subfield(header: oxm::Header, start: u16, len: u16) -> Result<Subfield> {
    let bits = u16::from(header.bits().max(header.field.named_bits().min(header.bits())));
    if len == 0 || u32::from(start) + u32::from(len) > u32::from(bits) {
        let reason = format!("{} has no {len} bits from bit {start}: it has {bits}", header.field.name());
        return refuse("OFPBAC_BAD_SET_LEN", reason);
    }
    let narrow = |number: u16| u8::try_from(number).unwrap_or(u8::MAX);
    Ok(Subfield { field: header.field, start: narrow(start), len: narrow(len) })
}

/// The header for a subfield in Nicira's actions.
fn subfield_header(codec: Codec, sub: Subfield) -> Result<oxm::Header> {
    header_for(codec, sub.field, sub.start + sub.len, Names::Nxm)
}

/// The header for the lowest bits of a field. `in_port` has a name for 16 bits and one for 32.
fn header_for(codec: Codec, field: Field, bits: u8, names: Names) -> Result<oxm::Header> {
    match field {
        Field::InPort if bits <= 16 => header_by(codec, field, None),
        Field::InPort => header_by(codec, field, Some(codec.version)),
        _ => oxm::header(codec, field, names),
    }
}

/// Reads `ofs_nbits` and the header of a subfield behind it.
fn read_subfield(ofs_nbits: u16, input: &mut Reader<'_>) -> Result<Subfield> {
    let (start, len) = bits_of(ofs_nbits);
    subfield(oxm::read_header(input)?, start, len)
}

/// Writes a header that Nicira's older actions have 4 bytes for. Fields of experimenters have
/// longer ones: none of them has another name.
fn put_short_header(codec: Codec, sub: Subfield, out: &mut Writer) -> Result<()> {
    oxm::put_header(subfield_header(codec, sub)?, out);
    Ok(())
}

/// Writes a list of actions in another.
type PutList = fn(Codec, &[vswitch_flow::Action], &mut Writer) -> Result<()>;

/// How deep actions may be nested.
const MAX_DEPTH: usize = limits::MAX_NESTING;
