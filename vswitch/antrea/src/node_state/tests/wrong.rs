//! One object that is wrong, said twice, in conflict, early or of no use here takes nothing from
//! any other.

mod golden;
mod peers;
mod policies;
mod random;
mod takes;

use super::bridge::Bridge;
use super::{is, outcomes, pod_key, write};
use crate::testing::{
    PORTS, apply, degraded, document_node, dual_node, dump, egress, node_state, peer, pod, traffic_control, warned,
};
use crate::{Claim, Code, Flush, Kept, Key, NodeState, ObjectKind, Ports, Write};
use std::collections::BTreeMap;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::ObjectOutcome as Outcome;
use vswitch_proto::antrea::v1::object::Object;

fn service(name: &str, cluster_ip: &str) -> v1::Service {
    let port = v1::ServicePort { port: 80, ..v1::ServicePort::default() };
    v1::Service {
        name: format!("default/{name}"),
        ports: vec![port],
        cluster_ips: vec![cluster_ip.to_owned()],
        affinity_timeout_seconds: 60,
        ..v1::Service::default()
    }
}

fn external(name: &str, cluster_ip: &str, address: &str) -> Object {
    Object::Service(v1::Service { external_ips: vec![address.to_owned()], ..service(name, cluster_ip) })
}

fn set(service: &str) -> Object {
    let endpoint = v1::Endpoint {
        address: "10.10.0.24".to_owned(),
        port: 80,
        node: "worker-2".to_owned(),
        ready: true,
        ..v1::Endpoint::default()
    };
    Object::Endpoints(v1::Endpoints {
        service: format!("default/{service}"),
        port: String::new(),
        endpoints: vec![endpoint],
    })
}

fn group(name: &str, addresses: &[&str]) -> v1::AddressGroup {
    let member = |text: &&str| v1::GroupMember { member: Some(v1::group_member::Member::Address((*text).to_owned())) };
    v1::AddressGroup { name: name.to_owned(), members: addresses.iter().map(member).collect() }
}

fn applied(name: &str, pods: &[&str]) -> v1::AppliedToGroup {
    v1::AppliedToGroup {
        name: name.to_owned(),
        pods: pods.iter().map(ToString::to_string).collect(),
        services: Vec::new(),
    }
}

fn policy(name: &str, groups: &[&str]) -> v1::NetworkPolicy {
    let peer = v1::RulePeer { address_groups: vec!["clients".to_owned()], ..v1::RulePeer::default() };
    let port = v1::PortMatch { protocol: v1::Protocol::Tcp.into(), port: 80, ..v1::PortMatch::default() };
    let rule =
        v1::Rule { id: "in".to_owned(), direction: 1, peer: Some(peer), ports: vec![port], ..v1::Rule::default() };
    v1::NetworkPolicy {
        name: format!("np:default/{name}"),
        kind: v1::PolicyKind::K8s.into(),
        applied_to: groups.iter().map(ToString::to_string).collect(),
        rules: vec![rule],
        isolates_ingress: true,
        ..v1::NetworkPolicy::default()
    }
}

fn lines(node_state: &NodeState) -> Vec<String> {
    dump(node_state).into_values().flatten().collect()
}

fn put(node_state: &mut NodeState, objects: Vec<Object>) -> Vec<(String, Outcome)> {
    write(node_state, Write { objects, valid_only: true, ..Write::default() })
}

/// What was written to the disk, read again.
fn again(before: &NodeState) -> NodeState {
    let mut kept = Kept::decode(&before.snapshot().encode()).unwrap();
    let node = kept.node.take().unwrap();
    let mut node_state = NodeState::default();
    node_state.set_ports(PORTS.map(|(name, number)| (name.to_owned(), number)).into_iter().collect::<Ports>());
    assert!(node_state.put_back(kept).is_empty());
    let plan = node_state.plan_node(&node).unwrap();
    node_state.settle(plan);
    node_state
}

