//! Opening, closing, connecting, leaving: nothing leaks, nobody waits for anybody else.

use super::frontend::{self, Frontend, MQ, MQ_PROTOCOL, REPLY_ACK};
use super::*;
use std::os::unix::net::UnixListener;
use std::sync::atomic::AtomicBool;

/// Descriptors that other tests of the process may open meanwhile; each leak here would be repeated
/// more often.
const NOISE: usize = 60;

#[test]
fn a_hundred_guests_in_a_row_leak_nothing() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let before = open_fds();
    for round in 0..100 {
        {
            let mut guest = running_guest(&port, &path, BASIC);
            assert_eq!(port.device.offloads(), ["mrg_rxbuf"]);
            both_ways(&mut port, &mut guest, &pool, round);
        } // vanishes
        wait("link down", || !port.device.link().up);
    }
    assert_eq!(pool.in_use(), 0, "mbufs in use without a guest");
    let after = open_fds();
    assert!(after < before + NOISE, "{before} descriptors before, {after} after");
    drop(port);
    assert!(!path.exists(), "the socket file is gone");
}

#[test]
fn a_thousand_opens_and_closes_leak_nothing() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(64));
    let before = open_fds();
    for round in 0..1000 {
        let mode = if round % 2 == 0 { VhostMode::Client } else { VhostMode::Server };
        let port = Port::new(&config(&dir, "s", mode), &pool);
        assert_eq!(port.device.link(), Link::default(), "round {round}");
    }
    let after = open_fds();
    assert!(after < before + NOISE, "{before} descriptors before, {after} after");
    assert_eq!(pool.in_use(), 0);
    assert!(std::fs::read_dir(dir.path()).expect("readable").next().is_none(), "no socket file is left");
}

#[test]
fn two_hundred_ports_at_once() {
    let _alone = alone();
    vswitch_dpdk::raise_fd_limit().expect("allowed");
    let (dir, pool) = (dir(), Mempool::for_tests(2048));
    let mut listeners = Vec::new();
    let mut ports: Vec<_> = (0..200)
        .map(|i| {
            let mode = if i % 2 == 0 { VhostMode::Client } else { VhostMode::Server };
            let config = config(&dir, &format!("p{i}"), mode);
            if mode == VhostMode::Client {
                listeners.push(UnixListener::bind(&config.path).expect("bind"));
            }
            (Port::new(&config, &pool), config.path)
        })
        .collect();
    let mut guests = Vec::new();
    for (i, (_, path)) in ports.iter().enumerate() {
        guests.push(if i % 2 == 0 {
            let (socket, _) = listeners[i / 2].accept().expect("the port connects");
            let mut guest = Frontend::on(socket).expect("memory");
            guest.negotiate(BASIC, REPLY_ACK).expect("negotiates");
            guest.start_pair(0).expect("starts");
            guest
        } else {
            guest(path, BASIC, REPLY_ACK)
        });
    }
    for (i, ((port, _), guest)) in ports.iter_mut().zip(&mut guests).enumerate() {
        wait("link up", || port.device.link().up);
        both_ways(port, guest, &pool, u32::try_from(i).expect("small"));
    }
    drop(ports);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn one_guest_at_a_time_and_a_dead_one_does_not_count() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let mut first = running_guest(&port, &path, BASIC);
    for _ in 0..20 {
        let mut second = Frontend::connect(&path).expect("the kernel connects");
        assert!(second.get(frontend::GET_FEATURES, &[]).is_err(), "a second guest is not served");
    }
    both_ways(&mut port, &mut first, &pool, 1);
    for round in 0..20 {
        drop(first); // and the next one comes before anybody noticed
        first = guest(&path, BASIC, REPLY_ACK);
        wait("the new guest", || port.device.link().up && port.device.rings.send_pairs() == 1);
        let end = Instant::now() + LIMIT;
        while first.receive(0).expect("readable").is_none() {
            assert!(Instant::now() < end, "round {round}: the new guest gets nothing");
            port.send(0, &[frame(0, 60)], &pool);
        }
    }
}

#[test]
fn a_path_is_one_port_and_may_be_opened_again() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(64));
    let server = config(&dir, "s", VhostMode::Server);
    let error =
        |config: &VhostConfig| open_port(config, &pool).err().map(|error| error.to_string()).unwrap_or_default();
    let port = Port::new(&server, &pool);
    assert!(error(&server).contains("another port of this switch"));
    assert!(error(&VhostConfig { mode: VhostMode::Client, ..server.clone() }).contains("another port of this switch"));
    drop(port);
    drop(UnixListener::bind(&server.path).expect("bind")); // leaves a stale file
    drop(Port::new(&server, &pool));
    let _other = UnixListener::bind(&server.path).expect("bind");
    assert!(error(&server).contains("another process"));
    assert!(server.path.exists(), "it is left alone");
    assert!(error(&config(&dir, "none/s", VhostMode::Server)).contains("mkdir -p"));
}

