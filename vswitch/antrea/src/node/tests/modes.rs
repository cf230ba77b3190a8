//! Traffic modes, features, and the uplink.

use crate::testing::{assert_has, document_node, dual_node, dump, dump_of, mac, node_state, peer, pod};
use crate::{Key, NodeState};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// The document's Node in another mode, without what only encap has.
pub(super) fn mode(mode: v1::TrafficMode, proxy: bool) -> v1::NodeConfig {
    let tunneled = mode == v1::TrafficMode::Hybrid;
    let mut node = document_node();
    node.set_traffic_mode(mode);
    node.tunnel = node.tunnel.filter(|_| tunneled);
    node.l7 = None;
    node.features = Some(v1::Features { proxy: Some(proxy), ..v1::Features::default() });
    if mode == v1::TrafficMode::NetworkPolicyOnly {
        node.pod_cidrs.clear();
    }
    node
}

fn has_no(node_state: &NodeState, part: &str) {
    let lines: Vec<String> = dump(node_state).into_values().flatten().filter(|line| line.contains(part)).collect();
    assert!(lines.is_empty(), "{lines:#?}");
}

const GATEWAY: &str = "set_field:ba:5e:d1:55:aa:c0->eth_dst,set_field:0x20/0xf0->reg0,goto_table:L3DecTTL";

#[test]
fn policy_only_leaves_routes_to_the_host_and_judges_services_again() {
    let node = mode(v1::TrafficMode::NetworkPolicyOnly, false);
    let node_state = node_state(&node, vec![Object::Pod(pod("web"))]);
    for line in [
        format!("table=L3Forwarding, priority=190,ip actions={GATEWAY}"),
        "table=L3Forwarding, priority=195,ip,nw_dst=10.10.0.24 actions=set_field:fa:b7:53:74:21:a6->eth_dst,goto_table:L3DecTTL".to_owned(),
        "table=ARPResponder, priority=200,arp,arp_op=1 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:aa:bb:cc:dd:ee:ff->eth_src,set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:aa:bb:cc:dd:ee:ff->arp_sha,move:NXM_OF_ARP_TPA[]->NXM_NX_REG2[],move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],move:NXM_NX_REG2[]->NXM_OF_ARP_SPA[],IN_PORT".to_owned(),
        "table=ConntrackZone, priority=220,ip,in_port=2,nw_dst=10.10.0.24 actions=ct(table=ConntrackState,zone=65520,nat)".to_owned(),
        "table=ConntrackZone, priority=210,ip,in_port=2,nw_src=10.10.0.24 actions=set_field:0x20000000/0x20000000->reg4,goto_table:AntreaPolicyEgressRule".to_owned(),
        "table=ConntrackZone, priority=211,ip,nw_frag=yes,in_port=2,nw_src=10.10.0.24 actions=set_field:0x20000000/0x20000000->reg4,ct(table=AntreaPolicyEgressRule,zone=65522)".to_owned(),
        "table=ConntrackCommit, priority=210,reg4=0x20000000/0x20000000 actions=goto_table:Output".to_owned(),
        "table=Output, priority=215,reg0=0x200000/0x600000,reg1=0x2,reg4=0x20000000/0x20000000 actions=set_field:0e:00:00:00:00:01->eth_src,IN_PORT".to_owned(),
        "table=DNAT, priority=200,ip,nw_dst=10.96.0.0/12 actions=set_field:ba:5e:d1:55:aa:c0->eth_dst,set_field:0x2->reg1,set_field:0x200000/0x600000->reg0,goto_table:ConntrackCommit".to_owned(),
        "table=ConntrackState, priority=0 actions=goto_table:DNAT".to_owned(),
    ] {
        assert_has(&node_state, &line);
    }
    has_no(&node_state, "tun_dst");
    has_no(&node_state, "ServiceLB");
    // By the virtual address nobody can be bridged to the Pod.
    has_no(&node_state, "reg0=0/0x200");
    // Nor if the cluster gives its Nodes CIDRs.
    let mut with_cidr = node;
    with_cidr.pod_cidrs = vec!["10.10.0.0/24".to_owned()];
    has_no(&crate::testing::node_state(&with_cidr, vec![Object::Pod(pod("web"))]), "reg0=0/0x200");
    let mut node = mode(v1::TrafficMode::NetworkPolicyOnly, false);
    node.set_families(v1::Families::Ipv6);
    node.service_cidrs.clear();
    node.gateway.as_mut().unwrap().addresses.clear();
    let six = crate::testing::node_state(&node, Vec::new());
    let answer = dump_of(&six, &["IPv6"]);
    assert!(
        answer
            .iter()
            .any(|line| line.contains("priority=210") && line.contains("move:NXM_NX_ND_TARGET[]->NXM_NX_IPV6_SRC[]")),
        "{answer:?}"
    );
    has_no(&six, "arp,");
}

