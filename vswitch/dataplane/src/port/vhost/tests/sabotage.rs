//! Guests that change what they gave while it is used: memory, descriptors, rings, the order of
//! messages.
#![allow(clippy::cast_possible_truncation)] // of numbers at random

use super::frontend::*;
use super::hostile::Scene;
use super::*;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use vswitch_dpdk::vhost::testing::{CALL_DELAY_US, await_calls, eventfd, limit_fds, make_blocking};

/// Numbers that look random, the same for the same seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A seed of its own for each run, unless VHOST_SEED gives one.
pub(super) fn seed() -> u64 {
    let given = std::env::var("VHOST_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |at| at.as_nanos() as u64 | 1);
    let seed = given.unwrap_or_else(now);
    #[allow(clippy::print_stdout)] // captured and shown by the test runner
    {
        println!("VHOST_SEED={seed}");
    }
    seed
}

#[test]
fn memory_that_is_taken_away_costs_its_owner_only() {
    let mut scene = Scene::new();
    for len in [0, 4096, MEMORY / 2] {
        for idle in [false, true] {
            let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
            both_ways(&mut scene.bad, &mut guest, &scene.pool, 5);
            guest.send(0, [0; 10], &frame(1, 1000)).expect("sent");
            guest.memory.set_len(len).expect("shrinks");
            if !idle {
                for _ in 0..10 {
                    let _ = scene.bad.receive();
                    scene.bad.send(0, &[frame(1, 1000)], &scene.pool);
                }
            }
            scene.others_are_fine("memory that is gone");
            vswitch_dpdk::vhost::maintain();
            if idle {
                // Nobody has noticed; its next message, or its end, touches the rings.
                let _ = guest.stop(1);
                vswitch_dpdk::vhost::maintain();
            } else if len < MEMORY / 2 {
                wait("it is disconnected", || !scene.bad.device.link().up);
            }
            drop(guest);
            scene.bad_recovers();
            wait("link down", || !scene.bad.device.link().up);
            assert_eq!(scene.pool.in_use(), 0, "after its memory had {len} bytes");
        }
    }
    // And whoever closes the port of one without memory lives, too.
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    scene.good_guest.memory.set_len(0x10_0000).expect("shrinks");
    both_ways(&mut scene.bad, &mut guest, &scene.pool, 6);
}

#[test]
fn descriptors_that_block_hold_nobody_up() {
    let mut scene = Scene::new();
    let (pipe, _other) = io::pipe().expect("a pipe");
    let file = tempfile::tempfile().expect("a file");
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    let ring = 0_u64.to_ne_bytes();
    for (what, fd) in [("a pipe", pipe.as_fd()), ("a file", file.as_fd())] {
        assert!(!guest.set(SET_VRING_CALL, &ring, &[fd]).expect("answered"), "{what}");
        both_ways(&mut scene.bad, &mut guest, &scene.pool, 1);
    }
    // An eventfd that was made to block again after it was accepted, and is full.
    let mut full = eventfd();
    assert!(guest.set(SET_VRING_CALL, &ring, &[full.as_fd()]).expect("answered"), "an eventfd");
    runs(&scene.bad, "before it is full");
    both_ways(&mut scene.bad, &mut guest, &scene.pool, 2);
    make_blocking(&full);
    let mut counter = [0; 8];
    full.read_exact(&mut counter).expect("it was called");
    full.write_all(&(u64::MAX - 1).to_ne_bytes()).expect("it was empty");
    std::thread::scope(|scope| {
        let (bad, pool) = (&mut scene.bad, &scene.pool);
        let worker = scope.spawn(move || bad.send(0, &[frame(1, 60)], pool));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!worker.is_finished(), "the worker was to be held up");
        wait("the worker goes on", || {
            vswitch_dpdk::vhost::maintain();
            worker.is_finished()
        });
    });
    wait("link down", || !scene.bad.device.link().up);
    scene.others_are_fine("a full eventfd");
    drop(guest);
    scene.bad_recovers();
}

