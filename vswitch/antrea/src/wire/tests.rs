//! What objects need on the wire.

use super::{Under, Wire};
use crate::object::egress::tests::wired;
use crate::testing::{apply, assert_has, document_node, dual_node, dump_of, egress, ip, node_state, pod};
use crate::{Code, FlowId, Key, Mac, NodeState, ObjectKind, Write};
use std::collections::{BTreeMap, BTreeSet};
use vswitch_flow::text::{FlowCommand, NoNames, Style, format_flow, parse_flow};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

fn under() -> Under {
    Under { patch: 7, host: String::new(), vtep: 0xffff_fffe, wire: None, tunnels: vec![0, 6081] }
}

fn line(text: &str) -> String {
    let parsed = parse_flow(text, FlowCommand::Add, &NoNames).unwrap_or_else(|error| panic!("{text}: {error}"));
    let vswitch_flow::spec::Update::AddFlow(flow) = parsed.value else { panic!("{text}") };
    let flow = vswitch_flow::spec::FlowSpec { cookie: 0, ..flow };
    let mut line = String::new();
    format_flow(&flow, None, Style::default(), &NoNames, &mut line);
    line
}

pub(crate) fn lines(node_state: &NodeState) -> BTreeSet<String> {
    let told = |flow: &vswitch_flow::spec::FlowSpec| {
        assert_eq!(flow.cookie, 0x1_fe00_0000_0000, "{flow:?}");
        let mut line = String::new();
        let flow = vswitch_flow::spec::FlowSpec { cookie: 0, ..flow.clone() };
        format_flow(&flow, None, Style::default(), &NoNames, &mut line);
        line
    };
    let on_wire = node_state.store().on_wire();
    on_wire.flows().map(|id| told(&on_wire.flow(id).expect("all agree"))).collect()
}

fn has(node_state: &NodeState, texts: &[&str]) {
    let there = lines(node_state);
    for text in texts {
        let wanted = line(text);
        assert!(
            there.contains(&wanted),
            "there is no\n  {wanted}\nbut\n{}",
            there.iter().cloned().collect::<Vec<_>>().join("\n")
        );
    }
}

/// A node state whose Node has a bridge behind its uplink, and whose next hops are to be asked.
fn behind(mut node: v1::NodeConfig, objects: Vec<Object>) -> NodeState {
    let uplink = node.uplink.as_mut().expect("an uplink");
    uplink.underlay_bridge = "br-phy".to_owned();
    uplink.next_hops.iter_mut().for_each(|hop| hop.mac = None);
    let mut node_state = node_state(&node, objects);
    know(&mut node_state, Wire { under: Some(under()), ..Wire::default() });
    node_state
}

pub(crate) fn know(node_state: &mut NodeState, wire: Wire) {
    let plan = node_state.plan_wire(wire).expect("a plan");
    node_state.settle(plan);
}

fn hops(last: u8) -> BTreeMap<std::net::IpAddr, Mac> {
    [(ip("192.168.77.1"), Mac([2, 0, 0, 0, 0, last]))].into()
}

const ACROSS: &str = "clone(move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],NORMAL),output:7";

#[test]
fn an_egress_waits_for_its_next_hop_and_follows_it() {
    let mut node_state = behind(wired(document_node()), vec![Object::Pod(pod("web")), Object::Egress(egress("web"))]);
    assert_has(&node_state, "table=EgressMark, priority=200,ct_state=+trk,ip,in_port=37 actions=drop");
    let problems =
        node_state.degraded().get(&Key::new(ObjectKind::Egress, "egress-web")).expect("it has no way").all().to_vec();
    assert_eq!(
        (problems[0].code, problems[0].reason.as_str()),
        (Code::Pending, "next hop 192.168.77.1 has not answered yet")
    );
    for last in [0xfe, 0xfd] {
        know(&mut node_state, Wire { hops: hops(last), under: Some(under()) });
        assert_has(
            &node_state,
            &format!(
                "table=EgressMark, priority=200,ct_state=+trk,ip,in_port=37 actions=set_field:0x1/0xff->pkt_mark,set_field:0x40/0xf0->reg0,set_field:02:00:00:00:00:02->eth_src,set_field:02:00:00:00:00:{last:02x}->eth_dst,goto_table:L3DecTTL"
            ),
        );
        assert!(node_state.degraded().is_empty());
    }
    let version = node_state.store().on_wire().version();
    know(&mut node_state, Wire { under: Some(under()), ..Wire::default() });
    assert!(!node_state.degraded().is_empty(), "it is silent again");
    assert_eq!(
        node_state.store().on_wire().version(),
        version,
        "the bridge behind the uplink has nothing to do with that"
    );
}

