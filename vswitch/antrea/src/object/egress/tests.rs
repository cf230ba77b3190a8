//! Egresses.

use super::Egress;
use crate::testing::{
    apply, assert_has, document_node, dual_node, dump, dump_of, egress, ip, mac, peer, pod, degraded, refused, node_state, traffic_control,
};
use crate::{Code, Flush, Key, ObjectKind, Problems, NodeState, Write};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

fn shaping(node: v1::NodeConfig) -> v1::NodeConfig {
    v1::NodeConfig {
        features: Some(v1::Features { egress_traffic_shaping: true, ..node.features.unwrap_or_default() }),
        ..node
    }
}

/// A Node with an uplink and a next hop.
pub(crate) fn wired(node: v1::NodeConfig) -> v1::NodeConfig {
    let hop = |address: &str| v1::NextHop { address: address.to_owned(), mac: mac("02:00:00:00:00:fe") };
    v1::NodeConfig {
        uplink: Some(v1::Uplink {
            port: "uplink0".to_owned(),
            mac: mac("02:00:00:00:00:02"),
            next_hops: vec![hop("192.168.77.1"), hop("fd00:192:168:77::1")],
            external_traffic: true,
            ..v1::Uplink::default()
        }),
        ..node
    }
}

fn limited(rate_kbps: u32) -> v1::Egress {
    v1::Egress { bandwidth: Some(v1::EgressBandwidth { rate_kbps, burst_kb: 200 }), ..egress("web") }
}

fn meter(node_state: &NodeState, id: u32) -> Option<String> {
    node_state.store().everything().iter().find_map(|update| match update {
        vswitch_flow::spec::Update::AddMeter(meter) if meter.id == id => Some(format!("{meter:?}")),
        _ => None,
    })
}

#[test]
fn a_rate_is_a_meter_of_the_addresss_mark() {
    let node = shaping(document_node());
    let mut node_state = node_state(&node, vec![Object::Pod(pod("web")), Object::Egress(limited(500))]);
    assert_has(&node_state, "table=EgressMark, priority=200,ct_state=+trk,ip,in_port=37 actions=set_field:0x1/0xff->pkt_mark,set_field:0x20/0xf0->reg0,set_field:0e:00:00:00:01:01->eth_src,goto_table:EgressQoS");
    assert_has(&node_state, "table=EgressQoS, priority=200,pkt_mark=0x1/0xff actions=meter:1,goto_table:L2ForwardingCalc");
    assert_has(&node_state, "table=EgressQoS, priority=190 actions=goto_table:L2ForwardingCalc");
    let told = meter(&node_state, 1).unwrap();
    assert!(told.contains("pktps: false") && told.contains("rate: 500") && told.contains("burst: 200"), "{told}");
    let updates = apply(&mut node_state, vec![Object::Egress(limited(600))]);
    assert!(matches!(updates[..], [vswitch_flow::spec::Update::ModifyMeter(_)]), "{updates:?}");
    apply(&mut node_state, vec![Object::Egress(egress("web"))]);
    assert_eq!(meter(&node_state, 1), None);
}

