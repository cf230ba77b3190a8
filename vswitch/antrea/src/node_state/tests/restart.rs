//! Rooms that were on a disk meanwhile.

use super::bridge::Bridge;
use crate::testing::{PORTS, apply, cluster, document_node, dump, node_state, pod};
use crate::{Kept, KeptError, Key, NodeState, ObjectKind, Ports};
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1::object::Object;

fn ports(without: &[&str]) -> Ports {
    let there = PORTS.iter().filter(|(name, _)| !without.contains(name));
    there.map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

/// What was written, put back into a node state with these ports.
fn again(bytes: &[u8], ports: Ports) -> NodeState {
    let mut kept = Kept::decode(bytes).unwrap_or_else(|error| panic!("{error}"));
    let node = kept.node.take().unwrap();
    let mut node_state = NodeState::default();
    node_state.set_ports(ports);
    assert!(node_state.put_back(kept).is_empty());
    let plan = node_state.plan_node(&node).unwrap_or_else(|problems| panic!("{problems:?}"));
    node_state.settle(plan);
    node_state
}

#[test]
fn a_node_state_comes_to_the_same_again() {
    let before = node_state(&document_node(), cluster());
    let mut snapshot = before.snapshot();
    (snapshot.round, snapshot.gate_open, snapshot.committed_unix_ms) = (9, true, 77);
    let bytes = snapshot.encode();
    let kept = Kept::decode(&bytes).unwrap();
    assert_eq!((kept.round, kept.gate_open, kept.committed_unix_ms, kept.len()), (9, true, 77, cluster().len()));
    let mut after = again(&bytes, ports(&[]));
    assert_eq!(dump(&after), dump(&before));
    assert_eq!(after.snapshot().encode(), before.snapshot().encode(), "numbers, too");
    assert_eq!(
        after.ids().cookie(&Key::new(ObjectKind::Pod, "default/web")),
        before.ids().cookie(&Key::new(ObjectKind::Pod, "default/web"))
    );
    assert!(apply(&mut after, cluster()).is_empty(), "a sync of the same changes nothing");
}

#[test]
fn objects_wait_for_their_ports() {
    let before = node_state(&document_node(), cluster());
    let bytes = before.snapshot().encode();
    let absent = ["web-7975-274540", "antrea-tc-tap2", "db-755c6-5080e3"];
    let mut after = again(&bytes, ports(&absent));
    let degraded: BTreeSet<&str> = after.degraded().keys().map(|key| &*key.name).collect();
    assert!(degraded.contains("default/web") && degraded.contains("default/db"), "{degraded:?}");
    let mut bridge = Bridge::of(&after);
    for without in [&absent[..2], &absent[..1], &[]] {
        let plan = after.plan_ports(ports(without)).unwrap_or_else(|refused| panic!("{refused:?}"));
        assert!(!plan.updates.is_empty() && plan.flush.is_empty());
        bridge.take(&plan.updates);
        after.settle(plan);
        bridge.is_as(&after);
    }
    assert_eq!((dump(&after), after.degraded().len()), (dump(&before), 0));
    let plan = after.plan_ports(ports(&[])).unwrap();
    assert!(plan.updates.is_empty(), "the same ports");
    after.settle(plan);
    // All have other numbers, the gateway's among them, which is everybody's.
    let others = PORTS.map(|(name, number)| (name.to_owned(), number + 100)).into_iter().collect();
    let plan = after.plan_ports(others).unwrap();
    bridge.take(&plan.updates);
    after.settle(plan);
    bridge.is_as(&after);
    assert_ne!(dump(&after), dump(&before));
}

#[test]
fn what_is_no_node_state_is_refused() {
    let bytes = node_state(&document_node(), cluster()).snapshot().encode();
    assert!(matches!(Kept::decode(&[]), Err(KeptError::Ids)));
    assert!(matches!(Kept::decode(&bytes[..bytes.len() - 1]), Err(KeptError::Decode(_))));
    // An object without a kind, as a later version may write.
    assert!(matches!(Kept::decode(&[&bytes[..], &[0x12, 0]].concat()), Err(KeptError::Object(8))));
    // Twice the same, and one that is wrong by itself.
    let mut kept = Kept::decode(&bytes).unwrap();
    kept.objects.push(Object::Pod(pod("web")));
    kept.objects.push(Object::Pod(vswitch_proto::antrea::v1::Pod { addresses: vec!["x".to_owned()], ..pod("web2") }));
    let refused: Vec<String> = NodeState::default().put_back(kept).iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(refused, ["Pod default/web", "Pod default/web2"]);
}
