//! Messages of every kind that contradict themselves: sizes, versions, rings that are not there,
//! addresses, descriptors.

use super::frontend::*;
use super::hostile::{Scene, header, is_disconnected};
use super::*;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use vswitch_dpdk::vhost::testing::eventfd;

/// Requests that there are, and one more.
const REQUESTS: u32 = 43;

#[test]
fn every_request_with_every_wrong_size_costs_its_sender_only() {
    let mut scene = Scene::new();
    let before = open_fds();
    for request in 0..=REQUESTS {
        for size in [0_u32, 1, 4, 7, 9, 64, 632, 633, 4096, 65536] {
            let mut socket = scene.connect();
            let sent = socket.write_all(&[header(request, size), vec![0xa5; size as usize]].concat());
            // It may hang up before everything is sent; it may also answer.
            drop((sent, socket));
        }
        both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, request);
    }
    scene.others_are_fine("wrong sizes");
    scene.bad_recovers();
    wait("descriptors closed", || open_fds() < before + 60);
}

#[test]
fn another_version_and_flags_cost_their_sender_only() {
    let mut scene = Scene::new();
    for flags in [0_u32, 2, 3, 1 << 2, 1 | 1 << 2, u32::MAX] {
        let mut socket = scene.connect();
        let message = [[GET_FEATURES, flags, 0].map(u32::to_ne_bytes).concat(), header(SET_FEATURES, 3)].concat();
        socket.write_all(&message).expect("sent");
        scene.others_are_fine("other flags");
        // An answer, perhaps, and then the end: the second message has no sense at all.
        let mut answer = [0; 64];
        while matches!(socket.read(&mut answer), Ok(n) if n > 0) {}
        is_disconnected(&socket, &format!("flags {flags:x}"));
    }
    scene.bad_recovers();
}

#[test]
fn rings_that_are_not_there_cost_who_names_them_at_most_its_connection() {
    let mut scene = Scene::new();
    for ring in [2_u32, 127, 128, 200, 255, 256, 257, 0x1_0000, 0x1_0001, 0x8000_0001, u32::MAX] {
        for (request, value) in [(SET_VRING_NUM, 256), (SET_VRING_BASE, 0), (SET_VRING_ENABLE, 1), (GET_VRING_BASE, 0)]
        {
            let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
            // What lies beyond the pairs of this guest may be accepted, and has no effect.
            let accepted = guest.set(request, &Frontend::state(ring, value), &[]);
            assert!(ring < 256 || !matches!(accepted, Ok(true)), "request {request} for ring {ring:#x}");
            if accepted.is_ok() {
                runs(&scene.bad, &format!("request {request} for ring {ring:#x}"));
                both_ways(&mut scene.bad, &mut guest, &scene.pool, ring);
            }
            drop(guest);
            wait("link down", || !scene.bad.device.link().up);
        }
    }
    scene.others_are_fine("rings that are not there");
    scene.bad_recovers();
}

#[test]
fn addresses_of_rings_that_cannot_be_do_not_run() {
    let mut scene = Scene::new();
    let at = |descriptors: u64, used: u64, available: u64| {
        [1, USER.wrapping_add(descriptors), USER.wrapping_add(used), USER.wrapping_add(available), 0]
    };
    let attacks = [
        ("outside the memory", at(MEMORY, MEMORY + 0x2000, MEMORY + 0x1000)),
        ("before the memory", at(4096_u64.wrapping_neg(), 0x2000, 0x1000)),
        ("descriptors across the end", at(MEMORY - 0x800, 0x2000, 0x1000)),
        ("a used ring across the end", at(0x1_0000, MEMORY - 0x100, 0x1_1000)),
        ("an available ring across the end", at(0x1_0000, 0x1_2000, MEMORY - 0x100)),
        ("descriptors that are not aligned", at(0x1_0008, 0x1_2000, 0x1_1000)),
        ("a used ring that is not aligned", at(0x1_0000, 0x1_2002, 0x1_1000)),
        ("an available ring that is not aligned", at(0x1_0000, 0x1_2000, 0x1_1001)),
        ("nowhere", [1, 0, 0, 0, 0]),
        ("everywhere", [1, u64::MAX - 15, u64::MAX - 3, u64::MAX - 1, 0]),
    ];
    for (what, address) in attacks {
        let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
        guest.negotiate(BASIC, REPLY_ACK).expect("negotiates");
        guest.start_ring(0, RING, 0, None).expect("starts");
        let off = u64::from(1 | 1_u32 << 8).to_ne_bytes();
        let address = address.map(u64::to_ne_bytes).concat();
        let messages: [(u32, &[u8]); 6] = [
            (SET_VRING_NUM, &Frontend::state(1, RING.into())),
            (SET_VRING_BASE, &Frontend::state(1, 0)),
            (SET_VRING_ADDR, &address),
            (SET_VRING_KICK, &off),
            (SET_VRING_CALL, &off),
            (SET_VRING_ENABLE, &Frontend::state(1, 1)),
        ];
        for (request, payload) in messages {
            if guest.set(request, payload, &[]).is_err() {
                break; // disconnected
            }
        }
        // The library may call the device ready; its rings are not touched.
        for _ in 0..5 {
            guest.send(0, [0; 10], &frame(1, 60)).expect("written");
            assert!(scene.bad.receive().is_empty(), "a packet out of a ring with {what}");
        }
        scene.bad.send(0, &[frame(1, 60)], &scene.pool);
        both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, 1);
        drop(guest);
        scene.bad_recovers();
        wait("link down", || !scene.bad.device.link().up);
    }
}

