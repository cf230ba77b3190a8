//! Packets that are borrowed from a guest: nothing is sent to it while they are on their way.

use super::*;
use crate::observe::DropReason;

#[test]
fn what_is_for_the_lender_waits_and_what_is_for_others_does_not() {
    let mut world = world(&[&[0, 1]], &[], |_, _| {});
    let (borrowed_from, other) = (id(0), id(1));
    // The other is known by its address; what comes from the guest that owns them goes there.
    world.receive(1, &[frame(9, 1, 0)], 1);
    world.wires.iter().for_each(|wire| drop(wire.take()));
    let mut burst = Burst::new();
    for i in 0..3 {
        burst.push(world.pool.mbuf_from(&frame(1, 2, i)).expect("an mbuf")).expect("room");
    }
    world.walk.burst_borrowed(&mut burst, borrowed_from, Millis(0));
    assert_eq!(world.wires[1].take(), [frame(1, 2, 0), frame(1, 2, 1), frame(1, 2, 2)], "sent at once");
    assert_eq!((burst.len(), world.pool.in_use()), (0, 0), "nothing is left");

    let snapshot = Arc::clone(world.walk.snapshot());
    world.walk.outputs.borrowed_from = Some(borrowed_from);
    for i in 0..40 {
        for port in [borrowed_from, other] {
            let mbuf = world.pool.mbuf_from(&frame(1, 2, i)).expect("an mbuf");
            world.walk.outputs.push_plain(&snapshot, port, mbuf).expect("a plain one");
        }
    }
    world.walk.flush();
    world.walk.outputs.borrowed_from = None;
    assert_eq!(world.wires[0].take(), [[0; 0]; 0], "sent to the guest that owns them");
    let all: Vec<_> = (0..40).map(|i| frame(1, 2, i)).collect();
    assert_eq!(world.wires[1].take(), all, "to the other one");
    world.walk.flush();
    assert_eq!(world.wires[0].take(), all[..31], "to the guest that owns them, later: as many as there is room for");
    assert_eq!(world.totals(0).tx_drops[DropReason::TxFull.index()], 9);
    assert_eq!(world.pool.in_use(), 0);
    // All is as before.
    world.receive(1, &[frame(2, 1, 7)], 1);
    assert_eq!(world.wires[0].take(), [frame(2, 1, 7)]);
}
