//! The exact-match cache: compact keys to megaflows and programs. A key has four places, two pairs of neighbours.
//!
//! A fixed number of places, allocated once. An entry is as good as its megaflow: nothing is ever removed to make it stale, a dead
//! megaflow's entries are overwritten, or swept a few at a time so that they do not keep its memory.
//!
//! What lies far apart is what lookups wait for. So a key lies in its first place unless that is taken, the others are looked at only if it does not, and for IPv4 all that a packet
//! needs beside its path and its connection is in one cache line. That has no room for the key, so its [`Tag`] stands for it.

use super::Megaflow;
use super::compact::{Compact, Tag};
use super::path::{Macs, Path};
use super::program::{Fused, Rare};
use crate::dpdk::{huge_slice, prefetch, prefetch_two};
use std::sync::Arc;
use vswitch_conntrack::Link;

/// Where no key is.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Bytes of a cache line.
const LINE: usize = 64;

/// What becomes of the packets of a key, with addresses of `A` bytes.
#[derive(Debug, Default)]
pub(super) enum Entry<const A: usize> {
    /// Nobody knows.
    #[default]
    None,
    /// One decision.
    Megaflow(Arc<Megaflow>),
    /// A program that meets one `ct()` and rewrites headers.
    Program {
        path: Arc<Path>,
        /// What stands in for its `ct()`.
        link: Link,
        fused: Fused<A>,
    },
    /// A program that does more.
    Rare {
        /// Where the first of its connections lies.
        first: u32,
        program: Box<RareProgram<A>>,
    },
}

/// See [`Entry::Rare`].
#[derive(Debug)]
pub(super) struct RareProgram<const A: usize> {
    pub(super) path: Arc<Path>,
    pub(super) rare: Rare,
    /// Nothing, unless [`Rare::fused`].
    pub(super) fused: Fused<A>,
    /// Likewise.
    pub(super) macs: Macs,
}

impl<const A: usize> Entry<A> {
    /// The first decision.
    #[inline]
    fn megaflow(&self) -> Option<&Arc<Megaflow>> {
        match self {
            Self::None => None,
            Self::Megaflow(megaflow) => Some(megaflow),
            Self::Program { path, .. } => path.step(0),
            Self::Rare { program, .. } => program.path.step(0),
        }
    }

    /// The next packet of its key is decided anew.
    fn is_dead(&self) -> bool {
        match self {
            Self::None => false,
            Self::Megaflow(megaflow) => megaflow.is_dead(),
            Self::Program { path, .. } => path.is_dead(),
            Self::Rare { program, .. } => program.path.is_dead(),
        }
    }
}

/// A key with what becomes of its packets: one cache line for IPv4, two for IPv6.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Place<const A: usize> {
    tag: Tag,
    entry: Entry<A>,
}

const _: () = assert!(size_of::<Place<4>>() == LINE && size_of::<Place<16>>() == 2 * LINE);

/// The cache, for keys with addresses of `A` bytes.
#[derive(Debug)]
pub(super) struct Exact<const A: usize> {
    places: Box<[Place<A>]>,
    /// Which of its places a key takes next when all are taken.
    turn: usize,
    /// Last place that was swept.
    hand: usize,
}

impl<const A: usize> Exact<A> {
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
            if size_of::<Place<A>>() > LINE { prefetch_two(place) } else { prefetch(place) }
        }
    }

    /// Asks for its other places.
    pub(super) fn prefetch_others(&self, key: &Compact) {
        self.others(key).iter().filter_map(|at| self.places.get(*at)).for_each(prefetch);
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // fewer entries than 2^32
    fn found(&self, at: usize, key: &Compact) -> Option<u32> {
        (self.places.get(at)?.tag == key.tag).then_some(at as u32)
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
        self.entry(entry)?.megaflow()
    }

    /// An entry.
    #[inline]
    pub(super) fn entry(&self, entry: u32) -> Option<&Entry<A>> {
        Some(&self.places.get(entry as usize)?.entry)
    }

    /// Asks for what an entry leads to. Returns where the first connection of its program lies, if it has one.
    #[inline]
    pub(super) fn approach(&self, entry: u32) -> Option<u32> {
        match self.entry(entry)? {
            Entry::None => None,
            Entry::Megaflow(megaflow) => {
                prefetch(&megaflow.hot);
                None
            }
            Entry::Program { link, .. } => Some(link.place()),
            Entry::Rare { first, program } => {
                prefetch_two(&**program);
                Some(*first)
            }
        }
    }

    /// Puts an entry in the place of its key, or a free one, or somebody's.
    pub(super) fn insert(&mut self, key: &Compact, entry: Entry<A>) {
        let [second, third, fourth] = self.others(key);
        let ways = [self.first(key), second, third, fourth];
        let place = |at: &usize| &self.places[*at];
        let is_own = |at: &usize| place(at).tag == key.tag && place(at).entry.megaflow().is_some();
        let is_free = |at: &usize| place(at).entry.megaflow().is_none_or(|megaflow| megaflow.is_dead());
        let own = ways.into_iter().find(is_own).or_else(|| ways.into_iter().find(is_free));
        let at = own.unwrap_or_else(|| {
            self.turn = (self.turn + 1) % ways.len();
            ways[self.turn]
        });
        self.places[at] = Place { tag: key.tag, entry };
    }

    /// Lets go of dead megaflows and paths in the next `n` places.
    pub(super) fn sweep(&mut self, n: usize) {
        for _ in 0..n.min(self.len()) {
            self.hand = (self.hand + 1) & (self.places.len() - 1);
            let place = &mut self.places[self.hand];
            if place.entry.is_dead() {
                *place = Place::default();
            }
        }
    }

    /// Places.
    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }
}
