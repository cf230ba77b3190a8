//! Between messages and the values of `vswitch_flow`: fields, matches, actions, flows, groups and meters, both ways. What comes out
//! of a message is judged by the same rules as text: matches go through the same builder, actions through the same check.

mod actions;
mod actions_out;
#[cfg(test)]
mod alike;
mod field;
mod flow;
mod group;
mod learn;
mod matching;
mod meter;
#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;

pub(super) use actions::{Text, actions};
pub(super) use actions_out::reason;
pub(in crate::control) use field::fields;
pub(super) use field::{metadata, metadata_mask, names_field};
pub(super) use flow::{accepted_of_packet_out, filter, flow, flow_message, modify};
pub(super) use group::{bucket_place, buckets, group, group_message};
pub(super) use meter::{meter, meter_message};

use vswitch_flow::text::TextError;

/// What is wrong with a message: no column, since there is no line.
pub(super) fn wrong(field: &str, reason: impl Into<String>, hint: impl Into<String>) -> TextError {
    TextError { column: 0, reason: reason.into(), hint: hint.into(), code: "", field: field.to_owned() }
}

/// A number of a message in the narrower type that it has in the switch.
fn narrow<T: TryFrom<u64>>(field: &str, value: impl Into<u64>, max: u64) -> Result<T, TextError> {
    let value = value.into();
    T::try_from(value)
        .ok()
        .filter(|_| value <= max)
        .ok_or_else(|| wrong(field, format!("{field}: {value} is out of range"), format!("use 0 to {max}")))
}

fn narrow16(field: &str, value: u32) -> Result<u16, TextError> {
    narrow(field, value, u16::MAX.into())
}
