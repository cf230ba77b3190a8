//! What goes with addresses and endpoints.

use super::{cluster_ip, endpoints};
use crate::testing::{document_node, node_state};
use crate::{Flush, Key, ObjectKind, NodeState, Write};
use std::net::IpAddr;
use vswitch_flow::spec::{FlowSpec, Update};
use vswitch_flow::text::{FlowCommand, parse_flow};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

fn ip(text: &str) -> IpAddr {
    crate::testing::ip(text)
}

/// A Service of UDP with a cluster IP and a `NodePort`.
fn udp(affinity: u32) -> v1::Service {
    let mut service = v1::Service { affinity_timeout_seconds: affinity, ..cluster_ip("udp", "10.96.3.1") };
    service.ports[0].set_protocol(v1::Protocol::Udp);
    service.ports[0].node_port = 30053;
    service
}

fn written(service: v1::Service) -> NodeState {
    let set = Object::Endpoints(endpoints("udp", &["10.10.0.24", "10.10.1.6"]));
    node_state(&document_node(), vec![Object::Service(service), set])
}

/// What goes with a write, and what the bridge is told of learned flows.
fn write(node_state: &mut NodeState, objects: Vec<Object>, remove: Vec<Key>) -> (Vec<Flush>, Vec<Update>) {
    let plan = node_state.plan(Write { objects, remove, ..Write::default() });
    assert!(plan.result.applied, "{:?}", plan.result);
    let learned = plan.updates.iter().filter(|update| {
        matches!(update, Update::DeleteFlows(filter) if filter.strict.is_none())
    });
    let told = (plan.flush.clone(), learned.cloned().collect());
    node_state.settle(plan);
    told
}

const fn at(address: Option<IpAddr>, port: u16, endpoint: Option<(IpAddr, u16)>) -> Flush {
    Flush::Service { protocol: 17, address, port, endpoint }
}

const fn learned(address: Option<IpAddr>, port: u16, endpoint: Option<(IpAddr, u16)>) -> Flush {
    Flush::Affinity { protocol: 17, address, port, endpoint }
}

#[test]
fn an_endpoint_that_leaves_takes_its_connections_of_udp() {
    let mut node_state = written(udp(0));
    let left = Some((ip("10.10.1.6"), 80));
    let (flush, deleted) = write(&mut node_state, vec![Object::Endpoints(endpoints("udp", &["10.10.0.24"]))], vec![]);
    assert_eq!(flush, [at(None, 30053, left), at(Some(ip("10.96.3.1")), 80, left)]);
    assert!(deleted.is_empty());
    let set = Key::new(ObjectKind::Endpoints, "default/udp:");
    let (flush, _) = write(&mut node_state, vec![], vec![set]);
    assert_eq!(flush.len(), 2, "the other one: {flush:?}");
}

#[test]
fn one_that_ends_and_serves_keeps_them_until_it_is_gone() {
    let mut node_state = written(udp(0));
    let mut ending = endpoints("udp", &["10.10.0.24", "10.10.1.6"]);
    (ending.endpoints[1].ready, ending.endpoints[1].terminating) = (false, true);
    assert!(write(&mut node_state, vec![Object::Endpoints(ending.clone())], vec![]).0.is_empty());
    ending.endpoints[1].serving = false;
    assert_eq!(write(&mut node_state, vec![Object::Endpoints(ending)], vec![]).0.len(), 2);
}

#[test]
fn tcp_is_left_alone_and_affinity_is_not() {
    let mut service = udp(0);
    service.ports[0].set_protocol(v1::Protocol::Tcp);
    let mut node_state = written(service.clone());
    let one = Object::Endpoints(endpoints("udp", &["10.10.0.24"]));
    assert!(write(&mut node_state, vec![one.clone()], vec![]).0.is_empty());
    let mut node_state = written(v1::Service { affinity_timeout_seconds: 60, ..service });
    let left = Some((ip("10.10.1.6"), 80));
    let tcp = |address, port| Flush::Affinity { protocol: 6, address, port, endpoint: left };
    let (flush, _) = write(&mut node_state, vec![one], vec![]);
    assert_eq!(flush, [tcp(None, 30053), tcp(Some(ip("10.96.3.1")), 80)]);
}

