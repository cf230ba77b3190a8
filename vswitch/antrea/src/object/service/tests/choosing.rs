//! Which endpoints are used.

use super::{cluster_ip, endpoint};
use crate::testing::{document_node, dual_node, node_state};
use crate::{Family, NodeState};
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// One that ends: still serving, or not.
fn ending(address: &str, serving: bool) -> v1::Endpoint {
    v1::Endpoint { ready: false, serving, terminating: true, ..endpoint(address) }
}

fn down(address: &str) -> v1::Endpoint {
    v1::Endpoint { ready: false, serving: false, ..endpoint(address) }
}

fn hinted(address: &str, zones: &[&str], nodes: &[&str]) -> v1::Endpoint {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    v1::Endpoint { hint_zones: texts(zones), hint_nodes: texts(nodes), ..endpoint(address) }
}

fn with(node: &v1::NodeConfig, endpoints: Vec<v1::Endpoint>) -> NodeState {
    let mut service = cluster_ip("chosen", "10.96.5.5");
    if node.families() == v1::Families::Dual {
        service.cluster_ips.push("fd00:10:96::5".to_owned());
    }
    let set = v1::Endpoints { service: service.name.clone(), port: String::new(), endpoints };
    node_state(node, vec![Object::Service(service), Object::Endpoints(set)])
}

/// Those that are used: of any Node, of this one.
fn chosen(node_state: &NodeState, family: Family) -> [BTreeSet<String>; 2] {
    let set = node_state.desired().endpoints("default/chosen:").unwrap();
    let chosen = crate::object::service::choose(&set.endpoints, family, node_state.facts().unwrap().node);
    [chosen.cluster, chosen.local].map(|chosen| chosen.iter().map(|endpoint| endpoint.address.to_string()).collect())
}

fn set(addresses: &[&str]) -> BTreeSet<String> {
    addresses.iter().map(|address| (*address).to_owned()).collect()
}

fn zoned() -> v1::NodeConfig {
    v1::NodeConfig { topology_zone: "a".to_owned(), ..document_node() }
}

#[test]
fn ready_ones_else_those_that_end_and_serve() {
    let (ready, serving, gone) = (endpoint("10.10.1.6"), ending("10.10.0.24", true), ending("10.10.1.7", false));
    let all = vec![ready, serving.clone(), gone.clone(), down("10.10.1.8")];
    let node_state = with(&document_node(), all);
    assert_eq!(chosen(&node_state, Family::V4), [set(&["10.10.1.6"]), set(&["10.10.0.24"])], "judged for each policy");
    let node_state = with(&document_node(), vec![serving, gone.clone(), down("10.10.1.8")]);
    assert_eq!(chosen(&node_state, Family::V4), [set(&["10.10.0.24"]), set(&["10.10.0.24"])]);
    let node_state = with(&document_node(), vec![gone, down("10.10.1.8")]);
    assert_eq!(chosen(&node_state, Family::V4), [set(&[]), set(&[])]);
}

#[test]
fn families_are_judged_apart() {
    let all = vec![endpoint("10.10.1.6"), ending("fd00:10:10::18", true), ending("10.10.0.24", true)];
    let node_state = with(&dual_node(), all);
    assert_eq!(chosen(&node_state, Family::V4)[0], set(&["10.10.1.6"]));
    assert_eq!(chosen(&node_state, Family::V6)[0], set(&["fd00:10:10::18"]));
}

#[test]
fn hints_count_if_all_usable_ones_have_some_and_one_has_ours() {
    let (ours, theirs) = (hinted("10.10.1.6", &["a", "b"], &[]), hinted("10.10.0.24", &["b"], &[]));
    let all = vec![ours.clone(), theirs.clone(), ending("10.10.1.7", true)];
    assert_eq!(chosen(&with(&zoned(), all.clone()), Family::V4), [set(&["10.10.1.6"]), set(&["10.10.0.24"])]);
    let both = set(&["10.10.1.6", "10.10.0.24"]);
    assert_eq!(chosen(&with(&document_node(), all), Family::V4)[0], both, "the Node has no zone");
    let one_without = vec![ours, theirs.clone(), endpoint("10.10.1.8")];
    assert_eq!(chosen(&with(&zoned(), one_without), Family::V4)[0].len(), 3);
    let none_ours = vec![theirs, hinted("10.10.1.6", &["c"], &[])];
    assert_eq!(chosen(&with(&zoned(), none_ours), Family::V4)[0], both);
}

#[test]
fn hints_to_nodes_come_before_those_to_zones() {
    let all = vec![hinted("10.10.1.6", &["a"], &["worker-1"]), hinted("10.10.0.24", &["b"], &["worker-2"])];
    assert_eq!(chosen(&with(&zoned(), all), Family::V4)[0], set(&["10.10.0.24"]));
    let elsewhere = vec![hinted("10.10.1.6", &["a"], &["worker-1"]), hinted("10.10.0.24", &["b"], &["worker-3"])];
    assert_eq!(chosen(&with(&zoned(), elsewhere), Family::V4)[0], set(&["10.10.1.6"]));
}

#[test]
fn hints_lead_to_none_of_those_that_end() {
    let ends = |address: &str, zone: &str| v1::Endpoint { hint_zones: vec![zone.to_owned()], ..ending(address, true) };
    let mut all = vec![ends("10.10.1.6", "a"), ends("10.10.1.7", "b")];
    assert_eq!(chosen(&with(&zoned(), all.clone()), Family::V4)[0], set(&["10.10.1.6", "10.10.1.7"]));
    all.extend([hinted("10.10.1.8", &["a"], &[]), hinted("10.10.1.9", &["b"], &[])]);
    assert_eq!(chosen(&with(&zoned(), all), Family::V4)[0], set(&["10.10.1.8"]));
}

#[test]
fn a_nodes_zone_changes_what_is_used() {
    let all = vec![hinted("10.10.1.6", &["a"], &[]), hinted("10.10.0.24", &["b"], &[])];
    let mut node_state = with(&document_node(), all);
    let buckets = |node_state: &NodeState| node_state.store().sizes().2;
    assert_eq!(buckets(&node_state), 2);
    let plan = node_state.plan_node(&zoned()).unwrap();
    node_state.settle(plan);
    assert_eq!(buckets(&node_state), 1);
}
