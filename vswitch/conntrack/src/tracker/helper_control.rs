//! Connections with FTP's helper, as whoever reads their payload sees them.
//!
//! Text that names an address is replaced where the connection is translated, and may become longer
//! or shorter. What follows in that direction then has other sequence numbers behind the switch
//! than before it, and what the other end acknowledges is the other ones. The tracker itself counts
//! as the sender does.

use super::arena::Locked;
use super::track::is_translated_state;
use super::words::halves32;
use super::{Found, Tracker, Words};
use crate::{Direction, L4, NatSide, Seen, Tuple, tcp};

/// Where the text of one direction has last changed its length. Differences are modulo 2^32, as
/// sequence numbers are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Skew {
    /// Sequence number of the segment that did.
    at: u32,
    /// To add up to that one, itself included.
    before: u32,
    /// To add behind it.
    after: u32,
}

impl Skew {
    /// To add to a sequence number of the sender.
    const fn of(self, seq: u32) -> u32 {
        if is_after(seq, self.at) { self.after } else { self.before }
    }

    /// To take from what the receiver acknowledges.
    const fn of_ack(self, ack: u32) -> u32 {
        if is_after(ack.wrapping_sub(self.before), self.at) { self.after } else { self.before }
    }

    /// For a file.
    pub(super) const fn to_words(self) -> [u64; 2] {
        [(self.before as u64) << 32 | self.at as u64, self.after as u64]
    }

    /// What [`Self::to_words`] says; the upper half of the second word is nothing's.
    pub(super) const fn of_words([first, after]: [u64; 2]) -> Self {
        let ([before, at], [_, after]) = (halves32(first), halves32(after));
        Self { at, before, after }
    }

    /// A segment became longer. The same one again changes nothing.
    const fn grow(&mut self, seq: u32, by: i32) {
        if self.before == self.after || is_after(seq, self.at) {
            *self = Self { at: seq, before: self.after, after: self.after.wrapping_add_signed(by) };
        }
    }
}

/// Whether a sequence number follows another one (RFC 9293, 3.4).
const fn is_after(seq: u32, than: u32) -> bool {
    than.wrapping_sub(seq).cast_signed() < 0
}

impl Locked<'_> {
    /// A packet as if the text of the other direction had its length behind the switch, too.
    #[cold]
    pub(super) fn unskewed(&self, seen: &Seen, direction: Direction) -> Seen {
        match (self.skews(), seen.l4) {
            (Some(skews), L4::Tcp(segment)) => {
                let ack = segment.ack.wrapping_sub(skews[direction.opposite() as usize].of_ack(segment.ack));
                Seen { l4: L4::Tcp(tcp::Segment { ack, ..segment }), ..*seen }
            }
            _ => *seen,
        }
    }
}

/// A connection with a helper that reads, as a packet of it meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Of the packet.
    pub direction: Direction,
    /// By [`Direction`], as packets come.
    pub tuples: [Tuple; 2],
    /// What is translated.
    pub side: Option<NatSide>,
    /// If it is translated: what to add to the sequence number of the packet, modulo 2^32.
    pub seq: u32,
    /// Likewise to its acknowledgment number.
    pub ack: u32,
}

impl Tracker {
    /// The connection of a packet that [`crate::TrackVerdict::controls`]. `before`: as in
    /// [`crate::Request::before`]. None: it is gone meanwhile.
    #[cold]
    pub fn control(&self, seen: &Seen, before: u32, now: u64) -> Option<Control> {
        let Found { locked, direction } = if is_translated_state(before) {
            self.find_translated(&seen.tuple, now)?
        } else {
            let words = Words::from(&seen.tuple);
            self.find(&words, self.hasher.hash(&words), now)?
        };
        let mut control = Control {
            direction,
            tuples: locked.tuples().map(|words| words.tuple()),
            side: locked.life().side(),
            seq: 0,
            ack: 0,
        };
        if let (Some(skews), L4::Tcp(segment)) = (locked.skews(), &seen.l4) {
            control.seq = skews[direction as usize].of(segment.seq);
            control.ack = skews[direction.opposite() as usize].of_ack(segment.ack).wrapping_neg();
        }
        Some(control)
    }

    /// The text of a segment became longer by so many bytes (or shorter), which its sender does not
    /// know. `tuple`: of the segment, as it came; `seq`: likewise.
    #[cold]
    pub fn grown(&self, tuple: &Tuple, seq: u32, by: i32, now: u64) {
        let words = Words::from(tuple);
        if let Some(Found { mut locked, direction }) = self.find(&words, self.hasher.hash(&words), now) {
            locked.mine().changed();
            locked.skew(direction, |skew| skew.grow(seq, by));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_longer_segment_is_counted_anew() {
        let mut skew = Skew::default();
        assert_eq!((skew.of(7), skew.of(u32::MAX), skew.of_ack(7)), (0, 0, 0));
        skew.grow(u32::MAX - 9, 4);
        assert_eq!((skew.of(u32::MAX - 9), skew.of(u32::MAX), skew.of(10)), (0, 4, 4), "across the wrap");
        assert_eq!((skew.of_ack(u32::MAX - 9), skew.of_ack(14)), (0, 4));
        skew.grow(u32::MAX - 9, 4);
        assert_eq!(skew.of(10), 4, "the same segment again");
        skew.grow(20, -6);
        assert_eq!((skew.of(20), skew.of(40)), (4, 4_u32.wrapping_sub(6)));
        assert_eq!((skew.of_ack(24), skew.of_ack(38)), (4, 4_u32.wrapping_sub(6)));
        skew.grow(u32::MAX - 9, 4);
        assert_eq!(skew.of(40), 4_u32.wrapping_sub(6), "an older segment again");
    }
}
