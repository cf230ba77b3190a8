//! Who is in which group.

use super::*;
use crate::igmp::{Sender, query, report};
use crate::object::policy::igmp::Judge;
use crate::testing::{apply, document_node, ip, node_state, peer, pod};
use crate::{Mac, NodeState, Write};
use proptest::prelude::*;
use std::net::IpAddr;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);

fn multicast_node() -> v1::NodeConfig {
    let mut node = document_node();
    node.features = node.features.map(|features| v1::Features { multicast: true, ..features });
    node
}

fn a_node_state() -> NodeState {
    let pods = ["web", "db"].map(|name| Object::Pod(pod(name)));
    node_state(&multicast_node(), pods.into_iter().chain([Object::PeerNode(peer())]).collect())
}

fn life(node_state: &NodeState, name: &str) -> PodLife {
    let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
    PodLife::of(&facts, &Key::new(ObjectKind::Pod, &format!("default/{name}")))
        .unwrap_or_else(|| panic!("no Pod {name}"))
}

/// What became of a frame.
fn say(
    node_state: &NodeState,
    membership: &mut Membership,
    in_port: u32,
    from: Option<IpAddr>,
    frame: &[u8],
    now: u64,
) -> (bool, Counters) {
    let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
    let mut counters = Counters::default();
    let heard = Heard { in_port, tunnel_source: from, frame };
    let asks = hear(membership, (&facts, &Judge::new(facts)), heard, &mut counters, now);
    (asks, counters)
}

fn of_web(groups: &[(Ipv4Addr, bool)]) -> Vec<u8> {
    report(Sender { mac: Mac([2; 6]), address: [10, 10, 0, 24].into() }, groups, true)
}

#[test]
fn who_is_silent_for_three_rounds_has_left() {
    let node_state = a_node_state();
    let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
    let (mut membership, web) = (Membership::default(), life(&node_state, "web"));
    assert_eq!(membership.join(GROUP, &web, 3, 1000), Ok(()));
    assert_eq!(membership.take_changed()[&GROUP].pods, [web.clone()].into());
    assert_eq!(membership.join(GROUP, &web, 3, 100_000), Ok(()));
    assert!(membership.take_changed().is_empty(), "it has been there before");
    assert_eq!(membership.pass(&facts, 100_000 + 374_999), Due::default());
    assert!(!membership.is_empty());
    membership.pass(&facts, 100_000 + 375_000);
    assert!(membership.is_empty() && membership.take_changed()[&GROUP].is_empty());
    membership.set_interval(10);
    assert_eq!(membership.join(GROUP, &web, 1, 0), Ok(()));
    membership.pass(&facts, 30_000);
    assert!(membership.is_empty());
}

#[test]
fn who_says_that_it_left_is_asked_twice() {
    let node_state = a_node_state();
    let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
    let (mut membership, web) = (Membership::default(), life(&node_state, "web"));
    let asked = Due { last_members: vec![(GROUP, web.clone(), 2)] };
    assert_eq!(membership.join(GROUP, &web, 2, 0), Ok(()));
    membership.leave(GROUP, &web, 10);
    assert_eq!(membership.pass(&facts, 10), asked);
    membership.leave(GROUP, &web, 900);
    assert_eq!(membership.pass(&facts, 1009), Due::default());
    assert_eq!(membership.pass(&facts, 1010), asked);
    assert_eq!(membership.pass(&facts, 2009), Due::default());
    assert_eq!(membership.len(), 1, "another program of it may answer until 2010");
    membership.pass(&facts, 2010);
    assert!(membership.is_empty());
    // One that answers stays.
    assert_eq!(membership.join(GROUP, &web, 2, 3000), Ok(()));
    membership.leave(GROUP, &web, 4000);
    assert_eq!(membership.join(GROUP, &web, 2, 4500), Ok(()));
    assert_eq!(membership.pass(&facts, 9000), Due::default());
    assert_eq!(membership.len(), 1);
    membership.leave(GROUP, &life(&node_state, "db"), 9000);
    membership.leave([239, 9, 9, 9].into(), &web, 9000);
    assert_eq!(membership.pass(&facts, 9000), Due::default(), "nobody left");
}

#[test]
fn a_pod_that_comes_again_has_joined_nothing() {
    let mut node_state = a_node_state();
    let (mut membership, old) = (Membership::default(), life(&node_state, "web"));
    assert_eq!(membership.join(GROUP, &old, 3, 0), Ok(()));
    let plan = node_state.plan(Write { remove: vec![Key::new(ObjectKind::Pod, "default/web")], ..Write::default() });
    node_state.settle(plan);
    apply(&mut node_state, vec![Object::Pod(pod("web"))]);
    assert_ne!(life(&node_state, "web"), old);
    let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
    membership.pass(&facts, 1);
    assert!(membership.is_empty());
}

