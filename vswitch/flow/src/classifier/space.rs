//! Entries of any masks: a subtable for each mask, in order of their highest priorities, so that a
//! lookup ends early. (Tuple space search.)

use super::Entry;
use super::shape::fold;
use super::subtable::{Lookup, Row, Slot, Subtable};
use super::trie::{FIELDS, Trie, aligned};
use crate::{FlowKey, FlowMask, SparseMatch};
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A subtable's place in the order of lookup: the highest priority first; of equal ones, the one
/// whose entry there was added first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LookupRank {
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
    /// Hash of the mask, and number.
    by_mask: HashTable<(u64, usize)>,
    order: Vec<LookupRank>,
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

/// A match's values and mask, ready for a subtable.
struct Located {
    key: FlowKey,
    /// Hash of the mask.
    hash: u64,
    table: Option<usize>,
}

impl<T> Space<T> {
    fn locate(&self, matching: &SparseMatch) -> Located {
        let (mut key, mut hash) = (FlowKey::default(), matching.map());
        for (i, value, bits) in matching.iter() {
            key.0[i] = value;
            hash = fold(hash ^ bits);
        }
        let fits = |at: &(u64, usize)| self.table(at.1).is_some_and(|table| table.shape().is_mask_of(matching));
        Located { key, hash, table: self.by_mask.find(hash, fits).map(|at| at.1) }
    }

    fn table(&self, number: usize) -> Option<&Subtable<T>> {
        self.tables.get(number)?.as_deref()
    }

    pub(super) fn get(&self, matching: &SparseMatch, priority: u16) -> Option<&Row<T>> {
        let at = self.locate(matching);
        self.table(at.table?)?.slot(&at.key)?.rows.get(priority)
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
    /// Adds an entry; returns the one that it replaces, whose `seq` it gets. `relink` is called on
    /// its slot, with what it replaces.
    pub(super) fn insert(
        &mut self,
        row: Row<T>,
        relink: impl FnOnce(&mut Slot<T>, Option<&Entry<T>>),
    ) -> Option<Row<T>> {
        let at = self.locate(&row.entry.matching);
        let number = at.table.unwrap_or_else(|| self.add_table(&row.entry.matching, at.hash));
        let table = Arc::make_mut(self.tables.get_mut(number)?.as_mut()?);
        let was = table.rank();
        let (old, fresh) = table.insert(&at.key, row, relink);
        let now = table.rank();
        if fresh {
            for check in table.shape().prefixes() {
                let field = FIELDS[check.trie];
                self.tries[check.trie].insert(aligned(at.key.get(field), field), check.len);
            }
        }
        self.move_table(number, was, now);
        old
    }

    /// Removes an entry that is there. `relink` is called on its slot, with what was removed.
    pub(super) fn remove(
        &mut self,
        matching: &SparseMatch,
        priority: u16,
        relink: impl FnOnce(&mut Slot<T>, &Entry<T>),
    ) -> Option<Row<T>> {
        let at = self.locate(matching);
        let number = at.table?;
        let table = Arc::make_mut(self.tables.get_mut(number)?.as_mut()?);
        let was = table.rank();
        let (old, last) = table.remove(&at.key, priority, relink);
        let now = table.rank();
        if last {
            for check in table.shape().prefixes() {
                let field = FIELDS[check.trie];
                self.tries[check.trie].remove(aligned(at.key.get(field), field), check.len);
            }
        }
        self.move_table(number, was, now);
        if now.is_none() {
            self.tables[number] = None;
            if let Ok(mask) = self.by_mask.find_entry(at.hash, |mask| mask.1 == number) {
                mask.remove();
            }
        }
        old
    }

    fn add_table(&mut self, matching: &SparseMatch, hash: u64) -> usize {
        let number = self.tables.iter().position(Option::is_none).unwrap_or(self.tables.len());
        let table = Some(Arc::new(Subtable::new(&matching.expand().1, self.seed)));
        match self.tables.get_mut(number) {
            Some(free) => *free = table,
            None => self.tables.push(table),
        }
        self.by_mask.insert_unique(hash, (hash, number), |at| at.0);
        number
    }

    fn move_table(&mut self, table: usize, was: Option<(u16, u64)>, now: Option<(u16, u64)>) {
        if was == now {
            return;
        }
        let place = |(priority, first)| LookupRank { priority: Reverse(priority), first, table };
        if let Some(Ok(at)) = was.map(|was| self.order.binary_search(&place(was))) {
            self.order.remove(at);
        }
        if let Some(now) = now.map(place) {
            let (Ok(at) | Err(at)) = self.order.binary_search(&now);
            self.order.insert(at, now);
        }
    }
}
