//! What a translation yields.

use crate::action::Op;
use crate::group::{Group, GroupStats};
use crate::observe::{Decider, DropReason};
use crate::pipeline::{FdbKey, Learned, OpCount, RuleStats, TableStats};
use crate::port::PortId;
use std::sync::Arc;
use vswitch_flow::FlowMask;
use vswitch_flow::action::Learn;

/// The decision about a packet, good for every packet that agrees with it on the bits of `mask`.
#[derive(Debug, Default)]
pub struct Translation {
    /// What to do.
    pub ops: Vec<Op>,
    /// Bits of the packet that the decision used.
    pub mask: FlowMask,
    /// Bits of the key that were not the packet's own in some lookup.
    pub touched: FlowMask,
    /// Whose counters each packet adds to.
    pub credits: Vec<Credit>,
    /// What ops count by themselves.
    pub counts: Vec<Arc<OpCount>>,
    /// What else each packet causes (the first one's was done while translating).
    pub effects: Vec<Effect>,
    /// What must not have changed.
    pub deps: Deps,
    /// Why nothing (more) happens, if it is a drop that deserves a name.
    pub drop: Option<DropReason>,
    /// The last rule that the packet met, or the table that had none for it.
    pub decider: Option<Decider>,
    /// Actions that were executed; some count as several.
    pub work: u32,
    /// May be cached.
    pub cacheable: bool,
    /// The group where it ended ([`super::Choice::Ask`]): nothing is done yet, and nothing counted.
    pub chooser: Option<Arc<Group>>,
}

impl Translation {
    /// Bytes that it takes, about.
    #[must_use]
    pub fn size(&self) -> usize {
        let effect = |effect: &Effect| {
            let boxed = match effect {
                Effect::Learn { learn, .. } => {
                    size_of::<vswitch_flow::FlowKey>() + size_of::<Learn>() + size_of_val(&*learn.specs)
                }
                _ => 0,
            };
            size_of::<Effect>() + boxed
        };
        let effects: usize = self.effects.iter().map(effect).sum();
        // With the words that an Arc has in front.
        let counts = self.counts.len() * (size_of::<Arc<OpCount>>() + size_of::<OpCount>() + 16);
        crate::action::sizes(&self.ops) + size_of_val(&*self.credits) + counts + effects
    }
}

/// A counter that packets add to. Equal ones are one, not two that stand at the same number.
#[derive(Clone, Debug)]
pub enum Credit {
    /// A rule.
    Rule(Arc<RuleStats>),
    /// A group, and one of its buckets by index.
    Bucket(Arc<GroupStats>, usize),
    /// A group alone.
    Group(Arc<GroupStats>),
    /// A group and all of its buckets (all, indirect).
    AllBuckets(Arc<GroupStats>),
    /// A table: looked up, and whether a rule matched.
    Table(Arc<TableStats>, bool),
    /// One that packets reach longer than they came in, by so many bytes each: in a tunnel.
    Longer(Box<Self>, u32),
}

impl Credit {
    /// The counters of the rule, if it is one's.
    #[must_use]
    pub fn rule(&self) -> Option<&Arc<RuleStats>> {
        match self {
            Self::Rule(stats) => Some(stats),
            Self::Longer(credit, _) => credit.rule(),
            _ => None,
        }
    }
}

impl PartialEq for Credit {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rule(a), Self::Rule(b)) => Arc::ptr_eq(a, b),
            (Self::Bucket(a, i), Self::Bucket(b, j)) => Arc::ptr_eq(a, b) && i == j,
            (Self::Group(a), Self::Group(b)) | (Self::AllBuckets(a), Self::AllBuckets(b)) => Arc::ptr_eq(a, b),
            (Self::Longer(a, bytes), Self::Longer(b, other)) => a == b && bytes == other,
            (Self::Table(a, matched), Self::Table(b, other)) => Arc::ptr_eq(a, b) && matched == other,
            _ => false,
        }
    }
}

impl Eq for Credit {}

/// What a packet causes beside its ops.
#[derive(Clone, Debug)]
pub enum Effect {
    /// The source address was seen (NORMAL).
    Fdb {
        /// Index of the bridge.
        bridge: usize,
        /// Address and VLAN.
        key: FdbKey,
        /// Where.
        port: PortId,
    },
    /// A learn action was executed: refreshes the learned flow. The key is the packet's at that
    /// point, where the learned flow uses it.
    Learn {
        /// Index of the bridge.
        bridge: usize,
        /// The action.
        learn: Arc<Learn>,
        /// The packet at that point.
        key: Box<vswitch_flow::FlowKey>,
    },
    /// fin_timeout of a rule, to be executed if the packet has FIN or RST.
    Fin {
        /// The rule.
        rule: Arc<crate::pipeline::Rule>,
        /// New idle timeout, if lower; 0: leave.
        idle: u32,
        /// Likewise hard timeout.
        hard: u32,
    },
}

// Two are equal if they cause the same: of the packet that is learned from, only what the learned
// flow takes counts.
impl PartialEq for Effect {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fdb { bridge, key, port }, Self::Fdb { bridge: bridge_b, key: key_b, port: port_b }) => {
                (bridge, key, port) == (bridge_b, key_b, port_b)
            }
            (Self::Learn { bridge, learn, key }, Self::Learn { bridge: bridge_b, learn: learn_b, key: key_b }) => {
                bridge == bridge_b && learn == learn_b && Learned::flow(learn, key) == Learned::flow(learn_b, key_b)
            }
            (Self::Fin { rule, idle, hard }, Self::Fin { rule: rule_b, idle: idle_b, hard: hard_b }) => {
                Arc::ptr_eq(rule, rule_b) && (idle, hard) == (idle_b, hard_b)
            }
            _ => false,
        }
    }
}

impl Eq for Effect {}

/// What a decision depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deps {
    /// Number of the world it was made in.
    pub world: u64,
    /// Epoch ([`crate::pipeline::Changes`]) read before it was made.
    pub epoch: u64,
    /// Bridge whose tables these are (index); only decisions within one bridge are refined.
    pub bridge: usize,
    /// Port that the packet came in by: its number may be another port's later.
    pub port: Option<PortId>,
    /// More than one bridge: depends on everything.
    pub all: bool,
    /// Tables looked up: bit `t % 64` of word `t / 64`.
    pub tables: [u64; 4],
    /// Whether there is any rule at all, in whatever table.
    pub any_rule: bool,
    /// Groups or meters.
    pub groups: bool,
    /// MAC table.
    pub fdb: bool,
    /// Links of ports (fast failover, watch ports).
    pub links: bool,
}
