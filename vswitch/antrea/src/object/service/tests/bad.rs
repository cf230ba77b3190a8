//! What is refused, or has no effect, by the code that says why.

use super::{cluster_ip, endpoint, endpoints};
use crate::testing::{degraded, document_node, dual_node, refused, node_state};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn named(name: &str, port: u32) -> v1::ServicePort {
    v1::ServicePort { name: name.to_owned(), port, ..v1::ServicePort::default() }
}

/// What is told of a Service with this changed: (code, field).
fn told(node: &v1::NodeConfig, change: impl FnOnce(&mut v1::Service)) -> Vec<(String, String)> {
    let mut service = cluster_ip("bad", "10.96.9.9");
    change(&mut service);
    problems(node, Object::Service(service))
}

fn problems(node: &v1::NodeConfig, object: Object) -> Vec<(String, String)> {
    let other = v1::Service {
        external_ips: strings(&["192.168.77.102"]),
        ports: vec![v1::ServicePort { node_port: 30004, ..named("", 8080) }],
        ..cluster_ip("other", "10.96.9.1")
    };
    let mut there = vec![Object::Service(cluster_ip("there", "10.96.9.2"))];
    if node.features.is_some_and(|features| features.proxy_all) {
        there.push(Object::Service(other));
    }
    let mut node_state = node_state(node, there);
    let mut codes: Vec<_> = of_room(&mut node_state, object).into_iter().map(|problem| (problem.code, problem.field)).collect();
    codes.retain(|(code, field)| code != "PENDING" || !field.starts_with("ports"));
    codes
}

/// What is wrong with it by itself, so that it is refused; or what of it has no effect.
fn of_room(node_state: &mut crate::NodeState, object: Object) -> Vec<v1::Problem> {
    let plan = node_state.plan(crate::Write { objects: vec![object.clone()], ..crate::Write::default() });
    let is_refused = !plan.result.applied;
    node_state.revert(plan);
    if is_refused { refused(node_state, object) } else { degraded(node_state, object) }
}

fn one(code: &str, field: &str) -> Vec<(String, String)> {
    vec![(code.to_owned(), field.to_owned())]
}

type Change = fn(&mut v1::Service);

#[test]
fn a_service_by_itself() {
    let cases: [(&str, &str, Change); 25] = [
        ("MISSING", "name", |s| s.name.clear()),
        ("MISSING", "ports", |s| s.ports.clear()),
        ("MISSING", "cluster_ips", |s| s.cluster_ips.clear()),
        ("MISSING", "ports[0].port", |s| s.ports[0].port = 0),
        ("MISSING", "ports[1].name", |s| s.ports = vec![named("a", 1), named("", 2)]),
        ("VALUE", "name", |s| s.name = "a\nb".to_owned()),
        ("VALUE", "ports[0].port", |s| s.ports[0].port = 65_536),
        ("VALUE", "ports[0].node_port", |s| s.ports[0].node_port = 65_536),
        ("VALUE", "ports[0].protocol", |s| s.ports[0].protocol = v1::Protocol::Icmp.into()),
        ("VALUE", "ports[0].protocol", |s| s.ports[0].protocol = 77),
        ("VALUE", "ports[0].name", |s| s.ports[0].name = "a:b".to_owned()),
        ("VALUE", "ports[0].name", |s| s.ports[0].name = "a".repeat(64)),
        ("VALUE", "cluster_ips[0]", |s| s.cluster_ips[0] = "10.96.9".to_owned()),
        ("VALUE", "cluster_ips[0]", |s| s.cluster_ips[0] = "::ffff:10.0.0.1".to_owned()),
        ("VALUE", "external_ips[0]", |s| s.external_ips = strings(&["224.0.0.1"])),
        ("VALUE", "internal_traffic_policy", |s| s.internal_traffic_policy = 9),
        ("VALUE", "external_traffic_policy", |s| s.external_traffic_policy = -1),
        ("VALUE", "selection", |s| s.selection = 3),
        ("VALUE", "load_balancer_mode", |s| s.load_balancer_mode = 3),
        ("VALUE", "load_balancer_source_ranges[0]", |s| s.load_balancer_source_ranges = strings(&["10.0.0.1/8"])),
        ("VALUE", "nested", |s| (s.nested, s.external_ips) = (true, strings(&["1.2.3.4"]))),
        ("RANGE", "affinity_timeout_seconds", |s| s.affinity_timeout_seconds = 86_401),
        ("DUPLICATE", "cluster_ips[1]", |s| s.cluster_ips.push("10.96.9.10".to_owned())),
        ("DUPLICATE", "ports[1].name", |s| s.ports = vec![named("a", 1), named("a", 2)]),
        ("DUPLICATE", "ports[1].port", |s| s.ports = vec![named("a", 1), named("b", 1)]),
    ];
    for (code, field, change) in cases {
        assert_eq!(told(&document_node(), change), one(code, field));
    }
}