/// Doubles every list of a message.
fn doubled(object: &Object) -> Object {
    fn twice<T: Clone>(list: &mut Vec<T>) {
        list.extend(list.clone());
    }
    let mut object = object.clone();
    match &mut object {
        Object::PeerNode(peer) => [&mut peer.pod_cidrs, &mut peer.transport_addresses, &mut peer.gateway_addresses]
            .into_iter()
            .for_each(twice),
        Object::Pod(pod) => twice(&mut pod.addresses),
        Object::Service(service) => {
            twice(&mut service.ports);
            let lists = [&mut service.cluster_ips, &mut service.external_ips, &mut service.load_balancer_ips];
            lists.into_iter().for_each(twice);
            twice(&mut service.load_balancer_source_ranges);
        }
        Object::Endpoints(set) => twice(&mut set.endpoints),
        Object::AddressGroup(group) => twice(&mut group.members),
        Object::AppliedToGroup(group) => [&mut group.pods, &mut group.services].into_iter().for_each(twice),
        Object::NetworkPolicy(policy) => {
            for rule in &mut policy.rules {
                twice(&mut rule.ports);
                twice(&mut rule.applied_to);
                if let Some(peer) = &mut rule.peer {
                    let lists = [&mut peer.address_groups, &mut peer.fqdns, &mut peer.services];
                    lists.into_iter().for_each(twice);
                    peer.blocks.iter_mut().for_each(|block| twice(&mut block.except_cidrs));
                    twice(&mut peer.blocks);
                }
            }
            twice(&mut policy.rules);
            twice(&mut policy.applied_to);
        }
        Object::Egress(egress) => twice(&mut egress.pods),
        Object::TrafficControl(control) => twice(&mut control.pods),
        Object::MulticastGroup(group) => [&mut group.pods, &mut group.nodes].into_iter().for_each(twice),
    }
    object
}

fn everything() -> Vec<Object> {
    let mut wide = service("lb", "10.96.0.9");
    wide.load_balancer_ips = vec!["192.168.77.150".to_owned()];
    wide.load_balancer_source_ranges = vec!["10.0.0.0/8".to_owned(), "192.168.0.0/16".to_owned()];
    let mut egress_rule = policy("out", &["web"]);
    egress_rule.name = "acnp:out".to_owned();
    (egress_rule.kind, egress_rule.tier, egress_rule.priority) = (v1::PolicyKind::AntreaCluster.into(), 250, 5.0);
    egress_rule.isolates_ingress = false;
    let block = v1::IpBlock { cidr: "10.0.0.0/8".to_owned(), except_cidrs: vec!["10.10.0.0/16".to_owned()] };
    let icmp = v1::PortMatch { protocol: v1::Protocol::Icmp.into(), icmp_type: Some(8), ..v1::PortMatch::default() };
    let peer_ =
        v1::RulePeer { blocks: vec![block], fqdns: vec!["a.example.com".to_owned()], ..v1::RulePeer::default() };
    egress_rule.rules = vec![v1::Rule {
        id: "out".to_owned(),
        direction: 2,
        action: 2,
        peer: Some(peer_),
        ports: vec![icmp],
        ..v1::Rule::default()
    }];
    let pods = ["client", "web", "db"].map(|name| Object::Pod(pod(name)));
    pods.into_iter()
        .chain([
            Object::PeerNode(peer()),
            Object::Egress(egress("web")),
            Object::TrafficControl(traffic_control("db")),
            Object::Service(wide),
            external("ext", "10.96.0.10", "192.168.77.200"),
            set("lb"),
            Object::AddressGroup(group("clients", &["10.10.0.26"])),
            Object::AppliedToGroup(applied("web", &["default/web"])),
            Object::NetworkPolicy(policy("a", &["web"])),
            Object::NetworkPolicy(egress_rule),
        ])
        .collect()
}

#[test]
fn what_is_said_twice_means_the_same_once() {
    let once = node_state(&document_node(), everything());
    for one in everything() {
        let mut node_state = node_state(&document_node(), everything());
        let twice = doubled(&one);
        assert_ne!(twice, one, "there is something to double");
        assert!(!warned(&mut node_state, twice.clone()).is_empty(), "{twice:?}");
        assert!(apply(&mut node_state, vec![twice]).is_empty(), "nothing changes");
    }
    let twice: Vec<Object> = everything().iter().map(doubled).collect();
    let mut node_state = node_state(&document_node(), Vec::new());
    apply(&mut node_state, twice.clone());
    assert_eq!(dump(&node_state), dump(&once));
    // One object twice in a request is once, if both say the same.
    let all = [twice.clone(), twice].concat();
    assert!(apply(&mut node_state, all).is_empty());
}

