//! What is in force stays whoever wants it: a Service's cluster IP, a Pod's port and addresses, a
//! peer's route.

use super::{again, lines, put, service};
use crate::testing::{PORTS, apply, document_node, dump, egress, node_state, peer, pod};
use crate::{Key, NodeState, ObjectKind, Ports, Write};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// Flows for an address of a Service, and for its endpoint.
fn of_services(node_state: &NodeState, address: &str) -> [usize; 2] {
    let dump = dump(node_state);
    let count =
        |table: &str, word: &str| dump.get(table).into_iter().flatten().filter(|line| line.contains(word)).count();
    [count("ServiceLB", &format!("nw_dst={address},")), count("EndpointDNAT", "dst=10.10.0.24:80")]
}

fn write(node_state: &mut NodeState, write: Write) {
    let plan = node_state.plan(Write { valid_only: true, ..write });
    node_state.settle(plan);
}

#[test]
fn an_address_that_only_services_have_is_no_egresses_and_no_pods() {
    let endpoint = v1::Endpoint { address: "10.10.0.24".to_owned(), port: 80, ready: true, ..v1::Endpoint::default() };
    let set = v1::Endpoints { service: "default/s".to_owned(), endpoints: vec![endpoint], ..v1::Endpoints::default() };
    for (cidrs, cluster_ip) in [(true, "10.96.0.10"), (false, "10.96.0.10"), (false, "198.51.100.9")] {
        let mut node = document_node();
        if !cidrs {
            node.service_cidrs.clear();
        }
        let own = || vec![Object::Service(service("s", cluster_ip)), Object::Endpoints(set.clone())];
        let alone = of_services(&node_state(&node, own()), cluster_ip);
        assert!(alone.iter().all(|count| *count > 0), "{alone:?}");
        let here = v1::Egress { address: cluster_ip.to_owned(), ..egress("web") };
        let there = v1::Egress { address: cluster_ip.to_owned(), ..egress("client") };
        let taker = v1::Pod { addresses: vec![cluster_ip.to_owned()], ..pod("db") };
        for other in [Object::Egress(here), Object::Egress(there), Object::Pod(taker)] {
            let key = crate::Object::key_of(&other);
            let name = Key::new(ObjectKind::Service, "default/s");
            let orders = [[own(), vec![other.clone()]], [vec![other.clone()], own()]];
            for order in orders {
                let mut grown = node_state(&node, Vec::new());
                order.clone().into_iter().for_each(|objects| drop(put(&mut grown, objects)));
                let synced = node_state(&node, order.concat());
                for node_state in [&grown, &synced, &again(&grown), &again(&synced)] {
                    assert_eq!(of_services(node_state, cluster_ip), alone, "{other:?}");
                    assert!(!node_state.degraded().contains_key(&name), "{:?}", node_state.degraded());
                    let told = format!("{:?}", node_state.degraded().get(&key));
                    assert!(told.contains("default/s"), "{told}");
                }
                // The Service goes: what only Services have stays theirs, another address is free.
                let gone = Key::new(ObjectKind::Endpoints, "default/s:");
                write(&mut grown, Write { remove: vec![gone, name.clone()], ..Write::default() });
                let told = format!("{:?}", grown.degraded().get(&key));
                assert_eq!(told.contains(cluster_ip), cidrs, "{told}");
                put(&mut grown, own());
                assert_eq!(of_services(&grown, cluster_ip), alone);
                assert!(grown.degraded().contains_key(&key) && !grown.degraded().contains_key(&name));
            }
        }
    }
}

#[test]
fn a_cluster_ip_of_no_service_cidr_takes_nothing_from_egresses_and_pods() {
    for other in [Object::Egress(egress("web")), Object::Pod(pod("db"))] {
        let key = crate::Object::key_of(&other);
        let address = if matches!(other, Object::Pod(_)) { "10.10.0.25" } else { "192.168.77.112" };
        for order in [
            vec![Object::Service(service("s", address)), Object::Pod(pod("web")), other.clone()],
            vec![Object::Pod(pod("web")), other.clone(), Object::Service(service("s", address))],
        ] {
            let mut node_state = node_state(&document_node(), Vec::new());
            order.into_iter().for_each(|object| drop(put(&mut node_state, vec![object])));
            assert!(!node_state.degraded().contains_key(&key), "{:?}", node_state.degraded());
            assert!(node_state.degraded().contains_key(&Key::new(ObjectKind::Service, "default/s")));
        }
    }
}