#[test]
fn limits() {
    let ports = |many: u32| (1..=many).map(|at| named(&format!("p{at}"), at)).collect::<Vec<_>>();
    let ranges = |many: u32| (0..many).map(|at| format!("10.{}.{}.0/24", at / 256, at % 256)).collect::<Vec<_>>();
    let product = |s: &mut v1::Service| {
        (s.ports, s.load_balancer_source_ranges) = (ports(1000), ranges(256));
        s.load_balancer_ips = strings(&["192.168.77.150"]);
    };
    assert_eq!(told(&document_node(), product), one("LIMIT", "load_balancer_source_ranges"));
    let addresses = |s: &mut v1::Service| {
        (s.ports, s.external_ips) = (ports(1000), (0..66).map(|at| format!("172.16.0.{at}")).collect());
    };
    assert_eq!(told(&document_node(), addresses), one("LIMIT", "ports"));
    let set = |many: u32| {
        let address = |at: u32| format!("10.20.{}.{}", at / 256, at % 256);
        let endpoints = (0..many).map(|at| endpoint(&address(at))).collect();
        v1::Endpoints { service: "default/there".to_owned(), port: String::new(), endpoints }
    };
    assert_eq!(problems(&document_node(), Object::Endpoints(set(16_385))), one("LIMIT", "endpoints"));
    let mut down = set(16_384);
    down.endpoints[7].ready = false;
    let mut node_state = node_state(&document_node(), vec![Object::Service(cluster_ip("there", "10.96.9.2"))]);
    crate::testing::apply(&mut node_state, vec![Object::Endpoints(down)]);
    assert_eq!(node_state.store().sizes().2, 16_383);
}

#[test]
fn a_service_beside_others() {
    let cases: [(&str, &str, Change); 10] = [
        ("OVERLAP", "cluster_ips[0]", |s| s.cluster_ips = strings(&["10.96.9.2"])),
        ("OVERLAP", "external_ips[0]", |s| s.external_ips = strings(&["10.96.9.2"])),
        ("OVERLAP", "ports[0].node_port", |s| s.ports[0].node_port = 30004),
        ("OVERLAP", "cluster_ips[0]", |s| s.cluster_ips = strings(&["10.10.0.1"])),
        ("OVERLAP", "load_balancer_ips[0]", |s| s.load_balancer_ips = strings(&["169.254.0.252"])),
        ("OVERLAP", "external_ips[0]", |s| {
            (s.external_ips, s.ports) = (strings(&["192.168.77.102"]), vec![named("", 30004)]);
        }),
        ("FAMILY", "cluster_ips[1]", |s| s.cluster_ips.push("fd00::1".to_owned())),
        ("FAMILY", "external_ips[0]", |s| s.external_ips = strings(&["fd00::1"])),
        ("FAMILY", "load_balancer_source_ranges", |s| s.load_balancer_source_ranges = strings(&["fd00::/8"])),
        ("FEATURE", "load_balancer_mode", |s| s.load_balancer_mode = v1::LoadBalancerMode::Dsr.into()),
    ];
    for (code, field, change) in cases {
        assert_eq!(told(&document_node(), change), one(code, field));
    }
    // Other protocols and ports are other places.
    let mut node_state = node_state(&document_node(), vec![Object::Service(cluster_ip("there", "10.96.9.2"))]);
    let mut udp = cluster_ip("udp", "10.96.9.2");
    udp.ports[0].set_protocol(v1::Protocol::Udp);
    let mut port = cluster_ip("port", "10.96.9.2");
    port.ports[0].port = 81;
    crate::testing::apply(&mut node_state, vec![Object::Service(udp), Object::Service(port)]);
}

