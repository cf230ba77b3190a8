//! Fields by name.

use super::Field;
use hashbrown::HashMap;
use std::sync::LazyLock;

/// Longest name of a field (`ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE`), rounded up.
const MAX_NAME: usize = 40;

type Names = HashMap<&'static str, (Field, u8), foldhash::fast::FixedState>;

/// All names in lower case, with the bits that `NAME[]` means.
static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let mut names = Names::default();
    for field in Field::ALL.iter().copied() {
        let info = field.info();
        // Internal views of a field have the name of the field that ovs-fields(7) gives it.
        if matches!(field, Field::TpSrc | Field::TpDst) {
            continue;
        }
        for name in std::iter::once(field.name()).chain(info.aliases.iter().copied()) {
            names.insert(name, (field, info.bits));
        }
        for name in [info.nxm, info.oxm].into_iter().filter(|name| !name.is_empty()) {
            let name: &str = Box::leak(name.to_ascii_lowercase().into_boxed_str());
            names.insert(name, (field, info.bits));
        }
    }
    // The one field whose two names differ in width.
    names.insert("oxm_of_in_port", (Field::InPort, 32));
    names.insert("in_port_oxm", (Field::InPort, 32));
    names
});

/// A name in lower case, without allocation; None: longer than any name.
pub(crate) fn lower<'a>(name: &str, buffer: &'a mut [u8; MAX_NAME]) -> Option<&'a str> {
    let buffer = buffer.get_mut(..name.len())?;
    buffer.copy_from_slice(name.as_bytes());
    buffer.make_ascii_lowercase();
    std::str::from_utf8(buffer).ok()
}

/// A field by any of its names: ovs-fields(7), aliases (`dl_src`, `tp_dst`), `NXM_*`, `OXM_*`. Case
/// matters for none of them.
#[must_use]
pub fn field_by_name(name: &str) -> Option<Field> {
    subfield_field_by_name(name).map(|(field, _)| field)
}

/// The same, with the number of bits that `NAME[]` means (16 for `NXM_OF_IN_PORT`, 32 for
/// `OXM_OF_IN_PORT`).
#[must_use]
pub fn subfield_field_by_name(name: &str) -> Option<(Field, u8)> {
    NAMES.get(lower(name, &mut [0; MAX_NAME])?).copied()
}

/// All names that [`field_by_name`] knows, in lower case, in no order.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.keys().copied()
}