#[test]
fn several_egresses_share_an_address() {
    let second = v1::Egress { name: "egress-second".to_owned(), pods: vec!["default/db".to_owned()], ..egress("web") };
    let objects = vec![
        Object::Pod(pod("web")),
        Object::Pod(pod("db")),
        Object::Egress(egress("web")),
        Object::Egress(second.clone()),
    ];
    let mut node_state = node_state(&document_node(), objects);
    assert_eq!(node_state.ids().mark(&ip("192.168.77.112")), Some(1));
    let marked = dump_of(&node_state, &["EgressMark"]);
    let marked = marked.iter().filter(|line| line.contains("0x1/0xff->pkt_mark"));
    let (engine, others): (Vec<&String>, Vec<&String>) = marked.partition(|line| line.contains("reg0=0x7/0xf,nw_src="));
    assert_eq!((others.len(), engine.len()), (3, 2), "both Pods, and tunnels once; Pods behind the engine");
    let unlike = v1::Egress { name: "egress-x".to_owned(), node: String::new(), ..second };
    let problems = degraded(&mut node_state, Object::Egress(unlike));
    assert_eq!((problems[0].code.as_str(), problems[0].other.clone().unwrap_or_default().name.as_str()), ("CONFLICT", "egress-second"));
    // The first one goes: the address, its mark and its tunnels stay.
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Egress, "egress-web")], ..Write::default() });
    // Its Pod's flow, and that for what the engine returns.
    assert!(plan.flush.is_empty() && plan.updates.len() == 2, "{:?}", plan.updates);
    node_state.settle(plan);
    assert_eq!(node_state.ids().mark(&ip("192.168.77.112")), Some(1));
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Egress, "egress-second")], ..Write::default() });
    assert_eq!(plan.flush, [Flush::Address(ip("192.168.77.112"))]);
    node_state.settle(plan);
    assert_eq!(node_state.ids().mark(&ip("192.168.77.112")), None);
}

#[test]
fn of_two_that_name_a_pod_the_lower_name_counts() {
    let rival = v1::Egress { name: "a-rival".to_owned(), address: "192.168.77.120".to_owned(), ..egress("web") };
    let six = v1::Egress { name: "a-six".to_owned(), address: "fd00:192:168:77::112".to_owned(), ..egress("web") };
    let first = vec![Object::Pod(pod("web")), Object::Egress(egress("web"))];
    let mut node_state = node_state(&dual_node(), first);
    let before = dump(&node_state);
    apply(&mut node_state, vec![Object::Egress(rival), Object::Egress(six)]);
    let degraded: Vec<(String, Code)> =
        node_state.degraded().iter().map(|(key, problems)| (key.name.to_string(), problems.all()[0].code)).collect();
    assert_eq!(degraded, [("egress-web".to_owned(), Code::Conflict)], "another family's does not count");
    let of_web = |node_state: &NodeState| dump_of(node_state, &["EgressMark"]).into_iter().filter(|line| line.contains("web-7975")).count();
    assert_eq!(of_web(&node_state), 2);
    let remove = vec![Key::new(ObjectKind::Egress, "a-rival"), Key::new(ObjectKind::Egress, "a-six")];
    let plan = node_state.plan(Write { remove, ..Write::default() });
    node_state.settle(plan);
    assert!(node_state.degraded().is_empty());
    assert_eq!(dump(&node_state), before);
}

#[test]
fn nobody_has_the_address_yet() {
    let nobody = v1::Egress { node: String::new(), ..egress("web") };
    let mut node_state = node_state(&document_node(), vec![Object::Pod(pod("web")), Object::Egress(nobody)]);
    assert_has(&node_state, "table=EgressMark, priority=200,ip,in_port=37 actions=drop");
    assert_eq!(node_state.degraded().values().next().map(|problems| problems.all()[0].code), Some(Code::Pending));
    assert_eq!(node_state.ids().marked().count(), 0);
    apply(&mut node_state, vec![Object::Egress(egress("web"))]);
    assert!(node_state.degraded().is_empty());
}

#[test]
fn a_remote_one_leaves_by_the_peers_own_tunnel_and_by_ipv6() {
    let own = v1::PeerNode {
        tunnel_port: "probe0".to_owned(),
        pod_cidrs: vec!["10.10.1.0/24".to_owned(), "fd00:10:10:1::/64".to_owned()],
        ..peer()
    };
    let six = v1::Egress { address: "fd00::5".to_owned(), ..egress("client") };
    let node_state = node_state(&dual_node(), vec![Object::Pod(pod("client")), Object::PeerNode(own), Object::Egress(six)]);
    assert_has(&node_state, "table=EgressMark, priority=200,ipv6,in_port=36 actions=set_field:ba:5e:d1:55:aa:c0->eth_src,set_field:aa:bb:cc:dd:ee:ff->eth_dst,set_field:fd00::5->tun_ipv6_dst,set_field:0x10/0xf0->reg0,set_field:0x80000/0x80000->reg0,goto_table:L2ForwardingCalc");
    assert_has(&node_state, "table=L2ForwardingCalc, priority=201,dl_dst=aa:bb:cc:dd:ee:ff,tun_ipv6_dst=fd00::5 actions=set_field:0x4->reg1,set_field:0x200000/0x600000->reg0,goto_table:TrafficControl");
}