#[test]
fn features_and_families() {
    let mut node = document_node();
    node.features = Some(v1::Features { proxy_all: false, ..node.features.unwrap_or_default() });
    for (field, change) in [
        ("ports[0].node_port", (|s| s.ports[0].node_port = 30000) as Change),
        ("external_ips", |s| s.external_ips = strings(&["1.2.3.4"])),
        ("load_balancer_ips", |s| s.load_balancer_ips = strings(&["1.2.3.4"])),
    ] {
        assert_eq!(told(&node, change), one("FEATURE", field));
    }
    let mut dsr = dual_node();
    dsr.features = Some(v1::Features { dsr: true, ..dsr.features.unwrap_or_default() });
    let six = |s: &mut v1::Service| {
        s.set_load_balancer_mode(v1::LoadBalancerMode::Dsr);
        s.load_balancer_ips = strings(&["fd00:1::1"]);
    };
    assert_eq!(told(&dsr, six), one("FAMILY", "load_balancer_ips[0]"));
    let mut without = node_state(&v1::NodeConfig {
        features: Some(v1::Features { proxy: Some(false), ..v1::Features::default() }),
        l7: None,
        ..document_node()
    }, Vec::new());
    let told = degraded(&mut without, Object::Service(cluster_ip("bad", "10.96.9.9")));
    assert_eq!(told[0].code, "FEATURE");
}

#[test]
fn endpoints_of_a_set() {
    type Change = fn(&mut v1::Endpoints);
    let cases: [(&str, &str, Change); 12] = [
        ("MISSING", "service", |s| s.service.clear()),
        ("MISSING", "endpoints[0].port", |s| s.endpoints[0].port = 0),
        ("VALUE", "endpoints[0].port", |s| s.endpoints[0].port = 65_536),
        ("VALUE", "endpoints[0].address", |s| s.endpoints[0].address = "web".to_owned()),
        ("VALUE", "endpoints[0].address", |s| s.endpoints[0].address = "127.0.0.1".to_owned()),
        ("VALUE", "endpoints[0].node", |s| s.endpoints[0].node = "a\0".to_owned()),
        ("RANGE", "endpoints[0].weight", |s| s.endpoints[0].weight = 65_536),
        ("LIMIT", "endpoints[0].hint_zones", |s| s.endpoints[0].hint_zones = vec!["z".to_owned(); 65]),
        ("FAMILY", "endpoints", |s| s.endpoints[0].address = "fd00::1".to_owned()),
        ("PENDING", "service", |s| s.service = "default/none".to_owned()),
        ("PENDING", "port", |s| s.port = "none".to_owned()),
        ("VALUE", "port", |s| s.port = "a:b".to_owned()),
    ];
    for (code, field, change) in cases {
        let mut set = endpoints("there", &["10.10.0.24"]);
        change(&mut set);
        assert_eq!(problems(&document_node(), Object::Endpoints(set)), one(code, field));
    }
    let six = Object::Endpoints(endpoints("there", &["fd00:10:10::18"]));
    assert_eq!(problems(&dual_node(), six), one("FAMILY", "endpoints"), "the Service has no IPv6 address");
}

#[test]
fn a_port_that_goes_leaves_its_endpoints_without_effect() {
    let mut named_port = cluster_ip("there", "10.96.9.2");
    named_port.ports = vec![named("a", 80), named("b", 81)];
    let set = v1::Endpoints { port: "b".to_owned(), ..endpoints("there", &["10.10.0.24"]) };
    let mut node_state = node_state(&document_node(), vec![Object::Service(named_port.clone()), Object::Endpoints(set)]);
    named_port.ports.pop();
    crate::testing::apply(&mut node_state, vec![Object::Service(named_port)]);
    let key = crate::Key::new(crate::ObjectKind::Endpoints, "default/there:b");
    assert_eq!(node_state.degraded()[&key].all()[0].code, crate::Code::Pending);
    assert_eq!(node_state.ids().group_keys_of("default/there").len(), 1);
}

#[test]
fn a_nodes_change_leaves_services_without_effect_and_gives_it_back() {
    let mut load_balancer = cluster_ip("lb", "10.96.9.3");
    load_balancer.load_balancer_ips.push("192.168.77.150".to_owned());
    let mut node_state = node_state(&document_node(), vec![Object::Service(load_balancer), super::web("lb")]);
    let before = crate::testing::dump(&node_state);
    let mut node = document_node();
    node.features = Some(v1::Features { proxy_all: false, ..node.features.unwrap_or_default() });
    let plan = node_state.plan_node(&node).unwrap();
    node_state.settle(plan);
    let lines = crate::testing::dump_of(&node_state, &["ServiceLB"]);
    assert!(lines.iter().all(|line| !line.contains("192.168.77.150")), "no load balancer: {lines:?}");
    assert!(lines.iter().any(|line| line.contains("nw_dst=10.96")), "the cluster IP works: {lines:?}");
    let plan = node_state.plan_node(&document_node()).unwrap();
    node_state.settle(plan);
    assert_eq!(crate::testing::dump(&node_state), before);
}