#[test]
fn an_egress_ip_is_answered_for_and_tunnels_end_there() {
    let six = v1::Egress { name: "six".to_owned(), address: "fd00:192:168:77::112".to_owned(), ..egress("web") };
    let mut node_state =
        behind(wired(dual_node()), vec![Object::Pod(pod("web")), Object::Egress(egress("web")), Object::Egress(six)]);
    let to = "reg15=0/0x1,dl_dst=02:00:00:00:00:02";
    has(
        &node_state,
        &[
            "table=0, priority=311,reg15=0/0x1,in_port=7,dl_src=02:00:00:00:00:02 actions=set_field:4294967294->in_port,ct_clear,set_field:0x1/0x1->reg15,resubmit(,0)",
            "table=0, priority=309,reg15=0/0x1,in_port=7 actions=drop",
            "table=0, priority=311,reg15=0/0x1,in_port=LOCAL actions=ct_clear,set_field:0x1/0x1->reg15,resubmit(,0)",
            "table=0, priority=303,reg15=0/0x1,icmp6,ipv6_src=::,icmp_type=135,icmp_code=0 actions=ct_clear,set_field:0x1/0x1->reg15,resubmit(,0)",
            &format!("table=0, priority=306,{to},udp,nw_dst=192.168.77.112,tp_dst=6081 actions=LOCAL"),
            &format!("table=0, priority=306,{to},ip,nw_proto=47,nw_dst=192.168.77.112 actions=LOCAL"),
            &format!("table=0, priority=306,{to},udp6,ipv6_dst=fd00:192:168:77::112,tp_dst=6081 actions=LOCAL"),
            &format!("table=0, priority=304,{to},ip,nw_dst=192.168.77.112 actions={ACROSS}"),
            &format!("table=0, priority=304,{to},ipv6,ipv6_dst=fd00:192:168:77::112 actions={ACROSS}"),
            "table=0, priority=302,reg15=0/0x1,arp,arp_op=1,arp_tpa=192.168.77.112 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:02:00:00:00:00:02->eth_src,set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:02:00:00:00:00:02->arp_sha,move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],set_field:192.168.77.112->arp_spa,IN_PORT",
            "table=0, priority=302,reg15=0/0x1,icmp6,icmp_type=135,icmp_code=0,nd_target=fd00:192:168:77::112 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:02:00:00:00:00:02->eth_src,move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[],set_field:fd00:192:168:77::112->ipv6_src,set_field:02:00:00:00:00:02->nd_sll,set_field:0x60000000->nd_reserved,set_field:2->nd_options_type,set_field:136->icmpv6_type,IN_PORT",
        ],
    );
    assert_eq!(node_state.store().on_wire().vteps(), [ip("192.168.77.112"), ip("fd00:192:168:77::112")].into());
    // The host translates: it answers for the address itself, and tunnels end there all the same.
    let host = v1::Egress { translation: v1::EgressTranslation::Host.into(), ..egress("web") };
    apply(&mut node_state, vec![Object::Egress(host)]);
    assert!(!lines(&node_state).iter().any(|line| line.contains("192.168.77.112")), "{:#?}", lines(&node_state));
    assert!(node_state.store().on_wire().vteps().contains(&ip("192.168.77.112")));
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Egress, "egress-web")], ..Write::default() });
    node_state.settle(plan);
    assert_eq!(node_state.store().on_wire().vteps(), [ip("fd00:192:168:77::112")].into());
}

