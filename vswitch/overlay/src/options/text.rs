//! Mappings as text.

use super::{FIELDS, MapError, Mapping};

/// Reads `{class=0xffff,type=0,len=4}->tun_metadata0[,...]`, as ovs-ofctl takes it. Numbers are
/// decimal, `0x` hexadecimal, or octal with a leading 0.
///
/// # Errors
/// When it is not that, or there is no such field or length.
pub fn parse(text: &str) -> Result<Vec<Mapping>, MapError> {
    let mut mappings = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        // A mapping ends at the comma behind its brace.
        let brace = rest.find('}').ok_or_else(|| syntax(rest))?;
        let end = rest[brace..].find([',', ' ']).map_or(rest.len(), |at| brace + at);
        mappings.push(mapping(&rest[..end])?);
        rest = rest[end..].trim_start_matches([',', ' ']);
    }
    if mappings.is_empty() { Err(syntax(text)) } else { Ok(mappings) }
}

fn syntax(text: &str) -> MapError {
    MapError::Syntax(text.chars().take(80).collect())
}

fn mapping(text: &str) -> Result<Mapping, MapError> {
    let wrong = || syntax(text);
    let (option, field) = text.split_once("}->tun_metadata").ok_or_else(wrong)?;
    let (mut class, mut kind, mut len) = (None, None, None);
    for item in option.strip_prefix('{').ok_or_else(wrong)?.split(',') {
        let (key, value) = item.split_once('=').ok_or_else(wrong)?;
        let known = match key.trim() {
            "class" => &mut class,
            "type" => &mut kind,
            "len" => &mut len,
            _ => return Err(wrong()),
        };
        if known.replace(number(value.trim()).ok_or_else(wrong)?).is_some() {
            return Err(wrong());
        }
    }
    let (class, kind, len) = class.zip(kind).zip(len).map(|((a, b), c)| (a, b, c)).ok_or_else(wrong)?;
    let field = number(field).ok_or_else(wrong)?;
    Ok(Mapping {
        class: u16::try_from(class).map_err(|_| wrong())?,
        kind: u8::try_from(kind).map_err(|_| wrong())?,
        len: u8::try_from(len).map_err(|_| MapError::Length(len))?,
        field: u8::try_from(field).ok().filter(|field| usize::from(*field) < FIELDS).ok_or(MapError::Field(field))?,
    })
}

fn number(text: &str) -> Option<u64> {
    let digits_only = |digits: &str, radix| {
        let all = digits.chars().all(|c| c.is_digit(radix));
        u64::from_str_radix(digits, radix).ok().filter(|_| all)
    };
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => digits_only(digits, 16),
        None if text.len() > 1 && text.starts_with('0') => digits_only(&text[1..], 8),
        None => digits_only(text, 10),
    }
}
