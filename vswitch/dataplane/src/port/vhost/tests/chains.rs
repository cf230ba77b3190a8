//! Chains of descriptors that are no chains, of both rings, and rings of the packed form with
//! nonsense in them: whoever made them goes without, the others notice nothing.

use super::frontend::*;
use super::hostile::Scene;
use super::sabotage::{Random, seed};
use super::*;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;

/// Where a table of descriptors is, and where the bytes of packets are.
const TABLE_AT: u64 = 0x30_0000;
const BYTES: u64 = 0x40_0000;

/// Descriptors of a ring, from its first on, and of the table: address, length, flags, next.
struct Attack(&'static str, Vec<[u64; 4]>, Vec<[u64; 4]>);

/// A table of so many bytes, named by a descriptor.
fn table(bytes: u64) -> Vec<[u64; 4]> {
    vec![[TABLE_AT, bytes, TABLE, 0]]
}

/// Chains that no driver makes; `w` is the flag that buffers of this ring have, or the one that
/// they must not have.
fn attacks(w: u64) -> Vec<Attack> {
    let to = |next: u64| [BYTES, 40, NEXT | w, next];
    let last = [BYTES, 40, w, 0];
    let attack = |what, ring: Vec<[u64; 4]>| Attack(what, ring, Vec::new());
    vec![
        attack("a loop of one", vec![to(0)]),
        attack("a loop of two", vec![to(1), to(0)]),
        attack("a loop behind a good beginning", vec![to(1), to(2), to(3), to(2)]),
        attack("a next descriptor behind the ring", vec![to(256), last]),
        attack("a next descriptor far away", vec![to(0xffff), last]),
        attack("a chain through the whole ring, and again", (1..=256).map(|i| to(i % 256)).collect()),
        attack("a chain through the whole ring", (1..=256).map(|i| if i < 256 { to(i) } else { last }).collect()),
        attack("no bytes anywhere", vec![[BYTES, 0, NEXT | w, 1], [BYTES, 0, w, 0]]),
        attack("no bytes at no address", vec![[u64::MAX, 0, w, 0]]),
        attack("one byte", vec![[BYTES, 1, w, 0]]),
        attack("a good descriptor and one outside the memory", vec![[BYTES, 100, NEXT | w, 1], [MEMORY, 60, w, 0]]),
        attack("a good descriptor and one of 4 GiB", vec![[BYTES, 100, NEXT | w, 1], [BYTES, 0xffff_ffff, w, 0]]),
        attack("lengths whose sum is small again", vec![[BYTES, 0xffff_fff0, NEXT | w, 1], [BYTES, 100, w, 0]]),
        attack("an unknown flag", vec![[BYTES, 80, 0xfff8 | w, 0]]),
        attack("a table outside the memory", vec![[MEMORY, 32, TABLE, 0]]),
        attack("a table across the end", vec![[MEMORY - 16, 32, TABLE, 0]]),
        attack("a table of no bytes", table(0)),
        attack("a table of 17 bytes", table(17)),
        attack("a table of 4 GiB", table(0xffff_fff0)),
        Attack("a table in a table", table(16), vec![[TABLE_AT, 16, TABLE, 0]]),
        Attack("a table with a loop", table(32), vec![to(1), to(0)]),
        Attack("a table that goes on behind its end", table(32), vec![to(1), to(2), last]),
        Attack("a table with a next descriptor far away", table(32), vec![to(0xffff), last]),
        Attack(
            "a table longer than the ring",
            table(16 * 300),
            (1..=300).map(|i| if i < 300 { to(i) } else { last }).collect(),
        ),
        Attack("a table that goes on in the ring", vec![[TABLE_AT, 32, TABLE | NEXT, 1], last], vec![to(1), last]),
    ]
}

/// One attack on a ring of the bad port's guest; then it is the next guest's turn.
#[track_caller]
fn survives(scene: &mut Scene, ring: u32, Attack(what, descriptors, in_table): &Attack) {
    let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
    guest.negotiate(BASIC | INDIRECT, REPLY_ACK).expect("negotiates");
    guest.start_bare(0).expect("starts");
    wait("link up", || scene.bad.device.link().up);
    for (at, list) in [(ring_at(ring), descriptors), (TABLE_AT, in_table)] {
        for (i, descriptor) in (0..).zip(list) {
            guest.descriptor(at + 16 * i, *descriptor).expect("written");
        }
    }
    for _ in 0..40 {
        guest.publish(ring, 0).expect("written");
    }
    for _ in 0..10 {
        for got in scene.bad.receive() {
            assert!(got.len() <= 1522, "{what} in ring {ring}: {} bytes", got.len());
        }
        scene.bad.send(0, &[frame(1, 60), frame(2, 1500)], &scene.pool);
    }
    both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, 1);
    drop(guest);
    scene.bad_recovers();
    wait("link down", || !scene.bad.device.link().up);
    assert_eq!(scene.pool.in_use(), 0, "after {what} in ring {ring}");
}