#[test]
fn the_switch_translates_on_the_uplink() {
    let objects = || vec![Object::Pod(pod("web")), Object::Egress(egress("web"))];
    let wire = node_state(&wired(document_node()), objects());
    for line in [
        "table=EgressMark, priority=200,ct_state=+trk,ip,in_port=37 actions=set_field:0x1/0xff->pkt_mark,set_field:0x40/0xf0->reg0,set_field:02:00:00:00:00:02->eth_src,set_field:02:00:00:00:00:fe->eth_dst,goto_table:L3DecTTL",
        "table=EgressMark, priority=200,ct_state=+trk,ip,tun_dst=192.168.77.112 actions=set_field:0x1/0xff->pkt_mark,set_field:0x40/0xf0->reg0,set_field:02:00:00:00:00:02->eth_src,set_field:02:00:00:00:00:fe->eth_dst,goto_table:L3DecTTL",
        "table=SNATMark, priority=205,ct_state=+new+trk,ip,reg0=0x40/0xf0,pkt_mark=0x1/0xff actions=ct(commit,table=SNAT,zone=65520,exec(set_field:0x20/0x20->ct_mark,move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))",
        "table=SNAT, priority=205,ct_state=+new+trk,ip,reg0=0x40/0xf0,pkt_mark=0x1/0xff actions=ct(commit,table=L2ForwardingCalc,zone=65522,nat(src=192.168.77.112))",
        "table=SNAT, priority=205,ct_state=-new-rpl+trk,ct_mark=0x20/0x20,ip,reg0=0x40/0xf0 actions=ct(table=L2ForwardingCalc,zone=65522,nat)",
        "table=UnSNAT, priority=200,ip,nw_dst=192.168.77.112 actions=ct(table=ConntrackZone,zone=65522,nat)",
        "table=L2ForwardingCalc, priority=190,reg0=0x40/0xf0 actions=set_field:0x3->reg1,set_field:0x200000/0x600000->reg0,goto_table:TrafficControl",
    ] {
        assert_has(&wire, line);
    }
    let rate = node_state(&shaping(wired(document_node())), vec![Object::Egress(limited(9))]);
    assert_has(&rate, "table=EgressQoS, priority=200,pkt_mark=0x1/0xff actions=meter:1,goto_table:L3DecTTL");
    // The host does, if it is told to; and then nothing of that is there.
    let mut host = egress("web");
    host.set_translation(v1::EgressTranslation::Host);
    let host = node_state(&wired(document_node()), vec![Object::Pod(pod("web")), Object::Egress(host)]);
    assert_has(&host, "table=EgressMark, priority=200,ct_state=+trk,ip,in_port=37 actions=set_field:0x1/0xff->pkt_mark,set_field:0x20/0xf0->reg0,set_field:0e:00:00:00:01:01->eth_src,goto_table:L2ForwardingCalc");
    assert!(!dump_of(&host, &["UnSNAT", "SNAT"]).iter().any(|line| line.contains("65522")));
}

#[test]
fn without_a_next_hop_its_pods_wait() {
    let mut node = wired(document_node());
    let uplink = node.uplink.as_mut().unwrap();
    uplink.next_hops.iter_mut().for_each(|hop| hop.mac = None);
    let unknown = node_state(&node, vec![Object::Pod(pod("web")), Object::Egress(egress("web"))]);
    assert_has(&unknown, "table=EgressMark, priority=200,ct_state=+trk,ip,in_port=37 actions=drop");
    assert_eq!(unknown.degraded().values().next().map(|problems| problems.all()[0].code), Some(Code::Pending));
    let uplink = node.uplink.as_mut().unwrap();
    uplink.next_hops.clear();
    let none = node_state(&node, vec![Object::Pod(pod("web")), Object::Egress(egress("web"))]);
    assert_has(&none, "table=EgressMark, priority=200,ct_state=+trk,ip,tun_dst=192.168.77.112 actions=drop");
    assert_eq!(none.degraded().len(), 1);
}

