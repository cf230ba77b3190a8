//! Groups: shares, liveness, stability.

mod maglev;

use super::*;
use vswitch_flow::spec::{BucketSpec, Selection};

fn spec(weights: &[(u32, u16)]) -> GroupSpec {
    let bucket = |(id, weight): &(u32, u16)| BucketSpec {
        id: *id,
        weight: *weight,
        watch_port: None,
        watch_group: None,
        actions: [].into(),
    };
    let (kind, selection) = (GroupKind::Select, Selection::Default);
    GroupSpec { id: 1, kind, selection, buckets: weights.iter().map(bucket).collect() }
}

/// Slots of each bucket, by id.
fn counts(group: &Group) -> Vec<(u32, usize)> {
    let count = |i: usize| group.slots.iter().filter(|slot| usize::from(**slot) == i).count();
    group.spec.buckets.iter().enumerate().map(|(i, bucket)| (bucket.id, count(i))).collect()
}

fn ids(group: &Group) -> Vec<u32> {
    group.slots.iter().map(|slot| group.spec.buckets[usize::from(*slot)].id).collect()
}

#[test]
fn slots_are_shared_by_weight() {
    let many: Vec<(u32, u16)> = (0..4096).map(|id| (id, 1)).collect();
    let most: Vec<(u32, u16)> = (0..16_384).map(|id| (id, 1 + (id % 2) as u16)).collect();
    let cases: &[(&str, &[(u32, u16)])] = &[
        ("one", &[(0, 1)]),
        ("three equal", &[(0, 1), (1, 1), (2, 1)]),
        ("antrea's", &[(0, 100), (1, 100), (2, 50)]),
        ("with a zero", &[(0, 7), (1, 0), (2, 13)]),
        ("1 to 10,000", &[(0, 1), (1, 10_000)]),
        ("the most extreme", &[(0, 1), (1, 65_535), (2, 65_535)]),
        ("4,096 buckets", &many),
        ("16,384 buckets", &most),
    ];
    for (name, weights) in cases {
        let group = Group::new(spec(weights), Millis(0));
        assert!(group.slots.len().is_power_of_two() && group.slots.len() <= SLOTS_MAX, "{name}");
        let total: f64 = weights.iter().map(|(_, weight)| f64::from(*weight)).sum();
        for ((id, count), (_, weight)) in counts(&group).iter().zip(*weights) {
            let exact = f64::from(*weight) * group.slots.len() as f64 / total;
            assert_eq!(*count > 0, *weight > 0, "{name}: bucket {id}");
            let off = (*count as f64 - exact).abs();
            assert!(off <= 1.0, "{name}: bucket {id} of weight {weight} has {count} slots, not {exact}");
        }
    }
    for weights in [&[][..], &[(0, 0), (1, 0)]] {
        let group = Group::new(spec(weights), Millis(0));
        assert_eq!(group.pick(77, |_| true), None, "nothing has a weight: nothing takes the packet (observed)");
    }
}

#[test]
fn only_what_must_move_moves() {
    let before: &[(u32, u16)] = &[(10, 1), (11, 1), (12, 1), (13, 1)];
    // After the change, and the part of all connections that has to move.
    type Weights<'a> = &'a [(u32, u16)];
    let cases: &[(&str, Weights<'_>, f64)] = &[
        ("nothing", before, 0.0),
        ("another order", &[(13, 1), (11, 1), (10, 1), (12, 1)], 0.0),
        ("a bucket goes", &[(10, 1), (11, 1), (12, 1)], 0.25),
        ("a bucket comes", &[(10, 1), (11, 1), (12, 1), (13, 1), (14, 1)], 0.20),
        ("one becomes heavier", &[(10, 2), (11, 1), (12, 1), (13, 1)], 0.15),
        ("the table grows", &[(10, 1000), (11, 1000), (12, 1000), (13, 1000), (14, 1)], 0.01),
        ("all are new", &[(1, 1), (2, 1)], 1.0),
    ];
    for (name, weights, part) in cases {
        let old = Group::new(spec(before), Millis(5));
        let new = old.modified(spec(weights));
        assert_eq!(new.created_ms, 5);
        let picked = |group: &Group, hash| group.pick(hash, |_| true).map(|i| group.spec.buckets[i].id);
        let moved = (0_u32..).take(SLOTS_MAX).filter(|hash| picked(&old, *hash) != picked(&new, *hash)).count();
        let moved = moved as f64 / SLOTS_MAX as f64;
        assert!((moved - part).abs() < 0.01, "{name}: {moved} moved, not {part}");
        let back = new.modified(spec(before));
        let shares: Vec<usize> = counts(&back).iter().map(|(_, count)| *count).collect();
        assert!(shares.iter().all(|share| share.abs_diff(back.slots.len() / 4) <= 1), "{name}: {shares:?}");
    }
}

#[test]
fn a_dead_bucket_gives_its_share_to_the_others_by_weight() {
    let group = Group::new(spec(&[(0, 1), (1, 1), (2, 2)]), Millis(0));
    let mut taken = [0_u32; 3];
    for hash in 0..100_000_u32 {
        let hash = hash.wrapping_mul(0x9e37_79b9);
        let all = group.pick(hash, |_| true).expect("a bucket");
        let without = group.pick(hash, |i| i != 1).expect("a bucket");
        assert!(all == 1 || all == without, "hash {hash:#x} moved from {all} to {without}");
        assert_ne!(without, 1);
        taken[without] += 1;
        assert_eq!(group.pick(hash, |i| i == 0), Some(0), "the only one");
        assert_eq!(group.pick(hash, |_| false), None);
    }
    // One to two.
    assert!((32_000..35_000).contains(&taken[0]), "{taken:?}");
}

#[test]
fn fast_failover_takes_the_first_that_lives() {
    let spec = GroupSpec { kind: GroupKind::FastFailover, ..spec(&[(0, 0), (1, 0), (2, 0)]) };
    let group = Group::new(spec, Millis(0));
    assert_eq!(group.pick(9, |_| true), Some(0));
    assert_eq!(group.pick(9, |i| i > 0), Some(1));
    assert_eq!(group.pick(9, |_| false), None);
    assert!(group.slots.is_empty());
}

#[test]
fn counters_stay_with_their_buckets_when_others_come_and_go() {
    let group = Group::new(spec(&[(0, 1), (5, 1)]), Millis(0));
    group.stats.packets.store(3, Relaxed);
    group.stats.buckets[1].0.store(2, Relaxed);
    let packets = |group: &Group| -> Vec<u64> { group.stats.buckets.iter().map(|b| b.0.load(Relaxed)).collect() };
    let other = group.rearranged(spec(&[(7, 1), (5, 1), (0, 1)]), |_| true);
    assert_eq!((packets(&other), other.stats.packets.load(Relaxed)), (vec![0, 2, 0], 0), "observed");
    let anew = group.rearranged(spec(&[(5, 1)]), |id| id != 5);
    assert_eq!(packets(&anew), [0], "one that went, and came again");
    assert_eq!(packets(&group.modified(group.spec.clone())), [0, 0], "mod-group starts over");
    assert_eq!(ids(&group.modified(group.spec.clone())), ids(&group));
}
