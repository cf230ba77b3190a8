//! The gateway bridge beside OVN-Kubernetes' breth0, flow by flow. The other side is what
//! `tools/record-ovn` wrote: the flows of its documents' Node, in either mode.
//!
//! Each flow is the same on both sides, or one of the differences below, which docs/gateway.md
//! gives reasons for. A difference that does not occur is an error, too.

use super::behind;
use crate::testing::mac;
use crate::wire::tests::lines;
use std::collections::{BTreeMap, BTreeSet};
use vswitch_flow::spec::{FlowSpec, Update};
use vswitch_flow::text::{FlowCommand, NoNames, Style, format_flow, parse_flow};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// NodePorts of the documents' Services, TCP and UDP.
const NODE_PORTS: [u32; 3] = [30015, 30950, 31746];

/// The documents' Node.
pub(super) fn node(mode: v1::GatewayMode) -> v1::NodeConfig {
    let text = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
    let hop = |address: &str| v1::NextHop { address: address.to_owned(), mac: mac("02:42:df:4d:b6:d2") };
    let mut gateway = v1::GatewayBridge { other_addresses: text(["172.20.0.2", "fc20::2"]), ..Default::default() };
    gateway.set_mode(mode);
    let uplink = v1::Uplink {
        port: "uplink0".to_owned(),
        underlay_bridge: "breth0".to_owned(),
        mac: mac("02:42:ac:12:00:03"),
        next_hops: vec![hop("172.18.0.1"), hop("fc00::1")],
        gateway: Some(gateway),
        ..Default::default()
    };
    let mut node = v1::NodeConfig {
        name: "ovn-worker".to_owned(),
        bridge: "br-int".to_owned(),
        transport_addresses: text(["172.18.0.3/16", "fc00::3/64"]),
        pod_cidrs: text(["10.244.0.0/16", "fd00:10:244::/48"]),
        gateway: Some(v1::Gateway {
            port: "antrea-gw0".to_owned(),
            mac: mac("ba:5e:d1:55:aa:c0"),
            addresses: text(["10.244.1.2", "fd00:10:244::2"]),
        }),
        tunnel: Some(v1::Tunnel { port: "antrea-tun0".to_owned() }),
        uplink: Some(uplink),
        service_cidrs: text(["10.96.0.0/16", "fd00:10:96::/112"]),
        features: Some(v1::Features { proxy_all: true, ..Default::default() }),
        ..Default::default()
    };
    node.set_families(v1::Families::Dual);
    node
}

fn services() -> Vec<Object> {
    let port = |protocol: v1::Protocol, number: u32| v1::ServicePort {
        name: format!("{protocol:?}").to_lowercase(),
        protocol: protocol.into(),
        port: 80,
        node_port: number,
    };
    let service = |number: &u32| {
        Object::Service(v1::Service {
            name: format!("default/of-{number}"),
            ports: vec![port(v1::Protocol::Tcp, *number), port(v1::Protocol::Udp, *number)],
            ..Default::default()
        })
    };
    NODE_PORTS.iter().map(service).collect()
}

/// A line as dumps have it.
pub(super) fn normal(text: &str) -> String {
    let parsed = parse_flow(text, FlowCommand::Add, &NoNames).unwrap_or_else(|error| panic!("{text}: {error}"));
    let Update::AddFlow(flow) = parsed.value else { panic!("{text}") };
    let mut line = String::new();
    format_flow(&FlowSpec { cookie: 0, ..flow }, None, Style::default(), &NoNames, &mut line);
    line
}

