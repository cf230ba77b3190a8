//! Long packets that are borrowed from guests: which ones, that they arrive as they were, and that
//! lies and changes on the way cost their owner only.

use super::features::{tcp4, vnet};
use super::frontend::*;
use super::hostile::Scene;
use super::sabotage::{Random, seed};
use super::*;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;
use vswitch_dpdk::{Csum, Mbuf};

const LENDS: u64 = BASIC | INDIRECT | CSUM | HOST_TSO4 | GUEST_CSUM | GUEST_TSO4;

/// Where a table of descriptors is, and where the bytes of packets are.
const TABLE_AT: u64 = 0x30_0000;
const BYTES: u64 = 0x50_0000;

/// Bytes of the first piece of a packet of two.
const FIRST: usize = 1000;

/// Descriptors of pieces of these lengths, one behind the other from [`BYTES`] on; `flags` have all
/// of them.
fn pieces(lengths: &[usize], flags: u64) -> Vec<[u64; 4]> {
    let mut at = BYTES;
    let last = lengths.len() - 1;
    let piece = |(i, len): (usize, &usize)| {
        let (start, len) = (at, *len as u64);
        at += len;
        [start, len, if i < last { NEXT | flags } else { flags }, i as u64 + 1]
    };
    lengths.iter().enumerate().map(piece).collect()
}

/// Makes a packet (with its header) available as a chain in the ring, or in a table.
fn publish(guest: &mut Frontend, bytes: &[u8], chain: &[[u64; 4]], in_table: bool) -> io::Result<()> {
    guest.memory.write_all_at(bytes, BYTES)?;
    let at = if in_table { TABLE_AT } else { ring_at(1) };
    for (i, descriptor) in (0..).zip(chain) {
        guest.descriptor(at + 16 * i, *descriptor)?;
    }
    if in_table {
        guest.descriptor(ring_at(1), [TABLE_AT, 16 * chain.len() as u64, TABLE, 0])?;
    }
    guest.publish(1, 0)
}

fn long(payload: usize) -> Vec<u8> {
    [&vnet(1, 1, 1448, 34, 16)[..], &[0, 0], &tcp4(payload)].concat()
}

/// Lengths that add up to `len`: these, then equal ones, `n` in all.
fn cut(len: usize, first: &[usize], n: usize) -> Vec<usize> {
    let (left, more) = (len - first.iter().sum::<usize>(), n - first.len());
    let equal = left / more;
    first.iter().copied().chain((1..more).map(|_| equal)).chain([left - equal * (more - 1)]).collect()
}

/// A packet with its header, the lengths of its pieces, their flags, and whether it is borrowed.
type Case<'a> = (&'static str, &'a [u8], Vec<usize>, u64, bool);

