//! Priorities: order, bounds, few moves.

use super::*;
use proptest::prelude::*;

const TABLE: Table = Table::AntreaPolicyIngressRule;

fn rule(policy: usize, rule: usize) -> RuleKey {
    RuleKey { policy: format!("acnp:{policy}").into(), rule: rule.to_string().into() }
}

fn rank(tier: u32, priority: f64, place: u32, effect: Effect) -> Rank {
    Rank::new(tier, priority, place, effect, false, &rule(0, 0))
}

/// Ranks are in order, in their bounds, and each has a value of its own.
fn check(priorities: &Priorities) {
    for (table, ranks) in &priorities.tables {
        let values: Vec<u16> = ranks.values().map(|held| held.value).collect();
        assert!(values.windows(2).all(|pair| pair[0] > pair[1]), "{values:?}");
        assert!(values.iter().all(|value| bounds(*table).contains(value)), "{values:?}");
    }
    for (rule, (table, rank)) in &priorities.rules {
        assert!(priorities.tables[table][rank].rules.contains(rule));
    }
    let held: usize = priorities.tables.values().flat_map(BTreeMap::values).map(|held| held.rules.len()).sum();
    assert_eq!(held, priorities.rules.len());
}

#[test]
fn wanted_values_are_antreas() {
    for (table, tier, priority, place, wanted) in [
        (TABLE, 250, 5.0, 0, 14500),
        (TABLE, 250, 5.0, 1, 14499),
        (TABLE, 250, 4.0, 0, 14600),
        (TABLE, 250, 5.005, 0, 14499),
        (TABLE, 1, 1.0, 0, 64780),
        (TABLE, 100, 2.5, 3, 44947),
        (TABLE, 252, 10000.0, 999, 100),
        (Table::EgressDefaultRule, 253, 1.0, 0, 170),
        (Table::EgressDefaultRule, 253, 5.0, 2, 128),
        (Table::IngressDefaultRule, 253, 10000.0, 2, 10),
        (Table::IngressDefaultRule, 254, 0.0, 0, 90),
        (Table::IngressDefaultRule, 254, 1.0, 3, 77),
        (TABLE, 0, 0.0, 0, 64980),
        (TABLE, 0, -0.0, 0, 64980),
    ] {
        assert_eq!(rank(tier, priority, place, Effect::Drop).wanted(table), wanted, "{tier} {priority} {place}");
    }
}

#[test]
fn equal_places_share_a_value_if_they_do_the_same() {
    let mut priorities = Priorities::default();
    let mut put = |policy: usize, effect, logging| {
        let key = rule(policy, 0);
        let rank = Rank::new(250, 5.0, 0, effect, logging, &key);
        priorities.insert(&key, TABLE, rank).unwrap_or_else(|_| panic!("full"));
    };
    put(1, Effect::Allow, false);
    put(2, Effect::Allow, false);
    put(3, Effect::Drop, false);
    put(4, Effect::Pass, false);
    put(5, Effect::AllowL7, false);
    put(6, Effect::AllowL7, false);
    put(7, Effect::Allow, true);
    put(8, Effect::Reject, false);
    let value = |policy| priorities.get(&rule(policy, 0)).unwrap_or_default();
    assert_eq!(value(1), value(2));
    let order: Vec<u16> = [3, 8, 5, 6, 7, 1, 4].map(value).to_vec();
    assert!(order.windows(2).all(|pair| pair[0] > pair[1]), "{order:?}");
    check(&priorities);
}

