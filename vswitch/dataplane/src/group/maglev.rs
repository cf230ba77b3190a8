//! The table of a group that chooses as Maglev does (Eisenbud et al. 2016, section 3.4): made of
//! bucket ids and weights alone, so that whoever has the same buckets chooses alike, however they
//! came to be there.
//!
//! Each bucket goes through all slots in an order of its own, and takes the next free one whenever
//! it is its turn; turns come by weight (Webster's method). When a bucket goes, its slots are free,
//! and few others change hands: below 1.5 % of the table (tested). Of more only if it had a large
//! share beside thousands: of 38 % beside 16,383 others 15 %.
//!
//! An order is a permutation without a pattern. The paper's are progressions (a start and a step),
//! and two of those may go side by side: of three such buckets whose steps were related, one went
//! and a third of the table changed hands.

use super::SLOTS_MAX;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use vswitch_flow::spec::BucketSpec;

/// Slots of every table: a size that followed the number of buckets would move most connections
/// whenever it changed. As many as 16 bits tell apart, of which [`nth`] makes permutations.
const SLOTS: usize = SLOTS_MAX;
const _: () = assert!(SLOTS == 1 << 16, "slots are numbers of 16 bits");

/// Slots that are looked at in all, per slot of the table. It takes about 12 (the sum of 1/k); ids
/// that were made to collide get what is left in order.
const LOOKS_PER_SLOT: usize = 64;

/// A bucket that has a weight.
struct Taker {
    /// Index of the bucket.
    bucket: u16,
    weight: u16,
    /// Tells its order, see [`nth`].
    digest: u64,
    /// Slots of that which it has looked at.
    looked: u16,
    /// Slots that it has.
    taken: u64,
}

impl Taker {
    /// When it is its turn: after half a slot's worth of its weight, one and a half, and so on.
    fn turn(&self) -> u64 {
        ((2 * self.taken + 1) << 32) / u64::from(self.weight.max(1))
    }
}

/// Fills the table. Empty: no bucket has a weight.
pub(super) fn fill(buckets: &[BucketSpec]) -> Box<[u16]> {
    let mut takers = takers(buckets);
    if takers.is_empty() {
        return Box::default();
    }
    let mut slots: Vec<Option<u16>> = vec![None; SLOTS];
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> =
        takers.iter().enumerate().map(|(i, taker)| Reverse((taker.turn(), i))).collect();
    // A weight is a slot at least: the last ones are for those that have none.
    let (mut free, mut without) = (SLOTS, takers.len());
    let (mut looks, mut lowest) = (SLOTS * LOOKS_PER_SLOT, 0);
    while free > 0 {
        let Some(Reverse((_, i))) = queue.pop() else { break };
        let Some(taker) = takers.get_mut(i) else { break };
        if free <= without && taker.taken > 0 {
            continue;
        }
        let at = next_free(&slots, taker, &mut looks, &mut lowest);
        let Some(slot) = at.and_then(|at| slots.get_mut(at)) else { break };
        *slot = Some(taker.bucket);
        free -= 1;
        without -= usize::from(taker.taken == 0);
        taker.taken += 1;
        queue.push(Reverse((taker.turn(), i)));
    }
    slots.into_iter().map(Option::unwrap_or_default).collect()
}

/// Those that have a weight, in the order of their ids: not that of the list.
fn takers(buckets: &[BucketSpec]) -> Vec<Taker> {
    let mut those: Vec<(u32, Taker)> = Vec::with_capacity(buckets.len());
    for (i, bucket) in buckets.iter().enumerate().filter(|(_, bucket)| bucket.weight > 0) {
        let Ok(index) = u16::try_from(i) else { break };
        let digest = digest(bucket.id);
        those.push((bucket.id, Taker { bucket: index, weight: bucket.weight, digest, looked: 0, taken: 0 }));
    }
    those.sort_by_key(|(id, _)| *id);
    those.into_iter().map(|(_, taker)| taker).take(SLOTS).collect()
}

/// The next slot in a bucket's order that nobody has; once all looks are used up the lowest one.
fn next_free(slots: &[Option<u16>], taker: &mut Taker, looks: &mut usize, lowest: &mut usize) -> Option<usize> {
    while *looks > 0 {
        *looks -= 1;
        let at = usize::from(nth(taker.digest, taker.looked));
        taker.looked = taker.looked.wrapping_add(1);
        if slots.get(at).is_some_and(Option::is_none) {
            return Some(at);
        }
    }
    while slots.get(*lowest).is_some_and(Option::is_some) {
        *lowest += 1;
    }
    Some(*lowest).filter(|at| *at < SLOTS)
}

/// The `i`th slot in the order of a bucket with this digest: each step (a difference, an odd
/// multiple, upper bits added to lower ones) can be undone, so no two `i` have the same slot.
const fn nth(digest: u64, i: u16) -> u16 {
    #[allow(clippy::cast_possible_truncation)] // 16 bits each
    let [a, b, c, d] = [digest as u16, (digest >> 16) as u16 | 1, (digest >> 32) as u16 | 1, (digest >> 48) as u16 | 1];
    let bits = (i ^ a).wrapping_mul(b);
    let bits = (bits ^ bits >> 8).wrapping_mul(c);
    let bits = (bits ^ bits >> 7).wrapping_mul(d);
    bits ^ bits >> 9
}

/// All bits of the result depend on all bits of the id. The same on every machine and in every
/// version (the finaliser of SplitMix64): Nodes are to agree.
const fn digest(id: u32) -> u64 {
    let mut bits = (id as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
