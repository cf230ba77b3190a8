//! Ports and quoted names.

use super::{error, push};
use crate::action::{PortNo, port};
use crate::text::nearest;
use crate::text::{Names, Style, TextError};
use std::borrow::Cow;

/// Names of the reserved ports. ANY is how OVS prints NONE.
const RESERVED: [(&str, PortNo); 10] = [
    ("IN_PORT", port::IN_PORT),
    ("TABLE", port::TABLE),
    ("NORMAL", port::NORMAL),
    ("FLOOD", port::FLOOD),
    ("ALL", port::ALL),
    ("CONTROLLER", port::CONTROLLER),
    ("LOCAL", port::LOCAL),
    ("ANY", port::NONE),
    ("NONE", port::NONE),
    ("UNSET", port::UNSET),
];

/// A port: a number (16-bit forms of the reserved ones too), a reserved name in any case, or a
/// port's name, in quotes or not.
///
/// # Errors
/// When there is no such port.
pub fn parse_port(text: &str, names: &dyn Names) -> Result<PortNo, TextError> {
    if let Some(number) = super::number::parse(text) {
        return port::from_number(number).ok_or_else(|| error("", format!("{text} is no port number"), port::NUMBERS));
    }
    if let Some((_, number)) = RESERVED.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        return Ok(*number);
    }
    let name = unquote(text).ok_or_else(|| error("", format!("{text}: the quotes do not match"), "\"NAME\""))?;
    names.port(&name).ok_or_else(|| {
        let hint = match nearest(&name, RESERVED.iter().map(|(name, _)| *name).chain(names.ports())) {
            Some(near) => format!("did you mean {near}?"),
            None => "the name or number of a port of this bridge, or LOCAL, IN_PORT, CONTROLLER, ...".to_owned(),
        };
        error("", format!("there is no port {name:?}"), hint)
    })
}

/// As OVS prints it: reserved ports by their names, others by number, or by name if asked to and
/// known.
pub fn format_port(number: PortNo, style: Style, names: &dyn Names, out: &mut String) {
    if let Some((name, _)) = RESERVED.iter().find(|(_, reserved)| *reserved == number) {
        return out.push_str(name);
    }
    match names.port_name(number).filter(|_| style.names) {
        Some(name) => format_name(name, out),
        // OVS has 16-bit numbers.
        None => push(out, format_args!("{}", if number >= 0xffff_ff00 { number & 0xffff } else { number })),
    }
}

/// A name of a port or table, in quotes unless it has only letters and digits, a letter first.
pub fn format_name(name: &str, out: &mut String) {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(|c| c.is_ascii_alphanumeric());
    if plain {
        return out.push_str(name);
    }
    out.push('"');
    for c in name.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 => push(out, format_args!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A name without its quotes, if it has any (a JSON string). None: it is no such string.
#[must_use]
pub fn unquote(text: &str) -> Option<Cow<'_, str>> {
    let Some(inner) = text.strip_prefix('"') else { return Some(Cow::Borrowed(text)) };
    let inner = inner.strip_suffix('"')?;
    if !inner.contains(['\\', '"']) {
        return Some(Cow::Borrowed(inner));
    }
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return None,
            '\\' => out.push(match chars.next()? {
                c @ ('"' | '\\' | '/') => c,
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\x08',
                'f' => '\x0c',
                'u' => {
                    let mut code = 0;
                    for _ in 0..4 {
                        code = code * 16 + chars.next()?.to_digit(16)?;
                    }
                    char::from_u32(code)?
                }
                _ => return None,
            }),
            c => out.push(c),
        }
    }
    Some(Cow::Owned(out))
}