#[test]
fn bases_beyond_the_ring_and_stops_again_and_again_do_no_harm() {
    let mut scene = Scene::new();
    for base in [1_u32, 255, 256, 0x7fff, 0x8000, 0xffff, 0x1_0000, u32::MAX] {
        let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
        guest.negotiate(BASIC, REPLY_ACK).expect("negotiates");
        guest.start_pair(0).expect("starts");
        for ring in 0..2 {
            guest.stop(ring).expect("stopped");
            guest.start_ring(ring, RING, u16::try_from(base & 0xffff).expect("16 bits"), None).expect("starts");
            // Of a ring that runs; it may be refused.
            let _ = guest.set(SET_VRING_BASE, &Frontend::state(ring, base), &[]).expect("answered");
        }
        for _ in 0..5 {
            let _ = scene.bad.receive();
            scene.bad.send(0, &[frame(1, 1000)], &scene.pool);
        }
        both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, 1);
        for ring in 0..2 {
            let bases = [0; 3].map(|_| guest.get(GET_VRING_BASE, &Frontend::state(ring, 0)).expect("answered"));
            assert!(bases[1] == bases[0] && bases[2] == bases[0], "ring {ring}, stopped three times: {bases:x?}");
        }
        assert!(!scene.bad.device.link().up, "stopped, base {base:#x}");
        drop(guest);
        scene.bad_recovers();
        wait("link down", || !scene.bad.device.link().up);
        assert_eq!(scene.pool.in_use(), 0, "base {base:#x}");
    }
}

#[test]
fn descriptors_for_kicks_and_errors_may_be_anything() {
    let mut scene = Scene::new();
    let before = open_fds();
    let file = tempfile::tempfile().expect("a file");
    let (read, write) = io::pipe().expect("a pipe");
    let closed = {
        let (read, write) = io::pipe().expect("a pipe");
        drop(read);
        write
    };
    let event = eventfd();
    let fds: [(&str, BorrowedFd<'_>); 5] = [
        ("a file", file.as_fd()),
        ("the end of a pipe", read.as_fd()),
        ("the beginning of a pipe", write.as_fd()),
        ("a pipe without an end", closed.as_fd()),
        ("an eventfd", event.as_fd()),
    ];
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    for round in 0..20 {
        for (what, fd) in &fds {
            for request in [SET_VRING_KICK, SET_VRING_ERR] {
                for ring in 0..2_u64 {
                    let _ = guest
                        .set(request, &ring.to_ne_bytes(), &[*fd])
                        .unwrap_or_else(|error| panic!("{what}: {error}"));
                }
            }
            both_ways(&mut scene.bad, &mut guest, &scene.pool, round);
        }
    }
    scene.others_are_fine("descriptors of all kinds");
    drop(guest);
    scene.bad_recovers();
    wait("descriptors closed", || open_fds() < before + 60);
}

#[test]
fn a_device_whose_status_is_reset_runs_on_or_stops_and_others_go_on() {
    let mut scene = Scene::new();
    let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
    guest.negotiate(BASIC, REPLY_ACK | STATUS).expect("negotiates");
    guest.start_pair(0).expect("starts");
    assert!(!scene.bad.device.link().up, "its driver is not there yet");
    assert!(guest.set(SET_STATUS, &0x0f_u64.to_ne_bytes(), &[]).expect("answered"), "DRIVER_OK");
    wait("link up", || scene.bad.device.link().up);
    both_ways(&mut scene.bad, &mut guest, &scene.pool, 1);
    for round in 0..20 {
        for status in [0_u64, 1, 3, 0x80, 0xff, 0x0b, 0x0f] {
            let _ = guest.set(SET_STATUS, &status.to_ne_bytes(), &[]).expect("answered");
            let _ = scene.bad.receive();
            scene.bad.send(0, &[frame(round, 1000)], &scene.pool);
        }
    }
    scene.others_are_fine("a status that is reset");
    drop(guest);
    scene.bad_recovers();
    wait("link down", || !scene.bad.device.link().up);
    assert_eq!(scene.pool.in_use(), 0);
}
