//! Pods of the wire.

use super::PARTS;
use crate::object::egress::tests::wired;
use crate::testing::{PORTS, apply, assert_has, document_node, dual_node, dump, dump_of, ip, mac, peer, pod, degraded, node_state};
use crate::wire::Under;
use crate::{Flush, Key, ObjectKind, Ports, NodeState, Table, Wire, Write, Zones};
use std::collections::BTreeSet;
use vswitch_flow::spec::Update;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::traceflow_end::End;

fn node() -> v1::NodeConfig {
    let mut node = dual_node();
    node.uplink =
        Some(v1::Uplink { port: "uplink0".to_owned(), mac: mac("02:00:00:00:00:02"), ..v1::Uplink::default() });
    node.features = Some(v1::Features { pod_vlans: true, ..node.features.unwrap_or_default() });
    node
}

/// web, db or web2 (ports 37, 38, 42) in a VLAN; 0: untagged.
fn tagged(name: &str, vlan: u32, last: u32) -> v1::Pod {
    let addresses = vec![format!("172.16.{vlan}.{last}"), format!("fd00:172:16:{vlan}::{last}")];
    v1::Pod { vlan, addresses, ..pod(name) }
}

fn cluster() -> NodeState {
    let pods = [tagged("web", 7, 9), tagged("db", 7, 10), tagged("web2", 0, 11), pod("client")];
    node_state(&node(), pods.map(Object::Pod).into())
}

const WEB: &str = "fa:b7:53:74:21:a6";
const PUSH: &str = "push_vlan:0x8100,set_field:4103->vlan_vid";
const GROUPS: &str = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00";

#[test]
fn it_is_on_the_wire_as_itself() {
    let node_state = cluster();
    let port = "set_field:0x25->reg1,set_field:0x200000/0x600000->reg0,goto_table:TrafficControl";
    for line in [
        "table=PipelineRootClassifier, priority=200,ip actions=set_field:0xfff0->reg8,goto_table:Classifier".to_owned(),
        "table=Classifier, priority=190,ip,in_port=37 actions=set_field:0x3/0xf->reg0,set_field:0x10000000/0x10000000->reg4,set_field:0x100000/0x100000->reg4,set_field:0x1007->reg8,goto_table:SpoofGuard".to_owned(),
        "table=Classifier, priority=190,ipv6,in_port=37 actions=set_field:0x3/0xf->reg0,set_field:0x10000000/0x10000000->reg4,set_field:0x100000/0x100000->reg4,set_field:0x3007->reg8,goto_table:SpoofGuard".to_owned(),
        format!("table=Classifier, priority=225,ip,in_port=3,dl_vlan=7,dl_dst={WEB} actions=set_field:0x4/0xf->reg0,set_field:0x1007->reg8,goto_table:UnSNAT"),
        "table=Classifier, priority=225,ip,in_port=3,vlan_tci=0x0000/0x0fff,dl_dst=72:1c:5d:0e:9a:23 actions=set_field:0x4/0xf->reg0,set_field:0x1000->reg8,goto_table:UnSNAT".to_owned(),
        "table=Classifier, priority=224,in_port=3,vlan_tci=0x1000/0x1000 actions=drop".to_owned(),
        "table=Classifier, priority=228,ip,in_port=3,dl_vlan=7,nw_src=172.16.7.9 actions=drop".to_owned(),
        "table=ConntrackZone, priority=200,ipv6 actions=ct(table=ConntrackState,zone=NXM_NX_REG8[0..15],nat)".to_owned(),
        format!("table=L3Forwarding, priority=218,ip,reg8=0x1007,dl_dst={WEB},nw_dst=172.16.7.9 actions=goto_table:L2ForwardingCalc"),
        format!("table=L3Forwarding, priority=217,ipv6,reg8=0x3007,ipv6_dst=fd00:172:16:7::9 actions=set_field:{WEB}->eth_dst,goto_table:L3DecTTL"),
        "table=L3Forwarding, priority=216,ip,reg4=0x100000/0x100000 actions=set_field:0x40/0xf0->reg0,goto_table:L2ForwardingCalc".to_owned(),
        "table=L3Forwarding, priority=215,ip,reg8=0x1000/0xd000 actions=drop".to_owned(),
        format!("table=L2ForwardingCalc, priority=206,reg8=0x1007/0xdfff,dl_dst={WEB} actions={port}"),
        format!("table=VLAN, priority=190,reg1=0x3,in_port=37 actions={PUSH},goto_table:Output"),
        "table=VLAN, priority=190,in_port=3,vlan_tci=0x1000/0x1000 actions=pop_vlan,goto_table:Output".to_owned(),
    ] {
        assert_has(&node_state, &line);
    }
    // Nothing of an ordinary Pod's: no route by the gateway, no way in by its MAC address alone.
    let mine = |line: &&String| line.contains("172.16.") || line.contains(WEB);
    let routes = dump_of(&node_state, &["L3Forwarding"]);
    assert!(routes.iter().filter(mine).all(|line| line.contains("reg8=") || line.contains("reg0=0x6/0xe")), "{routes:#?}");
    let switched = dump_of(&node_state, &["L2ForwardingCalc"]);
    assert_eq!(switched.iter().filter(|line| line.contains(WEB)).count(), 1, "{switched:#?}");
    // What is not tagged is not tagged on its way out either.
    assert!(!dump_of(&node_state, &["VLAN"]).iter().any(|line| line.contains("web2")));
    for key in [Key::node(), Key::new(ObjectKind::Pod, "default/web"), Key::new(ObjectKind::Pod, "default/web2")] {
        assert!(node_state.store().compiled(&key).unwrap().faults().is_empty(), "{key}");
    }
}

