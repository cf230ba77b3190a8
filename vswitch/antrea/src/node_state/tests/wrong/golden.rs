//! Saved states of every format that a release wrote: `antrea-node/tests/golden/state-v1` and so
//! on. The newest is what this switch writes, byte for byte. The crate `antrea-node` tests the head
//! of such a file; here is what follows it.

use super::*;
use crate::testing::cluster;

/// Bytes of a file in front of the message.
const HEAD: usize = 32;

/// The formats, the oldest first.
const FILES: [&[u8]; 1] = [include_bytes!("../../../../../antrea-node/tests/golden/state-v1")];

/// Something of all that a state holds: the Node, objects, numbers, a policy whose newer form is
/// wrong, and an address that two Services claim.
fn scene() -> NodeState {
    let mut node_state = node_state(&document_node(), cluster());
    let policies = [
        Object::AddressGroup(group("clients", &["10.10.0.26"])),
        Object::AppliedToGroup(applied("web", &["default/web"])),
        Object::NetworkPolicy(policy("a", &["web"])),
    ];
    put(&mut node_state, policies.to_vec());
    put(&mut node_state, vec![external("y", "10.96.7.2", "192.168.77.201")]);
    put(&mut node_state, vec![set("x"), set("y"), external("x", "10.96.7.1", "192.168.77.201")]);
    let mut bad = policy("a", &["web"]);
    bad.rules[0].direction = 9;
    put(&mut node_state, vec![Object::NetworkPolicy(bad)]);
    node_state
}

/// What follows the head of its file.
fn message() -> Vec<u8> {
    let mut snapshot = scene().snapshot();
    (snapshot.round, snapshot.gate_open, snapshot.committed_unix_ms) = (9, true, 1_700_000_000_000);
    snapshot.encode()
}

#[test]
fn states_of_all_formats_come_to_what_they_were() {
    let before = scene();
    for file in FILES {
        let mut kept = Kept::decode(&file[HEAD..]).unwrap();
        assert_eq!((kept.round, kept.gate_open, kept.committed_unix_ms), (9, true, 1_700_000_000_000));
        assert_eq!(kept.len(), cluster().len() + 7);
        let node = kept.node.take().unwrap();
        let mut after = NodeState::default();
        after.set_ports(PORTS.map(|(name, number)| (name.to_owned(), number)).into_iter().collect::<Ports>());
        assert!(after.put_back(kept).is_empty());
        let plan = after.plan_node(&node).unwrap();
        after.settle(plan);
        assert_eq!(dump(&after), dump(&before));
        assert_eq!(after.degraded(), before.degraded());
        assert_eq!(after.desired().contested(), before.desired().contested());
        assert!(!after.desired().contested().is_empty() && !after.degraded().is_empty());
    }
}

/// A change of the format is a new version, with a file of its own: an older file is never written
/// anew.
#[test]
fn the_newest_state_is_what_is_written() {
    let (bytes, newest) = (message(), FILES[FILES.len() - 1]);
    if bytes != newest[HEAD..] {
        let path = std::env::temp_dir().join("vswitch-golden-state");
        std::fs::write(&path, &bytes).expect("a file");
        panic!("the format has changed: raise its version, and add a file with what is in {}", path.display());
    }
}
