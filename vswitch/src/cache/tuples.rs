//! The megaflows of one bridge: a hash table per mask (tuple space search; Srinivasan et al. 1999), the busiest masks first.

use super::Megaflow;
use super::compact::folded;
use crate::limits::MEGAFLOW_MASKS_MAX;
use hashbrown::HashTable;
use std::sync::Arc;
use vswitch_flow::{FlowKey, FlowMask};

/// Hits of a mask halve at every sorting: it is the last seconds that count.
const FORGET_SHIFT: u32 = 1;

/// A mask with more megaflows does not give way to another: it would take too long at once.
const MASK_EVICTION_MAX: usize = 256;

/// Megaflows with one mask.
#[derive(Debug)]
struct Tuple {
    /// Index and bits of the words that matter.
    words: Box<[(u8, u64)]>,
    hits: u64,
    megaflows: HashTable<Arc<Megaflow>>,
}

/// Megaflows of one bridge.
#[derive(Debug, Default)]
pub(super) struct Tuples {
    tuples: Vec<Tuple>,
    seed: u64,
}

impl Tuple {
    fn new(mask: &FlowMask) -> Self {
        let words = (0_u8..).zip(mask.0).filter(|(_, bits)| *bits != 0).collect();
        Self { words, hits: 0, megaflows: HashTable::new() }
    }

    #[inline]
    fn hash(&self, key: &FlowKey, seed: u64) -> u64 {
        self.words.iter().fold(seed, |hash, (i, bits)| folded(hash ^ key.0[usize::from(*i)] & bits, MULTIPLIER))
    }

    #[inline]
    fn find(&self, key: &FlowKey, seed: u64) -> Option<&Arc<Megaflow>> {
        self.megaflows.find(self.hash(key, seed), |megaflow| megaflow.matching.matches(key))
    }

    fn is_of(&self, mask: &FlowMask) -> bool {
        let words = (0_u8..).zip(mask.0).filter(|(_, bits)| *bits != 0);
        words.eq(self.words.iter().copied())
    }
}

/// Odd, with bits everywhere (the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Tuples {
    pub(super) fn new(seed: u64) -> Self {
        Self { tuples: Vec::new(), seed }
    }

    /// A megaflow that the packet fits. If there are several, they say the same as long as they are good.
    pub(super) fn find(&mut self, key: &FlowKey) -> Option<Arc<Megaflow>> {
        for tuple in &mut self.tuples {
            let found = tuple.find(key, self.seed).map(Arc::clone);
            if found.is_some() {
                tuple.hits += 1;
                return found;
            }
        }
        None
    }

    /// The hash that a megaflow for this key and mask is kept by; None when there is no room for another mask.
    pub(super) fn place(&mut self, key: &FlowKey, mask: &FlowMask) -> Option<u64> {
        let seed = self.seed;
        if let Some(tuple) = self.tuples.iter().find(|tuple| tuple.is_of(mask)) {
            return Some(tuple.hash(key, seed));
        }
        if self.tuples.len() >= MEGAFLOW_MASKS_MAX {
            return None;
        }
        let tuple = Tuple::new(mask);
        let hash = tuple.hash(key, seed);
        self.tuples.push(tuple);
        Some(hash)
    }

    /// Keeps a megaflow that was made with [`Tuples::place`].
    pub(super) fn insert(&mut self, megaflow: Arc<Megaflow>, mask: &FlowMask) {
        if let Some(tuple) = self.tuples.iter_mut().find(|tuple| tuple.is_of(mask)) {
            tuple.megaflows.insert_unique(megaflow.hash, megaflow, |megaflow| megaflow.hash);
        }
    }

    /// Removes a megaflow, and its mask if it was the last one with it.
    pub(super) fn remove(&mut self, megaflow: &Arc<Megaflow>) {
        let found = self.tuples.iter_mut().position(|tuple| {
            let found = tuple.megaflows.find_entry(megaflow.hash, |other| Arc::ptr_eq(other, megaflow));
            found.map(|entry| entry.remove()).is_ok()
        });
        if let Some(i) = found
            && self.tuples[i].megaflows.is_empty()
        {
            self.tuples.swap_remove(i);
        }
    }

    /// No other mask has room, and this one is new.
    pub(super) fn is_full_for(&self, mask: &FlowMask) -> bool {
        self.tuples.len() >= MEGAFLOW_MASKS_MAX && !self.tuples.iter().any(|tuple| tuple.is_of(mask))
    }

    /// The megaflows of the mask with the fewest hits lately, to make room for another mask; none if every mask has many.
    pub(super) fn least_used(&self) -> Vec<Arc<Megaflow>> {
        let small = self.tuples.iter().filter(|tuple| tuple.megaflows.len() <= MASK_EVICTION_MAX);
        let least = small.min_by_key(|tuple| (tuple.hits, tuple.megaflows.len()));
        least.map(|tuple| tuple.megaflows.iter().cloned().collect()).unwrap_or_default()
    }

    /// Puts the masks in order of their hits lately. Every second or so.
    pub(super) fn sort(&mut self) {
        self.tuples.sort_by_key(|tuple| std::cmp::Reverse(tuple.hits));
        self.tuples.iter_mut().for_each(|tuple| tuple.hits >>= FORGET_SHIFT);
    }

    /// Masks.
    pub(super) fn masks(&self) -> usize {
        self.tuples.len()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.tuples.clear();
    }
}
