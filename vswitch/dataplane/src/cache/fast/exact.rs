//! The exact-match cache: compact keys to megaflows and programs.
//!
//! A fixed number of places, allocated once, and taken one behind the other; a [`Directory`] knows
//! which is whose. An entry is as good as its megaflow: nothing is ever removed to make it stale, a
//! dead megaflow's entries are swept a few at a time so that they do not keep its memory. When all
//! are taken, or a new key's line is full, one of that line goes.
//!
//! What lies far apart is what lookups wait for. So a lookup reads one line of the directory, and
//! for IPv4 all that a packet needs beside its path and its connection is in one more. That has no
//! room for the key, so its [`Tag`] stands for it.

use crate::cache::Megaflow;
use crate::cache::fast::compact::{Compact, Tag};
use crate::cache::fast::directory::{Directory, ENTRIES_MAX};
use crate::cache::fast::path::{Macs, Path};
use crate::cache::fast::program::{Fused, Rare};
use std::sync::Arc;
use vswitch_conntrack::Link;
use vswitch_dpdk::{huge_slice, prefetch, prefetch_two};

/// Where no key is: that place stays empty.
pub(in crate::cache) const NOWHERE: u32 = 0;

/// Bytes of a cache line.
const LINE: usize = 64;

/// What becomes of the packets of a key, with addresses of `A` bytes.
#[derive(Debug, Default)]
pub(crate) enum Entry<const A: usize> {
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
pub(crate) struct RareProgram<const A: usize> {
    pub(in crate::cache) path: Arc<Path>,
    pub(in crate::cache) rare: Rare,
    /// Nothing, unless [`Rare::fused`].
    pub(in crate::cache) fused: Fused<A>,
    /// Likewise.
    pub(in crate::cache) macs: Macs,
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
struct EntryPlace<const A: usize> {
    tag: Tag,
    entry: Entry<A>,
}

const _: () = assert!(size_of::<EntryPlace<4>>() == LINE && size_of::<EntryPlace<16>>() == 2 * LINE);

/// The cache, for keys with addresses of `A` bytes.
#[derive(Debug)]
pub(in crate::cache) struct Exact<const A: usize> {
    places: Box<[EntryPlace<A>]>,
    directory: Directory,
    /// Places behind all that were ever taken.
    fresh: usize,
    /// Those before that are free again.
    free: Vec<u32>,
    /// Last place that was swept.
    hand: usize,
}

impl<const A: usize> Exact<A> {
    /// For fewer entries than this, a power of two.
    pub(in crate::cache) fn new(entries: usize) -> Self {
        let entries = entries.next_power_of_two().clamp(2, ENTRIES_MAX);
        Self {
            places: huge_slice(entries, EntryPlace::default),
            directory: Directory::new(entries),
            fresh: 1,
            free: Vec::with_capacity(entries),
            hand: 0,
        }
    }

    /// Asks for what says where a key is.
    #[inline]
    pub(in crate::cache) fn prefetch(&self, key: &Compact) {
        self.directory.prefetch(key);
    }

    /// Where a key is if it is anywhere, but for few; asks for that. For [`Exact::is_at`] to
    /// confirm.
    #[inline]
    pub(in crate::cache) fn guess(&self, key: &Compact) -> u32 {
        let place = self.directory.guess(key);
        if let Some(place) = self.places.get(place as usize) {
            if size_of::<EntryPlace<A>>() > LINE { prefetch_two(place) } else { prefetch(place) }
        }
        place
    }

    /// Whether a key is there.
    #[inline]
    pub(in crate::cache) fn is_at(&self, place: u32, key: &Compact) -> bool {
        self.places.get(place as usize).is_some_and(|place| place.tag == key.tag)
    }

    /// Where a key is.
    pub(in crate::cache) fn find(&self, key: &Compact) -> u32 {
        self.directory.places(key).find(|place| self.is_at(*place, key)).unwrap_or(NOWHERE)
    }

    /// The megaflow of an entry.
    #[inline]
    pub(in crate::cache) fn get(&self, entry: u32) -> Option<&Arc<Megaflow>> {
        self.entry(entry)?.megaflow()
    }

    /// An entry.
    #[inline]
    pub(in crate::cache) fn entry(&self, entry: u32) -> Option<&Entry<A>> {
        Some(&self.places.get(entry as usize)?.entry)
    }

