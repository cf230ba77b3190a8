//! Peers.

use super::PeerNode;
use crate::testing::{apply, assert_has, document_node, dual_node, dump, peer, pod, degraded, node_state};
use crate::{Code, Problems};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

fn dual() -> v1::PeerNode {
    v1::PeerNode {
        pod_cidrs: vec!["fd00:10:10:1::/64".to_owned(), "10.10.1.0/24".to_owned()],
        transport_addresses: vec!["fd00:192:168:77::103".to_owned(), "192.168.77.103".to_owned()],
        ..peer()
    }
}

const ANSWER: &str = "actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:aa:bb:cc:dd:ee:ff->eth_src,move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[]";
const REST: &str = "set_field:aa:bb:cc:dd:ee:ff->nd_sll,set_field:0x60000000->nd_reserved,set_field:2->nd_options_type,set_field:136->icmpv6_type,IN_PORT";

#[test]
fn a_peer_is_routed_to_by_each_family() {
    let node_state = node_state(&dual_node(), vec![Object::PeerNode(dual())]);
    let tunnel = "set_field:ba:5e:d1:55:aa:c0->eth_src,set_field:aa:bb:cc:dd:ee:ff->eth_dst";
    for line in [
        format!("table=L3Forwarding, priority=200,ip,nw_dst=10.10.1.0/24 actions={tunnel},set_field:192.168.77.103->tun_dst,set_field:0x10/0xf0->reg0,goto_table:L3DecTTL"),
        format!("table=L3Forwarding, priority=200,ipv6,ipv6_dst=fd00:10:10:1::/64 actions={tunnel},set_field:fd00:192:168:77::103->tun_ipv6_dst,set_field:0x10/0xf0->reg0,goto_table:L3DecTTL"),
        "table=EgressMark, priority=210,ipv6,ipv6_dst=fd00:192:168:77::103 actions=set_field:0x20/0xf0->reg0,goto_table:L2ForwardingCalc".to_owned(),
        format!("table=IPv6, priority=210,icmp6,icmp_type=135,icmp_code=0,nd_target=fd00:10:10:1::1 {ANSWER},set_field:fd00:10:10:1::1->ipv6_src,{REST}"),
    ] {
        assert_has(&node_state, &line);
    }
}

#[test]
fn pods_of_both_families_may_be_reached_by_one() {
    let four = v1::PeerNode { transport_addresses: vec!["192.168.77.103".to_owned()], ..dual() };
    let node_state = node_state(&dual_node(), vec![Object::PeerNode(four)]);
    assert_has(&node_state, "table=L3Forwarding, priority=200,ipv6,ipv6_dst=fd00:10:10:1::/64 actions=set_field:ba:5e:d1:55:aa:c0->eth_src,set_field:aa:bb:cc:dd:ee:ff->eth_dst,set_field:192.168.77.103->tun_dst,set_field:0x10/0xf0->reg0,goto_table:L3DecTTL");
}

#[test]
fn a_peer_may_have_one_family_of_two() {
    for (family, there, not_there) in [(0, "ipv6_dst=fd00:10:10:1::/64", "nw_dst=10.10.1.0/24"), (1, "nw_dst=10.10.1.0/24", "ipv6_dst=fd00:10:10:1::/64")] {
        let pod_cidrs = vec![dual().pod_cidrs[family].clone()];
        let node_state = node_state(&dual_node(), vec![Object::PeerNode(v1::PeerNode { pod_cidrs, ..dual() })]);
        let routes = dump(&node_state).remove("L3Forwarding").unwrap_or_default();
        let has = |text: &str| routes.iter().any(|line| line.contains(text));
        assert!(has(there) && !has(not_there), "{routes:?}");
    }
}

#[test]
fn gateways_are_the_given_ones() {
    let given = v1::PeerNode { gateway_addresses: vec!["10.10.1.254".to_owned()], ..peer() };
    let node_state = node_state(&document_node(), vec![Object::PeerNode(given)]);
    let responder = dump(&node_state).remove("ARPResponder").unwrap_or_default();
    assert!(responder.iter().any(|line| line.contains("arp_tpa=10.10.1.254,arp_op=1")), "{responder:?}");
    assert_eq!(responder.len(), 3);
}

#[test]
fn a_tunnel_of_its_own_is_used_both_ways() {
    let own = v1::PeerNode { tunnel_port: "probe0".to_owned(), ..peer() };
    let node_state = node_state(&document_node(), vec![Object::PeerNode(own)]);
    assert_has(&node_state, "table=Classifier, priority=200,in_port=4 actions=set_field:0x1/0xf->reg0,set_field:0x200/0x200->reg0,goto_table:UnSNAT");
    assert_has(&node_state, "table=L2ForwardingCalc, priority=201,dl_dst=aa:bb:cc:dd:ee:ff,tun_dst=192.168.77.103 actions=set_field:0x4->reg1,set_field:0x200000/0x600000->reg0,goto_table:TrafficControl");
    assert!(node_state.held_ports().contains_key("probe0"));
}

