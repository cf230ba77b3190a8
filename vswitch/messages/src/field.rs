//! Fields with values, and parts of fields.

use super::{narrow, wrong};
use vswitch_flow::text::{PacketOut, TextError, field_by_name};
use vswitch_flow::{Field, FlowKey, FlowMask, Subfield};
use vswitch_proto::v1;
use vswitch_proto::v1::field_value::{Mask, Value};

/// Octets of the widest field.
const OCTETS_MAX: usize = 16;

fn by_name(name: &str) -> Result<Field, TextError> {
    field_by_name(name).ok_or_else(|| wrong(name, format!("{name:?} is no field"), "ovs-fields(7) lists them"))
}

/// A number of up to 16 octets, most significant first.
pub(super) fn number(name: &str, octets: &[u8]) -> Result<u128, TextError> {
    if octets.len() > OCTETS_MAX {
        return Err(wrong(name, format!("{name}: {} octets are too many", octets.len()), "give at most 16"));
    }
    Ok(octets.iter().fold(0, |number, octet| number << 8 | u128::from(*octet)))
}

/// Field, value and mask. Bits beyond the field's width are refused.
pub(super) fn value(message: &v1::FieldValue) -> Result<(Field, u128, u128), TextError> {
    let name = message.field.as_str();
    let field = by_name(name)?;
    let value = match &message.value {
        Some(Value::Number(value)) => u128::from(*value),
        Some(Value::Octets(octets)) => number(name, octets)?,
        None => return Err(wrong(name, format!("{name}: no value is given"), "give number or octets")),
    };
    let mask = match &message.mask {
        Some(Mask::MaskNumber(mask)) => u128::from(*mask),
        Some(Mask::MaskOctets(octets)) => number(name, octets)?,
        None => field.ones(),
    };
    if let Some(wide) = [value, mask].into_iter().find(|bits| bits & !field.ones() != 0) {
        let reason = format!("{name}: {wide:#x} has more than {} bits", field.width());
        return Err(wrong(name, reason, "give what fits the field"));
    }
    Ok((field, value, mask))
}

/// A field with a value, as a message.
pub(super) fn value_message(field: Field, value: u128, mask: u128) -> v1::FieldValue {
    let wide = field.width() > 64;
    let low = |bits: u128| u64::try_from(bits).unwrap_or(u64::MAX); // at most 64 bits here
    let all = mask == field.ones();
    v1::FieldValue {
        field: field.name().to_owned(),
        value: Some(if wide { Value::Octets(value.to_be_bytes().into()) } else { Value::Number(low(value)) }),
        mask: if all {
            None
        } else {
            Some(if wide { Mask::MaskOctets(mask.to_be_bytes().into()) } else { Mask::MaskNumber(low(mask)) })
        },
    }
}

/// Fields with values, in the order given.
pub(super) fn values(messages: &[v1::FieldValue]) -> Result<Vec<(Field, u128, u128)>, TextError> {
    messages.iter().map(value).collect()
}

/// Metadata of a packet that is to be sent. Fields that a packet cannot be given are refused, and
/// so are masks.
pub fn metadata(messages: &[v1::FieldValue]) -> Result<FlowKey, TextError> {
    let mut key = FlowKey::default();
    for (field, value, mask) in values(messages)? {
        let name = field.name();
        let value = PacketOut::metadata(field, value)
            .map_err(|refusal| TextError { field: name.to_owned(), ..refusal.into() })?;
        if mask != field.ones() {
            return Err(wrong(name, format!("{name} has a mask"), "give the value alone"));
        }
        key.set(field, value);
    }
    Ok(key)
}

/// Whether a field is among those that are given.
pub fn names_field(messages: &[v1::FieldValue], field: Field) -> bool {
    messages.iter().any(|message| field_by_name(&message.field) == Some(field))
}

/// The metadata of a packet that is not 0, as a mask of whole fields; wide views of registers do
/// not count.
pub fn metadata_mask(key: &FlowKey) -> FlowMask {
    let views = Field::Xreg0..=Field::Xxreg3;
    let read = vswitch_flow::FIRST_PACKET_WORD..vswitch_flow::LAST_PACKET_WORD;
    let is_metadata = |field: &Field| !read.contains(&usize::from(field.location().word)) && !views.contains(field);
    let mut mask = FlowMask::default();
    let fields = Field::ALL.iter().copied().filter(is_metadata);
    fields.filter(|field| key.get(*field) != 0).for_each(|field| mask.add(field));
    mask
}

/// The fields of a packet's metadata that are not 0.
pub fn fields(key: &FlowKey) -> Vec<v1::FieldValue> {
    let parts = super::matching::parts(key, &metadata_mask(key));
    parts.into_iter().map(|(field, value, mask)| value_message(field, value, mask)).collect()
}

/// Some bits of a field.
pub(super) fn subfield(what: &str, message: Option<&v1::Subfield>) -> Result<Subfield, TextError> {
    let Some(v1::Subfield { field, start, length }) = message else {
        return Err(wrong(what, format!("{what}: no field is given"), "give a field"));
    };
    let found = by_name(field)?;
    let named = u32::from(found.named_bits());
    // A learned flow may match all of a field, which may be more than its name means.
    let width = found.width().max(named);
    let length = if *length == 0 { named.saturating_sub(*start) } else { *length };
    if length == 0 || start.checked_add(length).is_none_or(|end| end > width) {
        let reason = format!("{field}: {length} bits from bit {start} on are not in its {width}");
        return Err(wrong(field, reason, "use bits that it has"));
    }
    Ok(Subfield {
        field: found,
        start: narrow(field, *start, u64::from(width))?,
        len: narrow(field, length, u64::from(width))?,
    })
}

/// Some bits of a field, as a message.
pub(super) fn subfield_message(sub: Subfield) -> v1::Subfield {
    v1::Subfield { field: sub.field.name().to_owned(), start: sub.start.into(), length: sub.len.into() }
}
