//! Messages that no agent would send: everything is answered, nothing panics, and what is accepted
//! is well-formed.

use super::bridge::Bridge;
use crate::testing::{dual_node, node_state};
use crate::{NodeState, Write};
use proptest::prelude::*;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::v1::MacAddress;

fn text() -> impl Strategy<Value = String> {
    let known = [
        "",
        "default/web",
        "a/b",
        "/",
        "worker-1",
        "worker-2",
        "antrea-gw0",
        "antrea-tun0",
        "probe0",
        "web-7975-274540",
        "10.10.0.24",
        "10.10.0.1",
        "fd00::1",
        "fd00:10:10::7",
        "::",
        "0.0.0.0/0",
        "::/0",
        "10.10.1.0/24",
        "10.10.1.7/32",
        "fd00:1::/64",
        "fd00:1::/128",
        "192.168.77.103",
        "255.255.255.255",
        "::ffff:1.2.3.4",
        "\"",
        "a,actions=drop",
        "\u{0}",
        "x\ny",
    ];
    prop_oneof![9 => prop::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => ".{0,20}"]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..4)
}

fn mac() -> impl Strategy<Value = Option<MacAddress>> {
    let octets = prop_oneof![Just(vec![2, 0, 0, 0, 0, 9]), prop::collection::vec(any::<u8>(), 0..8)];
    prop::option::of(octets.prop_map(|octets| MacAddress { octets }))
}

fn number() -> impl Strategy<Value = i32> {
    prop_oneof![4 => -1..5_i32, 1 => any::<i32>()]
}

/// The value, or seldom another one.
fn or<T: Clone + std::fmt::Debug + 'static>(usual: T, strange: impl Strategy<Value = T> + 'static) -> BoxedStrategy<T> {
    prop_oneof![9 => Just(usual), 1 => strange].boxed()
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![a_pod(), a_peer(), an_egress(), a_control()]
}

fn a_pod() -> impl Strategy<Value = Object> {
    let pods = prop::sample::select(vec!["client", "web", "db", "web2"]).prop_map(crate::testing::pod);
    let pods = pods.prop_flat_map(|pod| {
        (or(pod.name, text()), or(pod.port, text()), or(pod.addresses, texts()), or(pod.mac, mac()), or(0, number()))
    });
    pods.prop_map(|(name, port, addresses, mac, vlan)| {
        Object::Pod(v1::Pod {
            name,
            port,
            addresses,
            mac,
            vlan: vlan.cast_unsigned(),
            uid: String::new(),
            ..v1::Pod::default()
        })
    })
}

fn a_peer() -> impl Strategy<Value = Object> {
    let cidrs = ["10.10.1.0/24", "fd00:10:10:1::/64"].map(str::to_owned).to_vec();
    let (gateways, ends) = (or(Vec::new(), texts()), or(vec!["192.168.77.103".to_owned()], texts()));
    let peer = (
        or("worker-1".to_owned(), text()),
        or(cidrs, texts()),
        gateways,
        ends,
        or(0, number()),
        or(None, mac()),
        or(String::new(), text()),
    );
    peer.prop_map(|(name, pod_cidrs, gateway_addresses, transport_addresses, path, mac, tunnel_port)| {
        Object::PeerNode(v1::PeerNode {
            name,
            pod_cidrs,
            gateway_addresses,
            transport_addresses,
            path,
            mac,
            tunnel_port,
        })
    })
}

fn an_egress() -> impl Strategy<Value = Object> {
    let egresses = prop::sample::select(vec!["web", "client"]).prop_map(crate::testing::egress);
    let egresses = egresses.prop_flat_map(|egress| {
        let rate = or(None, prop::option::of((any::<u32>(), any::<u32>())));
        (
            or(egress.name, text()),
            or(egress.address, text()),
            or(egress.node, text()),
            or(egress.pods, texts()),
            or(0, number()),
            rate,
        )
    });
    egresses.prop_map(|(name, address, node, pods, translation, rate)| {
        let bandwidth = rate.map(|(rate_kbps, burst_kb)| v1::EgressBandwidth { rate_kbps, burst_kb });
        Object::Egress(v1::Egress { name, address, node, pods, translation, bandwidth })
    })
}

