//! The directory of the exact-match cache: where the entry of a key lies.
//!
//! Entries are as large as cache lines. Were they put where a hash says, each of them would be
//! alone in its page of memory, and a core that remembers the addresses of 2,000 pages would have
//! to look up one for each packet of 30,000 connections (a host that backs its guests by small
//! pages makes that of huge pages, too). So entries lie one behind the other, in the order in which
//! they were made, and what a hash leads to is a line of 16 small slots, of which a few are taken:
//! signature and place. There are only as many lines as the entries need; when there are more
//! entries, each line is split into two.
//!
//! **Limits**: lines are never fewer again. A line that is full takes a slot from one of its
//! entries.

use crate::cache::fast::compact::Compact;
use vswitch_dpdk::{huge_slice, prefetch};

/// Slots of a line.
const SLOTS: usize = 16;

/// Bits of a slot that say where the entry is; the others are its signature. 0: the slot is free.
const PLACE_BITS: u32 = 19;

/// See [`PLACE_BITS`].
const PLACE: u32 = (1 << PLACE_BITS) - 1;

/// Entries that there can be, with place 0, where none is.
pub(in crate::cache) const ENTRIES_MAX: usize = 1 << PLACE_BITS;

/// Entries per line from which on there are more lines: 17 come to one in 4,000 lines then.
const CROWDED: usize = 6;

/// Lines in the beginning.
const LINES_MIN: usize = if cfg!(test) { 4 } else { 1 << 10 };

/// One cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Line([u32; SLOTS]);

/// Where an entry was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) struct Slot {
    line: usize,
    slot: usize,
}

/// Where entries are, by hashes of their keys.
#[derive(Debug)]
pub(in crate::cache) struct Directory {
    /// Those that are not used yet come last.
    lines: Box<[Line]>,
    /// Those that are used, less one; a power of two less one.
    mask: usize,
    /// By place: the part of its entry's hash that says in which line its slot is.
    hashes: Box<[u32]>,
    /// Which slot of a full line is taken next.
    turn: usize,
}

/// What is compared: the first bits of a hash, where a slot has them. Never 0, as free slots are.
#[inline]
#[allow(clippy::cast_possible_truncation)] // half of it
fn signature(key: &Compact) -> u32 {
    ((key.hash >> 32) as u32 & !PLACE).max(PLACE + 1)
}

