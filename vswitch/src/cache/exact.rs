//! The exact-match cache: compact keys to megaflows, two places per key.
//!
//! A fixed number of entries, allocated once. An entry is as good as its megaflow: nothing is ever removed to make it stale, a dead
//! megaflow's entries are overwritten, or swept a few at a time so that they do not keep its memory.

use super::Megaflow;
use super::compact::Compact;
use crate::dpdk::{huge_slice, prefetch};
use std::sync::Arc;

/// Places of a key.
const WAYS: usize = 2;

/// Where no key is.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A key with its megaflow: one cache line for IPv4, two for IPv6.
#[derive(Debug)]
#[repr(align(64))]
struct Entry<const N: usize> {
    words: [u64; N],
    megaflow: Option<Arc<Megaflow>>,
}

impl<const N: usize> Default for Entry<N> {
    fn default() -> Self {
        Self { words: [0; N], megaflow: None }
    }
}

/// The cache, for keys of `N` words. The entries of bucket `i` are `2 i` and `2 i + 1`.
#[derive(Debug)]
pub(super) struct Exact<const N: usize> {
    entries: Box<[Entry<N>]>,
    /// Buckets minus 1.
    mask: usize,
    /// Which way a full bucket gives next.
    turn: usize,
    /// Next bucket to be swept.
    hand: usize,
}

impl<const N: usize> Exact<N> {
    /// For this many entries, a power of two.
    pub(super) fn new(entries: usize) -> Self {
        let buckets = (entries / WAYS).next_power_of_two();
        Self { entries: huge_slice(buckets * WAYS, Entry::default), mask: buckets - 1, turn: 0, hand: 0 }
    }

    /// Index of the first entry of a key's bucket.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // usize has 64 bits here
    const fn place(&self, key: &Compact) -> usize {
        (key.hash as usize & self.mask) * WAYS
    }

    #[inline]
    fn bucket(&self, key: &Compact) -> Option<&[Entry<N>; WAYS]> {
        self.entries.get(self.place(key)..)?.first_chunk()
    }

    /// Asks for the lines of a key's bucket.
    #[inline]
    pub(super) fn prefetch(&self, key: &Compact) {
        if let Some([first, second]) = self.bucket(key) {
            prefetch(first);
            prefetch(second);
        }
    }

    /// The entry of a key.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // fewer entries than 2^32
    pub(super) fn find(&self, key: &Compact) -> u32 {
        let (Some([first, second]), Some(words)) = (self.bucket(key), key.words.first_chunk::<N>()) else {
            return NOWHERE;
        };
        let place = self.place(key) as u32;
        if equal(&first.words, words) {
            place
        } else if equal(&second.words, words) {
            place + 1
        } else {
            NOWHERE
        }
    }

    /// The megaflow of an entry.
    #[inline]
    pub(super) fn get(&self, entry: u32) -> Option<&Arc<Megaflow>> {
        self.entries.get(entry as usize)?.megaflow.as_ref()
    }

    /// Puts a megaflow in the place of its key, or a free one, or somebody's.
    pub(super) fn insert(&mut self, key: &Compact, megaflow: &Arc<Megaflow>) {
        let place = self.place(key);
        let (Some(words), Some(bucket)) = (key.words.first_chunk::<N>(), self.entries.get_mut(place..place + WAYS))
        else {
            return;
        };
        let free = |entry: &Entry<N>| entry.megaflow.as_ref().is_none_or(|megaflow| megaflow.is_dead());
        let own = bucket.iter().position(|entry| equal(&entry.words, words));
        let way = own.or_else(|| bucket.iter().position(free)).unwrap_or_else(|| {
            self.turn = (self.turn + 1) % WAYS;
            self.turn
        });
        bucket[way] = Entry { words: *words, megaflow: Some(Arc::clone(megaflow)) };
    }

    /// Lets go of dead megaflows in the next `n` buckets.
    pub(super) fn sweep(&mut self, n: usize) {
        for _ in 0..n.min(self.len()) {
            self.hand = (self.hand + 1) & self.mask;
            for entry in &mut self.entries[self.hand * WAYS..][..WAYS] {
                if entry.megaflow.as_ref().is_some_and(|megaflow| megaflow.is_dead()) {
                    *entry = Entry::default();
                }
            }
        }
    }

    /// Buckets.
    pub(super) const fn len(&self) -> usize {
        self.mask + 1
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.entries.iter_mut().for_each(|entry| *entry = Entry::default());
    }
}

/// All words compared, without a branch for each.
#[inline]
fn equal<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