fn a_control() -> impl Strategy<Value = Object> {
    let controls = prop::sample::select(vec!["web", "db"]).prop_map(crate::testing::traffic_control);
    let controls = controls.prop_flat_map(|control| {
        let ports = (or(control.target_port, text()), or(control.return_port, text()));
        let what = (or(control.direction, number()), or(control.action, number()), or(0, number()));
        (or(control.name, text()), or(control.pods, texts()), what, ports)
    });
    controls.prop_map(|(name, pods, (direction, action, priority), (target_port, return_port))| {
        let priority = priority.cast_unsigned();
        Object::TrafficControl(v1::TrafficControl { name, pods, direction, action, target_port, return_port, priority })
    })
}

fn node() -> impl Strategy<Value = v1::NodeConfig> {
    let few = v1::Features {
        proxy_all: true,
        traffic_control: true,
        egress_traffic_shaping: true,
        ..v1::Features::default()
    };
    let features =
        (any::<[Option<bool>; 3]>(), any::<[bool; 7]>()).prop_map(|([proxy, antrea_policy, egress], rest)| {
            let [proxy_all, egress_traffic_shaping, traffic_control, l7_network_policy, multicast, dsr, pod_vlans] =
                rest;
            v1::Features {
                proxy,
                proxy_all,
                antrea_policy,
                egress,
                egress_traffic_shaping,
                traffic_control,
                l7_network_policy,
                multicast,
                dsr,
                pod_vlans,
            }
        });
    let uplink = |address: String, hop| v1::Uplink {
        port: "uplink0".to_owned(),
        mac: crate::testing::mac("02:00:00:00:00:02"),
        next_hops: vec![v1::NextHop { address, mac: hop }],
        ..v1::Uplink::default()
    };
    let uplink = prop::option::of(
        (or("192.168.77.1".to_owned(), text()), mac()).prop_map(move |(address, hop)| uplink(address, hop)),
    );
    let lists = (or(Vec::new(), texts()), or(Vec::new(), texts()), or(dual_node().pod_cidrs, texts()));
    let mode = prop::sample::select(vec![(1, true), (2, false), (3, true), (4, false), (9, true), (0, false)]);
    let features = prop_oneof![1 => Just(few), 1 => features];
    (mode, or(3, number()), features, uplink, or(0, number()), lists, any::<bool>()).prop_map(
        |((mode, tunnel), families, features, uplink, probe, (except, node_ports, cidrs), l7)| {
            let mut node = dual_node();
            (node.traffic_mode, node.families, node.uplink, node.local_probe) = (mode, families, uplink, probe);
            node.features = Some(features);
            node.tunnel = node.tunnel.filter(|_| tunnel);
            node.l7 = node.l7.filter(|_| l7);
            node.local_probe_port = "probe0".to_owned();
            (node.pod_cidrs, node.egress_except_cidrs, node.node_port_addresses) = (cidrs, except, node_ports);
            if mode == 4 {
                node.features =
                    Some(v1::Features { egress: None, egress_traffic_shaping: false, dsr: false, ..features });
                node.pod_cidrs.clear();
            }
            node
        },
    )
}

/// Nothing in it is a mistake of ours.
fn sound(node_state: &NodeState) {
    for key in node_state.desired().all().map(|(key, _)| key.clone()).chain([crate::Key::node()]) {
        let Some(part) = node_state.store().compiled(&key) else { panic!("{key} wrote nothing at all") };
        assert!(part.faults().is_empty(), "{key}: {:?}", part.faults());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn strange_messages_are_answered(objects in prop::collection::vec(object(), 0..8), node in node(), valid_only: bool) {
        let mut node_state = node_state(&dual_node(), Vec::new());
        let mut bridge = Bridge::of(&node_state);
        let plan = node_state.plan(Write { objects, valid_only, ..Write::default() });
        let codes = || plan.result.statuses.iter().flat_map(|status| &status.problems).map(|problem| problem.code.as_str());
        prop_assert!(!codes().any(|code| code == "PIPELINE"), "{:?}", plan.result.statuses);
        bridge.take(&plan.updates);
        node_state.settle(plan);
        bridge.is_as(&node_state);
        sound(&node_state);
        let plan = match node_state.plan_node(&node) {
            Ok(plan) => plan,
            Err(problems) => {
                prop_assert!(!problems.all().iter().any(|problem| problem.code == crate::Code::Pipeline), "{:?}", problems);
                return Ok(());
            }
        };
        bridge.take(&plan.updates);
        node_state.settle(plan);
        bridge.is_as(&node_state);
        sound(&node_state);
    }
}
