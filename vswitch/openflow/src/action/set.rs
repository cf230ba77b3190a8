//! Writes what sets fields: `set_field`, and in OpenFlow 1.3 loads where a part of a field is set.

use super::{EXPERIMENTER, kind, ofs_nbits, put_short_header, subtype};
use crate::error::NICIRA;
use crate::oxm::{self, Entry, Names, header_by, put_entry, put_entry_as};
use crate::wire::{Result, Writer};
use crate::{Codec, Version};
use vswitch_flow::{Field, Subfield};

/// Writes one action, or several if it takes them.
pub(super) fn put(codec: Codec, entry: Entry, out: &mut Writer) -> Result<()> {
    let Entry { field, value, mask } = entry;
    let whole = mask & field.exact_mask() == field.exact_mask();
    match field {
        // OpenFlow 1.1 has actions for ports of whatever protocol.
        Field::TpSrc | Field::TpDst => {
            let start = begin(if field == Field::TpSrc { kind::SET_TP_SRC } else { kind::SET_TP_DST }, out);
            out.number(value, 2);
            end(start, out);
            Ok(())
        }
        _ if codec.version == Version::V15 || whole => {
            let start = begin(kind::SET_FIELD, out);
            put_set_entry(codec, entry, Names::Version, out)?;
            end(start, out);
            Ok(())
        }
        _ => loads(codec, entry, out),
    }
}

fn begin(kind: u16, out: &mut Writer) -> usize {
    let start = out.len();
    out.u16(kind);
    out.u16(0);
    start
}

fn begin_nicira(subtype: u16, out: &mut Writer) -> usize {
    let start = begin(EXPERIMENTER, out);
    out.u32(NICIRA);
    out.u16(subtype);
    start
}

fn end(start: usize, out: &mut Writer) {
    out.pad(start);
    out.length(start + 2, start);
}

fn put_set_entry(codec: Codec, entry: Entry, names: Names, out: &mut Writer) -> Result<()> {
    if entry.field != Field::InPort {
        return put_entry(codec, entry, names, out);
    }
    // By its name of 16 bits, as Open vSwitch sends it, if they suffice.
    let short = entry.mask == Field::InPort.exact_mask() || entry.mask >> 16 == 0;
    let version = if short { None } else { Some(codec.version) };
    put_entry_as(header_by(codec, Field::InPort, version)?, entry, out);
    Ok(())
}

/// Loads of the bits that a mask selects: one action for each run of up to 64 of them.
fn loads(codec: Codec, entry: Entry, out: &mut Writer) -> Result<()> {
    let Entry { field, value, mask } = entry;
    let is_option = (Field::TunMetadata0..=Field::TunMetadata7).contains(&field);
    if is_option || !oxm::header(codec, field, Names::Nxm)?.is_short() {
        let start = begin_nicira(subtype::REG_LOAD2, out);
        put_set_entry(codec, entry, Names::Nxm, out)?;
        end(start, out);
        return Ok(());
    }
    // A VLAN ID is 12 bits here. The switch sets the present bit above them.
    let mut rest = if field == Field::VlanVid { mask & 0xfff } else { mask };
    while rest != 0 {
        let first = rest.trailing_zeros();
        let len = (rest >> first).trailing_ones().min(64);
        let ones = u128::from(u64::MAX >> (64 - len)) << first;
        rest &= !ones;
        let start = begin_nicira(subtype::REG_LOAD, out);
        let to = subfield(field, first, len);
        out.u16(ofs_nbits(to.start, to.len));
        put_short_header(codec, to, out)?;
        out.number((value & ones) >> first, 8);
        end(start, out);
    }
    Ok(())
}

#[allow(clippy::cast_possible_truncation)] // at most 128
const fn subfield(field: Field, start: u32, len: u32) -> Subfield {
    Subfield { field, start: start as u8, len: len as u8 }
}
