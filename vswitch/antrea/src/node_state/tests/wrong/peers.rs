//! Prefixes and addresses of peers that are this Node's, or another peer's.

use super::{again, put};
use crate::testing::{apply, document_node, dual_node, dump, node_state, peer, pod};
use crate::{Key, NodeState, ObjectKind, Write};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

fn web() -> Object {
    let addresses = vec!["10.10.0.24".to_owned(), "fd00:10:10::24".to_owned()];
    Object::Pod(v1::Pod { addresses, ..pod("web") })
}

fn with(name: &str, cidrs: &[&str], transport: &str) -> Object {
    Object::PeerNode(v1::PeerNode {
        name: name.to_owned(),
        pod_cidrs: cidrs.iter().map(ToString::to_string).collect(),
        transport_addresses: vec![transport.to_owned()],
        ..peer()
    })
}

/// Whom packets for a prefix go to.
fn route(node_state: &NodeState, cidr: &str) -> Option<String> {
    let lines = dump(node_state).remove("L3Forwarding").unwrap_or_default();
    let line = lines.into_iter().find(|line| line.contains(&format!("_dst={cidr} ")))?;
    Some(line.split_once("->tun_")?.0.rsplit_once("set_field:")?.1.to_owned())
}

#[test]
fn a_peers_prefix_that_is_this_nodes_takes_nothing_from_its_pods() {
    let four = ["10.10.0.0/24", "10.10.0.0/16", "0.0.0.0/0", "10.10.0.24/30", "10.10.0.24/32", "10.96.0.0/16"];
    let six = ["fd00:10:10::/64", "fd00:10::/32", "::/0", "fd00:10:10::24/126"];
    let key = Key::new(ObjectKind::Pod, "default/web");
    let bad = four.iter().flat_map(|cidr| [vec![*cidr], vec![*cidr, "fd00:99::/64"]]);
    let bad = bad.chain(six.iter().map(|cidr| vec!["10.10.9.0/24", *cidr]));
    let cases = bad.map(|cidrs| with("worker-9", &cidrs, "192.168.77.109"));
    // Likewise addresses that are a Pod's or the Node's; a peer without an effect has no prefix.
    let addresses = ["10.10.0.24", "192.168.77.102"].map(|address| with("worker-9", &["10.10.9.0/24"], address));
    let of_pods = with("worker-9", &["10.10.0.0/24"], "10.10.0.24");
    for case in cases.chain(addresses).chain([of_pods]) {
        let alone = node_state(&dual_node(), vec![web()]);
        let pods_flows = |node_state: &NodeState| {
            let all = dump(node_state).into_values().flatten();
            all.filter(|line| line.contains("10.10.0.24") || line.contains("fd00:10:10::24"))
                .filter(|line| !line.contains("EgressMark"))
                .collect::<Vec<_>>()
        };
        for order in [vec![web(), case.clone()], vec![case.clone(), web()]] {
            let mut grown = node_state(&dual_node(), Vec::new());
            order.into_iter().for_each(|object| drop(put(&mut grown, vec![object])));
            let synced = node_state(&dual_node(), vec![case.clone(), web()]);
            for (how, node_state) in [("grown", &grown), ("synced", &synced), ("again", &again(&grown))] {
                assert!(!node_state.degraded().contains_key(&key), "{how} {case:?} {:?}", node_state.degraded());
                let flows = pods_flows(node_state);
                assert!(pods_flows(&alone).iter().all(|line| flows.contains(line)), "{how} {case:?}");
            }
        }
    }
}

