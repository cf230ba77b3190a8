//! For tests: the document's Node, rooms with objects, and what they write as lines.

use crate::{Facts, NodeState, Ports, Write};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, Style, format_flow, parse_flow};
use vswitch_proto::antrea::v1;
use vswitch_proto::v1::MacAddress;

/// Ports of the document's bridge, and some more.
pub(crate) const PORTS: [(&str, u32); 13] = [
    ("antrea-tun0", 1),
    ("antrea-gw0", 2),
    ("uplink0", 3),
    ("probe0", 4),
    ("antrea-tc-tap0", 0x22),
    ("antrea-tc-tap1", 0x23),
    ("client-6-3353ef", 0x24),
    ("web-7975-274540", 0x25),
    ("db-755c6-5080e3", 0x26),
    ("antrea-tc-tap2", 0x27),
    ("antrea-l7-tap0", 0x28),
    ("antrea-l7-tap1", 0x29),
    ("web2-6f8c-1a2b3", 0x2a),
];

pub(crate) fn mac(text: &str) -> Option<MacAddress> {
    let octets: Vec<u8> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap_or_default()).collect();
    assert_eq!(octets.len(), 6, "{text}");
    Some(MacAddress { octets })
}

/// The document's Node: worker-2 with 10.10.0.0/24, IPv4, all of its features.
pub(crate) fn document_node() -> v1::NodeConfig {
    v1::NodeConfig {
        name: "worker-2".to_owned(),
        bridge: "br-int".to_owned(),
        transport_addresses: vec!["192.168.77.102/24".to_owned()],
        pod_cidrs: vec!["10.10.0.0/24".to_owned()],
        gateway: Some(v1::Gateway {
            port: "antrea-gw0".to_owned(),
            mac: mac("ba:5e:d1:55:aa:c0"),
            addresses: vec!["10.10.0.1".to_owned()],
        }),
        tunnel: Some(v1::Tunnel { port: "antrea-tun0".to_owned() }),
        service_cidrs: vec!["10.96.0.0/12".to_owned()],
        features: Some(v1::Features {
            proxy_all: true,
            traffic_control: true,
            l7_network_policy: true,
            ..v1::Features::default()
        }),
        l7: Some(v1::L7Ports { target: "antrea-l7-tap0".to_owned(), return_port: "antrea-l7-tap1".to_owned() }),
        ..v1::NodeConfig::default()
    }
}

/// The same Node with IPv6 beside IPv4.
pub(crate) fn dual_node() -> v1::NodeConfig {
    let mut node = document_node();
    node.set_families(v1::Families::Dual);
    node.transport_addresses.push("fd00:192:168:77::102/64".to_owned());
    node.pod_cidrs.push("fd00:10:10::/64".to_owned());
    node.service_cidrs.push("fd00:10:96::/64".to_owned());
    if let Some(gateway) = &mut node.gateway {
        gateway.addresses.push("fd00:10:10::1".to_owned());
    }
    node
}

/// A Pod of the document: `name` is the last part of its name, `last` of its address.
pub(crate) fn pod(name: &str) -> v1::Pod {
    let (port, address, of) = match name {
        "client" => ("client-6-3353ef", "10.10.0.26", "5e:b5:e3:a6:90:b7"),
        "web" => ("web-7975-274540", "10.10.0.24", "fa:b7:53:74:21:a6"),
        "db" => ("db-755c6-5080e3", "10.10.0.25", "36:48:21:a2:9d:b4"),
        "web2" => ("web2-6f8c-1a2b3", "10.10.0.23", "72:1c:5d:0e:9a:23"),
        _ => panic!("the document has no Pod {name}"),
    };
    v1::Pod {
        name: format!("default/{name}"),
        port: port.to_owned(),
        addresses: vec![address.to_owned()],
        mac: mac(of),
        vlan: 0,
        uid: String::new(),
        ..v1::Pod::default()
    }
}

/// The document's other Node.
pub(crate) fn peer() -> v1::PeerNode {
    v1::PeerNode {
        name: "worker-1".to_owned(),
        pod_cidrs: vec!["10.10.1.0/24".to_owned()],
        transport_addresses: vec!["192.168.77.103".to_owned()],
        ..v1::PeerNode::default()
    }
}

/// An Egress of the document: `egress-web` is here, `egress-client` on the other Node.
pub(crate) fn egress(name: &str) -> v1::Egress {
    let (address, node) = match name {
        "web" => ("192.168.77.112", "worker-2"),
        _ => ("192.168.77.113", "worker-1"),
    };
    v1::Egress {
        name: format!("egress-{name}"),
        address: address.to_owned(),
        node: node.to_owned(),
        pods: vec![format!("default/{name}")],
        ..v1::Egress::default()
    }
}

/// A `TrafficControl` of the document: web is redirected, db is mirrored.
pub(crate) fn traffic_control(name: &str) -> v1::TrafficControl {
    let redirect = name == "web";
    let mut control = v1::TrafficControl {
        name: format!("{}-{name}-to-local", if redirect { "redirect" } else { "mirror" }),
        pods: vec![format!("default/{name}")],
        target_port: if redirect { "antrea-tc-tap0" } else { "antrea-tc-tap2" }.to_owned(),
        return_port: if redirect { "antrea-tc-tap1" } else { "" }.to_owned(),
        ..v1::TrafficControl::default()
    };
    control.set_direction(v1::TrafficDirection::Both);
    control.set_action(if redirect { v1::TrafficControlAction::Redirect } else { v1::TrafficControlAction::Mirror });
    control
}

