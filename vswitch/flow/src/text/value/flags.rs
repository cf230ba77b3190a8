//! Fields that are sets of flags, and `nw_frag`.

use super::{error, number, push_hex};
use crate::text::nearest;
use crate::{Field, text::TextError};

/// Names of flags, from bit 0.
pub(crate) type FlagNames = &'static [&'static str];

/// Of `ct_state`, from bit 0.
pub const CT_STATE: &[&str] = &["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
pub(crate) const TCP_FLAGS: FlagNames =
    &["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];
pub(crate) const TUN_FLAGS: FlagNames = &["oam"];

type Masked = (u128, Option<u128>);

fn hint(names: FlagNames) -> String {
    let form = if names.len() > 1 { format!("+{}-{}, {0}|{1}", names[0], names[1]) } else { format!("+{}", names[0]) };
    format!("{form}, or a number and a mask; flags are {}", names.join(" "))
}

fn unknown(field: Field, names: FlagNames, flag: &str, at: usize) -> TextError {
    let reason = format!("{flag:?} is no flag of {}", field.name());
    let hint = match nearest(flag, names.iter().copied()) {
        Some(near) => format!("did you mean {near}? {}", hint(names)),
        None => hint(names),
    };
    TextError { column: at + 1, ..error(field.name(), reason, hint) }
}

/// `+syn-ack`, `syn|ack`, `0x2/0x12`, `2`.
pub(super) fn read(field: Field, names: FlagNames, text: &str) -> Result<Masked, TextError> {
    if text.starts_with(['+', '-']) {
        return signed(field, names, text);
    }
    if text.starts_with(|c: char| c.is_ascii_digit())
        && let Some((value, mask)) = text.split_once('/')
    {
        let at = value.len() + 1;
        return Ok((number(field, names, value, 0)?, Some(number(field, names, mask, at)?)));
    }
    let mut value = 0;
    let mut at = 0;
    for part in text.split('|') {
        value |= match names.iter().position(|name| *name == part) {
            Some(bit) => 1 << bit,
            None if part.starts_with(|c: char| c.is_ascii_digit()) => number(field, names, part, at)?,
            None => return Err(unknown(field, names, part, at)),
        };
        at += part.len() + 1;
    }
    Ok((value, None))
}

fn number(field: Field, names: FlagNames, text: &str, at: usize) -> Result<u128, TextError> {
    match number::parse(text) {
        Some(bits) if bits >> names.len() == 0 => Ok(bits),
        _ => Err(unknown(field, names, text, at)),
    }
}

fn signed(field: Field, names: FlagNames, text: &str) -> Result<Masked, TextError> {
    let (mut value, mut mask) = (0u128, 0u128);
    let mut at = 0;
    while at < text.len() {
        let set = text.as_bytes()[at] == b'+';
        at += 1;
        let rest = &text[at..];
        let name = &rest[..rest.find(['+', '-']).unwrap_or(rest.len())];
        let bit = match names.iter().position(|flag| *flag == name) {
            Some(bit) => 1u128 << bit,
            None => return Err(unknown(field, names, name, at)),
        };
        if mask & bit != 0 {
            let reason = format!("flag {name} of {} is given twice", field.name());
            return Err(TextError { column: at + 1, ..error(field.name(), reason, "name each flag once") });
        }
        mask |= bit;
        value |= if set { bit } else { 0 };
        at += name.len();
    }
    Ok((value, Some(mask)))
}

/// `new|trk` if the mask has all bits of `exact`, else `+new-est`.
pub(crate) fn push_flags(names: FlagNames, value: u128, mask: u128, exact: u128, out: &mut String) {
    if mask & exact == exact {
        return push_set(names, value & exact, out);
    }
    if mask & (u128::MAX >> (128 - names.len())) == 0 {
        return out.push_str("0/0");
    }
    for (bit, name) in names.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 != 0) {
        out.push(if value >> bit & 1 != 0 { '+' } else { '-' });
        out.push_str(name);
    }
}

fn push_set(names: FlagNames, value: u128, out: &mut String) {
    if value == 0 {
        return out.push('0');
    }
    let start = out.len();
    for (_, name) in names.iter().enumerate().filter(|(bit, _)| value >> bit & 1 != 0) {
        if out.len() > start {
            out.push('|');
        }
        out.push_str(name);
    }
    let rest = value >> names.len() << names.len();
    if rest != 0 {
        if out.len() > start {
            out.push('|');
        }
        push_hex(rest, out);
    }
}

/// Name, mask, value of what `nw_frag` may be.
const FRAGS: [(&str, u128, u128); 6] =
    [("no", 3, 0), ("first", 3, 1), ("later", 3, 3), ("no", 1, 0), ("yes", 1, 1), ("not_later", 2, 0)];

pub(super) fn read_frag(field: Field, text: &str) -> Result<Masked, TextError> {
    match FRAGS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(text)) {
        Some((_, mask, value)) => Ok((*value, Some(*mask))),
        None => Err(error(
            field.name(),
            format!("{text:?} is no kind of fragment"),
            "one of no, yes, first, later, not_later",
        )),
    }
}

/// Its name; `later` also where a match looks at that bit alone.
pub(crate) fn push_frag(value: u128, mask: u128, out: &mut String) {
    let (mask, value) = (mask & 3, value & mask & 3);
    let name = match FRAGS.iter().find(|(_, m, v)| (*m, *v) == (mask, value)) {
        Some((name, ..)) => name,
        None if (mask, value) == (2, 2) => "later",
        None => "<error>",
    };
    out.push_str(name);
}
