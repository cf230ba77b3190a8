//! The recorded Node, told to this switch: what `tools/lib/vsw/ovn/topology.py` tells OVN.

use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::v1::MacAddress;

/// Of the gateway port, which is OVN-Kubernetes' management port.
pub(super) const GATEWAY_MAC: &str = "0a:58:0a:f4:01:02";
const NODE_MAC: &str = "02:42:ac:12:00:03";
const CLIENT_MAC: &str = "02:42:df:4d:b6:d2";
/// Pods: name, port, MAC address, addresses.
const PODS: [(&str, &str, &str, [&str; 2]); 2] = [
    ("ns/pod1", "p102", "0a:58:0a:f4:01:03", ["10.244.1.3", "fd00:10:244:1::3"]),
    ("ns/pod2", "p103", "0a:58:0a:f4:01:06", ["10.244.1.6", "fd00:10:244:1::6"]),
];
const NODE: [&str; 2] = ["172.18.0.3", "fc00::3"];
const OTHER: [&str; 2] = ["172.18.0.4", "fc00::4"];
/// Ports of the second Pod that the first one may reach.
const ALLOWED: [u32; 2] = [80, 8080];

/// A Service: its name, the last byte of its cluster IPs (0: it has none), its NodePort, whether
/// its policy is Local, its endpoint with port and Node.
type Service = (&'static str, u8, u32, bool, Option<([&'static str; 2], u32, &'static str)>);

const SERVICES: [Service; 6] = [
    ("ns/pod1", 87, 30015, false, Some((PODS[0].3, 80, "n1"))),
    ("ns/pod1-local", 0, 31746, true, Some((PODS[0].3, 80, "n1"))),
    ("ns/other", 88, 30950, false, Some((OTHER, 8080, "n2"))),
    ("ns/node", 89, 0, false, Some((NODE, 80, "n1"))),
    ("ns/empty", 90, 0, false, None),
    ("ns/pod2", 92, 0, false, Some((PODS[1].3, 80, "n1"))),
];

/// The switch: `br0` is the gateway bridge, `br1` the Pods'.
pub(super) fn config() -> String {
    let mut config = "[worker]\nidle_sleep_us = 200\n\n[conntrack]\nconnections = 4096\n\n".to_owned();
    // Nothing is sent unasked.
    config += "[debug]\nannounce = false\n\n";
    config += "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";
    config += &format!(
        "[[bridge.port]]\nname = \"br0\"\ntype = \"dummy\"\nmac = {NODE_MAC:?}\nmtu = 9000\naddresses = [\"{}/16\", \"{}/64\"]\n\n",
        NODE[0], NODE[1]
    );
    config += "[[bridge.port]]\nname = \"p1\"\nnumber = 1\ntype = \"dummy\"\nmtu = 9000\n\n";
    config += "[[bridge.port]]\nname = \"p2\"\nnumber = 2\ntype = \"patch\"\npeer = \"p104\"\nno_flood = true\n\n";
    config += "[[bridge]]\nname = \"br1\"\nfail_mode = \"secure\"\n\n";
    for number in 1..4 {
        config +=
            &format!("[[bridge.port]]\nname = \"p10{number}\"\nnumber = {number}\ntype = \"dummy\"\nmtu = 9000\n\n");
    }
    config + "[[bridge.port]]\nname = \"p104\"\nnumber = 4\ntype = \"patch\"\npeer = \"p2\"\nno_flood = true\n\n"
}

fn mac(text: &str) -> Option<MacAddress> {
    let octets = text.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect();
    Some(MacAddress { octets })
}

fn texts(of: &[&str]) -> Vec<String> {
    of.iter().map(|text| (*text).to_owned()).collect()
}

