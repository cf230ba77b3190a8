//! Any sequence of writes ends where one write of its end does, and any plan can be reverted.

use super::bridge::Bridge;
use crate::testing::{dual_node, dump, egress, node_state, peer, pod, traffic_control};
use crate::{Key, MeterKey, NodeState, ObjectKind, Write};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// Objects that get into each other's way, by number and variant.
fn object(number: usize, variant: usize) -> Object {
    match number {
        0..4 => {
            let names = ["client", "web", "db", "web2"];
            let mut this = pod(names[number]);
            // The next one's address, MAC or port; or an address of its own, of another family.
            let next = pod(names[(number + 1) % names.len()]);
            match variant {
                1 => this.addresses = next.addresses,
                2 => this.mac = next.mac,
                3 => this.port = next.port,
                4 => this.addresses.push(format!("fd00:10:10::{number}")),
                5 => this.addresses = vec!["192.168.77.112".to_owned()],
                _ => {}
            }
            let rate = |rate_kbps| v1::PodBandwidth { rate_kbps, burst_kb: 0 };
            this.ingress_bandwidth = (variant % 3 == 1).then(|| rate(1000 + u32::from(variant == 4)));
            this.egress_bandwidth = (variant % 2 == 1).then(|| rate(2000));
            Object::Pod(this)
        }
        4 | 5 => {
            let mut this = peer();
            if number == 5 {
                this.name = "worker-3".to_owned();
                this.transport_addresses = vec!["192.168.77.104".to_owned()];
            }
            let cidr = if (number == 5) ^ (variant == 1) { "10.10.2.0/24" } else { "10.10.1.0/24" };
            this.pod_cidrs = vec![cidr.to_owned(), format!("fd00:{number}::/64")];
            this.tunnel_port = if variant == 2 { "antrea-l7-tap0" } else { "" }.to_owned();
            this.tunnel_port = if variant == 3 { "uplink0" } else { &this.tunnel_port }.to_owned();
            Object::PeerNode(this)
        }
        6..9 => {
            let mut this = egress(if number == 7 { "client" } else { "web" });
            this.name = format!("egress-{number}");
            this.pods = ["default/web", "default/client"][..=variant % 2].iter().map(ToString::to_string).collect();
            if variant > 2 {
                this.address = "fd00:192:168:77::112".to_owned();
            }
            if variant % 3 == 1 {
                this.bandwidth = Some(v1::EgressBandwidth { rate_kbps: 1000 + u32::from(variant == 4), burst_kb: 100 });
            }
            this.node = if variant == 5 { "worker-3".to_owned() } else { this.node };
            Object::Egress(this)
        }
        _ => {
            let mut this = traffic_control(if number.is_multiple_of(2) { "web" } else { "db" });
            this.name = format!("control-{number}");
            this.pods = ["default/db", "default/web"][..=variant % 2].iter().map(ToString::to_string).collect();
            this.priority = u32::from(variant == 2);
            if variant == 3 {
                this.set_direction(v1::TrafficDirection::Ingress);
            }
            if variant == 4 {
                this.target_port = "web2-6f8c-1a2b3".to_owned();
            }
            Object::TrafficControl(this)
        }
    }
}

const NUMBERS: usize = 12;

fn node() -> v1::NodeConfig {
    let mut node = dual_node();
    node.features = Some(v1::Features { egress_traffic_shaping: true, ..node.features.unwrap_or_default() });
    node.l7 = None;
    node.features = Some(v1::Features { l7_network_policy: false, ..node.features.unwrap_or_default() });
    node
}

