//! The entries of one mask, and how a packet finds its own among them.

use super::Entry;
use super::numbers::List;
use super::ranks::Ranks;
use super::shape::{PrefixCheck, Shape, Values};
use super::shards::{Hashed, Shards};
use super::trie::{FIELDS, Trie, Walk, aligned, first_bits};
use crate::{FlowKey, FlowMask};
use std::sync::Arc;

/// Up to so many matches are compared one by one.
const FEW: usize = 4;

/// An entry in its place.
#[derive(Clone, Debug)]
pub(super) struct Row<T> {
    /// Rises with the order in which entries were added.
    pub(super) seq: u64,
    pub(super) entry: Entry<T>,
}

/// All entries of one match.
#[derive(Clone, Debug)]
pub(super) struct Slot<T> {
    hash: u64,
    values: Values,
    pub(super) rows: Ranks<Row<T>>,
    /// What the rows' clauses amount to. Empty for plain entries.
    pub(super) lists: Vec<List>,
}

impl<T> Hashed for Arc<Slot<T>> {
    fn hash(&self) -> u64 {
        self.hash
    }
}

/// How many matches have the same first words.
#[derive(Clone, Debug)]
struct Stem {
    hash: u64,
    matches: u32,
}

impl Hashed for Stem {
    fn hash(&self) -> u64 {
        self.hash
    }
}

/// How many entries have a priority, and the first of them.
#[derive(Clone, Debug)]
struct Level {
    entries: u32,
    /// Not above the lowest `seq` (that entry may be gone).
    first: u64,
}

/// What a lookup knows by now.
pub(super) struct Lookup<'a> {
    pub(super) key: &'a FlowKey,
    tries: &'a [Trie; FIELDS.len()],
    walks: [Option<Walk>; FIELDS.len()],
}

impl<'a> Lookup<'a> {
    pub(super) fn new(key: &'a FlowKey, tries: &'a [Trie; FIELDS.len()]) -> Self {
        Self { key, tries, walks: [None; FIELDS.len()] }
    }

    /// Whether entries of a subtable may have the packet's prefix. If not: adds the bits that tell.
    fn may_fit(&mut self, check: &PrefixCheck, used: &mut FlowMask) -> bool {
        let field = FIELDS[check.trie];
        let walk = self.walks[check.trie]
            .get_or_insert_with(|| self.tries[check.trie].walk(aligned(self.key.get(field), field)));
        let fits = walk.fits(check.len);
        if !fits {
            used.add_bits(field, first_bits(field, walk.bits));
        }
        fits
    }

    fn has_walked(&self, check: &PrefixCheck) -> bool {
        self.walks[check.trie].is_some()
    }
}

/// The entries of one mask.
#[derive(Clone, Debug)]
pub(super) struct Subtable<T> {
    shape: Arc<Shape>,
    seed: u64,
    slots: Shards<Arc<Slot<T>>>,
    /// Per step but the last: the first words of all matches.
    stems: Vec<Shards<Stem>>,
    levels: Ranks<Level>,
}

