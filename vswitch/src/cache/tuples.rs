//! The megaflows of one bridge: a hash table per mask (tuple space search; Srinivasan et al. 1999), the busiest masks first.
//!
//! **Lanes**: port, stage and Ethernet type are in every mask whole. So what has another port, stage or type lies apart, and a packet is looked up only in the
//! masks of its own lane: those that one port's packets make cost others nothing.

use super::Megaflow;
use super::compact::folded;
use crate::limits::MEGAFLOW_MASKS_MAX;
use hashbrown::HashTable;
use std::sync::Arc;
use vswitch_flow::{Field, FlowKey, FlowMask, WORDS};

/// When a mask has so many hits, those of all masks of its lane halve: it is the last ones that count.
const HITS_MAX: u32 = 1 << 12;

/// A mask with more megaflows does not give way to another: it would take too long at once.
const MASK_EVICTION_MAX: usize = 256;

/// Milliseconds within which masks count as used at the same time, when one has to go.
const USED_MS: u64 = 2048;

/// Megaflows with one mask.
#[derive(Debug)]
struct Tuple {
    /// Index and bits of the words that matter.
    words: Box<[(u8, u64)]>,
    digest: u64,
    hits: u32,
    megaflows: HashTable<Arc<Megaflow>>,
}

/// Every bit: there is always room for this mask.
pub(super) const EVERYTHING: FlowMask = FlowMask([u64::MAX; WORDS]);

/// Fields that every mask has whole.
const LANE: [Field; 3] = [Field::InPort, Field::RecircId, Field::EthType];

/// Megaflows that agree on the fields of [`LANE`].
#[derive(Debug)]
struct Lane {
    values: [u128; LANE.len()],
    /// Those with more hits lately first, about.
    tuples: Vec<Tuple>,
}

/// Megaflows of one bridge.
#[derive(Debug, Default)]
pub(super) struct Tuples {
    lanes: HashTable<Lane>,
    seed: u64,
    masks: usize,
}

impl Tuple {
    fn new(mask: &FlowMask) -> Self {
        let words = (0_u8..).zip(mask.0).filter(|(_, bits)| *bits != 0).collect();
        Self { words, digest: digest(mask), hits: 0, megaflows: HashTable::new() }
    }

    #[inline]
    fn hash(&self, key: &FlowKey, seed: u64) -> u64 {
        self.words.iter().fold(seed, |hash, (i, bits)| folded(hash ^ key.0[usize::from(*i)] & bits, MULTIPLIER))
    }

    #[inline]
    fn find(&self, key: &FlowKey, seed: u64) -> Option<&Arc<Megaflow>> {
        self.megaflows.find(self.hash(key, seed), |megaflow| megaflow.matching.matches(key))
    }

    /// Whether it is the one of a mask with this digest.
    fn is_of(&self, mask: &FlowMask, digest: u64) -> bool {
        self.digest == digest && {
            let words = (0_u8..).zip(mask.0).filter(|(_, bits)| *bits != 0);
            words.eq(self.words.iter().copied())
        }
    }
}

/// Tells masks apart, but for accidents.
fn digest(mask: &FlowMask) -> u64 {
    mask.0.iter().fold(0, |digest, bits| folded(digest ^ bits, MULTIPLIER) ^ digest.rotate_left(1))
}