#[test]
fn only_pods_and_peers_are_heard() {
    let node_state = a_node_state();
    let mut membership = Membership::default();
    let frame = of_web(&[(GROUP, true)]);
    let (_, counters) = say(&node_state, &mut membership, 0x25, None, &frame, 0);
    assert_eq!((counters.heard, membership.len()), (1, 1));
    let strangers = [
        (0x26, None, "another Pod's address"),
        (2, None, "the gateway"),
        (99, None, "no port of ours"),
        (1, None, "out of a tunnel, from nobody"),
        (1, Some(ip("192.168.77.99")), "no peer"),
    ];
    for (port, from, what) in strangers {
        let (_, counters) = say(&node_state, &mut membership, port, from, &of_web(&[([239, 2, 2, 2].into(), true)]), 0);
        assert_eq!((counters.strangers, membership.len()), (1, 1), "{what}");
    }
    let from = Some(ip("192.168.77.103"));
    let (asks, _) =
        say(&node_state, &mut membership, 1, from, &of_web(&[(GROUP, true), ([239, 2, 2, 2].into(), true)]), 0);
    assert!(!asks && membership.len() == 2);
    assert_eq!(membership.take_changed()[&GROUP].nodes, ["worker-1".into()].into());
    say(&node_state, &mut membership, 1, from, &of_web(&[([239, 2, 2, 2].into(), false)]), 0);
    assert_eq!(membership.len(), 1, "a Node is believed at once");
    let question = query(Sender { mac: Mac([2; 6]), address: [10, 10, 1, 1].into() }, 3, None, 1000, 125);
    assert!(say(&node_state, &mut membership, 1, from, &question, 0).0);
    assert!(!say(&node_state, &mut membership, 0x25, None, &of_web(&[]), 0).0);
    assert_eq!(say(&node_state, &mut membership, 0x25, None, &frame[..40], 0).1.unreadable, 1);
}

#[test]
fn other_nodes_are_told_what_changed_or_all() {
    let node_state = a_node_state();
    let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
    let (mut membership, web) = (Membership::default(), life(&node_state, "web"));
    let other: Ipv4Addr = [239, 2, 2, 2].into();
    assert_eq!(membership.join(GROUP, &web, 3, 0), Ok(()));
    assert_eq!(membership.join_node(other, &"worker-1".into(), 0), Ok(()));
    assert_eq!(membership.take_report(false), [(GROUP, true)], "groups of our Pods alone");
    assert_eq!(membership.take_report(false), []);
    assert_eq!(membership.take_report(true), [(GROUP, true)]);
    membership.pass(&facts, 375_000);
    assert_eq!(membership.take_report(false), [(GROUP, false)]);
    assert_eq!(membership.take_report(true), []);
}

#[test]
fn nobody_takes_all_groups() {
    let node_state = a_node_state();
    let (mut membership, web, db) = (Membership::default(), life(&node_state, "web"), life(&node_state, "db"));
    let groups: Vec<Ipv4Addr> =
        (0..).map(|at| Ipv4Addr::from_bits(0xef00_0000 + at)).take(POD_GROUPS_MAX + 1).collect();
    let (last, first) = groups.split_last().unwrap_or_else(|| panic!("some"));
    for group in first {
        assert_eq!(membership.join(*group, &web, 3, 0), Ok(()));
    }
    assert_eq!(membership.join(*last, &web, 3, 0), Err(Full));
    assert_eq!(membership.join(*last, &db, 3, 0), Ok(()));
    let node: Arc<str> = "worker-1".into();
    let many = (0..).map(|at| Ipv4Addr::from_bits(0xee00_0000 + at)).take(GROUPS_MAX);
    let refused = many.filter(|group| membership.join_node(*group, &node, 0).is_err()).count();
    assert_eq!((membership.len(), refused), (GROUPS_MAX, POD_GROUPS_MAX + 1));
}

proptest! {
    #[test]
    fn counts_are_those_of_the_members(steps in prop::collection::vec((0..4_u8, 0..4_u32, any::<bool>(), 0..3000_u64), 0..200)) {
        let node_state = a_node_state();
        let facts = node_state.facts().unwrap_or_else(|| panic!("no Node"));
        let lives = [life(&node_state, "web"), life(&node_state, "db")];
        let (mut membership, mut now) = (Membership::default(), 0);
        membership.set_interval(1);
        let mut known: BTreeMap<Ipv4Addr, Receivers> = BTreeMap::new();
        for (what, group, other, wait) in steps {
            let (group, pod) = (Ipv4Addr::from_bits(0xef00_0000 + group), &lives[usize::from(other)]);
            now += wait;
            match what {
                0 => prop_assert_eq!(membership.join(group, pod, 3, now), Ok(())),
                1 => membership.leave(group, pod, now),
                2 => prop_assert_eq!(membership.join_node(group, &"worker-1".into(), now), Ok(())),
                _ => membership.leave_node(group, "worker-1"),
            }
            membership.pass(&facts, now);
            // Whoever follows what changed knows all of it.
            for (group, receivers) in membership.take_changed() {
                if receivers.is_empty() { known.remove(&group); } else { known.insert(group, receivers); }
            }
            let all: BTreeMap<Ipv4Addr, Receivers> = membership.groups.keys().map(|group| (*group, membership.receivers(*group))).collect();
            prop_assert_eq!(&known, &all);
            prop_assert_eq!(membership.members, all.values().map(|r| r.pods.len() + r.nodes.len()).sum::<usize>());
            let joined: usize = membership.joined.values().sum();
            prop_assert_eq!(joined, all.values().map(|receivers| receivers.pods.len()).sum::<usize>());
        }
    }
}
