//! What two parts differ in, against looking for each flow.

use super::{FlowId, differing};
use crate::part::Contribution;
use crate::{Ids, Key, Kind, Part};
use std::collections::BTreeSet;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, NoNames, parse_flow};

/// A part with flows of these addresses, in this order; of each the actions.
fn part(flows: &[(u8, u8)]) -> Part {
    let mut part = Part::new(&Key::new(Kind::NetworkPolicy, "np:default/p"), &Ids::default());
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
fn naive(one: &Part, other: &Part) -> Vec<FlowId> {
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
fn a_part_that_is_not_there_has_no_flows() {
    let some = part(&[(1, 0), (2, 0)]);
    assert_eq!(differing(None, Some(&some)).1.len(), 2);
    assert_eq!(differing(Some(&some), None).0.len(), 2);
    assert_eq!(differing(None, None), (Vec::new(), Vec::new()));
}
