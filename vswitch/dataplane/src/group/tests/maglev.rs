//! Maglev: shares, who moves, what a table hangs on.

use super::*;
use crate::limits::SELECT_BUCKETS_MAX;
use proptest::prelude::*;

/// As many buckets as a group may have.
const MOST: u32 = {
    #[allow(clippy::cast_possible_truncation)] // far below 2^32
    let most = SELECT_BUCKETS_MAX as u32;
    most
};

fn maglev(weights: &[(u32, u16)]) -> Group {
    let selection = Selection::Maglev { param: 0 };
    Group::new(GroupSpec { selection, ..spec(weights) }, Millis(0))
}

/// The bucket of each slot, by id.
fn table(weights: &[(u32, u16)]) -> Vec<u32> {
    ids(&maglev(weights))
}

/// What addresses give: ids without an order.
fn scattered(n: u32) -> Vec<(u32, u16)> {
    (0..n).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 1, 100)).collect()
}

/// Slots that others than `gone` have lost, of all.
fn moved(before: &[u32], after: &[u32], gone: u32) -> f64 {
    let moved = before.iter().zip(after).filter(|(before, after)| before != after && **before != gone).count();
    moved as f64 / before.len() as f64
}

#[test]
fn slots_are_shared_by_weight() {
    let most = scattered(MOST);
    let mixed: Vec<(u32, u16)> = (0..5000).map(|id| (id, 1 + (id % 3) as u16)).collect();
    let cases: &[(&str, &[(u32, u16)])] = &[
        ("one", &[(7, 65_535)]),
        ("three equal", &[(0, 1), (1, 1), (2, 1)]),
        ("antrea's", &[(0, 100), (1, 100), (2, 50)]),
        ("with a zero", &[(0, 7), (1, 0), (2, 13)]),
        ("1 to 10,000", &[(0, 1), (1, 10_000)]),
        ("the most extreme", &[(0, 1), (1, 65_535), (2, 65_535)]),
        ("three weights", &mixed),
        ("16,384", &most),
    ];
    for (name, weights) in cases {
        let group = maglev(weights);
        assert_eq!(group.slots.len(), SLOTS_MAX, "{name}");
        let total: f64 = weights.iter().map(|(_, weight)| f64::from(*weight)).sum();
        for ((id, count), (_, weight)) in counts(&group).iter().zip(*weights) {
            let exact = f64::from(*weight) * SLOTS_MAX as f64 / total;
            assert_eq!(*count > 0, *weight > 0, "{name}: bucket {id}");
            let off = (*count as f64 - exact).abs();
            assert!(off <= 1.0, "{name}: bucket {id} of weight {weight} has {count} slots, not {exact}");
        }
    }
    for weights in [&[][..], &[(0, 0), (1, 0)]] {
        assert_eq!(maglev(weights).pick(77, |_| true), None, "nothing has a weight");
    }
}

/// Lightest and heaviest at once: each has a slot, and the rest is the heaviest ones'.
#[test]
fn the_lightest_of_16_384_has_a_slot() {
    let weights: Vec<(u32, u16)> = (0..MOST).map(|id| (id, if id == 5 { 65_535 } else { 1 })).collect();
    let counts = counts(&maglev(&weights));
    assert!(counts.iter().all(|(id, count)| *id == 5 || *count == 1));
    assert_eq!(counts[5].1, SLOTS_MAX - SELECT_BUCKETS_MAX + 1);
    let heavy: Vec<(u32, u16)> = (0..MOST).map(|id| (id, 65_535)).collect();
    let same = scattered(16).iter().map(|(id, _)| (*id, 65_535)).collect::<Vec<_>>();
    assert_eq!(table(&same), table(&scattered(16)), "weights are relations");
    assert!(super::counts(&maglev(&heavy)).iter().all(|(_, count)| *count == 4), "their sum is more than 30 bits");
}

#[test]
fn few_others_move_when_one_goes_or_comes() {
    for n in [2_u32, 3, 10, 100, 500, 1000, 5000, MOST] {
        let all = scattered(n);
        let before = table(&all);
        for at in [0, n as usize / 2, n as usize - 1] {
            let mut left = all.clone();
            let (gone, _) = left.remove(at);
            let after = table(&left);
            let others = moved(&before, &after, gone);
            assert!(others < 0.015, "{n} buckets: {:.2} % of the others' moved", others * 100.0);
        }
    }
}

