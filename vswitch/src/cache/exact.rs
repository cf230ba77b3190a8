//! The exact-match cache: compact keys to megaflows and programs. A key has four places, two pairs of neighbours.
//!
//! A fixed number of places, allocated once. An entry is as good as its megaflow: nothing is ever removed to make it stale, a dead
//! megaflow's entries are overwritten, or swept a few at a time so that they do not keep its memory.
//!
//! What lies far apart is what lookups wait for. So a key lies in its first place unless that is taken, the others are looked at only if it does not, and what its program
//! needs beside its path is in the next line: one pair of lines per packet, asked for at once.

use super::Megaflow;
use super::compact::Compact;
use super::program::Operand;
use crate::dpdk::{huge_slice, prefetch, prefetch_two};
use std::sync::Arc;

/// Where no key is.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Half of the last word of an entry: no bit of a key is there. What is: where the first connection of its program lies, plus 1; 0: it has no program.
const LINK_SHIFT: u32 = 32;
const KEY_OF_LAST: u64 = (1 << LINK_SHIFT) - 1;

/// Bytes of a cache line.
const LINE: usize = 64;

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

/// An entry, and what its program needs if it has one.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Place<const N: usize, const A: usize> {
    entry: Entry<N>,
    operand: Operand<A>,
}

/// The cache, for keys of `N` words with addresses of `A` bytes.
#[derive(Debug)]
pub(super) struct Exact<const N: usize, const A: usize> {
    places: Box<[Place<N, A>]>,
    /// Which of its places a key takes next when all are taken.
    turn: usize,
    /// Last place that was swept.
    hand: usize,
}

impl<const N: usize, const A: usize> Exact<N, A> {
    /// For this many entries, a power of two.
    pub(super) fn new(entries: usize) -> Self {
        let places = huge_slice(entries.next_power_of_two().max(2), Place::default);
        Self { places, turn: 0, hand: 0 }
    }

    /// Index of a key's first place.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // usize has 64 bits here
    fn first(&self, key: &Compact) -> usize {
        key.hash as usize & (self.places.len() - 1)
    }

    /// Of its other places.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // as above
    fn others(&self, key: &Compact) -> [usize; 3] {
        let second = (key.hash >> 32) as usize & (self.places.len() - 1);
        [self.first(key) ^ 1, second, second ^ 1]
    }

    /// Asks for a key's first place.
    #[inline]
    pub(super) fn prefetch(&self, key: &Compact) {
        if let Some(place) = self.places.get(self.first(key)) {
            prefetch_two(place);
        }
    }

    /// Asks for its other places.
    pub(super) fn prefetch_others(&self, key: &Compact) {
        self.others(key).iter().filter_map(|at| self.places.get(*at)).for_each(|place| prefetch(&place.entry));
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // fewer entries than 2^32
    fn found(&self, at: usize, key: &Compact) -> Option<u32> {
        let same = equal(&self.places.get(at)?.entry.words, key.words.first_chunk::<N>()?);
        same.then_some(at as u32)
    }

    /// The entry of a key in its first place.
    #[inline]
    pub(super) fn find(&self, key: &Compact) -> u32 {
        self.found(self.first(key), key).unwrap_or(NOWHERE)
    }

    /// In its other places.
    pub(super) fn find_other(&self, key: &Compact) -> u32 {
        self.others(key).iter().find_map(|at| self.found(*at, key)).unwrap_or(NOWHERE)
    }

    /// The megaflow of an entry.
    #[inline]
    pub(super) fn get(&self, entry: u32) -> Option<&Arc<Megaflow>> {
        self.places.get(entry as usize)?.entry.megaflow.as_ref()
    }

    /// What the program of an entry needs, if it has one.
    #[inline]
    pub(super) fn operand(&self, entry: u32) -> Option<&Operand<A>> {
        let place = self.places.get(entry as usize)?;
        (place.entry.link() != 0).then_some(&place.operand)
    }

    /// Asks for what an entry leads to. Returns where the first connection of its program lies, if it has one.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the upper half of a word
    pub(super) fn approach(&self, entry: u32) -> Option<u32> {
        let Place { entry, operand } = self.places.get(entry as usize)?;
        let link = entry.link();
        if link == 0 {
            if let Some(megaflow) = &entry.megaflow {
                prefetch(&megaflow.hot);
            }
            return None;
        }
        if size_of::<Entry<N>>() > LINE {
            prefetch_two(operand); // it was not among the first two lines
        }
        Some(link as u32 - 1)
    }

    /// Puts a megaflow, and a program if there is one, in the place of its key, or a free one, or somebody's.
    pub(super) fn insert(&mut self, key: &Compact, megaflow: &Arc<Megaflow>, operand: Option<Operand<A>>) {
        let Some(mut words) = key.words.first_chunk::<N>().copied() else { return };
        let [second, third, fourth] = self.others(key);
        let ways = [self.first(key), second, third, fourth];
        let entry = |at: &usize| &self.places[*at].entry;
        let is_own = |at: &usize| equal(&entry(at).words, &words) && entry(at).megaflow.is_some();
        let is_free = |at: &usize| entry(at).megaflow.as_ref().is_none_or(|megaflow| megaflow.is_dead());
        let own = ways.into_iter().find(is_own).or_else(|| ways.into_iter().find(is_free));
        let at = own.unwrap_or_else(|| {
            self.turn = (self.turn + 1) % ways.len();
            ways[self.turn]
        });
        if let Some(operand) = &operand {
            words[N - 1] |= (u64::from(operand.link.place()) + 1) << LINK_SHIFT;
        }
        let place = &mut self.places[at];
        if place.entry.link() != 0 || operand.is_some() {
            place.operand = operand.unwrap_or_default();
        }
        place.entry = Entry { words, megaflow: Some(Arc::clone(megaflow)) };
    }

    /// Lets go of dead megaflows and paths in the next `n` places.
    pub(super) fn sweep(&mut self, n: usize) {
        for _ in 0..n.min(self.len()) {
            self.hand = (self.hand + 1) & (self.places.len() - 1);
            let Place { entry, operand } = &mut self.places[self.hand];
            let dead = entry.megaflow.as_ref().is_some_and(|megaflow| megaflow.is_dead());
            if dead || entry.link() != 0 && operand.is_dead() {
                if entry.link() != 0 {
                    *operand = Operand::default();
                }
                *entry = Entry::default();
            }
        }
    }

    /// Places.
    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }
}

/// All words of two keys compared, without a branch for each.
#[inline]
fn equal<const N: usize>(a: &[u64; N], b: &[u64; N]) -> bool {
    let (Some((last_a, a)), Some((last_b, b))) = (a.split_last(), b.split_last()) else { return false };
    a.iter().zip(b).fold((last_a ^ last_b) & KEY_OF_LAST, |differ, (a, b)| differ | (a ^ b)) == 0
}
