//! The learning switch.

use super::{frame, world};
use crate::observe::DropReason;

#[test]
fn bursts_of_any_size_give_the_same_bytes_order_and_counters() {
    // 67 is no multiple of anything; addresses collide and move between ports inside a burst.
    let frames: Vec<Vec<u8>> = (0..67_u8).map(|i| frame(i % 5 * 7 % 5, i % 5 * 11 % 3, i)).collect();
    let mut results = Vec::new();
    for size in [1, 2, 31, 32] {
        let mut world = world(&[&[0, 1, 2]], &[], |_, _| ());
        for port in [0, 1, 2] {
            world.receive(port, &frames, size);
        }
        let sent: Vec<Vec<Vec<u8>>> = world.wires.iter().map(|wire| wire.take()).collect();
        let totals: Vec<_> = (0..3).map(|port| world.totals(port)).collect();
        assert_eq!(world.pool.in_use(), 0, "bursts of {size}: an mbuf was lost");
        results.push((size, sent, totals));
    }
    assert!(results[0].1.iter().all(|sent| !sent.is_empty()), "every port sent something");
    for (size, sent, totals) in &results[1..] {
        assert!(*sent == results[0].1, "bursts of {size} and of 1 sent different packets");
        assert_eq!(*totals, results[0].2, "bursts of {size} and of 1 counted differently");
    }
}

#[test]
fn every_lost_packet_has_one_reason() {
    let mut world = world(&[&[0, 1, 2]], &[], |port, view| view.admin_up = port != 2);
    let mut long = frame(1, 0, 0);
    long.resize(1523, 0);
    world.receive(0, &[vec![1; 13], long, frame(9, 0, 0)], 32);
    world.receive(2, &[frame(0, 2, 0)], 32);
    world.receive(1, &[frame(1, 1, 0), frame(9, 9, 0), frame(9, 1, 0)], 32);
    let (zero, one, two) = (world.totals(0), world.totals(1), world.totals(2));
    assert_eq!(zero.rx_drops[DropReason::EthShort.index()], 1);
    assert_eq!(zero.rx_drops[DropReason::Oversize.index()], 1);
    assert_eq!(two.rx_drops[DropReason::AdminDown.index()], 1);
    assert_eq!(one.rx_drops[DropReason::SamePort.index()], 3);
    assert_eq!(two.tx_drops[DropReason::AdminDown.index()], 1, "the flooded copy");
    assert_eq!((zero.rx_packets, one.tx_packets, world.pool.in_use()), (3, 1, 0));
}

#[test]
fn patches_join_bridges_and_loops_end() {
    // 0 - bridge - 1 = 2 - bridge - 3
    let mut chain = world(&[&[0, 1], &[2, 3]], &[(1, 2)], |_, _| ());
    chain.receive(0, &[frame(3, 0, 7)], 1);
    assert_eq!(chain.wires[3].take(), [frame(3, 0, 7)]);
    chain.receive(3, &[frame(0, 3, 8)], 1);
    assert_eq!(chain.wires[0].take(), [frame(0, 3, 8)]);
    let (out, back) = (chain.totals(1), chain.totals(2));
    assert_eq!((out.tx_packets, out.rx_packets, back.tx_packets, back.rx_packets), (1, 1, 1, 1));

    // Three patches between two bridges: a broadcast would double at every crossing.
    let mut looped = world(&[&[0, 1, 2, 3], &[4, 5, 6]], &[(1, 4), (2, 5), (3, 6)], |_, _| ());
    let mut broadcast = frame(0, 0, 0);
    broadcast[..6].fill(0xff);
    looped.receive(0, &[broadcast], 1);
    let dropped: u64 = (1..7).map(|port| looped.totals(port).tx_drops[DropReason::Depth.index()]).sum();
    assert!(dropped > 0, "the loop was not cut");
    assert_eq!(looped.pool.in_use(), 0);
}

#[test]
fn empty_pool_costs_copies_not_the_packet() {
    let mut world = world(&[&[0, 1, 2]], &[], |_, _| ());
    let mut hoard: Vec<_> = std::iter::from_fn(|| world.pool.alloc()).collect();
    drop(hoard.pop());
    world.receive(0, &[frame(9, 0, 0)], 1);
    let (one, two) = (world.totals(1), world.totals(2));
    assert_eq!((one.tx_drops[DropReason::NoMbuf.index()], two.tx_packets), (1, 1));
}
