//! What attackers send.

use super::fragments::{Bench, Fate, cut_at, fragment};
use super::*;
use crate::limits::{FRAGMENT_MBUFS_PER_PORT_MAX, FRAGMENTED_MAX, FRAGMENTED_PER_PORT_MAX, FRAGMENTS_GIVEN_UP_MAX};
use crate::observe::DropReason::{self, FragFull, FragInvalid, FragOverlap, FragTimeout};
use crate::port::PortId;
use crate::time::Millis;
use std::thread;

/// Hosts that ping with the same identifier from behind one address have one each there, and get
/// their own answers.
#[test]
fn a_thousand_hosts_ping_with_the_same_identifier_behind_one_address() {
    let router = 0x6401_0101;
    for host in 1..=1000_u16 {
        let inside = CLIENT + u128::from(host);
        let ping = v4_between(inside, SERVER, 1, &icmp(8, 0));
        let src = Some(End { addr: router, port: 30_000 + host });
        let outside = rewritten(&ping, Csum::Unknown, Rewrite { src, ..Rewrite::default() });
        assert_eq!(outside, v4_between(router, SERVER, 1, &with(icmp(8, 0), 4, &(30_000 + host).to_be_bytes())));
        let pong = v4_between(SERVER, router, 1, &with(icmp(0, 0), 4, &(30_000 + host).to_be_bytes()));
        let src = Some(End { addr: SERVER, port: 7 });
        let dst = Some(End { addr: inside, port: 0 });
        let back = rewritten(&pong, Csum::Unknown, Rewrite { src, dst, ..Rewrite::default() });
        assert_eq!(back, v4_between(SERVER, inside, 1, &icmp(0, 0)), "host {host}");
    }
}

