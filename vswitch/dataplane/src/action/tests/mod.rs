//! Rewrites: golden packets, and properties.

mod golden;
mod properties;

use super::{Masked, Op, Packet};
use crate::observe::DropReason;
use vswitch_dpdk::{Mbuf, Mempool};
use vswitch_flow::FlowKey;
use vswitch_flow::extract::extract;

/// Every bit of a value.
fn all<T: From<u8> + std::ops::Not<Output = T>>(value: T) -> Masked<T> {
    Masked { value, mask: !T::from(0) }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.bytes().map(|digit| (digit as char).to_digit(16).expect("a digit")).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).expect("two digits")).collect()
}

fn packet(mbuf: Mbuf) -> Packet {
    let layers = extract(mbuf.head(), mbuf.len(), &mut FlowKey::default());
    Packet { mbuf, layers }
}

fn apply(ops: &[Op], packet: &mut Packet) -> Result<(), DropReason> {
    ops.iter().try_for_each(|op| packet.rewrite(op))
}

/// A packet after ops; its layers must be those of its bytes.
fn rewrite(ops: &[Op], bytes: &[u8]) -> Vec<u8> {
    let pool = Mempool::for_tests(8);
    let mut packet = packet(pool.mbuf_from(bytes).expect("mbuf"));
    apply(ops, &mut packet).expect("headroom for a few tags");
    let bytes = packet.mbuf.to_vec();
    let layers = extract(&bytes, bytes.len(), &mut FlowKey::default());
    assert_eq!(packet.layers, layers, "layers after {ops:?}");
    bytes
}

/// What a packet was when it came in is told with copies, wherever they are made; of one that waits
/// it is not, and need not be known.
#[test]
fn only_copies_for_controllers_ask_what_came_in() {
    use super::PacketInOp;
    use crate::pipeline::Continuation;
    use std::sync::Arc;
    let op = |continuation: Option<Arc<Continuation>>| {
        let metadata = FlowKey::default();
        Op::PacketIn(Box::new(PacketInOp {
            bridge: 0,
            controller: 5,
            reason: vswitch_flow::action::Reason::NoMatch,
            table: 0,
            cookie: 0,
            userdata: [].into(),
            metadata,
            defined: vswitch_flow::FlowMask::default(),
            meter: None,
            metered: false,
            continuation,
        }))
    };
    let (copy, paused) = (op(None), op(Some(Arc::default())));
    assert!(copy.tells() && !paused.tells());
    assert!(Op::Clone([paused.clone(), copy].into()).tells() && !Op::Clone([paused].into()).tells());
}