#[test]
fn chains_that_are_none_cost_the_sender_only() {
    let mut scene = Scene::new();
    for attack in attacks(0).iter().chain(&attacks(WRITE)) {
        survives(&mut scene, 1, attack);
    }
}

#[test]
fn chains_that_are_none_cost_the_receiver_only() {
    let mut scene = Scene::new();
    for attack in attacks(WRITE).iter().chain(&attacks(0)) {
        survives(&mut scene, 0, attack);
    }
}

/// Looks at the bad port's guest until nothing comes any more; how many chains were told since the
/// last time.
fn told(scene: &mut Scene, before: &mut u64) -> u64 {
    for _ in 0..60 {
        let _ = scene.bad.receive();
    }
    let now = scene.bad.dropped(DropReason::VhostDesc).0;
    now - std::mem::replace(before, now)
}

#[test]
fn each_chain_that_is_none_is_told_once() {
    let mut scene = Scene::new();
    let to = |next| [BYTES, 40, NEXT, next];
    // What it is, its descriptor and table, and whether the ring goes on behind it.
    let cases = [
        ("one byte", [BYTES, 1, 0, 0], None, true),
        ("nothing", [BYTES, 0, 0, 0], None, true),
        ("only the header", [BYTES, 12, 0, 0], None, true),
        ("a loop of one", to(200), None, false),
        ("outside the memory", [MEMORY, 60, 0, 0], None, false),
        ("4 GiB", [BYTES, 0xffff_ffff, 0, 0], None, false),
        ("a table across the end", [MEMORY - 16, 32, TABLE, 0], None, false),
        ("a table with a loop", [TABLE_AT, 16, TABLE, 0], Some(to(0)), false),
    ];
    let (mut before, mut otherwise) = (0, Vec::new());
    for (what, descriptor, in_table, goes_on) in cases {
        let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
        guest.negotiate(BASIC | INDIRECT, REPLY_ACK).expect("negotiates");
        guest.start_bare(0).expect("starts");
        wait("link up", || scene.bad.device.link().up);
        // Twice: in a ring that is new, and in one that was started again; where the ring goes on,
        // a good packet each time.
        for start in 0..2 {
            if start > 0 {
                guest.stop(1).expect("stopped");
                guest.memory.write_all_at(&[0; 0x3000], ring_at(1)).expect("written");
                guest.restart_ring(1).expect("starts");
                wait("link up", || scene.bad.device.link().up);
            }
            assert_eq!(told(&mut scene, &mut before), 0, "{what}: nothing is there");
            guest.descriptor(ring_at(1) + 16 * 200, descriptor).expect("written");
            if let Some(entry) = in_table {
                guest.descriptor(TABLE_AT, entry).expect("written");
            }
            for _ in 0..40 {
                guest.publish(1, 200).expect("written");
            }
            let (n, all) = (told(&mut scene, &mut before), if goes_on { 40 } else { 1 });
            if n != all {
                otherwise.push(format!("{what}, start {start}: {n} told, not {all}"));
            }
            if goes_on {
                guest.send(0, [0; 10], &frame(7, 60)).expect("sent");
                assert_eq!(scene.bad.receive(), [frame(7, 60)], "{what}: what comes behind");
            }
        }
        drop(guest);
        wait("link down", || !scene.bad.device.link().up);
    }
    assert_eq!(otherwise, [""; 0]);
    // Behind good packets of the same burst; and good ones alone are told as what they are.
    let mut guest = running_guest(&scene.bad, &scene.bad_path, BASIC);
    let packets = scene.bad.counters.rx_packets.get();
    for round in 0..50 {
        for _ in 0..3 {
            guest.send(0, [0; 10], &frame(round, 60)).expect("sent");
        }
        guest.offer_at(1, BYTES, 5, 0).expect("written");
        guest.send(0, [0; 10], &frame(round, 90)).expect("sent");
        let got = [scene.bad.receive(), scene.bad.receive()].map(|frames| frames.len());
        assert_eq!(got, [3, 1], "round {round}");
    }
    assert_eq!(told(&mut scene, &mut before), 50);
    assert_eq!(
        scene.bad.counters.rx_packets.get() - packets,
        50,
        "the queue counts what it drops; the rest is the walk's"
    );
    drop(guest);
    assert_eq!((scene.pool.in_use(), scene.bad.counters.rx_drops.all().sum::<u64>()), (0, before), "no other reason");
}

