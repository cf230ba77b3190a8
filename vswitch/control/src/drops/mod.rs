//! Drops, told: how many of each reason at each port, how fast, samples of them, and what to do.
//!
//! **Where in the walk**: beside it. Workers count and sample
//! ([`vswitch_dataplane::observe::DropSampler`]); this reads.
//!
//! **Design**: [`History`] keeps what each counter rose by in each of the last 60 seconds.
//! [`Watchers`] sets the workers' sampling rate to the highest that a watcher asks for, and to 0
//! when the last one goes. Samples go to all watchers over one broadcast: a slow watcher loses, and
//! is told how much. [`explain`] is the one table of causes and remedies.
//!
//! **Limits**: [`limits::DROP_WATCHERS_MAX`] watchers, [`limits::DROP_EVENTS_QUEUED`] samples for
//! the slowest, [`limits::DROP_RATES_MAX`] counters with a rate.
//!
//! **Threads**: `monitor` feeds both; any thread reads.

mod explain;
mod history;
mod page;
mod watchers;

pub use explain::{Explanation, explain};
pub use history::Rates;
pub(crate) use history::{History, Source};
pub use page::page;
pub use watchers::{DropDecider, DropEvent, DropStream, Watchers};

use std::collections::HashMap;
#[cfg(doc)]
use vswitch_dataplane::limits;
use vswitch_dataplane::observe::{Direction, DropReason};

/// Drops of one reason at one port in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct DropCount {
    /// Name of the bridge.
    pub bridge: String,
    /// Name of the port.
    pub port: String,
    /// Whether the packets came in by it or were to leave by it.
    pub direction: Direction,
    /// Why.
    pub reason: DropReason,
    /// How many since the port was opened.
    pub total: u64,
    /// How many lately. None: too many counters rise at a time to follow all.
    pub rates: Option<Rates>,
    /// What the owner of the port wrote to it.
    pub external_ids: HashMap<String, String>,
}
