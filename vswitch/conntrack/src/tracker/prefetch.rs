//! What a packet will read of the table, for whoever wants that in the cache by then. Nothing here
//! changes anything, and nobody has to be right.

use super::sync::{AtomicU64, Word};
use super::words::SIDE;
use super::{Tracker, Words};
use crate::Tuple;

impl Tracker {
    /// A word of each line of the index in which a tuple and its answer are looked for, nearly
    /// always. They are neighbours, unless it is of ICMP.
    #[inline]
    #[must_use]
    pub fn lines_of(&self, tuple: &Tuple) -> [&AtomicU64; 2] {
        let hash = self.hasher.hash(&Words::from(tuple));
        [self.index.line(hash), self.index.line(hash ^ SIDE)]
    }

    /// The first word of the place that the worker's next new connection will have, unless somebody
    /// else takes it.
    #[inline]
    #[must_use]
    pub fn next_place(&self, worker: usize) -> Option<&AtomicU64> {
        self.word_at(self.arena.next(worker))
    }

    /// The first words of the other lines that this connection will have.
    #[inline]
    pub fn next_apart(&self, worker: usize) -> impl Iterator<Item = &Word> {
        self.arena.apart(self.arena.next(worker)).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, End, Family, Filter, L4, Request, Seen, Tracker, Tuple, protocol};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_connection_comes_where_it_was_said_to() {
        let tracker = Tracker::new(Config { connections_max: 40 });
        let end = |addr, port| End { addr, port };
        let mut told = 0;
        for port in 1..=40 {
            let tuple = Tuple { src: end(1, port), dst: end(2, 80), protocol: protocol::UDP, ..Tuple::default() };
            let (lines, next) = (tracker.lines_of(&tuple), tracker.next_place(3));
            let request = Request { commit: true, ..Request::default() };
            tracker.track(&Seen { tuple, l4: L4::Udp, len: 60, ..Seen::default() }, &request, 3, 0);
            let words = super::Words::from(&tuple);
            let found = tracker.find(&words, tracker.hasher.hash(&words), 0).map(|found| found.locked.place);
            told += usize::from(next.is_some());
            let there = found.and_then(|place| tracker.word_at(place));
            assert!(next.is_none_or(|next| there.is_some_and(|there| std::ptr::eq(next, there))), "{port}: {found:?}");
            let back = tracker.lines_of(&tuple.reversed());
            let same = |a: usize, b: usize| std::ptr::eq(lines[a], back[b]);
            assert!(same(0, 1) && same(1, 0), "the same lines from both ends");
        }
        assert_eq!(told, 40 - 13, "a list is found empty by whoever takes from it");
    }

    /// The lines that were said to be its other ones have its addresses then.
    #[test]
    fn a_connection_is_written_where_it_was_said_to_be() {
        let tracker = Tracker::new(Config { connections_max: 640 });
        let request = Request { commit: true, ..Request::default() };
        let end = |addr, port| End { addr, port };
        for client in 1..40_u64 {
            let family = if client % 3 == 0 { Family::V6 } else { Family::V4 };
            if client % 10 == 0 {
                let some = Filter { src: Some((Family::V6, u128::from(client) - 1)), ..Filter::default() };
                assert_eq!(tracker.flush(&some, 0), usize::from((client - 1) % 3 == 0), "its lines are used again");
            }
            let tuple = Tuple {
                src: end(client.into(), 7),
                dst: end(2, 80),
                protocol: protocol::UDP,
                family,
                ..Tuple::default()
            };
            let lines: Vec<_> = tracker.next_apart(3).collect();
            tracker.track(&Seen { tuple, l4: L4::Udp, len: 60, ..Seen::default() }, &request, 3, 0);
            let words: Vec<_> = lines.iter().map(|word| word.load(Relaxed)).collect();
            match family {
                Family::V4 => assert_eq!(words[0], client << 32 | 2),
                Family::V6 => assert_eq!(words.get(1), (client > 3).then_some(&client), "once there was one"),
            }
        }
        let full = Tracker::new(Config { connections_max: 0 });
        assert_eq!((full.next_place(3).is_none(), full.next_apart(3).count()), (true, 0));
    }
}
