//! When a file was written, by clocks that outlive the process.

use super::super::words::{halves, whole};

/// A reading of the machine's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970-01-01 00:00:00 UTC, by the machine's clock. Others may step it.
    pub unix_ms: u64,
    /// Which boot of the machine this is; 0: not known.
    pub boot: u128,
    /// Milliseconds since that boot, with those that the machine slept.
    pub boot_ms: u64,
}

impl Moment {
    /// Words of a file's head.
    pub(super) fn words(&self) -> [u64; 4] {
        let [low, high] = halves(self.boot);
        [self.unix_ms, low, high, self.boot_ms]
    }

    /// From those.
    pub(super) fn of_words([unix_ms, low, high, boot_ms]: [u64; 4]) -> Self {
        Self { unix_ms, boot: whole([low, high]), boot_ms }
    }

    /// Milliseconds since an earlier moment.
    ///
    /// Within one boot no step of the machine's clock counts. Over a boot only that clock is left;
    /// a step back counts as 0, and at least the time since the boot has passed. There is no upper
    /// bound: a connection that lives on after its time passes where policies no longer let it.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> u64 {
        let by_clock = self.unix_ms.saturating_sub(earlier.unix_ms);
        if self.boot == 0 || earlier.boot == 0 {
            by_clock
        } else if self.boot == earlier.boot {
            self.boot_ms.saturating_sub(earlier.boot_ms)
        } else {
            by_clock.max(self.boot_ms)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    fn at(unix_ms: u64, boot: u128, boot_ms: u64) -> Moment {
        Moment { unix_ms, boot, boot_ms }
    }

    #[test]
    fn steps_of_the_clock_count_only_over_a_boot() {
        let written = at(100 * DAY, 7, 5000);
        for (read, passed) in [
            (at(100 * DAY + 30, 7, 5030), 30),
            (at(101 * DAY, 7, 5030), 30),
            (at(99 * DAY, 7, 5030), 30),
            (at(101 * DAY, 7, 4000), 0),
            (at(100 * DAY + 40_000, 8, 10_000), 40_000),
            (at(99 * DAY, 8, 10_000), 10_000),
            (at(101 * DAY, 8, 10_000), DAY),
            (at(100 * DAY + 40, 0, 10_000), 40),
            (at(99 * DAY, 0, 10_000), 0),
        ] {
            assert_eq!(read.since(&written), passed, "{read:?}");
        }
        assert_eq!(at(100 * DAY + 40, 7, 9).since(&at(100 * DAY, 0, 0)), 40, "of a file without a boot");
        assert_eq!(Moment::of_words(written.words()), written);
    }
}
