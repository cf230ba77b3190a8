//! Ethernet and IP addresses.

use super::{error, push};
use crate::{Field, text::TextError};
use std::net::{Ipv4Addr, Ipv6Addr};

type Masked = (u128, Option<u128>);

fn fail(field: Field, text: &str, kind: &str, hint: &str, at: usize) -> TextError {
    TextError { column: at + 1, ..error(field.name(), format!("{text:?} is no {kind} for {}", field.name()), hint) }
}

/// Reads `ADDRESS` or `ADDRESS/MASK`.
fn masked(
    text: &str,
    address: impl Fn(&str, usize) -> Result<u128, TextError>,
    mask: impl Fn(&str, usize) -> Result<u128, TextError>,
) -> Result<Masked, TextError> {
    match text.split_once('/') {
        None => Ok((address(text, 0)?, None)),
        Some((value, bits)) => Ok((address(value, 0)?, Some(mask(bits, value.len() + 1)?))),
    }
}

pub(super) fn read_ethernet(field: Field, text: &str) -> Result<Masked, TextError> {
    let part = |text: &str, at| {
        ethernet(text)
            .ok_or_else(|| fail(field, text, "Ethernet address", "00:11:22:33:44:55, and a mask like it behind /", at))
    };
    masked(text, part, part)
}

fn ethernet(text: &str) -> Option<u128> {
    let mut address = 0u64;
    let mut bytes = 0;
    for byte in text.split(':') {
        if byte.is_empty() || byte.len() > 2 || bytes == 6 {
            return None;
        }
        for digit in byte.bytes() {
            address = address << 4 | u64::from((digit as char).to_digit(16)?);
        }
        if byte.len() == 1 {
            // The digit that was shifted in is the low one already.
            address = (address & !0xf) << 4 | address & 0xf;
        }
        bytes += 1;
    }
    (bytes == 6).then_some(address.into())
}

pub(super) fn read_ipv4(field: Field, text: &str) -> Result<Masked, TextError> {
    let address = |text: &str, at| match text.parse::<Ipv4Addr>() {
        Ok(address) => Ok(u128::from(u32::from(address))),
        Err(_) => Err(fail(field, text, "IPv4 address", "10.0.0.1, 10.0.0.0/8 or 10.0.0.0/255.0.0.0", at)),
    };
    let mask = |text: &str, at| match text.parse::<u32>() {
        Ok(bits @ 0..=32) => Ok(u128::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0))),
        Ok(_) => Err(fail(field, text, "length of an IPv4 prefix", "0 to 32", at)),
        Err(_) => address(text, at),
    };
    masked(text, address, mask)
}

pub(super) fn read_ipv6(field: Field, text: &str) -> Result<Masked, TextError> {
    let address = |text: &str, at| match text.parse::<Ipv6Addr>() {
        Ok(address) => Ok(u128::from(address)),
        Err(_) => Err(fail(field, text, "IPv6 address", "2001:db8::1, 2001:db8::/32 or a mask like ffff::", at)),
    };
    let mask = |text: &str, at| match text.parse::<u32>() {
        Ok(bits @ 0..=128) => Ok(u128::MAX.checked_shl(128 - bits).unwrap_or(0)),
        Ok(_) => Err(fail(field, text, "length of an IPv6 prefix", "0 to 128", at)),
        Err(_) => address(text, at),
    };
    masked(text, address, mask)
}

fn push_mac(address: u128, out: &mut String) {
    for i in (0..6).rev() {
        push(out, format_args!("{:02x}", address >> (8 * i) & 0xff));
        if i > 0 {
            out.push(':');
        }
    }
}

/// `00:11:22:33:44:55`, with a mask if it is not all ones.
pub(crate) fn push_ethernet(value: u128, mask: u128, out: &mut String) {
    push_mac(value, out);
    if mask != Field::EthSrc.ones() {
        out.push('/');
        push_mac(mask, out);
    }
}

/// `10.0.0.0/8`.
#[allow(clippy::cast_possible_truncation)] // 32-bit values
pub(crate) fn push_ipv4(value: u128, mask: u128, out: &mut String) {
    let mask = mask as u32;
    push(out, format_args!("{}", Ipv4Addr::from(value as u32)));
    if mask == u32::MAX {
    } else if mask.leading_ones() + mask.trailing_zeros() == 32 {
        push(out, format_args!("/{}", mask.leading_ones()));
    } else {
        push(out, format_args!("/{}", Ipv4Addr::from(mask)));
    }
}

/// `2001:db8::/32`.
pub(crate) fn push_ipv6(value: u128, mask: u128, out: &mut String) {
    push_ipv6_address(value, out);
    if mask == u128::MAX {
    } else if mask.leading_ones() + mask.trailing_zeros() == 128 {
        push(out, format_args!("/{}", mask.leading_ones()));
    } else {
        out.push('/');
        push_ipv6_address(mask, out);
    }
}

/// As `inet_ntop` writes it: also `::1.2.3.4`, for addresses whose first 96 bits (and no more
/// words) are 0.
#[allow(clippy::cast_possible_truncation)] // the low 32 bits
fn push_ipv6_address(address: u128, out: &mut String) {
    if address >> 32 == 0 && address >> 16 != 0 {
        push(out, format_args!("::{}", Ipv4Addr::from(address as u32)));
    } else {
        push(out, format_args!("{}", Ipv6Addr::from(address)));
    }
}
