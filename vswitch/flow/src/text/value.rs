//! Values of fields, and names of fields and subfields.

use super::{Names, Style, TextError};
use crate::{Field, Subfield};

/// A field by any of its names: ovs-fields(7), aliases (`dl_src`, `tp_dst`), `NXM_*`, `OXM_*`. Case matters for none of them.
#[must_use]
pub fn field_by_name(name: &str) -> Option<Field> {
    Field::ALL.iter().copied().find(|field| field.name() == name)
}

/// Value and mask of a field (`0x1/0x3`, CIDR, `+new-est`, port names). Columns of errors count from the start of `text`.
///
/// # Errors
/// When it is not a value of this field.
pub fn parse_value(field: Field, text: &str, names: &dyn Names) -> Result<(u128, u128), TextError> {
    let _ = (field, names);
    Err(TextError { column: 1, reason: text.to_owned(), hint: String::new(), code: "", field: String::new() })
}

/// The value of a field as OVS prints it in a match or a set_field (`mask` all ones: without mask).
pub fn format_value(field: Field, value: u128, mask: u128, style: Style, names: &dyn Names, out: &mut String) {
    let _ = (field, value, mask, style, names, out);
}

/// `NXM_NX_REG0[0..3]`, `reg0[0]`, `reg0[]`, `reg0`.
///
/// # Errors
/// When it is none.
pub fn parse_subfield(text: &str) -> Result<Subfield, TextError> {
    Err(TextError { column: 1, reason: text.to_owned(), hint: String::new(), code: "", field: String::new() })
}

/// As OVS prints it (`NXM_NX_REG0[0..3]`, `OXM_OF_VLAN_VID[]`).
pub fn format_subfield(sub: Subfield, out: &mut String) {
    let _ = (sub, out);
}