#[test]
fn a_full_descriptor_holds_up_no_worker_and_nobody_elses_calls() {
    let mut scene = Scene::new();
    vswitch_dpdk::vhost::set_call_delay(CALL_DELAY_US);
    let dir = dir();
    let (mut port, path) = serve(&dir, "other", &scene.pool);
    let call = eventfd();
    let mut other = Frontend::connect(&path).expect("connects");
    other.negotiate(BASIC, REPLY_ACK).expect("negotiates");
    for ring in 0..2 {
        other.start_ring(ring, RING, 0, Some(&call)).expect("starts");
    }
    wait("its link", || port.device.link().up);
    assert!(port.receive().is_empty());
    for what in ["it goes", "it has another one", "it stays"] {
        let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
        let full = eventfd();
        assert!(guest.set(SET_VRING_CALL, &0_u64.to_ne_bytes(), &[full.as_fd()]).expect("answered"), "an eventfd");
        runs(&scene.bad, "before it is full");
        both_ways(&mut scene.bad, &mut guest, &scene.pool, 2);
        // Calls may come in between.
        wait("it is full", || {
            let _ = (&full).read(&mut [0; 8]);
            (&full).write_all(&(u64::MAX - 1).to_ne_bytes()).is_ok()
        });
        make_blocking(&full);
        scene.bad.send(0, &[frame(1, 60)], &scene.pool);
        match what {
            "it goes" => drop(guest),
            "it has another one" => {
                let next = eventfd();
                assert!(guest.set(SET_VRING_CALL, &0_u64.to_ne_bytes(), &[next.as_fd()]).expect("answered"), "{what}");
            }
            _ => wait("it is disconnected", || {
                vswitch_dpdk::vhost::maintain();
                !scene.bad.device.link().up
            }),
        }
        let called = |mut call: &File| call.read(&mut [0; 8]).is_ok();
        wait("no call of the other one's is left", || !called(&call));
        other.offer(0, 2048, WRITE).expect("written");
        port.send(0, &[frame(1, 60)], &scene.pool);
        wait(&format!("the other one's calls, {what}"), || {
            vswitch_dpdk::vhost::maintain();
            called(&call)
        });
    }
    wait("link down", || !scene.bad.device.link().up);
    drop((port, other));
    scene.others_are_fine("a full eventfd");
    scene.bad_recovers();
}

#[test]
fn call_descriptors_that_contradict_their_message_are_refused() {
    let mut scene = Scene::new();
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    let (first, second) = (eventfd(), eventfd());
    assert!(guest.set(SET_VRING_CALL, &0_u64.to_ne_bytes(), &[first.as_fd()]).expect("answered"), "one, as it says");
    runs(&scene.bad, "with the first");
    both_ways(&mut scene.bad, &mut guest, &scene.pool, 1);
    let both = [first.as_fd(), second.as_fd()];
    for (what, said, fds) in
        [("says none", 0x100_u64, &both[1..]), ("says one", 0, &both[..0]), ("has two", 0, &both[..])]
    {
        assert!(!guest.set(SET_VRING_CALL, &said.to_ne_bytes(), fds).expect("answered"), "{what}");
        both_ways(&mut scene.bad, &mut guest, &scene.pool, 2);
    }
    is_looked_after(&mut scene, &first);
    drop(guest);
    scene.bad_recovers();
}

/// The process has its descriptors for itself: each test has a process.
#[test]
fn a_call_descriptor_that_nobody_could_look_after_is_refused() {
    let mut scene = Scene::new();
    for delay in [0, CALL_DELAY_US] {
        let what = format!("called by workers, or {delay} us later");
        vswitch_dpdk::vhost::set_call_delay(delay);
        let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
        let (first, second) = (eventfd(), eventfd());
        let call = 0_u64.to_ne_bytes();
        assert!(guest.set(SET_VRING_CALL, &call, &[first.as_fd()]).expect("answered"), "{what}: the first");
        runs(&scene.bad, &what);
        both_ways(&mut scene.bad, &mut guest, &scene.pool, 1);
        let limit = limit_fds(open_fds() as u64 + 64);
        let mut all: Vec<File> = std::iter::from_fn(|| first.try_clone().ok()).collect();
        drop(all.pop().expect("there was room"));
        let answer = guest.set(SET_VRING_CALL, &call, &[second.as_fd()]);
        drop(all);
        limit_fds(limit);
        assert!(!answer.expect("answered"), "{what}: one that fits, but cannot be kept");
        runs(&scene.bad, &what);
        both_ways(&mut scene.bad, &mut guest, &scene.pool, 2);
        if delay == 0 {
            is_looked_after(&mut scene, &first);
        } else {
            await_calls();
            (&first).read_exact(&mut [0; 8]).expect("it was called");
            scene.bad.send(0, &[frame(1, 60)], &scene.pool);
            wait(&format!("its next call, {what}"), || (&first).read_exact(&mut [0; 8]).is_ok());
        }
        drop(guest);
        scene.bad_recovers();
    }
}

