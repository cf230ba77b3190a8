//! What an agent of Antrea's kind declared; nothing, if the switch has no Node.

use super::super::family::{Family, Samples, Value, counter, gauge};
use super::switch::seconds;
use crate::services::Reading;
use vswitch_proto::antrea::v1;

pub(super) static FAMILIES: &[Family] = &[
    gauge(
        "vswitch_antrea_gate_open",
        "Whether packets pass.",
        &[],
        "SyncService.GetState gate_open",
        |reading, samples| one(reading, samples, |state| state.gate_open),
    ),
    gauge(
        "vswitch_antrea_round",
        "The last round that was committed; 0: none.",
        &[],
        "SyncService.GetState round",
        |reading, samples| one(reading, samples, |state| state.round),
    ),
    gauge(
        "vswitch_antrea_committed_timestamp_seconds",
        "When the last sync was committed, in seconds since 1970.",
        &[],
        "SyncService.GetState committed_unix_ms",
        |reading, samples| one(reading, samples, |state| seconds(state.committed_unix_ms)),
    ),
    gauge(
        "vswitch_antrea_reported_timestamp_seconds",
        "When the agent reported last, in seconds since 1970; only if one has.",
        &[],
        "SyncService.GetState host.reported_unix_ms",
        |reading, samples| {
            if let Some(host) = state(reading).and_then(|state| state.host.as_ref()) {
                samples.push(&[], seconds(host.reported_unix_ms));
            }
        },
    ),
    gauge(
        "vswitch_antrea_restored",
        "Whether the switch forwards by what it has kept over its restart: no agent has synced since.",
        &[],
        "SyncService.GetState restored",
        |reading, samples| one(reading, samples, |state| state.restored),
    ),
    gauge(
        "vswitch_antrea_unwritten",
        "Whether what the agent declared is not on the disk.",
        &[],
        "SyncService.GetState unwritten",
        |reading, samples| one(reading, samples, |state| !state.unwritten.is_empty()),
    ),
    gauge(
        "vswitch_antrea_objects",
        "Objects, by kind, and by whether they have their whole effect (good) or not (degraded).",
        &["kind", "state"],
        "SyncService.GetState kinds.objects, kinds.degraded",
        |reading, samples| {
            for kind in state(reading).into_iter().flat_map(|state| &state.kinds) {
                let name = kind_name(kind.kind());
                samples.push(&[&name, "good"], kind.objects.saturating_sub(kind.degraded));
                samples.push(&[&name, "degraded"], kind.degraded);
            }
        },
    ),
    gauge(
        "vswitch_antrea_flows",
        "Flows of objects, clauses of rules included.",
        &[],
        "SyncService.GetState flows",
        |reading, samples| one(reading, samples, |state| state.flows),
    ),
    gauge(
        "vswitch_antrea_clauses",
        "Conjunction actions in clauses of rules.",
        &[],
        "SyncService.GetState clauses",
        |reading, samples| one(reading, samples, |state| state.clauses),
    ),
    gauge(
        "vswitch_antrea_memory_bytes",
        "Memory for objects and what they were compiled to, about.",
        &[],
        "SyncService.GetState memory",
        |reading, samples| one(reading, samples, |state| state.memory),
    ),
    gauge(
        "vswitch_antrea_fqdn_names",
        "DNS names that rules mean.",
        &[],
        "SyncService.GetState names.names",
        |reading, samples| names(reading, samples, |names| names.names),
    ),
    gauge(
        "vswitch_antrea_fqdn_addresses",
        "Addresses of DNS names that rules mean.",
        &[],
        "SyncService.GetState names.addresses",
        |reading, samples| names(reading, samples, |names| names.addresses),
    ),
    counter(
        "vswitch_antrea_dns_answers_total",
        "DNS answers for Pods with rules of names, by what became of them: waited, unread, dropped, lost, passed.",
        &["fate"],
        "SyncService.GetState names.answers*",
        |reading, samples| {
            if let Some(names) = state(reading).and_then(|state| state.names.as_ref()) {
                let (waited, unread, dropped) = (names.answers_waited, names.answers_unread, names.answers_dropped);
                samples.push(&["waited"], waited);
                samples.push(&["unread"], unread);
                samples.push(&["dropped"], dropped);
                samples.push(&["lost"], names.answers_lost);
                samples.push(&["passed"], names.answers.saturating_sub(waited + unread + dropped));
            }
        },
    ),
];

/// The state, if there is a Node.
pub(in super::super) fn state(reading: &Reading) -> Option<&v1::GetStateResponse> {
    Some(&reading.antrea).filter(|state| state.initialized)
}

/// As a label has it: `network_policy`.
fn kind_name(kind: v1::Kind) -> String {
    kind.as_str_name().trim_start_matches("KIND_").to_lowercase()
}

fn one<V: Into<Value>>(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&v1::GetStateResponse) -> V) {
    if let Some(state) = state(reading) {
        samples.push(&[], value(state));
    }
}

fn names(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&v1::NameState) -> u64) {
    one(reading, samples, |state| state.names.as_ref().map_or(0, &value));
}