/// Changes of a Node that take something of the Pod `default/db`, or the route to the peer.
fn taking() -> Vec<(&'static str, v1::NodeConfig)> {
    let (node, db) = (document_node(), pod("db"));
    let gateway = || node.gateway.clone().unwrap_or_default();
    let (port, address) = (db.port.clone(), db.addresses[0].clone());
    let with_gateway = |gateway| v1::NodeConfig { gateway: Some(gateway), ..node.clone() };
    let tap = |port: &str| Some(v1::L7Ports { target: port.to_owned(), return_port: "antrea-l7-tap1".to_owned() });
    vec![
        ("tunnel", v1::NodeConfig { tunnel: Some(v1::Tunnel { port: port.clone() }), ..node.clone() }),
        ("gateway.port", with_gateway(v1::Gateway { port: port.clone(), ..gateway() })),
        ("gateway.mac", with_gateway(v1::Gateway { mac: db.mac, ..gateway() })),
        ("gateway.addresses", with_gateway(v1::Gateway { addresses: vec![address.clone()], ..gateway() })),
        ("l7", v1::NodeConfig { l7: tap(&port), ..node.clone() }),
        (
            "local_probe_port",
            v1::NodeConfig {
                local_probe: v1::LocalProbe::ByPort.into(),
                local_probe_port: port.clone(),
                ..node.clone()
            },
        ),
        (
            "uplink.port",
            v1::NodeConfig {
                uplink: Some(v1::Uplink {
                    port,
                    mac: crate::testing::mac("02:00:00:00:00:02"),
                    ..v1::Uplink::default()
                }),
                ..node.clone()
            },
        ),
        ("virtual_service_addresses", v1::NodeConfig { virtual_service_addresses: vec![address], ..node.clone() }),
        ("pod_cidrs", v1::NodeConfig { pod_cidrs: vec!["10.10.0.0/16".to_owned()], ..node.clone() }),
        ("pod_cidrs", v1::NodeConfig { pod_cidrs: vec!["10.10.0.0/23".to_owned()], ..node }),
    ]
}

#[test]
fn a_changed_node_takes_nothing_that_is_in_force() {
    for (field, changed) in taking() {
        let objects = || vec![Object::Pod(pod("db")), Object::Pod(pod("web")), Object::PeerNode(peer())];
        let mut node_state = node_state(&document_node(), objects());
        let before = dump(&node_state);
        for _ in 0..2 {
            let problems = node_state.plan_node(&changed).map(|_| ()).expect_err(field);
            let told = format!("{problems:?}");
            assert!(told.contains(field), "{field}: {told}");
            assert!(told.contains("default/db") || told.contains("worker-1"), "{field}: {told}");
            assert_eq!(dump(&node_state), before, "{field}");
            node_state = again(&node_state);
            assert_eq!(dump(&node_state), before, "{field}");
        }
        // It is free when they go; and whoever comes later has it not.
        let gone = vec![Key::new(ObjectKind::Pod, "default/db"), Key::new(ObjectKind::PeerNode, "worker-1")];
        write(&mut node_state, Write { remove: gone, ..Write::default() });
        let plan = node_state.plan_node(&changed).unwrap_or_else(|problems| panic!("{field}: {problems:?}"));
        node_state.settle(plan);
        put(&mut node_state, objects());
        let key = if field == "pod_cidrs" {
            Key::new(ObjectKind::PeerNode, "worker-1")
        } else {
            Key::new(ObjectKind::Pod, "default/db")
        };
        assert!(node_state.degraded().contains_key(&key), "{field}: {:?}", node_state.degraded());
        // The same Node again changes nothing.
        let plan = node_state.plan_node(&changed).unwrap_or_else(|problems| panic!("{field}: {problems:?}"));
        node_state.settle(plan);
    }
}

#[test]
fn a_peers_prefix_with_this_nodes_address_in_it_has_no_effect() {
    let with = |cidr: &str| {
        let (pod_cidrs, transport_addresses) = (vec![cidr.to_owned()], vec!["192.168.77.109".to_owned()]);
        Object::PeerNode(v1::PeerNode { name: "worker-9".to_owned(), pod_cidrs, transport_addresses, ..peer() })
    };
    let key = Key::new(ObjectKind::PeerNode, "worker-9");
    for cidr in ["192.168.77.0/24", "192.168.77.102/32", "192.0.0.0/8", "128.0.0.0/1"] {
        let others = vec![Object::Pod(pod("web")), Object::PeerNode(peer())];
        let alone = dump(&node_state(&document_node(), others.clone()));
        let mut grown = node_state(&document_node(), others.clone());
        apply(&mut grown, vec![with(cidr)]);
        let synced = node_state(&document_node(), [vec![with(cidr)], others].concat());
        for node_state in [&grown, &synced, &again(&grown)] {
            let told = format!("{:?}", node_state.degraded().get(&key));
            assert!(told.contains("192.168.77.102"), "{cidr} {told}");
            assert_eq!(dump(node_state).get("L3Forwarding"), alone.get("L3Forwarding"), "{cidr}");
        }
    }
    let node_state = node_state(&document_node(), vec![with("192.168.78.0/24")]);
    assert!(!node_state.degraded().contains_key(&key));
}

