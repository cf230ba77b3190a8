//! The same again and again, thousands of times: nothing is left of it.

use super::frontend::*;
use super::hostile::{Scene, header, is_disconnected};
use super::*;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use vswitch_dpdk::eal::heap_bytes;
use vswitch_dpdk::vhost::testing::{FDS_MAX, eventfd, send_with_fds};

/// Bytes of memory that the process has in use, by what the kernel counts and by DPDK's heap.
fn memory_in_use() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages = text.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok()).expect("resident pages");
    [4096 * pages, heap_bytes()]
}

/// Nothing grew: of the process's memory allocators keep some back.
#[track_caller]
fn has_not_grown(before: [u64; 2], what: &str) {
    let after = memory_in_use();
    assert!(after[0] < before[0] + (4 << 20), "{what}: {before:?} bytes before, {after:?} after");
    assert!(after[1] <= before[1] + (64 << 10), "{what}: {before:?} bytes before, {after:?} after");
}

/// As many descriptors as before, once the library has noticed who is gone. Each test has a
/// process.
#[track_caller]
fn are_closed(before: usize, what: &str) {
    wait(&format!("{before} descriptors, {what}, and not {}", open_fds()), || open_fds() <= before);
}

/// A front end that can be answered, and has no memory yet. Its predecessor may not be noticed to
/// be gone.
fn speaker(path: &Path) -> Frontend {
    let end = Instant::now() + LIMIT;
    loop {
        let greeted = Frontend::connect(path).and_then(|mut guest| {
            guest.get(GET_FEATURES, &[])?;
            guest.get(GET_PROTOCOL_FEATURES, &[])?;
            guest.raw(SET_PROTOCOL_FEATURES, 0, &(REPLY_ACK | STATUS).to_ne_bytes(), &[])?;
            guest.set(SET_FEATURES, &BASIC.to_ne_bytes(), &[])?;
            Ok(guest)
        });
        match greeted {
            Ok(guest) => return guest,
            Err(error) => assert!(Instant::now() < end, "a front end is not answered: {error}"),
        }
    }
}

/// What a request says that is well-formed, as far as there is such a thing without memory.
fn payload(request: u32) -> Vec<u8> {
    match request {
        SET_FEATURES => BASIC.to_ne_bytes().to_vec(),
        SET_PROTOCOL_FEATURES => (REPLY_ACK | STATUS).to_ne_bytes().to_vec(),
        SET_MEM_TABLE => Frontend::table(4096, 0),
        SET_VRING_ADDR => Frontend::ring_addr(0),
        SET_VRING_NUM => Frontend::state(0, 256).to_vec(),
        NET_SET_MTU => 1500_u64.to_ne_bytes().to_vec(),
        _ => vec![0; 8],
    }
}

/// V03: each request there is (or may be one day), with no descriptor, with one, with as many as a
/// message of vhost-user can have, and with as many as the kernel takes.
#[test]
fn descriptors_that_come_with_any_request_are_closed() {
    const ROUNDS: u32 = 560;
    let mut scene = Scene::new();
    let memory = tempfile::tempfile_in("/dev/shm").expect("a file");
    memory.set_len(4096).expect("sizes");
    let event = eventfd();
    drop(speaker(&scene.bad_path));
    wait("it is gone", || speaker(&scene.bad_path).socket.shutdown(std::net::Shutdown::Both).is_ok());
    let before = open_fds();
    let mut guest = speaker(&scene.bad_path);
    let (mut messages, mut refused, mut disconnected) = (0, 0, 0);
    for round in 0..ROUNDS {
        let fd = if round % 2 == 0 { event.as_fd() } else { memory.as_fd() };
        for request in 0..=44 {
            for n in [0, 1, 8, FDS_MAX] {
                let say = |guest: &mut Frontend| guest.set(request, &payload(request), &vec![fd; n]);
                let mut accepted = say(&mut guest);
                if accepted.is_err() {
                    // By the message before this one, perhaps, behind its answer.
                    guest = speaker(&scene.bad_path);
                    accepted = say(&mut guest);
                }
                messages += 1;
                match accepted {
                    Ok(accepted) => refused += u32::from(!accepted),
                    Err(_) => {
                        disconnected += 1;
                        guest = speaker(&scene.bad_path);
                    }
                }
            }
        }
        both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, round);
    }
    assert_eq!(messages, ROUNDS * 45 * 4);
    let what = format!("{refused} of {messages} messages refused, {disconnected} the last of their connection");
    assert!(disconnected < messages / 3 && refused > messages / 2, "{what}");
    drop(guest);
    are_closed(before, &what);
    scene.others_are_fine("descriptors of all requests");
    scene.bad_recovers();
}

