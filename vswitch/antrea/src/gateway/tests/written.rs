//! What is written: golden lists, and that any order of increments comes to the same.

use super::{behind, gateway_of, under};
use crate::testing::{apply, document_node, dual_node, dump, egress, ip, peer, pod};
use crate::wire::tests::{know, lines};
use crate::{Family, Key, Mac, NodeState, ObjectKind, Wire, Write};
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

const SHARED: v1::GatewayMode = v1::GatewayMode::Shared;
const LOCAL: v1::GatewayMode = v1::GatewayMode::Local;

/// A Service of one family.
fn service(family: Family, local: bool) -> v1::Service {
    let [cluster, balancer] = match family {
        Family::V4 => ["10.96.1.1", "192.168.77.150"],
        Family::V6 => ["fd00:10:96::1", "fd00:192:168:77::150"],
    };
    let port =
        v1::ServicePort { name: "http".to_owned(), protocol: v1::Protocol::Tcp.into(), port: 80, node_port: 30004 };
    let mut service = v1::Service {
        name: "default/shop".to_owned(),
        ports: vec![port],
        cluster_ips: vec![cluster.to_owned()],
        load_balancer_ips: vec![balancer.to_owned()],
        ..v1::Service::default()
    };
    if local {
        service.set_external_traffic_policy(v1::TrafficPolicy::Local);
    }
    service
}

/// Its endpoints: all ready, all here.
fn endpoints(addresses: &[&str]) -> Object {
    let one = |address: &&str| v1::Endpoint {
        address: (*address).to_owned(),
        port: 8080,
        node: "worker-2".to_owned(),
        ready: true,
        ..v1::Endpoint::default()
    };
    let endpoints = addresses.iter().map(one).collect();
    Object::Endpoints(v1::Endpoints { service: "default/shop".to_owned(), port: "http".to_owned(), endpoints })
}

fn only(family: Family) -> v1::NodeConfig {
    match family {
        Family::V4 => document_node(),
        Family::V6 => {
            let mut node = dual_node();
            node.set_families(v1::Families::Ipv6);
            for list in [&mut node.pod_cidrs, &mut node.service_cidrs, &mut node.transport_addresses] {
                list.remove(0);
            }
            if let Some(gateway) = &mut node.gateway {
                gateway.addresses.remove(0);
            }
            node
        }
    }
}

/// Flows of both bridges that there are because of the gateway bridge, and a Service of the family.
fn found(family: Family, mode: v1::GatewayMode) -> String {
    let node_address = if family == Family::V4 { "192.168.77.102" } else { "fd00:192:168:77::102" };
    let objects = || vec![Object::Service(service(family, true)), endpoints(&[node_address])];
    let with = behind(&gateway_of(only(family), mode), objects());
    let mut plain = gateway_of(only(family), mode);
    if let Some(uplink) = &mut plain.uplink {
        (uplink.gateway, uplink.underlay_bridge) = (None, String::new());
        uplink.external_traffic = mode == SHARED;
    }
    let all = |state: &NodeState| -> BTreeSet<String> { dump(state).into_values().flatten().collect() };
    let (new, old) = (all(&with), all(&crate::testing::node_state(&plain, objects())));
    assert_eq!(old.difference(&new).collect::<Vec<_>>(), Vec::<&String>::new(), "nothing of the pipeline goes");
    let mut text = "# gateway bridge\n".to_owned();
    for line in lines(&with) {
        text += &format!("{}\n", line.trim().trim_start_matches("cookie=0x0, "));
    }
    text += "# Pods' bridge\n";
    for line in new.difference(&old) {
        text += &format!("{}\n", line.trim());
    }
    text
}