#[test]
fn without_encapsulation_peers_are_behind_the_gateway() {
    let with =
        node_state(&mode(v1::TrafficMode::NoEncap, true), vec![Object::PeerNode(peer()), Object::Pod(pod("web"))]);
    assert_has(&with, &format!("table=L3Forwarding, priority=200,ip,nw_dst=10.10.1.0/24 actions={GATEWAY}"));
    has_no(&with, "0x20000000/0x20000000");
    let without = node_state(&mode(v1::TrafficMode::NoEncap, false), vec![Object::Pod(pod("web"))]);
    assert_has(
        &without,
        "table=ConntrackZone, priority=220,ip,in_port=2,nw_dst=10.10.0.24 actions=ct(table=ConntrackState,zone=65520,nat)",
    );
    let routed = "table=L3Forwarding, priority=201,ip,reg0=0x2/0xf,nw_dst=10.10.0.24 actions=set_field:fa:b7:53:74:21:a6->eth_dst,goto_table:L3DecTTL";
    assert_has(&without, routed);
    has_no(&with, "priority=201,ip,reg0=0x2/0xf");
}

#[test]
fn what_enters_again_for_nobody_known_leaves_by_the_gateway() {
    let back = format!("table=L3Forwarding, priority=190,ip,reg0=0x2/0xf,reg4=0x20000000/0x20000000 actions={GATEWAY}");
    for of in [v1::TrafficMode::NoEncap, v1::TrafficMode::Hybrid] {
        assert_has(&node_state(&mode(of, false), Vec::new()), &back);
        has_no(&node_state(&mode(of, true), Vec::new()), "reg4=0x20000000/0x20000000");
    }
    // There everything does.
    has_no(
        &node_state(&mode(v1::TrafficMode::NetworkPolicyOnly, false), Vec::new()),
        "L3Forwarding, priority=190,ip,reg0",
    );
}

#[test]
fn hybrid_tunnels_to_other_links_alone() {
    let node = mode(v1::TrafficMode::Hybrid, false);
    let far = v1::PeerNode {
        name: "far".to_owned(),
        pod_cidrs: vec!["10.10.2.0/24".to_owned()],
        transport_addresses: vec!["192.168.78.104".to_owned()],
        ..peer()
    };
    let node_state = node_state(&node, vec![Object::PeerNode(peer()), Object::PeerNode(far)]);
    let tunnel = |end: &str| {
        format!(
            "set_field:ba:5e:d1:55:aa:c0->eth_src,set_field:aa:bb:cc:dd:ee:ff->eth_dst,set_field:{end}->tun_dst,set_field:0x10/0xf0->reg0,goto_table:L3DecTTL"
        )
    };
    for line in [
        format!("table=L3Forwarding, priority=200,ip,nw_dst=10.10.1.0/24 actions={GATEWAY}"),
        format!("table=L3Forwarding, priority=200,ip,nw_dst=10.10.2.0/24 actions={}", tunnel("192.168.78.104")),
        format!("table=L3Forwarding, priority=201,ct_state=+rpl+trk,ct_mark=0x1/0xf,ip,reg0=0x2/0xf,nw_dst=10.10.1.0/24 actions={}", tunnel("192.168.77.103")),
        "table=ConntrackZone, priority=220,ip,in_port=2,nw_dst=10.10.2.0/24 actions=ct(table=ConntrackState,zone=65520,nat)".to_owned(),
    ] {
        assert_has(&node_state, &line);
    }
}

#[test]
fn features_that_are_off_write_nothing() {
    let mut node = document_node();
    node.l7 = None;
    node.features = Some(v1::Features { antrea_policy: Some(false), egress: Some(false), ..v1::Features::default() });
    let node_state = node_state(&node, vec![Object::Pod(pod("web")), Object::PeerNode(peer())]);
    for line in [
        "table=EgressRule, priority=210,ct_state=-new+est,ip actions=goto_table:EgressMetric",
        "table=IngressRule, priority=210,ct_state=-new+rel,ip actions=goto_table:IngressMetric",
        // Without proxyAll there are no NodePorts, and the table behind theirs is not looked up in
        // their place.
        "table=PreRoutingClassifier, priority=200,ip actions=resubmit(,SessionAffinity),resubmit(,ServiceLB)",
        "table=ConntrackState, priority=190,ct_state=+new+trk,ct_mark=0x10/0x10,ip actions=set_field:0x200/0x200->reg0,set_field:0x40000/0x70000->reg4,resubmit(,ServiceLB,ct),set_field:0x20000/0x70000->reg4,goto_table:EgressRule",
        "table=L2ForwardingCalc, priority=0 actions=goto_table:IngressSecurityClassifier",
    ] {
        assert_has(&node_state, line);
    }
    let tables = dump(&node_state);
    for table in ["EgressMark", "TrafficControl", "NodePortMark", "AntreaPolicyEgressRule", "DNAT", "VLAN"] {
        assert!(!tables.contains_key(table), "{table}");
    }
    has_no(&node_state, "0x80/0x80");
    let part = node_state.store().compiled(&Key::node()).unwrap();
    assert!(part.faults().is_empty());
}