#[test]
fn long_packets_are_lent_in_all_shapes_and_others_copied() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(1024));
    let (mut port, path) = serve(&dir, "s", &pool);
    let mut guest = running_guest(&port, &path, LENDS);
    let bytes = long(40_000);
    let len = bytes.len();
    let (short, udp, whole) = (long(1900), [&vnet(1, 3, 1448, 34, 6)[..], &[0, 0], &tcp4(9000)].concat(), long(65_495));
    let no_sum = [&vnet(0, 1, 1448, 34, 16)[..], &[0, 0], &tcp4(9000)].concat();
    let bytewise: Vec<usize> = [1; 20].into_iter().chain([len - 20]).collect();
    let cases: [Case<'_>; 14] = [
        ("one descriptor", &bytes, vec![len], 0, true),
        ("header apart", &bytes, vec![12, len - 12], 0, true),
        ("headers apart", &bytes, vec![12, 54, len - 66], 0, true),
        ("as Linux does", &bytes, vec![12 + 66, 32_768, len - 78 - 32_768], 0, true),
        ("19 pieces", &bytes, cut(len, &[12], 19), 0, true),
        ("32 pieces", &bytes, cut(len, &[12], 32), 0, true),
        (
            "headers in pieces of a byte",
            &bytes,
            [vec![12], bytewise.iter().map(|n| n.min(&(len - 32)).to_owned()).collect()].concat(),
            0,
            true,
        ),
        ("the longest", &whole, vec![12, whole.len() - 12], 0, true),
        ("33 pieces", &bytes, cut(len, &[12], 33), 0, false),
        ("the virtio-net header in two pieces", &bytes, vec![6, len - 6], 0, false),
        ("to be written to", &bytes, vec![12, len - 12], WRITE, false),
        ("what one mbuf holds", &short, vec![short.len()], 0, false),
        ("UFO", &udp, vec![udp.len()], 0, false),
        ("no sum to be finished", &no_sum, vec![no_sum.len()], 0, false),
    ];
    for (what, bytes, lengths, flags, expected) in &cases {
        for in_table in [false, true] {
            let what = format!("{what}{}", if in_table { ", in a table" } else { "" });
            publish(&mut guest, bytes, &pieces(lengths, *flags), in_table).expect("written");
            let before = guest.used(1).expect("readable");
            let (mut borrowed, mut burst) = (Vec::new(), Burst::new());
            let packet = |mbuf: Mbuf| (mbuf.is_borrowed(), mbuf.csum(), mbuf.gso_size(), mbuf.to_vec());
            port.rx[0].receive(&mut burst, &port.counters, &mut |burst| {
                assert_eq!(guest.used(1).expect("readable"), before, "{what}: given back while it is borrowed");
                borrowed.extend(burst.drain().map(packet));
            });
            let copied: Vec<_> = burst.drain().map(packet).collect();
            assert_eq!(guest.used(1).expect("readable"), before.wrapping_add(1), "{what}: not given back");
            assert_eq!(borrowed.len(), usize::from(*expected), "{what}: packets borrowed");
            assert_eq!(borrowed.len() + copied.len(), usize::from(!what.starts_with("UFO")), "{what}: packets");
            for (borrowed, csum, gso_size, got) in borrowed.iter().chain(&copied) {
                assert_eq!((*borrowed, *csum, *gso_size), (*expected, Csum::Partial, 1448), "{what}");
                assert!(got[..] == bytes[12..], "{what}: other bytes");
            }
            assert_eq!(pool.in_use(), 0, "{what}");
        }
    }
    // More than a burst's worth: a burst, and the rest with the next. What is one segment anyway
    // goes the same way, as a copy.
    port.device.set_mtu(9000).expect("never fails");
    let one_segment = [&vnet(1, 1, 4000, 34, 16)[..], &[0, 0], &tcp4(3000)].concat();
    guest.memory.write_all_at(&long(2000), BYTES).expect("written");
    guest.memory.write_all_at(&one_segment, BYTES + 0x1000).expect("written");
    for _ in 0..40 {
        guest.offer_at(1, BYTES, long(2000).len() as u64, 0).expect("written");
    }
    guest.offer_at(1, BYTES + 0x1000, one_segment.len() as u64, 0).expect("written");
    let mut bursts = Vec::new();
    for _ in 0..4 {
        port.rx[0].receive(&mut Burst::new(), &port.counters, &mut |burst| {
            bursts.push((burst.len(), burst.drain().filter(Mbuf::is_borrowed).count()));
        });
    }
    assert_eq!(bursts, [(31, 31), (10, 9)], "bursts of packets, and how many of them are borrowed");
    assert_eq!(pool.in_use(), 0);
    // Where the guest does not take what it sends, or rings are packed, nothing is borrowed.
    drop(guest);
    wait("link down", || !port.device.link().up);
    let mut guest = running_guest(&port, &path, LENDS & !GUEST_TSO4);
    publish(&mut guest, &bytes, &pieces(&[len], 0), false).expect("written");
    let mut burst = Burst::new();
    port.rx[0].receive(&mut burst, &port.counters, &mut |_| panic!("borrowed by a guest that takes no long packets"));
    assert_eq!(burst.drain().map(|mbuf| mbuf.to_vec()).collect::<Vec<_>>(), [&bytes[12..]]);
}

/// The next packet that arrived, of as many buffers as it says.
fn receive_merged(guest: &mut Frontend) -> Option<Vec<u8>> {
    let (header, mut bytes) = guest.receive(0).expect("readable")?;
    for _ in 1..u16::from_le_bytes([header[10], header[11]]) {
        let (first, rest) = guest.receive(0).expect("readable").expect("as many buffers as it says");
        bytes.extend(first);
        bytes.extend(rest);
    }
    Some(bytes)
}

