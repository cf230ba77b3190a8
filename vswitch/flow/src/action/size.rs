//! How long actions are in OpenFlow 1.5, which is what bounds lists of them.

use super::{Action, Controller, Ct, Learn, LearnSource, LearnSpec, Nat, Sample, SampleDirection, limits};
use crate::Field;
use std::net::IpAddr;

/// Bytes that an action takes in an OpenFlow 1.5 message of Open vSwitch.
#[must_use]
pub fn encoded_len(action: &Action) -> usize {
    match action {
        Action::Group(_)
        | Action::Meter(_)
        | Action::SetTtl(_)
        | Action::PushVlan(_)
        | Action::PopVlan
        | Action::ClearActions
        | Action::GotoTable(_) => 8,
        Action::Output { .. }
        | Action::Resubmit { .. }
        | Action::FinTimeout { .. }
        | Action::Conjunction { .. }
        | Action::Exit
        | Action::CtClear
        | Action::CtForget => 16,
        // A push of a tag and a set_field.
        Action::SetVlanVid(_) | Action::SetVlanPcp(_) => 24,
        Action::OutputField { .. }
        | Action::Move { .. }
        | Action::StackPush(_)
        | Action::StackPop(_)
        | Action::CheckPktLarger { .. }
        | Action::DeleteField(_)
        | Action::WriteMetadata { .. } => 24,
        Action::Multipath(_) => 32,
        Action::Controller(controller) => controller_len(controller),
        Action::SetField { field, mask, .. } => set_field_len(*field, *mask),
        Action::DecTtl(ids) => match **ids {
            [] | [0] => 8,
            _ => 16 + pad(2 * ids.len()),
        },
        Action::Bundle(bundle) => 32 + pad(2 * bundle.members.len()),
        Action::Learn(learn) => learn_len(learn),
        Action::Clone(actions) => 16 + list_len(actions),
        // OpenFlow has no such action: what it would take.
        Action::Reject(reject) => 24 + list_len(&reject.actions),
        Action::Note(bytes) => pad(10 + bytes.len()).max(16),
        Action::Sample(sample) => sample_len(sample),
        Action::Ct(ct) => ct_len(ct),
        Action::WriteActions(actions) => 8 + list_len(actions),
    }
}

/// The same of a list. Adds no more once it is too long.
pub(super) fn list_len(actions: &[Action]) -> usize {
    let mut len = 0;
    for action in actions {
        len += encoded_len(action);
        if len > limits::MAX_BYTES {
            break;
        }
    }
    len
}

const fn pad(len: usize) -> usize {
    len.next_multiple_of(8)
}

fn controller_len(controller: &Controller) -> usize {
    let Controller { id, reason: _, max_len, userdata, pause, meter } = controller;
    if userdata.is_empty() && !pause && meter.is_none() {
        return 16;
    }
    let properties =
        [*max_len != u16::MAX, *id != 0, controller.reason != super::Reason::Action, *pause, meter.is_some()];
    let userdata = if userdata.is_empty() { 0 } else { pad(4 + userdata.len()) };
    16 + 8 * properties.iter().filter(|given| **given).count() + userdata
}

fn set_field_len(field: Field, mask: u128) -> usize {
    // Type and length, header of the field, value, and mask unless all of the field is set.
    let bytes = field.width().div_ceil(8) as usize;
    let copies = if mask & field.exact_mask() == field.exact_mask() { 1 } else { 2 };
    pad(8 + bytes * copies)
}

fn learn_len(learn: &Learn) -> usize {
    let fixed = match (learn.limit, learn.result) {
        (0, None) => 32,
        (_, None) => 40,
        (_, Some(_)) => 44,
    };
    let source = |from: &LearnSource, bits: u8| match from {
        LearnSource::Field(_) => 6,
        LearnSource::Immediate(_) => 2 * usize::from(bits).div_ceil(16),
    };
    let spec = |spec: &LearnSpec| match spec {
        LearnSpec::Match { from, to } | LearnSpec::Load { from, to } => 2 + source(from, to.len) + 6,
        LearnSpec::Output(_) => 8,
    };
    pad(fixed + learn.specs.iter().map(spec).sum::<usize>())
}

fn sample_len(sample: &Sample) -> usize {
    if sample.port.is_none() && sample.direction == SampleDirection::Default { 24 } else { 32 }
}

fn ct_len(ct: &Ct) -> usize {
    24 + ct.nat.as_ref().map_or(0, nat_len) + list_len(&ct.exec)
}

fn nat_len(nat: &Nat) -> usize {
    let addresses = match nat.addresses {
        None => 0,
        Some((first @ IpAddr::V4(_), last)) => 4 + if first == last { 0 } else { 4 },
        Some((first @ IpAddr::V6(_), last)) => 16 + if first == last { 0 } else { 16 },
    };
    let ports = match nat.ports {
        None => 0,
        Some((first, last)) => 2 + if first == last { 0 } else { 2 },
    };
    16 + pad(addresses + ports)
}