/// Compares with the golden list; `VSWITCH_BLESS=1` writes it.
fn golden(family: Family, mode: v1::GatewayMode) {
    let name = format!(
        "{}-{}.txt",
        if mode == SHARED { "shared" } else { "local" },
        if family == Family::V4 { "v4" } else { "v6" }
    );
    let path = format!("{}/src/gateway/tests/{name}", env!("CARGO_MANIFEST_DIR"));
    let found = found(family, mode);
    if std::env::var_os("VSWITCH_BLESS").is_some() {
        std::fs::write(&path, &found).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let of = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (found, wanted) = (of(&found), of(&wanted));
    let more: Vec<_> = found.difference(&wanted).collect();
    let less: Vec<_> = wanted.difference(&found).collect();
    assert!(more.is_empty() && less.is_empty(), "{name}: not in the list: {more:#?}, only there: {less:#?}");
}

#[test]
fn shared_v4_is_as_listed() {
    golden(Family::V4, SHARED);
}

#[test]
fn shared_v6_is_as_listed() {
    golden(Family::V6, SHARED);
}

#[test]
fn local_v4_is_as_listed() {
    golden(Family::V4, LOCAL);
}

#[test]
fn local_v6_is_as_listed() {
    golden(Family::V6, LOCAL);
}

fn has(state: &NodeState, part: &str) -> bool {
    lines(state).iter().any(|line| line.contains(part))
}

#[test]
fn endpoints_on_the_host_see_clients_unless_something_binds_the_service() {
    let node = gateway_of(document_node(), SHARED);
    let on_host = "nat(dst=192.168.77.102:8080)";
    let start =
        |service: v1::Service, addresses: &[&str]| behind(&node, vec![Object::Service(service), endpoints(addresses)]);
    let mut state = start(service(Family::V4, true), &["192.168.77.102"]);
    assert!(has(&state, on_host));
    let group = v1::AppliedToGroup {
        name: "of".to_owned(),
        services: vec!["default/shop".to_owned()],
        ..v1::AppliedToGroup::default()
    };
    apply(&mut state, vec![Object::AppliedToGroup(group)]);
    assert!(!has(&state, on_host), "a policy may bind it: its packets pass the Pods' bridge");
    assert!(has(&state, "tp_dst=30004 actions=ct(commit,zone=64000"));
    let plan = state.plan(Write { remove: vec![Key::new(ObjectKind::AppliedToGroup, "of")], ..Write::default() });
    state.settle(plan);
    assert!(has(&state, on_host), "nothing binds it any more");
    assert!(!has(&start(service(Family::V4, true), &["192.168.77.102", "10.10.0.24"]), on_host), "Pods serve it, too");
    assert!(!has(&start(service(Family::V4, false), &["192.168.77.102"]), on_host), "policy Cluster");
    let mut ranged = service(Family::V4, true);
    ranged.load_balancer_source_ranges = vec!["203.0.113.0/24".to_owned()];
    let state = start(ranged, &["192.168.77.102"]);
    assert!(!has(&state, "nw_dst=192.168.77.150,tp_dst=80"), "sources are asked in the Pods' bridge");
    assert!(has(&state, "nw_dst=192.168.77.102,tp_dst=30004 actions=ct(commit,table=6"), "but for the NodePort");
}

#[test]
fn the_wire_cannot_say_that_it_is_the_host() {
    for mode in [SHARED, LOCAL] {
        let state = behind(&gateway_of(dual_node(), mode), Vec::new());
        for source in [
            "ip,in_port=1,nw_src=169.254.169.0/29",
            "ip,in_port=1,nw_src=192.168.77.102",
            "ip,in_port=1,nw_src=172.20.0.2",
            "ip,in_port=1,nw_dst=169.254.169.0/29",
            "ipv6,in_port=1,ipv6_src=fd69::/125",
            "ipv6,in_port=1,ipv6_src=fd00:192:168:77::102",
        ] {
            let wanted = format!("priority=600,{source} actions=drop");
            assert!(has(&state, &wanted), "{wanted}: {:#?}", lines(&state));
        }
        crate::testing::assert_has(&state, "table=UnSNAT, priority=210,ip,nw_dst=169.254.169.0/29 actions=drop");
    }
}

#[test]
fn pods_leave_when_the_next_hop_is_known_and_never_with_their_own_address() {
    let mut node = gateway_of(document_node(), SHARED);
    node.uplink.as_mut().unwrap().next_hops.iter_mut().for_each(|hop| hop.mac = None);
    let mut state = behind(&node, vec![Object::Pod(pod("web"))]);
    crate::testing::assert_has(&state, "table=EgressMark, priority=188,ct_state=-rpl+trk,ip,reg0=0x3/0xf actions=drop");
    let told = state.degraded().get(&Key::node()).expect("Pods cannot leave").all().to_vec();
    assert!(told[0].reason.contains("next hop 192.168.77.1 has not answered yet"), "{told:?}");
    let hops = [(ip("192.168.77.1"), Mac([2, 0, 0, 0, 0, 0xfe]))].into();
    know(&mut state, Wire { hops, under: Some(under()) });
    crate::testing::assert_has(
        &state,
        "table=EgressMark, priority=188,ct_state=-rpl+trk,ip,reg0=0x3/0xf actions=set_field:0x40/0xf0->reg0,set_field:02:00:00:00:00:02->eth_src,set_field:02:00:00:00:00:fe->eth_dst,goto_table:L3DecTTL",
    );
    assert!(!state.degraded().contains_key(&Key::node()));
    let out = "priority=100,ip,in_port=2,dl_src=02:00:00:00:00:02 actions=ct(commit,zone=64000,nat(src=192.168.77.102)";
    assert!(has(&state, out) && !has(&state, "nw_src=10.10.0.0/24"));
    let local = behind(&gateway_of(document_node(), LOCAL), Vec::new());
    assert!(has(&local, "priority=103,ip,in_port=2,nw_src=10.10.0.0/24 actions=drop"));
    node.uplink.as_mut().unwrap().next_hops.clear();
    let without = behind(&node, Vec::new());
    let found: Vec<String> =
        dump(&without).into_values().flatten().filter(|line| line.contains("priority=188")).collect();
    assert!(found.is_empty(), "without a next hop Pods leave by the host: {found:?}");
}

#[test]
fn pods_keep_their_addresses_where_routers_know_them() {
    let mut node = gateway_of(document_node(), SHARED);
    node.uplink.as_mut().unwrap().gateway.as_mut().unwrap().pods_keep_addresses = true;
    let state = behind(&node, Vec::new());
    assert!(has(&state, "in_port=2,dl_src=02:00:00:00:00:02,nw_src=10.10.0.0/24 actions=ct(commit,zone=64000"));
    assert!(has(&state, "table=1, priority=90,ip,nw_dst=10.10.0.0/24"));
}

#[test]
fn without_egresses_pods_leave_by_the_wire_and_reach_nodes_by_the_host() {
    let mut node = gateway_of(document_node(), SHARED);
    node.set_traffic_mode(v1::TrafficMode::NoEncap);
    (node.tunnel, node.l7) = (None, None);
    node.features = Some(v1::Features { proxy_all: true, ..v1::Features::default() });
    let state = behind(&node, vec![Object::PeerNode(peer())]);
    let host = "set_field:ba:5e:d1:55:aa:c0->eth_dst,set_field:0x20/0xf0->reg0,goto_table:L3DecTTL";
    for address in ["192.168.77.102", "172.20.0.2", "192.168.77.103", "10.96.0.0/12"] {
        crate::testing::assert_has(
            &state,
            &format!("table=L3Forwarding, priority=189,ip,reg0=0x3/0xf,nw_dst={address} actions={host}"),
        );
    }
    assert!(
        dump(&state)["L3Forwarding"].iter().any(|line| line.contains("priority=188,ct_state=-rpl+trk,ip,reg0=0x3/0xf"))
    );
}

#[test]
fn what_is_too_long_for_links_of_pods_does_not_come_there() {
    let mut node = gateway_of(dual_node(), SHARED);
    let objects = || vec![Object::Service(service(Family::V4, false)), endpoints(&["10.10.0.24"])];
    let plain = lines(&behind(&node, objects()));
    node.uplink.as_mut().unwrap().gateway.as_mut().unwrap().pod_mtu = 1400;
    let state = behind(&node, objects());
    let found = lines(&state);
    let out: Vec<_> = found.iter().filter(|line| line.contains("output:2")).collect();
    assert!(out.len() == 2 && out.iter().all(|line| line.contains("table=11, priority=1,")), "{out:#?}");
    let asked =
        found.iter().filter(|line| line.contains("check_pkt_larger(1414)->NXM_NX_REG0[0],resubmit(,11)")).count();
    assert_eq!(asked, plain.iter().filter(|line| line.contains("output:2")).count());
    for ip in ["ip", "ipv6"] {
        let wanted = format!("table=11, priority=10,{ip},reg0=0x1/0x1,nw_frag=no actions=reject(mtu=1400,IN_PORT)");
        assert!(has(&state, &wanted), "{wanted}: {found:#?}");
    }
}

/// The same objects, written at once and one after the other in any order, with others before.
#[test]
fn any_order_of_increments_comes_to_the_same() {
    let node = gateway_of(dual_node(), SHARED);
    let [mut four, mut six] = [Family::V4, Family::V6].map(|family| service(family, true));
    four.ports.push(v1::ServicePort {
        name: "dns".to_owned(),
        protocol: v1::Protocol::Udp.into(),
        port: 53,
        node_port: 30053,
    });
    six.name = "default/six".to_owned();
    six.ports[0].node_port = 30006;
    let objects = [
        Object::Service(four),
        Object::Service(six),
        endpoints(&["192.168.77.102"]),
        Object::Pod(pod("web")),
        Object::Egress(egress("web")),
        Object::PeerNode(peer()),
    ];
    // Numbers of groups and marks are as objects came.
    let unnumbered = ["Classifier", "UnSNAT", "EndpointDNAT", "L3Forwarding", "SNATMark", "SNAT", "L2ForwardingCalc"];
    let shown = |state: &NodeState| (lines(state), crate::testing::dump_of(state, &unnumbered));
    let wanted = shown(&behind(&node, objects.to_vec()));
    for first in 0..objects.len() {
        for step in [1, 5] {
            let mut state =
                behind(&node, vec![endpoints(&["10.10.0.24"]), Object::Service(service(Family::V4, false))]);
            for at in 0..objects.len() {
                apply(&mut state, vec![objects[(first + at * step) % objects.len()].clone()]);
            }
            assert_eq!(shown(&state), wanted, "from {first} by {step}");
        }
    }
    let mut state = behind(&node, objects.to_vec());
    let all = objects.iter().map(crate::Object::key_of);
    let plan = state.plan(Write { remove: all.collect(), ..Write::default() });
    state.settle(plan);
    assert_eq!(shown(&state), shown(&behind(&node, Vec::new())), "nothing of them stays");
}