#[test]
fn the_hosts_own_port_is_believed() {
    let mut node = document_node();
    node.set_local_probe(v1::LocalProbe::ByPort);
    node.local_probe_port = "probe0".to_owned();
    let node_state = node_state(&node, Vec::new());
    assert_has(
        &node_state,
        "table=IngressSecurityClassifier, priority=210,ct_state=-rpl+trk,ip,in_port=4 actions=goto_table:ConntrackCommit",
    );
    assert_has(
        &node_state,
        "table=Classifier, priority=200,in_port=4 actions=set_field:0x2/0xf->reg0,set_field:0x10000000/0x10000000->reg4,goto_table:SpoofGuard",
    );
}

#[test]
fn what_the_agent_answers_is_the_documents() {
    let mut node = document_node();
    node.taken_over = vec![v1::PacketCategory::ServiceReject.into(), v1::PacketCategory::PolicyReject.into()];
    let node_state = node_state(&node, Vec::new());
    assert_has(
        &node_state,
        "table=EndpointDNAT, priority=200,reg0=0x4000/0x4000 actions=controller(reason=no_match,id=62377,userdata=04)",
    );
    assert_has(
        &node_state,
        "table=Output, priority=200,reg0=0x4400000/0xfe600000 actions=meter:256,controller(reason=no_match,id=62373,userdata=01.02)",
    );
}

#[test]
fn from_the_wire_comes_no_address_of_ours_and_answers_go_where_it_came_from() {
    let mut node = dual_node();
    node.uplink =
        Some(v1::Uplink { port: "uplink0".to_owned(), mac: mac("02:00:00:00:00:02"), ..v1::Uplink::default() });
    let mut wire = peer();
    wire.pod_cidrs.push("fd00:10:10:1::/64".to_owned());
    wire.set_path(v1::PeerPath::Uplink);
    wire.mac = mac("02:00:00:00:00:03");
    let foreign = v1::Pod { addresses: vec!["10.20.0.9".to_owned()], ..pod("web") };
    let node_state = node_state(&node, vec![Object::PeerNode(wire), Object::Pod(foreign)]);
    let from = "set_field:0x4/0xf->reg0,set_field:0x200/0x200->reg0,set_field:0x8000000/0x8000000->reg4,move:NXM_OF_ETH_SRC[]->OXM_OF_PKT_REG5[0..47],goto_table:UnSNAT";
    for line in [
        format!("table=Classifier, priority=200,in_port=3,dl_dst=02:00:00:00:00:02 actions={from}"),
        format!("table=Classifier, priority=221,ip,in_port=3,dl_src=02:00:00:00:00:03,dl_dst=02:00:00:00:00:02,nw_src=10.10.1.0/24 actions={from}"),
        "table=L3Forwarding, priority=200,ip,nw_dst=10.10.1.0/24 actions=set_field:02:00:00:00:00:02->eth_src,set_field:02:00:00:00:00:03->eth_dst,set_field:0x40/0xf0->reg0,goto_table:L3DecTTL".to_owned(),
        "table=SNATMark, priority=205,ct_state=+new+trk,ip,reg0=0x4/0xf actions=ct(commit,table=SNAT,zone=65520,exec(move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3],move:OXM_OF_PKT_REG5[0..47]->NXM_NX_CT_LABEL[76..123]))".to_owned(),
        "table=L3Forwarding, priority=210,ct_state=+rpl+trk,ct_mark=0x4/0xf,ipv6 actions=set_field:02:00:00:00:00:02->eth_src,move:NXM_NX_CT_LABEL[76..123]->NXM_OF_ETH_DST[],set_field:0x40/0xf0->reg0,goto_table:L3DecTTL".to_owned(),
        "table=L3Forwarding, priority=190,ip,reg0=0x6/0xf,dl_src=02:00:00:00:00:02 actions=set_field:0x40/0xf0->reg0,goto_table:L2ForwardingCalc".to_owned(),
    ] {
        assert_has(&node_state, &line);
    }
    for source in [
        "nw_src=10.10.0.0/24",
        "nw_src=10.96.0.0/12",
        "nw_src=10.10.0.1",
        "nw_src=192.168.77.102",
        "nw_src=169.254.0.252",
        "nw_src=169.254.0.253",
        "nw_src=10.10.1.0/24",
        "nw_src=10.20.0.9",
    ] {
        assert_has(&node_state, &format!("table=Classifier, priority=220,ip,in_port=3,{source} actions=drop"));
    }
    assert_has(&node_state, "table=Classifier, priority=220,ipv6,in_port=3,ipv6_src=fd00:10:10:1::/64 actions=drop");
}