#[test]
fn an_address_or_port_that_goes_takes_all_of_it() {
    let mut node_state = written(udp(60));
    let mut other = udp(60);
    other.ports[0].node_port = 30054;
    other.cluster_ips = vec!["10.96.3.2".to_owned()];
    let (flush, deleted) = write(&mut node_state, vec![Object::Service(other.clone())], vec![]);
    let address = Some(ip("10.96.3.1"));
    let gone = [at(None, 30053, None), at(address, 80, None), learned(None, 30053, None), learned(address, 80, None)];
    assert_eq!(flush, gone);
    // At the cluster IP; at the Node's address and where the host translates to.
    assert_eq!(deleted.len(), 3, "{deleted:#?}");
    let service = Key::new(ObjectKind::Service, "default/udp");
    let (flush, _) = write(&mut node_state, vec![], vec![service]);
    assert_eq!(flush.len(), 4, "only what the Service says, not its endpoints: {flush:?}");
}

#[test]
fn a_port_of_another_name_has_other_endpoints() {
    let mut node_state = written(udp(0));
    let mut other = udp(0);
    other.ports[0].name = "dns".to_owned();
    let mut set = endpoints("udp", &["10.10.0.25"]);
    set.port = "dns".to_owned();
    let old = Key::new(ObjectKind::Endpoints, "default/udp:");
    let (flush, _) = write(&mut node_state, vec![Object::Service(other), Object::Endpoints(set)], vec![old]);
    assert_eq!(flush, [at(None, 30053, None), at(Some(ip("10.96.3.1")), 80, None)]);
}

#[test]
fn other_source_ranges_forget_who_was_let_in() {
    let mut service = udp(60);
    service.load_balancer_ips.push("192.168.77.160".to_owned());
    let mut node_state = written(service.clone());
    service.load_balancer_source_ranges = vec!["10.0.0.0/8".to_owned()];
    let (flush, deleted) = write(&mut node_state, vec![Object::Service(service)], vec![]);
    assert_eq!(flush, [learned(Some(ip("192.168.77.160")), 80, None)]);
    assert_eq!(deleted.len(), 1);
}

/// With an affinity, addresses of all kinds, and DSR or not.
fn sticky(dsr: bool) -> v1::Service {
    let mut service = v1::Service {
        load_balancer_ips: vec!["192.168.77.160".to_owned()],
        external_ips: vec!["192.168.77.161".to_owned()],
        ..udp(60)
    };
    service.ports[0].set_protocol(v1::Protocol::Tcp);
    if dsr {
        service.set_load_balancer_mode(v1::LoadBalancerMode::Dsr);
    }
    service
}

#[test]
fn whoever_is_led_otherwise_now_is_forgotten_where_that_is_so() {
    let [cluster, balancer, external] = ["10.96.3.1", "192.168.77.160", "192.168.77.161"].map(|text| Some(ip(text)));
    let outside = vec![(None, 30053), (balancer, 80), (external, 80)];
    let all: Vec<_> = outside.iter().copied().chain([(cluster, 80)]).collect();
    let local = v1::TrafficPolicy::Local;
    type Places = Vec<(Option<IpAddr>, u16)>;
    type Change<'a> = (&'a dyn Fn(&mut v1::Service), Places, Places);
    // There, and back again.
    let changes: [Change<'_>; 6] = [
        (&|service| service.external_traffic_policy = local.into(), outside.clone(), outside),
        (&|service| service.internal_traffic_policy = local.into(), vec![(cluster, 80)], vec![(cluster, 80)]),
        (&|service| service.affinity_timeout_seconds = 30, all.clone(), vec![]),
        (&|service| service.affinity_timeout_seconds = 0, all.clone(), vec![]),
        (&|service| service.affinity_timeout_seconds = 90, vec![], all),
        (&|service| service.set_selection(v1::Selection::Maglev), vec![], vec![]),
    ];
    let mut node = document_node();
    node.features = node.features.map(|features| v1::Features { dsr: true, ..features });
    for dsr in [false, true] {
        for (change, there, back) in &changes {
            let set = Object::Endpoints(endpoints("udp", &["10.10.0.24", "10.10.1.6"]));
            let mut node_state = node_state(&node, vec![Object::Service(sticky(dsr)), set]);
            let mut changed = sticky(dsr);
            change(&mut changed);
            for (service, places) in [(changed.clone(), there), (sticky(dsr), back)] {
                let (flush, deleted) = write(&mut node_state, vec![Object::Service(service)], vec![]);
                let of = |(address, port): (Option<IpAddr>, u16)| match dsr {
                    true => Flush::Clients { protocol: 6, address, port },
                    false => Flush::Affinity { protocol: 6, address, port, endpoint: None },
                };
                let mut wanted: Vec<Flush> = places.iter().copied().map(of).collect();
                wanted.sort();
                assert_eq!(flush, wanted, "dsr {dsr}: {changed:?}");
                // In the same transaction, but for a Service that has connections among them.
                assert_eq!(deleted.is_empty(), dsr || flush.is_empty(), "{deleted:?}");
            }
        }
    }
}

