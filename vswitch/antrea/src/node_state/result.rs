//! What an agent is told of a write.

use crate::limits::TOLD_MAX;
use crate::store::Counts;
use crate::{Key, Problem, Problems};
use std::collections::HashMap;
use vswitch_proto::antrea::v1;

/// How it went with one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Applied,
    Unchanged,
    Removed,
    Absent,
    NotApplied,
    Refused,
    Degraded,
}

impl Outcome {
    const fn to_proto(self) -> (v1::ObjectOutcome, &'static str) {
        match self {
            Self::Applied => (v1::ObjectOutcome::Applied, "APPLIED"),
            Self::Unchanged => (v1::ObjectOutcome::Unchanged, "UNCHANGED"),
            Self::Removed => (v1::ObjectOutcome::Removed, "REMOVED"),
            Self::Absent => (v1::ObjectOutcome::Absent, "ABSENT"),
            Self::NotApplied => (v1::ObjectOutcome::NotApplied, "NOT_APPLIED"),
            Self::Refused => (v1::ObjectOutcome::Refused, "REFUSED"),
            Self::Degraded => (v1::ObjectOutcome::Degraded, "DEGRADED"),
        }
    }

    /// Went as asked.
    const fn plain(self) -> bool {
        matches!(self, Self::Applied | Self::Unchanged | Self::Removed)
    }
}

/// Of one object.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) key: Key,
    pub(super) outcome: Outcome,
    pub(super) problems: Problems,
}

pub(super) fn of(statuses: Vec<Status>, applied: bool, changed: Counts, only_odd: bool) -> v1::WriteResult {
    let mut counts: HashMap<String, u64> = HashMap::new();
    let mut told = Vec::new();
    let mut texts = 0;
    for Status { key, outcome, problems } in statuses {
        let (value, word) = outcome.to_proto();
        *counts.entry(word.to_owned()).or_default() += 1;
        let warnings = problems.warnings();
        if only_odd && outcome.plain() && problems.is_empty() && warnings.is_empty() {
            continue;
        }
        texts += usize::from(!problems.is_empty() || !warnings.is_empty());
        let is_told = texts <= TOLD_MAX;
        let problems = problems.all().iter().filter(|_| is_told).map(Problem::to_proto).collect();
        let warnings = if is_told { warnings } else { Vec::new() };
        told.push(v1::ObjectStatus { object: Some(key.to_proto()), outcome: value.into(), problems, warnings });
    }
    v1::WriteResult {
        applied,
        statuses: told,
        counts,
        flows_changed: changed.flows,
        groups_changed: changed.groups,
        meters_changed: changed.meters,
        connections_flushed: 0,
        took_ms: 0,
    }
}
