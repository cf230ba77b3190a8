//! Random tables, changes and packets: the compiled classifier finds what the reference finds,
//! whatever was cloned and changed in between, and uses the bits that it says.

use super::*;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Few values and masks per field, so that matches overlap, nest and repeat.
fn constraint() -> impl Strategy<Value = (Field, u128, u128)> {
    use Field::*;
    let whole = |field: Field, values: &'static [u128]| (Just(field), select(values), Just(u128::MAX));
    let prefix = |field: Field, values: &'static [u128], lens: &'static [u32]| {
        let mask = select(lens).prop_map(move |len| field.ones() << (field.width() - len));
        (Just(field), select(values), mask)
    };
    let masked =
        |field: Field, values: &'static [u128], masks: &'static [u128]| (Just(field), select(values), select(masks));
    const V4: &[u128] = &[0x0a00_0001, 0x0a00_0002, 0x0a00_0101, 0x0a01_0001, 0xc0a8_0001];
    const V6: &[u128] = &[0xfd00 << 112 | 1, 0xfd00 << 112 | 2, 0xfd00 << 112 | 1 << 64, 0xfe80 << 112];
    prop_oneof![
        whole(InPort, &[1, 2, 3]),
        whole(Metadata, &[1, 2, 3]),
        whole(EthType, &[0x800, 0x806, 0x86dd]),
        whole(ConjId, &[0, 1, 2, 3]),
        masked(Reg1, &[0, 1, 2, 3, 0x1_0001], &[0xffff_ffff, 1, 3, 0xffff_0000]),
        masked(CtState, &[0, 0x21, 0x22, 0x2a], &[0x21, 0x22, 0x0a, 0xff]),
        prefix(NwSrc, V4, &[8, 15, 24, 31, 32]),
        prefix(NwDst, V4, &[8, 16, 24, 32]),
        masked(NwDst, V4, &[0xff00_00ff, 0x0000_ffff]),
        prefix(Ipv6Src, V6, &[7, 64, 127, 128]),
        whole(NwProto, &[6, 17]),
        masked(CtMark, &[0, 1, 0x10], &[0xffff_ffff, 1, 0xf0]),
        whole(CtZone, &[0, 7]),
        whole(CtNwProto, &[6, 17]),
        whole(CtTpDst, &[80, 81]),
        prefix(CtNwDst, V4, &[24, 32]),
        whole(ArpSha, &[1, 2]),
        whole(TunMetadata0, &[1, 2]),
        masked(TpDst, &[80, 81, 88, 443], &[0xffff, 0xfff8, 0x00ff]),
        prefix(TpSrc, &[80, 1024], &[6, 16]),
    ]
}

/// Of few masks, so that entries share subtables.
fn familiar() -> impl Strategy<Value = SparseMatch> {
    let field = prop_oneof![Just(Field::InPort), Just(Field::Reg1), Just(Field::Metadata)];
    let pair = (field, 1u128..4, select(&[u128::MAX, 2][..]));
    prop::collection::vec(pair, 1..3).prop_map(|fields| masked(&fields))
}

fn any_match(most: usize) -> impl Strategy<Value = SparseMatch> {
    prop::collection::vec(constraint(), 0..=most).prop_map(|fields| masked(&fields))
}

fn any_packet() -> impl Strategy<Value = FlowKey> {
    prop::collection::vec(constraint(), 0..14).prop_map(|fields| {
        let mut key = packet(&fields.iter().map(|(field, value, _)| (*field, *value)).collect::<Vec<_>>());
        key.set(Field::ConjId, 0);
        key
    })
}

/// Mostly one clause of two or three, of few ids.
fn clauses() -> impl Strategy<Value = Vec<(u32, u8, u8)>> {
    let clause = (1u32..5, prop_oneof![4 => Just(2u8), 3 => Just(3), 1 => Just(1)], 0u8..3);
    let clause = clause.prop_map(|(id, n, k)| (id, k % n.max(2) + 1, n));
    prop_oneof![3 => Just(Vec::new()), 4 => prop::collection::vec(clause, 1..4)]
}

