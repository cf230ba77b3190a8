//! The megaflows of one bridge: a hash table per mask (tuple space search; Srinivasan et al. 1999),
//! the busiest masks first.
//!
//! **Lanes**: port, stage and Ethernet type are in every mask whole. So what has another port,
//! stage or type lies apart, and a packet is looked up only in the masks of its own lane: those
//! that one port's packets make cost others nothing.

use crate::cache::Megaflow;
use crate::cache::fast::compact::folded;
use crate::limits::MEGAFLOW_MASKS_MAX;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::sync::Arc;
use vswitch_flow::{Field, FlowKey, FlowMask, WORDS};

/// When a mask has so many hits, those of all masks of its lane halve: it is the last ones that
/// count.
const HITS_MAX: u32 = 1 << 12;

/// A mask with more megaflows does not give way to another: it would take too long at once.
const MASK_EVICTION_MAX: usize = 256;

/// Milliseconds within which masks count as used at the same time, when one has to go.
const USED_MS: u64 = 2048;

/// Megaflows with one mask.
#[derive(Debug)]
struct Tuple {
    words: Box<[Word]>,
    digest: u64,
    hits: u32,
    megaflows: HashTable<Arc<Megaflow>>,
}

/// A word that matters, of a mask.
#[derive(Debug)]
struct Word {
    index: u8,
    bits: u64,
    /// Makes a hash of it that nobody can foresee.
    secrets: [u64; 2],
}

/// Every bit: there is always room for this mask.
pub(in crate::cache) const EVERYTHING: FlowMask = FlowMask([u64::MAX; WORDS]);

/// Fields that every mask has whole.
const LANE: [Field; 3] = [Field::InPort, Field::RecircId, Field::EthType];

/// Their values: the first two as one word, the third. Compared one by one: to compare them as one
/// would be to wait until they are in memory.
type LaneOf = (u64, u64);

/// Megaflows that agree on the fields of [`LANE`].
#[derive(Debug)]
struct Lane {
    of: LaneOf,
    /// Those with more hits lately first, about.
    tuples: Vec<Tuple>,
}

/// Megaflows of one bridge.
#[derive(Debug, Default)]
pub(in crate::cache) struct Tuples {
    lanes: HashTable<Lane>,
    seed: u64,
    masks: usize,
}

impl Tuple {
    fn new(mask: &FlowMask, seed: u64) -> Self {
        let words = (0_u8..).zip(mask.0).filter(|(_, bits)| *bits != 0);
        let words = words.map(|(index, bits)| Word { index, bits, secrets: secrets(index, seed) }).collect();
        Self { words, digest: digest(mask), hits: 0, megaflows: HashTable::new() }
    }

    /// No multiplication waits for another one, and each word has two secrets of its own.
    #[inline]
    fn hash(&self, key: &FlowKey) -> u64 {
        let hash = |Word { index, bits, secrets: [a, b] }: &Word| folded(key.0[usize::from(*index)] & bits ^ a, *b);
        self.words.iter().map(hash).fold(0, u64::wrapping_add)
    }

    #[inline]
    fn find(&self, key: &FlowKey) -> Option<&Arc<Megaflow>> {
        self.megaflows.find(self.hash(key), |megaflow| megaflow.matching.matches(key))
    }

    /// Whether it is the one of a mask with this digest.
    fn is_of(&self, mask: &FlowMask, digest: u64) -> bool {
        self.digest == digest && {
            let words = (0_u8..).zip(mask.0).filter(|(_, bits)| *bits != 0);
            words.eq(self.words.iter().map(|word| (word.index, word.bits)))
        }
    }
}

/// Tells masks apart, but for accidents.
fn digest(mask: &FlowMask) -> u64 {
    mask.0.iter().fold(0, |digest, bits| folded(digest ^ bits, MULTIPLIER) ^ digest.rotate_left(1))
}

/// Odd, with bits everywhere (the golden ratio).
pub(in crate::cache) const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Two numbers for a word of this index, the same for the same seed; the second one is odd.
fn secrets(index: u8, seed: u64) -> [u64; 2] {
    let hasher = foldhash::quality::FixedState::with_seed(seed);
    [hasher.hash_one((index, 0_u8)), hasher.hash_one((index, 1_u8)) | 1]
}

/// The lane of a key.
#[inline]
#[allow(clippy::cast_possible_truncation)] // fields of up to 32 bits
fn lane_of(key: &FlowKey) -> LaneOf {
    let [port, stage, kind] = LANE.map(|field| key.get(field) as u64);
    (port << 32 | stage, kind)
}

#[inline]
const fn hash_of((place, kind): LaneOf, seed: u64) -> u64 {
    folded(folded(place ^ seed, MULTIPLIER) ^ kind, MULTIPLIER)
}

impl Lane {
    #[inline]
    fn find(&mut self, key: &FlowKey) -> Option<Arc<Megaflow>> {
        let found = self.tuples.iter().enumerate().find_map(|(i, tuple)| Some((i, Arc::clone(tuple.find(key)?))));
        let (i, megaflow) = found?;
        self.hit(i);
        Some(megaflow)
    }

    /// Counts a hit of a mask, which overtakes the one in front of it as soon as it has more of
    /// them.
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
    pub(in crate::cache) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    #[inline]
    fn lane_mut(&mut self, key: &FlowKey) -> Option<&mut Lane> {
        let of = lane_of(key);
        self.lanes.find_mut(hash_of(of, self.seed), |lane| lane.of == of)
    }

    fn lane(&self, key: &FlowKey) -> Option<&Lane> {
        let of = lane_of(key);
        self.lanes.find(hash_of(of, self.seed), |lane| lane.of == of)
    }

