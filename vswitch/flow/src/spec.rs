//! What an agent writes: flows, groups and meters, and changes of them, as plain values.

pub(crate) mod group;
pub(crate) mod meter;
mod selection;

pub use group::{bucket_ids, number_of_buckets};
pub use selection::{HashedFields, Method};

use crate::action::{PortNo, port, rules};
use crate::{Action, Refusal, SparseMatch};
use std::sync::Arc;

/// What bounds groups and meters. Those of actions are in [`crate::action::limits`].
pub mod limits {
    /// Highest id of a group (`OFPG_MAX`).
    pub const MAX_GROUP: u32 = 0xffff_ff00;
    /// Highest id of a bucket (`OFPG15_BUCKET_MAX`).
    pub const MAX_BUCKET: u32 = 0xffff_ff00;
    /// Bands of a meter (Open vSwitch's userspace datapath: `max_bands`).
    pub const MAX_BANDS: usize = 8;
}

/// Flags of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // five independent flags of the protocol
pub struct FlowFlags {
    /// Tell the controllers when it goes.
    pub send_flow_rem: bool,
    /// Refuse it if it overlaps another flow of its priority.
    pub check_overlap: bool,
    /// Start counting anew if it replaces another flow.
    pub reset_counts: bool,
    /// Packets need not be counted (they are).
    pub no_packet_counts: bool,
    /// Bytes need not be counted (they are).
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
    pub idle_timeout: u32,
    /// Seconds; 0: none.
    pub hard_timeout: u32,
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

impl FlowFilter {
    /// In the one form of several that mean the same: port NONE and group ANY select nothing,
    /// reserved ports have 32 bits, and bits of the cookie that do not matter are 0.
    ///
    /// # Errors
    /// When there can be no such port.
    pub fn checked(self) -> Result<Self, Refusal> {
        self.out_port.map_or(Ok(()), rules::port_number)?;
        let out_port = self.out_port.and_then(|port| port::from_number(port.into()));
        Ok(Self {
            out_port: out_port.filter(|port| *port != port::NONE),
            out_group: self.out_group.filter(|group| *group != u32::MAX),
            cookie: self.cookie & self.cookie_mask,
            ..self
        })
    }
}

/// Kinds of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupKind {
    /// Executes all buckets.
    #[default]
    All,
    /// Executes one, chosen by weight and hash.
    Select,
    /// Has one bucket.
    Indirect,
    /// Executes the first that is live.
    FastFailover,
}

/// How a select group chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The default: the 5-tuple's hash over a table filled by weight.
    #[default]
    Default,
    /// The same, asked for by name; `param` is the hash basis.
    DpHash {
        /// Low 32 bits: the basis; high ones: the algorithm.
        param: u64,
    },
    /// Hash of exactly these fields (with masks), in the order of Open vSwitch. None: of the
    /// 5-tuple and the Ethernet header.
    Hash {
        /// The hash basis.
        param: u64,
        /// Each once. Mask bits: those to hash.
        fields: Box<[(crate::Field, u128)]>,
    },
    /// The 5-tuple's hash over a table that hangs on nothing but the ids and weights of the
    /// buckets: whoever has the same buckets chooses alike. Ours; Open vSwitch has none.
    Maglev {
        /// The hash basis.
        param: u64,
    },
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSpec {
    /// 0 to 0xffffff00; given by the agent or counted from 0.
    pub id: u32,
    /// Only in select groups: 1 where not given (text prints `weight:` otherwise). 0 in others.
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
pub struct GroupSpec {
    /// 0 to 0xffffff00.
    pub id: u32,
    /// What it does with its buckets.
    pub kind: GroupKind,
    /// How a select group chooses.
    pub selection: Selection,
    /// In order.
    pub buckets: Vec<BucketSpec>,
}

/// Where inserted buckets go, and which are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketPlace {
    /// Before the first; the first one.
    First,
    /// Behind the last; the last one.
    Last,
    /// Before the bucket with this id; this bucket.
    Before(u32),
    /// Only to remove: all of them.
    All,
}

/// A band of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// What happens above the rate.
    pub kind: BandKind,
    /// In packets or kilobits per second. Not 0.
    pub rate: u32,
    /// In packets or kilobits; 0 unless the meter has bursts.
    pub burst: u32,
}

/// What a band does with a packet above its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandKind {
    /// Drops it.
    Drop,
    /// Raises its drop precedence.
    DscpRemark {
        /// By how much.
        precedence: u8,
    },
}

/// A meter to add, or as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterSpec {
    /// 1 to 0xffff0000.
    pub id: u32,
    /// Packets, not kilobits.
    pub pktps: bool,
    /// Bursts given; else a second of the rate.
    pub burst: bool,
    /// Asked for statistics (there are always some).
    pub stats: bool,
    /// 1 to 8.
    pub bands: Vec<Band>,
}

/// One update of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Adds a flow, or replaces the one of the same table, priority and match.
    AddFlow(FlowSpec),
    /// Changes actions (and nothing else) of matching flows.
    ModifyFlows {
        /// Which flows.
        filter: FlowFilter,
        /// What they do from now on.
        actions: Arc<[Action]>,
        /// Start counting anew.
        reset_counts: bool,
        /// The cookie that they get.
        cookie: Option<u64>,
    },
    /// Deletes flows.
    DeleteFlows(FlowFilter),
    /// Adds a group.
    AddGroup(GroupSpec),
    /// `mod-group`, with `--may-create`.
    ModifyGroup {
        /// What it is from now on.
        spec: GroupSpec,
        /// Add it if there is none.
        may_create: bool,
    },
    /// None: all.
    DeleteGroups(Option<u32>),
    /// `insert-buckets`
    InsertBuckets {
        /// The group.
        group: u32,
        /// Where.
        place: BucketPlace,
        /// Of weight 0 where none was given, as with ovs-ofctl. In a select group such a bucket
        /// gets nothing.
        buckets: Vec<BucketSpec>,
    },
    /// `remove-buckets`
    RemoveBuckets {
        /// The group.
        group: u32,
        /// Which.
        place: BucketPlace,
    },
    /// Adds a meter.
    AddMeter(MeterSpec),
    /// Changes a meter.
    ModifyMeter(MeterSpec),
    /// None: all.
    DeleteMeters(Option<u32>),
    /// From here to the transaction's end the added flows are the whole of what this filter
    /// selects: mark and sweep. What is equal in the old and the new state keeps duration and
    /// counters; the rest of what the filter selects goes.
    ReplaceFlows(FlowFilter),
    /// Likewise everything: flows and groups (and meters if `meters`).
    ReplaceAll {
        /// Meters too.
        meters: bool,
    },
}
