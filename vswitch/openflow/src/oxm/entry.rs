//! Entries and headers.

use super::table::{self, EXPERIMENTER, Header};
use crate::error::ONF;
use crate::wire::{Reader, Result, Writer, refusal, refuse};
use crate::{Codec, Version};
use vswitch_flow::action::port;
use vswitch_flow::{Field, Refusal};

/// Which names fields go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Those of the codec's version.
    Version,
    /// The same, in a match.
    Match,
    /// Those of NXM, where there are any: in Nicira's actions.
    Nxm,
}

/// A value and a mask of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) field: Field,
    pub(crate) value: u128,
    /// [`Field::exact_mask`] where the entry has none.
    pub(crate) mask: u128,
}

/// The header of a field.
///
/// # Errors
/// When the field has no name in OpenFlow.
pub(crate) fn header(codec: Codec, field: Field, names: Names) -> Result<Header> {
    let version = match names {
        Names::Version | Names::Match => Some(codec.version),
        Names::Nxm => None,
    };
    header_by(codec, field, version)
}

/// The same by the names of a version.
pub(crate) fn header_by(codec: Codec, field: Field, version: Option<Version>) -> Result<Header> {
    let mut header = table::header(field, version)
        .ok_or_else(|| refusal("OFPBMC_BAD_FIELD", format!("{} has no name in OpenFlow", field.name())))?;
    if let Some(bytes) = codec.option_bytes(field) {
        header.bytes = bytes;
    }
    Ok(header)
}

fn put_raw(header: Header, masked: bool, bytes: u8, out: &mut Writer) {
    out.u16(header.class);
    out.u8(header.number << 1 | u8::from(masked));
    let experimenter = header.class == EXPERIMENTER;
    out.u8(bytes * if masked { 2 } else { 1 } + if experimenter { 4 } else { 0 });
    if experimenter {
        out.u32(ONF);
    }
}

/// Writes a header without a value.
pub(crate) fn put_header(header: Header, out: &mut Writer) {
    put_raw(header, false, header.bytes, out);
}

/// Writes a header that stands for a field, and for its masks if it can have them.
pub(crate) fn put_field(header: Header, masked: bool, out: &mut Writer) {
    // An option that is not mapped has more bytes than a header with a mask can say.
    put_raw(header, masked && !is_option(header.field), header.bytes, out);
}

/// Writes an entry; with a mask if that is not the whole field.
pub(crate) fn put_entry(codec: Codec, entry: Entry, names: Names, out: &mut Writer) -> Result<()> {
    let Entry { field, value, mask } = entry;
    let mut header = header(codec, field, names)?;
    if is_option(field) {
        // In actions as many bytes as it takes, in matches as many as the option has.
        let needed = needed_bytes(value | if is_masked(entry) { mask } else { 0 }).max(1);
        let mapped = codec.option_bytes(field).filter(|_| names == Names::Match);
        header.bytes = mapped.unwrap_or(1).max(needed);
    }
    put_entry_as(header, entry, out);
    Ok(())
}

const fn is_masked(entry: Entry) -> bool {
    let exact = match entry.field {
        // Open vSwitch names the bits that it knows.
        Field::CtState => u32::MAX as u128,
        field => field.exact_mask(),
    };
    entry.mask & exact != exact
}

/// Writes an entry by a name of its field.
pub(crate) fn put_entry_as(header: Header, entry: Entry, out: &mut Writer) {
    let Entry { value, mask, .. } = entry;
    let masked = is_masked(entry);
    put_raw(header, masked, header.bytes, out);
    out.number(value, header.bytes.into());
    if masked {
        out.number(mask, header.bytes.into());
    }
}

fn is_option(field: Field) -> bool {
    (Field::TunMetadata0..=Field::TunMetadata7).contains(&field)
}

#[allow(clippy::cast_possible_truncation)] // at most 16
const fn needed_bytes(value: u128) -> u8 {
    (128 - value.leading_zeros()).div_ceil(8) as u8
}

/// What a header says before it is known whether the field exists.
struct Raw {
    class: u16,
    number: u8,
    masked: bool,
    /// Bytes behind the header and the experimenter.
    len: u8,
    experimenter: u32,
}