fn service() -> Object {
    let port =
        v1::ServicePort { name: "http".to_owned(), protocol: v1::Protocol::Tcp.into(), port: 80, node_port: 30004 };
    Object::Service(v1::Service {
        name: "default/shop".to_owned(),
        ports: vec![port],
        cluster_ips: vec!["10.96.1.1".to_owned()],
        load_balancer_ips: vec!["192.168.77.150".to_owned()],
        external_ips: vec!["192.168.77.102".to_owned()],
        ..v1::Service::default()
    })
}

#[test]
fn services_are_served_from_the_wire_beside_the_host() {
    let mut node = wired(document_node());
    node.uplink.as_mut().unwrap().answered_addresses = vec!["192.168.77.150".to_owned()];
    let mut node_state = behind(node.clone(), vec![service()]);
    let to = "reg15=0/0x1,dl_dst=02:00:00:00:00:02";
    has(
        &node_state,
        &[
            &format!(
                "table=0, priority=304,{to},tcp,nw_dst=192.168.77.102,tp_dst=30004 actions=ct(table=0,zone=64000)"
            ),
            &format!("table=0, priority=304,{to},tcp,nw_dst=192.168.77.102,tp_dst=80 actions=ct(table=0,zone=64000)"),
            &format!("table=0, priority=304,{to},ip,nw_dst=192.168.77.150 actions={ACROSS}"),
            &format!(
                "table=0, priority=308,{to},ct_state=-trk,ip,nw_frag=yes,nw_dst=192.168.77.102 actions=ct(table=0,zone=65522)"
            ),
            &format!(
                "table=0, priority=308,{to},ct_state=-trk,icmp,icmp_type=3,nw_dst=192.168.77.102 actions=ct(table=0,zone=65520)"
            ),
            &format!("table=0, priority=304,{to},ct_state=+rel+trk,icmp,nw_dst=192.168.77.102 actions={ACROSS}"),
        ],
    );
    assert!(!lines(&node_state).iter().any(|line| line.contains("10.96.1.1")), "cluster IPs are not of the wire");
    assert!(lines(&node_state).iter().any(|line| line.contains("arp_tpa=192.168.77.150")));
    assert_eq!(node_state.store().on_wire().announced(), [ip("192.168.77.150")].into());
    let version = node_state.store().on_wire().version();
    let endpoints = v1::Endpoints {
        service: "default/shop".to_owned(),
        port: "http".to_owned(),
        endpoints: vec![v1::Endpoint {
            address: "10.10.0.24".to_owned(),
            port: 80,
            ready: true,
            ..v1::Endpoint::default()
        }],
    };
    apply(&mut node_state, vec![Object::Endpoints(endpoints)]);
    assert_eq!(node_state.store().on_wire().version(), version, "an endpoint is not of the wire's business");
    // Through the gateway, as Antrea does.
    node.uplink.as_mut().unwrap().external_traffic = false;
    node.uplink.as_mut().unwrap().answered_addresses.clear();
    let gateway = behind(node, vec![service()]);
    assert!(!lines(&gateway).iter().any(|line| line.contains("nw_dst")), "{:#?}", lines(&gateway));
}