#[test]
fn who_must_move_moves_by_one_and_who_need_not_stays() {
    let mut ids = Ids::default();
    for (policy, place) in [(1, 0), (2, 1), (3, 2), (4, 5)] {
        ids.claim_priority(&rule(policy, 0), TABLE, rank(250, 5.0, place, Effect::Allow)).unwrap_or_default();
    }
    assert_eq!(ids.take_moved(), BTreeSet::new());
    // Between 14500 and 14499 there is nothing: the one before moves up, those behind would be two.
    ids.claim_priority(&rule(5, 0), TABLE, rank(250, 5.0, 1, Effect::Drop)).unwrap_or_default();
    assert_eq!(ids.take_moved(), BTreeSet::from([Key::new(ObjectKind::NetworkPolicy, "acnp:1")]));
    let values = [1, 5, 2, 3, 4].map(|policy| ids.priorities.get(&rule(policy, 0)).unwrap_or_default());
    assert_eq!(values, [14501, 14500, 14499, 14498, 14495]);
    // Again as it is: nothing happens; gone: nobody moves.
    ids.claim_priority(&rule(5, 0), TABLE, rank(250, 5.0, 1, Effect::Drop)).unwrap_or_default();
    ids.release_priority(&rule(5, 0));
    assert_eq!(ids.take_moved(), BTreeSet::new());
    assert_eq!(ids.priorities.get(&rule(1, 0)), Some(14501));
}

#[test]
fn a_table_that_is_full_says_so() {
    let mut ids = Ids::default();
    let table = Table::EgressDefaultRule;
    for policy in 0..171_u16 {
        let rank = rank(253, 1.0 + f64::from(policy), 0, Effect::Drop);
        ids.claim_priority(&rule(policy.into(), 0), table, rank).unwrap_or_else(|problem| panic!("{problem:?}"));
    }
    check(&ids.priorities);
    let before = format!("{:?}", ids.priorities.tables);
    let full = ids.claim_priority(&rule(999, 0), table, rank(253, 50.5, 0, Effect::Drop));
    assert_eq!(full.map_err(|problem| problem.code), Err(Code::Limit));
    assert_eq!(format!("{:?}", ids.priorities.tables), before);
    ids.release_priority(&rule(3, 0));
    ids.claim_priority(&rule(999, 0), table, rank(253, 50.5, 0, Effect::Drop))
        .unwrap_or_else(|problem| panic!("{problem:?}"));
    check(&ids.priorities);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// 1,000 random inserts and removals: what agents write, mostly whole numbers of one tier.
    #[test]
    fn random_changes_keep_order_and_move_few(
        changes in prop::collection::vec((0u32..8, 1u32..60, 0u32..25, 0u8..5, any::<bool>()), 1000)
    ) {
        let mut priorities = Priorities::default();
        let mut moves = 0;
        for (at, (tier, priority, place, effect, remove)) in changes.iter().enumerate() {
            let effect = [Effect::Drop, Effect::Reject, Effect::AllowL7, Effect::Allow, Effect::Pass][usize::from(*effect)];
            let tier = if *tier < 4 { 250 } else { *tier * 30 };
            let key = rule(at, 0);
            let rank = Rank::new(tier, f64::from(*priority), *place, effect, at % 3 == 0, &key);
            moves += priorities.insert(&key, TABLE, rank).unwrap_or_else(|_| panic!("full")).len();
            if *remove && at > 2 {
                priorities.remove(&rule(at / 2, 0));
            }
            if at % 100 == 99 {
                check(&priorities);
            }
        }
        check(&priorities);
        prop_assert!(moves < 1000, "{} moves for 1000 changes", moves);
    }

    /// The baseline tier has 171 values only: whatever comes, they stay in order.
    #[test]
    fn a_narrow_table_keeps_order(changes in prop::collection::vec((1u32..30, 0u32..8, 0u8..4), 400)) {
        let mut priorities = Priorities::default();
        for (at, (priority, place, effect)) in changes.iter().enumerate() {
            let effect = [Effect::Drop, Effect::Reject, Effect::Allow, Effect::Pass][usize::from(*effect)];
            let key = rule(at, 0);
            let rank = Rank::new(253, f64::from(*priority), *place, effect, false, &key);
            let _ = priorities.insert(&key, Table::IngressDefaultRule, rank);
            if at > 60 {
                priorities.remove(&rule(at - 60, 0));
            }
            check(&priorities);
        }
    }
}
