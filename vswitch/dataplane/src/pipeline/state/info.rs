//! What the pipeline tells about itself, as plain values.

use std::sync::Arc;
use vswitch_flow::spec::{FlowSpec, GroupSpec, MeterSpec};
use vswitch_flow::text::FlowCounters;
use vswitch_flow::{Refusal, SparseMatch};

/// Why a transaction was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("update {}: {code}: {reason}{}{hint}", .index + 1, if .hint.is_empty() { "" } else { "; " })]
pub struct Refused {
    /// Which update, from 0.
    pub index: usize,
    /// OpenFlow's name (`OFPBAC_BAD_OUT_GROUP`, `OFPGMFC_GROUP_EXISTS`, ...) or ours for limits.
    pub code: &'static str,
    /// What is wrong, with the value.
    pub reason: String,
    /// The field it is about; may be empty.
    pub field: &'static str,
    /// How to fix it; may be empty.
    pub hint: String,
}

impl Refused {
    /// Of an update that is not known yet ([`Refused::at`]).
    pub(super) fn new(code: &'static str, field: &'static str, reason: impl Into<String>) -> Self {
        Self { index: 0, code, reason: reason.into(), field, hint: String::new() }
    }

    /// How to fix it.
    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Which update it was.
    pub(super) fn at(self, index: usize) -> Self {
        Self { index, ..self }
    }
}

impl From<Refusal> for Refused {
    fn from(Refusal { code, field, reason, hint }: Refusal) -> Self {
        Self { index: 0, code, reason, field, hint }
    }
}

/// What a transaction did, per update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Flows, groups or meters that each update added, changed or removed.
    pub counts: Vec<u64>,
}

/// A flow as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowInfo {
    /// The flow.
    pub flow: FlowSpec,
    /// Its numbers, collected up to now.
    pub counters: FlowCounters,
}

/// What a flow has counted. Whoever is shown one sees the flow's own match and counters, and copies
/// what it needs.
#[derive(Clone, Copy, Debug)]
pub struct FlowCount<'a> {
    /// Its table.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// What it matches.
    pub matching: &'a Arc<SparseMatch>,
    /// Its cookie.
    pub cookie: u64,
    /// Its numbers, collected up to now.
    pub counters: FlowCounters,
}

/// A table as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableInfo {
    /// Its number.
    pub id: u8,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Flows in it, learned ones included.
    pub flows: u64,
    /// Packets looked up in it.
    pub lookups: u64,
    /// Packets that a flow of it matched.
    pub matches: u64,
    /// How often a flow was not learned because the table or the bridge had too many.
    pub learn_refused: u64,
}

/// A group as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    /// As configured.
    pub group: GroupSpec,
    /// Milliseconds since it was added.
    pub duration_ms: u64,
    /// How often flows name it.
    pub ref_count: u64,
    /// Packets that came to it.
    pub packets: u64,
    /// Bytes that came to it.
    pub bytes: u64,
    /// Packets and bytes of each bucket, in their order.
    pub buckets: Vec<(u64, u64)>,
}

/// A meter as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterInfo {
    /// As configured.
    pub meter: MeterSpec,
    /// Milliseconds since it was added.
    pub duration_ms: u64,
    /// Flows that use it.
    pub flow_count: u64,
    /// Packets that came to it.
    pub packets: u64,
    /// Bytes that came to it.
    pub bytes: u64,
    /// Packets and bytes that each band caught.
    pub bands: Vec<(u64, u64)>,
}

/// Why a flow went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedReason {
    /// No packet for its idle timeout.
    IdleTimeout,
    /// Its hard timeout is over.
    HardTimeout,
    /// An agent deleted it, or the last learn of its cookie went (`delete_learned`).
    Delete,
    /// A group that it used was deleted.
    GroupDelete,
    /// A meter that it used was deleted.
    MeterDelete,
}

/// A flow that asked to be reported (`send_flow_rem`) went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The flow with its final counters.
    pub flow: FlowInfo,
    /// Why.
    pub reason: RemovedReason,
}