fn recorded(name: &str) -> BTreeSet<String> {
    let path = format!("{}/../vswitchd/tests/differential/cases/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().filter_map(|line| line.strip_prefix("flow ")).map(normal).collect()
}

/// Differences: their numbers in docs/gateway.md, and parts of lines that are all in one. Those of
/// recorded flows that have none here, or another one.
const THEIRS: &[(u8, &[&str])] = &[
    (2, &["priority=110,", "in_port=1,tp_dst="]),
    (2, &["priority=110,", "in_port=2", "tp_src="]),
    (3, &["priority=105,"]),
    (3, &["priority=103,"]),
    (3, &["priority=100,", "in_port=2", "ct_mark"]),
    (3, &["priority=102,", "in_port=2"]),
    (8, &["priority=500,", "in_port=LOCAL", "nat(src="]),
    (9, &["priority=500,", "in_port=2"]),
    (11, &["priority=102,", "icmp6,in_port=LOCAL"]),
    (12, &["priority=50,"]),
    (12, &["priority=10,"]),
    (12, &["priority=14,"]),
    (12, &["priority=13,"]),
    (12, &["priority=0 actions=NORMAL"]),
    (13, &["priority=175,"]),
    (13, &["priority=650,"]),
    (13, &["check_pkt_larger"]),
    (13, &["table=11, "]),
    (14, &["table=3, "]),
    (14, &["table=4, "]),
    (14, &["table=5, "]),
];

/// Likewise, of flows that are here alone.
const OURS: &[(u8, &[&str])] = &[
    (2, &["table=1, ", "priority=90,"]),
    (3, &["priority=100,", "in_port=2", "nat(src="]),
    (4, &["table=1, ", "priority=20,"]),
    (4, &["table=6, "]),
    (4, &["table=7, "]),
    (8, &["priority=501,"]),
    (8, &["priority=500,", "in_port=LOCAL", "nat(src="]),
    (9, &["priority=500,", "in_port=2"]),
    (9, &["priority=510,"]),
    (10, &["priority=600,"]),
    (10, &["priority=610,"]),
    (10, &["priority=490,"]),
    (11, &["priority=120,"]),
    (11, &["priority=121,"]),
    (12, &["priority=50,"]),
    (12, &["priority=60,"]),
    (12, &["priority=10,"]),
    (12, &["priority=1 actions=NORMAL"]),
    (13, &["priority=100,", "ct_mark=0x1,", "actions=output:2"]),
    (14, &["table=3, "]),
    (14, &["table=4, "]),
    (14, &["table=5, "]),
    (23, &["priority=505,"]),
];

/// The numbers of the differences that lines are of; those that are of none.
fn judged<'a>(
    lines: impl Iterator<Item = &'a String>,
    known: &[(u8, &[&str])],
    seen: &mut BTreeMap<usize, u8>,
) -> Vec<String> {
    let mut strange = Vec::new();
    for line in lines {
        let found = known.iter().position(|(_, parts)| parts.iter().all(|part| line.contains(part)));
        match found {
            Some(at) => drop(seen.insert(at, known[at].0)),
            None => strange.push(line.clone()),
        }
    }
    strange
}

#[test]
fn flows_are_ovn_kubernetes_but_for_what_is_listed() {
    let (mut theirs_seen, mut ours_seen) = (BTreeMap::new(), BTreeMap::new());
    for (mode, name) in [(v1::GatewayMode::Shared, "ovn-real-sgw.case"), (v1::GatewayMode::Local, "ovn-real-lgw.case")]
    {
        let theirs = recorded(name);
        let ours: BTreeSet<String> = lines(&behind(&node(mode), services())).iter().map(|line| normal(line)).collect();
        let strange = judged(theirs.difference(&ours), THEIRS, &mut theirs_seen);
        assert!(strange.is_empty(), "{name}: theirs alone: {strange:#?}");
        let strange = judged(ours.difference(&theirs), OURS, &mut ours_seen);
        assert!(strange.is_empty(), "{name}: ours alone: {strange:#?}");
        let same = theirs.intersection(&ours).count();
        assert!(same >= 20, "{name}: {same} flows are the same");
    }
    for (known, seen, whose) in [(THEIRS, &theirs_seen, "theirs"), (OURS, &ours_seen, "ours")] {
        let unused: Vec<_> =
            known.iter().enumerate().filter(|(at, _)| !seen.contains_key(at)).map(|(_, one)| one).collect();
        assert!(unused.is_empty(), "{whose}: these do not occur: {unused:?}");
    }
}
