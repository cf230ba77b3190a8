//! What came back in the measured part of a trial, and when the sender itself was away.

use crate::frame::Stamp;
use crate::histogram::Histogram;

/// A turn of the loop takes a microsecond or two; one that took so much longer (in millionths of a
/// second) had lost its core.
const GAP_US: u64 = 20;

/// Counts of one trial.
pub(crate) struct Tally {
    part: u8,
    pub(crate) received: u64,
    pub(crate) reordered: u64,
    /// Received in the measured part, and nothing that a trial sent.
    pub(crate) foreign: u64,
    /// Of all packets, in cycles.
    pub(crate) all: Histogram,
    /// Of packets that were not on their way while this process had lost its core.
    pub(crate) undisturbed: Histogram,
    pub(crate) gaps: Gaps,
    next: u64,
}

/// Times that the loop did not turn.
pub(crate) struct Gaps {
    threshold: u64,
    last: u64,
    end: u64,
    pub(crate) count: u64,
    pub(crate) cycles: u64,
    pub(crate) longest: u64,
}

impl Tally {
    /// For packets with this part in their stamps.
    pub(crate) fn new(part: u8, hz: u64) -> Self {
        let threshold = hz / 1_000_000 * GAP_US;
        let gaps = Gaps { threshold, last: u64::MAX, end: 0, count: 0, cycles: 0, longest: 0 };
        let (all, undisturbed) = (Histogram::new(), Histogram::new());
        Self { part, received: 0, reordered: 0, foreign: 0, all, undisturbed, gaps, next: 0 }
    }

    /// A frame was received at `now` (cycles).
    #[inline]
    pub(crate) fn take(&mut self, frame: &[u8], now: u64) {
        // A frame that claims to come from the future is somebody else's.
        let Some((stamp, cycles)) = Stamp::of(frame).and_then(|stamp| Some((stamp, now.checked_sub(stamp.sent)?)))
        else {
            self.foreign += 1;
            return;
        };
        if stamp.part != self.part {
            return; // of the warm-up, or of an earlier trial
        }
        self.received += 1;
        if stamp.number < self.next {
            self.reordered += 1;
        } else {
            self.next = stamp.number + 1;
        }
        self.all.add(cycles);
        if stamp.sent >= self.gaps.end {
            self.undisturbed.add(cycles);
        }
    }
}

impl Gaps {
    /// The loop looks at the clock: it is `now` (cycles).
    #[inline]
    pub(crate) fn turn(&mut self, now: u64) {
        let cycles = now.saturating_sub(self.last);
        self.last = now;
        if cycles > self.threshold {
            self.count += 1;
            self.cycles += cycles;
            self.longest = self.longest.max(cycles);
            self.end = now;
        }
    }

    /// Gaps before now do not count; packets that were on their way meanwhile are still disturbed.
    pub(crate) const fn clear(&mut self) {
        (self.count, self.cycles, self.longest) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frames, Plan, Protocol};
    use vswitch_dataplane::packet::Mac;

    const HZ: u64 = 1_000_000_000; // a gap is one of more than 20,000 cycles

    fn frame(part: u8, number: u64, sent: u64) -> Vec<u8> {
        let macs = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];
        let addresses = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        let plan = Plan { protocol: Protocol::Udp, size: 64, flows: 1, macs, addresses, to_port: 80 };
        let frames = Frames::new(&plan).expect("long enough");
        let mut frame = vec![0; frames.len()];
        frames.write(Stamp { part, number, sent }, &mut frame);
        frame
    }

    #[test]
    fn each_packet_counts_once_where_it_belongs() {
        let mut tally = Tally::new(3, HZ);
        for (number, sent) in [(0, 100), (2, 110), (1, 105), (3, 120)] {
            tally.take(&frame(3, number, sent), 1100);
        }
        tally.take(&frame(2, 9, 100), 1100); // an earlier part: neither ours nor foreign
        tally.take(&frame(3, 9, 1101), 1100); // from the future
        tally.take(&[0xff; 60], 1100);
        tally.take(&[], 1100);
        assert_eq!((tally.received, tally.reordered, tally.foreign), (4, 1, 3));
        assert_eq!((tally.all.count(), tally.all.least(), tally.all.most()), (4, Some(980), Some(1000)));
        assert_eq!(tally.undisturbed.count(), 4);
    }

    #[test]
    fn a_packet_on_its_way_during_a_gap_is_disturbed() {
        let mut tally = Tally::new(1, HZ);
        for now in [1000, 2000, 22_000, 52_000] {
            tally.gaps.turn(now); // the last one 30,000 cycles late, the one before just in time
        }
        assert_eq!((tally.gaps.count, tally.gaps.cycles, tally.gaps.longest), (1, 30_000, 30_000));
        tally.take(&frame(1, 0, 51_999), 52_000);
        tally.take(&frame(1, 1, 52_000), 52_500);
        assert_eq!((tally.all.count(), tally.undisturbed.count(), tally.undisturbed.most()), (2, 1, Some(500)));
        tally.gaps.clear();
        assert_eq!((tally.gaps.count, tally.gaps.longest), (0, 0));
        tally.take(&frame(1, 2, 51_999), 52_600);
        assert_eq!(tally.undisturbed.count(), 1, "still");
    }
}
