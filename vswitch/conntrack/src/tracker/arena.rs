//! The places of connections.
//!
//! All are allocated at start. What everybody wants to know of a place without locking it (is somebody there, until when, did anybody answer) is one
//! atomic word, [`Life`], which only the holder of the place's lock writes; everything else is behind that lock, which is held for some nanoseconds.
//!
//! Lock order: stripes of the index, then one place, then the free places and the events. Nobody holds two places at once.

use super::control::Skew;
use super::sync::{AtomicU64, SpinMutex, SpinMutexGuard, size};
use super::words::{Words, halves, whole};
use crate::tcp::Tcp;
use crate::{Direction, Helper, Memory, NatSide, Tuple};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// Lists of free places, so that workers that open connections at once do not meet.
const LISTS: usize = size(16, 2);

/// When a connection expires, in milliseconds, over eight flags; 0: nobody is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Life(u64);

impl Life {
    pub(super) const ALIVE: u64 = 1;
    /// A packet of the other direction was seen.
    pub(super) const REPLIED: u64 = 1 << 1;
    const SRC: u64 = 1 << 3;
    const DST: u64 = 1 << 4;
    const FTP: u64 = 1 << 5;
    const TFTP: u64 = 1 << 6;
    const FLAGS: u32 = 8;

    pub(super) fn new(side: Option<NatSide>, helper: Option<Helper>) -> Self {
        let side = match side {
            None => 0,
            Some(NatSide::Src) => Self::SRC,
            Some(NatSide::Dst) => Self::DST,
        };
        let helper = match helper {
            None => 0,
            Some(Helper::Ftp) => Self::FTP,
            Some(Helper::Tftp) => Self::TFTP,
        };
        Self(Self::ALIVE | side | helper)
    }

    pub(super) const fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[must_use]
    pub(super) const fn with(self, flag: u64) -> Self {
        Self(self.0 | flag)
    }

    /// Milliseconds of the clock.
    pub(super) const fn expiry(self) -> u64 {
        self.0 >> Self::FLAGS
    }

    #[must_use]
    pub(super) const fn until(self, expiry: u64) -> Self {
        let most = u64::MAX >> Self::FLAGS;
        let expiry = if expiry > most { most } else { expiry };
        Self(expiry << Self::FLAGS | self.0 & ((1 << Self::FLAGS) - 1))
    }

    /// What is translated.
    pub(super) const fn side(self) -> Option<NatSide> {
        if self.has(Self::SRC) {
            Some(NatSide::Src)
        } else if self.has(Self::DST) {
            Some(NatSide::Dst)
        } else {
            None
        }
    }

    pub(super) const fn helper(self) -> Option<Helper> {
        if self.has(Self::FTP) {
            Some(Helper::Ftp)
        } else if self.has(Self::TFTP) {
            Some(Helper::Tftp)
        } else {
            None
        }
    }
}

/// What is behind a place's lock. First what every packet touches: with the lock and [`Life`], one cache line.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Body {
    /// Of the place: how many connections were here.
    pub(super) generation: u32,
    /// How often it has changed ([`Body::changed`]).
    pub(super) version: u32,
    /// Of TCP.
    pub(super) tcp: Tcp,
    /// By [`Direction`], the low halves.
    pub(super) packets: [u32; 2],
    pub(super) bytes: [u32; 2],
    // Here the second cache line begins.
    pub(super) packets_high: [u16; 2],
    pub(super) mark: u32,
    pub(super) bytes_high: [u32; 2],
    /// When it began, in milliseconds.
    pub(super) start: u64,
    /// What few connections have, so that it is the one thing that is allocated.
    pub(super) rare: Option<Box<Rare>>,
    pub(super) label: [u64; 2],
    /// By [`Direction`].
    pub(super) tuples: [Words; 2],
}

/// Changes that are counted.
pub(super) const VERSION_MAX: u32 = u32::MAX;

/// What connections of helpers have.
#[derive(Debug, Default)]
pub(super) struct Rare {
    /// Original tuple of the connection that it was expected by.
    pub(super) master: Option<Tuple>,
    /// By [`crate::Direction`]: by how much what was sent is longer behind the switch.
    pub(super) skews: Option<[Skew; 2]>,
}

impl Body {
    /// A later `ct()` could see what has changed: who remembers how a packet was judged is to look again.
    pub(super) const fn changed(&mut self) {
        self.version = self.version.saturating_add(1);
    }

    /// How often it has changed. At [`VERSION_MAX`] nobody can tell any more, and nobody is to remember.
    pub(super) const fn version(&self) -> u32 {
        self.version
    }

    /// Counts a packet of so many bytes. What is seldom written lies apart.
    #[inline]
    pub(super) fn count(&mut self, direction: Direction, len: u32) {
        let direction = direction as usize;
        let (packets, packets_over) = self.packets[direction].overflowing_add(1);
        let (bytes, bytes_over) = self.bytes[direction].overflowing_add(len);
        (self.packets[direction], self.bytes[direction]) = (packets, bytes);
        if packets_over | bytes_over {
            self.carry(direction, packets_over, bytes_over);
        }
    }

    #[cold]
    fn carry(&mut self, direction: usize, packets: bool, bytes: bool) {
        self.packets_high[direction] = self.packets_high[direction].wrapping_add(packets.into());
        self.bytes_high[direction] = self.bytes_high[direction].wrapping_add(bytes.into());
    }