#[test]
fn everything_that_is_wrong_by_itself_is_found_at_once() {
    let read = |change: fn(&mut v1::Egress)| {
        let mut bad = egress("web");
        change(&mut bad);
        let mut problems = Problems::default();
        Egress::read(&bad, &mut problems);
        problems.all().iter().map(|problem| (problem.code, problem.field.clone())).collect::<Vec<_>>()
    };
    let is = |problems: Vec<(Code, String)>, code: Code, field: &str| assert_eq!(problems, [(code, field.to_owned())]);
    assert_eq!(read(|_| ()), []);
    is(read(|egress| egress.address.clear()), Code::Missing, "address");
    is(read(|egress| egress.address = "x".to_owned()), Code::Value, "address");
    is(read(|egress| egress.address = "::".to_owned()), Code::Value, "address");
    is(read(|egress| egress.translation = 3), Code::Value, "translation");
    is(read(|egress| egress.pods = vec![String::new()]), Code::Missing, "pods[0]");
    is(read(|egress| egress.pods = vec!["web".to_owned()]), Code::Value, "pods[0]");
    let burst = |egress: &mut v1::Egress| egress.bandwidth = Some(v1::EgressBandwidth { rate_kbps: 1, burst_kb: 0 });
    is(read(burst), Code::Range, "bandwidth.burst_kb");
    assert_eq!(read(|egress| egress.bandwidth = Some(v1::EgressBandwidth::default())).len(), 2);
}

#[test]
fn what_is_wrong_beside_others_is_found() {
    let there = vec![Object::Pod(pod("db")), Object::TrafficControl(traffic_control("db")), Object::PeerNode(peer())];
    let mut plain = node_state(&document_node(), there);
    let check = |node_state: &mut NodeState, change: fn(&mut v1::Egress), code: &str, field: &str| {
        let mut bad = egress("web");
        change(&mut bad);
        let problems = degraded(node_state, Object::Egress(bad));
        assert!(problems.iter().any(|found| found.code == code && found.field == field), "{code} {field}: {problems:?}");
    };
    check(&mut plain, |egress| egress.address = "10.10.0.25".to_owned(), "OVERLAP", "address");
    check(&mut plain, |egress| egress.address = "10.10.0.1".to_owned(), "OVERLAP", "address");
    check(&mut plain, |egress| egress.address = "10.10.1.1".to_owned(), "OVERLAP", "address");
    check(&mut plain, |egress| egress.address = "fd00::1".to_owned(), "FAMILY", "address");
    check(&mut plain, |egress| egress.node = "worker-7".to_owned(), "PENDING", "node");
    check(&mut plain, |egress| egress.set_translation(v1::EgressTranslation::Switch), "FEATURE", "translation");
    let rate = |egress: &mut v1::Egress| egress.bandwidth = Some(v1::EgressBandwidth { rate_kbps: 1, burst_kb: 1 });
    check(&mut plain, rate, "FEATURE", "bandwidth");
    let mut node = document_node();
    node.features = Some(v1::Features { egress: Some(false), ..node.features.unwrap_or_default() });
    let mut off = node_state(&node, Vec::new());
    check(&mut off, |_| (), "FEATURE", "");
}

