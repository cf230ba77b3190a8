//! Free places.
//!
//! Each list has places that are neighbours, and gives the lowest of them first: so the connections
//! of a worker lie side by side, as few of their lines as there are.
//!
//! How many places are free in all is a sum over the lists. A worker that asks for each new
//! connection would read the lines of all others. So a list remembers the sum and takes off what
//! its own worker opens. It sums up again after one part in [`TRUST`] of what is free.

use super::sync::{SpinMutex, size};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// Lists of free places, so that workers that open connections at once do not meet.
pub(super) const LISTS: usize = size(16, 2);

/// A sum of free places is remembered for one new connection in so many that it has room for. So
/// all lists together are wrong by a sixteenth at most.
const TRUST: u32 = 256;

/// Nothing has this number.
pub(super) const NOWHERE: u32 = u32::MAX;

#[derive(Debug)]
struct Places {
    free: Vec<u32>,
    /// How many were ever taken.
    taken: u64,
}

#[derive(Debug)]
#[repr(align(64))]
struct List {
    places: SpinMutex<Places>,
    /// The one that is taken next, or [`NOWHERE`]: for who asks without the lock.
    next: AtomicU32,
    /// Of the worker whose list this is: the list where he found places last.
    turn: AtomicUsize,
    /// How many places of this list are free.
    len: AtomicU32,
    /// How many places of all lists are free, as far as the worker of this one knows.
    room: AtomicU32,
    /// How many new connections of that worker are left until it sums up again.
    trust: AtomicU32,
}

impl List {
    fn pop(&self) -> Option<u32> {
        if self.next.load(Relaxed) == NOWHERE {
            return None;
        }
        let mut places = self.places.lock();
        let place = places.free.pop()?;
        places.taken += 1;
        self.show(&places);
        Some(place)
    }

    /// Places of this list, the one to be taken next last.
    fn push(&self, freed: &[u32]) {
        let mut places = self.places.lock();
        places.free.extend_from_slice(freed);
        self.show(&places);
    }

    /// Shows what is free to those who ask without the lock.
    #[inline]
    fn show(&self, places: &Places) {
        self.next.store(places.free.last().copied().unwrap_or(NOWHERE), Relaxed);
        self.len.store(u32::try_from(places.free.len()).unwrap_or(u32::MAX), Relaxed);
    }
}

/// Free places, in lists of neighbours; each list gives its lowest place first.
#[derive(Debug)]
pub(super) struct Free {
    lists: [List; LISTS],
    spread: Spread,
}

/// Which places are whose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    /// Of a list, at most.
    each: u32,
}

impl Spread {
    #[expect(clippy::cast_possible_truncation, reason = "there are few lists")]
    pub(super) const fn new(places: u32) -> Self {
        let each = places.div_ceil(LISTS as u32);
        Self { each: if each == 0 { 1 } else { each } }
    }

    /// The list that a place belongs to.
    #[inline]
    pub(super) const fn list(self, place: u32) -> usize {
        (place / self.each) as usize
    }

    /// The first place of a list.
    #[expect(clippy::cast_possible_truncation, reason = "there are few lists")]
    pub(super) const fn first(self, list: usize) -> u32 {
        list as u32 * self.each
    }
}

impl Free {
    /// All of them.
    pub(super) fn new(places: u32) -> Self {
        let spread = Spread::new(places);
        let lists = std::array::from_fn(|own| List {
            places: SpinMutex::new(Places { free: Vec::with_capacity(spread.each as usize), taken: 0 }),
            next: AtomicU32::new(NOWHERE),
            turn: AtomicUsize::new(own),
            len: AtomicU32::new(0),
            room: AtomicU32::new(0),
            trust: AtomicU32::new(0),
        });
        let free = Self { lists, spread };
        (0..places).rev().for_each(|place| free.give(&[place]));
        free
    }