/// The document's cluster, as this Node sees it, but for Services and policies.
pub(crate) fn cluster() -> Vec<v1::object::Object> {
    use v1::object::Object;
    let pods = ["client", "web", "db"].map(|name| Object::Pod(pod(name)));
    let egresses = ["web", "client"].map(|name| Object::Egress(egress(name)));
    let controls = ["web", "db"].map(|name| Object::TrafficControl(traffic_control(name)));
    pods.into_iter().chain([Object::PeerNode(peer())]).chain(egresses).chain(controls).collect()
}

/// A node state with this Node, and these objects, all of which must be good (DEGRADED is good).
pub(crate) fn node_state(node: &v1::NodeConfig, objects: Vec<v1::object::Object>) -> NodeState {
    let mut node_state = NodeState::default();
    node_state.set_ports(PORTS.map(|(name, number)| (name.to_owned(), number)).into_iter().collect::<Ports>());
    let plan = node_state.plan_node(node).unwrap_or_else(|problems| panic!("the Node is refused: {problems:?}"));
    node_state.settle(plan);
    apply(&mut node_state, objects);
    node_state
}

/// Applies objects, all of which must be good; returns what changes.
pub(crate) fn apply(node_state: &mut NodeState, objects: Vec<v1::object::Object>) -> Vec<Update> {
    let plan = node_state.plan(Write { objects, ..Write::default() });
    assert!(plan.result.applied, "{:#?}", plan.result.statuses);
    let updates = plan.updates.clone();
    node_state.settle(plan);
    updates
}

/// What is told of one object that is written alone, and refused.
pub(crate) fn refused(node_state: &mut NodeState, object: v1::object::Object) -> Vec<v1::Problem> {
    let plan = node_state.plan(Write { objects: vec![object], ..Write::default() });
    let problems = plan.result.statuses.iter().flat_map(|status| status.problems.clone()).collect();
    assert!(!plan.result.applied, "it was not refused");
    node_state.revert(plan);
    problems
}

/// What is told of one object that is written alone, and taken: what of it has no effect.
pub(crate) fn degraded(node_state: &mut NodeState, object: v1::object::Object) -> Vec<v1::Problem> {
    let key = crate::Object::key_of(&object).to_proto();
    let plan = node_state.plan(Write { objects: vec![object], ..Write::default() });
    let mut statuses = plan.result.statuses.iter().filter(|status| status.object.as_ref() == Some(&key));
    let status = statuses.next().cloned().unwrap_or_default();
    assert!(plan.result.applied, "{:?}", plan.result.statuses);
    assert_eq!(status.outcome(), v1::ObjectOutcome::Degraded, "{status:?}");
    node_state.revert(plan);
    status.problems
}

/// What is warned of one object that is written alone, and is right.
pub(crate) fn warned(node_state: &mut NodeState, object: v1::object::Object) -> Vec<String> {
    let plan = node_state.plan(Write { objects: vec![object], ..Write::default() });
    assert!(plan.result.applied, "{:?}", plan.result.statuses);
    let warnings = plan.result.statuses.iter().flat_map(|status| status.warnings.clone()).collect();
    node_state.revert(plan);
    warnings
}

/// A line as dumps have it, with names, without cookie.
pub(crate) fn line(facts: &Facts<'_>, update: &Update) -> String {
    let Update::AddFlow(flow) = update else { panic!("{update:?} is no flow") };
    let flow = vswitch_flow::spec::FlowSpec { cookie: 0, ..flow.clone() };
    let mut line = String::new();
    format_flow(&flow, None, Style { names: true }, facts, &mut line);
    line.replace("cookie=0x0, ", "").replace("cookie=0, ", "")
}

/// A line of the document as dumps have it.
pub(crate) fn normal(facts: &Facts<'_>, text: &str) -> String {
    let parsed = parse_flow(text, FlowCommand::Add, facts).unwrap_or_else(|error| panic!("{text}: {error}"));
    line(facts, &parsed.value)
}

/// All flows of a node state by table, sorted.
pub(crate) fn dump(node_state: &NodeState) -> BTreeMap<String, BTreeSet<String>> {
    let facts = node_state.facts().unwrap_or_else(|| panic!("there is no Node"));
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for update in node_state.store().everything() {
        if let Update::AddFlow(flow) = &update {
            let table =
                crate::Table::by_number(flow.table).map_or_else(|| flow.table.to_string(), |t| t.name().to_owned());
            tables.entry(table).or_default().insert(line(&facts, &update));
        }
    }
    tables
}

/// Flows of some tables.
pub(crate) fn dump_of(node_state: &NodeState, tables: &[&str]) -> BTreeSet<String> {
    dump(node_state)
        .into_iter()
        .filter(|(table, _)| tables.contains(&table.as_str()))
        .flat_map(|(_, lines)| lines)
        .collect()
}

/// Lines of the document's flows of a table, as dumps have them.
pub(crate) fn document(node_state: &NodeState, table: &str) -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../flow/tests/data/antrea-flows.txt");
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let facts = node_state.facts().unwrap_or_else(|| panic!("there is no Node"));
    let of_table = text.lines().filter(|line| line.starts_with(&format!("table={table},")));
    of_table.map(|line| normal(&facts, line)).collect()
}

/// Asserts that a node state writes this flow, as a line of `add-flow`.
pub(crate) fn assert_has(node_state: &NodeState, text: &str) {
    let facts = node_state.facts().unwrap_or_else(|| panic!("there is no Node"));
    let wanted = normal(&facts, text);
    let dump = dump(node_state);
    let table = text.trim_start_matches("table=").split([',', ' ']).next().unwrap_or_default();
    let there = dump.get(table).cloned().unwrap_or_default();
    assert!(
        there.contains(&wanted),
        "there is no\n  {wanted}\nbut\n  {}",
        there.into_iter().collect::<Vec<_>>().join("\n  ")
    );
}

/// An address.
pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}