/// Of other weights, too, whoever goes.
#[test]
fn few_others_move_whatever_the_weights() {
    for (n, weights) in [(50, [1_u16, 100]), (1000, [1, 65_535]), (5000, [100, 200])] {
        let all: Vec<(u32, u16)> =
            scattered(n).into_iter().enumerate().map(|(i, (id, _))| (id, weights[i % 2])).collect();
        let before = table(&all);
        for at in [0, 1] {
            let mut left = all.clone();
            let (gone, _) = left.remove(at);
            let others = moved(&before, &table(&left), gone);
            assert!(others < 0.015, "{n} buckets of {weights:?}: {:.2} % of the others' moved", others * 100.0);
        }
    }
}

/// A table in which the order of the ids is all that there is.
#[test]
fn ids_side_by_side_are_as_good_as_any() {
    let all: Vec<(u32, u16)> = (0..100).map(|id| (id, 1)).collect();
    let (before, after) = (table(&all), table(&all[1..]));
    assert!(moved(&before, &after, 0) < 0.015);
}

/// Orders that were progressions had related steps here, and a third of the table moved.
#[test]
fn few_others_move_where_progressions_went_side_by_side() {
    let all = [708_412_438, 3_052_739_560, 3_089_012_163].map(|id| (id, 100));
    for (gone, _) in all {
        let left: Vec<(u32, u16)> = all.into_iter().filter(|(id, _)| *id != gone).collect();
        let others = moved(&table(&all), &table(&left), gone);
        assert!(others < 0.015, "{gone} of {all:?}: {:.2} % of the others' moved", others * 100.0);
    }
}

#[test]
fn a_dead_buckets_share_goes_to_the_others() {
    let group = maglev(&scattered(4));
    let mut taken = [0_u32; 4];
    for hash in (0..40_000_u32).map(|i| i.wrapping_mul(0x9e37_79b9)) {
        let all = group.pick(hash, |_| true).expect("a bucket");
        let without = group.pick(hash, |i| i != 1).expect("a bucket");
        assert!(all == 1 || all == without);
        taken[without] += 1;
    }
    assert_eq!(taken[1], 0);
    assert!(taken.iter().all(|taken| *taken == 0 || (12_500..14_200).contains(taken)), "{taken:?}");
}

/// It comes to an end: in 20 ms without debug assertions.
#[test]
fn the_largest_table_is_filled() {
    let weights: Vec<(u32, u16)> = (0..MOST).map(|id| (id, if id % 2 == 0 { 1 } else { 65_535 })).collect();
    assert_eq!(maglev(&weights).slots.len(), SLOTS_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Two switches with the same buckets choose alike: whatever the order, whatever was there
    /// before.
    #[test]
    fn a_table_hangs_on_nothing_but_ids_and_weights(
        weights in prop::collection::btree_map(any::<u32>(), prop_oneof![0..3_u16, any::<u16>()], 1..40),
        before in prop::collection::btree_map(any::<u32>(), any::<u16>(), 0..40),
        turn in any::<prop::sample::Index>(),
    ) {
        let weights: Vec<(u32, u16)> = weights.into_iter().collect();
        let before: Vec<(u32, u16)> = before.into_iter().collect();
        let mut turned = weights.clone();
        turned.rotate_left(turn.index(weights.len()));
        turned.reverse();
        let of = |weights: &[(u32, u16)]| GroupSpec { selection: Selection::Maglev { param: 0 }, ..spec(weights) };
        let expected = table(&weights);
        prop_assert_eq!(&ids(&maglev(&turned)), &expected);
        let old = maglev(&before);
        prop_assert_eq!(&ids(&old.modified(of(&turned))), &expected);
        prop_assert_eq!(&ids(&old.rearranged(of(&turned), |_| true)), &expected);
        for (id, weight) in &weights {
            prop_assert_eq!(expected.contains(id), *weight > 0);
        }
    }

    /// When one of n goes, what was its moves, and little else.
    #[test]
    fn what_goes_moves_and_little_else(
        equal in prop::collection::btree_set(any::<u32>(), 2..200),
        at in any::<prop::sample::Index>(),
    ) {
        let all: Vec<(u32, u16)> = equal.into_iter().map(|id| (id, 100)).collect();
        let mut left = all.clone();
        let (gone, _) = left.remove(at.index(all.len()));
        let (before, after) = (table(&all), table(&left));
        prop_assert!(!after.contains(&gone));
        let others = moved(&before, &after, gone);
        prop_assert!(others < 0.015, "{gone} of {all:?}: {:.2} % of the others' moved", others * 100.0);
    }
}
