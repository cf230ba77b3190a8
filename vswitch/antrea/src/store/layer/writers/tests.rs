//! Things with many writers, against all of them looked at each time; and what one of them costs.

use crate::store::layer::Layer;
use crate::{Key, ObjectKind};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

thread_local! {
    /// How many values have been put together.
    static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
}

/// The values in order, each once.
#[allow(clippy::unnecessary_wraps)] // as a `Merge` is
fn union(values: &[&Arc<Vec<u32>>]) -> Option<Arc<Vec<u32>>> {
    LOOKED_AT.set(LOOKED_AT.get() + values.len());
    let mut all: Vec<u32> = values.iter().flat_map(|value| value.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    Some(Arc::new(all))
}

fn key(number: u32) -> Key {
    Key::new(ObjectKind::Pod, &format!("default/{number}"))
}

#[test]
fn changes_are_those_of_all_writers_together() {
    let mut state = 7_u32;
    let mut chance = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut layer: Layer<u32, Vec<u32>> = Layer::new(union);
    let mut naive: BTreeMap<u32, BTreeMap<Key, u32>> = BTreeMap::new();
    let merged = |naive: &BTreeMap<u32, BTreeMap<Key, u32>>, id: u32| {
        let mut all: Vec<u32> = naive.get(&id)?.values().copied().collect();
        all.sort_unstable();
        all.dedup();
        (!all.is_empty()).then_some(all)
    };
    for _ in 0..2000 {
        let before = naive.clone();
        for _ in 0..chance(12) {
            let (id, key, value) = (chance(3), key(chance(6)), chance(3));
            if chance(3) == 0 {
                layer.remove(&id, &key);
                naive.entry(id).or_default().remove(&key);
            } else {
                layer.insert(&id, &key, &Arc::new(vec![value]));
                naive.entry(id).or_default().insert(key, value);
            }
        }
        let mut conflicts = Vec::new();
        let mut changes = layer.changes(&mut conflicts);
        changes.sort_by_key(|(id, ..)| *id);
        let told: Vec<_> =
            changes.into_iter().map(|(id, old, new)| (id, old.as_deref().cloned(), new.as_deref().cloned())).collect();
        let wanted: Vec<_> = (0..3).map(|id| (id, merged(&before, id), merged(&naive, id))).collect();
        assert_eq!(told, wanted.into_iter().filter(|(_, old, new)| old != new).collect::<Vec<_>>());
        for id in 0..3 {
            assert_eq!(layer.merged(&id).as_deref().cloned(), merged(&naive, id));
            let owners: Vec<Key> = naive.get(&id).into_iter().flat_map(|of| of.keys().cloned()).collect();
            assert_eq!(layer.owners(&id).into_iter().cloned().collect::<Vec<_>>(), owners);
            for max in [0, 1, 2, owners.len(), owners.len() + 1] {
                let first = &owners[..max.min(owners.len())];
                assert_eq!(
                    layer.first_owners(&id, max).into_iter().cloned().collect::<Vec<_>>(),
                    first,
                    "{max} of them"
                );
            }
            let wrote =
                |of: &BTreeMap<u32, BTreeMap<Key, u32>>, key: &Key| of.get(&id).and_then(|of| of.get(key)).copied();
            let new = owners.into_iter().filter(|key| wrote(&before, key) != wrote(&naive, key));
            let touched = layer.touched().any(|touched| *touched == id);
            assert_eq!(if touched { layer.newcomers(&id) } else { Vec::new() }, new.collect::<Vec<_>>());
        }
        assert!(conflicts.is_empty());
        layer.settle();
    }
}

#[test]
fn one_of_ten_thousand_that_write_the_same_costs_what_one_of_two_costs() {
    let mut layer: Layer<u32, Vec<u32>> = Layer::new(union);
    (0..10_000).for_each(|number| layer.insert(&0, &key(number), &Arc::new(vec![1])));
    layer.settle();
    LOOKED_AT.set(0);
    let mut conflicts = Vec::new();
    layer.insert(&0, &key(10_000), &Arc::new(vec![1]));
    layer.remove(&0, &key(3));
    assert_eq!((layer.changes(&mut conflicts), LOOKED_AT.get()), (Vec::new(), 0));
    // All become something else, one after the other: they are put together once, when it is asked
    // for.
    (0..5000).for_each(|number| layer.insert(&0, &key(number), &Arc::new(vec![2])));
    assert_eq!((layer.changes(&mut conflicts).len(), LOOKED_AT.get()), (1, 10_001));
    (5000..=10_000).for_each(|number| layer.insert(&0, &key(number), &Arc::new(vec![2])));
    let (one, two) = (Some(Arc::new(vec![1])), Some(Arc::new(vec![2])));
    assert_eq!((layer.changes(&mut conflicts), LOOKED_AT.get()), (vec![(0, one, two)], 10_001));
}