fn read_raw(input: &mut Reader<'_>) -> Result<Raw> {
    let (class, number, len) = (input.u16()?, input.u8()?, input.u8()?);
    let mut raw = Raw { class, number: number >> 1, masked: number & 1 != 0, len, experimenter: 0 };
    if class == EXPERIMENTER {
        if len < 4 {
            return refuse("OFPBMC_BAD_LEN", format!("an experimenter's field of {len} bytes"));
        }
        raw.experimenter = input.u32()?;
        raw.len -= 4;
    }
    Ok(raw)
}

fn known(raw: &Raw) -> Result<Header> {
    let Raw { class, number, experimenter, .. } = *raw;
    let (field, bytes) = table::by_number(class, number, experimenter)
        .ok_or_else(|| refusal("OFPBMC_BAD_FIELD", format!("no field is number {number} of class {class:#06x}")))?;
    Ok(Header { field, class, number, bytes })
}

/// A header without a value.
pub(crate) fn read_header(input: &mut Reader<'_>) -> Result<Header> {
    let raw = read_raw(input)?;
    let header = known(&raw)?;
    if raw.masked || raw.len != header.bytes && !is_option(header.field) {
        return refuse("OFPBAC_BAD_SET_LEN", format!("a header of {} with another length", header.field.name()));
    }
    Ok(header)
}

/// An entry: a value, and a mask if there is one. The inner error: the field is not known, and its
/// bytes are skipped.
pub(crate) fn read_entry(input: &mut Reader<'_>) -> Result<std::result::Result<Entry, Refusal>> {
    let raw = read_raw(input)?;
    let mut body = input.part(raw.len.into(), "OFPBMC_BAD_LEN")?;
    let header = match known(&raw) {
        Ok(header) => header,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let bytes = value_bytes(&raw, header)?;
    let value = body.number(bytes)?;
    let mask = if raw.masked { body.number(bytes)? } else { Some(header.field.exact_mask()) };
    entry(header, value, mask, raw.masked).map(Ok)
}

/// Bytes of the value of an entry.
fn value_bytes(raw: &Raw, header: Header) -> Result<usize> {
    let name = header.field.name();
    if raw.masked && is_option(header.field) && raw.len == 0 {
        return refuse("OFPBMC_BAD_MASK", format!("the presence of {name} alone cannot be matched"));
    }
    if raw.masked && !header.field.info().maskable {
        return refuse("OFPBMC_BAD_MASK", format!("{name} cannot be masked"));
    }
    let copies = if raw.masked { 2 } else { 1 };
    let bytes = raw.len / copies;
    let fits = if is_option(header.field) { bytes <= header.bytes && bytes > 0 } else { bytes == header.bytes };
    if !fits || !raw.len.is_multiple_of(copies) {
        // A field with another length is another field.
        return refuse("OFPBMC_BAD_FIELD", format!("{} bytes of {name}, which has {}", raw.len, header.bytes));
    }
    Ok(bytes.into())
}

fn entry(header: Header, value: Option<u128>, mask: Option<u128>, masked: bool) -> Result<Entry> {
    let field = header.field;
    let too_wide = || refusal("OFPBMC_BAD_VALUE", format!("the value of {} is too wide", field.name()));
    let (mut value, mask) = (value.ok_or_else(too_wide)?, mask.ok_or_else(too_wide)?);
    if mask == 0 && is_option(field) {
        return refuse("OFPBMC_BAD_MASK", format!("the presence of {} alone cannot be matched", field.name()));
    }
    if masked && value & !mask != 0 {
        let reason = format!("the value of {} has bits outside of its mask", field.name());
        return refuse("OFPBMC_BAD_WILDCARDS", reason);
    }
    if header.is_short_port() && !masked && value >= 0xff00 {
        value |= 0xffff_0000;
    }
    let whole = mask & field.exact_mask() == field.exact_mask();
    if value & !field.ones() != 0 || field == Field::InPort && port::from_number(value).is_none() {
        return Err(too_wide());
    }
    let mask = if whole { field.exact_mask() } else { mask & field.ones() };
    Ok(Entry { field, value, mask })
}
