//! Goldens of plans, one for each mode, and that a plan depends on nothing but what is in force.

use super::plan;
use crate::NodeState;
use crate::testing::{apply, cluster, document_node, dual_node, egress, mac, node_state, peer, pod};
use crate::wire::{Under, Wire};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

fn plan_of(node_state: &NodeState) -> v1::HostPlan {
    plan(&node_state.facts().expect("a Node"), true)
}

/// Compares a plan with a golden file. `VSWITCH_BLESS=1` writes it.
fn is_golden(name: &str, node_state: &NodeState) {
    let path = format!("{}/src/host/tests/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = plan_of(node_state).to_string();
    if std::env::var_os("VSWITCH_BLESS").is_some() {
        std::fs::write(&path, &text).expect("a golden is written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(text, golden, "{name}; VSWITCH_BLESS=1 writes the golden anew");
}

/// A Node of both families in a mode; `proxy`: Services are the switch's.
fn in_mode(mode: v1::TrafficMode, proxy: bool) -> v1::NodeConfig {
    let mut node = dual_node();
    node.set_traffic_mode(mode);
    node.l7 = None;
    node.tunnel = node.tunnel.filter(|_| mode == v1::TrafficMode::Hybrid);
    node.features = Some(v1::Features { proxy: Some(proxy), ..v1::Features::default() });
    if mode == v1::TrafficMode::NetworkPolicyOnly {
        node.pod_cidrs.clear();
        node.gateway.as_mut().expect("a gateway").addresses =
            vec!["192.168.77.102".to_owned(), "fd00:192:168:77::102".to_owned()];
    }
    node
}

/// A peer of both families on a link.
fn peer_on(name: &str, number: u32, link: &str) -> Object {
    Object::PeerNode(v1::PeerNode {
        name: name.to_owned(),
        pod_cidrs: vec![format!("10.10.{number}.0/24"), format!("fd00:10:10:{number}::/64")],
        transport_addresses: vec![format!("192.168.{link}.103"), format!("fd00:192:168:{link}::103")],
        ..peer()
    })
}

fn peers() -> Vec<Object> {
    vec![peer_on("near", 1, "77"), peer_on("far", 2, "78")]
}

fn service() -> Object {
    let port = |name: &str, protocol: v1::Protocol, node_port| v1::ServicePort {
        name: name.to_owned(),
        protocol: protocol.into(),
        port: 80,
        node_port,
    };
    Object::Service(v1::Service {
        name: "default/web".to_owned(),
        ports: vec![port("tcp", v1::Protocol::Tcp, 30080), port("udp", v1::Protocol::Udp, 30081)],
        cluster_ips: vec!["10.128.0.20".to_owned()],
        external_ips: vec!["192.168.77.102".to_owned(), "203.0.113.20".to_owned()],
        load_balancer_ips: vec!["203.0.113.21".to_owned()],
        ..v1::Service::default()
    })
}

#[test]
fn encap_has_peers_and_services_behind_the_gateway() {
    let mut objects = cluster();
    objects.push(service());
    is_golden("encap", &node_state(&document_node(), objects));
}

#[test]
fn encap_of_both_families() {
    is_golden("encap-dual", &node_state(&dual_node(), peers()));
}

#[test]
fn no_encap_has_peers_on_the_link_behind_their_nodes() {
    is_golden("no-encap", &node_state(&in_mode(v1::TrafficMode::NoEncap, true), peers()));
}

#[test]
fn no_encap_without_proxy_enters_again() {
    is_golden("no-encap-without-proxy", &node_state(&in_mode(v1::TrafficMode::NoEncap, false), peers()));
}

#[test]
fn hybrid_has_both() {
    is_golden("hybrid", &node_state(&in_mode(v1::TrafficMode::Hybrid, true), peers()));
}

#[test]
fn policy_only_has_a_route_for_each_pod_and_enters_again() {
    let objects = vec![Object::Pod(pod("web")), Object::Pod(pod("db"))];
    is_golden("policy-only", &node_state(&in_mode(v1::TrafficMode::NetworkPolicyOnly, false), objects));
}

#[test]
fn pods_that_keep_their_addresses_are_not_masqueraded() {
    let mut node = document_node();
    let masquerades = "ip saddr 10.10.0.0/24";
    assert!(plan_of(&node_state(&node, Vec::new())).nft.contains(masquerades));
    node.host = Some(v1::HostConfig { pods_keep_addresses: true });
    assert!(!plan_of(&node_state(&node, Vec::new())).nft.contains(masquerades));
}

#[test]
fn what_the_switch_translates_is_none_of_the_hosts() {
    let mut node = document_node();
    node.uplink =
        Some(v1::Uplink { port: "uplink0".to_owned(), mac: mac("ba:5e:d1:55:aa:c1"), ..v1::Uplink::default() });
    let state = |translation: v1::EgressTranslation| {
        let mut egress = egress("web");
        egress.set_translation(translation);
        plan_of(&node_state(&node, vec![Object::Pod(pod("web")), Object::Egress(egress)])).to_string()
    };
    assert!(state(v1::EgressTranslation::Host).contains("snat ip to 192.168.77.112"));
    for other in [v1::EgressTranslation::Switch, v1::EgressTranslation::Unspecified] {
        assert!(!state(other).contains("192.168.77.112"));
    }
}

#[test]
fn a_plan_depends_on_what_is_in_force_alone() {
    let mut objects = cluster();
    objects.push(service());
    let at_once = plan_of(&node_state(&document_node(), objects.clone()));
    let mut one_by_one = node_state(&document_node(), Vec::new());
    let empty = plan_of(&one_by_one);
    for object in objects.into_iter().rev() {
        apply(&mut one_by_one, vec![object]);
    }
    assert_eq!(plan_of(&one_by_one), at_once);
    assert_ne!(empty.generation, at_once.generation);
    let incomplete = plan(&one_by_one.facts().expect("a Node"), false);
    assert_ne!(incomplete.generation, at_once.generation, "that all is known is a part of it");
}

/// A Node with a gateway bridge, with Services of both policies, external and internal.
fn with_gateway(mode: v1::GatewayMode) -> NodeState {
    let mut node = in_mode(v1::TrafficMode::NoEncap, true);
    node.features = Some(v1::Features { proxy_all: true, ..v1::Features::default() });
    node.uplink = Some(v1::Uplink {
        port: "uplink0".to_owned(),
        underlay_bridge: "br-phy".to_owned(),
        mac: mac("ba:5e:d1:55:aa:c1"),
        gateway: Some(v1::GatewayBridge { mode: mode.into(), ..v1::GatewayBridge::default() }),
        ..v1::Uplink::default()
    });
    let mut local = match service() {
        Object::Service(service) => service,
        _ => unreachable!("it is a Service"),
    };
    local.name = "default/local".to_owned();
    local.cluster_ips = vec!["10.128.0.21".to_owned(), "fd00:10:96::21".to_owned()];
    local.external_ips.clear();
    local.load_balancer_ips = vec!["203.0.113.22".to_owned(), "fd00:203::22".to_owned()];
    local.set_external_traffic_policy(v1::TrafficPolicy::Local);
    for (at, port) in local.ports.iter_mut().enumerate() {
        port.node_port = 30090 + u32::try_from(at).expect("few");
    }
    let mut inner = local.clone();
    inner.name = "default/inner".to_owned();
    inner.cluster_ips = vec!["10.128.0.22".to_owned(), "fd00:10:96::22".to_owned()];
    inner.load_balancer_ips.clear();
    inner.set_external_traffic_policy(v1::TrafficPolicy::Cluster);
    inner.set_internal_traffic_policy(v1::TrafficPolicy::Local);
    for (at, port) in inner.ports.iter_mut().enumerate() {
        port.node_port = 30100 + u32::try_from(at).expect("few");
    }
    let services = vec![service(), Object::Service(local), Object::Service(inner)];
    let mut node_state = node_state(&node, [peers(), services].concat());
    let under = Under { patch: 7, host: "br-phy0".to_owned(), vtep: 8, wire: Some(1), tunnels: Vec::new() };
    let plan = node_state.plan_wire(Wire { under: Some(under), ..Wire::default() }).expect("a plan");
    node_state.settle(plan);
    node_state
}

#[test]
fn a_shared_gateway_bridge_has_services_behind_it() {
    is_golden("gateway-shared", &with_gateway(v1::GatewayMode::Shared));
}

#[test]
fn a_local_gateway_bridge_has_the_host_translate() {
    is_golden("gateway-local", &with_gateway(v1::GatewayMode::Local));
}

/// Those of the wire, and the host's own.
#[test]
fn node_ports_without_a_cluster_ip_and_with_policy_local_are_translated_too() {
    let mut node_state = with_gateway(v1::GatewayMode::Local);
    let Object::Service(mut bare) = service() else { unreachable!("it is a Service") };
    bare.name = "default/web@nodeportlocal".to_owned();
    bare.cluster_ips.clear();
    bare.external_ips.clear();
    bare.load_balancer_ips.clear();
    for (at, port) in bare.ports.iter_mut().enumerate() {
        port.node_port = 61000 + u32::try_from(at).expect("few");
    }
    let count = |node_state: &NodeState| plan_of(node_state).nft.matches("61000 : 169.254.169.3 . 61000").count();
    apply(&mut node_state, vec![Object::Service(bare.clone())]);
    assert_eq!(count(&node_state), 0, "the host cannot tell who of other Nodes serves it");
    bare.set_external_traffic_policy(v1::TrafficPolicy::Local);
    apply(&mut node_state, vec![Object::Service(bare)]);
    assert_eq!(count(&node_state), 2);
}
