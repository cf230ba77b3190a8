//! Tables, groups and meters of a bridge as one snapshot has them.

use super::{ChangeLog, Learned};
use crate::group::Group;
use crate::meter::Meter;
use crate::time::Millis;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use vswitch_flow::SparseMatch;
use vswitch_flow::action::Action;
use vswitch_flow::classifier::{Classifier, Clause, Entry};
use vswitch_flow::spec::{FlowFlags, FlowSpec};

/// Number of tables of a bridge: 0 to 253.
pub const TABLES: usize = 254;

/// Tables, groups and meters. Immutable but for counters and learned rules; parts that did not
/// change are shared with the program before.
#[derive(Debug, Default)]
pub struct Program {
    /// By number; at most [`TABLES`]. A table that was never used is None: every lookup misses.
    pub tables: Vec<Option<Arc<Table>>>,
    /// By id.
    pub groups: Arc<HashMap<u32, Arc<Group>>>,
    /// By id.
    pub meters: Arc<HashMap<u32, Arc<Meter>>>,
    /// Rules that workers install. Outlives the program.
    pub learned: Arc<Learned>,
    /// World in which groups or meters last changed.
    pub groups_changed: u64,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its number.
    pub id: u8,
    /// Its rules, learned ones apart.
    pub rules: Classifier<Arc<Rule>>,
    /// Counters.
    pub stats: Arc<TableStats>,
    /// World in which it last changed.
    pub changed: u64,
    /// What changed, by world.
    pub log: ChangeLog,
}

/// Counters of a table (`dump-tables`).
#[derive(Debug, Default)]
pub struct TableStats {
    /// Packets looked up.
    pub lookups: AtomicU64,
    /// Packets that a rule matched.
    pub matches: AtomicU64,
}

/// A rule in use.
#[derive(Debug)]
pub struct Rule {
    /// Its place in the order of arrival, unique in the bridge: dumps are sorted by it. An add over
    /// a rule keeps it.
    pub serial: u64,
    /// Its table.
    pub table: u8,
    /// Higher wins.
    pub priority: u16,
    /// What it matches.
    pub matching: Arc<SparseMatch>,
    /// The agent's mark.
    pub cookie: u64,
    /// What it does.
    pub actions: Arc<[Action]>,
    /// Flags.
    pub flags: FlowFlags,
    /// Kept and printed.
    pub importance: u16,
    /// Seconds without a packet after which it goes; 0: never. fin_timeout lowers it.
    pub idle_timeout: AtomicU32,
    /// Seconds after `modified_ms` when it goes; 0: never.
    pub hard_timeout: AtomicU32,
    /// Milliseconds when it was added (a new duration starts with every add).
    pub created_ms: u64,
    /// Milliseconds when it was added, modified, or learned again.
    pub modified_ms: AtomicU64,
    /// Installed by learn.
    pub learned: bool,
    /// Counters; survive an add over the rule unless `reset_counts`.
    pub stats: Arc<RuleStats>,
}

impl Rule {
    /// A rule as written, new in every respect.
    #[must_use]
    pub fn new(spec: FlowSpec, serial: u64, now: Millis) -> Self {
        let FlowSpec { table, priority, matching, cookie, idle_timeout, hard_timeout, importance, flags, actions } =
            spec;
        Self {
            serial,
            table,
            priority,
            matching,
            cookie,
            actions,
            flags,
            importance,
            idle_timeout: AtomicU32::new(idle_timeout),
            hard_timeout: AtomicU32::new(hard_timeout),
            created_ms: now.0,
            modified_ms: AtomicU64::new(now.0),
            learned: false,
            stats: Arc::new(RuleStats { used_ms: AtomicU64::new(now.0), ..RuleStats::default() }),
        }
    }

    /// Goes on counting where another rule stands, unless `reset`. When it was last hit is taken
    /// over in any case.
    pub fn take_counters(&mut self, old: &Self, reset: bool) {
        if reset {
            let used_ms = AtomicU64::new(old.stats.used_ms.load(Relaxed));
            self.stats = Arc::new(RuleStats { used_ms, ..RuleStats::default() });
        } else {
            self.stats = Arc::clone(&old.stats);
        }
    }

    /// The rule as an agent would write it. Timeouts are the present ones.
    #[must_use]
    pub fn spec(&self) -> FlowSpec {
        FlowSpec {
            table: self.table,
            priority: self.priority,
            matching: Arc::clone(&self.matching),
            cookie: self.cookie,
            idle_timeout: self.idle_timeout.load(Relaxed),
            hard_timeout: self.hard_timeout.load(Relaxed),
            importance: self.importance,
            flags: self.flags,
            actions: Arc::clone(&self.actions),
        }
    }

    /// The rule as the classifier takes it.
    #[must_use]
    pub fn entry(self: &Arc<Self>) -> Entry<Arc<Self>> {
        let clause = |action: &Action| match *action {
            Action::Conjunction { id, clause, clauses } => Some(Clause { id, clause, clauses }),
            _ => None,
        };
        let clauses: Vec<Clause> = self.actions.iter().filter_map(clause).collect();
        Entry {
            priority: self.priority,
            matching: Arc::clone(&self.matching),
            // The usual empty one is not worth an allocation.
            clauses: if clauses.is_empty() { Arc::default() } else { clauses.into() },
            data: Arc::clone(self),
        }
    }
}

impl Program {
    /// A table, if it was ever used.
    #[inline]
    #[must_use]
    pub fn table(&self, id: u8) -> Option<&Arc<Table>> {
        self.tables.get(usize::from(id))?.as_ref()
    }
}

/// Counters of a rule. Added to when megaflows are collected, and by uncached packets.
#[derive(Debug, Default)]
pub struct RuleStats {
    /// Packets.
    pub packets: AtomicU64,
    /// Bytes, as long as the packets were when their stage began.
    pub bytes: AtomicU64,
    /// Milliseconds when it was last hit, or added if it never was. An add over a rule keeps it, as
    /// in Open vSwitch: the new rule's idle timeout counts from the last packet of the old one.
    pub used_ms: AtomicU64,
    /// Connections that a `ct(commit)` of its list, or of a group's bucket that its list leads to,
    /// created or gave another label: each once by each such `ct()`.
    pub commits: AtomicU64,
    /// Answers that `reject()` sent to its packets.
    pub rejects: AtomicU64,
}