#[test]
fn everything_that_is_wrong_by_itself_is_found_at_once() {
    let read = |change: fn(&mut v1::PeerNode)| {
        let mut bad = dual();
        change(&mut bad);
        let mut problems = Problems::default();
        PeerNode::read(&bad, &mut problems);
        problems.all().iter().map(|problem| (problem.code, problem.field.clone())).collect::<Vec<_>>()
    };
    let strings = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(read(|_| ()), []);
    let is = |problems: Vec<(Code, String)>, code: Code, field: &str| assert_eq!(problems, [(code, field.to_owned())]);
    is(read(|peer| peer.pod_cidrs.push("10.11.0.0/16".to_owned())), Code::Duplicate, "pod_cidrs");
    is(read(|peer| peer.pod_cidrs[0] = "fd00::1/64".to_owned()), Code::Value, "pod_cidrs[0]");
    is(read(|peer| peer.transport_addresses.clear()), Code::Missing, "transport_addresses");
    is(read(|peer| peer.transport_addresses[1] = "224.0.0.1".to_owned()), Code::Value, "transport_addresses");
    is(read(|peer| peer.gateway_addresses = vec!["10.10.1.1".to_owned()]), Code::Missing, "gateway_addresses");
    is(read(|peer| peer.path = 9), Code::Value, "path");
    is(read(|peer| peer.set_path(v1::PeerPath::Uplink)), Code::Missing, "mac");
    is(read(|peer| peer.mac = crate::testing::mac("02:00:00:00:00:01")), Code::Value, "mac");
    let bad = v1::PeerNode { pod_cidrs: strings(&["10.10.1.0/33", "x"]), path: 7, ..v1::PeerNode::default() };
    let mut problems = Problems::default();
    PeerNode::read(&bad, &mut problems);
    assert_eq!(problems.all().len(), 4, "{problems:?}");
}

#[test]
fn what_is_wrong_beside_others_is_found() {
    let control = crate::testing::traffic_control("web");
    let there = v1::PeerNode { tunnel_port: "antrea-tc-tap2".to_owned(), ..peer() };
    let mut node_state = node_state(&document_node(), vec![Object::Pod(pod("web")), Object::PeerNode(there), Object::TrafficControl(control)]);
    apply(&mut node_state, vec![Object::Pod(v1::Pod { addresses: vec!["10.20.0.1".to_owned()], ..pod("db") })]);
    let good = v1::PeerNode {
        name: "worker-3".to_owned(),
        pod_cidrs: vec!["10.10.3.0/24".to_owned()],
        transport_addresses: vec!["192.168.77.104".to_owned()],
        ..peer()
    };
    let mut check = |change: fn(&mut v1::PeerNode), code: &str, field: &str, other: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        let problems = degraded(&mut node_state, Object::PeerNode(bad));
        let found = problems.iter().find(|problem| problem.code == code && problem.field == field);
        let found = found.unwrap_or_else(|| panic!("not {code} of {field}: {problems:?}"));
        assert_eq!(found.other.clone().unwrap_or_default().name, other, "{found:?}");
    };
    check(|peer| peer.name = "worker-2".to_owned(), "OVERLAP", "name", "");
    check(|peer| peer.pod_cidrs = vec!["10.10.0.128/25".to_owned()], "OVERLAP", "pod_cidrs[0]", "");
    check(|peer| peer.pod_cidrs = vec!["10.0.0.0/8".to_owned()], "OVERLAP", "pod_cidrs[0]", "");
    check(|peer| peer.pod_cidrs = vec!["10.100.0.0/16".to_owned()], "OVERLAP", "pod_cidrs[0]", "");
    check(|peer| peer.pod_cidrs = vec!["10.10.1.64/26".to_owned()], "OVERLAP", "pod_cidrs[0]", "worker-1");
    check(|peer| peer.pod_cidrs.clear(), "MISSING", "pod_cidrs", "");
    check(|peer| peer.pod_cidrs.push("fd00::/64".to_owned()), "FAMILY", "pod_cidrs[1]", "");
    check(|peer| peer.transport_addresses = vec!["192.168.77.102".to_owned()], "OVERLAP", "transport_addresses[0]", "");
    check(|peer| peer.transport_addresses = vec!["192.168.77.103".to_owned()], "OVERLAP", "transport_addresses[0]", "worker-1");
    check(|peer| peer.tunnel_port = "nowhere".to_owned(), "PORT", "tunnel_port", "");
    check(|peer| peer.tunnel_port = "antrea-gw0".to_owned(), "PORT", "tunnel_port", "");
    check(|peer| peer.tunnel_port = "antrea-tc-tap2".to_owned(), "OVERLAP", "tunnel_port", "worker-1");
    let uplink: fn(&mut v1::PeerNode) = |peer| {
        peer.set_path(v1::PeerPath::Uplink);
        peer.mac = crate::testing::mac("02:00:00:00:00:01");
    };
    check(uplink, "FEATURE", "path", "");
    apply(&mut node_state, vec![Object::PeerNode(good)]);
}
