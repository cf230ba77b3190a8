//! The document's policies, table by table.

use super::*;
use crate::testing::{document, normal};
use std::collections::BTreeSet;

const K8S: &str = "np:default/web-app-db-network-policy";
const ACNP: &str = "acnp:web-app-db-network-policy";
const L7: &str = "acnp:ingress-allow-http-request-to-api-v2";

/// Our numbers, and those of the document.
fn numbers(node_state: &NodeState) -> BTreeMap<u32, u32> {
    [
        (K8S, "AllowToDB", 2),
        (K8S, "AllowFromClient", 3),
        (ACNP, "DropFromAll", 4),
        (ACNP, "DropToAll", 5),
        (ACNP, "AllowFromClient", 6),
        (ACNP, "AllowToDB", 7),
        (L7, "AllowFromClientL7", 14),
    ]
    .into_iter()
    .map(|(policy, rule, theirs)| (number(node_state, policy, rule), theirs))
    .collect()
}

/// What a table has, with the document's numbers (difference 11).
fn ours(node_state: &NodeState, table: Table) -> BTreeSet<String> {
    let numbers = numbers(node_state);
    lines(node_state, table).iter().map(|line| renumber(line, &numbers)).collect()
}

/// What the document has, but for what it gets wrong.
fn theirs(node_state: &NodeState, table: Table, corrections: &[(&str, &str)]) -> BTreeSet<String> {
    let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
    let mut lines: BTreeSet<String> = document(node_state, table.name());
    lines.retain(|line| !line.contains("priority=0 ") && !line.contains("priority=64990,"));
    // Difference 10: what is denied leaves no connection.
    lines = lines.iter().map(|line| line.replace("actions=drop", "actions=ct_forget")).collect();
    // Difference 13: what denies counts first.
    let first = |line: &String| line.replace("priority=200,reg0=0x400/0x400", "priority=201,reg0=0x400/0x400");
    lines = lines.iter().map(first).collect();
    for (wrong, right) in corrections {
        let [wrong, right] = [wrong, right].map(|rest| normal(&facts, &format!("table={}, {rest}", table.name())));
        assert!(lines.remove(&wrong), "the document has no {wrong}");
        lines.insert(right);
    }
    lines
}

/// Difference 1: conj 4 has both clauses at one priority; conj 14 matches web's port, and sets its
/// own number. Difference 2: priorities.
const INGRESS: &[(&str, &str)] = &[
    ("priority=14500,reg1=0x7 actions=conjunction(14,2/3)", "priority=14600,reg1=0x25 actions=conjunction(14,2/3)"),
    (
        "priority=14500,ip,nw_src=10.10.0.26 actions=conjunction(14,1/3)",
        "priority=14600,ip,nw_src=10.10.0.26 actions=conjunction(14,1/3)",
    ),
    ("priority=14500,tcp,tp_dst=8080 actions=conjunction(14,3/3)", "priority=14600,tcp,tp_dst=8080 actions=conjunction(14,3/3)"),
    (
        "priority=14500,conj_id=14,ip actions=set_field:0xd->reg6,ct(commit,table=IngressMetric,zone=65520,exec(set_field:0xd/0xffffffff->ct_label,set_field:0x80/0x80->ct_mark,set_field:0x20000000000000000/0xfff0000000000000000->ct_label))",
        // The VLAN is an id, too.
        "priority=14600,conj_id=14,ip actions=set_field:0xe->reg6,ct(commit,table=IngressMetric,zone=65520,exec(set_field:0xe/0xffffffff->ct_label,set_field:0x80/0x80->ct_mark,set_field:0x10000000000000000/0xfff0000000000000000->ct_label))",
    ),
    (
        "priority=14600,ip,nw_src=10.10.0.26 actions=conjunction(6,1/3)",
        "priority=14500,ip,nw_src=10.10.0.26 actions=conjunction(6,1/3)",
    ),
    ("priority=14600,reg1=0x25 actions=conjunction(6,2/3)", "priority=14500,reg1=0x25 actions=conjunction(6,2/3)"),
    ("priority=14600,tcp,tp_dst=80 actions=conjunction(6,3/3)", "priority=14500,tcp,tp_dst=80 actions=conjunction(6,3/3)"),
    (
        "priority=14600,conj_id=6,ip actions=set_field:0x6->reg6,ct(commit,table=IngressMetric,zone=65520,exec(set_field:0x6/0xffffffff->ct_label))",
        "priority=14500,conj_id=6,ip actions=set_field:0x6->reg6,ct(commit,table=IngressMetric,zone=65520,exec(set_field:0x6/0xffffffff->ct_label))",
    ),
    ("priority=14600,ip actions=conjunction(4,1/2)", "priority=14499,ip actions=conjunction(4,1/2)"),
    ("priority=14599,reg1=0x25 actions=conjunction(4,2/2)", "priority=14499,reg1=0x25 actions=conjunction(4,2/2)"),
    (
        "priority=14599,conj_id=4 actions=set_field:0x4->reg3,set_field:0x400/0x400->reg0,goto_table:IngressMetric",
        "priority=14499,conj_id=4 actions=set_field:0x4->reg3,set_field:0x400/0x400->reg0,goto_table:IngressMetric",
    ),
];