#[test]
fn who_asks_all_asks_his_vlan() {
    let mut node_state = cluster();
    let all = |node_state: &NodeState| -> BTreeSet<String> {
        let lines = dump_of(node_state, &["ARPResponder", "IPv6"]).into_iter().filter(|line| line.contains("01:00:00:00:00:00"));
        lines.filter(|line| line.contains("priority=212") || line.contains("icmp_type=135")).collect()
    };
    let to_parts: String = (0..PARTS).map(|part| format!("set_field:{part:#x}->reg1,resubmit(,Output),")).collect();
    let to_parts = format!("set_field:0x600000/0x600000->reg0,{to_parts}");
    let has = |node_state: &NodeState, of_seven: &[(u32, &str)]| {
        assert_has(node_state, &format!("table=ARPResponder, priority=212,arp,reg8=0x1007/0xdfff,{GROUPS} actions={to_parts}{PUSH},output:3"));
        let asks = "icmp6,icmp_type=135,icmp_code=0";
        assert_has(node_state, &format!("table=IPv6, priority=214,{asks},reg8=0x1007/0xdfff,{GROUPS} actions={to_parts}{PUSH},output:3"));
        assert_has(node_state, &format!("table=ARPResponder, priority=212,arp,reg8=0x1000/0xdfff,{GROUPS} actions={to_parts}output:3"));
        assert_eq!(all(node_state).len(), 4, "{:#?}", all(node_state));
        for (vlan, part, ports) in of_seven.iter().map(|(part, ports)| (7, *part, *ports)).chain([(0, 10, "output:42")]) {
            assert_has(node_state, &format!("table=Output, priority=216,reg0=0x600000/0x600000,reg1={part:#x},reg8=0x100{vlan}/0xdfff actions={ports}"));
        }
        let parts = dump_of(node_state, &["Output"]).into_iter().filter(|line| line.contains("priority=216"));
        assert_eq!(parts.count(), of_seven.len() + 1);
    };
    // Ports 37 and 38 are of two parts, 37 and 53 of one.
    has(&node_state, &[(5, "output:37"), (6, "output:38")]);
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Pod, "default/web")], ..Write::default() });
    node_state.settle(plan);
    has(&node_state, &[(6, "output:38")]);
    let ports = PORTS.into_iter().chain([("web3", 53)]).map(|(name, number)| (name.to_owned(), number));
    node_state.set_ports(ports.collect());
    let third = v1::Pod { name: "default/web3".to_owned(), port: "web3".to_owned(), mac: mac("02:00:00:00:00:53"), ..tagged("web", 7, 12) };
    apply(&mut node_state, vec![Object::Pod(tagged("web", 7, 9)), Object::Pod(third)]);
    has(&node_state, &[(5, "output:37,output:53"), (6, "output:38")]);
    for line in [
        "table=ARPSpoofGuard, priority=210,arp,in_port=3,dl_vlan=7 actions=pop_vlan,set_field:0x1007->reg8,goto_table:ARPResponder".to_owned(),
        "table=ARPSpoofGuard, priority=200,arp,in_port=37,arp_spa=172.16.7.9,arp_sha=fa:b7:53:74:21:a6 actions=set_field:0x1007->reg8,goto_table:ARPResponder".to_owned(),
        format!("table=ARPResponder, priority=213,arp,reg8=0x1007/0xdfff,dl_dst={WEB} actions=output:37"),
        format!("table=ARPResponder, priority=211,arp,reg8=0x1007/0xdfff actions={PUSH},output:3"),
        "table=Classifier, priority=227,icmp6,in_port=3,dl_vlan=7,icmp_type=134 actions=pop_vlan,set_field:0x4/0xf->reg0,set_field:0x3007->reg8,goto_table:IPv6".to_owned(),
        // A Pod is no router.
        format!("table=IPv6, priority=214,icmp6,reg0=0x4/0xf,reg8=0x1007/0xdfff,{GROUPS},icmp_type=134 actions={to_parts}{PUSH},output:3"),
        format!("table=IPv6, priority=213,icmp6,reg0=0x3/0xf,reg8=0x1007/0xdfff,ipv6_dst=ff00::/8,icmp_type=133 actions={PUSH},output:3"),
    ] {
        assert_has(&node_state, &line);
    }
}