impl Directory {
    /// For this many entries, at most [`ENTRIES_MAX`].
    pub(in crate::cache) fn new(entries: usize) -> Self {
        let lines = (entries / 8).next_power_of_two().max(LINES_MIN);
        Self {
            lines: huge_slice(lines, Line::default),
            mask: LINES_MIN - 1,
            hashes: vec![0; entries].into_boxed_slice(),
            turn: 0,
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // usize has 64 bits here
    const fn line(&self, key: &Compact) -> usize {
        key.hash as usize & self.mask
    }

    /// Asks for the line of a key.
    #[inline]
    pub(in crate::cache) fn prefetch(&self, key: &Compact) {
        if let Some(line) = self.lines.get(self.line(key)) {
            prefetch(line);
        }
    }

    /// Where the entry of a key is, if exactly one has its signature; one of them, if several have
    /// it; where no entry can be, if none has. Without a branch.
    #[inline]
    pub(in crate::cache) fn guess(&self, key: &Compact) -> u32 {
        let Some(line) = self.lines.get(self.line(key)) else { return u32::MAX };
        let signature = signature(key);
        // Of a slot with this signature its place remains, which is less than what remains of any
        // other.
        line.0.iter().map(|slot| slot ^ signature).fold(u32::MAX, u32::min)
    }

    /// Places of all entries that have a key's signature.
    pub(in crate::cache) fn places(&self, key: &Compact) -> impl Iterator<Item = u32> {
        let signature = signature(key);
        self.taken(key).map(|(_, slot)| slot).filter(move |slot| slot ^ signature <= PLACE).map(|slot| slot & PLACE)
    }

    /// Slots of a key's line that are taken.
    fn taken(&self, key: &Compact) -> impl Iterator<Item = (Slot, u32)> {
        let line = self.line(key);
        let slots = self.lines[line].0.into_iter().enumerate();
        slots.filter(|(_, word)| *word != 0).map(move |(slot, word)| (Slot { line, slot }, word))
    }

    /// A free slot of a key's line.
    pub(in crate::cache) fn free(&self, key: &Compact) -> Option<Slot> {
        let line = self.line(key);
        self.lines[line].0.iter().position(|word| *word == 0).map(|slot| Slot { line, slot })
    }

    /// A slot of a key's line whose entry goes, and its place: one that is `dead`, else one after
    /// the other. None: all are free.
    pub(in crate::cache) fn victim(&mut self, key: &Compact, dead: impl Fn(u32) -> bool) -> Option<(Slot, u32)> {
        self.turn = self.turn.wrapping_add(1);
        let taken = self.taken(key).count();
        let dead = self.taken(key).find(|(_, word)| dead(word & PLACE));
        let (slot, word) = dead.or_else(|| self.taken(key).nth(self.turn % taken.max(1)))?;
        Some((slot, word & PLACE))
    }

    /// The entry of a key is there now.
    #[allow(clippy::cast_possible_truncation)] // the part that is kept
    pub(in crate::cache) fn put(&mut self, slot: Slot, key: &Compact, place: u32) {
        self.lines[slot.line].0[slot.slot] = signature(key) | place;
        self.hashes[place as usize] = key.hash as u32;
    }

    /// The entry of a place is gone.
    pub(in crate::cache) fn remove(&mut self, place: u32) {
        let line = self.hashes[place as usize] as usize & self.mask;
        self.lines[line].0.iter_mut().filter(|word| **word & PLACE == place).for_each(|word| *word = 0);
    }

    /// There are this many entries: more lines, if that is too many for those that there are.
    ///
    /// Takes a few ns per entry, once for each doubling of their number.
    pub(in crate::cache) fn fit(&mut self, entries: usize) {
        let lines = self.mask + 1;
        if entries <= lines * CROWDED || lines == self.lines.len() {
            return;
        }
        let Self { lines: all, hashes, .. } = self;
        let (low, high) = all.split_at_mut(lines);
        for (low, high) in low.iter_mut().zip(high) {
            for (low, high) in low.0.iter_mut().zip(&mut high.0) {
                if hashes[(*low & PLACE) as usize] as usize & lines != 0 {
                    *high = std::mem::take(low);
                }
            }
        }
        self.mask = lines * 2 - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key with a hash.
    fn key(hash: u64) -> Compact {
        Compact::for_tests(hash, hash)
    }

    #[test]
    fn lines_become_more_with_entries_and_nothing_is_lost() {
        let mut directory = Directory::new(1024);
        let (mut lines, mut splits) = (directory.mask, 0);
        for i in 1..=600 {
            let key = Compact::scattered(i);
            let slot = directory.free(&key).unwrap_or_else(|| panic!("entry {i}: its line is full"));
            directory.put(slot, &key, i);
            directory.fit(i as usize);
            if directory.mask != lines {
                (lines, splits) = (directory.mask, splits + 1);
            }
            for known in 1..=i {
                let found: Vec<u32> = directory.places(&Compact::scattered(known)).collect();
                assert!(found.contains(&known), "entry {known} of {i}, {lines} lines: found {found:?}");
            }
        }
        assert_eq!((lines + 1, splits), (128, 5), "600 entries: more than 6 for each of 64 lines");
        for gone in (1..=600).step_by(2) {
            directory.remove(gone);
        }
        for i in 1..=600 {
            let found = directory.places(&Compact::scattered(i)).any(|place| place == i);
            assert_eq!(found, i % 2 == 0, "entry {i} after every second one was removed");
        }
    }

    #[test]
    fn a_guess_is_one_with_its_signature() {
        let mut directory = Directory::new(64);
        let (one, other) = (key(7 << 51), key(9 << 51));
        let twin = key((7 << 51) | (5 << 32)); // the same line and signature
        let nowhere = |directory: &Directory, hash: u64| directory.guess(&key(hash)) as usize >= ENTRIES_MAX;
        assert!(nowhere(&directory, 7 << 51) && nowhere(&directory, 0), "all slots are free");
        directory.put(directory.free(&one).unwrap(), &one, 21);
        directory.put(directory.free(&other).unwrap(), &other, 22);
        assert_eq!([&one, &other].map(|key| directory.guess(key)), [21, 22]);
        assert!(nowhere(&directory, 11 << 51) && nowhere(&directory, 0), "of none is this signature");
        directory.put(directory.free(&twin).unwrap(), &twin, 40);
        assert_eq!(directory.places(&one).collect::<Vec<_>>(), [21, 40], "both may be it");
        assert_eq!([&one, &twin].map(|key| directory.guess(key)), [21, 21], "one of both");
        let zero = key(3);
        directory.put(directory.free(&zero).unwrap(), &zero, 23);
        assert_eq!(directory.guess(&zero), 23, "its hash would have it look like a free slot");
    }

    #[test]
    fn who_goes_from_a_full_line() {
        let mut directory = Directory::new(64);
        let keys: Vec<Compact> = (1..=16).map(|i| key(i << 51)).collect();
        assert_eq!(directory.victim(&keys[0], |_| true), None, "an empty line");
        for (key, place) in keys.iter().zip(1..) {
            let slot = directory.free(key).expect("16 slots");
            directory.put(slot, key, place);
        }
        assert_eq!(directory.free(&keys[0]), None);
        assert_eq!(
            directory.victim(&keys[0], |place| place == 5).map(|(_, place)| place),
            Some(5),
            "the dead one first"
        );
        let mut gone: Vec<u32> = (0..16).filter_map(|_| Some(directory.victim(&keys[0], |_| false)?.1)).collect();
        gone.sort_unstable();
        assert_eq!(gone, (1..=16).collect::<Vec<u32>>(), "else one after the other");
    }
}
