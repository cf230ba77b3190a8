//! Subfields.

use super::{error, push};
use crate::field::{names, subfield_field_by_name};
use crate::text::TextError;
use crate::text::nearest;
use crate::{Field, Subfield};

/// `NXM_NX_REG0[0..3]`, `reg0[0]`, `reg0[]`, `reg0`.
///
/// # Errors
/// When it is none.
pub fn parse_subfield(text: &str) -> Result<Subfield, TextError> {
    let (name, bits) = match text.find('[') {
        Some(at) => (&text[..at], Some((&text[at..], at))),
        None => (text, None),
    };
    let Some((field, width)) = subfield_field_by_name(name) else {
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean {}?", canonical(name, near)),
            None => "NXM_NX_REG0[0..3], reg0[], ...".to_owned(),
        };
        return Err(error(name, format!("there is no field {name:?}"), hint));
    };
    let Some((bits, at)) = bits else { return Ok(Subfield { field, start: 0, len: width }) };
    let fail = |reason: String| {
        let hint = format!("{name}[], {name}[BIT] or {name}[FIRST..LAST] with bits 0 to {}", width - 1);
        TextError { column: at + 1, ..error(name, reason, hint) }
    };
    let Some(inner) = bits.strip_prefix('[').and_then(|bits| bits.strip_suffix(']')) else {
        return Err(fail(format!("{bits} does not end with ]")));
    };
    if inner.is_empty() {
        return Ok(Subfield { field, start: 0, len: width });
    }
    let number = |text: &str| text.parse::<u8>().map_err(|_| fail(format!("{text:?} is no number of a bit")));
    let (first, last) = match inner.split_once("..") {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(inner)?, number(inner)?),
    };
    if first > last {
        return Err(fail(format!("first bit {first} is after last bit {last}")));
    }
    if last >= width {
        return Err(fail(format!("there is no bit {last}: {name} has {width} bits")));
    }
    Ok(Subfield { field, start: first, len: last - first + 1 })
}

/// A name in the case in which `like` is written.
fn canonical(like: &str, name: &str) -> String {
    if like.starts_with(|c: char| c.is_ascii_uppercase()) { name.to_ascii_uppercase() } else { name.to_owned() }
}

/// As OVS prints it (`NXM_NX_REG0[0..3]`, `OXM_OF_VLAN_VID[]`).
pub fn format_subfield(sub: Subfield, out: &mut String) {
    let info = sub.field.info();
    // The two names of in_port stand for its 16-bit and its 32-bit form.
    let oxm = info.nxm.is_empty() || sub.field == Field::InPort && sub.start + sub.len > info.bits;
    out.push_str(match (oxm, info.oxm) {
        (false, _) => info.nxm,
        (true, "") => sub.field.name(),
        (true, name) => name,
    });
    if sub.is_whole() {
        out.push_str("[]");
    } else if sub.len == 1 {
        push(out, format_args!("[{}]", sub.start));
    } else {
        push(out, format_args!("[{}..{}]", sub.start, sub.start + sub.len - 1));
    }
}