/// Workers call a guest by this descriptor, and are let go when it is full.
fn is_looked_after(scene: &mut Scene, mut call: &File) {
    make_blocking(call);
    call.read_exact(&mut [0; 8]).expect("it was called");
    call.write_all(&(u64::MAX - 1).to_ne_bytes()).expect("it was empty");
    std::thread::scope(|scope| {
        let (bad, pool) = (&mut scene.bad, &scene.pool);
        let worker = scope.spawn(move || bad.send(0, &[frame(1, 60)], pool));
        wait("the worker goes on", || {
            vswitch_dpdk::vhost::maintain();
            worker.is_finished()
        });
    });
}

/// Where a ring's available index is in the front end's memory.
fn avail(ring: u32) -> u64 {
    u64::from(ring) * 0x1_0000 + 0x1000
}

#[test]
fn available_indexes_that_jump_cost_their_owner_only() {
    let mut scene = Scene::new();
    for index in [300_u16, 5000, 0x7fff, 0x8000, 0xffff] {
        for head in [0_u16, 255, 256, 0xffff] {
            let guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
            for ring in 0..2 {
                for slot in 0..u64::from(RING) {
                    guest.memory.write_all_at(&head.to_ne_bytes(), avail(ring) + 4 + 2 * slot).expect("written");
                }
                guest.memory.write_all_at(&index.to_ne_bytes(), avail(ring) + 2).expect("written");
            }
            for _ in 0..20 {
                let _ = scene.bad.receive();
                scene.bad.send(0, &[frame(1, 1000)], &scene.pool);
            }
            // And backwards.
            for ring in 0..2 {
                guest.memory.write_all_at(&[0, 0], avail(ring) + 2).expect("written");
            }
            let _ = scene.bad.receive();
            scene.bad.send(0, &[frame(1, 1000)], &scene.pool);
            both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, 1);
            drop(guest);
            wait("link down", || !scene.bad.device.link().up);
            assert_eq!(scene.pool.in_use(), 0, "index {index}, head {head}");
        }
    }
    scene.others_are_fine("jumping indexes");
    scene.bad_recovers();
}

#[test]
fn rings_that_change_while_they_are_read_cost_their_owner_only() {
    let mut scene = Scene::new();
    let seed = seed();
    let (guest, stop) = (running_guest(&scene.bad, &scene.bad_path, BASIC), AtomicBool::new(false));
    let (mut received, end) = (0, Instant::now() + Duration::from_secs(2));
    std::thread::scope(|scope| {
        let (guest, stop) = (&guest, &stop);
        scope.spawn(move || {
            let mut random = Random(seed);
            while !stop.load(Relaxed) {
                let ring = random.below(2);
                let (slot, what) = (random.below(u64::from(RING)), random.below(8));
                // Descriptors: addresses in and around the memory, lengths, chains, indirect
                // tables; heads and indexes.
                let address = random.below(MEMORY + 0x1000);
                let rest = random.below(3000) | random.below(8) << 32 | random.below(300) << 48;
                let ring_at = ring * 0x1_0000;
                let written = match what {
                    0..=4 => {
                        guest.memory.write_all_at(&[address, rest].map(u64::to_ne_bytes).concat(), ring_at + slot * 16)
                    }
                    5 => guest
                        .memory
                        .write_all_at(&(random.below(260) as u16).to_ne_bytes(), ring_at + 0x1004 + 2 * slot),
                    _ => guest.memory.write_all_at(&(random.next() as u16).to_ne_bytes(), ring_at + 0x1002),
                };
                written.expect("written");
            }
        });
        while Instant::now() < end {
            for got in scene.bad.receive() {
                received += 1;
                assert!(got.len() <= 1522, "seed {seed}: {} bytes", got.len());
            }
            scene.bad.send(0, &[frame(1, 1000), frame(2, 60)], &scene.pool);
        }
        stop.store(true, Relaxed);
    });
    assert!(received > 0, "seed {seed}: nothing was read from the rings");
    scene.others_are_fine("changing rings");
    drop(guest);
    scene.bad_recovers();
    wait("link down", || !scene.bad.device.link().up);
    assert_eq!(scene.pool.in_use(), 0, "seed {seed}");
}