/// Flows of `connections` for a family, with what differs between IPv4 and IPv6 given.
fn shared(tcp: &str, udp: &str, sctp: &str, ip: &str, source: &str, main: u16) -> Vec<String> {
    let known = "ct_clear,set_field:0x1/0x1->reg15,resubmit(,0)";
    let begins = format!("ct(commit,zone=64000,exec(set_field:0x1/0x3->ct_mark)),{ACROSS}");
    let (host, pods) = ("in_port=LOCAL", "in_port=7,dl_src=02:00:00:00:00:02");
    let lines = [
        format!("312,{tcp},{host},{source},tp_src=30004 actions=ct(table=0,zone=64000)"),
        format!("312,{tcp},{pods},{source},tp_src=30004 actions=ct(table=0,zone=64000)"),
        format!("313,ct_state=-trk,{ip},nw_frag=yes,{host},{source} actions=ct(table=0,zone=64003)"),
        format!("315,{udp},{host},tp_dst=6081 actions={known}"),
        format!("315,ct_state=+new+trk,{tcp},tcp_flags=+rst,ct_zone=64000,{host} actions={known}"),
        format!(
            "314,ct_state=+new-rpl+trk,{ip},ct_zone=64000,{host} actions=ct(commit,zone=64000,exec(set_field:0x2/0x3->ct_mark)),{known}"
        ),
        format!("313,{ip},ct_zone=64000,{host} actions={known}"),
        format!("313,{ip},ct_zone=64000,{pods} actions=set_field:4294967294->in_port,{known}"),
        format!("307,ct_state=+rpl+trk,ct_mark=0x2/0x3,{ip},ct_zone=64000 actions={known}"),
        format!("307,ct_state=+trk,ct_mark=0x1/0x3,{ip},ct_zone=64000 actions={ACROSS}"),
        format!("306,ct_state=+new+trk,{tcp},tcp_flags=+syn-ack,ct_zone=64000 actions={begins}"),
        format!("306,ct_state=+new+trk,{udp},ct_zone=64000 actions={begins}"),
        format!("306,ct_state=+new+trk,{sctp},ct_zone=64000 actions={begins}"),
        format!("305,{udp},ct_zone=64000 actions={ACROSS}"),
        format!("305,{sctp},ct_zone=64000 actions={ACROSS}"),
        format!("305,{tcp},ct_zone=64000 actions=ct(table=0,zone={main})"),
        format!("307,ct_state=+new+trk,ct_mark=0/0x10,{tcp},ct_zone={main} actions={known}"),
        format!("306,{tcp},ct_zone={main} actions={begins}"),
    ];
    lines.iter().map(|line| format!("table=0, priority={}", line.replacen(',', ",reg15=0/0x1,", 1))).collect()
}

#[test]
fn whose_a_connection_at_a_port_of_a_service_is_the_tracker_knows() {
    let Object::Service(four) = service() else { unreachable!() };
    let both = v1::Service { cluster_ips: vec!["10.96.1.1".to_owned(), "fd00:10:96::1".to_owned()], ..four };
    let node_state = behind(wired(dual_node()), vec![Object::Service(both)]);
    let four = shared("tcp", "udp", "sctp", "ip", "nw_src=192.168.77.102", 65520);
    let six = shared("tcp6", "udp6", "sctp6", "ipv6", "ipv6_src=fd00:192:168:77::102", 65510);
    for family in [four, six] {
        has(&node_state, &family.iter().map(String::as_str).collect::<Vec<_>>());
    }
    // Nothing else is tracked that the host sends, or that comes for it.
    let of_ports =
        ["tp_src=30004", "tp_dst=30004", "tp_src=80", "tp_dst=80", "ct_zone=", "nw_frag=yes", "icmp", "in_port=7"];
    for line in lines(&node_state).iter().filter(|line| line.contains("ct(")) {
        assert!(of_ports.iter().any(|what| line.contains(what)), "{line}");
    }
}

#[test]
fn zones_of_the_wire_may_be_others() {
    let mut node = wired(document_node());
    node.zones = Some(v1::Zones { uplink: Some(5), ..v1::Zones::default() });
    let node_state = behind(node, vec![service()]);
    let there = lines(&node_state);
    assert!(there.iter().any(|line| line.contains("zone=5)")) && !there.iter().any(|line| line.contains("64000")));
}

/// The endpoint of a Service's port on this Node's host, and one that is a Pod.
fn on_host(address: &str) -> Object {
    let one = |address: &str, port| v1::Endpoint {
        address: address.to_owned(),
        port,
        node: "worker-2".to_owned(),
        ready: true,
        ..v1::Endpoint::default()
    };
    Object::Endpoints(v1::Endpoints {
        service: "default/shop".to_owned(),
        port: "http".to_owned(),
        endpoints: vec![one(address, 8080), one("10.10.0.24", 8080)],
    })
}

