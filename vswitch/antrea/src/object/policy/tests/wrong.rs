//! What is wrong, off or not there never lets pass what the intended policies deny, in whatever way
//! it is wrong.

use super::random::{policy, world};
use super::*;
use crate::testing::line;
use crate::{Key, ObjectKind, Write};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use vswitch_flow::classifier::reference::Reference;
use vswitch_flow::classifier::{Clause, Entry};
use vswitch_flow::spec::Update;
use vswitch_flow::{Action, Field, FlowKey};

const PODS: [(&str, u32); 3] = [("10.10.0.24", 0x25), ("10.10.0.25", 0x26), ("10.10.0.26", 0x24)];
const OTHERS: [&str; 3] = ["10.10.1.1", "10.20.0.1", "192.0.2.1"];

/// What a flow does, as its line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Miss,
    Passes,
    Denies,
    Allows,
}

type Tables = BTreeMap<u8, Reference<Does>>;

fn tables(node_state: &NodeState) -> Tables {
    let mut tables = Tables::new();
    let facts = node_state.facts().unwrap();
    for update in node_state.store().everything() {
        let text = if matches!(update, Update::AddFlow(_)) { line(&facts, &update) } else { continue };
        let Update::AddFlow(flow) = update else { continue };
        let clause = |action: &Action| match action {
            Action::Conjunction { id, clause, clauses } => Some(Clause { id: *id, clause: *clause, clauses: *clauses }),
            _ => None,
        };
        let clauses = flow.actions.iter().filter_map(clause).collect();
        let passes = ["goto_table:IngressRule", "goto_table:EgressRule"].iter().any(|to| text.ends_with(to));
        let data = match () {
            () if flow.priority == 0 => Does::Miss,
            () if text.contains("ct_forget") || text.contains("0x400/0x400->reg0") => Does::Denies,
            () if text.contains("ct(commit") => Does::Allows,
            () if passes || text.contains("->reg0,group:") => Does::Passes,
            () => Does::Allows,
        };
        tables.entry(flow.table).or_default().insert(Entry { priority: flow.priority, matching: flow.matching, clauses, data });
    }
    tables
}

fn key(from: Ipv4Addr, to: Ipv4Addr, reg1: u32, port: u16) -> FlowKey {
    let mut key = FlowKey::default();
    key.set(Field::EthType, 0x800);
    key.set(Field::NwProto, 6);
    key.set(Field::NwSrc, u32::from(from).into());
    key.set(Field::NwDst, u32::from(to).into());
    key.set(Field::TpDst, port.into());
    key.set(Field::TpSrc, 40000);
    key.set(Field::Reg1, reg1.into());
    key.set(Field::CtState, 0x21);
    key
}

/// Whether a first packet is let through in a direction.
fn is_let(tables: &Tables, is_egress: bool, key: &FlowKey) -> bool {
    let path = if is_egress {
        [Table::AntreaPolicyEgressRule, Table::EgressRule, Table::EgressDefaultRule]
    } else {
        [Table::AntreaPolicyIngressRule, Table::IngressRule, Table::IngressDefaultRule]
    };
    for table in path {
        let Some(found) = tables.get(&table.number()).and_then(|table| table.lookup(key, None)) else { continue };
        match found.entry.data {
            Does::Miss | Does::Passes => {}
            Does::Denies => return false,
            Does::Allows => return true,
        }
    }
    true
}

/// All packets between all ends: source, destination, port, direction, the Pod that is judged.
fn packets() -> Vec<(FlowKey, bool, usize)> {
    let ends: Vec<(Ipv4Addr, u32, Option<usize>)> = PODS
        .iter()
        .enumerate()
        .map(|(at, (text, port))| (text.parse().unwrap(), *port, Some(at)))
        .chain(OTHERS.iter().map(|text| (text.parse().unwrap(), 2, None)))
        .collect();
    let mut packets = Vec::new();
    for (from, _, source) in &ends {
        for (to, reg1, destination) in &ends {
            for port in [80, 81, 82, 90, 91] {
                let key = key(*from, *to, *reg1, port);
                packets.extend(source.map(|pod| (key.clone(), true, pod)));
                packets.extend(destination.map(|pod| (key.clone(), false, pod)));
            }
        }
    }
    packets
}

/// Makes a policy wrong, in one of many ways.
fn spoil(policy: &mut v1::NetworkPolicy, how: u8, at: usize) {
    let places = policy.rules.len();
    let spare = v1::Rule { direction: 1, id: "spare".to_owned(), ..v1::Rule::default() };
    let rule = &mut policy.rules[at % places];
    match how % 14 {
        0 => rule.direction = 0,
        1 => rule.direction = 77,
        2 => rule.action = 77,
        3 => rule.ports.push(tcp(70_000)),
        4 => rule.ports.push(v1::PortMatch { protocol: 77, ..v1::PortMatch::default() }),
        5 => rule.peer.get_or_insert_default().blocks.push(v1::IpBlock { cidr: "10.0.0.1/8".to_owned(), ..v1::IpBlock::default() }),
        6 => rule.id = "a".repeat(300),
        7 => rule.log_label = "a".repeat(300),
        8 => policy.tier = 255,
        9 => policy.kind = 0,
        10 => policy.priority = -3.0,
        11 => policy.rules.push(v1::Rule { id: policy.rules[at % places].id.clone(), ..spare }),
        12 => policy.name = policy.name.replace("np:", "np2:").replace("acnp:", "acnp/"),
        _ => policy.tier = if policy.kind() == v1::PolicyKind::K8s { 3 } else { 256 },
    }
}