#[test]
fn learned_flows_are_known_by_what_they_load() {
    let node_state = written(udp(60));
    let facts = node_state.facts().unwrap();
    let flow = |text: &str| -> FlowSpec {
        match parse_flow(text, FlowCommand::Add, &facts).unwrap().value {
            Update::AddFlow(flow) => flow,
            other => panic!("{other:?}"),
        }
    };
    // As the document shows it (SessionAffinity-1).
    let client = flow(
        "table=SessionAffinity, hard_timeout=300, priority=200,udp,nw_src=10.10.0.1,nw_dst=10.96.3.1,tp_dst=80 \
         actions=set_field:0x50/0xffff->reg4,set_field:0/0x4000000->reg4,set_field:0xa0a0106->reg3,\
         set_field:0x20000/0x70000->reg4,set_field:0x200/0x200->reg0",
    );
    let flush = |address: &str, port| learned(Some(ip("10.96.3.1")), 80, Some((ip(address), port)));
    assert!(flush("10.10.1.6", 80).leads_on(&client));
    assert!(!flush("10.10.1.6", 81).leads_on(&client) && !flush("10.10.0.24", 80).leads_on(&client));
    let filters = flush("10.10.1.6", 80).learned(&facts);
    assert_eq!(filters.len(), 1);
    assert!(client.matching.is_within(&filters[0].matching) && filters[0].table == Some(client.table));
    let elsewhere = learned(Some(ip("10.96.3.2")), 80, None).learned(&facts);
    assert!(!client.matching.is_within(&elsewhere[0].matching));
    // A connection that the endpoint's Node answers: of TCP it stays.
    let connection = |protocol| {
        flow(&format!(
            "table=SessionAffinity, priority=210,{protocol},nw_src=1.2.3.4,nw_dst=10.96.3.1,tp_src=1000,tp_dst=80 \
             actions=set_field:0x50/0xffff->reg4,set_field:0xa0a0106->reg3"
        ))
    };
    assert!(flush("10.10.1.6", 80).leads_on(&connection("udp")));
    let clients = Flush::Clients { protocol: 17, address: Some(ip("10.96.3.1")), port: 80 };
    assert!(clients.leads_on(&client) && !clients.leads_on(&connection("udp")) && !clients.leads_on(&connection("tcp")));
    assert_eq!(clients.learned(&facts), filters);
    let tcp = Flush::Affinity { protocol: 6, address: None, port: 80, endpoint: Some((ip("10.10.1.6"), 80)) };
    assert!(!tcp.leads_on(&connection("tcp")));
    let six = flow(
        "table=SessionAffinity, priority=200,udp6,ipv6_dst=fd00::1,tp_dst=80 \
         actions=set_field:0x50/0xffff->reg4,set_field:0xfd000010001000000000000000000018->xxreg3",
    );
    assert!(learned(None, 80, Some((ip("fd00:10:10::18"), 80))).leads_on(&six));
}
