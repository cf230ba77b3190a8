//! Values of fields, and names of fields and subfields.
//!
//! A value is a number and a mask; how it is written depends on the field's [`Format`]. Reading is
//! done without allocation (115,000 flow lines are loaded in one transaction); errors allocate.

mod address;
mod flags;
pub(super) mod number;
mod port;
mod subfield;
#[cfg(test)]
mod tests;

use super::{Names, Style, TextError};
use crate::Field;
use crate::field::Format;
use std::fmt::Write;

pub use crate::field::field_by_name;
pub(super) use address::{push_ethernet, push_ipv4, push_ipv6};
pub(super) use flags::{push_flags, push_frag};
pub use port::{format_name, format_port, parse_port, unquote};
pub use subfield::{format_subfield, parse_subfield};

pub use flags::CT_STATE;
pub(super) use flags::{TCP_FLAGS, TUN_FLAGS};
pub(super) use number::push_hex;

/// An error about a value, at its start.
pub(super) fn error(field: &str, reason: String, hint: impl Into<String>) -> TextError {
    TextError { column: 1, reason, hint: hint.into(), code: "", field: field.to_owned() }
}

/// A value as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Its bits, also those outside the mask. Cut to the field's width.
    pub(super) value: u128,
    /// [`Field::exact_mask`] where none is written.
    pub(super) mask: u128,
    /// What was written does not fit into the field though it fits into the bytes that OpenFlow has
    /// for it: `dl_vlan=5000`. Open vSwitch cuts such values in matches and refuses them in
    /// actions.
    pub(super) excess: bool,
}

/// Value and mask of a field (`0x1/0x3`, CIDR, `+new-est`, port names). Columns of errors count
/// from the start of `text`. Bits of the value outside the mask are left as written, so that the
/// caller can refuse them (`set_field`) or clear them (a match).
///
/// # Errors
/// When it is not a value of this field.
pub fn parse_value(field: Field, text: &str, names: &dyn Names) -> Result<(u128, u128), TextError> {
    let written = read(field, text, names)?;
    if written.excess {
        let most = field.exact_mask();
        let hint = match field {
            Field::NwTos => "the two lowest bits are nw_ecn: a multiple of 4 from 0 to 252".to_owned(),
            _ => format!("0 to {most}"),
        };
        return Err(error(field.name(), format!("{text} is not a valid value of {}", field.name()), hint));
    }
    Ok((written.value, written.mask))
}

/// The same, but lets pass what does not fit into the field's bits ([`Written::excess`]).
pub(super) fn read(field: Field, text: &str, names: &dyn Names) -> Result<Written, TextError> {
    if text == "*" {
        return Ok(Written { value: 0, mask: 0, excess: false });
    }
    if text.is_empty() {
        return Err(error(field.name(), format!("{} has no value", field.name()), ""));
    }
    let exact = field.exact_mask();
    let whole = |(value, mask): (u128, Option<u128>)| Written { value, mask: mask.unwrap_or(exact), excess: false };
    let written = match field.info().format {
        Format::Decimal | Format::Hex => number::read(field, text)?,
        Format::Ethernet => whole(address::read_ethernet(field, text)?),
        Format::Ipv4 => whole(address::read_ipv4(field, text)?),
        Format::Ipv6 => whole(address::read_ipv6(field, text)?),
        Format::Port => whole((u128::from(parse_port(text, names).map_err(|e| in_field(e, field))?), None)),
        Format::Frag => whole(flags::read_frag(field, text)?),
        Format::TcpFlags => whole(flags::read(field, TCP_FLAGS, text)?),
        Format::TunFlags => whole(flags::read(field, TUN_FLAGS, text)?),
        Format::CtState => whole(flags::read(field, CT_STATE, text)?),
    };
    if !field.info().maskable && written.mask != 0 && written.mask & exact != exact {
        let hint = format!("{0} without mask, or {0}=*", field.name());
        return Err(error(field.name(), format!("{text}: {} cannot be matched in parts", field.name()), hint));
    }
    Ok(Written { mask: written.mask & (field.exact_mask() | outside_exact(field)), ..written })
}

/// Bits of a field beside [`Field::exact_mask`] that a mask may have (none are ever set, but what
/// is written is kept).
const fn outside_exact(field: Field) -> u128 {
    match field {
        Field::CtState | Field::TcpFlags | Field::TunFlags | Field::NwFrag | Field::NwTos => 0,
        _ => field.ones(),
    }
}

fn in_field(error: TextError, field: Field) -> TextError {
    TextError { field: field.name().to_owned(), ..error }
}

/// The value of a field as OVS prints it in a set_field or the like (`mask` all ones: without
/// mask). Matches differ in details, see [`super::format_match`].
pub fn format_value(field: Field, value: u128, mask: u128, style: Style, names: &dyn Names, out: &mut String) {
    let exact = field.exact_mask();
    let mask = if mask & exact == exact { exact } else { mask };
    match field.info().format {
        Format::Ethernet => push_ethernet(value, mask, out),
        Format::Ipv4 => push_ipv4(value, mask, out),
        Format::Ipv6 => push_ipv6(value, mask, out),
        Format::Port if mask == exact => format_port(number::low32(value), style, names, out),
        Format::Frag => push_frag(value, mask, out),
        Format::TcpFlags => push_flags(TCP_FLAGS, value, mask, exact, out),
        Format::TunFlags => push_flags(TUN_FLAGS, value, mask, exact, out),
        Format::CtState => push_flags(CT_STATE, value, mask, exact, out),
        Format::Decimal | Format::Hex | Format::Port => {
            if field.info().format == Format::Hex {
                push_hex(value, out);
            } else {
                push(out, format_args!("{value}"));
            }
            if mask != exact {
                out.push('/');
                push_hex(mask, out);
            }
        }
    }
}

/// Writes to a string, which cannot fail.
pub(super) fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(args);
}

/// Whether a text is this number, however written.
pub(super) fn is_number(text: &str, number: u128) -> bool {
    number::parse(text) == Some(number)
}