fn entry() -> impl Strategy<Value = Entry<u32>> {
    let conj_id = ((1u128..4), constraint()).prop_map(|(id, more)| masked(&[more, (Field::ConjId, id, u128::MAX)]));
    let shape = prop_oneof![3 => any_match(2), 1 => any_match(5), 4 => familiar(), 1 => conj_id];
    (0u16..6, shape, clauses(), any::<u32>())
        .prop_map(|(priority, m, clauses, data)| soft(priority * 40, m, &clauses, data))
}

#[derive(Clone, Debug)]
enum Change {
    Insert(Entry<u32>),
    /// An entry that is there, with other clauses and data.
    Replace(Index, Vec<(u32, u8, u8)>, u32),
    Remove(Index),
    /// From here on the clone is left alone.
    Clone,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        12 => entry().prop_map(Change::Insert),
        2 => (any::<Index>(), clauses(), any::<u32>()).prop_map(|(i, c, d)| Change::Replace(i, c, d)),
        4 => any::<Index>().prop_map(Change::Remove),
        1 => Just(Change::Clone),
    ]
}

fn pick(both: &Both, index: Index) -> Option<Entry<u32>> {
    (!both.plain.is_empty()).then(|| both.plain.iter().nth(index.index(both.plain.len())).expect("in range").clone())
}

/// The states that were cloned on the way, and the last one.
fn apply(changes: Vec<Change>) -> Vec<Both> {
    let (mut both, mut states) = (Both::default(), Vec::new());
    for change in changes {
        match change {
            Change::Insert(entry) => {
                both.insert(entry);
            }
            Change::Replace(index, clauses, data) => {
                if let Some(old) = pick(&both, index) {
                    let new = soft(old.priority, (*old.matching).clone(), &clauses, data);
                    assert_eq!(both.insert(new), Some(old.data));
                }
            }
            Change::Remove(index) => {
                if let Some(old) = pick(&both, index) {
                    assert_eq!(both.remove(&old.matching, old.priority), Some(old.data));
                    assert_eq!(both.remove(&old.matching, old.priority), None);
                }
            }
            Change::Clone => states.push(both.clone()),
        }
    }
    states.push(both);
    states
}