#[test]
fn what_is_borrowed_reaches_another_guest_with_one_copy_and_mixes_with_what_is_not() {
    let _alone = alone();
    let (dir, pool) = (dir(), Mempool::for_tests(2048));
    let ((mut from, from_path), (mut to, to_path)) = (serve(&dir, "from", &pool), serve(&dir, "to", &pool));
    let (mut sender, mut receiver) = (running_guest(&from, &from_path, LENDS), running_guest(&to, &to_path, LENDS));
    let bytes = long(30_000);
    sender.memory.write_all_at(&bytes, BYTES).expect("written");
    for round in 0..300_u16 {
        // Three of the same long one, and short ones between them: all arrive, in order.
        let expected: Vec<Vec<u8>> = (0..6)
            .map(|i| {
                let number = u32::from(round * 6 + i);
                if i % 2 == 0 {
                    sender.offer_at(1, BYTES, bytes.len() as u64, 0).expect("written");
                    bytes[12..].to_vec()
                } else {
                    sender.send(0, [0; 10], &frame(number, 500)).expect("sent");
                    frame(number, 500)
                }
            })
            .collect();
        let (mut burst, mut borrowed) = (Burst::new(), 0);
        for _ in 0..expected.len() {
            let Port { rx, counters, .. } = &mut from;
            rx[0].receive(&mut burst, counters, &mut |burst| {
                borrowed += burst.len();
                assert_eq!(pool.in_use(), 2 * burst.len(), "mbufs: a head and a piece for each");
                to.tx[0].send(burst, &to.counters);
            });
            to.tx[0].send(&mut burst, &to.counters);
        }
        assert!(borrowed > 0, "round {round}: nothing was borrowed");
        for (i, expected) in expected.iter().enumerate() {
            let mut got =
                receive_merged(&mut receiver).unwrap_or_else(|| panic!("round {round}: packet {i} is missing"));
            if got.len() == expected.len() && i % 2 == 0 {
                got[50..52].copy_from_slice(&expected[50..52]); // the library's pseudo-header sum
            }
            assert!(got == *expected, "round {round}: packet {i}, {} bytes, is another one", got.len());
        }
        assert_eq!(receive_merged(&mut receiver), None, "round {round}");
        assert_eq!(pool.in_use(), 0, "round {round}");
    }
}

/// A fault of ours: a packet that refers to a guest's memory is kept. Nothing that it reads goes,
/// the guest goes, and others do not notice.
#[test]
fn a_packet_that_is_missing_puts_its_port_into_quarantine() {
    let mut scene = Scene::new();
    let mut guest = running_guest(&scene.bad, &scene.bad_path, LENDS);
    let bytes = long(50_000);
    publish(&mut guest, &bytes, &pieces(&[bytes.len()], 0), false).expect("written");
    let mut kept = None;
    let receive = |port: &mut Port, kept: &mut Option<Mbuf>| {
        let Port { rx, counters, gate, .. } = port;
        let _inside = gate.lock();
        rx[0].receive(&mut Burst::new(), counters, &mut |burst| *kept = burst.drain().next());
    };
    receive(&mut scene.bad, &mut kept);
    let kept = kept.expect("a packet");
    assert!(kept.is_borrowed());
    let rings = &scene.bad.device.rings;
    assert_eq!((rings.receive_pairs(), rings.send_pairs()), (0, 0), "no more is borrowed");
    wait("the guest is cut off", || {
        vswitch_dpdk::vhost::maintain();
        !scene.bad.device.link().up
    });
    drop(guest);
    assert!(kept.to_vec() == bytes[12..], "the memory is there");
    scene.others_are_fine("a port in quarantine");
    // Nobody takes its place, and another port of that name is as new.
    let late = Frontend::connect(&scene.bad_path).and_then(|mut guest| guest.negotiate(LENDS, REPLY_ACK));
    assert!(late.is_err() && !scene.bad.device.link().up, "a guest came");
    assert!(kept.to_vec() == bytes[12..], "the memory is there still");
    drop(kept);
    assert_eq!(scene.pool.in_use(), 0);
}

#[test]
fn memory_that_is_exchanged_is_waited_for() {
    let mut scene = Scene::new();
    let mut guest = running_guest(&scene.bad, &scene.bad_path, LENDS);
    let bytes = long(50_000);
    guest.memory.write_all_at(&bytes, BYTES).expect("written");
    let stop = AtomicBool::new(false);
    let (mut borrowed, end) = (0, Instant::now() + Duration::from_secs(2));
    std::thread::scope(|scope| {
        let exchanged = scope.spawn(|| {
            let mut exchanged = 0_u32;
            while !stop.load(Relaxed) {
                guest.offer_at(1, BYTES, bytes.len() as u64, 0).expect("written");
                // Long enough for a worker to take it.
                std::thread::sleep(Duration::from_micros(1500));
                guest.mem_table(MEMORY - u64::from(exchanged % 2) * 0x1000).expect("accepted");
                exchanged += 1;
            }
            exchanged
        });
        while Instant::now() < end {
            let Port { rx, counters, gate, .. } = &mut scene.bad;
            let _inside = gate.lock();
            let mut burst = Burst::new();
            rx[0].receive(&mut burst, counters, &mut |burst| {
                for mbuf in burst.drain() {
                    for look in 0..3 {
                        assert!(mbuf.to_vec() == bytes[12..], "look {look} at what is borrowed: other bytes");
                        std::thread::sleep(Duration::from_micros(300));
                    }
                    borrowed += 1;
                }
            });
        }
        stop.store(true, Relaxed);
        let exchanged = exchanged.join().expect("the guest speaks on");
        assert!(borrowed > 20 && exchanged > 20, "{borrowed} packets borrowed, memory exchanged {exchanged} times");
    });
    scene.others_are_fine("exchanging memory");
    drop(guest);
    scene.bad_recovers();
    wait("link down", || !scene.bad.device.link().up);
    assert_eq!(scene.pool.in_use(), 0);
}