#[test]
fn what_a_driver_may_do_with_chains_works() {
    let mut scene = Scene::new();
    let packet = frame(7, 1200);
    let bytes = [&[0; 12][..], &packet].concat();
    let len = bytes.len() as u64;
    let bytewise: Vec<[u64; 4]> =
        (0..12).map(|i| [BYTES + i, 1, NEXT, i + 1]).chain([[BYTES + 12, len - 12, 0, 0]]).collect();
    let spread: Vec<[u64; 4]> = (0..202).map(|i| [BYTES + 6 * i, 6, if i < 201 { NEXT } else { 0 }, i + 1]).collect();
    let good = [
        Attack("one descriptor", vec![[BYTES, len, 0, 0]], Vec::new()),
        Attack("header and packet apart", vec![[BYTES, 12, NEXT, 9], [0; 4]], Vec::new()),
        Attack("the header in pieces", bytewise.clone(), Vec::new()),
        Attack("pieces of six bytes", spread.clone(), Vec::new()),
        Attack("a table", table(16 * 13), bytewise),
        Attack("a long table", table(16 * 202), spread),
    ];
    let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
    guest.negotiate(BASIC | INDIRECT, REPLY_ACK).expect("negotiates");
    guest.start_bare(0).expect("starts");
    wait("link up", || scene.bad.device.link().up);
    guest.memory.write_all_at(&bytes, BYTES).expect("written");
    guest.descriptor(ring_at(1) + 16 * 9, [BYTES + 12, len - 12, 0, 0]).expect("written");
    for Attack(what, descriptors, in_table) in &good {
        for (at, list) in [(ring_at(1), descriptors), (TABLE_AT, in_table)] {
            for (i, descriptor) in (0..).zip(list).filter(|(_, descriptor)| **descriptor != [0; 4]) {
                guest.descriptor(at + 16 * i, *descriptor).expect("written");
            }
        }
        guest.publish(1, 0).expect("written");
        let got = scene.bad.receive();
        assert!(got == [packet.clone()], "{what}: {} packets, of {:?} bytes", got.len(), got.first().map(Vec::len));
    }
    scene.others_are_fine("good chains");
}

