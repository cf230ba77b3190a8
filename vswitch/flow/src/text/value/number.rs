//! Numbers.

use super::{Written, error, push};
use crate::{Field, text::TextError};

/// `5`, `0x5`, `05` (octal, as in C), each with a mask behind a slash.
pub(super) fn read(field: Field, text: &str) -> Result<Written, TextError> {
    let (value_text, mask_text) = match text.split_once('/') {
        Some((value, mask)) => (value, Some(mask)),
        None => (text, None),
    };
    let value = part(field, value_text, 0)?;
    let exact = field.exact_mask();
    let mask = match mask_text {
        Some(mask) => part(field, mask, value_text.len() + 1)?,
        None => exact,
    };
    // Only a value that is too wide where the mask looks is one.
    let excess = value & !fits(field) & if mask_text.is_some() { mask } else { u128::MAX } != 0;
    if excess && field == Field::Ipv6Label {
        let reason = format!("{text}: an ipv6_label has 20 bits");
        return Err(TextError { code: "OFPBMC_BAD_VALUE", ..error(field.name(), reason, "0 to 0xfffff") });
    }
    Ok(Written { value: value & field.ones(), mask: mask & field.ones(), excess })
}

/// Bits that a written value may have.
const fn fits(field: Field) -> u128 {
    match field {
        Field::NwTos => 0xfc,
        _ => field.ones(),
    }
}

/// Bytes that OpenFlow has for a field: what a number is too large for is an error, not an excess.
const fn byte_bits(field: Field) -> u32 {
    match field {
        Field::ArpOp => 16,
        _ => field.width().div_ceil(8) * 8,
    }
}

fn part(field: Field, text: &str, at: usize) -> Result<u128, TextError> {
    let bits = byte_bits(field);
    let name = field.name();
    let fail = |reason: String, hint: String| TextError { column: at + 1, ..error(name, reason, hint) };
    match parse(text) {
        Some(number) if bits == 128 || number >> bits == 0 => Ok(number),
        Some(_) => {
            let hint = format!("{name} has {} bits: 0 to {:#x}", field.width(), field.ones());
            Err(fail(format!("{text} is too large for {name}"), hint))
        }
        None => Err(fail(
            format!("{text:?} is no number for {name}"),
            "decimal, or hexadecimal with 0x, and a mask behind / if any".to_owned(),
        )),
    }
}

/// An unsigned number of up to 128 bits: decimal, `0x` hexadecimal, `0` octal.
pub(crate) fn parse(text: &str) -> Option<u128> {
    let bytes = text.as_bytes();
    let (digits, radix) = match bytes {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'0', digits @ ..] if !digits.is_empty() => (digits, 8),
        digits => (digits, 10),
    };
    if digits.is_empty() {
        return None;
    }
    // Most numbers have few digits: 64-bit arithmetic for these.
    if digits.len() <= 16 {
        let mut number = 0u64;
        for digit in digits {
            number = number * u64::from(radix) + u64::from((*digit as char).to_digit(radix)?);
        }
        return Some(u128::from(number));
    }
    let mut number = 0u128;
    for digit in digits {
        number = number.checked_mul(u128::from(radix))?;
        number = number.checked_add(u128::from((*digit as char).to_digit(radix)?))?;
    }
    Some(number)
}

/// As OVS prints hexadecimal numbers: `0`, `0x1f`.
pub(crate) fn push_hex(value: u128, out: &mut String) {
    if value == 0 {
        out.push('0');
    } else {
        push(out, format_args!("{value:#x}"));
    }
}

#[allow(clippy::cast_possible_truncation)] // the caller's fields are not wider
pub(super) const fn low32(value: u128) -> u32 {
    value as u32
}
