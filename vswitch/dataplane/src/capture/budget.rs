//! What captures may cost a worker.

/// One cycle of so many goes to captures at most.
const SHARE: u64 = 10;

/// Cycles that are saved up while there is little to copy: about 10 ms.
const SAVED_MAX: i64 = 1 << 25;

/// The most that one burst is charged: the kernel may have taken the core away meanwhile.
const CHARGED_MAX: i64 = 1 << 16;

/// Cycles of the TSC that a worker may spend on copies now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Below 0: what the last burst took beyond it.
    saved: i64,
    last: u64,
}

impl Budget {
    /// A full one.
    pub(super) const fn new(now: u64) -> Self {
        Self { saved: SAVED_MAX, last: now }
    }

    /// Whether a burst may be copied at this time.
    pub(super) fn allows(&mut self, now: u64) -> bool {
        let earned = signed(now.wrapping_sub(self.last) / SHARE);
        self.last = now;
        self.saved = self.saved.saturating_add(earned).min(SAVED_MAX);
        self.saved > 0
    }

    /// A burst took so many cycles.
    pub(super) fn charge(&mut self, cycles: u64) {
        self.saved -= signed(cycles).min(CHARGED_MAX);
    }
}

fn signed(cycles: u64) -> i64 {
    i64::try_from(cycles).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_spent_in_the_long_run() {
        let (mut budget, mut now, mut spent) = (Budget::new(0), 0, 0);
        const COPY: u64 = 5_000;
        const REST: u64 = 3_000;
        let bursts = 200_000;
        for _ in 0..bursts {
            now += REST;
            if budget.allows(now) {
                now += COPY;
                spent += COPY;
                budget.charge(COPY);
            }
        }
        let share = (spent - SAVED_MAX.unsigned_abs()) * 1000 / now;
        assert!((90..=105).contains(&share), "{share} of 1000");
    }

    #[test]
    fn little_is_copied_whole_and_a_burst_that_took_long_is_not_paid_for_long() {
        let (mut budget, mut now) = (Budget::new(0), 0);
        for _ in 0..10_000 {
            now += 100_000;
            assert!(budget.allows(now));
            budget.charge(9_000);
        }
        let mut budget = Budget::new(now);
        budget.charge(u64::MAX);
        assert!(budget.allows(now));
        while budget.allows(now) {
            budget.charge(u64::MAX);
        }
        assert!(budget.allows(now + SHARE * (CHARGED_MAX.unsigned_abs() + 1)), "at most one burst is owed");
    }
}
