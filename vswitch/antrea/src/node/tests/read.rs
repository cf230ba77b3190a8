//! What is wrong with Nodes.

use crate::testing::{document_node, dual_node, mac};
use crate::{Code, Problems};
use vswitch_proto::antrea::v1;

/// Problems of the document's Node with a change: code and field.
fn read(change: impl Fn(&mut v1::NodeConfig)) -> Vec<(Code, String)> {
    let mut node = document_node();
    change(&mut node);
    let mut problems = Problems::default();
    crate::node::read(&node, &mut problems);
    problems.all().iter().map(|problem| (problem.code, problem.field.clone())).collect()
}

fn uplink(port: &str, of: &str) -> Option<v1::Uplink> {
    Some(v1::Uplink { port: port.to_owned(), mac: mac(of), ..v1::Uplink::default() })
}

#[test]
fn good_ones_are_good() {
    assert_eq!(read(|_| ()), []);
    assert_eq!(read(|node| *node = dual_node()), []);
    assert_eq!(read(|node| node.uplink = uplink("uplink0", "02:00:00:00:00:02")), []);
}

#[test]
fn what_contradicts_the_rest_is_found() {
    let is = |problems: Vec<(Code, String)>, code: Code, field: &str| {
        assert_eq!(problems, [(code, field.to_owned())]);
    };
    let strings = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    is(read(|node| node.families = 9), Code::Value, "families");
    is(read(|node| node.traffic_mode = -1), Code::Value, "traffic_mode");
    is(read(|node| node.local_probe = 8), Code::Value, "local_probe");
    is(read(|node| node.name.clear()), Code::Missing, "name");
    is(read(|node| node.gateway = None), Code::Missing, "gateway");
    is(read(|node| node.tunnel = None), Code::Missing, "tunnel");
    is(read(|node| node.pod_cidrs.push("10.20.0.0/24".to_owned())), Code::Duplicate, "pod_cidrs");
    is(read(|node| node.pod_cidrs.push("fd00::/64".to_owned())), Code::Family, "pod_cidrs");
    is(read(|node| node.service_cidrs = strings(&["10.10.0.128/25"])), Code::Overlap, "service_cidrs");
    is(read(|node| node.service_cidrs.push("fd00::/64".to_owned())), Code::Family, "service_cidrs");
    is(read(|node| node.transport_addresses = strings(&["10.10.0.7/24"])), Code::Overlap, "transport_addresses");
    is(read(|node| node.transport_addresses = strings(&["192.168.77.102"])), Code::Value, "transport_addresses[0]");
    is(read(|node| node.virtual_mac = mac("ba:5e:d1:55:aa:c0")), Code::Duplicate, "virtual_mac");
    is(read(|node| node.uplink = uplink("uplink0", "ba:5e:d1:55:aa:c0")), Code::Duplicate, "uplink.mac");
    is(read(|node| node.uplink = uplink("antrea-tun0", "02:00:00:00:00:02")), Code::Duplicate, "uplink.port");
    let hop = || v1::NextHop { address: "192.168.77.1".to_owned(), mac: None };
    let hops = |node: &mut v1::NodeConfig| {
        node.uplink = uplink("uplink0", "02:00:00:00:00:02");
        node.uplink.as_mut().unwrap().next_hops = vec![hop(), hop()];
    };
    is(read(hops), Code::Duplicate, "uplink.next_hops");
    let ttl = v1::FqdnConfig { min_ttl_seconds: 86_401, ..v1::FqdnConfig::default() };
    is(read(|node| node.fqdn = Some(ttl.clone())), Code::Range, "fqdn.min_ttl_seconds");
    let servers = v1::FqdnConfig { servers: strings(&["10.96.0.10", "dns"]), ..v1::FqdnConfig::default() };
    is(read(|node| node.fqdn = Some(servers.clone())), Code::Value, "fqdn.servers[1]");
    is(
        read(|node| node.zones = Some(v1::Zones { main_v4: Some(0), ..v1::Zones::default() })),
        Code::Range,
        "zones.main_v4",
    );
    let same = v1::Zones { main_v4: Some(65510), ..v1::Zones::default() };
    is(read(|node| node.zones = Some(same)), Code::Duplicate, "zones");
    let same = v1::Zones { uplink: Some(64003), ..v1::Zones::default() };
    is(read(|node| node.zones = Some(same)), Code::Duplicate, "zones");
}

#[test]
fn vlans_need_what_keeps_them_apart() {
    let with = |change: fn(&mut v1::NodeConfig)| {
        read(|node| {
            node.uplink = uplink("uplink0", "02:00:00:00:00:02");
            node.features = Some(v1::Features { pod_vlans: true, ..v1::Features::default() });
            node.l7 = None;
            change(node);
        })
    };
    assert_eq!(with(|_| ()), []);
    let feature = || (Code::Feature, "features.pod_vlans".to_owned());
    assert_eq!(with(|node| node.uplink = None), [feature()]);
    let multicast = |node: &mut v1::NodeConfig| node.features.as_mut().unwrap().multicast = true;
    assert_eq!(with(multicast), [feature()]);
    let only = |node: &mut v1::NodeConfig| {
        node.set_traffic_mode(v1::TrafficMode::NetworkPolicyOnly);
        node.tunnel = None;
        node.pod_cidrs.clear();
    };
    assert_eq!(with(only), [feature()]);
    let zone = |node: &mut v1::NodeConfig| {
        node.zones = Some(v1::Zones { egress_v6: Some(0x3064), ..v1::Zones::default() });
    };
    assert_eq!(with(zone), [(Code::Overlap, "zones".to_owned())]);
}
