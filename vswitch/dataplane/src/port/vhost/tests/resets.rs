//! Devices that are reset, or are to be others, while packets flow.

use super::frontend::*;
use super::hostile::Scene;
use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// How a running device is reset. It runs on: what stops it is that its rings are stopped, as front
/// ends do before they reset a device.
const RESETS: [(&str, u32, u64); 6] = [
    ("RESET_DEVICE", RESET_DEVICE, 0),
    ("RESET_OWNER", RESET_OWNER, 0),
    ("status 0", SET_STATUS, 0),
    ("status FAILED", SET_STATUS, 0x80),
    ("status without DRIVER_OK", SET_STATUS, 0x0b),
    ("other features", SET_FEATURES, VERSION_1 | PROTOCOL),
];

/// A guest that is set up, on its connection.
fn set_up(port: &Port, guest: &mut Frontend, features: u64) {
    guest.negotiate(features, REPLY_ACK | STATUS).expect("negotiates");
    guest.start_pair(0).expect("starts");
    assert!(guest.set(SET_STATUS, &0x0f_u64.to_ne_bytes(), &[]).expect("answered"), "DRIVER_OK");
    wait("link up", || port.device.link().up);
    runs(port, "set up");
}

/// V20.
#[test]
fn resets_under_traffic_leave_a_device_that_can_be_set_up_again() {
    let mut scene = Scene::new();
    let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
    set_up(&scene.bad, &mut guest, BASIC);
    (0..2).for_each(|ring| guest.stop(ring).expect("stopped"));
    let before = open_fds();
    for round in 0..10 {
        for (what, request, value) in RESETS {
            let (echoed, stop) = (AtomicU64::new(0), AtomicBool::new(false));
            set_up(&scene.bad, &mut guest, BASIC);
            std::thread::scope(|scope| {
                let (bad, pool, echoed, stop) = (&mut scene.bad, &scene.pool, &echoed, &stop);
                scope.spawn(move || {
                    while !stop.load(Relaxed) {
                        let frames = bad.receive();
                        echoed.fetch_add(frames.len() as u64, Relaxed);
                        bad.send(0, &frames, pool);
                    }
                });
                let flows = |guest: &mut Frontend| {
                    let until = echoed.load(Relaxed) + 20;
                    wait(&format!("packets flow, {what}, round {round}"), || {
                        guest.send(0, [0; 10], &frame(round, 200)).expect("written");
                        while guest.receive(0).expect("readable").is_some() {}
                        echoed.load(Relaxed) >= until
                    });
                };
                flows(&mut guest);
                let size = if request == RESET_OWNER { 0 } else { 8 };
                let _ = guest.set(request, &value.to_ne_bytes()[..size], &[]).expect("answered");
                flows(&mut guest);
                // A driver that begins anew stops its rings, if it gets to it.
                if round % 2 == 0 {
                    (0..2).for_each(|ring| guest.stop(ring).expect("stopped"));
                }
                stop.store(true, Relaxed);
            });
            if round % 2 == 1 {
                (0..2).for_each(|ring| guest.stop(ring).expect("stopped"));
            }
            assert!(!scene.bad.device.link().up, "{what}: stopped");
            assert!(guest.set(SET_STATUS, &[0; 8], &[]).expect("answered"), "{what}: reset when it is stopped");
            set_up(&scene.bad, &mut guest, if round % 2 == 0 { BASIC | EVENT_IDX } else { BASIC });
            both_ways(&mut scene.bad, &mut guest, &scene.pool, round);
            (0..2).for_each(|ring| guest.stop(ring).expect("stopped"));
            both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, round);
        }
    }
    scene.others_are_fine("resets");
    wait(&format!("{before} descriptors, and not {}", open_fds()), || open_fds() <= before);
    drop(guest);
    scene.bad_recovers();
    wait("link down", || !scene.bad.device.link().up);
    assert_eq!(scene.pool.in_use(), 0);
}
