//! Rules that `learn` installs: a side structure of the tables, changed by workers, effective for
//! the very next packet, and not for the one that teaches them: a translation sees them as it found
//! them.
//!
//! **Where in the walk**: translation looks a table up here first, then among the hand-made rules
//! with what was found here as the floor: a learned rule wins against a hand-made one of equal
//! priority, which is how it replaces the one of equal match.
//!
//! **Design**: writers (workers on a miss, the control side) hold a short lock, build the next
//! persistent classifiers and publish them with `ArcSwap`; readers take no lock, nor does a learn
//! that finds its rule as it would be.
//!
//! A [`Learned`] is a view that belongs to one program. All views of a bridge share one state and
//! usually there is one view. A transaction that touches learned rules must be seen by a packet
//! together with its program or not at all: it makes a second view for the new program, and until
//! the workers have adopted that, whatever is learned goes into both views, but what the
//! transaction deletes not into the second: a packet of the old world came before the transaction.
//!
//! What Open vSwitch does to a flow that is there already (`OFPFC_MODIFY_STRICT`) is done here:
//! with the learn's cookie and actions, it is only refreshed (its hard timeout starts over); else
//! it takes them. It keeps its timeouts, flags, duration and counters, hand-made or not. The
//! control side takes hand-made rules that were replaced out of the next program.
//!
//! **Limits**: [`crate::limits::LEARNED_PER_TABLE_MAX`], [`crate::limits::LEARNED_PER_BRIDGE_MAX`];
//! what is refused is counted, by table.
//!
//! **Threads**: any number of workers, one control side.

mod control;
mod make;
#[cfg(test)]
mod tests;
mod views;

use super::{ChangeLog, ChangedMatches, Changes, Rule, TABLES};
use crate::limits;
use crate::meter::Allowance;
use crate::time::Millis;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use views::{State, View};
use vswitch_flow::FlowKey;
use vswitch_flow::action::Learn;
use vswitch_flow::classifier::Classifier;
use vswitch_flow::spec::FlowSpec;

pub(super) use control::Begun;

/// Learned rules by table.
type Tables = Vec<Option<Arc<LearnedTable>>>;

/// Learned rules of a bridge, by table, as one program sees them.
#[derive(Debug)]
pub struct Learned {
    shared: Arc<Shared>,
    view: Arc<View>,
}

/// What all views of a bridge share.
#[derive(Debug)]
struct Shared {
    changes: Arc<Changes>,
    /// Serial of the bridge's last rule.
    serial: AtomicU64,
    /// By table: how often a flow was not learned because there were too many.
    refused: [AtomicU64; TABLES],
    bounds: Bounds,
    state: Mutex<State>,
}

/// How many flows may be learned.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    per_table: usize,
    per_bridge: usize,
}

/// The learned rules of all tables at one moment.
pub type LearnedTables = arc_swap::Guard<Arc<Vec<Option<Arc<LearnedTable>>>>>;

/// Learned rules of one table.
#[derive(Clone, Debug, Default)]
pub struct LearnedTable {
    /// The rules.
    pub rules: Classifier<Arc<Rule>>,
    /// Epoch of the last change that workers or timeouts made. The change is published with the
    /// number of the epoch that it begins, before that begins ([`Changes::publish`]): whoever sees
    /// an epoch sees all changes of tables up to it, with numbers not below the true ones. Changes
    /// by transactions are told by [`super::Table::changed`].
    pub epoch: u64,
    /// What changed, by epoch.
    pub log: ChangeLog,
}

impl LearnedTable {
    /// Rules with these matches have changed.
    fn changed(&mut self, epoch: u64, matches: &ChangedMatches) {
        self.epoch = epoch;
        self.log.note(epoch, matches);
    }
}

impl Default for Learned {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl Learned {
    /// None yet.
    #[must_use]
    pub fn new(changes: Arc<Changes>) -> Self {
        let (per_table, per_bridge) = (limits::LEARNED_PER_TABLE_MAX, limits::LEARNED_PER_BRIDGE_MAX);
        Self::bounded(changes, Bounds { per_table, per_bridge })
    }

    fn bounded(changes: Arc<Changes>, bounds: Bounds) -> Self {
        let view = Arc::new(View { base: Vec::new(), tables: ArcSwap::default() });
        let state = Mutex::new(State::new(Arc::clone(&view)));
        let (serial, refused) = (AtomicU64::new(0), [const { AtomicU64::new(0) }; TABLES]);
        Self { shared: Arc::new(Shared { changes, serial, refused, bounds, state }), view }
    }

    /// The rules of all tables, now.
    pub fn tables(&self) -> LearnedTables {
        self.view.tables.load()
    }

    /// Executes a learn action for a packet: installs, replaces or refreshes. The result is what
    /// goes into `result_dst`: whether the flow is there now (always but for `limit`, and when
    /// there are too many learned flows). Whatever is more than a refresh is taken from
    /// `allowance`, too.
    pub fn learn(&self, learn: &Learn, key: &FlowKey, now: Millis, allowance: Option<&Allowance>) -> bool {
        let wanted = make::flow(learn, key);
        let present = self.view.find(wanted.table, &wanted.matching, wanted.priority);
        if let Some(rule) = present
            && views::is_as_wanted(&rule, &wanted)
        {
            rule.modified_ms.fetch_max(now.0, Relaxed);
            return true;
        }
        if allowance.is_some_and(|allowance| !allowance.take(now)) {
            return false;
        }
        self.shared.state.lock().install(&self.shared, &self.view, &wanted, learn.limit, now)
    }

    /// The flow that a learn action makes of a packet.
    #[must_use]
    pub fn flow(learn: &Learn, key: &FlowKey) -> FlowSpec {
        make::flow(learn, key)
    }

    /// How often a flow was not learned into a table because it or the bridge had too many.
    #[must_use]
    pub fn refused(&self, table: u8) -> u64 {
        self.shared.refused.get(usize::from(table)).map_or(0, |refused| refused.load(Relaxed))
    }

    /// The next place in the order of the bridge's rules.
    pub(super) fn next_serial(&self) -> u64 {
        self.shared.next_serial()
    }
}

impl Shared {
    fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Relaxed) + 1
    }
}