/// Odd, with bits everywhere (the golden ratio).
pub(super) const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The lane of a key.
#[inline]
fn values(key: &FlowKey) -> [u128; LANE.len()] {
    LANE.map(|field| key.get(field))
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // fields of up to 32 bits
fn hash_of(values: &[u128; LANE.len()], seed: u64) -> u64 {
    values.iter().fold(seed, |hash, value| folded(hash ^ *value as u64, MULTIPLIER))
}

impl Lane {
    #[inline]
    fn find(&mut self, key: &FlowKey, seed: u64) -> Option<Arc<Megaflow>> {
        let found = self.tuples.iter().enumerate().find_map(|(i, tuple)| Some((i, Arc::clone(tuple.find(key, seed)?))));
        let (i, megaflow) = found?;
        self.hit(i);
        Some(megaflow)
    }

    /// Counts a hit of a mask, which overtakes the one in front of it as soon as it has more of them.
    #[inline]
    fn hit(&mut self, i: usize) {
        self.tuples[i].hits += 1;
        if self.tuples[i].hits >= HITS_MAX {
            self.tuples.iter_mut().for_each(|tuple| tuple.hits /= 2);
        }
        if i > 0 && self.tuples[i].hits > self.tuples[i - 1].hits {
            self.tuples.swap(i, i - 1);
        }
    }
}

impl Tuples {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    #[inline]
    fn lane_mut(&mut self, key: &FlowKey) -> Option<&mut Lane> {
        let values = values(key);
        self.lanes.find_mut(hash_of(&values, self.seed), |lane| lane.values == values)
    }

    fn lane(&self, key: &FlowKey) -> Option<&Lane> {
        let values = values(key);
        self.lanes.find(hash_of(&values, self.seed), |lane| lane.values == values)
    }

    /// A megaflow that the packet fits. If there are several, they say the same as long as they are good.
    #[inline]
    pub(super) fn find(&mut self, key: &FlowKey) -> Option<Arc<Megaflow>> {
        let seed = self.seed;
        self.lane_mut(key)?.find(key, seed)
    }

    /// The hash that a megaflow for this key and mask is kept by; None when there is no room for another mask.
    pub(super) fn place(&mut self, key: &FlowKey, mask: &FlowMask) -> Option<u64> {
        debug_assert!(LANE.iter().all(|field| mask.get(*field) == field.ones()), "a mask without {LANE:?}");
        let (seed, values) = (self.seed, values(key));
        let entry =
            self.lanes.entry(hash_of(&values, seed), |lane| lane.values == values, |lane| hash_of(&lane.values, seed));
        let lane = entry.or_insert_with(|| Lane { values, tuples: Vec::new() }).into_mut();
        let digest = digest(mask);
        if let Some(tuple) = lane.tuples.iter().find(|tuple| tuple.is_of(mask, digest)) {
            return Some(tuple.hash(key, seed));
        }
        if lane.tuples.len() >= MEGAFLOW_MASKS_MAX && *mask != EVERYTHING {
            return None;
        }
        let tuple = Tuple::new(mask);
        let hash = tuple.hash(key, seed);
        lane.tuples.push(tuple);
        self.masks += 1;
        Some(hash)
    }

    /// Keeps a megaflow that was made with [`Tuples::place`].
    pub(super) fn insert(&mut self, megaflow: Arc<Megaflow>, key: &FlowKey, mask: &FlowMask) {
        let (mut tuples, digest) = (self.lane_mut(key).into_iter().flat_map(|lane| &mut lane.tuples), digest(mask));
        if let Some(tuple) = tuples.find(|tuple| tuple.is_of(mask, digest)) {
            tuple.megaflows.insert_unique(megaflow.hash, megaflow, |megaflow| megaflow.hash);
        }
    }

    /// Removes a megaflow, and its mask if it was the last one with it.
    pub(super) fn remove(&mut self, megaflow: &Arc<Megaflow>) {
        let values = values(&megaflow.matching.expand().0);
        let hash = hash_of(&values, self.seed);
        let Ok(mut entry) = self.lanes.find_entry(hash, |lane| lane.values == values) else { return };
        let tuples = &mut entry.get_mut().tuples;
        let found = tuples.iter_mut().position(|tuple| {
            let found = tuple.megaflows.find_entry(megaflow.hash, |other| Arc::ptr_eq(other, megaflow));
            found.map(|entry| entry.remove()).is_ok()
        });
        if let Some(i) = found
            && tuples[i].megaflows.is_empty()
        {
            tuples.remove(i);
            self.masks -= 1;
            if tuples.is_empty() {
                entry.remove();
            }
        }
    }

    /// No other mask has room beside those that a packet is looked up in, and this one is new.
    pub(super) fn is_full_for(&self, key: &FlowKey, mask: &FlowMask) -> bool {
        let tuples = self.lane(key).map_or([].as_slice(), |lane| &lane.tuples);
        let digest = digest(mask);
        tuples.len() >= MEGAFLOW_MASKS_MAX && !tuples.iter().any(|tuple| tuple.is_of(mask, digest))
    }

    /// The megaflows of the mask that was not used for the longest time (programs use it too, which is known a second or two later) among those that a packet is looked up in, to make room for another mask; none if every mask has
    /// many.
    pub(super) fn least_used(&self, key: &FlowKey) -> Vec<Arc<Megaflow>> {
        let tuples = self.lane(key).map_or([].as_slice(), |lane| &lane.tuples);
        let small = tuples.iter().filter(|tuple| tuple.megaflows.len() <= MASK_EVICTION_MAX);
        let used = |tuple: &Tuple| tuple.megaflows.iter().map(|megaflow| megaflow.last_used().0 / USED_MS).max();
        // Of equal ones the oldest, so that a new one has time for a hit.
        let least = small.min_by_key(|tuple| (used(tuple), tuple.hits));
        least.map(|tuple| tuple.megaflows.iter().cloned().collect()).unwrap_or_default()
    }

    /// Masks.
    pub(super) fn masks(&self) -> usize {
        self.masks
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.lanes.clear();
        self.masks = 0;
    }
}
