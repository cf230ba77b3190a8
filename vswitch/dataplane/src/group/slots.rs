//! The table of a select group: which hash goes to which bucket.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use vswitch_flow::spec::BucketSpec;

/// Slots of a group at least: a bucket's share is exact to 1/256 or better.
const SLOTS_MIN: usize = 256;

/// Slots of a group at most. Beyond (weights 1 and 65,535), the lightest buckets have a slot each
/// and so more than their share.
pub const SLOTS_MAX: usize = 65_536;

/// Slots of the lightest bucket, as long as the table may grow.
const SLOTS_OF_LIGHTEST: u64 = 16;

/// Tries to find a live bucket by another hash before the table is searched.
const REHASHES: u32 = 8;

/// Fills the table. `old`: buckets and slots before the change.
pub(super) fn fill(buckets: &[BucketSpec], old: Option<(&[BucketSpec], &[u16])>) -> Box<[u16]> {
    let total: u64 = buckets.iter().map(|bucket| u64::from(bucket.weight)).sum();
    let Some(lightest) = buckets.iter().map(|bucket| u64::from(bucket.weight)).filter(|weight| *weight > 0).min()
    else {
        return Box::default();
    };
    let wanted = usize::try_from(total.div_ceil(lightest) * SLOTS_OF_LIGHTEST).unwrap_or(SLOTS_MAX);
    let len = wanted.clamp(SLOTS_MIN, SLOTS_MAX).next_power_of_two();
    let mut room = shares(buckets, total, len);
    let mut slots = inherit(buckets, old, len);
    // Who has more than it should gives, who has less takes, slot by slot.
    for slot in &mut slots {
        let keeps = slot.and_then(|i| room.get_mut(usize::from(i))).filter(|room| **room > 0);
        match keeps {
            Some(room) => *room -= 1,
            None => *slot = None,
        }
    }
    let mut takers = takers(&room).into_iter();
    slots.into_iter().map(|slot| slot.or_else(|| takers.next()).unwrap_or(0)).collect()
}

/// How many slots each bucket gets: its share rounded down, and what is left over to those who lost
/// most by rounding; every bucket with a weight has one at least.
fn shares(buckets: &[BucketSpec], total: u64, len: usize) -> Vec<usize> {
    let exact = |bucket: &BucketSpec| u64::from(bucket.weight) * len as u64;
    let mut shares: Vec<usize> =
        buckets.iter().map(|bucket| usize::try_from(exact(bucket) / total).unwrap_or(len)).collect();
    let mut by_rest: Vec<usize> = (0..buckets.len()).filter(|i| buckets[*i].weight > 0).collect();
    by_rest.sort_by_key(|i| (shares[*i] > 0, Reverse(exact(&buckets[*i]) % total)));
    let left = len.saturating_sub(shares.iter().sum());
    for i in by_rest.iter().cycle().take(left.min(by_rest.len())) {
        shares[*i] += 1;
    }
    // Only in tables that may not grow: the heaviest buckets give slots to those that have none.
    let poor: Vec<usize> = by_rest.iter().copied().filter(|i| shares[*i] == 0).collect();
    let mut rich: BinaryHeap<(usize, usize)> =
        if poor.is_empty() { BinaryHeap::new() } else { by_rest.iter().map(|i| (shares[*i], *i)).collect() };
    for i in poor {
        let Some((share, from)) = rich.pop().filter(|(share, _)| *share > 1) else { break };
        shares[from] = share - 1;
        shares[i] = 1;
        rich.push((share - 1, from));
    }
    shares
}

/// The old table at the new length, by the new indexes of its buckets.
fn inherit(buckets: &[BucketSpec], old: Option<(&[BucketSpec], &[u16])>, len: usize) -> Vec<Option<u16>> {
    let Some((old_buckets, old_slots)) = old.filter(|(_, slots)| !slots.is_empty()) else { return vec![None; len] };
    let index = |i: usize| u16::try_from(i).ok();
    let by_id: HashMap<u32, u16> = buckets.iter().enumerate().filter_map(|(i, b)| Some((b.id, index(i)?))).collect();
    let renamed: Vec<Option<u16>> = old_buckets.iter().map(|bucket| by_id.get(&bucket.id).copied()).collect();
    (0..len).map(|slot| renamed.get(usize::from(old_slots[slot % old_slots.len()])).copied().flatten()).collect()
}

/// Buckets by what they lack, spread evenly: each as often as it lacks slots.
fn takers(room: &[usize]) -> Vec<u16> {
    // Webster's method: whoever is furthest behind its part is next.
    let mut queue: BinaryHeap<(u64, Reverse<usize>, u64)> = BinaryHeap::new();
    let value = |room: usize, given: u64| room as u64 * 1_000_000 / (2 * given + 1);
    let lacking = room.iter().enumerate().filter(|(_, room)| **room > 0);
    queue.extend(lacking.map(|(i, room)| (value(*room, 0), Reverse(i), 0)));
    let mut takers = Vec::with_capacity(room.iter().sum());
    while let Some((_, Reverse(i), given)) = queue.pop() {
        takers.extend(u16::try_from(i));
        if given + 1 < room[i] as u64 {
            queue.push((value(room[i], given + 1), Reverse(i), given + 1));
        }
    }
    takers
}

/// The bucket of a hash, or another one that lives.
pub(super) fn pick(slots: &[u16], hash: u32, live: &impl Fn(usize) -> bool) -> Option<usize> {
    let mask = slots.len().checked_sub(1)?;
    let at = |hash: u32| slots.get(hash as usize & mask).map(|bucket| usize::from(*bucket));
    let first = at(hash).filter(|bucket| live(*bucket));
    let mut rehashed = (1..=REHASHES).filter_map(|i| at(mix(hash.wrapping_add(i.wrapping_mul(0x9e37_79b9)))));
    first.or_else(|| rehashed.find(|bucket| live(*bucket))).or_else(|| {
        let mut last = None;
        let around = (0..slots.len()).filter_map(|i| at(hash.wrapping_add(u32::try_from(i).unwrap_or(0))));
        // Neighbours are often of the same bucket: it is asked once.
        around.filter(|bucket| last.replace(*bucket) != Some(*bucket)).find(|bucket| live(*bucket))
    })
}

/// All bits of the result depend on all bits of the hash (the finaliser of MurmurHash3).
fn mix(mut hash: u32) -> u32 {
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}
