//! Turns of the poll loop: who gets how much of them.

use super::{conntrack, frame, id, world};
use crate::limits::BURST;
use crate::port::RxQueue;
use crate::port::sim::SimRxQueue;
use crate::time::Millis;
use crate::worker::poll::run::Poll;
use crate::worker::{Publisher, RxqSlot, Snapshot};
use std::sync::Arc;
use std::time::Duration;
use vswitch_dpdk::Burst;

/// V18: however much one port sends, each turn takes at most a burst of it, and as much from each
/// of the others: they share the worker by packets, and who sends less than a burst per turn waits
/// for nobody.
#[test]
fn a_storm_gets_one_burst_a_turn_and_nobody_else_less_than_without_it() {
    const QUIET: [usize; 4] = [1, 2, 3, 4];
    let (turns, all) = (100, [0, 1, 2, 3, 4, 5]);
    for storm in [0, 40, 400] {
        let made = world(&[&all], &[], |_, _| {});
        let (pool, wires) = (made.pool, made.wires);
        let queue = |port: usize| RxQueue::Sim(SimRxQueue(Arc::clone(&wires[port])));
        let slots: Vec<_> = all.iter().map(|port| Arc::new(RxqSlot::new(id(*port), 0, queue(*port)))).collect();
        let before = Arc::clone(made.walk.snapshot());
        let publisher = Arc::new(Publisher::new(&[0], conntrack()));
        let mut poll = Poll::new(0, publisher, made.walk, Duration::ZERO);
        poll.adopt(Arc::new(Snapshot {
            world: Arc::clone(&before.world),
            ports: before.ports.clone(),
            rxqs: vec![slots.clone()],
            captures: None,
        }));
        let mut burst = Burst::new();
        let mut turn = |what: &str, expected: u64| {
            let (packets, _) = poll.turn(&mut burst, Millis(0), 0);
            assert_eq!(packets, expected, "{what}, beside a storm of {storm}");
            wires.iter().map(|wire| wire.take().len()).sum::<usize>()
        };
        // The bridge learns where port 5 is, for which everything is.
        wires[5].put(&pool, &frame(0xff, 6, 0));
        turn("the first", 1);
        for number in 0..turns {
            let waiting = wires[0].incoming.lock().len();
            (waiting..storm).for_each(|_| wires[0].put(&pool, &frame(6, 1, 0)));
            for port in QUIET {
                let source = u8::try_from(port + 1).expect("small");
                (0..port * 8).for_each(|_| wires[port].put(&pool, &frame(6, source, 0)));
            }
            let of_storm = storm.min(BURST);
            let of_all = of_storm + QUIET.iter().map(|port| port * 8).sum::<usize>();
            assert_eq!(
                turn(&format!("turn {number}"), of_all as u64),
                of_all,
                "turn {number}: what was received was sent"
            );
            for port in QUIET {
                assert_eq!(
                    wires[port].incoming.lock().len(),
                    0,
                    "turn {number}: port {port} waits beside a storm of {storm}"
                );
            }
        }
        let received: Vec<_> = slots[1..5].iter().map(|slot| slot.packets.get()).collect();
        assert_eq!(received, [8, 16, 24, 32].map(|each| each * turns), "beside a storm of {storm}");
        assert_eq!(slots[0].packets.get(), storm.min(BURST) as u64 * turns, "of the storm itself");
        wires[0].incoming.lock().clear();
        assert_eq!(pool.in_use(), 0);
    }
}
