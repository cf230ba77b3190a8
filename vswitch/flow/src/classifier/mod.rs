//! Finds the rule of a packet. See [`Classifier`].

use crate::{FlowKey, FlowMask, SparseMatch};
use std::sync::Arc;

/// A clause that a flow is of a conjunction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clause {
    /// Of the conjunction.
    pub id: u32,
    /// From 0.
    pub clause: u8,
    /// How many the conjunction has, 2 to 64.
    pub clauses: u8,
}

/// A rule as the classifier sees it. `T` is what the owner wants back (an `Arc`: cheap to clone).
#[derive(Clone, Debug)]
pub struct Entry<T> {
    /// Higher wins.
    pub priority: u16,
    /// What it matches.
    pub matching: Arc<SparseMatch>,
    /// Not empty: the rule is no rule of its own but these clauses.
    pub clauses: Arc<[Clause]>,
    /// The owner's.
    pub data: T,
}

/// One table, compiled. A persistent value: `clone` is cheap (shared structure), and changing a clone copies only what it changes,
/// so that a new state is published while workers still read the old one.
///
/// At most one entry per (match, priority). Which of two overlapping entries of equal priority wins is the one added first.
#[derive(Clone, Debug)]
pub struct Classifier<T> {
    entries: Arc<Vec<Entry<T>>>,
}

impl<T> Default for Classifier<T> {
    fn default() -> Self {
        Self { entries: Arc::default() }
    }
}

/// What a lookup found.
#[derive(Clone, Debug)]
pub struct Found<'a, T> {
    /// The rule.
    pub entry: &'a Entry<T>,
    /// The conjunction it was found by; 0: none.
    pub conj_id: u32,
}

impl<T: Clone> Classifier<T> {
    /// Adds an entry; returns the one of equal match and priority that it replaces.
    pub fn insert(&mut self, entry: Entry<T>) -> Option<Entry<T>> {
        let entries = Arc::make_mut(&mut self.entries);
        let equal = entries.iter_mut().find(|e| e.priority == entry.priority && e.matching == entry.matching);
        match equal {
            Some(old) => Some(std::mem::replace(old, entry)),
            None => {
                entries.push(entry);
                None
            }
        }
    }

    /// Removes the entry of this match and priority.
    pub fn remove(&mut self, matching: &SparseMatch, priority: u16) -> Option<Entry<T>> {
        let entries = Arc::make_mut(&mut self.entries);
        let i = entries.iter().position(|e| e.priority == priority && *e.matching == *matching)?;
        Some(entries.remove(i))
    }

    /// The entry of this match and priority.
    #[must_use]
    pub fn get(&self, matching: &SparseMatch, priority: u16) -> Option<&Entry<T>> {
        self.entries.iter().find(|e| e.priority == priority && *e.matching == *matching)
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.entries.iter()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The rule of a packet. Bits of the packet that the decision used are added to `used`: any packet that agrees on them has the same
    /// result in this table. `floor`: a rule found elsewhere (learned rules live in a second classifier of the table)
    /// that wins against rules here of equal or lower priority, plain ones and clauses alike; then the result is none.
    ///
    /// Conjunctions (ovs-fields(7), and as observed): with H the best plain entry and S the highest priority of matching clauses:
    /// H >= S: H. Else if an id has all its clauses at S: the packet is looked up once more in the whole table with `conj_id` = id and no
    /// clauses, and that result is final. Else the next lower clause priority above H. One entry never counts for two clauses of an id.
    pub fn lookup<'a>(&'a self, key: &FlowKey, used: &mut FlowMask, floor: Option<u16>) -> Option<Found<'a, T>> {
        let _ = floor;
        let mut best: Option<&Entry<T>> = None;
        for entry in self.entries.iter().filter(|e| e.clauses.is_empty()) {
            entry.matching.add_to(used);
            if entry.matching.matches(key) && best.is_none_or(|b| b.priority < entry.priority) {
                best = Some(entry);
            }
        }
        best.map(|entry| Found { entry, conj_id: 0 })
    }
}