/// The Node.
pub(super) fn node(mode: v1::GatewayMode) -> v1::NodeConfig {
    let mut gateway = v1::GatewayBridge { other_addresses: texts(&["172.20.0.2", "fc20::2"]), ..Default::default() };
    gateway.set_mode(mode);
    let hop = |address: &str| v1::NextHop { address: address.to_owned(), mac: mac(CLIENT_MAC) };
    let uplink = v1::Uplink {
        port: "p104".to_owned(),
        underlay_bridge: "br0".to_owned(),
        mac: mac(NODE_MAC),
        next_hops: vec![hop("172.18.0.1"), hop("fc00::1")],
        gateway: Some(gateway),
        ..Default::default()
    };
    let mut node = v1::NodeConfig {
        name: "n1".to_owned(),
        bridge: "br1".to_owned(),
        transport_addresses: vec![format!("{}/16", NODE[0]), format!("{}/64", NODE[1])],
        pod_cidrs: texts(&["10.244.1.0/24", "fd00:10:244:1::/64"]),
        gateway: Some(v1::Gateway {
            port: "p101".to_owned(),
            mac: mac(GATEWAY_MAC),
            addresses: texts(&["10.244.1.2", "fd00:10:244:1::2"]),
        }),
        uplink: Some(uplink),
        service_cidrs: texts(&["10.96.0.0/16", "fd00:10:96::/112"]),
        features: Some(v1::Features { proxy_all: true, ..Default::default() }),
        ..Default::default()
    };
    node.set_families(v1::Families::Dual);
    node.set_traffic_mode(v1::TrafficMode::NoEncap);
    node
}

/// Pods, Services with their endpoints, the policy.
pub(super) fn objects() -> Vec<Object> {
    let pod = |(name, port, its_mac, addresses): &(&str, &str, &str, [&str; 2])| {
        Object::Pod(v1::Pod {
            name: (*name).to_owned(),
            port: (*port).to_owned(),
            addresses: texts(addresses),
            mac: mac(its_mac),
            ..Default::default()
        })
    };
    let mut all: Vec<Object> = PODS.iter().map(pod).collect();
    all.extend(SERVICES.iter().flat_map(service));
    all.extend(policy());
    all
}

fn service((name, last, node_port, local, endpoint): &Service) -> Vec<Object> {
    let protocols = [v1::Protocol::Tcp, v1::Protocol::Udp];
    let port_name = |protocol: v1::Protocol| format!("{protocol:?}").to_lowercase();
    let port = |protocol: v1::Protocol| v1::ServicePort {
        name: port_name(protocol),
        protocol: protocol.into(),
        port: 80,
        node_port: *node_port,
    };
    let mut service = v1::Service {
        name: (*name).to_owned(),
        ports: protocols.into_iter().map(port).collect(),
        ..Default::default()
    };
    if *last != 0 {
        service.cluster_ips = vec![format!("10.96.146.{last}"), format!("fd00:10:96::{last:x}")];
    }
    if *local {
        service.set_external_traffic_policy(v1::TrafficPolicy::Local);
    }
    let mut all = vec![Object::Service(service)];
    for protocol in protocols {
        let one = |(addresses, port, node): &([&str; 2], u32, &str)| {
            addresses.map(|address| v1::Endpoint {
                address: address.to_owned(),
                port: *port,
                node: (*node).to_owned(),
                ready: true,
                serving: true,
                ..Default::default()
            })
        };
        all.push(Object::Endpoints(v1::Endpoints {
            service: (*name).to_owned(),
            port: port_name(protocol),
            endpoints: endpoint.iter().flat_map(one).collect(),
        }));
    }
    all
}

/// The first Pod may reach some ports of the second one. All else to that one is dropped.
fn policy() -> Vec<Object> {
    let (first, second) = (PODS[0].0.to_owned(), PODS[1].0.to_owned());
    let member = v1::GroupMember { member: Some(v1::group_member::Member::Pod(first)) };
    let group = v1::AddressGroup { name: "first".to_owned(), members: vec![member] };
    let applied = v1::AppliedToGroup { name: "second".to_owned(), pods: vec![second], services: Vec::new() };
    let port = |protocol: v1::Protocol| {
        ALLOWED.map(|port| v1::PortMatch { protocol: protocol.into(), port, ..Default::default() })
    };
    let rule = v1::Rule {
        id: "0".to_owned(),
        direction: v1::Direction::Ingress.into(),
        action: v1::RuleAction::Allow.into(),
        peer: Some(v1::RulePeer { address_groups: vec!["first".to_owned()], ..Default::default() }),
        ports: [v1::Protocol::Tcp, v1::Protocol::Udp].into_iter().flat_map(port).collect(),
        ..Default::default()
    };
    let policy = v1::NetworkPolicy {
        name: "np:ns/denied".to_owned(),
        kind: v1::PolicyKind::K8s.into(),
        applied_to: vec!["second".to_owned()],
        rules: vec![rule],
        isolates_ingress: true,
        ..Default::default()
    };
    vec![Object::AddressGroup(group), Object::AppliedToGroup(applied), Object::NetworkPolicy(policy)]
}