#[test]
fn zones_are_known_as_long_as_a_pod_is_there() {
    let mut node_state = cluster();
    let zones = |node_state: &NodeState| node_state.facts().unwrap().vlan_zones();
    assert_eq!(zones(&node_state), [0x1000, 0x1007, 0x3000, 0x3007].into());
    let some = [Key::node(), Key::new(ObjectKind::Pod, "default/client"), Key::new(ObjectKind::Pod, "default/web2")];
    assert_eq!(node_state.facts().unwrap().vlan_zones_of(&some), [0x1000, 0x3000].into(), "of these Pods alone");
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Pod, "default/web2")], ..Write::default() });
    node_state.settle(plan);
    assert_eq!(zones(&node_state), [0x1007, 0x3007].into());
    let known = node_state.facts().unwrap().node.zones;
    assert!(known.contains(0x1fff) && known.is_main(0x3007) && known.is_main(65520) && !known.is_main(65521));
    assert!(!known.contains(0x2007) && !known.contains(65519) && !Zones::default().contains(0x1007));
}

#[test]
fn an_address_in_a_vlan_is_no_address_of_the_node() {
    let mut node_state = node_state(&node(), Vec::new());
    let problems = degraded(&mut node_state, Object::Pod(v1::Pod { vlan: 7, ..pod("web") }));
    assert_eq!((problems[0].code.as_str(), problems[0].field.as_str()), ("OVERLAP", "addresses[0]"), "{problems:?}");
    // Without the feature Pods of foreign addresses are as they were.
    let mut plain = node();
    plain.features = Some(v1::Features { pod_vlans: false, ..plain.features.unwrap_or_default() });
    let node_state = crate::testing::node_state(&plain, vec![Object::Pod(tagged("web2", 0, 11))]);
    let dump = dump(&node_state);
    assert!(!dump.contains_key("VLAN"));
    assert!(!dump.values().flatten().any(|line| line.contains("reg8")), "{dump:#?}");
}

/// A node state with this Node and so many Pods of VLAN 7, each with a port; beside it, one more.
fn many(node: &v1::NodeConfig, count: u32) -> (NodeState, Object) {
    let mut node_state = NodeState::default();
    let ports = PORTS.map(|(name, number)| (name.to_owned(), number)).into_iter();
    node_state.set_ports(ports.chain((0..=count).map(|number| (format!("p{number}"), 100 + number))).collect::<Ports>());
    node_state.set_wire(Wire { under: Some(Under { patch: 7, host: String::new(), vtep: 8, wire: None, tunnels: Vec::new() }), ..Wire::default() });
    let plan = node_state.plan_node(node).unwrap_or_else(|problems| panic!("{problems:?}"));
    node_state.settle(plan);
    let one = |number: u32| {
        let (high, low) = (number / 250, number % 250 + 2);
        let (name, port) = (format!("default/p{number}"), format!("p{number}"));
        let addresses = vec![format!("172.16.{high}.{low}")];
        Object::Pod(v1::Pod { name, port, addresses, mac: mac(&format!("02:00:00:01:{high:02x}:{low:02x}")), vlan: 7, uid: String::new(), ..v1::Pod::default() })
    };
    apply(&mut node_state, (0..count).map(one).collect());
    node_state.settle_wire();
    (node_state, one(count))
}

