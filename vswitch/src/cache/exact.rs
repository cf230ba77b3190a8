//! The exact-match cache: compact keys to megaflows and programs. A key has two buckets of two places.
//!
//! A fixed number of entries, allocated once. An entry is as good as its megaflow: nothing is ever removed to make it stale, a dead
//! megaflow's entries are overwritten, or swept a few at a time so that they do not keep its memory.
//!
//! What a program needs beside its path lies in a line of its own, at the same index as the entry: it is asked for when the key was found.

use super::Megaflow;
use super::compact::Compact;
use super::program::Operand;
use crate::dpdk::{huge_slice, prefetch};
use std::sync::Arc;

/// Places of a bucket.
const WAYS: usize = 2;

/// Where no key is.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Half of the last word of an entry: no bit of a key is there. What is: where the first connection of its program lies, plus 1; 0: it has no program.
const LINK_SHIFT: u32 = 32;
const KEY_OF_LAST: u64 = (1 << LINK_SHIFT) - 1;

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

impl<const N: usize> Entry<N> {
    #[inline]
    const fn link(&self) -> u64 {
        self.words[N - 1] >> LINK_SHIFT
    }
}

/// The cache, for keys of `N` words with addresses of `A` bytes. The entries of bucket `i` are `2 i` and `2 i + 1`.
#[derive(Debug)]
pub(super) struct Exact<const N: usize, const A: usize> {
    entries: Box<[Entry<N>]>,
    operands: Box<[Operand<A>]>,
    /// Buckets minus 1.
    mask: usize,
    /// Which way full buckets give next.
    turn: usize,
    /// Next bucket to be swept.
    hand: usize,
}

impl<const N: usize, const A: usize> Exact<N, A> {
    /// For this many entries, a power of two.
    pub(super) fn new(entries: usize) -> Self {
        let buckets = (entries / WAYS).next_power_of_two();
        Self {
            entries: huge_slice(buckets * WAYS, Entry::default),
            operands: huge_slice(buckets * WAYS, Operand::default),
            mask: buckets - 1,
            turn: 0,
            hand: 0,
        }
    }

    /// Index of the first entry of a key's bucket: of its first one, or of its second one.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // usize has 64 bits here
    const fn place(&self, key: &Compact, second: bool) -> usize {
        let hash = if second { key.hash >> 32 } else { key.hash };
        (hash as usize & self.mask) * WAYS
    }

    #[inline]
    fn bucket(&self, place: usize) -> Option<&[Entry<N>; WAYS]> {
        self.entries.get(place..)?.first_chunk()
    }

    /// Asks for the lines of a key's bucket.
    #[inline]
    pub(super) fn prefetch(&self, key: &Compact, second: bool) {
        if let Some([one, two]) = self.bucket(self.place(key, second)) {
            prefetch(one);
            prefetch(two);
        }
    }

    /// The entry of a key, in its first or second bucket.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // fewer entries than 2^32
    pub(super) fn find(&self, key: &Compact, second: bool) -> u32 {
        let place = self.place(key, second);
        let (Some([one, two]), Some(words)) = (self.bucket(place), key.words.first_chunk::<N>()) else {
            return NOWHERE;
        };
        // Which of the two it is cannot be predicted: no branch.
        let (first, second) = (equal(&one.words, words), equal(&two.words, words));
        if first | second { place as u32 + u32::from(!first) } else { NOWHERE }
    }

    /// The megaflow of an entry.
    #[inline]
    pub(super) fn get(&self, entry: u32) -> Option<&Arc<Megaflow>> {
        self.entries.get(entry as usize)?.megaflow.as_ref()
    }

    /// What the program of an entry needs, if it has one.
    #[inline]
    pub(super) fn operand(&self, entry: u32) -> Option<&Operand<A>> {
        let has = self.entries.get(entry as usize)?.link() != 0;
        if has { self.operands.get(entry as usize) } else { None }
    }

    /// Asks for what an entry leads to. Returns where the first connection of its program lies, if it has one.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the upper half of a word
    pub(super) fn approach(&self, entry: u32) -> Option<u32> {
        let found = self.entries.get(entry as usize)?;
        let link = found.link();
        if link == 0 {
            if let Some(megaflow) = &found.megaflow {
                prefetch(&megaflow.hot);
            }
            return None;
        }
        prefetch(self.operands.get(entry as usize)?);
        Some(link as u32 - 1)
    }

    /// Puts a megaflow, and a program if there is one, in the place of its key, or a free one, or somebody's.
    pub(super) fn insert(&mut self, key: &Compact, megaflow: &Arc<Megaflow>, operand: Option<Operand<A>>) {
        let Some(mut words) = key.words.first_chunk::<N>().copied() else { return };
        let places = [false, true].map(|second| self.place(key, second));
        let ways = || places.iter().flat_map(|place| *place..*place + WAYS);
        let own = ways().find(|at| equal(&self.entries[*at].words, &words) && self.entries[*at].megaflow.is_some());
        let is_free = |at: &usize| self.entries[*at].megaflow.as_ref().is_none_or(|megaflow| megaflow.is_dead());
        let at = own.or_else(|| ways().find(is_free)).unwrap_or_else(|| {
            self.turn = (self.turn + 1) % (2 * WAYS);
            places[self.turn / WAYS] + self.turn % WAYS
        });
        if let Some(operand) = &operand {
            words[N - 1] |= (u64::from(operand.link.place()) + 1) << LINK_SHIFT;
        }
        if self.entries[at].link() != 0 || operand.is_some() {
            self.operands[at] = operand.unwrap_or_default();
        }
        self.entries[at] = Entry { words, megaflow: Some(Arc::clone(megaflow)) };
    }

    /// Lets go of dead megaflows and paths in the next `n` buckets.
    pub(super) fn sweep(&mut self, n: usize) {
        for _ in 0..n.min(self.len()) {
            self.hand = (self.hand + 1) & self.mask;
            for at in self.hand * WAYS..(self.hand + 1) * WAYS {
                let entry = &self.entries[at];
                let dead = entry.megaflow.as_ref().is_some_and(|megaflow| megaflow.is_dead());
                if dead || entry.link() != 0 && self.operands[at].is_dead() {
                    self.clear_at(at);
                }
            }
        }
    }

    fn clear_at(&mut self, at: usize) {
        if self.entries[at].link() != 0 {
            self.operands[at] = Operand::default();
        }
        self.entries[at] = Entry::default();
    }

    /// Buckets.
    pub(super) const fn len(&self) -> usize {
        self.mask + 1
    }
}

/// All words of two keys compared, without a branch for each.
#[inline]
fn equal<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    let (Some((last_a, a)), Some((last_b, b))) = (a.split_last(), b.split_last()) else { return false };
    a.iter().zip(b).fold((last_a ^ last_b) & KEY_OF_LAST, |differ, (a, b)| differ | (a ^ b)) == 0
}