    /// A megaflow that the packet fits. If there are several, they say the same as long as they are
    /// good.
    #[inline]
    pub(in crate::cache) fn find(&mut self, key: &FlowKey) -> Option<Arc<Megaflow>> {
        self.lane_mut(key)?.find(key)
    }

    /// The hash that a megaflow for this key and mask is kept by; None when there is no room for
    /// another mask.
    pub(in crate::cache) fn place(&mut self, key: &FlowKey, mask: &FlowMask) -> Option<u64> {
        debug_assert!(LANE.iter().all(|field| mask.get(*field) == field.ones()), "a mask without {LANE:?}");
        let (seed, of) = (self.seed, lane_of(key));
        let entry = self.lanes.entry(hash_of(of, seed), |lane| lane.of == of, |lane| hash_of(lane.of, seed));
        let lane = entry.or_insert_with(|| Lane { of, tuples: Vec::new() }).into_mut();
        let digest = digest(mask);
        if let Some(tuple) = lane.tuples.iter().find(|tuple| tuple.is_of(mask, digest)) {
            return Some(tuple.hash(key));
        }
        if lane.tuples.len() >= MEGAFLOW_MASKS_MAX && *mask != EVERYTHING {
            return None;
        }
        let tuple = Tuple::new(mask, seed);
        let hash = tuple.hash(key);
        lane.tuples.push(tuple);
        self.masks += 1;
        Some(hash)
    }

    /// Keeps a megaflow that was made with [`Tuples::place`].
    pub(in crate::cache) fn insert(&mut self, megaflow: Arc<Megaflow>, key: &FlowKey, mask: &FlowMask) {
        let (mut tuples, digest) = (self.lane_mut(key).into_iter().flat_map(|lane| &mut lane.tuples), digest(mask));
        if let Some(tuple) = tuples.find(|tuple| tuple.is_of(mask, digest)) {
            tuple.megaflows.insert_unique(megaflow.hash, megaflow, |megaflow| megaflow.hash);
        }
    }

    /// Removes a megaflow, and its mask if it was the last one with it.
    pub(in crate::cache) fn remove(&mut self, megaflow: &Arc<Megaflow>) {
        let of = lane_of(&megaflow.matching.expand().0);
        let Ok(mut entry) = self.lanes.find_entry(hash_of(of, self.seed), |lane| lane.of == of) else { return };
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
    pub(in crate::cache) fn is_full_for(&self, key: &FlowKey, mask: &FlowMask) -> bool {
        let tuples = self.lane(key).map_or([].as_slice(), |lane| &lane.tuples);
        let digest = digest(mask);
        tuples.len() >= MEGAFLOW_MASKS_MAX && !tuples.iter().any(|tuple| tuple.is_of(mask, digest))
    }

    /// The megaflows of the mask that was not used for the longest time (programs use it too, which
    /// is known a second or two later) among those that a packet is looked up in, to make room for
    /// another mask; none if every mask has many.
    pub(in crate::cache) fn least_used(&self, key: &FlowKey) -> Vec<Arc<Megaflow>> {
        let tuples = self.lane(key).map_or([].as_slice(), |lane| &lane.tuples);
        let small = tuples.iter().filter(|tuple| tuple.megaflows.len() <= MASK_EVICTION_MAX);
        let used = |tuple: &Tuple| tuple.megaflows.iter().map(|megaflow| megaflow.last_used().0 / USED_MS).max();
        // Of equal ones the oldest, so that a new one has time for a hit.
        let least = small.min_by_key(|tuple| (used(tuple), tuple.hits));
        least.map(|tuple| tuple.megaflows.iter().cloned().collect()).unwrap_or_default()
    }

    /// Masks.
    pub(in crate::cache) fn masks(&self) -> usize {
        self.masks
    }

    /// Forgets everything.
    pub(in crate::cache) fn clear(&mut self) {
        self.lanes.clear();
        self.masks = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What differs in few bits, in one word or another, is spread over a table all the same, and
    /// differently by another seed.
    #[test]
    fn keys_that_differ_a_little_have_hashes_that_differ_much() {
        const KEYS: u64 = 4096;
        let mut mask = FlowMask::default();
        for field in [Field::InPort, Field::NwSrc, Field::NwDst, Field::TpSrc, Field::TpDst] {
            mask.set(field, field.ones());
        }
        let key = |i: u64| {
            let mut key = FlowKey::default();
            for (field, value) in [
                (Field::NwSrc, 0x0a00_0000 | i & 0xf),
                (Field::NwDst, 0x0a00_0000 | i >> 4 & 0xf),
                (Field::TpSrc, i >> 8 & 3),
                (Field::TpDst, i >> 10),
            ] {
                key.set(field, value.into());
            }
            key
        };
        let all = |seed: u64| {
            let tuple = Tuple::new(&mask, seed);
            (0..KEYS).map(|i| tuple.hash(&key(i))).collect::<Vec<_>>()
        };
        for seed in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let hashes = all(seed);
            // A table reads the lowest bits and the topmost seven.
            for (what, shift) in [("lowest", 0), ("topmost", 57)] {
                let mut crowds = [0; 128];
                hashes.iter().for_each(|hash| crowds[usize::try_from(hash >> shift & 127).expect("below")] += 1);
                let (least, most) = (crowds.iter().min().unwrap(), crowds.iter().max().unwrap());
                assert!((8..=72).contains(least) && (8..=72).contains(most), "{what}, seed {seed}: {crowds:?}");
            }
            let other = all(seed ^ 0x55);
            let equal = hashes.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert_eq!(equal, 0, "by seed {seed} as by another one");
        }
    }
}
