//! What the document's Services write is what the document has, but for the differences that
//! docs/antrea.md lists.

use super::{documents, id};
use crate::NodeState;
use crate::testing::{document, document_node, dump_of, normal, node_state};
use std::collections::BTreeSet;
use vswitch_flow::spec::{GroupSpec, Update};
use vswitch_flow::text::parse_group;

/// The document's groups: its id, whose it is, of this Node's endpoints only.
const GROUPS: [(u32, &str, bool); 8] = [
    (9, "sample-clusterip-no-ep", false),
    (10, "sample-clusterip", false),
    (11, "sample-service-session-affinity", false),
    (12, "sample-nodeport", false),
    (14, "sample-loadbalancer", false),
    (16, "sample-service-externalip", false),
    (17, "sample-service-etp-local", false),
    (18, "sample-service-etp-local", true),
];

fn ours(node_state: &NodeState, group: u32) -> u32 {
    let known = GROUPS.iter().find(|(document, ..)| *document == group);
    let (_, service, local) = known.unwrap_or_else(|| panic!("the document's group {group} is nobody's"));
    id(node_state, service, *local)
}

/// A line of the document's ServiceLB as it is here.
fn service_lb(node_state: &NodeState, line: &str) -> String {
    let mut line = line.to_owned();
    // Differences 3, 11: reg7 is the group's id, and ids are others.
    if let (Some((_, group)), Some(at)) = (line.rsplit_once("group:"), line.rfind(",set_field:0x")) {
        let id = ours(node_state, group.parse().unwrap());
        line = format!("{},set_field:{id:#x}->reg7,group:{id}", &line[..at]);
    }
    let affinity = ours(node_state, 11);
    line = line.replace("cookie=0x203000000000a", &format!("cookie={:#x}", 0x1_0300_0000_0000 + u64::from(affinity)));
    // Difference 14: what is learned has the group.
    line = line.replace("load:0x1->NXM_NX_REG0[9])", "load:0x1->NXM_NX_REG0[9],load:NXM_NX_REG7[]->NXM_NX_REG7[])");
    // Difference 5: reg4[21] for LoadBalancer and ExternalIP, too.
    for address in ["192.168.77.150", "192.168.77.151", "192.168.77.200"] {
        if line.contains(address) {
            line = line.replace("0x70000->reg4,", "0x70000->reg4,set_field:0x200000/0x200000->reg4,");
        }
    }
    line
}

fn without_misses(lines: BTreeSet<String>) -> BTreeSet<String> {
    lines.into_iter().filter(|line| !line.contains("priority=0 ")).collect()
}

#[test]
fn service_lb_is_the_documents_with_restoring_flows_beside_it() {
    let node_state = node_state(&document_node(), documents());
    let facts = node_state.facts().unwrap();
    let document = without_misses(document(&node_state, "ServiceLB"));
    let mut wanted: BTreeSet<String> =
        document.iter().map(|line| normal(&facts, &service_lb(&node_state, line))).collect();
    assert_eq!(wanted.len(), 9, "the document's flows 1 to 9");
    // Difference 6: beside each choice a flow for repeated first packets, with its marks, without
    // its group.
    let beside = |line: &String| {
        let (head, actions) = line.split_once(" actions=").filter(|_| line.contains(",group:"))?;
        let head = head.replace("reg4=0x10000/", "reg4=0x40000/").replace("reg4=0x90000/", "reg4=0xc0000/");
        let head = head.replace("reg4=0x10010000/", "reg4=0x10040000/");
        let mut actions: Vec<&str> = actions.split(',').collect();
        actions.retain(|a| !a.starts_with("group:") && !a.ends_with("/0x70000->reg4") && !a.ends_with("->reg0"));
        Some(normal(&facts, &format!("{} actions={}", head.trim(), actions.join(","))))
    };
    let restoring: Vec<String> = wanted.iter().filter_map(beside).collect();
    assert_eq!(restoring.len(), 8);
    wanted.extend(restoring);
    // The Node's own, once for all.
    let own = |line: &String| line.contains("priority=100,");
    let there: BTreeSet<String> =
        without_misses(dump_of(&node_state, &["ServiceLB"])).into_iter().filter(|line| !own(line)).collect();
    assert_eq!(there, wanted);
}

#[test]
fn endpoint_dnat_is_the_documents() {
    let node_state = node_state(&document_node(), documents());
    let of_endpoints = |lines: BTreeSet<String>| -> BTreeSet<String> {
        lines.into_iter().filter(|line| line.contains("nat(dst=")).collect()
    };
    let wanted = of_endpoints(document(&node_state, "EndpointDNAT"));
    assert_eq!(wanted.len(), 2);
    assert_eq!(of_endpoints(dump_of(&node_state, &["EndpointDNAT"])), wanted);
}

#[test]
fn hairpins_are_the_documents() {
    let node_state = node_state(&document_node(), documents());
    let hairpins = |lines: BTreeSet<String>| -> BTreeSet<String> {
        lines.into_iter().filter(|line| line.contains("priority=190,")).collect()
    };
    let mut wanted = hairpins(document(&node_state, "SNATMark"));
    // Difference 4: no listed Pod is 10.10.0.23.
    wanted.retain(|line| !line.contains("10.10.0.23"));
    assert_eq!(wanted.len(), 1);
    assert_eq!(hairpins(dump_of(&node_state, &["SNATMark"])), wanted);
}

#[test]
fn groups_are_the_documents() {
    let node_state = node_state(&document_node(), documents());
    let facts = node_state.facts().unwrap();
    let there: Vec<GroupSpec> = node_state
        .store()
        .everything()
        .into_iter()
        .filter_map(|update| match update {
            Update::AddGroup(group) => Some(group),
            _ => None,
        })
        .collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../flow/tests/data/antrea-groups.txt");
    let document = std::fs::read_to_string(path).unwrap();
    for line in document.lines().filter(|line| !line.trim().is_empty()) {
        let parsed = parse_group(line, &facts).unwrap_or_else(|error| panic!("{line}: {error}")).value.spec;
        let wanted = GroupSpec { id: ours(&node_state, parsed.id), ..parsed };
        assert!(there.contains(&wanted), "{line}\n{there:#?}");
    }
    // The document mentions the other five and does not list them.
    let ids: BTreeSet<u32> = there.iter().map(|group| group.id).collect();
    assert_eq!(ids, GROUPS.iter().map(|(group, ..)| ours(&node_state, *group)).collect());
    let local = there.iter().find(|group| group.id == id(&node_state, "sample-service-etp-local", true)).unwrap();
    assert_eq!(local.buckets.len(), 1, "of the two endpoints only 10.10.0.24 is this Node's: {local:?}");
}

#[test]
fn nothing_is_written_anywhere_else() {
    let node_state = node_state(&document_node(), documents());
    let tables: BTreeSet<&str> = documents()
        .iter()
        .filter_map(|object| node_state.store().compiled(&crate::Object::key_of(object)))
        .flat_map(|part| part.flows())
        .filter_map(|flow| crate::Table::by_number(flow.id.table))
        .map(crate::Table::name)
        .collect();
    assert_eq!(tables, ["EndpointDNAT", "SNATMark", "ServiceLB"].into());
}
