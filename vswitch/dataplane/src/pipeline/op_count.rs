//! What ops count by themselves, beside the packets of their decision.
//!
//! **Design**: some things are counted for rules that not every packet of a decision does: a
//! `ct(commit)` that opened a connection, a `reject()` that sent an answer. Each such op has a word
//! of its own, in memory that nothing else needs, which is written only when it happens. The
//! decision lists the words, and who credits what it counted credits them, too.
//!
//! **Threads**: the worker that has the decision counts; credited is by the control side's one
//! collector, or by that worker itself, of a decision that is not kept.

use super::{Credit, RuleStats};
use crate::observe::Counter;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How often an op has done what is counted for rules. Two are equal if they count the same for the
/// same.
#[derive(Debug)]
pub struct OpCount {
    what: Counted,
    made: Counter,
    credited: Counter,
}

/// What an op counts, and for whom.
#[derive(Clone, Debug)]
pub enum Counted {
    /// Connections that `ct(commit)` created or gave another label ([`RuleStats::commits`]): for
    /// the rule in whose list it stands, or that led there.
    Commits(Arc<RuleStats>),
    /// Answers that `reject()` sent ([`RuleStats::rejects`]): for every rule of the decision, as
    /// packets are.
    Rejects,
}

impl PartialEq for OpCount {
    fn eq(&self, other: &Self) -> bool {
        match (&self.what, &other.what) {
            (Counted::Commits(a), Counted::Commits(b)) => Arc::ptr_eq(a, b),
            (Counted::Rejects, Counted::Rejects) => true,
            _ => false,
        }
    }
}

impl Eq for OpCount {}

impl OpCount {
    /// None yet.
    #[must_use]
    pub fn new(what: Counted) -> Self {
        Self { what, made: Counter::default(), credited: Counter::default() }
    }

    /// Once more. The one worker that has the decision.
    #[inline]
    pub fn add(&self) {
        self.made.add(1);
    }

    /// Adds what is new since the last call to counters of rules; `credits`: of the decision.
    pub fn credit(&self, credits: &[Credit]) {
        let made = self.made.get();
        let new = made.wrapping_sub(self.credited.get());
        if new == 0 {
            return;
        }
        self.credited.set(made);
        match &self.what {
            Counted::Commits(stats) => {
                stats.commits.fetch_add(new, Relaxed);
            }
            Counted::Rejects => {
                for stats in credits.iter().filter_map(Credit::rule) {
                    stats.rejects.fetch_add(new, Relaxed);
                }
            }
        }
    }
}
