//! Ports that are closed, and guests that do not cooperate, while packets flow.

use super::frontend::{Frontend, REPLY_ACK, RING};
use super::*;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Ports that are closed one after the other.
const ROUNDS: u32 = 500;

#[test]
fn ports_are_closed_under_full_load_and_everything_comes_back() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(1024));
    let config = config(&dir, "s", VhostMode::Client);
    let listener = UnixListener::bind(&config.path).expect("bind");
    let before = open_fds();
    for round in 0..ROUNDS {
        let Port { mut rx, mut tx, device, gate, counters, .. } = Port::new(&config, &pool);
        let mut guest = Frontend::on(listener.accept().expect("the port connects").0).expect("memory");
        guest.negotiate(BASIC, REPLY_ACK).expect("negotiates");
        guest.start_pair(0).expect("starts");
        let (echoed, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (echoed, stop) = (&echoed, &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    for number in 0..u32::from(RING) / 2 {
                        guest.send(0, [0; 10], &frame(number, 900)).expect("sent");
                        let _ = guest.receive(0).expect("readable");
                    }
                }
            });
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let _inside = gate.lock();
                    let mut burst = Burst::new();
                    rx[0].receive(&mut burst, &counters, &mut |_| unreachable!("it is too short to be borrowed"));
                    echoed.fetch_add(burst.len() as u64, Relaxed);
                    tx[0].send(&mut burst, &counters);
                }
            });
            wait("packets flow", || echoed.load(Relaxed) > 100);
            drop(device); // returns when the worker is out
            let at_close = echoed.load(Relaxed);
            std::thread::sleep(Duration::from_millis(1));
            let after = echoed.load(Relaxed);
            stop.store(true, Relaxed);
            assert!(after <= at_close + 32, "round {round}: {} packets of a closed port", after - at_close);
        });
        assert_eq!(pool.in_use(), 0, "round {round}");
    }
    let after = open_fds();
    assert!(after < before + 60, "{before} descriptors before, {after} after {ROUNDS} rounds");
}

#[test]
fn rings_of_one_entry_and_guests_that_give_nothing_back_lose_their_own_packets() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let frames: Vec<_> = (0..64).map(|number| frame(number, 200)).collect();
    // To merge buffers the library wants more than one.
    for (features, size, room) in [(BASIC & !MRG_RXBUF, 1_u16, 1), (BASIC, 1, 0), (BASIC, 2, 2), (BASIC, 4, 4)] {
        let mut guest = Frontend::connect(&path).expect("connects");
        guest.negotiate(features, REPLY_ACK).expect("negotiates");
        for ring in 0..2 {
            guest.start_ring(ring, size, 0, None).expect("starts");
        }
        wait("link up", || port.device.link().up);
        let before = (port.counters.tx_packets.get(), port.dropped(DropReason::TxFull).1);
        for slot in 0..size {
            let at = frontend::ring_at(0) + 16 * u64::from(slot);
            guest.descriptor(at, [0x40_0000, 2048, frontend::WRITE, 0]).expect("written");
            guest.publish(0, slot).expect("written");
        }
        port.send(0, &frames, &pool);
        let taken = port.counters.tx_packets.get() - before.0;
        let full = port.dropped(DropReason::TxFull).1 - before.1;
        assert_eq!((taken, full), (room, 64 - room), "a ring of {size}, features {features:x}");
        drop(guest);
        wait("link down", || !port.device.link().up);
        assert_eq!(pool.in_use(), 0, "a ring of {size}");
    }
}