#[test]
fn one_more_of_five_thousand_costs_what_one_more_of_some_costs() {
    let mut node = wired(document_node());
    node.features = Some(v1::Features { pod_vlans: true, ..node.features.unwrap_or_default() });
    let mut costs = [32, 5000].map(|count| {
        let (mut node_state, another) = many(&node, count);
        let updates = apply(&mut node_state, vec![another]);
        let (mut own, mut of_part) = (Vec::new(), Vec::new());
        for update in &updates {
            let Update::AddFlow(flow) = update else { panic!("{update:?}") };
            let to = if flow.table == Table::Output.number() { &mut of_part } else { &mut own };
            to.push((flow.table, flow.priority, flow.actions.len()));
        }
        // In the bridge behind the uplink: from it, to it; questions to all.
        assert_eq!(node_state.store().on_wire().touched().count(), 3);
        own.sort_unstable();
        (own, of_part)
    });
    let parts = costs.each_mut().map(|(_, of_part)| std::mem::take(of_part));
    assert_eq!(costs[0], costs[1]);
    let part = |ports: u32| vec![(Table::Output.number(), 216, ports as usize)];
    assert_eq!(parts, [part(32 / PARTS + 1), part(5000 / PARTS + 1)], "the ports of its part");
}

#[test]
fn nobody_on_the_wire_has_an_address_of_ours() {
    let both = ["10.10.1.0/24", "fd00:10:10:1::/64"].map(str::to_owned);
    let peer = v1::PeerNode { pod_cidrs: both.into(), ..peer() };
    let objects = || vec![Object::Pod(tagged("web", 7, 9)), Object::Pod(pod("client")), Object::PeerNode(peer.clone())];
    let drops = |node_state: &NodeState| -> BTreeSet<String> {
        let lines = dump_of(node_state, &["Classifier", "ARPSpoofGuard"]).into_iter();
        lines.filter(|line| line.ends_with("actions=drop")).collect()
    };
    let encap = node_state(&node(), objects());
    // What leads to Pods of the wire is at 225, ARP at 210, neighbours at 227.
    let own = ["172.16.7.9", "fd00:172:16:7::9"];
    let ours = ["10.10.0.0/24", "fd00:10:10::/64", "10.10.1.0/24", "fd00:10:10:1::/64", "10.10.0.1", "fd00:10:10::1", "10.96.0.0/12", "fd00:10:96::/64"];
    let virtuals = ["169.254.0.252", "169.254.0.253"];
    for (tag, address) in own.map(|own| (",dl_vlan=7", own)).into_iter().chain(ours.into_iter().chain(virtuals).map(|our| ("", our))) {
        let from = format!("in_port=3{tag}");
        if address.contains(':') {
            assert_has(&encap, &format!("table=Classifier, priority=228,ipv6,{from},ipv6_src={address} actions=drop"));
            let says = format!("icmp6,{from},icmp_type=136,icmp_code=0,nd_target={address}");
            assert_has(&encap, &format!("table=Classifier, priority=228,{says} actions=drop"));
        } else {
            assert_has(&encap, &format!("table=Classifier, priority=228,ip,{from},nw_src={address} actions=drop"));
            assert_has(&encap, &format!("table=ARPSpoofGuard, priority=211,arp,{from},arp_spa={address} actions=drop"));
        }
    }
    // The Node itself is on the wire.
    assert_has(&encap, "table=Classifier, priority=220,ip,in_port=3,nw_src=192.168.77.102 actions=drop");
    // Without tunnels, so are ordinary Pods, by routers.
    let plain = v1::NodeConfig { traffic_mode: v1::TrafficMode::NoEncap.into(), tunnel: None, ..node() };
    let routed = node_state(&plain, objects());
    for cidr in ["10.10.0.0/24", "10.10.1.0/24"] {
        assert_has(&routed, &format!("table=Classifier, priority=220,ip,in_port=3,nw_src={cidr} actions=drop"));
    }
    assert_has(&routed, "table=Classifier, priority=228,ip,in_port=3,nw_src=10.96.0.0/12 actions=drop");
    assert_eq!(drops(&encap).len() - drops(&routed).len(), 4, "one word to neighbours for each of their prefixes");
}