#[test]
fn policies_of_the_document_are_the_documents() {
    let node_state = document_node_state(false);
    for (table, corrections) in [
        (Table::AntreaPolicyEgressRule, &[][..]),
        (Table::EgressRule, &[]),
        (Table::EgressDefaultRule, &[]),
        (Table::EgressMetric, &[]),
        (Table::AntreaPolicyIngressRule, INGRESS),
        (Table::IngressRule, &[]),
        (Table::IngressDefaultRule, &[]),
    ] {
        assert_eq!(ours(&node_state, table), theirs(&node_state, table, corrections), "{table:?}");
    }
    // Counters of the L7 rule are not listed there, those of every other rule are.
    let mut metric = ours(&node_state, Table::IngressMetric);
    let l7: Vec<String> = metric.iter().filter(|line| line.contains("ct_label=0xe/")).cloned().collect();
    assert_eq!(l7.len(), 2);
    l7.iter().for_each(|line| assert!(metric.remove(line)));
    assert_eq!(metric, theirs(&node_state, Table::IngressMetric, &[]));
    assert!(node_state.degraded().is_empty(), "{:?}", node_state.degraded());
    assert_eq!(node_state.store().sizes().1, 0, "nobody is told, so there is no group");
}

/// The same line for IPv6; None: it is for both.
fn twin(line: &str) -> Option<String> {
    let (head, actions) = line.split_once(" actions=")?;
    let mut words: Vec<String> = head.split(',').map(str::to_owned).collect();
    let mut is_v4 = false;
    for word in &mut words {
        let other = match word.as_str() {
            "ip" => "ipv6".to_owned(),
            "tcp" => "tcp6".to_owned(),
            other => match other.split_once('=') {
                Some(("nw_src", address)) => format!("ipv6_src={}", six(address)),
                Some(("nw_dst", address)) => format!("ipv6_dst={}", six(address)),
                _ => continue,
            },
        };
        is_v4 = true;
        *word = other;
    }
    is_v4.then(|| format!("{} actions={}", words.join(","), actions.replace("zone=65520", "zone=65510")))
}

#[test]
fn each_has_its_twin_for_ipv6() {
    let (single, dual) = (document_node_state(false), document_node_state(true));
    for table in [
        Table::AntreaPolicyEgressRule,
        Table::EgressRule,
        Table::EgressDefaultRule,
        Table::EgressMetric,
        Table::AntreaPolicyIngressRule,
        Table::IngressRule,
        Table::IngressDefaultRule,
        Table::IngressMetric,
    ] {
        let mut wanted = ours(&single, table);
        let facts = dual.facts().unwrap_or_else(|| panic!("no Node"));
        let twins: Vec<String> = wanted.iter().filter_map(|line| twin(line)).map(|line| normal(&facts, &line)).collect();
        wanted.extend(twins);
        assert_eq!(ours(&dual, table), wanted, "{table:?}");
    }
    assert!(lines(&dual, Table::EgressRule).iter().any(|line| line.contains("ipv6_src=fd00:10:10::18")));
}

#[test]
fn each_flow_of_a_policy_names_its_rules() {
    let node_state = document_node_state(true);
    let own: BTreeSet<u32> = node_state.ids().rules_of(ACNP).iter().filter_map(|key| node_state.ids().rule(key)).collect();
    let part = node_state.store().compiled(&crate::Key::new(crate::ObjectKind::NetworkPolicy, ACNP)).unwrap_or_else(|| panic!("no flows"));
    let mut named = BTreeSet::new();
    for flow in part.flows() {
        let rules = crate::rules_of(&flow.flow);
        assert!(!rules.is_empty() && rules.iter().all(|rule| own.contains(rule)), "{:?}, of {rules:?}", flow.flow);
        named.extend(rules);
    }
    assert_eq!((named.len(), named), (4, own));
}
