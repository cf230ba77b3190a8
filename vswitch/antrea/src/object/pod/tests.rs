//! Pods.

use super::Pod;
use crate::testing::{
    apply, assert_has, document_node, dual_node, dump, dump_of, egress, ip, mac, peer, pod, degraded, node_state, traffic_control,
};
use crate::{Code, Key, Problems};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

fn dual() -> v1::Pod {
    v1::Pod { addresses: vec!["10.10.0.24".to_owned(), "fd00:10:10::18".to_owned()], ..pod("web") }
}

#[test]
fn an_ipv6_pod_says_who_it_is_and_nothing_else() {
    let node_state = node_state(&dual_node(), vec![Object::Pod(dual())]);
    let who = "in_port=37,dl_src=fa:b7:53:74:21:a6";
    let lines = [
        format!("table=SpoofGuard, priority=200,ip,{who},nw_src=10.10.0.24 actions=goto_table:UnSNAT"),
        format!("table=SpoofGuard, priority=200,ipv6,{who},ipv6_src=fd00:10:10::18 actions=goto_table:IPv6"),
        format!("table=SpoofGuard, priority=200,ipv6,{who},ipv6_src=fe80::/10 actions=goto_table:IPv6"),
        format!("table=SpoofGuard, priority=210,icmp6,{who},ipv6_src=::,icmp_type=135,icmp_code=0 actions=goto_table:IPv6"),
        format!("table=SpoofGuard, priority=210,icmp6,{who},icmp_type=136,icmp_code=0,nd_target=fd00:10:10::18 actions=goto_table:IPv6"),
        format!(
            "table=SpoofGuard, priority=210,icmp6,{who},icmp_type=136,icmp_code=0,nd_target=fe80::f8b7:53ff:fe74:21a6 actions=goto_table:IPv6"
        ),
        "table=SpoofGuard, priority=205,icmp6,in_port=37,icmp_type=136 actions=drop".to_owned(),
        "table=L3Forwarding, priority=200,ipv6,reg0=0x200/0x200,ipv6_dst=fd00:10:10::18 actions=set_field:ba:5e:d1:55:aa:c0->eth_src,set_field:fa:b7:53:74:21:a6->eth_dst,goto_table:L3DecTTL".to_owned(),
    ];
    for line in &lines {
        assert_has(&node_state, line);
    }
    let of_pod = |line: &&String| line.contains("web-7975");
    assert_eq!(dump_of(&node_state, &["SpoofGuard"]).iter().filter(of_pod).count(), lines.len() - 1, "and no other");
    let part = node_state.store().compiled(&Key::new(crate::ObjectKind::Pod, "default/web")).unwrap();
    assert!(part.faults().is_empty());
}

#[test]
fn a_pod_that_changes_changes_its_own_flows_alone() {
    let mut node_state = node_state(&document_node(), vec![Object::Pod(pod("web")), Object::Pod(pod("db"))]);
    let other = v1::Pod { addresses: vec!["10.10.0.99".to_owned()], ..pod("web") };
    let updates = apply(&mut node_state, vec![Object::Pod(other)]);
    // ARP, SpoofGuard and its route, each away and anew.
    assert_eq!(updates.len(), 6, "{updates:?}");
}

#[test]
fn multicast_counts_pods() {
    let mut node = document_node();
    node.features = Some(v1::Features { multicast: true, ..node.features.unwrap_or_default() });
    let node_state = node_state(&node, vec![Object::Pod(pod("web"))]);
    assert_has(&node_state, "table=MulticastEgressPodMetric, priority=200,ip,nw_src=10.10.0.24 actions=goto_table:MulticastRouting");
    assert_has(&node_state, "table=MulticastIngressPodMetric, priority=200,ip,reg1=0x25 actions=goto_table:MulticastOutput");
    assert_has(
        &node_state,
        "table=SpoofGuard, priority=200,ip,in_port=37,dl_src=fa:b7:53:74:21:a6,nw_src=10.10.0.24 actions=goto_table:PipelineIPClassifier",
    );
}

/// Problems that a Pod has by itself: code and field.
fn read(pod: &v1::Pod) -> Vec<(Code, String)> {
    let mut problems = Problems::default();
    Pod::read(pod, &mut problems);
    problems.all().iter().map(|problem| (problem.code, problem.field.clone())).collect()
}

