//! The control side of a bridge's pipeline: tables, groups and meters, changed by transactions.
//!
//! **Where in the walk**: beside it. One [`PipelineState`] per bridge lives in the state of the switch; its [`Program`] goes into the next world.
//!
//! **Design**: a transaction is applied to a copy (persistent parts make that cheap), judged on its final state, and adopted as a whole or
//! not at all.

use super::{Changes, Program};
use crate::time::Millis;
use std::sync::Arc;
use vswitch_flow::spec::{BucketSpec, FlowFilter, FlowSpec, GroupSpec, MeterSpec, Update};
use vswitch_flow::text::FlowCounters;

/// Tables, groups and meters of a bridge, with everything that workers do not need.
#[derive(Debug, Default)]
pub struct PipelineState {
    program: Arc<Program>,
}

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

/// A table as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TableInfo {
    pub id: u8,
    pub name: Option<String>,
    pub flows: u64,
    pub lookups: u64,
    pub matches: u64,
}

/// A group as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct GroupInfo {
    pub group: GroupSpec,
    pub duration_ms: u64,
    pub ref_count: u64,
    pub packets: u64,
    pub bytes: u64,
    pub buckets: Vec<(u64, u64)>,
}

/// A meter as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MeterInfo {
    pub meter: MeterSpec,
    pub duration_ms: u64,
    pub flow_count: u64,
    pub packets: u64,
    pub bytes: u64,
    pub bands: Vec<(u64, u64)>,
}

/// Why a flow went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RemovedReason {
    IdleTimeout,
    HardTimeout,
    Delete,
    GroupDelete,
    MeterDelete,
}

/// A flow that asked to be reported (`send_flow_rem`) went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FlowRemoved {
    pub flow: FlowInfo,
    pub reason: RemovedReason,
}

impl PipelineState {
    /// An empty pipeline; workers' changes count in `changes`.
    #[must_use]
    pub fn new(changes: &Arc<Changes>) -> Self {
        let learned = Arc::new(super::Learned::new(Arc::clone(changes)));
        Self { program: Arc::new(Program { learned, ..Program::default() }) }
    }

    /// What workers see.
    #[must_use]
    pub fn program(&self) -> Arc<Program> {
        Arc::clone(&self.program)
    }

    /// Applies a transaction; `world` is the number of the world that will show it. All or nothing.
    ///
    /// # Errors
    /// The first update that cannot be.
    pub fn apply(&mut self, updates: &[Update], world: u64, now: Millis) -> Result<Applied, Refused> {
        let _ = (updates, world, now);
        Ok(Applied::default())
    }

    /// Flows that a filter selects, learned ones included, by table, then in the order they were added.
    #[must_use]
    pub fn flows(&self, filter: &FlowFilter, now: Millis) -> Vec<FlowInfo> {
        let _ = (filter, now);
        Vec::new()
    }

    /// All tables that have a name or a flow.
    #[must_use]
    pub fn tables(&self) -> Vec<TableInfo> {
        Vec::new()
    }

    /// All groups (or one), by id.
    #[must_use]
    pub fn groups(&self, id: Option<u32>, now: Millis) -> Vec<GroupInfo> {
        let _ = (id, now);
        Vec::new()
    }

    /// All meters (or one), by id.
    #[must_use]
    pub fn meters(&self, id: Option<u32>, now: Millis) -> Vec<MeterInfo> {
        let _ = (id, now);
        Vec::new()
    }

    /// Removes flows whose time is over (call it after counters were collected). True: the program has changed and is to be published.
    pub fn expire(&mut self, world: u64, now: Millis) -> bool {
        let _ = (world, now);
        false
    }

    /// Flow-removed events since the last call.
    pub fn take_removed(&mut self) -> Vec<FlowRemoved> {
        Vec::new()
    }
}

#[allow(dead_code)]
type Unused = BucketSpec;
