//! Flows of one priority that a packet may meet both of: the pipeline does not say which one
//! counts.

use crate::testing::{cluster, document_node, dual_node, line, mac, node_state, peer, pod};
use crate::{FlowId, NodeState};
use std::collections::BTreeSet;
use vswitch_flow::spec::Update;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// Parts of both lines of pairs that are known, and why no packet meets both, or it does not
/// matter.
const KNOWN: [(&str, &str, &str); 6] = [
    ("table=EgressMark", "in_port=", "what a Pod sends comes by no tunnel"),
    (
        "table=IngressSecurityClassifier",
        "reg0=0x10/0xf0",
        "the document's: metric or not, it goes on to ConntrackCommit",
    ),
    ("table=IngressSecurityClassifier", "reg0=0x20/0xf0", "likewise"),
    ("table=IngressSecurityClassifier", "reg0=0x40/0xf0", "likewise"),
    (
        "ct_mark=0x4/0xf",
        "table=L3Forwarding, priority=210",
        "nobody on the wire has the gateway's address: Classifier 220",
    ),
    ("table=SNATMark, priority=205", "pkt_mark=", "what comes from the wire has no Egress"),
];

fn overlaps(node_state: &NodeState) -> BTreeSet<String> {
    let facts = node_state.facts().unwrap();
    let mut flows: Vec<_> = node_state
        .store()
        .everything()
        .into_iter()
        .filter_map(|update| match update {
            Update::AddFlow(flow) => Some(flow),
            _ => None,
        })
        .collect();
    flows.sort_by_key(|flow| (flow.table, flow.priority));
    let mut pairs = BTreeSet::new();
    for (at, one) in flows.iter().enumerate() {
        let same = flows.iter().skip(at + 1).take_while(|two| (two.table, two.priority) == (one.table, one.priority));
        for two in same.filter(|two| one.matching.overlaps(&two.matching) && one.actions != two.actions) {
            assert_ne!(FlowId::of(one), FlowId::of(two));
            let mut both = [one, two].map(|flow| line(&facts, &Update::AddFlow(flow.clone())));
            both.sort();
            if !KNOWN.iter().any(|(a, b, _)| both[0].contains(a) && both[1].contains(b)) {
                pairs.insert(both.join("\n"));
            }
        }
    }
    pairs
}

#[test]
fn no_two_flows_of_a_priority_are_for_the_same_packet() {
    let mut wired = dual_node();
    wired.uplink =
        Some(v1::Uplink { port: "uplink0".to_owned(), mac: mac("02:00:00:00:00:02"), ..v1::Uplink::default() });
    let mut nodes = vec![(document_node(), cluster()), (wired, super::dual_cluster())];
    for mode in [v1::TrafficMode::NoEncap, v1::TrafficMode::Hybrid, v1::TrafficMode::NetworkPolicyOnly] {
        let objects = vec![Object::Pod(pod("web")), Object::Pod(pod("db")), Object::PeerNode(peer())];
        nodes.extend([true, false].map(|proxy| (super::modes::mode(mode, proxy), objects.clone())));
    }
    for (node, objects) in nodes {
        let found = overlaps(&node_state(&node, objects));
        assert!(found.is_empty(), "{}", found.into_iter().collect::<Vec<_>>().join("\n\n"));
    }
}