#[test]
fn an_address_of_a_pod_is_no_services() {
    // At the start, in one sync, in either order.
    let objects = || vec![external("svc", "10.96.0.1", "10.10.0.24"), set("svc"), Object::Pod(pod("web"))];
    let without = node_state(
        &document_node(),
        vec![Object::Service(service("svc", "10.96.0.1")), set("svc"), Object::Pod(pod("web"))],
    );
    for objects in [objects(), objects().into_iter().rev().collect()] {
        let mut node_state = node_state(&document_node(), Vec::new());
        let told = put(&mut node_state, objects);
        assert!(told.iter().any(|told| *told == ("default/svc".to_owned(), Outcome::Degraded)), "{told:?}");
        assert!(told.iter().any(|told| *told == ("default/web".to_owned(), Outcome::Applied)), "{told:?}");
        let problem = &node_state.degraded()[&Key::new(ObjectKind::Service, "default/svc")].all()[0];
        assert_eq!(
            (problem.code, problem.field.as_str(), problem.other.clone()),
            (Code::Overlap, "external_ips[0]", Some(pod_key("web")))
        );
        let captures = |line: &String| line.contains("table=ServiceLB") && line.contains("nw_dst=10.10.0.24");
        assert!(!lines(&node_state).iter().any(captures), "the Pod's packets are its own");
        assert!(lines(&node_state).iter().any(|line| line.contains("nw_dst=10.96.0.1")), "the cluster IP works");
        // The Pod goes: the place is the Service's in the same transaction.
        let plan = node_state.plan(Write { remove: vec![pod_key("web")], ..Write::default() });
        assert_eq!(outcomes(&plan.result), is(&[("default/web", Outcome::Removed), ("default/svc", Outcome::Applied)]));
        node_state.settle(plan);
        assert!(lines(&node_state).iter().any(captures));
        // It comes again: what clients have learned of the place goes, and what is connected there.
        let plan = node_state.plan(Write { objects: vec![Object::Pod(pod("web"))], ..Write::default() });
        let address = "10.10.0.24".parse().unwrap();
        assert!(plan.flush.contains(&Flush::Address(address)), "{:?}", plan.flush);
        assert!(
            plan.flush
                .iter()
                .any(|flush| matches!(flush, Flush::Affinity { address: Some(other), .. } if *other == address))
        );
        node_state.settle(plan);
        assert_eq!(lines(&node_state).len(), lines(&without).len());
    }
}

#[test]
fn of_two_services_with_one_place_one_has_it_and_both_work() {
    let (a, b) = (external("a", "10.96.0.1", "192.168.77.200"), external("b", "10.96.0.2", "192.168.77.200"));
    let mut node_state = node_state(&document_node(), Vec::new());
    assert_eq!(
        put(&mut node_state, vec![b]),
        is(&[("default/b", Outcome::Degraded)]),
        "its Endpoints are not there yet"
    );
    put(&mut node_state, vec![set("a"), set("b"), a.clone()]);
    let holder = |node_state: &NodeState| {
        node_state
            .desired()
            .holder(&Claim::Service("192.168.77.200".parse().unwrap(), 6, 80))
            .map(|key| key.name.to_string())
    };
    assert_eq!(holder(&node_state).as_deref(), Some("default/b"), "the one in force keeps it");
    let problems = &node_state.degraded()[&Key::new(ObjectKind::Service, "default/a")];
    assert_eq!((problems.all()[0].field.as_str(), problems.all().len()), ("external_ips[0]", 1));
    assert!(!node_state.degraded().contains_key(&Key::new(ObjectKind::Service, "default/b")));
    for ip in ["10.96.0.1", "10.96.0.2", "192.168.77.200"] {
        assert!(lines(&node_state).iter().any(|line| line.contains(&format!("nw_dst={ip},"))), "{ip}");
    }
    // After a restart the same one has it, though the other one has the lower name.
    let after = again(&node_state);
    assert_eq!((holder(&after).as_deref(), dump(&after)), (Some("default/b"), dump(&node_state)));
    // The loser goes: nothing of the other one ends.
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Service, "default/a")], ..Write::default() });
    assert!(plan.flush.iter().all(|flush| !format!("{flush:?}").contains("192.168.77.200")), "{:?}", plan.flush);
    node_state.settle(plan);
    put(&mut node_state, vec![a, set("a")]);
    // The winner changes: it is the other one's at once.
    put(&mut node_state, vec![Object::Service(service("b", "10.96.0.2"))]);
    assert_eq!(holder(&node_state).as_deref(), Some("default/a"));
    assert!(
        !node_state.degraded().contains_key(&Key::new(ObjectKind::Service, "default/a")),
        "{:?}",
        node_state.degraded()
    );
}

