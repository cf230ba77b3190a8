//! When the next packet is due: a steady rate by the time stamp counter, whatever the loop does in
//! between.

/// Fractions of a cycle that are kept: at 10 million packets per second the rate is right to 1 in
/// 10^8. A trial may take 2^44 cycles.
const FRACTION: u32 = 20;

/// Packets that a late sender makes up for. What was due before them is given up: a burst of
/// thousands would measure itself.
const BACKLOG: u64 = 256;

/// Grants packets as they become due.
pub(crate) struct Pacer {
    start: u64,
    /// Between two packets, in fractions of a cycle; 0: no limit.
    interval: u64,
    /// When the next one is due, in fractions of a cycle since the start.
    due: u64,
    given_up: u64,
}

impl Pacer {
    /// The first packet is due at `start` (cycles); `pps` none: as many as are asked for.
    pub(crate) fn new(start: u64, hz: u64, pps: Option<u64>) -> Self {
        let interval = pps.map_or(0, |pps| ((u128::from(hz) << FRACTION) / u128::from(pps.max(1))).max(1));
        Self { start, interval: u64::try_from(interval).unwrap_or(u64::MAX), due: 0, given_up: 0 }
    }

    /// How many packets are due at `now` (cycles), `most` at most; the others stay due.
    #[inline]
    pub(crate) fn grant(&mut self, now: u64, most: usize) -> usize {
        if self.interval == 0 {
            return most;
        }
        let elapsed = now.saturating_sub(self.start) << FRACTION;
        let mut granted = 0;
        while granted < most && self.due <= elapsed {
            self.due = self.due.saturating_add(self.interval);
            granted += 1;
        }
        let late = elapsed.saturating_sub(self.due);
        if late > BACKLOG.saturating_mul(self.interval) {
            let given_up = late / self.interval - BACKLOG;
            self.due += given_up * self.interval;
            self.given_up += given_up;
        }
        granted
    }

    /// Packets that were due when nobody asked, and never sent.
    pub(crate) const fn given_up(&self) -> u64 {
        self.given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HZ: u64 = 2_600_000_000;
    const START: u64 = 1 << 50;

    #[test]
    fn without_a_limit_all_that_is_asked_for_is_due() {
        let mut pacer = Pacer::new(START, HZ, None);
        assert_eq!((pacer.grant(START, 32), pacer.grant(START, 7), pacer.given_up()), (32, 7, 0));
    }

    #[test]
    fn a_second_has_as_many_packets_as_were_asked_for() {
        for pps in [1, 3, 999_983, 7_654_321] {
            let mut pacer = Pacer::new(START, HZ, Some(pps));
            // The last turn is a cycle before the second is over: the first packet of the next one
            // is not due then.
            let turns = (0..HZ).step_by(1000).chain([HZ - 1]);
            let sent: usize = turns.map(|cycles| pacer.grant(START + cycles, 32)).sum();
            assert_eq!((sent as u64, pacer.given_up()), (pps, 0), "{pps}");
        }
    }

    #[test]
    fn who_comes_late_makes_up_for_a_part() {
        let mut pacer = Pacer::new(START, HZ, Some(HZ / 100)); // one in 100 cycles
        assert_eq!(pacer.grant(START + 100 * 9_999, 32), 32);
        assert_eq!(pacer.given_up(), 10_000 - 32 - 1 - BACKLOG, "all but the burst, the backlog and the one due now");
        let made_up: usize =
            std::iter::repeat_with(|| pacer.grant(START + 100 * 9_999, 32)).take_while(|sent| *sent > 0).sum();
        assert_eq!(made_up as u64, BACKLOG + 1);
        assert_eq!(pacer.grant(START + 100 * 10_000, 32), 1);
    }

    #[test]
    fn a_clock_that_goes_back_grants_nothing() {
        let mut pacer = Pacer::new(START, HZ, Some(HZ / 100));
        assert_eq!(pacer.grant(START, 32), 1);
        assert_eq!(pacer.grant(START - 1000, 32), 0);
    }

    proptest! {
        #[test]
        fn never_faster_than_the_rate_and_nothing_is_lost_uncounted(
            pps in 1_u64..200_000_000, turns in proptest::collection::vec((0_u64..1_000_000, 1_usize..=32), 1..200)
        ) {
            let mut pacer = Pacer::new(START, HZ, Some(pps));
            let (mut now, mut sent) = (START, 0_u64);
            for (cycles, most) in turns {
                now += cycles;
                let granted = pacer.grant(now, most);
                prop_assert!(granted <= most);
                sent += granted as u64;
            }
            let interval = ((u128::from(HZ) << FRACTION) / u128::from(pps)).max(1);
            let due = u64::try_from((u128::from(now - START) << FRACTION) / interval).expect("fits") + 1;
            let gone = sent + pacer.given_up();
            prop_assert!(gone <= due, "{gone} of {due}");
            prop_assert!(due - gone <= BACKLOG + 2, "{gone} of {due}");
        }
    }
}