#[test]
fn of_peers_with_overlapping_prefixes_the_one_in_force_keeps_its_route() {
    let old = || with("n2", &["10.10.1.0/24"], "192.168.77.112");
    for cidr in ["10.10.1.0/24", "10.10.1.0/25", "10.10.0.0/23", "10.8.0.0/14", "10.10.1.7/32"] {
        for name in ["a3", "z3"] {
            // What covers the Node's own is no peer's at all.
            let new = || with(name, &[cidr], "192.168.77.113");
            let mut node_state = node_state(&document_node(), vec![old()]);
            apply(&mut node_state, vec![new()]);
            let end = |node_state: &NodeState| route(node_state, "10.10.1.0/24");
            let loser = Key::new(ObjectKind::PeerNode, name);
            for node_state in [&node_state, &again(&node_state)] {
                assert_eq!(end(node_state).as_deref(), Some("192.168.77.112"), "{name} {cidr}");
                assert!(node_state.degraded().contains_key(&loser), "{name} {cidr}");
            }
            // A write of the one in force, and of others, changes nothing of that.
            apply(
                &mut node_state,
                vec![with("n2", &["10.10.1.0/24"], "192.168.77.114"), with("b", &["10.10.7.0/24"], "192.168.77.115")],
            );
            assert_eq!(end(&node_state).as_deref(), Some("192.168.77.114"), "{name} {cidr}");
            // It goes: the other one has it in the same transaction, and keeps it.
            if !["10.10.0.0/23", "10.8.0.0/14"].contains(&cidr) {
                let plan =
                    node_state.plan(Write { remove: vec![Key::new(ObjectKind::PeerNode, "n2")], ..Write::default() });
                node_state.settle(plan);
                let short = cidr.trim_end_matches("/32");
                assert_eq!(route(&node_state, short).as_deref(), Some("192.168.77.113"), "{name} {cidr}");
                assert!(!node_state.degraded().contains_key(&loser), "{name} {cidr}");
                apply(&mut node_state, vec![old()]);
                assert_eq!(route(&node_state, short).as_deref(), Some("192.168.77.113"), "{name} {cidr}");
            }
        }
    }
    // At a fresh start the first by name has it.
    for objects in [["a3", "n2"], ["n2", "a3"]] {
        let both = objects
            .map(|name| with(name, &["10.10.1.0/24"], if name == "a3" { "192.168.77.113" } else { "192.168.77.112" }));
        let node_state = node_state(&document_node(), both.into());
        assert_eq!(route(&node_state, "10.10.1.0/24").as_deref(), Some("192.168.77.113"));
    }
    // A peer without an effect has no prefix, wherever its name is; a plan that is not done changes
    // nothing.
    let useless = || with("a3", &["10.10.1.0/24"], "192.168.77.102");
    let mut node_state = node_state(&document_node(), vec![useless(), old()]);
    assert_eq!(route(&node_state, "10.10.1.0/24").as_deref(), Some("192.168.77.112"));
    let before = dump(&node_state);
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::PeerNode, "n2")], ..Write::default() });
    node_state.revert(plan);
    assert_eq!(dump(&node_state), before);
    apply(&mut node_state, vec![with("a3", &["10.10.1.0/24"], "192.168.77.113")]);
    assert_eq!(route(&node_state, "10.10.1.0/24").as_deref(), Some("192.168.77.112"));
}

#[test]
fn a_port_is_whose_it_was_and_a_pods_if_a_peers_tunnel_comes_with_it() {
    let port = pod("web").port;
    let claims = |name: &str| {
        let Object::PeerNode(peer) = with(name, &["10.10.9.0/24"], "192.168.77.109") else { unreachable!() };
        Object::PeerNode(v1::PeerNode { tunnel_port: port.clone(), ..peer })
    };
    let web = || Object::Pod(pod("web"));
    let pods = Key::new(ObjectKind::Pod, "default/web");
    for name in ["a9", "worker-9"] {
        let peers = Key::new(ObjectKind::PeerNode, name);
        let alone = dump(&node_state(&document_node(), vec![web()]));
        let has = |node_state: &NodeState, winner: &Key, loser: &Key| {
            let told = format!("{:?}", node_state.degraded().get(loser));
            assert!(told.contains(&*winner.name), "{name} {told}");
            assert!(!node_state.degraded().contains_key(winner), "{name} {:?}", node_state.degraded());
        };
        // At once, or the Pod first: it is the Pod's.
        let mut after = node_state(&document_node(), vec![web()]);
        put(&mut after, vec![claims(name)]);
        for objects in [vec![claims(name), web()], vec![web(), claims(name)]] {
            let at_once = node_state(&document_node(), objects.clone());
            for node_state in [&at_once, &again(&at_once), &after, &again(&after)] {
                has(node_state, &pods, &peers);
                assert_eq!(dump(node_state), alone, "{name}");
            }
            // A Sync of both changes nothing.
            put(&mut after, objects);
        }
        // The peer first: its tunnel stays.
        let mut first = node_state(&document_node(), vec![claims(name)]);
        let tunnel = dump(&first);
        put(&mut first, vec![web()]);
        put(&mut first, vec![web(), claims(name)]);
        for node_state in [&first, &again(&first)] {
            has(node_state, &peers, &pods);
            assert_eq!(dump(node_state), tunnel, "{name}");
        }
        // Whoever goes leaves it to the other, which keeps it.
        for (node_state, goes, comes, stays) in
            [(&mut first, &peers, claims(name), &pods), (&mut after, &pods, web(), &peers)]
        {
            let plan = node_state.plan(Write { remove: vec![goes.clone()], ..Write::default() });
            node_state.settle(plan);
            assert!(!node_state.degraded().contains_key(stays), "{name} {:?}", node_state.degraded());
            put(node_state, vec![comes]);
            has(node_state, stays, goes);
        }
    }
}
