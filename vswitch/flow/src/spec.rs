//! What an agent writes: flows, groups and meters, and changes of them, as plain values.

use crate::action::PortNo;
use crate::{Action, SparseMatch};
use std::sync::Arc;

/// Flags of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, clippy::struct_excessive_bools)]
pub struct FlowFlags {
    pub send_flow_rem: bool,
    pub check_overlap: bool,
    pub reset_counts: bool,
    pub no_packet_counts: bool,
    pub no_byte_counts: bool,
}

/// A flow to add, or as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// 0 to 253.
    pub table: u8,
    /// Default 32768.
    pub priority: u16,
    /// What it matches.
    pub matching: Arc<SparseMatch>,
    /// The agent's mark.
    pub cookie: u64,
    /// Seconds; 0: none.
    pub idle_timeout: u16,
    /// Seconds; 0: none.
    pub hard_timeout: u16,
    /// Kept and printed; nothing evicts flows.
    pub importance: u16,
    /// Flags.
    pub flags: FlowFlags,
    /// What it does. Empty: drop.
    pub actions: Arc<[Action]>,
}

/// Which flows a modify, delete or dump means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowFilter {
    /// None: all tables.
    pub table: Option<u8>,
    /// Flows whose match is within this one (or equals it, if strict).
    pub matching: Arc<SparseMatch>,
    /// Some: strict, this priority and exactly this match.
    pub strict: Option<u16>,
    /// Flows whose cookie has these bits.
    pub cookie: u64,
    /// Bits of `cookie` that matter; 0: any.
    pub cookie_mask: u64,
    /// Only flows that output to this port.
    pub out_port: Option<PortNo>,
    /// Only flows that use this group.
    pub out_group: Option<u32>,
}

/// Kinds of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum GroupKind {
    #[default]
    All,
    Select,
    Indirect,
    FastFailover,
}

/// How a select group chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The default: the 5-tuple's hash over a table filled by weight.
    #[default]
    Default,
    /// The same, asked for by name; `param` is the hash basis.
    DpHash { param: u64 },
    /// Hash of exactly these fields (with masks), in the order given.
    Hash { param: u64, fields: Box<[(crate::Field, u128)]> },
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSpec {
    /// 0 to 0xffffff00-1; given by the agent or counted from 0.
    pub id: u32,
    /// Only select groups; 1 where not given in one (text prints `weight:` then).
    pub weight: u16,
    /// Live if this port is.
    pub watch_port: Option<PortNo>,
    /// Live if this group has a live bucket.
    pub watch_group: Option<u32>,
    /// What it does.
    pub actions: Arc<[Action]>,
}

/// A group to add, or as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct GroupSpec {
    pub id: u32,
    pub kind: GroupKind,
    pub selection: Selection,
    pub buckets: Vec<BucketSpec>,
}

/// Where inserted buckets go, and which are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BucketPlace {
    First,
    Last,
    Before(u32),
    All,
}

/// A band of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Band {
    pub kind: BandKind,
    pub rate: u32,
    pub burst: u32,
}

/// What a band does with a packet above its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BandKind {
    Drop,
    DscpRemark { precedence: u8 },
}

/// A meter to add, or as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MeterSpec {
    pub id: u32,
    /// Packets, not kilobits.
    pub pktps: bool,
    /// Bursts given; else a second of the rate.
    pub burst: bool,
    pub stats: bool,
    pub bands: Vec<Band>,
}

/// One update of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Update {
    AddFlow(FlowSpec),
    /// Changes actions (and nothing else) of matching flows.
    ModifyFlows {
        filter: FlowFilter,
        actions: Arc<[Action]>,
        reset_counts: bool,
        cookie: Option<u64>,
    },
    DeleteFlows(FlowFilter),
    AddGroup(GroupSpec),
    /// `mod-group`, with `--may-create`.
    ModifyGroup {
        spec: GroupSpec,
        may_create: bool,
    },
    /// None: all.
    DeleteGroups(Option<u32>),
    InsertBuckets {
        group: u32,
        place: BucketPlace,
        buckets: Vec<BucketSpec>,
    },
    RemoveBuckets {
        group: u32,
        place: BucketPlace,
    },
    AddMeter(MeterSpec),
    ModifyMeter(MeterSpec),
    /// None: all.
    DeleteMeters(Option<u32>),
    /// From here to the transaction's end the added flows are the whole of what this filter selects: mark and sweep. What is equal
    /// in the old and the new state keeps duration and counters; the rest of what the filter selects goes.
    ReplaceFlows(FlowFilter),
    /// Likewise everything: flows and groups (and meters if `meters`).
    ReplaceAll {
        meters: bool,
    },
}