#[test]
fn an_endpoint_on_the_host_sees_its_client_if_the_policy_is_local() {
    let Object::Service(shop) = service() else { unreachable!() };
    let local = v1::Service { external_traffic_policy: v1::TrafficPolicy::Local.into(), ..shop.clone() };
    let node_state = behind(wired(document_node()), vec![Object::Service(local), on_host("192.168.77.102")]);
    let (host, pods) = ("in_port=LOCAL", "in_port=7");
    let mac = "02:00:00:00:00:02";
    let known = "ct_clear,set_field:0x1/0x1->reg15,resubmit(,0)";
    let track = "actions=ct(table=0,zone=64003)";
    let lines_there = [
        format!("313,reg15=0/0x1,ct_state=-trk,tcp,{host},nw_src=192.168.77.102,tp_src=8080 {track}"),
        format!("313,reg15=0/0x1,ct_state=-trk,icmp,nw_frag=no,icmp_type=3,{host},nw_src=192.168.77.102 {track}"),
        format!("310,reg15=0/0x1,ct_state=-trk,ip,{pods},dl_dst={mac},nw_dst=192.168.77.102 {track}"),
        format!("314,reg15=0/0x1,ct_state=+new+trk,ip,ct_zone=64003,{pods} actions=ct(commit,zone=64003),LOCAL"),
        format!("313,reg15=0/0x1,ip,ct_zone=64003,{pods} actions=LOCAL"),
        format!("314,reg15=0/0x1,ct_state=+rpl+trk,ip,ct_zone=64003,{host} actions=set_field:{mac}->eth_dst,output:7"),
        format!("309,reg15=0/0x1,ip,dl_src={mac},dl_dst={mac} actions={known}"),
    ];
    let lines_there = lines_there.map(|line| format!("table=0, priority={line}"));
    has(&node_state, &lines_there.each_ref().map(String::as_str));
    let there = lines(&node_state);
    assert!(!there.iter().any(|line| line.contains("10.10.0.24")), "a Pod is not of the wire's business");
    let uplink = format!("in_port=3,dl_src={mac},dl_dst={mac}");
    for line in [
        format!("table=Classifier, priority=229,ip,{uplink},nw_src=192.168.77.102 actions=set_field:0x4/0xf->reg0,set_field:0x200/0x200->reg0,set_field:0x8000000/0x8000000->reg4,move:NXM_OF_ETH_SRC[]->OXM_OF_PKT_REG5[0..47],goto_table:UnSNAT"),
        format!("table=ConntrackState, priority=211,ct_state=-rpl+trk,ip,{uplink} actions=drop"),
        "table=EndpointDNAT, priority=205,tcp,reg0=0x4/0xf,reg3=0xc0a84d66,reg4=0x221f90/0x27ffff,reg7=0x2 actions=ct(commit,table=AntreaPolicyEgressRule,zone=65520,nat(dst=192.168.77.102:8080),exec(set_field:0x110/0x110->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))".to_owned(),
        format!("table=L3Forwarding, priority=195,ct_state=-rpl+trk,ct_mark=0x110/0x110,ip,reg0=0x4/0xf actions=set_field:{mac}->eth_dst,set_field:0x40/0xf0->reg0,goto_table:SNATMark"),
        "table=Output, priority=210,ct_mark=0x100/0x100,reg0=0x200044/0x6000ff actions=IN_PORT".to_owned(),
    ] {
        assert_has(&node_state, &line);
    }
    // One that is not ready any more answers its clients still, and has no new ones.
    let Object::Endpoints(mut ending) = on_host("192.168.77.102") else { unreachable!() };
    ending.endpoints[0].ready = false;
    let mut node_state = node_state;
    apply(&mut node_state, vec![Object::Endpoints(ending)]);
    assert!(lines(&node_state).iter().any(|line| line.contains("tp_src=8080")));
    let translated = dump_of(&node_state, &["EndpointDNAT"]);
    assert!(!translated.iter().any(|line| line.contains("priority=205")), "{translated:#?}");
    // With policy Cluster the answer must come by the gateway; another address is not on the wire.
    let cluster = behind(wired(document_node()), vec![Object::Service(shop), on_host("192.168.77.102")]);
    assert!(!lines(&cluster).iter().any(|line| line.contains("tp_src=8080")));
    let Object::Service(shop) = service() else { unreachable!() };
    let local = v1::Service { external_traffic_policy: v1::TrafficPolicy::Local.into(), ..shop };
    let other = behind(wired(document_node()), vec![Object::Service(local), on_host("172.20.0.2")]);
    assert!(!lines(&other).iter().any(|line| line.contains("tp_src=8080")));
}

