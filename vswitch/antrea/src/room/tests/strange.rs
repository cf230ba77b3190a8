//! Messages that no agent would send: everything is answered, nothing panics, and what is accepted is well-formed.

use super::bridge::Bridge;
use crate::testing::{dual_node, room};
use crate::{Room, Write};
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

fn object() -> impl Strategy<Value = Object> {
    let pod = (text(), text(), texts(), mac(), number()).prop_map(|(name, port, addresses, mac, vlan)| {
        Object::Pod(v1::Pod { name, port, addresses, mac, vlan: vlan.cast_unsigned() })
    });
    let peer = (text(), texts(), texts(), texts(), number(), mac(), text());
    let peer = peer.prop_map(|(name, pod_cidrs, gateway_addresses, transport_addresses, path, mac, tunnel_port)| {
        Object::PeerNode(v1::PeerNode {
            name,
            pod_cidrs,
            gateway_addresses,
            transport_addresses,
            path,
            mac,
            tunnel_port,
        })
    });
    let rate = prop::option::of((any::<u32>(), any::<u32>()));
    let egress =
        (text(), text(), text(), texts(), number(), rate).prop_map(|(name, address, node, pods, translation, rate)| {
            let bandwidth = rate.map(|(rate_kbps, burst_kb)| v1::EgressBandwidth { rate_kbps, burst_kb });
            Object::Egress(v1::Egress { name, address, node, pods, translation, bandwidth })
        });
    let control = (text(), texts(), number(), number(), text(), text(), number());
    let control = control.prop_map(|(name, pods, direction, action, target_port, return_port, priority)| {
        let priority = priority.cast_unsigned();
        Object::TrafficControl(v1::TrafficControl { name, pods, direction, action, target_port, return_port, priority })
    });
    prop_oneof![pod, peer, egress, control]
}

fn node() -> impl Strategy<Value = v1::NodeConfig> {
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
    let uplink = (prop_oneof![Just("uplink0".to_owned()), text()], mac(), text(), mac()).prop_map(
        |(port, mac, address, hop)| v1::Uplink {
            port,
            mac,
            next_hops: vec![v1::NextHop { address, mac: hop }],
            ..v1::Uplink::default()
        },
    );
    let lists = (texts(), texts(), texts());
    (number(), number(), features, prop::option::of(uplink), number(), lists, any::<[bool; 4]>()).prop_map(
        |(mode, families, features, uplink, probe, (some, more, last), [tunnel, l7, odd, proxy])| {
            let mut node = dual_node();
            (node.traffic_mode, node.families, node.uplink, node.local_probe) = (mode, families, uplink, probe);
            let few = v1::Features {
                traffic_control: features.traffic_control,
                proxy: Some(proxy),
                ..v1::Features::default()
            };
            node.features = Some(if odd { features } else { few });
            node.tunnel = node.tunnel.filter(|_| tunnel);
            node.l7 = node.l7.filter(|_| l7);
            node.local_probe_port = "probe0".to_owned();
            if odd {
                (node.pod_cidrs, node.egress_except_cidrs, node.node_port_addresses) = (some, more, last);
            }
            node
        },
    )
}

/// Nothing in it is a mistake of ours.
fn sound(room: &Room) {
    for key in room.desired().all().map(|(key, _)| key.clone()).chain([crate::Key::node()]) {
        let Some(part) = room.store().part(&key) else { panic!("{key} wrote nothing at all") };
        assert!(part.faults().is_empty(), "{key}: {:?}", part.faults());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn strange_messages_are_answered(objects in prop::collection::vec(object(), 0..8), node in node(), valid_only: bool) {
        let mut room = room(&dual_node(), Vec::new());
        let mut bridge = Bridge::of(&room);
        let plan = room.plan(Write { objects, valid_only, ..Write::default() });
        let codes = || plan.result.statuses.iter().flat_map(|status| &status.problems).map(|problem| problem.code.as_str());
        prop_assert!(!codes().any(|code| code == "PIPELINE"), "{:?}", plan.result.statuses);
        bridge.take(&plan.updates);
        room.settle(plan);
        bridge.is_as(&room);
        sound(&room);
        let plan = match room.plan_node(&node) {
            Ok(plan) => plan,
            Err(problems) => {
                prop_assert!(!problems.all().iter().any(|problem| problem.code == crate::Code::Pipeline), "{:?}", problems);
                return Ok(());
            }
        };
        bridge.take(&plan.updates);
        room.settle(plan);
        bridge.is_as(&room);
        sound(&room);
    }
}