/// These ports, at the other end of one of which a guest is.
fn ports_with_guest(guest: &str) -> Ports {
    let ports: Ports = PORTS.map(|(name, number)| (name.to_owned(), number)).into_iter().collect();
    ports.with_guests([guest.to_owned()].into())
}

#[test]
fn the_port_of_a_guest_is_neither_the_gateways_nor_a_tunnels() {
    for (guest, field) in [("antrea-gw0", "gateway.port"), ("antrea-tun0", "tunnel.port")] {
        let mut node_state = NodeState::default();
        node_state.set_ports(ports_with_guest(guest));
        let problems = node_state.plan_node(&document_node()).expect_err("refused");
        let [problem] = problems.all() else { panic!("{problems:?}") };
        assert_eq!(problem.field, field);
        assert!(problem.reason.contains("is a guest's (vhost-user or memif)"), "{problem:?}");
        assert!(node_state.node().is_none());
        // The same port, of the Node's own.
        node_state.set_ports(ports_with_guest("web-7975-274540"));
        assert!(node_state.plan_node(&document_node()).is_ok());
    }
}

#[test]
fn a_peers_tunnel_is_no_guests_port_whoever_comes_first() {
    let own = || Object::PeerNode(v1::PeerNode { tunnel_port: "probe0".to_owned(), ..peer() });
    let routes = |node_state: &NodeState| of_peer(node_state).len();
    let mut node_state = node_state(&document_node(), vec![own()]);
    let has_tunnel = |node_state: &NodeState| lines(node_state).iter().any(|line| line.contains("in_port=probe0 "));
    assert!(has_tunnel(&node_state) && routes(&node_state) > 0, "{:#?}", lines(&node_state));
    node_state.set_ports(ports_with_guest("probe0"));
    put(&mut node_state, vec![own()]);
    assert!(!has_tunnel(&node_state) && routes(&node_state) == 0, "{:#?}", lines(&node_state));
    // A new port of that name, which is a tunnel.
    let plan = node_state.plan_ports(ports_with_guest("web-7975-274540")).expect("planned");
    node_state.settle(plan);
    assert!(has_tunnel(&node_state) && routes(&node_state) > 0);
}

/// Routes to the peer.
fn of_peer(node_state: &NodeState) -> Vec<String> {
    lines(node_state).into_iter().filter(|line| line.contains("nw_dst=10.10.1.0/24")).collect()
}

#[test]
fn an_address_of_another_nodes_pods_is_no_services_whoever_comes_first() {
    let outside = |address: &str| v1::Service { external_ips: vec![address.to_owned()], ..service("s", "10.96.0.10") };
    let by_cluster = || Object::Service(service("s", "10.10.1.20"));
    let mut node = document_node();
    for (object, address) in [(by_cluster(), "10.10.1.20"), (Object::Service(outside("10.10.1.20")), "10.10.1.20")] {
        for is_first in [true, false] {
            let mut node_state = node_state(&node, Vec::new());
            let both = [vec![object.clone()], vec![Object::PeerNode(peer())]];
            for objects in if is_first {
                both
            } else {
                let [one, other] = both;
                [other, one]
            } {
                put(&mut node_state, objects);
            }
            assert_eq!(of_services(&node_state, address)[0], 0, "{address} {is_first}");
            assert!(node_state.degraded().contains_key(&Key::new(ObjectKind::Service, "default/s")));
            write(
                &mut node_state,
                Write { remove: vec![Key::new(ObjectKind::PeerNode, &peer().name)], ..Write::default() },
            );
            assert!(of_services(&node_state, address)[0] > 0, "{address} {is_first}: the peer has gone");
        }
    }
    // What is of the Services' prefixes is theirs, whatever a peer says.
    node.service_cidrs = vec!["10.96.0.0/12".to_owned()];
    let wide = v1::PeerNode { pod_cidrs: vec!["10.97.0.0/16".to_owned()], ..peer() };
    let node_state = node_state(&node, vec![Object::Service(service("s", "10.97.0.10")), Object::PeerNode(wide)]);
    assert!(of_services(&node_state, "10.97.0.10")[0] > 0);
}
