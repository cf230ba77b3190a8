//! Counts of times in buckets that are as wide as a 128th of what they hold: fixed in size,
//! whatever comes.

/// Bits of a value that a bucket tells apart: a percentile is at most 1/128 too high.
const BITS: u32 = 7;
const LINEAR: usize = 1 << BITS;

/// Values from here on share the last bucket: 2^40 cycles are minutes.
const LARGEST: u64 = (1 << 40) - 1;
const BUCKETS: usize = (40 - BITS as usize + 1) * LINEAR;

/// Values below 128 have a bucket each; of every power of two above, 128 buckets.
pub(crate) struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    least: u64,
    most: u64,
}

impl Histogram {
    /// Nothing counted yet. Allocates all that it will ever need.
    pub(crate) fn new() -> Self {
        Self { buckets: vec![0; BUCKETS].into_boxed_slice(), count: 0, least: u64::MAX, most: 0 }
    }

    /// Counts a value.
    #[inline]
    pub(crate) fn add(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// Values counted.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value; none of nothing.
    pub(crate) fn least(&self) -> Option<u64> {
        (self.count > 0).then_some(self.least)
    }

    /// The largest value; none of nothing.
    pub(crate) fn most(&self) -> Option<u64> {
        (self.count > 0).then_some(self.most)
    }

    /// The value that so many of a thousand values do not exceed (nearest rank), rounded up to its
    /// bucket's end; none of nothing.
    pub(crate) fn per_mille(&self, part: u64) -> Option<u64> {
        let rank = (self.count * part).div_ceil(1000).clamp(1, self.count.max(1));
        let mut seen = 0;
        let at = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(if at + 1 == BUCKETS { self.most } else { end(at).min(self.most) })
    }
}

/// The bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    let value = value.min(LARGEST);
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    #[allow(clippy::cast_possible_truncation)] // below 2 * LINEAR
    let top = (value >> shift) as usize;
    shift as usize * LINEAR + top
}

/// The largest value of a bucket.
fn end(bucket: usize) -> u64 {
    let shift = (bucket / LINEAR).saturating_sub(1);
    let top = bucket - shift * LINEAR;
    ((top as u64 + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for at in 0..BUCKETS {
            assert_eq!(bucket(end(at)), at);
            if at + 1 < BUCKETS {
                assert_eq!(bucket(end(at) + 1), at + 1);
            }
        }
        assert_eq!((bucket(0), bucket(LARGEST), bucket(u64::MAX)), (0, BUCKETS - 1, BUCKETS - 1));
    }

    #[test]
    fn nothing_has_no_percentile() {
        let empty = Histogram::new();
        assert_eq!((empty.least(), empty.per_mille(500), empty.most(), empty.count()), (None, None, None, 0));
    }

    #[test]
    fn what_is_too_large_is_told_as_the_largest() {
        let mut histogram = Histogram::new();
        histogram.add(u64::MAX);
        histogram.add(1);
        assert_eq!((histogram.per_mille(500), histogram.per_mille(1000)), (Some(1), Some(u64::MAX)));
    }

    /// Values of every size alike, not mostly large ones.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec((0_u32..40, any::<u64>()).prop_map(|(bits, value)| value & ((1 << bits) - 1)), 1..300)
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_list(values in values(), part in 0_u64..=1000) {
            let mut histogram = Histogram::new();
            for value in &values {
                histogram.add(*value);
            }
            let mut sorted = values;
            sorted.sort_unstable();
            let rank = (sorted.len() * usize::try_from(part).expect("small")).div_ceil(1000).max(1);
            let exact = sorted[rank - 1];
            let told = histogram.per_mille(part).expect("not empty");
            prop_assert!(told >= exact && told <= exact + exact / 128, "{told} for {exact}");
            prop_assert_eq!(histogram.least(), sorted.first().copied());
            prop_assert_eq!(histogram.most(), sorted.last().copied());
            prop_assert_eq!(histogram.count(), sorted.len() as u64);
        }
    }
}