#[test]
fn conversations_at_random_cost_their_speaker_only() {
    let mut scene = Scene::new();
    let seed = seed();
    let mut random = Random(seed);
    let before = open_fds();
    let requests = [
        GET_FEATURES,
        SET_FEATURES,
        SET_OWNER,
        RESET_OWNER,
        SET_MEM_TABLE,
        SET_LOG_BASE,
        SET_VRING_NUM,
        SET_VRING_ADDR,
        SET_VRING_BASE,
        GET_VRING_BASE,
        SET_VRING_KICK,
        SET_VRING_CALL,
        14,
        GET_PROTOCOL_FEATURES,
        SET_PROTOCOL_FEATURES,
        17,
        SET_VRING_ENABLE,
        20,
        39,
        40,
    ];
    let end = Instant::now() + Duration::from_secs(4);
    let (mut conversations, mut messages) = (0, 0);
    while Instant::now() < end {
        let guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
        conversations += 1;
        for _ in 0..random.below(60) {
            let request = requests[random.below(requests.len() as u64) as usize];
            let ring = random.below(4) as u32;
            let interesting = [0, 1, 3, 255, 256, 257, 4096, 32768, 65535, u32::MAX];
            let value = interesting[random.below(interesting.len() as u64) as usize];
            let payload = match request {
                SET_MEM_TABLE => Frontend::table(MEMORY >> random.below(14), random.below(3) * 4096),
                SET_VRING_ADDR => {
                    let mut address = Frontend::ring_addr(ring);
                    let word = 8 * random.below(5) as usize;
                    let near = u64::from_ne_bytes(address[word..word + 8].try_into().expect("8 bytes"));
                    let shift = [0, 2, 16, 4096, MEMORY, u64::MAX - near][random.below(6) as usize];
                    address[word..word + 8].copy_from_slice(&near.wrapping_add(shift).to_ne_bytes());
                    address
                }
                SET_FEATURES => (BASIC ^ 1 << random.below(40)).to_ne_bytes().to_vec(),
                SET_VRING_KICK | SET_VRING_CALL | 14 => u64::from(ring | 1 << 8).to_ne_bytes().to_vec(),
                _ => Frontend::state(ring, value).to_vec(),
            };
            let memory = guest.memory.try_clone().expect("a descriptor");
            let fds = [memory.as_fd()];
            let fds = if request == SET_MEM_TABLE || random.below(10) == 0 { &fds[..] } else { &[] };
            if guest.raw(request, 0, &payload, fds).is_err() {
                break; // disconnected
            }
            messages += 1;
            let _ = scene.bad.receive();
            scene.bad.send(0, &[frame(1, 1000)], &scene.pool);
        }
        both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, conversations);
        drop(guest);
        wait("link down", || !scene.bad.device.link().up);
    }
    assert!(conversations > 5 && messages > 100, "seed {seed}: {conversations} conversations, {messages} messages");
    scene.others_are_fine("random conversations");
    scene.bad_recovers();
    wait("link down", || !scene.bad.device.link().up);
    assert_eq!(scene.pool.in_use(), 0, "seed {seed}");
    wait("descriptors closed", || open_fds() < before + 60);
}