#[test]
fn a_tag_without_a_vlan_is_none() {
    let node_state = cluster();
    assert_has(&node_state, "table=PipelineRootClassifier, priority=210,in_port=3,vlan_tci=0x1000/0x1fff actions=pop_vlan,set_field:0x10000/0x10000->reg8,resubmit(,PipelineRootClassifier)");
    // Behind it there is none either.
    assert_has(&node_state, "table=PipelineRootClassifier, priority=211,in_port=3,reg8=0x10000/0x10000,vlan_tci=0x1000/0x1000 actions=drop");
    let mut plain = node();
    plain.features = Some(v1::Features { pod_vlans: false, ..plain.features.unwrap_or_default() });
    let without = crate::testing::node_state(&plain, Vec::new());
    assert!(!dump(&without).values().flatten().any(|line| line.contains("vlan_tci=0x1000/0x1fff")));
}

#[test]
fn connections_end_with_a_pods_place_on_the_wire() {
    let (inside, outside) = ("10.10.0.23", "fd00:192:168:77::51");
    let both = v1::Pod { addresses: vec![inside.to_owned(), outside.to_owned()], ..pod("web2") };
    let flat = v1::Pod { addresses: vec![outside.to_owned()], ..pod("web2") };
    let mut node_state = node_state(&node(), vec![Object::Pod(both.clone())]);
    let mut flushed = |pod: v1::Pod| {
        let plan = node_state.plan(Write { objects: vec![Object::Pod(pod)], ..Write::default() });
        let flush = plan.flush.clone();
        node_state.settle(plan);
        flush
    };
    let [inside, outside] = [inside, outside].map(|address| Flush::Address(ip(address)));
    assert_eq!(flushed(flat), [inside, outside.clone()]);
    assert_eq!(flushed(both.clone()), [outside], "it is an ordinary one again");
    assert_eq!(flushed(v1::Pod { mac: mac("02:00:00:00:00:99"), ..both }), []);
}

#[test]
fn another_wire_is_of_no_interest_to_ordinary_pods() {
    let compiled = |node: &v1::NodeConfig| {
        let mut node_state = node_state(node, vec![Object::Pod(tagged("web", 0, 9)), Object::Pod(pod("client"))]);
        let under = Some(Under { patch: 7, host: String::new(), vtep: 8, wire: None, tunnels: Vec::new() });
        let plan = node_state.plan_wire(Wire { under, ..Wire::default() }).expect("a plan");
        let keys: Vec<Key> = plan.compiled().filter(|key| key.kind == ObjectKind::Pod).cloned().collect();
        node_state.settle(plan);
        keys
    };
    assert_eq!(compiled(&node()), [Key::new(ObjectKind::Pod, "default/web")]);
    let mut plain = node();
    plain.features = Some(v1::Features { pod_vlans: false, ..plain.features.unwrap_or_default() });
    assert_eq!(compiled(&plain), []);
}

#[test]
fn a_traceflow_goes_to_whom_the_pod_would_send() {
    let pods = [tagged("web", 7, 9), tagged("db", 7, 10), tagged("web2", 8, 11), pod("client")];
    let mut node = node();
    let hop = v1::NextHop { address: "192.168.77.1".to_owned(), mac: mac("02:00:00:00:00:fe") };
    node.uplink.as_mut().expect("an uplink").next_hops = vec![hop];
    let mut node_state = node_state(&node, pods.map(Object::Pod).into());
    let next_hop = |node_state: &mut NodeState, from: &str, to: &str| {
        let end = |name: &str| Some(v1::TraceflowEnd { end: Some(End::Pod(format!("default/{name}"))) });
        let asked = v1::Traceflow { name: "t".to_owned(), source: end(from), destination: end(to), ..v1::Traceflow::default() };
        let (plan, traceflow) = node_state.plan_traceflow(&asked, 7).unwrap_or_else(|refused| panic!("{refused:?}"));
        node_state.revert(plan);
        traceflow.packet_out().map(|out| out.packet[..6].to_vec()).unwrap_or_default()
    };
    let octets = |text: &str| mac(text).map(|mac| mac.octets).unwrap_or_default();
    let (db, gateway) = ("36:48:21:a2:9d:b4", "ba:5e:d1:55:aa:c0");
    assert_eq!(next_hop(&mut node_state, "web", "db"), octets(db), "of its VLAN");
    assert_eq!(next_hop(&mut node_state, "web", "web2"), octets(gateway), "its router's is not known");
    assert_eq!(next_hop(&mut node_state, "client", "web"), octets(gateway), "by the host");
    apply(&mut node_state, vec![Object::Pod(tagged("web2", 0, 11))]);
    assert_eq!(next_hop(&mut node_state, "web2", "web"), octets("02:00:00:00:00:fe"), "the router of what is not tagged");
}
