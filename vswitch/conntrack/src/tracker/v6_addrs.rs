//! Addresses that do not fit in a connection's own lines, those of IPv6: one cache line for both
//! tuples.
//!
//! There are as many lines as places, so that a connection that has a place has a line, whatever
//! the others are. They take memory when they are first written, and are given out lowest first:
//! what there is of them is for as many connections of IPv6 as there ever were at a time (in pages
//! of the kernel, and more where workers share unevenly). It is not given back.
//!
//! A line is written and read under the lock of the place that has it (who looks at an owned place
//! reads it without, and throws away what was nothing). A line that nobody has holds the number of
//! the next such line.

use super::free::{LISTS, NOWHERE, Spread};
use super::sync::{SpinMutex, Word};
use crate::{Direction, Memory};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Words of a line.
const WORDS: usize = 8;

/// As many lines as one list of free places has places, for connections at these: so nobody runs
/// out of lines before he runs out of places.
#[derive(Debug)]
#[repr(align(64))]
struct List {
    lines: SpinMutex<Lines>,
    /// The one that is taken next; [`NOWHERE`] before the first.
    next: AtomicU32,
}

#[derive(Debug)]
struct Lines {
    /// The last one that was given back, and is there; else [`NOWHERE`].
    back: u32,
    /// The first one that was never given out.
    fresh: u32,
}

/// Lines with the addresses of IPv6 connections, in memory that the kernel gives at first use.
#[derive(Debug)]
pub(super) struct V6Addrs {
    words: Box<[Word]>,
    /// The first word that a cache line begins with.
    first: usize,
    lists: [List; LISTS],
    spread: Spread,
}

impl V6Addrs {
    pub(super) fn new<M: Memory>(places: u32) -> Self {
        let words = M::zeros((places as usize + 1) * WORDS);
        let first = (words.as_ptr().addr().next_multiple_of(64) - words.as_ptr().addr()) / size_of::<u64>();
        let spread = Spread::new(places);
        let lists = std::array::from_fn(|list| List {
            lines: SpinMutex::new(Lines { back: NOWHERE, fresh: spread.first(list) }),
            next: AtomicU32::new(NOWHERE),
        });
        Self { words, first, lists, spread }
    }

    /// Bytes that were ever written.
    pub(super) fn memory(&self) -> usize {
        (0..LISTS).map(|list| self.out(list)).sum::<usize>() * WORDS * size_of::<u64>()
    }

    /// Lines of a list that were ever given out.
    fn out(&self, list: usize) -> usize {
        (self.lists[list].lines.lock().fresh - self.spread.first(list)) as usize
    }

    /// A line for the connection at a place that has none.
    pub(super) fn take(&self, place: u32) -> u32 {
        let list = &self.lists[self.spread.list(place)];
        let mut lines = list.lines.lock();
        let line = lines.next();
        if line == lines.fresh {
            lines.fresh += 1;
        } else {
            lines.back = self.behind(line);
        }
        list.next.store(lines.next(), Relaxed);
        line
    }

    /// The line of the connection that was at a place.
    pub(super) fn give(&self, place: u32, line: u32) {
        let list = &self.lists[self.spread.list(place)];
        let mut lines = list.lines.lock();
        if let Some(words) = self.line(line) {
            words[0].store(lines.back.into(), Relaxed);
            lines.back = line;
            list.next.store(line, Relaxed);
        }
    }

    /// The number that a line which nobody has holds.
    fn behind(&self, line: u32) -> u32 {
        self.line(line).map_or(NOWHERE, |words| low(words[0].load(Relaxed)))
    }

    #[inline]
    fn line(&self, line: u32) -> Option<&[Word; WORDS]> {
        self.words.get(self.first + line as usize * WORDS..)?.first_chunk()
    }

    /// By [`Direction`].
    pub(super) fn write(&self, line: u32, addresses: [[u64; 4]; 2]) {
        for (to, word) in self.line(line).into_iter().flatten().zip(addresses.as_flattened()) {
            to.store(*word, Relaxed);
        }
    }

    #[inline]
    pub(super) fn read(&self, line: u32, direction: Direction) -> [u64; 4] {
        let words = self.line(line).map(|words| &words.as_chunks().0[direction as usize]);
        words.map_or([0; 4], |words: &[Word; 4]| std::array::from_fn(|i| words[i].load(Relaxed)))
    }

    /// A word of the line that the next connection at a place would get, if there is such a place,
    /// and there was a connection that needed any.
    #[inline]
    pub(super) fn next(&self, place: u32) -> Option<&Word> {
        let line = self.lists.get(self.spread.list(place))?.next.load(Relaxed);
        Some(&self.line(line)?[0])
    }

    /// Lines that somebody has.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let held = |list: usize| {
            let last = self.lists[list].lines.lock().back;
            let back = std::iter::successors(Some(last), |line| Some(self.behind(*line)));
            self.out(list) - back.take_while(|line| *line != NOWHERE).count()
        };
        (0..LISTS).map(held).sum()
    }
}

impl Lines {
    /// The one that is next of this list.
    const fn next(&self) -> u32 {
        if self.back == NOWHERE { self.fresh } else { self.back }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is the number of a line")]
const fn low(word: u64) -> u32 {
    word as u32
}