/// (name, fragments as offset, length and more, what becomes of each)
type Case = (&'static str, &'static [(usize, usize, bool)], &'static [Option<DropReason>]);

#[test]
fn fragments_that_no_datagram_has_are_dropped_by_name() {
    let cases: [Case; 13] = [
        ("overlap by an octet", &[(0, 16, true), (8, 16, true), (16, 9, false)], &[None, Some(FragOverlap), None]),
        ("overlap from before", &[(16, 16, true), (0, 24, true)], &[None, Some(FragOverlap)]),
        ("teardrop: inside another one", &[(0, 40, true), (16, 8, true)], &[None, Some(FragOverlap)]),
        ("around another one", &[(16, 8, true), (8, 24, true)], &[None, Some(FragOverlap)]),
        ("twice", &[(0, 16, true), (0, 16, true)], &[None, Some(FragOverlap)]),
        ("twice, another length", &[(0, 16, true), (0, 24, true)], &[None, Some(FragOverlap)]),
        ("beyond 65,535", &[(65_528, 8, false)], &[Some(FragInvalid)]),
        ("far beyond", &[(65_528, 1400, true)], &[Some(FragInvalid)]),
        ("nothing", &[(8, 0, false)], &[Some(FragInvalid)]),
        ("no multiple of 8", &[(0, 15, true)], &[Some(FragInvalid)]),
        ("beyond the last one", &[(16, 8, false), (24, 8, true)], &[None, Some(FragInvalid)]),
        ("a second last one", &[(16, 8, false), (8, 8, false)], &[None, Some(FragInvalid)]),
        ("a last one too early", &[(24, 8, true), (8, 8, false)], &[None, Some(FragInvalid)]),
    ];
    for (name, pieces, reasons) in cases {
        for whole in [v4(17, &udp(&[7; 64])), v6(17, &udp(&[7; 64]))] {
            let bench = Bench::new();
            let mut spoilt = false;
            for ((offset, len, more), reason) in pieces.iter().zip(reasons) {
                // IPv6: a datagram with an overlap is lost, what comes of it later too.
                let reason = if spoilt { Some(FragOverlap) } else { *reason };
                let fate = bench.send(&fragment(&whole, *offset, &vec![7; *len], *more));
                let complete = matches!(&fate, Fate::Complete(..)) && reason.is_none();
                let expected = reason.map_or(Fate::Held, Fate::Dropped);
                assert!(complete || fate == expected, "{name}, {offset}+{len} of {whole:02x?}: {fate:?}");
                spoilt |= whole[12] != 8 && reason == Some(FragOverlap) && name != "twice";
            }
        }
    }
}

#[test]
fn an_overlap_costs_one_fragment_of_ipv4_and_the_datagram_of_ipv6() {
    for whole in [v4(17, &udp(&[7; 64])), v6(17, &udp(&[7; 64]))] {
        let bench = Bench::new();
        let pieces = cut_at(&whole, &[16, 32]);
        assert_eq!(bench.send(&pieces[0]), Fate::Held);
        assert_eq!(bench.send(&pieces[0]), Fate::Dropped(FragOverlap), "twice");
        assert_eq!(bench.send(&pieces[2]), Fate::Held);
        assert_eq!(bench.send(&fragment(&whole, 8, &[9; 16], true)), Fate::Dropped(FragOverlap));
        let mut given_up = Vec::new();
        if whole[12] == 8 {
            assert!(matches!(bench.send(&pieces[1]), Fate::Complete(after, ..) if after == pieces));
            bench.conntrack.maintain(Millis(0), |_, _, reason| given_up.push(reason));
            assert_eq!(given_up, []);
        } else {
            assert_eq!(bench.send(&pieces[1]), Fate::Dropped(FragOverlap));
            bench.conntrack.maintain(Millis(0), |_, _, reason| given_up.push(reason));
            assert_eq!(given_up, [FragOverlap; 2]);
            assert_eq!(bench.conntrack.waiting(), (1, 0), "remembered");
            bench.conntrack.maintain(Millis(15_000), |_, _, reason| panic!("{reason:?}"));
            assert_eq!(bench.conntrack.waiting(), (0, 0));
        }
    }
}

#[test]
fn odd_but_right_datagrams_pass() {
    for (name, whole, cuts) in [
        ("a last fragment of one octet", v4(17, &udp(&[7; 65])), &[72][..]),
        ("a first one shorter than its header", v4(6, &tcp(16, &[1; 20], b"x")), &[8]),
        ("the longest", v4(17, &udp(&vec![7; 65_507])), &[8, 32_000]),
    ] {
        let bench = Bench::new();
        let pieces = cut_at(&whole, cuts);
        for piece in pieces[1..].iter().rev() {
            assert_eq!(bench.send(piece), Fate::Held, "{name}");
        }
        let fate = bench.send(&pieces[0]);
        assert!(
            matches!(&fate, Fate::Complete(after, state, ..) if *after == pieces && state & state::NEW != 0),
            "{name}"
        );
    }
    let bench = Bench::new();
    let atomic = v6(44, &[&[17, 0, 0, 0, 0, 0, 0, 9][..], &udp(b"abc")].concat());
    assert_eq!((bench.send(&atomic), bench.conntrack.waiting()), (Fate::Tracked, (0, 0)), "an atomic fragment");
}

/// Incomplete datagrams of one port by the million, and others' that are complete, on other ports
/// and on the same.
#[test]
fn a_million_incomplete_datagrams_cost_their_own_port() {
    const FLOOD: u32 = 1_000_000;
    const PERIOD: u32 = 100;
    let mut bench = Bench::new();
    let whole = v4(17, &udp(&[7; 64]));
    let pieces = cut_at(&whole, &[16, 32]);
    let (mut held, mut gone, mut complete, mut begun) = (0_u32, 0_u32, [0_u32; 2], 0_u32);
    let mut random = 1_u32;
    let junk = cut_at(&v4_between(0x0101_0101, SERVER, 17, &udp(&[7; 64])), &[16]).remove(0);
    for i in 0..FLOOD {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bench.place = CtPlace { port: PortId(1), now: Millis(u64::from(i / 1000)), ..place() };
        // Ids are 16 bits: sources vary too. The source is in the checksum, which is to stay right.
        let [a, b, c, d] = random.to_be_bytes();
        let mut frame = junk.clone();
        frame[18..20].copy_from_slice(&[a, b]);
        frame[26..28].copy_from_slice(&[c, d]);
        let frame = fragment(&frame, 0, &junk[34..], true);
        match bench.send(&frame) {
            Fate::Held => held += 1,
            Fate::Dropped(FragOverlap) => {}
            other => panic!("{other:?}"),
        }
        // A piece of a good datagram on another port, and on this one.
        if i % PERIOD < 3 {
            let id = u16::try_from(i / PERIOD % 60_000).expect("16 bits").to_be_bytes();
            let mut piece = pieces[(i % PERIOD) as usize].clone();
            piece[18..20].copy_from_slice(&id);
            let offset = [0, 16, 32][(i % PERIOD) as usize];
            let piece = fragment(&piece, offset, &piece[34..], i % PERIOD < 2);
            begun += u32::from(i % PERIOD == 0);
            for (port, complete) in [2, 1].into_iter().zip(&mut complete) {
                bench.place.port = PortId(port);
                *complete += u32::from(matches!(bench.send(&piece), Fate::Complete(..)));
            }
        }
        if i % 1000 == 0 {
            bench.conntrack.maintain(bench.place.now, |port, _, reason| {
                assert_eq!((port, reason), (PortId(1), FragFull));
                gone += 1;
            });
            let (datagrams, mbufs) = bench.conntrack.waiting();
            assert!(
                datagrams <= FRAGMENTED_PER_PORT_MAX + 1 && mbufs <= FRAGMENT_MBUFS_PER_PORT_MAX,
                "{datagrams}, {mbufs}"
            );
        }
    }
    assert_eq!(complete[0], begun, "of another port");
    assert!(complete[1] > begun * 95 / 100, "{} of {begun} of the same port", complete[1]);
    bench.conntrack.maintain(Millis(100_000), |_, _, reason| {
        assert!(matches!(reason, FragFull | FragTimeout), "{reason:?}");
        gone += 1;
    });
    while bench.conntrack.waiting().0 > 0 {
        bench.conntrack.maintain(Millis(100_000), |_, _, _| gone += 1);
    }
    assert_eq!(gone, held, "every one is counted");
}

#[test]
fn a_full_table_takes_from_the_port_that_has_most_and_refuses_while_nobody_tends() {
    let mut bench = Bench::new();
    let junk = cut_at(&v4(17, &udp(&[7; 64])), &[16]).remove(0);
    let mut send = |port: u16, id: u16| {
        bench.place.port = PortId(port);
        bench.send(&fragment(&with(junk.clone(), 18, &id.to_be_bytes()), 0, &junk[34..], true))
    };
    for port in 0..4 {
        for id in 0..u16::try_from(FRAGMENTED_PER_PORT_MAX).expect("16 bits") - u16::from(port > 0) {
            assert_eq!(send(port, id), Fate::Held);
        }
    }
    for id in 0..3 {
        assert_eq!(send(9, id), Fate::Held, "room for three");
    }
    assert_eq!(send(9, 3), Fate::Held, "the first port gives up one");
    let mut fate = Fate::Held;
    for id in 4..u16::MAX {
        fate = send(5, id);
        if fate != Fate::Held {
            break;
        }
    }
    assert_eq!(fate, Fate::Dropped(FragFull));
    let mut given_up = Vec::new();
    bench.conntrack.maintain(Millis(0), |port, _, reason| given_up.push((port, reason)));
    assert_eq!((given_up.len(), given_up[0]), (FRAGMENTS_GIVEN_UP_MAX, (PortId(0), FragFull)));
    assert_eq!(bench.conntrack.waiting(), (FRAGMENTED_MAX, FRAGMENTED_MAX));
}

/// The same id everywhere: by port on workers of their own, all fragments interleaved.
#[test]
fn fragments_with_the_same_id_on_many_workers_are_never_joined() {
    let conntrack = conntrack();
    thread::scope(|scope| {
        for worker in 0..4_u16 {
            let conntrack = &conntrack;
            scope.spawn(move || {
                let payload = vec![worker.to_be_bytes()[1]; 4000];
                let pieces = cut_at(&v4(17, &udp(&payload)), &[800, 1600, 2400, 3200]);
                let place = CtPlace { worker: worker.into(), port: PortId(worker), ..place() };
                for round in 0..500 {
                    for (i, piece) in pieces.iter().enumerate() {
                        let packet = packet(pool().mbuf_from(piece).expect("mbuf"));
                        match conntrack.pass(packet, 7, place, |_| accepted(Rewrite::default())) {
                            Outcome::Held => assert!(i < 4, "worker {worker}, round {round}"),
                            Outcome::Complete(all) => {
                                let all: Vec<_> = all.packets.iter().map(|packet| packet.mbuf.to_vec()).collect();
                                assert!(i == 4 && all == pieces, "worker {worker}, round {round}");
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(conntrack.waiting(), (0, 0));
}
