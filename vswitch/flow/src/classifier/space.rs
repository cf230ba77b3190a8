//! Entries of any masks: a subtable for each mask, in order of their highest priorities, so that a lookup ends early. (Tuple space search.)

use super::Entry;
use super::shape::fold;
use super::subtable::{Lookup, Row, Slot, Subtable};
use super::trie::{FIELDS, Trie, aligned};
use crate::{FlowKey, FlowMask, SparseMatch};
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A subtable's place in the order of lookup: the highest priority first; of equal ones, the one whose entry there was added first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    priority: Reverse<u16>,
    first: u64,
    table: usize,
}

/// The entries.
#[derive(Clone, Debug)]
pub(super) struct Space<T> {
    seed: u64,
    /// By number; numbers of subtables that are gone are free.
    tables: Vec<Option<Arc<Subtable<T>>>>,
    /// Hash of the mask and number.
    by_mask: HashTable<(u64, usize)>,
    order: Vec<Place>,
    tries: [Trie; FIELDS.len()],
}

impl<T> Default for Space<T> {
    fn default() -> Self {
        // Learned rules come from packets: their hashes must not be foreseeable.
        let seed = foldhash::fast::RandomState::default().hash_one(0);
        let tries = std::array::from_fn(|_| Trie::default());
        Self { seed, tables: Vec::new(), by_mask: HashTable::new(), order: Vec::new(), tries }
    }
}

fn hash_mask(mask: &FlowMask) -> u64 {
    mask.0.iter().fold(1, |hash, word| fold(hash ^ word))
}

impl<T> Space<T> {
    fn table_of(&self, mask: &FlowMask) -> Option<usize> {
        let fits = |at: &(u64, usize)| self.table(at.1).is_some_and(|table| table.shape().mask() == mask);
        self.by_mask.find(hash_mask(mask), fits).map(|at| at.1)
    }

    fn table(&self, number: usize) -> Option<&Subtable<T>> {
        self.tables.get(number)?.as_deref()
    }

    pub(super) fn get(&self, matching: &SparseMatch, priority: u16) -> Option<&Row<T>> {
        let (key, mask) = matching.expand();
        self.table(self.table_of(&mask)?)?.slot(&key)?.rows.get(priority)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row<T>> {
        self.tables.iter().flatten().flat_map(|table| table.slots()).flat_map(|slot| slot.rows.values())
    }

    /// The best entry of a packet that is above `floor`.
    pub(super) fn best(&self, key: &FlowKey, used: &mut FlowMask, floor: Option<u16>) -> Option<&Row<T>> {
        let mut lookup = Lookup::new(key, &self.tries);
        let mut best: Option<(Reverse<u16>, u64, &Row<T>)> = None;
        for place in &self.order {
            let better = best.is_none_or(|(priority, seq, _)| (place.priority, place.first) < (priority, seq));
            if !better || Some(place.priority.0) <= floor {
                break;
            }
            let found = self.table(place.table).and_then(|table| table.find(&mut lookup, used));
            if let Some((priority, row)) = found.and_then(|slot| slot.rows.first())
                && Some(priority) > floor
                && best.is_none_or(|(at, seq, _)| (Reverse(priority), row.seq) < (at, seq))
            {
                best = Some((Reverse(priority), row.seq, row));
            }
        }
        best.map(|(_, _, row)| row)
    }

    /// All slots that a packet fits and that have an entry above `floor`.
    pub(super) fn all<'a>(&'a self, key: &FlowKey, used: &mut FlowMask, floor: Option<u16>) -> Vec<&'a Slot<T>> {
        let mut lookup = Lookup::new(key, &self.tries);
        let places = self.order.iter().take_while(|place| Some(place.priority.0) > floor);
        let found = places.filter_map(|place| self.table(place.table)?.find(&mut lookup, used));
        found.filter(|slot| slot.rows.first().map(|(priority, _)| priority) > floor).collect()
    }
}

impl<T: Clone> Space<T> {
    /// Adds an entry; returns the one that it replaces, whose `seq` it gets.
    pub(super) fn insert(&mut self, entry: Entry<T>, seq: u64) -> Option<Row<T>> {
        let (key, mask) = entry.matching.expand();
        let number = self.table_of(&mask).unwrap_or_else(|| self.add_table(&mask));
        let table = Arc::make_mut(self.tables.get_mut(number)?.as_mut()?);
        let was = table.rank();
        let (old, fresh) = table.insert(&key, Row { seq, entry });
        let now = table.rank();
        if fresh {
            for check in table.shape().prefixes() {
                self.tries[check.trie].insert(aligned(key.get(FIELDS[check.trie]), FIELDS[check.trie]), check.len);
            }
        }
        self.move_table(number, was, now);
        old
    }

    /// Removes an entry that is there.
    pub(super) fn remove(&mut self, matching: &SparseMatch, priority: u16) -> Option<Row<T>> {
        let (key, mask) = matching.expand();
        let number = self.table_of(&mask)?;
        let table = Arc::make_mut(self.tables.get_mut(number)?.as_mut()?);
        let was = table.rank();
        let (old, last) = table.remove(&key, priority);
        let now = table.rank();
        if last {
            for check in table.shape().prefixes() {
                self.tries[check.trie].remove(aligned(key.get(FIELDS[check.trie]), FIELDS[check.trie]), check.len);
            }
        }
        self.move_table(number, was, now);
        if now.is_none() {
            self.tables[number] = None;
            if let Ok(at) = self.by_mask.find_entry(hash_mask(&mask), |at| at.1 == number) {
                at.remove();
            }
        }
        old
    }

    /// The slot of a match, to change its lists.
    pub(super) fn slot_mut(&mut self, matching: &SparseMatch) -> Option<&mut Slot<T>> {
        let (key, mask) = matching.expand();
        let number = self.table_of(&mask)?;
        Arc::make_mut(self.tables.get_mut(number)?.as_mut()?).slot_mut(&key)
    }

    fn add_table(&mut self, mask: &FlowMask) -> usize {
        let number = self.tables.iter().position(Option::is_none).unwrap_or(self.tables.len());
        let table = Some(Arc::new(Subtable::new(mask, self.seed)));
        match self.tables.get_mut(number) {
            Some(free) => *free = table,
            None => self.tables.push(table),
        }
        self.by_mask.insert_unique(hash_mask(mask), (hash_mask(mask), number), |at| at.0);
        number
    }

    fn move_table(&mut self, table: usize, was: Option<(u16, u64)>, now: Option<(u16, u64)>) {
        if was == now {
            return;
        }
        let place = |(priority, first)| Place { priority: Reverse(priority), first, table };
        if let Some(Ok(at)) = was.map(|was| self.order.binary_search(&place(was))) {
            self.order.remove(at);
        }
        if let Some(now) = now.map(place) {
            let (Ok(at) | Err(at)) = self.order.binary_search(&now);
            self.order.insert(at, now);
        }
    }
}