#[test]
fn without_a_bridge_nothing_is_written_there() {
    let node_state =
        node_state(&wired(document_node()), vec![service(), Object::Pod(pod("web")), Object::Egress(egress("web"))]);
    assert_eq!(lines(&node_state), BTreeSet::new());
    assert_eq!(node_state.store().on_wire().vteps(), BTreeSet::new());
    let flows: Vec<FlowId> = node_state.store().on_wire().flows().cloned().collect();
    assert!(flows.is_empty());
}

#[test]
fn what_is_said_of_the_wire_is_checked() {
    let refused = |change: fn(&mut v1::Uplink)| {
        let mut node = wired(document_node());
        change(node.uplink.as_mut().unwrap());
        let mut node_state = NodeState::default();
        node_state
            .set_ports(crate::testing::PORTS.map(|(name, number)| (name.to_owned(), number)).into_iter().collect());
        let problems = node_state.plan_node(&node).map(|plan| node_state.revert(plan)).expect_err("it is wrong");
        problems.all().iter().map(|problem| (problem.code, problem.field.clone())).collect::<Vec<_>>()
    };
    let field = "uplink.answered_addresses".to_owned();
    let named = |uplink: &mut v1::Uplink| uplink.answered_addresses = vec!["192.168.77.150".to_owned()];
    assert_eq!(refused(named), [(Code::Feature, field.clone())], "nobody to answer");
    let wrong = |uplink: &mut v1::Uplink| {
        uplink.underlay_bridge = "br-phy".to_owned();
        uplink.answered_addresses = vec!["192.168.77.150".to_owned(), "192.168.77".to_owned()];
    };
    assert_eq!(refused(wrong), [(Code::Value, format!("{field}[1]"))]);
    let many = |uplink: &mut v1::Uplink| {
        uplink.underlay_bridge = "br-phy".to_owned();
        uplink.answered_addresses = vec!["192.168.77.150".to_owned(); 1025];
    };
    assert_eq!(refused(many), [(Code::Limit, field)]);
}

#[test]
fn pods_on_the_wire_are_led_past_the_host() {
    let mut node = wired(dual_node());
    node.features = Some(v1::Features { pod_vlans: true, ..node.features.unwrap_or_default() });
    let seven = v1::Pod { vlan: 7, addresses: vec!["172.16.0.9".to_owned()], ..pod("web") };
    let flat = v1::Pod { addresses: vec!["192.168.77.51".to_owned()], ..pod("db") };
    let node_state = behind(node, vec![Object::Pod(seven), Object::Pod(flat), Object::Pod(pod("client"))]);
    let (web, db) = ("fa:b7:53:74:21:a6", "36:48:21:a2:9d:b4");
    let known = "ct_clear,set_field:0x1/0x1->reg15,resubmit(,0)";
    let group = "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00";
    has(
        &node_state,
        &[
            &format!("table=0, priority=311,reg15=0/0x1,in_port=7,dl_src={web},dl_vlan=7 actions={known}"),
            &format!("table=0, priority=311,reg15=0/0x1,in_port=7,dl_src={db},vlan_tci=0x0000/0x0fff actions={known}"),
            &format!("table=0, priority=305,dl_dst={web},dl_vlan=7 actions={ACROSS}"),
            &format!("table=0, priority=305,dl_dst={db},vlan_tci=0x0000/0x0fff actions={ACROSS}"),
            &format!("table=0, priority=301,arp,dl_vlan=7,{group} actions=NORMAL,output:7"),
            &format!("table=0, priority=301,icmp6,vlan_tci=0x0000/0x0fff,{group} actions=NORMAL,output:7"),
        ],
    );
    assert!(!lines(&node_state).iter().any(|line| line.contains("5e:b5:e3:a6:90:b7")), "an ordinary Pod is not there");
}