#[test]
fn packets_across_two_regions_of_memory_arrive_whole() {
    let mut scene = Scene::new();
    let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
    guest.negotiate(BASIC, REPLY_ACK).expect("negotiates");
    // Neighbours for the guest; for us two mappings, in the other order, 1 MiB of the file between
    // them.
    let half = MEMORY / 2;
    let hole = half + 0x10_0000;
    let second = [half, MEMORY - hole, USER + half, hole];
    let regions = [[2].as_slice(), &[0, half, USER, 0], &second]
        .concat()
        .iter()
        .flat_map(|word: &u64| word.to_ne_bytes())
        .collect::<Vec<_>>();
    let fds = [guest.memory.try_clone().expect("a descriptor"), guest.memory.try_clone().expect("a descriptor")];
    let fds = fds.each_ref().map(std::os::fd::AsFd::as_fd);
    assert!(guest.set(SET_MEM_TABLE, &regions, &fds).expect("answered"), "two regions");
    guest.start_bare(0).expect("starts");
    wait("link up", || scene.bad.device.link().up);
    let packet = frame(9, 1400);
    let bytes = [&[0; 12][..], &packet].concat();
    for before in [1_usize, 11, 12, 13, 700, bytes.len() - 1] {
        let (first, rest) = bytes.split_at(before);
        guest.memory.write_all_at(first, half - before as u64).expect("written");
        guest.memory.write_all_at(rest, hole).expect("written");
        guest.offer_at(1, half - before as u64, bytes.len() as u64, 0).expect("written");
        let got = scene.bad.receive();
        assert!(got == [packet.clone()], "{before} bytes in the first region: {} packets came", got.len());
        // And to the guest.
        guest.offer_at(0, half - before as u64, 2048, WRITE).expect("written");
        scene.bad.send(0, std::slice::from_ref(&packet), &scene.pool);
        let (mut first, mut rest) = (vec![0; before], vec![0; bytes.len() - before]);
        guest.memory.read_exact_at(&mut first, half - before as u64).expect("readable");
        guest.memory.read_exact_at(&mut rest, hole).expect("readable");
        let written = [first, rest].concat();
        assert!(written[12..] == packet, "{before} bytes of the buffer in the first region");
    }
    scene.others_are_fine("two regions");
}

#[test]
fn packed_rings_with_nonsense_cost_their_owner_only() {
    let mut scene = Scene::offering(|config| VhostConfig { packed: true, ..config });
    let seed = seed();
    let end = Instant::now() + Duration::from_secs(3);
    let (mut guests, mut received) = (0, 0);
    while Instant::now() < end {
        let mut guest = Frontend::connect(&scene.bad_path).expect("connects");
        let order = if guests % 2 == 0 { IN_ORDER } else { 0 };
        guest.negotiate(BASIC | PACKED | INDIRECT | order, REPLY_ACK).expect("negotiates");
        guest.start_bare(0).expect("starts");
        wait("link up", || scene.bad.device.link().up);
        guests += 1;
        let (guest, stop) = (&guest, &AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut random = Random(seed.wrapping_add(guests) | 1);
                while !stop.load(Relaxed) {
                    let at = ring_at(u32::try_from(random.below(2)).expect("a ring")) + 16 * random.below(RING.into());
                    // Available as the ring begins more often than not; else flags, wrap counters
                    // and all, as they come.
                    let flags = if random.below(3) > 0 { 0x8000 | random.below(8) } else { random.next() & 0xffff };
                    let word = random.below(2000) | random.below(300) << 32 | flags << 48;
                    let bytes = [random.below(MEMORY + 0x1000), word].map(u64::to_ne_bytes).concat();
                    guest.memory.write_all_at(&bytes, at).expect("written");
                }
            });
            for _ in 0..3000 {
                for got in scene.bad.receive() {
                    received += 1;
                    assert!(got.len() <= 1522, "seed {seed}: {} bytes", got.len());
                }
                scene.bad.send(0, &[frame(1, 1000), frame(2, 60)], &scene.pool);
            }
            stop.store(true, Relaxed);
        });
        both_ways(&mut scene.good, &mut scene.good_guest, &scene.pool, 1);
        guest.socket.shutdown(std::net::Shutdown::Both).expect("open");
        wait("link down", || !scene.bad.device.link().up);
        assert_eq!(scene.pool.in_use(), 0, "seed {seed}");
    }
    assert!(received > 0, "seed {seed}: nothing was read from the rings of {guests} guests");
    scene.others_are_fine("packed rings");
    scene.bad_recovers();
}