#[test]
fn a_pods_rules_are_not_for_the_pod_that_has_its_address_or_port() {
    // The twin claims the port and the address of web; a policy allows the twin everything.
    let twin = v1::Pod { name: "default/twin".to_owned(), ..pod("web") };
    let mut open = policy("open", &["twins"]);
    (open.rules[0].peer, open.rules[0].ports) = (None, Vec::new());
    let base = || {
        vec![
            Object::Pod(pod("web")),
            Object::AddressGroup(group("clients", &[])),
            Object::AppliedToGroup(applied("web", &["default/web"])),
            Object::NetworkPolicy(policy("a", &["web"])),
        ]
    };
    let mut node_state = node_state(&document_node(), base());
    let before = dump(&node_state);
    put(
        &mut node_state,
        vec![
            Object::Pod(twin),
            Object::AppliedToGroup(applied("twins", &["default/twin"])),
            Object::NetworkPolicy(open),
        ],
    );
    let after = dump(&node_state);
    for table in ["IngressDefaultRule", "SpoofGuard", "Classifier", "L3Forwarding", "L2ForwardingCalc"] {
        assert_eq!(after[table], before[table], "{table}");
    }
    assert!(
        !after["IngressRule"].iter().any(|line| line.contains("reg1=0x25") && !before["IngressRule"].contains(line)),
        "{:?}",
        after["IngressRule"]
    );
}

#[test]
fn a_pod_without_its_port_waits_and_nobody_else_does() {
    let late = v1::Pod { port: "late".to_owned(), ..pod("db") };
    let mut node_state = node_state(&document_node(), Vec::new());
    let told = put(
        &mut node_state,
        vec![
            Object::Pod(late),
            Object::Pod(pod("web")),
            Object::AppliedToGroup(applied("db", &["default/db"])),
            Object::NetworkPolicy(policy("a", &["db"])),
            Object::AddressGroup(group("clients", &[])),
        ],
    );
    assert!(
        told.contains(&("default/db".to_owned(), Outcome::Degraded))
            && told.contains(&("default/web".to_owned(), Outcome::Applied)),
        "{told:?}"
    );
    assert_eq!(node_state.degraded()[&pod_key("db")].all()[0].code, Code::Port);
    assert!(!lines(&node_state).iter().any(|line| line.contains("10.10.0.25")));
    let with: Ports =
        PORTS.iter().map(|(name, number)| ((*name).to_owned(), *number)).chain([("late".to_owned(), 0x66)]).collect();
    // Somebody else's write sees the port first.
    node_state.set_ports(with.clone());
    let plan = node_state.plan(Write { objects: vec![Object::Pod(pod("client"))], ..Write::default() });
    node_state.revert(plan);
    let mut bridge = Bridge::of(&node_state);
    let plan = node_state.plan_ports(with).unwrap();
    assert!(!plan.updates.is_empty());
    bridge.take(&plan.updates);
    node_state.settle(plan);
    bridge.is_as(&node_state);
    assert!(!node_state.degraded().contains_key(&pod_key("db")));
    assert!(
        dump(&node_state)["IngressDefaultRule"]
            .iter()
            .any(|line| line.contains("reg1=0x66") && line.contains("ct_forget")),
        "isolated with its port"
    );
}

#[test]
fn features_that_are_off_make_objects_without_effect() {
    let mut node = document_node();
    node.features = Some(v1::Features { antrea_policy: Some(false), egress: Some(false), ..v1::Features::default() });
    node.l7 = None;
    let mut node_state = node_state(&node, Vec::new());
    let mut dsr = service("dsr", "10.96.0.11");
    dsr.load_balancer_ips = vec!["192.168.77.151".to_owned()];
    dsr.set_load_balancer_mode(v1::LoadBalancerMode::Dsr);
    let told: BTreeMap<String, Outcome> =
        put(&mut node_state, everything().into_iter().chain([Object::Service(dsr.clone())]).collect())
            .into_iter()
            .collect();
    assert!(!told.values().any(|outcome| *outcome == Outcome::Refused), "{told:?}");
    for name in ["egress-web", "mirror-db-to-local", "acnp:out", "default/lb", "default/ext"] {
        assert_eq!(told.get(name), Some(&Outcome::Degraded), "{name}");
    }
    let there = lines(&node_state);
    assert!(there.iter().any(|line| line.contains("nw_dst=10.96.0.10,")), "cluster IPs work");
    assert!(
        !there.iter().any(|line| line.contains("192.168.77.200") || line.contains("192.168.77.15")),
        "nothing outside"
    );
    assert!(
        dump(&node_state)["IngressDefaultRule"].iter().any(|line| line.contains("reg1=") && line.contains("ct_forget")),
        "K8s policies isolate"
    );
    // DSR that is off is translation by this Node.
    let problems = degraded(&mut crate::testing::node_state(&document_node(), vec![set("dsr")]), Object::Service(dsr));
    assert_eq!((problems[0].code.as_str(), problems[0].field.as_str()), ("FEATURE", "load_balancer_mode"));
}
