//! Free places.

use super::sync::{SpinMutex, size};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// Lists of free places, so that workers that open connections at once do not meet.
pub(super) const LISTS: usize = size(16, 2);

/// Nothing has this number.
pub(super) const NOWHERE: u32 = u32::MAX;

#[derive(Debug)]
#[repr(align(64))]
struct List {
    places: SpinMutex<Vec<u32>>,
    /// The one that is taken next, or [`NOWHERE`]: for who asks without the lock.
    next: AtomicU32,
    /// Of the worker whose list this is: the list where he found places last.
    turn: AtomicUsize,
}

impl List {
    fn pop(&self) -> Option<u32> {
        if self.next.load(Relaxed) == NOWHERE {
            return None;
        }
        let mut places = self.places.lock();
        let place = places.pop();
        self.next.store(places.last().copied().unwrap_or(NOWHERE), Relaxed);
        place
    }

    fn push(&self, place: u32) {
        let mut places = self.places.lock();
        places.push(place);
        self.next.store(place, Relaxed);
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Free([List; LISTS]);

impl Free {
    /// All of them.
    pub(super) fn new(places: u32) -> Self {
        let each = (places as usize).div_ceil(LISTS);
        let free = Self(std::array::from_fn(|own| List {
            places: SpinMutex::new(Vec::with_capacity(each)),
            next: AtomicU32::new(NOWHERE),
            turn: AtomicUsize::new(own),
        }));
        (0..places).rev().for_each(|place| free.give(place));
        free
    }

    /// Bytes.
    pub(super) fn memory(&self) -> usize {
        self.0.iter().map(|list| list.places.lock().capacity() * size_of::<u32>()).sum()
    }

    /// A free place, if there is one. A worker whose own list is empty goes on with another one until that is empty, too.
    pub(super) fn take(&self, worker: usize) -> Option<u32> {
        let turn = &self.0[worker % LISTS].turn;
        let first = turn.load(Relaxed);
        (first..first + LISTS).find_map(|list| {
            let place = self.0[list % LISTS].pop()?;
            if list != first {
                turn.store(list % LISTS, Relaxed);
            }
            Some(place)
        })
    }

    /// Gives a place back. It goes to the list that it came from, which has room for all of its own.
    pub(super) fn give(&self, place: u32) {
        self.0[place as usize % LISTS].push(place);
    }

    /// The place that [`Self::take`] would give now, if nobody else is there; or none.
    #[inline]
    pub(super) fn next(&self, worker: usize) -> u32 {
        let turn = self.0[worker % LISTS].turn.load(Relaxed);
        self.0[turn % LISTS].next.load(Relaxed)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|list| list.places.lock().len()).sum()
    }
}
