//! The plain classifier: a list of entries, searched from one end to the other. It is the meaning
//! of [`super::Classifier`], written so that it can be checked by reading, and the oracle of its
//! tests. Nothing of the compiled form is used here.

use super::{Clause, Entry, Found};
use crate::{Field, FlowKey, SparseMatch};

/// The same table as [`super::Classifier`], searched linearly.
#[derive(Clone, Debug)]
pub struct Reference<T> {
    /// In the order in which they were added.
    entries: Vec<Entry<T>>,
}

impl<T> Default for Reference<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T> Reference<T> {
    /// Adds an entry; returns the one of equal match and priority, whose place it takes.
    pub fn insert(&mut self, entry: Entry<T>) -> Option<Entry<T>> {
        match self.entries.iter_mut().find(|e| e.priority == entry.priority && e.matching == entry.matching) {
            Some(old) => Some(std::mem::replace(old, entry)),
            None => {
                self.entries.push(entry);
                None
            }
        }
    }

    /// Removes the entry of this match and priority.
    pub fn remove(&mut self, matching: &SparseMatch, priority: u16) -> Option<Entry<T>> {
        let i = self.entries.iter().position(|e| e.priority == priority && *e.matching == *matching)?;
        Some(self.entries.remove(i))
    }

    /// The entry of this match and priority.
    #[must_use]
    pub fn get(&self, matching: &SparseMatch, priority: u16) -> Option<&Entry<T>> {
        self.entries.iter().find(|e| e.priority == priority && *e.matching == *matching)
    }

    /// All entries, the one added first first.
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

    /// The rule of a packet: see [`super::Classifier::lookup`].
    #[must_use]
    pub fn lookup(&self, key: &FlowKey, floor: Option<u16>) -> Option<Found<'_, T>> {
        let hard = self.best_plain(key, floor);
        let above = hard.map(|entry| entry.priority).max(floor);
        let soft: Vec<&Entry<T>> = self
            .entries
            .iter()
            .filter(|e| !e.clauses.is_empty() && Some(e.priority) > above && e.matching.matches(key))
            .collect();
        let mut priorities: Vec<u16> = soft.iter().map(|e| e.priority).collect();
        priorities.sort_unstable_by(|a, b| b.cmp(a));
        priorities.dedup();
        for priority in priorities {
            let same: Vec<&Entry<T>> = soft.iter().copied().filter(|e| e.priority == priority).collect();
            if let Some(conj_id) = complete(&same) {
                let mut key = key.clone();
                key.set(Field::ConjId, conj_id.into());
                return self.best_plain(&key, floor).map(|entry| Found { entry, conj_id });
            }
        }
        hard.map(|entry| Found { entry, conj_id: 0 })
    }

    /// The best entry without clauses that is above the floor.
    fn best_plain(&self, key: &FlowKey, floor: Option<u16>) -> Option<&Entry<T>> {
        let plain = self.entries.iter().filter(|e| e.clauses.is_empty() && Some(e.priority) > floor);
        plain.filter(|e| e.matching.matches(key)).reduce(|best, e| if e.priority > best.priority { e } else { best })
    }
}

/// The id that is complete among these entries, which are of one priority and in the order in which
/// they were added. Of several, the one that is listed first in the entry with the fewest clauses.
fn complete<T>(entries: &[&Entry<T>]) -> Option<u32> {
    let mut shortest = entries.to_vec();
    shortest.sort_by_key(|entry| entry.clauses.len());
    let mut listed = shortest.iter().flat_map(|e| e.clauses.iter()).filter(|c| c.is_valid());
    listed.find(|c| represented(0, c, entries, &mut vec![false; entries.len()])).map(|c| c.id)
}

/// Whether each clause of `of.id` from `clause` on can be given an entry of its own among those not
/// `taken`.
fn represented<T>(clause: u8, of: &Clause, entries: &[&Entry<T>], taken: &mut [bool]) -> bool {
    if clause == of.clauses {
        return true;
    }
    for (i, entry) in entries.iter().enumerate() {
        if !taken[i] && entry.clauses.contains(&Clause { clause, ..*of }) {
            taken[i] = true;
            if represented(clause + 1, of, entries, taken) {
                return true;
            }
            taken[i] = false;
        }
    }
    false
}
