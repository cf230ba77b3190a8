//! The saved state of a Node: any bytes are read, or refused as a whole. What was read and put back
//! is written, and read again, as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch_antrea::{Kept, NodeState, Ports};

/// Ports of the bridge.
const PORTS: [(&str, u32); 8] = [
    ("antrea-tun0", 1),
    ("antrea-gw0", 2),
    ("uplink0", 3),
    ("probe0", 4),
    ("antrea-tc-tap0", 0x22),
    ("client-6-3353ef", 0x24),
    ("web-7975-274540", 0x25),
    ("db-755c6-5080e3", 0x26),
];

fuzz_target!(|bytes: &[u8]| {
    let Ok(kept) = Kept::decode(bytes) else { return };
    let objects = kept.len();
    let (state, refused) = put_back(kept);
    let file = state.snapshot().encode();
    let again = Kept::decode(&file).unwrap_or_else(|error| panic!("{error}: what was written is not read"));
    assert_eq!(again.len() + refused, objects, "objects that are neither there nor refused");
    let (second, refused) = put_back(again);
    assert_eq!(refused, 0, "objects that were accepted before");
    assert!(second.snapshot().encode() == file, "what was put back is something else");
    // What was written is all that packets and agents see.
    assert_eq!(seen(&second), seen(&state));
});

/// Objects that are degraded, and how many flows, groups and meters are in force.
fn seen(state: &NodeState) -> (Vec<String>, usize) {
    (state.degraded().keys().map(ToString::to_string).collect(), state.store().everything().len())
}

/// A node state that takes over what was kept; and how many objects it refused.
fn put_back(mut kept: Kept) -> (NodeState, usize) {
    let node = kept.node.take();
    let mut state = NodeState::default();
    let ports: Ports = PORTS.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
    state.set_ports(ports);
    let refused = state.put_back(kept).len();
    if let Some(Ok(plan)) = node.map(|node| state.plan_node(&node)) {
        state.settle(plan);
    }
    (state, refused)
}