impl<T> Subtable<T> {
    pub(super) fn new(mask: &FlowMask, seed: u64) -> Self {
        let shape = Arc::new(Shape::new(mask));
        let stems = (1..shape.steps()).map(|_| Shards::default()).collect();
        Self { shape, seed, slots: Shards::default(), stems, levels: Ranks::Empty }
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The highest priority, and a lower bound of the `seq` of its entries. None: there is no
    /// entry.
    pub(super) fn rank(&self) -> Option<(u16, u64)> {
        self.levels.first().map(|(priority, level)| (priority, level.first))
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot<T>> {
        self.slots.iter().map(|slot| &**slot)
    }

    /// The slot of a match, given as its values.
    pub(super) fn slot(&self, key: &FlowKey) -> Option<&Slot<T>> {
        let hash = self.shape.hash(self.seed, key);
        self.slots.find(hash, |slot| self.shape.matches(&slot.values, key)).map(|slot| &**slot)
    }

    /// The slot that a packet fits. Bits that tell are added to `used`: if there is none, as few as
    /// we can tell.
    #[inline]
    pub(super) fn find(&self, lookup: &mut Lookup<'_>, used: &mut FlowMask) -> Option<&Slot<T>> {
        let found = if self.slots.len() <= FEW { self.compare(lookup.key, used) } else { self.probe(lookup, used) };
        if found.is_some() {
            self.shape.add_all(used);
        }
        found
    }

    fn compare(&self, key: &FlowKey, used: &mut FlowMask) -> Option<&Slot<T>> {
        let found = self.slots().find(|slot| self.shape.matches(&slot.values, key));
        if found.is_none() {
            self.slots().for_each(|slot| self.shape.add_difference(&slot.values, key, used));
        }
        found
    }

    fn probe(&self, lookup: &mut Lookup<'_>, used: &mut FlowMask) -> Option<&Slot<T>> {
        let shape = &*self.shape;
        let mut hash = self.seed;
        for step in 0..shape.steps() {
            for check in shape.prefixes_of(step) {
                if lookup.has_walked(check) && !lookup.may_fit(check, used) {
                    return None;
                }
            }
            hash = shape.hash_step(step, hash, lookup.key);
            if let Some(stems) = self.stems.get(step)
                && stems.find(hash, |stem| stem.hash == hash).is_none()
            {
                // A walk is dearer than a probe: only now that it may save bits.
                if shape.prefixes_of(step).all(|check| lookup.may_fit(check, used)) {
                    shape.add_steps(step, used);
                }
                return None;
            }
        }
        let found = self.slots.find(hash, |slot| shape.matches(&slot.values, lookup.key));
        // As above.
        if found.is_none() && shape.prefixes().iter().all(|check| lookup.may_fit(check, used)) {
            shape.add_all(used);
        }
        found.map(|slot| &**slot)
    }
}

impl<T: Clone> Subtable<T> {
    /// Adds an entry whose match has these values. Returns the entry that it replaces (and whose
    /// `seq` it gets), and whether its match is new. `relink` is called on its slot, with what it
    /// replaces.
    pub(super) fn insert(
        &mut self,
        key: &FlowKey,
        mut row: Row<T>,
        relink: impl FnOnce(&mut Slot<T>, Option<&Entry<T>>),
    ) -> (Option<Row<T>>, bool) {
        let Self { shape, slots, .. } = self;
        let (hash, priority, seq) = (shape.hash(self.seed, key), row.entry.priority, row.seq);
        let fits = |slot: &Arc<Slot<T>>| shape.matches(&slot.values, key);
        if slots.find(hash, fits).is_none() {
            let rows = Ranks::One(priority, row);
            let mut slot = Slot { hash, values: shape.values(key), rows, lists: Vec::new() };
            relink(&mut slot, None);
            slots.insert(Arc::new(slot));
            self.count_stems(key, true);
            self.add_level(priority, seq);
            return (None, true);
        }
        let Some(slot) = slots.find_mut(hash, fits).map(Arc::make_mut) else { return (None, false) };
        let old = match slot.rows.get_mut(priority) {
            Some(there) => {
                row.seq = there.seq;
                Some(std::mem::replace(there, row))
            }
            None => {
                slot.rows.insert(priority, row);
                None
            }
        };
        relink(slot, old.as_ref().map(|row| &row.entry));
        if old.is_none() {
            self.add_level(priority, seq);
        }
        (old, false)
    }

    /// Removes an entry that is there, and tells whether it was the last of its match. `relink` is
    /// called on its slot.
    pub(super) fn remove(
        &mut self,
        key: &FlowKey,
        priority: u16,
        relink: impl FnOnce(&mut Slot<T>, &Entry<T>),
    ) -> (Option<Row<T>>, bool) {
        let Self { shape, slots, .. } = self;
        let hash = shape.hash(self.seed, key);
        let fits = |slot: &Arc<Slot<T>>| shape.matches(&slot.values, key);
        let Some(slot) = slots.find_mut(hash, fits).map(Arc::make_mut) else { return (None, false) };
        let Some(row) = slot.rows.remove(priority) else { return (None, false) };
        relink(slot, &row.entry);
        let last = slot.rows.is_empty();
        if last {
            slots.remove(hash, fits);
            self.count_stems(key, false);
        }
        self.remove_level(priority);
        (Some(row), last)
    }

    fn count_stems(&mut self, key: &FlowKey, add: bool) {
        let mut hash = self.seed;
        for (step, stems) in self.stems.iter_mut().enumerate() {
            hash = self.shape.hash_step(step, hash, key);
            let fits = |stem: &Stem| stem.hash == hash;
            let matches = stems.find(hash, fits).map_or(0, |stem| stem.matches);
            match (add, matches) {
                (true, 0) => stems.insert(Stem { hash, matches: 1 }),
                (false, 0 | 1) => drop(stems.remove(hash, fits)),
                (_, matches) => {
                    if let Some(stem) = stems.find_mut(hash, fits) {
                        stem.matches = if add { matches + 1 } else { matches - 1 };
                    }
                }
            }
        }
    }

    fn add_level(&mut self, priority: u16, seq: u64) {
        if let Some(level) = self.levels.get_mut(priority) {
            level.entries += 1;
            level.first = level.first.min(seq);
        } else {
            self.levels.insert(priority, Level { entries: 1, first: seq });
        }
    }

    fn remove_level(&mut self, priority: u16) {
        match self.levels.get_mut(priority) {
            Some(level) if level.entries > 1 => level.entries -= 1,
            _ => drop(self.levels.remove(priority)),
        }
    }
}
