//! The classifier at size: 5,000 conjunctive rules of 10 sources, 10 ports and 2 services each,
//! against what the rules say.

#[path = "../examples/classify/policies.rs"]
mod policies;

use policies::{Kind, Mix, Numbers, Rule, address, entries, packet_of, rules};
use vswitch_flow::classifier::Classifier;
use vswitch_flow::{Field, FlowKey, FlowMask};

fn load(kind: Kind, expected: usize) -> (Vec<Rule>, Classifier<u32>) {
    let rules = rules(kind);
    let mut table = Classifier::default();
    for entry in entries(&rules) {
        assert!(table.insert(entry).is_none(), "flows of the set are different");
    }
    assert_eq!(table.len(), expected);
    (rules, table)
}

/// The priority of the rule that allows a packet.
fn find(rules: &[Rule], table: &Classifier<u32>, key: &FlowKey, used: &mut FlowMask) -> Option<u16> {
    let found = table.lookup(key, used, None)?;
    assert_eq!(found.entry.data, found.conj_id, "a rule's own flow");
    Some(rules[found.conj_id as usize - 1].priority)
}

/// The priority of the best rule that allows a packet: found from the rules, not from their flows.
fn verdict(rules: &[Rule], key: &FlowKey) -> Option<u16> {
    let allows = |rule: &&Rule| {
        rule.sources.iter().any(|s| address(*s) == key.get(Field::NwSrc))
            && rule.ports.iter().any(|p| u128::from(*p) + 1 == key.get(Field::Reg1))
            && rule.services.iter().any(|s| u128::from(*s) == key.get(Field::TpDst))
    };
    rules.iter().filter(allows).map(|rule| rule.priority).max()
}

fn check(rules: &[Rule], table: &Classifier<u32>) {
    let mut numbers = Numbers(11);
    for mix in [Mix::Allowed, Mix::Any, Mix::Stranger, Mix::OtherService] {
        let mut allowed = 0;
        for _ in 0..500 {
            let key = packet_of(mix, rules, &mut numbers);
            let mut used = FlowMask::default();
            let found = find(rules, table, &key, &mut used);
            assert_eq!(found, verdict(rules, &key), "{mix:?}: {key:?}");
            allowed += u32::from(found.is_some());
            for field in [Field::NwDst, Field::TpSrc, Field::ConjId, Field::InPort] {
                assert_eq!(used.get(field), 0, "{mix:?} used {}, which no flow matches", field.name());
            }
        }
        match mix {
            Mix::Allowed => assert_eq!(allowed, 500),
            Mix::Any => assert!(allowed < 500, "some are not"),
            Mix::Stranger | Mix::OtherService => assert_eq!(allowed, 0),
        }
    }
}

#[test]
fn rules_of_own_priorities_decide_as_written() {
    let (rules, table) = load(Kind::Own, 115_000);
    check(&rules, &table);
    let mut used = FlowMask::default();
    find(&rules, &table, &policies::packet(0xac10_0001, 5, 80), &mut used);
    assert_eq!(used.get(Field::NwSrc), 0x8000_0000, "the first bit tells that no rule names this source");
}

#[test]
fn rules_that_share_flows_decide_as_written() {
    let (rules, table) = load(Kind::Shared, 1_000 + 100 + 51 + 5_000);
    check(&rules, &table);
}

#[test]
fn changes_of_a_clone_leave_the_original_alone() {
    let (rules, table) = load(Kind::Own, 115_000);
    let mut changed = table.clone();
    // Every rule loses its flow on port 80, and half of them their conj_id flow.
    for entry in entries(&rules) {
        if entry.matching.get(Field::TpDst).0 == 80 || entry.data % 2 == 1 {
            assert!(changed.remove(&entry.matching, entry.priority).is_some());
        }
    }
    assert_eq!(changed.len(), 115_000 - 5_000 - 2_500);
    check(&rules, &table);
    let mut numbers = Numbers(17);
    for _ in 0..500 {
        let key = packet_of(Mix::Allowed, &rules, &mut numbers);
        assert!(changed.lookup(&key, &mut FlowMask::default(), None).is_none(), "nothing allows port 80 now: {key:?}");
    }
    for entry in entries(&rules) {
        changed.insert(entry);
    }
    check(&rules, &changed);
}