    /// Bytes.
    pub(super) fn memory(&self) -> usize {
        self.lists.iter().map(|list| list.places.lock().free.capacity() * size_of::<u32>()).sum()
    }

    /// How often a place was taken.
    pub(super) fn taken(&self) -> u64 {
        self.lists.iter().map(|list| list.places.lock().taken).sum()
    }

    /// How many places are free, as far as a worker knows that is about to take one.
    #[inline]
    pub(super) fn room(&self, worker: usize) -> u32 {
        let own = &self.lists[worker % LISTS];
        let trust = own.trust.load(Relaxed);
        let room = if trust == 0 {
            let room = self.room_now();
            own.trust.store(room / TRUST, Relaxed);
            room
        } else {
            own.trust.store(trust - 1, Relaxed);
            own.room.load(Relaxed).saturating_sub(1)
        };
        own.room.store(room, Relaxed);
        room
    }

    /// How many places are free.
    pub(super) fn room_now(&self) -> u32 {
        self.lists.iter().map(|list| list.len.load(Relaxed)).sum()
    }

    /// A free place, if there is one. A worker whose own list is empty goes on with another one
    /// until that is empty, too, or his own is not any more.
    pub(super) fn take(&self, worker: usize) -> Option<u32> {
        let own = &self.lists[worker % LISTS];
        if let Some(place) = own.pop() {
            return Some(place);
        }
        let first = own.turn.load(Relaxed);
        (first..first + LISTS).find_map(|list| {
            let place = self.lists[list % LISTS].pop()?;
            if list != first {
                own.turn.store(list % LISTS, Relaxed);
            }
            Some(place)
        })
    }

    /// Gives places back. Each goes to the list that it came from, which has room for all of its
    /// own.
    pub(super) fn give(&self, places: &[u32]) {
        for same in places.chunk_by(|a, b| self.spread.list(*a) == self.spread.list(*b)) {
            self.lists[self.spread.list(same[0])].push(same);
        }
    }

    /// The place that [`Self::take`] would give now, if nobody else is there; or none.
    #[inline]
    pub(super) fn next(&self, worker: usize) -> u32 {
        let own = &self.lists[worker % LISTS];
        match own.next.load(Relaxed) {
            NOWHERE => self.lists[own.turn.load(Relaxed) % LISTS].next.load(Relaxed),
            place => place,
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lists.iter().map(|list| list.places.lock().free.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_takes_lies_side_by_side() {
        let free = Free::new(1000);
        for (worker, first) in [(0, 0), (3, 3 * 63)] {
            let taken: Vec<_> = (0..60).filter_map(|_| free.take(worker)).collect();
            assert_eq!(taken, (first..first + 60).collect::<Vec<_>>(), "worker {worker}");
        }
    }

    #[test]
    fn a_worker_whose_list_was_empty_comes_back_to_it() {
        let free = Free::new(160);
        let taken: Vec<_> = (0..12).filter_map(|_| free.take(2)).collect();
        assert_eq!(taken, (20..32).collect::<Vec<_>>(), "ten of his own, then the next list's");
        free.give(&[25]);
        assert_eq!((free.next(2), free.take(2)), (25, Some(25)), "his own again");
        assert_eq!((free.next(2), free.take(2)), (32, Some(32)), "and on");
    }

    #[test]
    fn every_place_is_taken_once_and_goes_back_where_it_came_from() {
        for places in [0, 1, 15, 16, 17, 40, 1000] {
            let free = Free::new(places);
            for _ in 0..2 {
                let mut taken: Vec<_> = std::iter::from_fn(|| free.take(7)).collect();
                free.give(&taken);
                taken.sort_unstable();
                assert_eq!(taken, (0..places).collect::<Vec<_>>());
                assert_eq!(free.len(), places as usize);
                assert_eq!(free.memory(), 4 * LISTS * places.div_ceil(16).max(1) as usize, "of {places}");
            }
        }
    }
}