    /// Packets by direction, modulo 2^48.
    pub(super) fn packets(&self) -> [u64; 2] {
        std::array::from_fn(|i| u64::from(self.packets_high[i]) << 32 | u64::from(self.packets[i]))
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> [u64; 2] {
        std::array::from_fn(|i| u64::from(self.bytes_high[i]) << 32 | u64::from(self.bytes[i]))
    }

    pub(super) fn master(&self) -> Option<Tuple> {
        self.rare.as_ref()?.master
    }

    pub(super) fn skews(&self) -> Option<&[Skew; 2]> {
        self.rare.as_ref()?.skews.as_ref()
    }

    pub(super) const fn label(&self) -> u128 {
        whole(self.label)
    }

    pub(super) const fn set_label(&mut self, label: u128) {
        self.label = halves(label);
    }
}

#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Slot {
    life: AtomicU64,
    /// Held for some nanoseconds, and seldom contended: what counts is that letting go costs no locked instruction. Who has to wait lets others run, as the holder may have lost its core.
    body: SpinMutex<Body>,
}

impl Slot {
    /// As it is at this moment.
    #[inline]
    pub(super) fn life(&self) -> Life {
        Life(self.life.load(Acquire))
    }

    /// The word that it begins with.
    #[inline]
    pub(super) const fn first_word(&self) -> &AtomicU64 {
        &self.life
    }
}

/// A place, locked.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    slot: &'a Slot,
    pub(super) body: SpinMutexGuard<'a, Body>,
    pub(super) place: u32,
}

impl Locked<'_> {
    #[inline]
    pub(super) fn life(&self) -> Life {
        self.slot.life()
    }

    #[inline]
    pub(super) fn set_life(&self, life: Life) {
        self.slot.life.store(life.0, Release);
    }

    /// Unique among the living.
    pub(super) fn id(&self) -> u64 {
        u64::from(self.body.generation) << 32 | u64::from(self.place)
    }
}

/// Free places.
#[derive(Debug, Default)]
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

/// No place has this number.
const NOWHERE: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct Arena {
    slots: Box<[Slot]>,
    free: [List; LISTS],
}

impl Arena {
    pub(super) fn new<M: Memory>(places: u32) -> Self {
        let free: [List; LISTS] = std::array::from_fn(|own| List {
            next: AtomicU32::new(NOWHERE),
            turn: AtomicUsize::new(own),
            ..List::default()
        });
        for place in (0..places).rev() {
            free[place as usize % LISTS].push(place);
        }
        Self { slots: M::slice(places as usize, Slot::default), free }
    }

    /// Bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.slots) + self.slots.len() * size_of::<u32>()
    }

    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    #[inline]
    pub(super) fn lock(&self, place: u32) -> Locked<'_> {
        let slot = &self.slots[place as usize];
        Locked { slot, body: slot.body.lock(), place }
    }

    /// A free place, if there is one. A worker whose own list is empty goes on with another one until that is empty, too.
    pub(super) fn take(&self, worker: usize) -> Option<u32> {
        let turn = &self.free[worker % LISTS].turn;
        let first = turn.load(Relaxed);
        (first..first + LISTS).find_map(|list| {
            let place = self.free[list % LISTS].pop()?;
            if list != first {
                turn.store(list % LISTS, Relaxed);
            }
            Some(place)
        })
    }

    /// Gives a place back. It goes to the list that it came from, which has room for all of its own.
    pub(super) fn give(&self, place: u32) {
        self.free[place as usize % LISTS].push(place);
    }

    /// The place that [`Self::take`] would give now, if nobody else is there; or none.
    #[inline]
    pub(super) fn next(&self, worker: usize) -> u32 {
        let turn = self.free[worker % LISTS].turn.load(Relaxed);
        self.free[turn % LISTS].next.load(Relaxed)
    }

    /// Free places.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.iter().map(|list| list.places.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn halves_of_counters_are_whole_counters(before: [u32; 2], packets in proptest::collection::vec((any::<bool>(), any::<u32>()), 0..20)) {
            let mut body = Body { packets: [u32::MAX - 3, before[0]], bytes: before, ..Body::default() };
            let mut expected = [body.packets(), body.bytes()];
            for (reply, len) in packets {
                let direction = if reply { Direction::Reply } else { Direction::Original };
                body.count(direction, len);
                expected[0][direction as usize] += 1;
                expected[1][direction as usize] += u64::from(len);
            }
            prop_assert_eq!([body.packets(), body.bytes()], expected);
        }
    }

    /// A packet on the short way touches no other line of its connection.
    #[test]
    fn what_every_packet_touches_is_one_line() {
        let slot = Slot::default();
        let body = slot.body.lock();
        let begin = std::ptr::from_ref(&slot).addr();
        let end_of = |field: *const u8, size: usize| field.addr() + size - begin;
        let last = end_of(std::ptr::from_ref(&body.bytes).cast(), size_of_val(&body.bytes));
        let first = std::ptr::from_ref(&body.generation).addr() - begin;
        assert!((8..64).contains(&first) && last <= 64, "from {first} to {last}");
        assert_eq!(size_of::<Slot>() % 64, 0);
    }
}