fn of(object: Object) -> v1::NetworkPolicy {
    match object {
        Object::NetworkPolicy(policy) => policy,
        other => panic!("{other:?}"),
    }
}

fn put(node_state: &mut NodeState, objects: Vec<Object>) -> Vec<v1::ObjectStatus> {
    let plan = node_state.plan(Write { objects, valid_only: true, ..Write::default() });
    assert!(plan.result.applied);
    let statuses = plan.result.statuses.clone();
    node_state.settle(plan);
    statuses
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_wrong_is_never_weaker(
        forms in prop::collection::vec(any::<u32>(), 5),
        spoiled in prop::collection::vec(prop::option::of((any::<u8>(), 0_usize..4)), 5),
        (missing, bad_group, with_before) in (prop::option::of(0_usize..3), any::<bool>(), any::<bool>()),
        one_by_one: bool,
    ) {
        let right: Vec<v1::NetworkPolicy> = forms.iter().enumerate().map(|(at, form)| of(policy(at, *form))).collect();
        let ideal = node_state(&dual_node(), world().into_iter().chain(right.iter().cloned().map(object)).collect());
        let mut objects = world();
        if let Some(missing) = missing {
            objects.retain(|other| crate::Object::key_of(other) != Key::new(ObjectKind::AddressGroup, &format!("g{missing}")));
        }
        if bad_group {
            // Members of before, some of them written wrong.
            objects.retain(|other| crate::Object::key_of(other) != Key::new(ObjectKind::AddressGroup, "g1"));
            objects.push(group("g1", &["10.10.1.1", "10.10.0.25/33", "web"]));
        }
        let mut written = Vec::new();
        for (policy, how) in right.iter().zip(&spoiled) {
            let mut policy = policy.clone();
            if let Some((how, at)) = how {
                spoil(&mut policy, *how, *at);
            }
            written.push(object(policy));
        }
        let mut real = node_state(&dual_node(), Vec::new());
        if with_before {
            // An older form: it allows some.
            let before = written.iter().filter_map(|policy| {
                let name = of(policy.clone()).name;
                let rules = vec![rule("in", ALLOW, from("g0"), vec![tcp(80)])];
                if name.starts_with("np:") { Some(k8s(&name["np:default/".len()..], rules)) } else { None }
            });
            let before: Vec<Object> = before.map(|policy| object(v1::NetworkPolicy { applied_to: vec!["a0".to_owned()], ..policy })).collect();
            put(&mut real, world());
            put(&mut real, before);
        }
        let all: Vec<Object> = objects.into_iter().chain(written.iter().cloned()).collect();
        if one_by_one {
            all.into_iter().rev().for_each(|one| drop(put(&mut real, vec![one])));
        } else {
            put(&mut real, all);
        }
        let told = ideal.degraded().clone();
        let (ideal, is) = (tables(&ideal), tables(&real));
        // Policies whose older form stays are not what is intended now.
        let compare = !with_before;
        let touched = missing.is_some() || bad_group || spoiled.iter().any(Option::is_some);
        for (key, is_egress, pod) in packets() {
            let (wanted, found) = (is_let(&ideal, is_egress, &key), is_let(&is, is_egress, &key));
            prop_assert!(!compare || wanted || !found, "open: {:?} egress {} Pod {}", key, is_egress, pod);
            prop_assert!(touched || !compare || wanted == found, "closed: {:?} egress {} Pod {}", key, is_egress, pod);
            // No policy names the client: it is as it was.
            prop_assert!(pod != 2 || found, "the client is cut: {:?} egress {}", key, is_egress);
        }
        // What is told: refused by name, and in force. A retry of the same changes nothing, the
        // right ones replace all of it.
        let again = real.plan(Write { objects: written, valid_only: true, ..Write::default() });
        prop_assert!(again.updates.is_empty(), "{:?}", again.updates);
        let refused = again.result.statuses.iter().filter(|status| status.outcome() == v1::ObjectOutcome::Refused).count();
        prop_assert_eq!(refused, spoiled.iter().flatten().count(), "{:?}", again.result.statuses);
        real.settle(again);
        let remove = real.desired().of(ObjectKind::NetworkPolicy).map(|(key, _)| key.clone()).collect();
        let plan = real.plan(Write { remove, ..Write::default() });
        real.settle(plan);
        put(&mut real, world().into_iter().chain(right.into_iter().map(object)).collect());
        prop_assert_eq!(real.degraded(), &told);
        let is = tables(&real);
        for (key, is_egress, _) in packets() {
            prop_assert_eq!(is_let(&ideal, is_egress, &key), is_let(&is, is_egress, &key), "right again: {:?}", key);
        }
    }
}
