//! Between messages of `vswitch.v1` and plain values: fields, matches, actions, flows, groups,
//! meters and connections, both ways.
//!
//! **Where in the walk**: nowhere. What answers clients in protobuf uses it: the services, and the
//! owner of an agent's objects.
//!
//! **Design**: what comes out of a message is judged by the same rules as text. Matches go through
//! the same builder, actions through the same check. An error names the field of the message; it
//! has no column, since there is no line.
//!
//! **Limits**: those of the values (`vswitch_flow`); a number of a message that does not fit is
//! refused by name.
//!
//! **Threads**: pure functions. No clock: the caller gives the time ([`connection::Now`]).
#![forbid(unsafe_code)]

mod actions;
mod actions_out;
#[cfg(test)]
mod alike;
pub mod connection;
mod field;
mod flow;
mod group;
mod learn;
mod matching;
mod meter;
#[cfg(test)]
mod tests;

pub use actions::{Text, actions};
pub use actions_out::reason;
pub use field::fields;
pub use field::{metadata, metadata_mask, names_field};
pub use flow::{accepted_of_packet_out, filter, flow, flow_message, modify};
pub use group::{bucket_place, buckets, group, group_message};
pub use meter::{meter, meter_message};

use vswitch_flow::text::TextError;

/// What is wrong with a message: no column, since there is no line.
pub fn wrong(field: &str, reason: impl Into<String>, hint: impl Into<String>) -> TextError {
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