#[test]
fn a_guest_with_more_queue_pairs_than_the_port_is_heard_on_all() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let config = VhostConfig { queues: 2, ..config(&dir, "s", VhostMode::Server) };
    let mut port = Port::new(&config, &pool);
    let mut guest = guest(&config.path, BASIC | MQ, REPLY_ACK | MQ_PROTOCOL);
    guest.start_pair(1).expect("starts");
    guest.start_pair(2).expect("starts");
    wait("three pairs", || port.device.rings.receive_pairs() == 0b111 && port.device.rings.send_pairs() == 0b111);
    for pair in 0..3 {
        guest.send(pair, [0; 10], &frame(pair, 60)).expect("sent");
    }
    let mut got = port.receive();
    got.sort();
    assert_eq!(got, [frame(0, 60), frame(1, 60), frame(2, 60)]);

    // Transmit queue 1 goes to pair 1, and to pair 2 once pair 1 is off.
    port.send(1, &[frame(7, 60)], &pool);
    assert_eq!(guest.receive(1).expect("readable").map(|(_, bytes)| bytes), Some(frame(7, 60)));
    guest.enable(2, false).expect("disabled");
    assert_eq!(port.device.rings.send_pairs(), 0b101, "disabled before the guest hears that it is");
    port.send(1, &[frame(8, 60)], &pool);
    assert_eq!(guest.receive(2).expect("readable").map(|(_, bytes)| bytes), Some(frame(8, 60)));
    assert!(guest.receive(1).expect("readable").is_none());
    guest.enable(3, false).expect("disabled");
    guest.send(1, [0; 10], &frame(9, 60)).expect("sent");
    assert!(port.receive().is_empty(), "a disabled ring is not polled");
    guest.enable(3, true).expect("enabled");
    // The library replies first.
    wait("pair 1 again", || port.device.rings.receive_pairs() == 0b111);
    assert_eq!(port.receive(), [frame(9, 60)]);
}

#[test]
fn a_driver_without_multiqueue_has_one_pair_whatever_came_before() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let config = VhostConfig { queues: 2, ..config(&dir, "s", VhostMode::Server) };
    let mut port = Port::new(&config, &pool);
    let mut guest = guest(&config.path, BASIC | MQ, REPLY_ACK | MQ_PROTOCOL);
    guest.start_pair(1).expect("starts");
    wait("two pairs", || port.device.rings.receive_pairs() == 0b11 && port.device.rings.send_pairs() == 0b11);
    for ring in 0..2 {
        guest.stop(ring).expect("stopped");
    }
    assert!(!port.device.link().up);
    assert!(guest.set(frontend::SET_FEATURES, &BASIC.to_ne_bytes(), &[]).expect("answered"));
    guest.start_pair(0).expect("starts");
    wait("link up", || port.device.link().up);
    assert_eq!((port.device.rings.receive_pairs(), port.device.rings.send_pairs()), (0b1, 0b1));
    both_ways(&mut port, &mut guest, &pool, 1);
    port.send(1, &[frame(2, 60)], &pool);
    assert_eq!(guest.receive(0).expect("readable").map(|(_, bytes)| bytes), Some(frame(2, 60)));
}

#[test]
fn rings_that_are_full_drop_and_count_the_rest() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    let mut guest = running_guest(&port, &path, BASIC);
    let frames: Vec<_> = (0..300).map(|i| frame(i, 60 + i as usize)).collect();
    port.send(0, &frames, &pool);
    assert_eq!(port.counters.tx_packets.get(), u64::from(frontend::RING));
    assert_eq!(port.counters.tx_bytes.get(), frames[..256].iter().map(|frame| frame.len() as u64).sum::<u64>());
    assert_eq!(port.dropped(DropReason::TxFull), (0, 300 - 256));
    for sent in &frames[..256] {
        assert_eq!(guest.receive(0).expect("readable").map(|(_, bytes)| bytes).as_ref(), Some(sent));
    }
    assert_eq!(pool.in_use(), 0);
    port.send(0, &[frame(0, 1523)], &pool);
    guest.send(0, [0; 10], &frame(0, 1523)).expect("sent");
    assert!(port.receive().is_empty());
    assert_eq!(port.dropped(DropReason::Oversize), (1, 1), "MTU 1500, Ethernet header, two tags: 1522");
    port.device.set_mtu(1501).expect("settable");
    both_ways(&mut port, &mut guest, &pool, 1);
    guest.send(0, [0; 10], &frame(0, 1523)).expect("sent");
    assert_eq!(port.receive(), [frame(0, 1523)]);
}

