//! The metrics, each declared once beside how its value is found.
//!
//! **Design**: a name begins with `vswitch_`, a counter's ends with `_total`, units are base units
//! of Prometheus. `from` names the call of gRPC and its field; a test of the real switch compares
//! each metric with it.

pub(super) mod antrea;
mod bridge;
mod calls;
mod conntrack;
mod listeners;
pub(super) mod port;
mod rules;
mod switch;
mod worker;

use super::family::Family;

/// All of the switch's own, in the order in which they are shown.
pub(super) fn all() -> impl Iterator<Item = &'static Family> {
    let parts =
        [switch::FAMILIES, port::FAMILIES, worker::FAMILIES, bridge::FAMILIES, conntrack::FAMILIES, calls::FAMILIES];
    parts.into_iter().chain([listeners::FAMILIES, antrea::FAMILIES, rules::FAMILIES]).flatten()
}

/// Series that a label with many values has at most; the rest is summed as `other`.
const SERIES_MAX: usize = 32;

/// The first of many by their order, and the sum of the others.
fn bounded(values: &[(u32, u64)], mut push: impl FnMut(&str, u64)) {
    let (shown, others) = values.split_at(values.len().min(SERIES_MAX));
    shown.iter().for_each(|(id, value)| push(&id.to_string(), *value));
    if !others.is_empty() {
        push("other", others.iter().map(|(_, value)| value).sum());
    }
}
