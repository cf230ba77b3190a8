//! The exact-match cache: compact keys to megaflows, two places per key.
//!
//! A fixed number of entries, allocated once. An entry is as good as its megaflow: nothing is ever removed to make it stale, a dead
//! megaflow's entries are overwritten, or swept a few at a time so that they do not keep its memory.

use super::Megaflow;
use super::compact::Compact;
use std::sync::Arc;

/// Places of a key.
const WAYS: usize = 2;

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

/// The cache, for keys of `N` words.
#[derive(Debug)]
pub(super) struct Exact<const N: usize> {
    buckets: Box<[[Entry<N>; WAYS]]>,
    /// Which way a full bucket gives next.
    turn: usize,
    /// Next bucket to be swept.
    hand: usize,
}

impl<const N: usize> Exact<N> {
    /// For this many entries, a power of two.
    pub(super) fn new(entries: usize) -> Self {
        let buckets = (entries / WAYS).next_power_of_two();
        Self { buckets: (0..buckets).map(|_| std::array::from_fn(|_| Entry::default())).collect(), turn: 0, hand: 0 }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // usize has 64 bits here
    const fn place(&self, key: &Compact) -> usize {
        key.hash as usize & (self.buckets.len() - 1)
    }

    /// Asks for the lines of a key's bucket.
    #[inline]
    pub(super) fn prefetch(&self, key: &Compact) {
        let [first, second] = &self.buckets[self.place(key)];
        crate::dpdk::prefetch(first);
        crate::dpdk::prefetch(second);
    }

    /// The megaflow of a key.
    #[inline]
    pub(super) fn find(&self, key: &Compact) -> Option<&Arc<Megaflow>> {
        let [first, second] = &self.buckets[self.place(key)];
        let words: &[u64; N] = key.words.first_chunk()?;
        if equal(&first.words, words) {
            first.megaflow.as_ref()
        } else if equal(&second.words, words) {
            second.megaflow.as_ref()
        } else {
            None
        }
    }

    /// Puts a megaflow in the place of its key, or a free one, or somebody's.
    pub(super) fn insert(&mut self, key: &Compact, megaflow: &Arc<Megaflow>) {
        let place = self.place(key);
        let Some(words) = key.words.first_chunk::<N>() else { return };
        let bucket = &mut self.buckets[place];
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
        for _ in 0..n.min(self.buckets.len()) {
            self.hand = (self.hand + 1) & (self.buckets.len() - 1);
            for entry in &mut self.buckets[self.hand] {
                if entry.megaflow.as_ref().is_some_and(|megaflow| megaflow.is_dead()) {
                    *entry = Entry::default();
                }
            }
        }
    }

    /// Buckets.
    pub(super) const fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.buckets.iter_mut().flatten().for_each(|entry| *entry = Entry::default());
    }
}

/// All words compared, without a branch for each.
#[inline]
fn equal<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