#[test]
fn rings_and_bytes_that_change_while_they_are_lent_cost_their_owner_only() {
    let mut scene = Scene::new();
    let seed = seed();
    let (guest, stop) = (running_guest(&scene.bad, &scene.bad_path, LENDS), AtomicBool::new(false));
    // Headers of long packets everywhere in the memory that descriptors point to: of one piece, and
    // in every other page of a short and a long piece.
    let (one, two) = (long(50_000), long(50_000 + FIRST));
    for page in (BYTES..MEMORY).step_by(0x2000) {
        guest.memory.write_all_at(&one[..0x1000], page).expect("written");
        guest.memory.write_all_at(&two[..0x1000], page + 0x1000).expect("written");
    }
    let len = one.len() as u64;
    let (mut borrowed, mut received, end) = (0_u64, 0_u64, Instant::now() + Duration::from_secs(3));
    std::thread::scope(|scope| {
        let (guest, stop) = (&guest, &stop);
        scope.spawn(move || {
            let mut random = Random(seed);
            while !stop.load(Relaxed) {
                let (slot, what) = (random.below(u64::from(RING)), random.below(16));
                let page = (BYTES + random.below(MEMORY + 0x4000 - BYTES)) & !0x1fff;
                let next = random.below(260);
                let (ring, table) = (ring_at(1) + slot * 16, TABLE_AT + random.below(40) * 16);
                let (whole, short) = ([page, len, 0, 0], [page + 0x1000, FIRST as u64, NEXT, next]);
                let written = match what {
                    // Mostly good ones: of one piece, of more, tables.
                    0..=3 => guest.descriptor(ring, whole),
                    4..=5 => guest.descriptor(ring, short),
                    6 => guest.descriptor(ring, [TABLE_AT, 16 * random.below(40), TABLE, 0]),
                    7..=8 => guest.descriptor(table, whole),
                    9 => guest.descriptor(table, [page + 0x1000, FIRST as u64, NEXT, random.below(42)]),
                    10 => guest.descriptor(ring, [page, random.below(80_000), random.below(8), next]),
                    11 => guest.descriptor(ring, [page, len / 8, NEXT, next]),
                    12 => guest.descriptor(table, [random.next(), random.next(), random.below(8), next]),
                    13 => {
                        let head = u16::try_from(random.below(258)).expect("small").to_ne_bytes();
                        guest.memory.write_all_at(&head, ring_at(1) + 0x1004 + 2 * slot)
                    }
                    14 => {
                        let at = page.min(MEMORY - 0x2000) + 0x1000 * random.below(2) + random.below(80);
                        guest.memory.write_all_at(&random.next().to_ne_bytes()[..1], at)
                    }
                    _ => guest.memory.write_all_at(&random.next().to_ne_bytes()[..2], ring_at(1) + 0x1002),
                };
                written.expect("written");
            }
        });
        while Instant::now() < end {
            let Port { rx, counters, gate, .. } = &mut scene.bad;
            let _inside = gate.lock();
            let mut burst = Burst::new();
            rx[0].receive(&mut burst, counters, &mut |burst| {
                for mbuf in burst.iter() {
                    assert!(mbuf.is_borrowed() && mbuf.len() <= crate::limits::FRAME_MAX, "seed {seed}: {mbuf:?}");
                    assert_eq!(mbuf.to_vec().len(), mbuf.len(), "seed {seed}");
                }
                borrowed += burst.len() as u64;
                scene.good.tx[0].send(burst, &scene.good.counters);
            });
            received += burst.len() as u64;
            drop(burst);
            while scene.good_guest.receive(0).expect("readable").is_some() {}
        }
        stop.store(true, Relaxed);
    });
    assert!(borrowed > 0 && received > 0, "seed {seed}: {borrowed} packets borrowed, {received} copied");
    scene.others_are_fine("changing what is borrowed");
    drop(guest);
    scene.bad_recovers();
    wait("link down", || !scene.bad.device.link().up);
    assert_eq!(scene.pool.in_use(), 0, "seed {seed}");
}
