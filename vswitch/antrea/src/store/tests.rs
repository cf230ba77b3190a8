//! What two parts differ in, against looking for each flow.

use super::{FlowId, Store, differing};
use crate::contribution::Contribution;
use crate::{CompiledObject, Ids, Key, ObjectKind};
use std::collections::BTreeSet;
use std::sync::Arc;
use vswitch_flow::action::limits::MAX_CLAUSES;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, NoNames, parse_flow};

/// A compiled object with flows of these addresses, in this order; of each the actions.
fn part(flows: &[(u8, u8)]) -> CompiledObject {
    let mut part = CompiledObject::new(&Key::new(ObjectKind::NetworkPolicy, "np:default/p"), &Ids::default());
    for (address, action) in flows {
        let line = format!("table=1,priority=200,ip,nw_src=10.0.0.{address} actions=goto_table:{}", action + 2);
        let parsed = parse_flow(&line, FlowCommand::Add, &NoNames).map(|parsed| parsed.value);
        let Ok(Update::AddFlow(flow)) = parsed else { unreachable!("{parsed:?}") };
        part.add(flow, "test");
    }
    part
}

fn told(flows: &[&Contribution]) -> Vec<FlowId> {
    let mut ids: Vec<FlowId> = flows.iter().map(|flow| flow.id.clone()).collect();
    ids.sort_by_key(|id| format!("{id:?}"));
    ids
}

/// Every flow of one part is looked for in the other.
fn naive(one: &CompiledObject, other: &CompiledObject) -> Vec<FlowId> {
    let is_there = |flow: &&Contribution| other.flow(&flow.id).is_some_and(|same| *same == flow.flow);
    told(&one.flows().iter().filter(|flow| !is_there(flow)).collect::<Vec<_>>())
}

#[test]
fn parts_in_any_order_differ_as_when_each_flow_is_looked_for() {
    let mut state = 1_u32;
    let mut chance = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u8::try_from((state >> 16) % below).unwrap_or_default()
    };
    for _ in 0..2000 {
        let mut flows = || -> Vec<(u8, u8)> {
            let mut known = BTreeSet::new();
            let ordered = chance(2) == 0;
            let mut some: Vec<(u8, u8)> = (0..chance(9)).map(|_| (chance(10), chance(2))).collect();
            some.retain(|(address, _)| known.insert(*address));
            if ordered {
                some.sort_unstable();
            }
            some
        };
        let (old, new) = (part(&flows()), part(&flows()));
        let (gone, come) = differing(Some(&old), Some(&new));
        assert_eq!(told(&gone), naive(&old, &new), "{:?} to {:?}", old.flows(), new.flows());
        assert_eq!(told(&come), naive(&new, &old), "{:?} to {:?}", old.flows(), new.flows());
    }
}

#[test]
fn a_flow_holds_as_many_clauses_as_the_pipeline_takes_and_who_brings_more_is_named() {
    let clauses = |from: usize, count: usize| {
        let clauses: Vec<String> = (from..from + count).map(|id| format!("conjunction({id},2/2)")).collect();
        let line = format!("table=1,priority=200,tcp,tp_dst=80 actions={}", clauses.join(","));
        let parsed = parse_flow(&line, FlowCommand::Add, &NoNames).map(|parsed| parsed.value);
        let Ok(Update::AddFlow(flow)) = parsed else { unreachable!("{:?}", parsed.err()) };
        let mut part = CompiledObject::new(&Key::new(ObjectKind::NetworkPolicy, "np:default/p"), &Ids::default());
        part.add(flow, "test");
        Some(Arc::new(part))
    };
    let key = |name: &str| Key::new(ObjectKind::NetworkPolicy, name);
    let mut store = Store::default();
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        store.replace(&key(name), clauses(2 + at * 100_000, 20_000));
        assert!(
            matches!(&store.plan().expect("it fits").0[..], [Update::AddFlow(flow)] if flow.actions.len() == (at + 1) * 20_000)
        );
        store.settle();
    }
    store.replace(&key("d"), clauses(1_000_000, MAX_CLAUSES - 60_000));
    assert!(store.plan().is_ok(), "to the last one");
    let a = store.replace(&key("a"), clauses(2, 20_001));
    let Err(conflicts) = store.plan() else { panic!("one more fits") };
    let told: Vec<_> = conflicts.iter().map(|one| (one.owners.clone(), one.clauses)).collect();
    assert_eq!(told, [(vec![key("a"), key("d")], Some(MAX_CLAUSES + 1))], "those who bring it");
    store.replace(&key("a"), a);
    assert!(store.plan().is_ok(), "without it");
}

#[test]
fn a_part_that_is_not_there_has_no_flows() {
    let some = part(&[(1, 0), (2, 0)]);
    assert_eq!(differing(None, Some(&some)).1.len(), 2);
    assert_eq!(differing(Some(&some), None).0.len(), 2);
    assert_eq!(differing(None, None), (Vec::new(), Vec::new()));
}

#[test]
fn bytes_are_counted_as_they_come_and_go() {
    let (one, other) =
        (Key::new(ObjectKind::NetworkPolicy, "np:default/p"), Key::new(ObjectKind::NetworkPolicy, "np:default/q"));
    let mut store = Store::default();
    let written = |store: &Store| store.contributions().map(|(_, flow)| flow.memory()).sum::<usize>();
    for flows in [&[(1, 1), (2, 2)][..], &[(1, 1)], &[(2, 1), (1, 1), (3, 9)], &[(3, 8)], &[]] {
        store.replace(&one, Some(Arc::new(part(flows))));
        store.replace(&other, Some(Arc::new(part(&[(9, 9), (1, 1)]))));
        assert_eq!(store.written, written(&store), "{flows:?}");
        assert!(store.memory() > store.written && store.written > 200);
    }
    store.replace(&one, None);
    store.replace(&other, None);
    assert_eq!(store.written, 0);
}