#[test]
fn everything_that_is_wrong_by_itself_is_found_at_once() {
    assert_eq!(read(&pod("web")), []);
    let bad = v1::Pod { name: "web".to_owned(), vlan: 4095, ..v1::Pod::default() };
    let fields = ["name", "port", "addresses", "vlan", "mac"];
    assert_eq!(read(&bad).into_iter().map(|(_, field)| field).collect::<Vec<_>>(), fields);
    let one = |change: fn(&mut v1::Pod)| {
        let mut bad = pod("web");
        change(&mut bad);
        let problems = read(&bad);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    };
    let addresses = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (texts, code, field) in [
        (&["10.10.0.24", "10.10.0.25"][..], Code::Duplicate, "addresses[1]"),
        (&["10.10.0"], Code::Value, "addresses[0]"),
        (&["::ffff:10.10.0.1"], Code::Value, "addresses[0]"),
        (&["0.0.0.0"], Code::Value, "addresses[0]"),
        (&["127.0.0.1"], Code::Value, "addresses[0]"),
        (&["10.10.0.24", "ff02::1"], Code::Value, "addresses[1]"),
        (&["fe80::1"], Code::Value, "addresses[0]"),
        (&["255.255.255.255"], Code::Value, "addresses[0]"),
    ] {
        let bad = v1::Pod { addresses: addresses(texts), ..pod("web") };
        assert_eq!(read(&bad), [(code, field.to_owned())], "{texts:?}");
    }
    assert_eq!(one(|pod| pod.mac = mac("01:00:5e:00:00:01")), (Code::Value, "mac".to_owned()));
    assert_eq!(one(|pod| pod.mac = None), (Code::Missing, "mac".to_owned()));
    assert_eq!(one(|pod| pod.mac = Some(vswitch_proto::v1::MacAddress { octets: vec![2; 7] })), (Code::Value, "mac".to_owned()));
    assert_eq!(one(|pod| pod.vlan = u32::MAX), (Code::Range, "vlan".to_owned()));
    assert_eq!(one(|pod| pod.name = "a/b/c".to_owned()), (Code::Value, "name".to_owned()));
    assert_eq!(one(|pod| pod.port.clear()), (Code::Missing, "port".to_owned()));
}

#[test]
fn what_is_wrong_beside_others_is_found() {
    let others = vec![
        Object::Pod(pod("db")),
        Object::PeerNode(v1::PeerNode { tunnel_port: "probe0".to_owned(), ..peer() }),
        Object::Egress(egress("web")),
        Object::TrafficControl(traffic_control("web")),
    ];
    let mut node_state = node_state(&document_node(), others);
    let mut check = |bad: v1::Pod, code: &str, field: &str, other: &str| {
        let before = dump(&node_state);
        let problems = degraded(&mut node_state, Object::Pod(bad.clone()));
        let found = problems.iter().find(|problem| problem.code == code && problem.field == field);
        let found = found.unwrap_or_else(|| panic!("{bad:?} is not {code}: {problems:?}"));
        assert_eq!(found.other.clone().unwrap_or_default().name, other, "{found:?}");
        assert_eq!(dump(&node_state), before);
    };
    let port = |port: &str| v1::Pod { port: port.to_owned(), ..pod("web") };
    check(port("nowhere"), "PORT", "port", "");
    for own in ["antrea-gw0", "antrea-tun0", "antrea-l7-tap0", "antrea-l7-tap1"] {
        check(port(own), "PORT", "port", "");
    }
    check(port("db-755c6-5080e3"), "OVERLAP", "port", "default/db");
    check(port("probe0"), "OVERLAP", "port", "worker-1");
    let at = |address: &str| v1::Pod { addresses: vec![address.to_owned()], ..pod("web") };
    check(at("10.10.0.25"), "OVERLAP", "addresses[0]", "default/db");
    check(at("10.10.0.1"), "OVERLAP", "addresses[0]", "");
    check(at("192.168.77.102"), "OVERLAP", "addresses[0]", "");
    check(at("169.254.0.253"), "OVERLAP", "addresses[0]", "");
    check(at("10.10.1.7"), "OVERLAP", "addresses[0]", "worker-1");
    check(at("fd00:10:10::18"), "FAMILY", "addresses[0]", "");
    let with = |text: &str| v1::Pod { mac: mac(text), ..pod("web") };
    check(with("36:48:21:a2:9d:b4"), "OVERLAP", "mac", "default/db");
    for own in ["ba:5e:d1:55:aa:c0", "aa:bb:cc:dd:ee:ff", "0e:00:00:00:00:01", "0e:00:00:00:01:2a"] {
        check(with(own), "OVERLAP", "mac", "");
    }
    check(v1::Pod { vlan: 7, ..pod("web") }, "FEATURE", "vlan", "");
    apply(&mut node_state, vec![Object::Pod(at("10.20.0.1"))]);
    assert_eq!(node_state.desired().pod_of(&ip("10.20.0.1")).map(|key| key.name.to_string()).as_deref(), Some("default/web"));
}