/// Holds the same entries.
fn check_content(both: &Both) {
    let id = |e: &Entry<u32>| (e.priority, e.data, e.clauses.len(), e.matching.map());
    let mut fast: Vec<_> = both.fast.iter().map(id).collect();
    let mut plain: Vec<_> = both.plain.iter().map(id).collect();
    fast.sort_unstable();
    plain.sort_unstable();
    assert_eq!(fast, plain);
    assert_eq!((both.fast.len(), both.fast.is_empty()), (plain.len(), plain.is_empty()));
    for entry in both.plain.iter() {
        let found = both.fast.get(&entry.matching, entry.priority).expect("is there");
        assert_eq!((found.data, &found.clauses), (entry.data, &entry.clauses));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn compiled_equals_reference_and_uses_what_it_says(
        changes in prop::collection::vec(change(), 1..120),
        packets in prop::collection::vec((any_packet(), any_packet(), any::<bool>()), 40),
        floor in prop::option::weighted(0.3, 0u16..240),
    ) {
        for both in apply(changes) {
            check_content(&both);
            for (key, other, random) in &packets {
                let (found, used) = both.lookup(key, floor);
                // Any packet that agrees on the bits used has the same result.
                let mut alike = FlowKey::default();
                for (i, word) in alike.0.iter_mut().enumerate() {
                    let other = if *random { other.0[i] } else { !key.0[i] };
                    *word = key.0[i] & used.0[i] | other & !used.0[i];
                }
                alike.set(Field::ConjId, 0);
                prop_assert_eq!(both.lookup(&alike, floor).0, found, "{:?} is like {:?} in {:?}", alike, key, used);
            }
        }
    }

    /// Bits that were used before do not take the place of bits used now: they may be of other
    /// values.
    #[test]
    fn what_was_used_before_does_not_matter(
        changes in prop::collection::vec(change(), 1..60), key in any_packet(), before in any_packet(),
    ) {
        let states = apply(changes);
        let both = states.last().expect("one state");
        let (_, alone) = both.lookup(&key, None);
        let mut used = FlowMask(before.0);
        both.fast.lookup(&key, &mut used, None);
        let mut sum = FlowMask(before.0);
        sum.add_mask(&alone);
        prop_assert_eq!(used, sum);
    }
}

/// All that an index holds goes with its entries.
#[test]
fn an_emptied_classifier_is_like_new() {
    let mut both = Both::default();
    for round in 0..30u16 {
        for i in 0..500u16 {
            let source = matching(&[(Field::EthType, 0x800), (Field::NwSrc, (i / 2).into())]);
            let priority = i * 31 % 700 + 700 * round;
            both.insert(soft(priority, source, &[(i.into(), 1, 2), (u32::from(i) + 1, 2, 3)], u32::from(i + round)));
        }
        assert_eq!(both.fast.len(), 500);
        for entry in both.plain.iter().cloned().collect::<Vec<_>>() {
            both.remove(&entry.matching, entry.priority);
        }
        check_content(&both);
        assert!(both.fast.soft.registry.blocks() < 50, "blocks of the index are used again");
        assert_eq!(both.used(&[(Field::EthType, 0x800), (Field::NwSrc, 1)]), FlowMask::default());
    }
}

/// Hundreds of conjunctions on four matches: long sets, bitmaps, lists of clauses that grow and
/// shrink.
fn crowd() -> impl Strategy<Value = Vec<(u16, [usize; 3], u8)>> {
    let rule = (prop_oneof![Just(200u16), 0u16..2_000, 0u16..4], any::<[Index; 3]>(), select(&[2u8, 2, 2, 3][..]));
    prop::collection::vec(rule.prop_map(|(priority, at, n)| (priority, at.map(|at| at.index(4)), n)), 200..700)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn crowds_of_conjunctions_equal_the_reference(
        rules in crowd(), gone in any::<[(Index, bool); 100]>(), packets in prop::collection::vec(0u128..16, 10), floor in 0u16..2_500,
    ) {
        let at = |i: usize| masked(&[(Field::Reg0, 1 << i, 1 << i)]);
        let mut both = Both::default();
        let mut lists = std::collections::BTreeMap::<(u16, usize), Vec<(u32, u8, u8)>>::new();
        for (id, (priority, clauses, n)) in (1..).zip(rules) {
            for (k, i) in (1..=n).zip(clauses) {
                let list = lists.entry((priority, i)).or_default();
                list.push((id, k, n));
                both.insert(soft(priority, at(i), list, id));
            }
            both.insert(plain(priority / 2 * 3, matching(&[(Field::ConjId, id.into())]), id));
        }
        let check = |both: &Both| {
            for bits in &packets {
                for floor in [None, Some(floor)] {
                    both.lookup(&packet(&[(Field::Reg0, *bits)]), floor);
                }
            }
        };
        check(&both);
        let full = both.clone();
        for (index, most) in gone {
            let keys: Vec<_> = lists.keys().copied().collect();
            let Some((priority, i)) = keys.get(index.index(keys.len().max(1))).copied() else { break };
            let list = lists.get_mut(&(priority, i)).expect("is there");
            list.truncate(if most { list.len() / 4 } else { list.len() - 1 });
            if list.is_empty() {
                lists.remove(&(priority, i));
                prop_assert!(both.remove(&at(i), priority).is_some());
            } else {
                both.insert(soft(priority, at(i), list, 0));
            }
        }
        check(&both);
        check_content(&both);
        check(&full);
    }
}
