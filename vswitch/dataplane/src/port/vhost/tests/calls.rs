//! How guests are called: those that mute their calls are called when they ask (`EVENT_IDX`), and
//! nobody waits for ever for a call that was lost with a switch.

use super::frontend::{EVENT_IDX, Frontend, REPLY_ACK, RING};
use super::*;
use std::fs::File;
use std::io::{ErrorKind, Read};
use vswitch_dpdk::vhost::testing::{CALL_DELAY_US, await_calls, eventfd};

/// Whether a call was made since this was asked last. The port has made the descriptor
/// non-blocking.
#[track_caller]
fn was_called(mut call: &File) -> bool {
    await_calls();
    match call.read(&mut [0; 8]) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("an eventfd cannot be read: {error}"),
    }
}

/// Both rings of the first pair, as they are in the memory, are served, and the port has looked at
/// them once. Returns what it received.
#[track_caller]
fn start(guest: &mut Frontend, port: &mut Port, features: u64, calls: &[File; 2]) -> Vec<Vec<u8>> {
    guest.negotiate(features, REPLY_ACK).expect("negotiates");
    for (ring, call) in (0..).zip(calls) {
        let base = guest.used(ring).expect("readable");
        guest.start_ring(ring, RING, base, Some(call)).expect("starts");
    }
    wait("link up", || port.device.link().up);
    port.receive()
}

#[test]
fn a_guest_that_mutes_its_calls_is_called_when_it_asks() {
    mute_and_ask(0);
}

#[test]
fn it_is_called_by_another_thread_as_well() {
    mute_and_ask(CALL_DELAY_US);
}

fn mute_and_ask(delay: u32) {
    let _alone = alone();
    vswitch_dpdk::vhost::set_call_delay(delay);
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let calls = [eventfd(), eventfd()];
    let mut guest = Frontend::connect(&path).expect("connects");
    assert!(start(&mut guest, &mut port, BASIC | EVENT_IDX, &calls).is_empty());
    assert!(port.device.offloads().contains(&"event_idx"), "{:?}", port.device.offloads());
    for _ in 0..RING {
        guest.offer(0, 2048, frontend::WRITE).expect("written");
    }
    assert!(calls.iter().all(|call| was_called(call)), "it is called when it comes");

    // To the guest: which entries it asks for, how many are used then, whether that is a call.
    let mut sent = 0;
    for (entry, count, expected) in [(0, 1, true), (0, 20, false), (21, 1, true), (31, 9, false), (31, 1, true)] {
        guest.ask(0, entry).expect("written");
        for _ in 0..count {
            port.send(0, &[frame(sent, 60)], &pool);
            sent += 1;
        }
        assert_eq!(was_called(&calls[0]), expected, "asked for entry {entry}, {sent} are used");
    }
    for number in 0..sent {
        let got = guest.receive(0).expect("readable").map(|(_, bytes)| bytes);
        assert_eq!(got, Some(frame(number, 60)), "muted or not, everything is there");
    }
    // From the guest: more than its index can count, it asks for each 1000th.
    let (mut received, mut called) = (0_u32, 0);
    guest.ask(1, 999).expect("written");
    for number in 0..70_000_u32 {
        guest.send(0, [0; 10], &frame(number, 60)).expect("sent");
        received += u32::try_from(port.receive().len()).expect("few");
        if number % 1000 == 998 {
            assert!(!was_called(&calls[1]), "called before {number}, {called} times in all");
        }
        if number % 1000 == 999 && was_called(&calls[1]) {
            called += 1;
            guest.ask(1, u16::try_from((number + 1000) % 65536).expect("below")).expect("written");
        }
    }
    assert_eq!((received, called), (70_000, 70));
}

#[test]
fn calls_that_were_lost_with_the_switch_are_made_up_for() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(1024));
    for delay in [0, CALL_DELAY_US] {
        vswitch_dpdk::vhost::set_call_delay(delay);
        lose_calls(&dir, &pool);
    }
}

fn lose_calls(dir: &TempDir, pool: &Mempool) {
    let full: Vec<_> = (0..u32::from(RING)).map(|number| frame(number, 60)).collect();
    for (features, unseen) in [(BASIC, 0), (BASIC | EVENT_IDX, 0), (BASIC | EVENT_IDX, 3)] {
        let what = format!("features {features:x}, {unseen} packets that nobody took");
        let (mut port, path) = serve(dir, "s", pool);
        // Not called, and it does not look: as if the switch died between using its buffers and
        // calling it.
        let mut guest = guest(&path, features, REPLY_ACK);
        wait("link up", || port.device.link().up);
        port.send(0, &full, pool);
        let (taken, left) = full.split_at(full.len() - unseen);
        let mut got = Vec::new();
        for frame in taken {
            guest.send(0, [0; 10], frame).expect("sent");
            got.extend(port.receive());
        }
        assert_eq!(got, taken, "{what}");
        drop(port);
        for frame in left {
            guest.send(0, [0; 10], frame).expect("sent");
        }
        // All buffers are the switch's, as far as the guest knows: it waits.
        let (mut port, path) = serve(dir, "s", pool);
        let calls = [eventfd(), eventfd()];
        let mut guest = guest.again(&path).expect("connects");
        for ring in 0..2 {
            guest.ask(ring, 100).expect("written"); // passed long ago
        }
        assert_eq!(start(&mut guest, &mut port, features, &calls), left, "{what}: what it sent to nobody");
        for (ring, call) in calls.iter().enumerate() {
            assert!(was_called(call), "{what}: not called for ring {ring}: it waits for ever");
        }
        for sent in &full {
            assert_eq!(guest.receive(0).expect("readable").map(|(_, bytes)| bytes).as_ref(), Some(sent), "{what}");
        }
        both_ways(&mut port, &mut guest, pool, 7);
        drop((port, guest));
        assert_eq!(pool.in_use(), 0, "{what}");
    }
}
