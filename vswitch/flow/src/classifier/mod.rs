//! Finds the rule of a packet. See [`Classifier`].
//!
//! **Where in the walk**: behind the caches. Translation looks a packet up in one table after the
//! other; what a lookup says it used becomes the mask of the cached flow.
//!
//! **Design**. [`reference`](mod@reference) says what a lookup means; the rest finds the same
//! quickly.
//!
//! - *Subtables* (`space`, `subtable`): entries with the same mask share a hash table, so that a
//!   packet needs one probe per mask. Subtables are tried in the order of their highest priorities,
//!   until what was found cannot be beaten. A table with one mask is one probe; subtables of up to
//!   four matches are compared one by one.
//! - *Stages* (`shape`): a key is hashed by stage (`conj_id`, metadata, L2, L3, L4), and all but
//!   the last stage have a set of what entries have there. A packet that misses early uses the bits
//!   of early stages only.
//! - *Prefixes* (`trie`): addresses and ports have a trie of their prefixes. It tells which prefix
//!   lengths can match at all, so that other subtables are skipped, and how many bits tell that. A
//!   stage that misses asks it, too: its few bits stand for all bits of the stage.
//! - *Conjunctions* (`conjunction`, `intersect`): clause entries have subtables of their own, tried
//!   only where their priorities are above the best plain entry. A match with clauses holds, for
//!   each clause number, the set of conjunctions that it is this clause of, of all its entries:
//!   5,000 entries on `tcp_dst=80` are one probe. The shortest set leads the intersection; where
//!   all are long, they are bitmaps by priority.
//! - *Persistence* (`shards`, `ranks`): everything is shared between clones, and a change copies
//!   what it touches where it is shared.
//!
//! **Cost** (n entries, m masks, one core; `cargo run --release -p vswitch-flow --example classify`
//! measures):
//!
//! | operation | cost |
//! |---|---|
//! | lookup | a probe per mask that may beat the best so far, a walk of up to log2 n nodes per prefix field that a probe missed in, and with clauses the shortest set × number of matches, or a word per 64 conjunctions × sets, whichever is less |
//! | insert, remove, get | a probe, a walk per prefix field and some binary searches: about 1 µs. Clauses: a probe and a search each; of an entry that is replaced only clauses that differ |
//! | changes after `clone` | also copy a pointer per mask and some per conjunction, once, and some hundred pointers per changed entry: 5 to 10 µs among 115,000 entries |
//! | clone | two reference counts. Dropping the last clone of a state frees what newer states do not share |
//!
//! **Limits**: none of its own but memory, about 200 bytes per entry beside its match and data; the
//! owner of a table limits its entries. What costs time is many different masks of high priority,
//! and conjunctions that are complete by the thousand at one priority.
//!
//! **Threads**: a plain value. The owner changes a clone and publishes it, and keeps the old one
//! until the workers have left it.

mod conjunction;
mod intersect;
mod numbers;
mod ranks;
pub mod reference;
mod shape;
mod shards;
mod space;
mod subtable;
mod trie;

use crate::{Field, FlowKey, FlowMask, SparseMatch};
use conjunction::Registry;
use space::Space;
use std::sync::Arc;
use subtable::Row;

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

impl Clause {
    /// Whether its numbers are in range. Others are never complete.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.clauses >= 2 && self.clauses <= 64 && self.clause < self.clauses
    }
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

/// One table, compiled. A persistent value: `clone` is cheap (shared structure), and changing a
/// clone copies only what it changes, so that a new state is published while workers still read the
/// old one.
///
/// At most one entry per (match, priority). Which of two overlapping entries of equal priority wins
/// is the one added first.
#[derive(Clone, Debug)]
pub struct Classifier<T> {
    plain: Arc<Space<T>>,
    soft: Arc<Soft<T>>,
    len: usize,
    /// Entries added so far.
    added: u64,
}

/// The entries with clauses.
#[derive(Clone, Debug)]
struct Soft<T> {
    space: Space<T>,
    registry: Registry,
}