    /// Asks for what an entry leads to. Returns where the first connection of its program lies, if
    /// it has one.
    #[inline]
    pub(in crate::cache) fn approach(&self, entry: u32) -> Option<u32> {
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

    /// Puts an entry where that of its key is, or in a free place, or in somebody's.
    pub(in crate::cache) fn insert(&mut self, key: &Compact, entry: Entry<A>) {
        let known = self.find(key);
        let place = if known == NOWHERE { self.take(key) } else { known };
        self.places[place as usize] = EntryPlace { tag: key.tag, entry };
    }

    /// A place for a key.
    fn take(&mut self, key: &Compact) -> u32 {
        let is_full = self.free.is_empty() && self.fresh == self.places.len();
        if !is_full && let Some(slot) = self.directory.free(key) {
            let place = self.free.pop().unwrap_or_else(|| self.unused());
            self.directory.put(slot, key, place);
            self.directory.fit(self.fresh - 1 - self.free.len());
            return place;
        }
        let places = &self.places;
        if let Some((slot, place)) = self.directory.victim(key, |place| places[place as usize].entry.is_dead()) {
            self.directory.put(slot, key, place);
            return place;
        }
        // All places are taken, and none of them by a key of this line.
        self.hand = (self.hand + 1) & (self.places.len() - 1);
        self.remove(self.hand.max(1));
        self.take(key)
    }

    /// The first place that was never taken.
    #[allow(clippy::cast_possible_truncation)] // fewer entries than 2^32
    fn unused(&mut self) -> u32 {
        self.fresh += 1;
        self.fresh as u32 - 1
    }

    #[allow(clippy::cast_possible_truncation)] // as above
    fn remove(&mut self, place: usize) {
        self.directory.remove(place as u32);
        self.places[place] = EntryPlace::default();
        self.free.push(place as u32);
    }

    /// Lets go of dead megaflows and paths in the next `n` places.
    pub(in crate::cache) fn sweep(&mut self, n: usize) {
        for _ in 0..n.min(self.len()) {
            self.hand = (self.hand + 1) & (self.places.len() - 1);
            if self.places[self.hand].entry.is_dead() {
                self.remove(self.hand);
            }
        }
    }

    /// Places.
    pub(in crate::cache) const fn len(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: u32 = 1024;

    fn is_there(cache: &Exact<4>, i: u32) -> bool {
        cache.find(&Compact::scattered(i)) != NOWHERE
    }

    #[test]
    fn a_crowd_goes_round() {
        let mut cache = Exact::<4>::new(ENTRIES as usize);
        let megaflow = Arc::new(Megaflow::tally(Vec::new()));
        for i in 1..5 * ENTRIES {
            cache.insert(&Compact::scattered(i), Entry::Megaflow(Arc::clone(&megaflow)));
            let place = cache.find(&Compact::scattered(i));
            assert!(place != NOWHERE && cache.get(place).is_some(), "key {i}, just put there, is at {place}");
        }
        let all = (1..5 * ENTRIES).filter(|i| is_there(&cache, *i)).count();
        assert_eq!(all + 1, ENTRIES as usize, "as many as there are places");
        assert_eq!(Arc::strong_count(&megaflow), ENTRIES as usize, "each with one reference, and ours");
        let guessed = (1..5 * ENTRIES)
            .filter(|i| cache.is_at(cache.guess(&Compact::scattered(*i)), &Compact::scattered(*i)))
            .count();
        assert!(guessed + 5 > all, "{guessed} of {all} were where they were thought to be");
    }

    #[test]
    fn a_key_has_one_place() {
        let mut cache = Exact::<4>::new(ENTRIES as usize);
        let megaflows = [(); 2].map(|()| Arc::new(Megaflow::tally(Vec::new())));
        for megaflow in &megaflows {
            cache.insert(&Compact::scattered(1), Entry::Megaflow(Arc::clone(megaflow)));
            let known = cache.get(cache.find(&Compact::scattered(1))).expect("it is there");
            assert!(Arc::ptr_eq(known, megaflow), "the last one that was put there");
        }
        assert_eq!(Arc::strong_count(&megaflows[0]), 1, "the first one is not kept");
    }

    #[test]
    fn the_dead_are_swept_and_their_places_taken_again() {
        let mut cache = Exact::<4>::new(ENTRIES as usize);
        let [lives, dies] = [(); 2].map(|()| Arc::new(Megaflow::tally(Vec::new())));
        let of = |i: u32| if i.is_multiple_of(2) { &dies } else { &lives };
        (1..=500).for_each(|i| cache.insert(&Compact::scattered(i), Entry::Megaflow(Arc::clone(of(i)))));
        dies.kill();
        cache.sweep(ENTRIES as usize);
        let wrong: Vec<u32> = (1..=500).filter(|i| is_there(&cache, *i) == i.is_multiple_of(2)).collect();
        assert_eq!(wrong, [0_u32; 0], "every second one is gone");
        assert_eq!(Arc::strong_count(&dies), 1, "nobody keeps the dead");
        let fresh = cache.fresh;
        (1001..=1250).for_each(|i| cache.insert(&Compact::scattered(i), Entry::Megaflow(Arc::clone(&lives))));
        assert_eq!((cache.fresh, cache.free.len()), (fresh, 0), "in the places of those that went");
        assert!((1001..=1250).chain((1..500).step_by(2)).all(|i| is_there(&cache, i)));
    }
}
