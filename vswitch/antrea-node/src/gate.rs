//! When the gate opens, and what keeps it shut.

use std::collections::BTreeSet;
use vswitch_antrea::{Code, Key, NodeState, ObjectKind, Problem};
use vswitch_proto::antrea::v1;

/// Kinds without which policies cannot be in force.
const GATED: [ObjectKind; 4] =
    [ObjectKind::Pod, ObjectKind::AddressGroup, ObjectKind::AppliedToGroup, ObjectKind::NetworkPolicy];
/// Those without which something that is to be denied may pass.
pub(super) const DENYING: [ObjectKind; 2] = [ObjectKind::AppliedToGroup, ObjectKind::NetworkPolicy];

/// Kinds of which an object was refused that may deny and that nothing is in force in place of: it
/// has no name that one can use.
pub(super) fn lost_kinds(node_state: &NodeState, result: &v1::WriteResult) -> BTreeSet<ObjectKind> {
    let refused = result.statuses.iter().filter(|status| status.outcome() == v1::ObjectOutcome::Refused);
    let keys = refused.filter_map(|status| {
        let object = status.object.as_ref()?;
        Some(Key::new(ObjectKind::read(object.kind())?, &object.name))
    });
    let lost = keys.filter(|key| DENYING.contains(&key.kind) && node_state.desired().get(key).is_none());
    lost.map(|key| key.kind).collect()
}

/// What keeps the gate shut: kinds that no sync has had in its scope, and policies that do not say
/// whom they bind. At most 1000.
pub(super) fn holders(node_state: &NodeState, synced: &BTreeSet<ObjectKind>) -> Vec<v1::ObjectStatus> {
    let missing = GATED.iter().filter(|kind| !synced.contains(kind)).map(|kind| {
        let reason = format!(
            "no sync has had all objects of kind {} in its scope yet, or one of them could not be kept",
            kind.name()
        );
        (Key::new(*kind, ""), Problem::new(Code::Pending, "", reason))
    });
    let told = missing.chain(node_state.unbound()).take(vswitch_antrea::limits::TOLD_MAX);
    told.map(|(key, problem)| v1::ObjectStatus {
        object: Some(key.to_proto()),
        outcome: v1::ObjectOutcome::Degraded.into(),
        problems: vec![problem.to_proto()],
        warnings: Vec::new(),
    })
    .collect()
}