/// V03: messages that the library gives up before anybody is asked, with the most descriptors that
/// it takes.
#[test]
fn descriptors_of_messages_that_make_no_sense_are_closed() {
    let mut scene = Scene::new();
    drop(scene.connect());
    let event = eventfd();
    let fds = [event.as_fd(); 8];
    let ring = |request: u32| [header(request, 8), Frontend::state(256, 1).to_vec()].concat();
    let cases = [
        ("five bytes", header(SET_VRING_CALL, 8)[..5].to_vec()),
        ("no payload", header(SET_VRING_CALL, 8)),
        ("half a payload", [header(SET_VRING_KICK, 8), vec![0; 4]].concat()),
        ("half a table of memory", [header(SET_MEM_TABLE, 40), vec![0; 39]].concat()),
        ("a payload of 633 bytes", [header(SET_MEM_TABLE, 633), vec![0; 633]].concat()),
        ("a payload of 4 GiB", header(SET_MEM_TABLE, u32::MAX)),
        ("a size of ring 256", ring(SET_VRING_NUM)),
        ("a base of ring 256", ring(SET_VRING_BASE)),
        ("the base of ring 256, please", ring(GET_VRING_BASE)),
        ("ring 256 enabled", ring(SET_VRING_ENABLE)),
        (
            "addresses of ring 256",
            [header(SET_VRING_ADDR, 40), [256_u64, 0, 0, 0, 0].map(u64::to_ne_bytes).concat()].concat(),
        ),
        ("in-flight buffers of no ring", [header(SET_INFLIGHT_FD, 24), vec![0; 24]].concat()),
        ("request 9999", header(9999, 0)),
    ];
    for (what, bytes) in &cases {
        let before = open_fds();
        for _ in 0..40 {
            let socket = scene.connect();
            send_with_fds(&socket, bytes, &fds).expect("sent");
            is_disconnected(&socket, what);
        }
        are_closed(before, what);
    }
    scene.others_are_fine("descriptors of nonsense");
    scene.bad_recovers();
}

/// V07: sizes that no ring has, of rings that there are and of others.
#[test]
fn sizes_of_rings_again_and_again_leave_nothing() {
    const SIZES: [u32; 10] = [0, 1, 3, 256, 4096, 8192, 32768, 65536, 1 << 31, u32::MAX];
    const RINGS: [u32; 10] = [0, 1, 2, 127, 128, 255, 256, 0x1_0000, 0x8000_0001, u32::MAX];
    let mut scene = Scene::new();
    let mut guest = speaker(&scene.bad_path);
    let (mut before, mut messages) = ((0, [0; 2]), 0);
    for round in 0..1050 {
        if round == 50 {
            before = (open_fds(), memory_in_use());
        }
        for ring in RINGS {
            for size in SIZES {
                messages += 1;
                let accepted = guest.set(SET_VRING_NUM, &Frontend::state(ring, size), &[]);
                let good = ring < 128 && [1, 256, 4096].contains(&size);
                // Of a ring that the library cannot count it wants to hear no more.
                let expected = Some(good).filter(|_| ring < 256);
                if accepted.is_err() {
                    guest = speaker(&scene.bad_path);
                }
                assert_eq!(accepted.ok(), expected, "ring {ring:#x} of {size} entries, round {round}");
            }
        }
        if round % 7 == 0 {
            guest.stop(round % 2).expect("stopped");
        }
    }
    assert!(messages >= 100_000, "{messages}");
    has_not_grown(before.1, &format!("{messages} sizes"));
    assert!(open_fds() <= before.0, "{} descriptors before, {} after {messages} sizes", before.0, open_fds());
    assert!(!scene.bad.device.link().up);
    scene.others_are_fine("sizes of rings");
    drop(guest);
    scene.bad_recovers();
}