impl<T> Default for Classifier<T> {
    fn default() -> Self {
        let soft = Soft { space: Space::default(), registry: Registry::default() };
        Self { plain: Arc::default(), soft: Arc::new(soft), len: 0, added: 0 }
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
    /// Adds an entry; returns the one of equal match and priority that it replaces. It takes that
    /// one's place in the order of adding.
    pub fn insert(&mut self, entry: Entry<T>) -> Option<Entry<T>> {
        let (priority, soft) = (entry.priority, !entry.clauses.is_empty());
        let moved = self.take(&entry.matching, priority, !soft);
        let row = Row { seq: moved.as_ref().map_or(self.added, |row| row.seq), entry };
        let replaced = if soft {
            let Soft { space, registry } = Arc::make_mut(&mut self.soft);
            let clauses = Arc::clone(&row.entry.clauses);
            space.insert(row, |slot, old| {
                registry.change(slot, priority, old.map_or(&[], |old| &old.clauses), &clauses);
            })
        } else {
            Arc::make_mut(&mut self.plain).insert(row, |_, _| {})
        };
        let old = moved.or(replaced);
        self.added += 1;
        self.len += usize::from(old.is_none());
        old.map(|row| row.entry)
    }

    /// Removes the entry of this match and priority.
    pub fn remove(&mut self, matching: &SparseMatch, priority: u16) -> Option<Entry<T>> {
        let row = self.take(matching, priority, false).or_else(|| self.take(matching, priority, true))?;
        self.len -= 1;
        Some(row.entry)
    }

    /// The entry of this match and priority.
    #[must_use]
    pub fn get(&self, matching: &SparseMatch, priority: u16) -> Option<&Entry<T>> {
        let row = self.row(matching, priority, false).or_else(|| self.row(matching, priority, true));
        row.map(|row| &row.entry)
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.plain.rows().chain(self.soft.space.rows()).map(|row| &row.entry)
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The rule of a packet. Bits of the packet that the decision used are added to `used`: any
    /// packet that agrees on them has the same result in this table. `floor`: a rule found
    /// elsewhere (learned rules live in a second classifier of the table) that wins against rules
    /// here of equal or lower priority, plain ones and clauses alike; then the result is none.
    ///
    /// Conjunctions (ovs-fields(7), and as observed): with H the best plain entry and S the highest
    /// priority of matching clauses: H >= S: H. Else if an id has all its clauses at S: the packet
    /// is looked up once more in the whole table with `conj_id` = id and no clauses, and that
    /// result is final. Else the next lower clause priority above H. One entry never counts for two
    /// clauses of an id. Of several ids at S, the one listed first in the matching entry that has
    /// the fewest clauses (the first added of such). The floor holds in the second lookup too.
    ///
    /// `conj_id` is 0 in the key of a packet. It is no bit of the packet: it is never added to
    /// `used`.
    pub fn lookup<'a>(&'a self, key: &FlowKey, used: &mut FlowMask, floor: Option<u16>) -> Option<Found<'a, T>> {
        // Bits used here only: what others used may be of an older value of a field that was
        // written since.
        let mut bits = FlowMask::default();
        bits.add(Field::ConjId);
        let hard = self.plain.best(key, &mut bits, floor);
        let above = hard.map(|row| row.entry.priority).max(floor);
        let found = match self.conj_id(key, &mut bits, above) {
            Some(conj_id) => {
                let mut key = key.clone();
                key.set(Field::ConjId, conj_id.into());
                self.plain.best(&key, &mut bits, floor).map(|row| Found { entry: &row.entry, conj_id })
            }
            None => hard.map(|row| Found { entry: &row.entry, conj_id: 0 }),
        };
        bits.set(Field::ConjId, 0);
        used.add_mask(&bits);
        found
    }

    /// The conjunction that a packet completes at the highest priority above this one.
    fn conj_id(&self, key: &FlowKey, used: &mut FlowMask, above: Option<u16>) -> Option<u32> {
        let slots = self.soft.space.all(key, used, above);
        if slots.len() < 2 {
            return None;
        }
        intersect::complete(&slots, &self.soft.registry, above)
    }

    fn row(&self, matching: &SparseMatch, priority: u16, soft: bool) -> Option<&Row<T>> {
        let space = if soft { &self.soft.space } else { &*self.plain };
        space.get(matching, priority)
    }

    /// Removes an entry. Copies nothing if it is not there.
    fn take(&mut self, matching: &SparseMatch, priority: u16, soft: bool) -> Option<Row<T>> {
        self.row(matching, priority, soft)?;
        if !soft {
            return Arc::make_mut(&mut self.plain).remove(matching, priority, |_, _| {});
        }
        let Soft { space, registry } = Arc::make_mut(&mut self.soft);
        space.remove(matching, priority, |slot, old| registry.change(slot, priority, &old.clauses, &[]))
    }
}

#[cfg(test)]
mod tests;
