//! Any way to a state ends in the same flows, and what is taken back leaves nothing.

use super::*;
use crate::testing::dump;
use crate::{Key, ObjectKind, Write};
use proptest::prelude::*;

const ADDRESSES: [&str; 5] = ["10.10.0.26", "10.10.1.1", "fd00:10:10::1a", "192.0.2.1", "fd00:10:11::1"];
const PODS: [&str; 3] = ["client", "web", "db"];

/// What is done: an object is written in some form, or goes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Pod(usize),
    NoPod(usize),
    Group(usize, u8),
    Applied(usize, u8),
    Policy(usize, u32),
    NoPolicy(usize),
}

/// The Pods and groups that random policies name.
pub(super) fn world() -> Vec<Object> {
    let mut objects: Vec<Object> = PODS.map(|name| a_pod(name, true)).to_vec();
    objects.extend([
        group("g0", &["10.10.0.26", "192.0.2.1"]),
        group("g1", &["10.10.1.1", "10.10.0.25", "10.10.0.24"]),
        group_of_pods("g2", &["client"]),
        applied("a0", &["web"]),
        applied("a1", &["db", "web"]),
    ]);
    objects
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0usize..3).prop_map(Step::Pod),
        (0usize..3).prop_map(Step::NoPod),
        (0usize..3, any::<u8>()).prop_map(|(at, form)| Step::Group(at, form)),
        (0usize..2, any::<u8>()).prop_map(|(at, form)| Step::Applied(at, form)),
        (0usize..5, any::<u32>()).prop_map(|(at, form)| Step::Policy(at, form)),
        (0usize..5).prop_map(Step::NoPolicy),
    ]
}

fn chosen<'a>(all: &[&'a str], form: u8) -> Vec<&'a str> {
    all.iter().zip(0..).filter(|(_, bit)| form & (1 << bit) != 0).map(|(one, _)| *one).collect()
}

/// Policies 0 and 1 are of K8s, the others of Antrea, so far from each other that none has to move.
pub(super) fn policy(at: usize, form: u32) -> Object {
    let bits = |shift: u32, count: u32| form >> shift & ((1 << count) - 1);
    let rules = (0..1 + bits(0, 2)).map(|place| {
        let peer = match bits(2 + place, 2) {
            0 => None,
            1 => from("g0"),
            2 => from("g1"),
            _ => Some(v1::RulePeer {
                address_groups: vec!["g1".to_owned(), "g2".to_owned()],
                blocks: vec![v1::IpBlock { cidr: "10.0.0.0/8".to_owned(), except_cidrs: vec!["10.10.0.0/16".to_owned()] }],
                ..v1::RulePeer::default()
            }),
        };
        let ports = if bits(6 + place, 1) == 0 { Vec::new() } else { vec![tcp(80), v1::PortMatch { end_port: 90, ..tcp(82) }] };
        let action = if at < 2 { 1 } else { 1 + i32::try_from(bits(8 + 2 * place, 2)).unwrap_or(0) };
        let mut rule = rule(if bits(12 + place, 1) == 0 { "in" } else { "egress" }, ALLOW, peer, ports);
        (rule.id, rule.action, rule.logging) = (format!("rule{place}"), action, bits(16 + place, 1) == 1);
        if bits(20 + place, 1) == 1 {
            rule.applied_to = vec!["a1".to_owned()];
        }
        rule
    });
    let rules = rules.collect();
    let mut policy = if at < 2 { k8s(&at.to_string(), rules) } else { acnp(&at.to_string(), 5.0 + at as f64, rules) };
    policy.applied_to = vec!["a0".to_owned()];
    if at < 2 {
        (policy.isolates_egress, policy.log_isolation) = (bits(24, 1) == 1, bits(25, 1) == 1);
    }
    object(policy)
}

fn policy_key(at: usize) -> Key {
    let name = if at < 2 { format!("np:default/{at}") } else { format!("acnp:{at}") };
    Key::new(ObjectKind::NetworkPolicy, &name)
}

fn write(step: Step) -> Write {
    let one = |object| Write { objects: vec![object], ..Write::default() };
    let gone = |key| Write { remove: vec![key], ..Write::default() };
    match step {
        Step::Pod(at) => one(a_pod(PODS[at], true)),
        Step::NoPod(at) => gone(Key::new(ObjectKind::Pod, &format!("default/{}", PODS[at]))),
        Step::Group(at, form) => one(match at {
            2 => group_of_pods("g2", &chosen(&PODS, form)),
            _ => group(&format!("g{at}"), &chosen(&ADDRESSES, form)),
        }),
        Step::Applied(at, form) => one(applied(&format!("a{at}"), &chosen(&PODS, form))),
        Step::Policy(at, form) => one(policy(at, form)),
        Step::NoPolicy(at) => gone(policy_key(at)),
    }
}

fn groups() -> Vec<Object> {
    vec![group("g0", &[]), group("g1", &[]), group_of_pods("g2", &[]), applied("a0", &[]), applied("a1", &[])]
}

/// Its flows, with numbers that depend on names alone.
fn named(node_state: &NodeState) -> BTreeMap<String, Vec<String>> {
    let mut numbers = BTreeMap::new();
    for at in 0..5 {
        for place in 0..4 {
            let key = RuleKey { policy: policy_key(at).name, rule: format!("rule{place}").into() };
            if let Some(number) = node_state.ids().rule(&key) {
                numbers.insert(number, 1_000_000 + u32::try_from(at * 10 + place).unwrap_or(0));
            }
        }
    }
    let group = |line: &str| -> String {
        // Groups behind logs have one number for each table, in no order.
        let Some((front, back)) = line.split_once("group:") else { return line.to_owned() };
        format!("{front}group:N{}", back.trim_start_matches(|c: char| c.is_ascii_digit()))
    };
    // Clauses of a flow are in order of numbers.
    let clauses = |line: &str| -> String {
        let Some((head, actions)) = line.split_once(" actions=conjunction(") else { return line.to_owned() };
        let mut actions: Vec<&str> = actions.split(",conjunction(").collect();
        actions.sort_unstable();
        format!("{head} actions=conjunction({}", actions.join(",conjunction("))
    };
    let of = |lines: std::collections::BTreeSet<String>| {
        let mut lines: Vec<String> = lines.iter().map(|line| clauses(&group(&renumber(line, &numbers)))).collect();
        lines.sort();
        lines
    };
    // Others have numbers of ports and meters, which look alike.
    let policies = dump(node_state).into_iter().filter(|(table, _)| table.ends_with("Rule") || table.ends_with("Metric"));
    policies.map(|(table, lines)| (table, of(lines))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn increments_end_where_one_write_does(steps in prop::collection::vec((step(), any::<bool>()), 1..40)) {
        let mut node_state = node_state(&dual_node(), groups());
        for (step, is_kept) in steps {
            let before = (dump(&node_state), format!("{:?}", node_state.ids().priorities));
            let plan = node_state.plan(write(step));
            prop_assert!(plan.result.applied, "{:?} {:#?}", step, plan.result.statuses);
            if is_kept {
                node_state.settle(plan);
            } else {
                node_state.revert(plan);
                prop_assert_eq!((dump(&node_state), format!("{:?}", node_state.ids().priorities)), before);
            }
        }
        let all = node_state.desired().all().map(|(_, entry)| entry.message.clone()).collect();
        let at_once = crate::testing::node_state(&dual_node(), all);
        prop_assert_eq!(named(&node_state), named(&at_once));
    }
}