/// V02: a message that ends anywhere, and goes on never. And one that comes byte by byte.
#[test]
fn a_message_that_ends_anywhere_costs_its_sender_only() {
    let mut scene = Scene::new();
    let message = [header(SET_FEATURES, 8), BASIC.to_ne_bytes().to_vec()].concat();
    for len in 1..message.len() {
        let mut socket = scene.connect();
        socket.write_all(&message[..len]).expect("sent");
        both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, 1);
        if len % 4 == 1 {
            scene.others_are_fine("a message that goes on never");
        }
        is_disconnected(&socket, &format!("{len} of {} bytes", message.len()));
    }
    for round in 0..20 {
        let mut socket = scene.connect();
        let mut sent = 0;
        for byte in message.chunks(1) {
            if socket.write_all(byte).is_err() {
                break; // hung up
            }
            sent += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, round);
        is_disconnected(&socket, &format!("{sent} bytes, one by one"));
    }
    scene.others_are_fine("messages byte by byte");
    scene.bad_recovers();
}

/// V02: more connections than anybody needs, on one socket.
#[test]
fn a_thousand_silent_connections_hold_nothing_up() {
    vswitch_dpdk::raise_fd_limit().expect("allowed");
    let mut scene = Scene::new();
    let before = open_fds();
    let idle: Vec<_> = (0..1000).map(|_| scene.connect()).collect();
    scene.others_are_fine("1000 idle connections");
    // One of them is the guest, and may take its time; the others were hung up on.
    let held = idle.iter().filter(|socket| {
        socket.set_nonblocking(true).expect("settable");
        let answer = (&mut &**socket).read(&mut [0]);
        matches!(answer, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    });
    assert_eq!(held.count(), 1, "connections on one socket");
    drop(idle);
    scene.bad_recovers();
    are_closed(before, "after 1000 idle connections");
}

/// V23: front ends that come and go as fast as they can, and get as far as they like.
#[test]
fn front_ends_that_come_and_go_leave_nothing() {
    const ROUNDS: u32 = 1200;
    let mut scene = Scene::new();
    let (mut before, mut served) = ((0, [0; 2]), 0);
    for round in 0..ROUNDS {
        if round == 120 {
            wait("link down", || !scene.bad.device.link().up);
            before = (open_fds(), memory_in_use());
        }
        let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
        match round % 6 {
            0 => {}
            1 => drop(guest.raw(GET_FEATURES, 0, &[], &[])), // and does not wait for the answer
            2 => drop(guest.negotiate(BASIC, REPLY_ACK)),
            3 => drop(guest.negotiate(BASIC, REPLY_ACK).and_then(|()| guest.restart_ring(0))),
            4 => drop(guest.negotiate(BASIC, REPLY_ACK).and_then(|()| guest.start_pair(0))),
            _ => {
                drop(guest);
                guest = speaker(&scene.bad_path);
                guest.mem_table(MEMORY).expect("memory");
                guest.start_pair(0).expect("starts");
                // DRIVER_OK, for it speaks of a status.
                assert!(guest.set(SET_STATUS, &0x0f_u64.to_ne_bytes(), &[]).expect("answered"));
                wait("link up", || scene.bad.device.link().up);
                both_ways(&mut scene.bad, &mut guest, &scene.pool, round);
                served += 1;
            }
        }
        if round % 100 == 99 {
            scene.others_are_fine("front ends that come and go");
        }
    }
    assert_eq!(served, ROUNDS / 6, "front ends that were served");
    wait("link down", || !scene.bad.device.link().up);
    are_closed(before.0, &format!("after {ROUNDS} front ends"));
    has_not_grown(before.1, &format!("{ROUNDS} front ends"));
    assert_eq!(scene.pool.in_use(), 0);
    scene.bad_recovers();
}
