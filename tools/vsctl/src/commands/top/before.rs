//! Rates: what came since a reading before, per second.

/// What was read before, and how long before.
#[derive(Debug)]
pub(super) struct Before<'a, T> {
    /// What it was.
    pub(super) data: &'a T,
    /// How long.
    pub(super) seconds: f64,
}

impl<T> Clone for Before<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Before<'_, T> {}

impl<T> Before<'_, T> {
    /// So many meanwhile, per second.
    pub(super) fn per_second(self, count: u64) -> f64 {
        per_second(count, self.seconds)
    }

    /// Of a counter. None: it has started over.
    pub(super) fn rate(self, old: u64, now: u64) -> Option<f64> {
        now.checked_sub(old).map(|more| self.per_second(more))
    }
}

/// So many in this time, per second.
#[allow(clippy::cast_precision_loss)] // for display
pub(super) fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_started_over_has_no_rate() {
        let before = Before { data: &(), seconds: 2.0 };
        assert_eq!((before.rate(10, 30), before.rate(10, 9)), (Some(10.0), None));
        assert_eq!(per_second(5, 0.0), 0.0, "no time has passed");
    }
}