/// All flows, with addresses for their marks: numbers depend on what was before.
fn state(node_state: &NodeState) -> (BTreeMap<String, BTreeSet<String>>, String) {
    let marks: Vec<(u32, String)> = node_state
        .ids()
        .marked()
        .filter_map(|address| Some((node_state.ids().mark(address)?, address.to_string())))
        .collect();
    let pods = node_state.desired().of(ObjectKind::Pod);
    let keys = pods.flat_map(|(key, _)| [true, false].map(|ingress| MeterKey { pod: Arc::clone(&key.name), ingress }));
    let meters: Vec<(u32, String)> =
        keys.filter_map(|key| Some((node_state.ids().meter(&key)?, format!("{key:?}")))).collect();
    let named = |line: String| {
        let line =
            meters.iter().fold(line, |line, (id, key)| line.replace(&format!("meter:{id},"), &format!("meter:{key},")));
        marks.iter().fold(line, |line, (mark, address)| {
            line.replace(&format!("{mark:#x}/0xff->pkt_mark"), &format!("{address}->pkt_mark"))
                .replace(&format!("pkt_mark={mark:#x}/0xff"), &format!("pkt_mark={address}"))
                .replace(&format!("0e:00:00:00:01:{mark:02x}"), &format!("MAC of {address}"))
                .replace(&format!("meter:{mark},"), &format!("meter:{address},"))
        })
    };
    let lines = dump(node_state).into_iter().map(|(table, lines)| (table, lines.into_iter().map(named).collect()));
    (lines.collect(), format!("{:?}", node_state.degraded()))
}

/// Objects (number, variant), removals, valid only, sweep.
type Step = (Vec<(usize, usize)>, Vec<usize>, bool, bool);

fn writes() -> impl Strategy<Value = Vec<Step>> {
    let objects = prop::collection::vec((0..NUMBERS, 0..6_usize), 0..5);
    let removals = prop::collection::vec(0..NUMBERS, 0..3);
    prop::collection::vec((objects, removals, prop::bool::weighted(0.8), prop::bool::weighted(0.1)), 1..10)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn writes_come_to_what_their_end_comes_to(writes in writes()) {
        let mut grown = node_state(&node(), Vec::new());
        let mut bridge = Bridge::of(&grown);
        for (objects, removals, valid_only, sweep) in writes {
            let write = || Write {
                objects: objects.iter().map(|(number, variant)| object(*number, *variant)).collect(),
                remove: removals.iter().map(|number| crate::Object::key_of(&object(*number, 0))).collect(),
                sweep: if sweep { [ObjectKind::Pod, ObjectKind::Egress].into() } else { BTreeSet::new() },
                valid_only,
                only_odd: false,
            };
            let before = (dump(&grown), format!("{:?} {:?}", grown.ids(), grown.degraded()));
            let plan = grown.plan(write());
            grown.revert(plan);
            prop_assert_eq!(&(dump(&grown), format!("{:?} {:?}", grown.ids(), grown.degraded())), &before);
            let plan = grown.plan(write());
            bridge.take(&plan.updates);
            if !plan.result.applied {
                prop_assert!(plan.updates.is_empty() && plan.flush.is_empty());
            }
            grown.settle(plan);
            bridge.is_as(&grown);
        }
        let objects: Vec<Object> = grown.desired().all().map(|(_, entry)| entry.message.clone()).collect();
        let there: Vec<Key> = grown.desired().all().map(|(key, _)| key.clone()).collect();
        let mut synced = node_state(&node(), Vec::new());
        let plan = synced.plan(Write { objects, valid_only: true, ..Write::default() });
        prop_assert!(plan.result.applied, "{:?}", plan.result.statuses);
        synced.settle(plan);
        // Who came first has what several claim.
        let held = |node_state: &NodeState| {
            (node_state.desired().contested().clone(), node_state.desired().peer_prefixes().clone())
        };
        if held(&synced) == held(&grown) {
            prop_assert_eq!(synced.desired().all().map(|(key, _)| key.clone()).collect::<Vec<_>>(), there);
            prop_assert_eq!(state(&grown), state(&synced));
        }
    }
}

#[test]
fn variants_are_what_they_are_meant_to_be() {
    // All that are not in somebody's way are good alone.
    for number in 0..NUMBERS {
        let mut node_state = node_state(&node(), vec![object(4, 0)]);
        let plan = node_state.plan(Write { objects: vec![object(number, 0)], ..Write::default() });
        assert!(plan.result.applied, "{number}: {:?}", plan.result.statuses);
        node_state.revert(plan);
    }
}