#[test]
fn a_frame_longer_than_the_guests_buffers_costs_only_itself() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(512));
    let (mut port, path) = serve(&dir, "s", &pool);
    port.device.set_mtu(9000).expect("settable");
    let mut guest = running_guest(&port, &path, BASIC & !MRG_RXBUF);
    for (i, at) in (0_u64..).zip([0, 1, 5, 9]) {
        let lens = (0..10).map(|k| if k == at { 3000 } else { 100 });
        let frames: Vec<_> = (0..).zip(lens).map(|(number, len)| frame(number, len)).collect();
        port.send(0, &frames, &pool);
        for small in frames.iter().filter(|frame| frame.len() == 100) {
            assert_eq!(guest.receive(0).expect("readable").map(|(_, bytes)| bytes).as_ref(), Some(small), "{at}");
        }
        assert!(guest.receive(0).expect("readable").is_none());
        let (oversize, full) = (port.dropped(DropReason::Oversize).1, port.dropped(DropReason::TxFull).1);
        // As the last of a burst, it cannot be told from one that met a full ring.
        assert_eq!((oversize, full), if at == 9 { (i, 1) } else { (i + 1, 0) }, "{at}");
    }
    assert_eq!(port.counters.tx_packets.get(), 36);
    // A ring that is full is full.
    let frames: Vec<_> = (0..300).map(|i| frame(i, 60)).collect();
    port.send(0, &frames, &pool);
    assert_eq!((port.dropped(DropReason::Oversize).1, port.dropped(DropReason::TxFull).1), (3, 1 + 300 - 256));
    drop(guest);
    // A guest that merges its buffers gets everything.
    wait("link down", || !port.device.link().up);
    let _guest = running_guest(&port, &path, BASIC);
    port.send(0, &[frame(1, 3000), frame(2, 100)], &pool);
    assert_eq!(port.dropped(DropReason::Oversize).1, 3);
    assert_eq!(port.counters.tx_packets.get(), 36 + 256 + 2);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn guests_come_and_go_under_traffic() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(1024));
    let (mut port, path) = serve(&dir, "s", &pool);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut echoed = 0;
            while !stop.load(Relaxed) {
                let frames = port.receive();
                echoed += frames.len();
                port.send(0, &frames, &pool);
                port.send(0, &[frame(1, 600)], &pool);
            }
            echoed
        });
        for round in 0..60 {
            let mut guest = guest(&path, BASIC, REPLY_ACK);
            for number in 0..50 {
                guest.send(0, [0; 10], &frame(number, 200)).expect("sent");
            }
            let end = Instant::now() + LIMIT;
            while guest.receive(0).expect("readable").is_none() {
                assert!(Instant::now() < end, "round {round}: nothing comes back");
            }
            match round % 3 {
                0 => {} // vanishes
                1 => guest.stop(0).expect("stopped"),
                _ => {
                    guest.stop(1).expect("stopped");
                    guest.stop(0).expect("stopped");
                    guest.start_pair(0).expect("a driver that is loaded again");
                }
            }
        }
        stop.store(true, Relaxed);
        assert!(worker.join().expect("the worker lives") > 0);
    });
    drop(port);
    assert_eq!(pool.in_use(), 0);
}

/// Mappings of guest memory in this process.
fn guest_memory() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    maps.lines().filter(|line| line.contains("/dev/shm/")).count()
}

#[test]
fn a_guests_memory_stays_until_the_workers_left() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(64));
    let (port, path) = serve(&dir, "s", &pool);
    let before = guest_memory();
    let gate = Arc::clone(&port.gate);
    for stops_a_ring in [false, true] {
        let guest = running_guest(&port, &path, BASIC);
        assert_eq!(guest_memory(), before + 1);
        let inside = gate.lock(); // a worker in the middle of its burst
        if stops_a_ring {
            guest.raw(frontend::GET_VRING_BASE, 0, &Frontend::state(0, 0), &[]).expect("sent");
        }
        drop(guest);
        wait("link down", || !port.device.link().up);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(guest_memory(), before + 1, "unmapped under a worker; stopped a ring: {stops_a_ring}");
        drop(inside);
        wait("unmapped", || guest_memory() == before);
    }
    let _guest = running_guest(&port, &path, BASIC);
    let inside = gate.lock();
    let closing = std::thread::spawn(move || drop(port));
    std::thread::sleep(Duration::from_millis(200));
    assert!(!closing.is_finished(), "closed under a worker");
    assert_eq!(guest_memory(), before + 1);
    drop(inside);
    closing.join().expect("closed");
    assert_eq!(guest_memory(), before);
}