#[test]
fn there_are_marks_for_255_addresses() {
    let of = |at: u16| {
        let [high, low] = at.to_be_bytes();
        Object::Egress(v1::Egress { name: format!("e{at:03}"), address: format!("172.16.{high}.{low}"), ..egress("web") })
    };
    let mut node_state = node_state(&document_node(), (1..=255).map(of).collect());
    let problems = refused(&mut node_state, of(256));
    assert_eq!(problems[0].code, "LIMIT");
    let plan = node_state.plan(Write { objects: vec![of(256)], remove: vec![Key::new(ObjectKind::Egress, "e007")], ..Write::default() });
    assert!(plan.result.applied, "{:?}", plan.result.statuses);
    node_state.settle(plan);
    assert_eq!(node_state.ids().mark(&ip("172.16.1.0")), Some(7));
}

/// A conflict belongs to the Egress: its Pods leave as if it were not there, or by another one that
/// names them.
#[test]
fn one_in_conflict_has_no_effect_on_its_pods() {
    let of_web = |node_state: &NodeState| -> Vec<String> {
        dump_of(node_state, &["EgressMark"]).into_iter().filter(|line| line.contains("web-7975")).collect()
    };
    let pods = || vec![Object::Pod(pod("web")), Object::Pod(pod("db")), Object::PeerNode(peer())];
    let of_db = vec!["default/db".to_owned()];
    let first = || Object::Egress(v1::Egress { name: "b".to_owned(), pods: of_db.clone(), ..egress("web") });
    let without = of_web(&node_state(&document_node(), [pods(), vec![first()]].concat()));
    let changes: [fn(&mut v1::Egress); 5] = [
        |egress| egress.address = "10.10.0.25".to_owned(),
        |egress| egress.address = "10.10.0.1".to_owned(),
        |egress| egress.address = "10.10.1.1".to_owned(),
        |egress| egress.set_translation(v1::EgressTranslation::Switch),
        |egress| egress.node = "worker-3".to_owned(),
    ];
    for change in changes {
        let mut bad = v1::Egress { name: "c".to_owned(), ..egress("web") };
        change(&mut bad);
        let bad = Object::Egress(bad);
        let mut node_state = node_state(&document_node(), [pods(), vec![first(), bad.clone()]].concat());
        assert_eq!(node_state.degraded().keys().map(|key| &*key.name).collect::<Vec<_>>(), ["c"], "{bad:?}");
        assert_eq!(of_web(&node_state), without, "{bad:?}");
        // Another one that names the Pod has it, though its name comes later; it loses it when the
        // first one can be.
        let other = Object::Egress(v1::Egress { name: "d".to_owned(), address: "192.168.77.120".to_owned(), ..egress("web") });
        apply(&mut node_state, vec![other]);
        let by_other = of_web(&node_state);
        assert!(by_other.len() > without.len() && !node_state.degraded().contains_key(&Key::new(ObjectKind::Egress, "d")), "{bad:?}");
        let good = Object::Egress(v1::Egress { name: "c".to_owned(), address: "192.168.77.121".to_owned(), ..egress("web") });
        apply(&mut node_state, vec![good]);
        assert_eq!(node_state.degraded().keys().map(|key| &*key.name).collect::<Vec<_>>(), ["d"], "{bad:?}");
        apply(&mut node_state, vec![bad]);
        assert_eq!(of_web(&node_state), by_other);
    }
    // The same when it is another object that takes the address.
    let late = Object::Pod(v1::Pod { addresses: vec!["10.10.0.99".to_owned()], ..pod("web2") });
    let taken = Object::Egress(v1::Egress { name: "a".to_owned(), address: "10.10.0.99".to_owned(), ..egress("web") });
    let mut node_state = node_state(&document_node(), [pods(), vec![taken, Object::Egress(egress("web"))]].concat());
    assert_eq!(node_state.degraded().keys().map(|key| &*key.name).collect::<Vec<_>>(), ["egress-web"]);
    let before = dump(&node_state);
    apply(&mut node_state, vec![late]);
    assert_eq!(node_state.degraded().keys().map(|key| &*key.name).collect::<Vec<_>>(), ["a"]);
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Pod, "default/web2")], ..Write::default() });
    node_state.settle(plan);
    assert_eq!(dump(&node_state), before);
}
