//! Fragments: held, joined, judged as one, rewritten, given up.

use super::*;
use crate::conntrack::fuzz::{error, oracle::naive_sum};
use crate::limits::{FRAGMENT_TIMEOUT_MS, FRAGMENTS_PER_DATAGRAM_MAX};
use crate::observe::DropReason;
use crate::port::PortId;
use crate::time::Millis;
use proptest::prelude::*;
use vswitch_conntrack::Refusal;

/// Cuts a frame behind so many bytes of its IP payload, each a multiple of 8.
pub(super) fn cut_at(frame: &[u8], at: &[usize]) -> Vec<Vec<u8>> {
    let body = &frame[if frame[12] == 8 { 34 } else { 54 }..];
    let bounds: Vec<usize> = [&[0], at, &[body.len()]].concat();
    bounds.windows(2).map(|part| fragment(frame, part[0], &body[part[0]..part[1]], part[1] < body.len())).collect()
}

/// A fragment of the packet in a frame, with any payload.
pub(super) fn fragment(frame: &[u8], offset: usize, payload: &[u8], more: bool) -> Vec<u8> {
    let field = u16::try_from(offset & 0xfff8).expect("a multiple of 8");
    if frame[12] == 8 {
        let mut piece = [&frame[..34], payload].concat();
        let len = u16::try_from(20 + payload.len()).expect("short");
        piece[16..18].copy_from_slice(&len.to_be_bytes());
        piece[20..22].copy_from_slice(&(field >> 3 | u16::from(more) << 13).to_be_bytes());
        piece[24..26].fill(0);
        let sum = !naive_sum(&piece[14..34]);
        piece[24..26].copy_from_slice(&sum.to_be_bytes());
        return piece;
    }
    let [high, low] = (field | u16::from(more)).to_be_bytes();
    let mut piece = [&frame[..54], &[frame[20], 0, high, low, 0, 0, 0, 9], payload].concat();
    piece[20] = 44;
    piece[18..20].copy_from_slice(&u16::try_from(8 + payload.len()).expect("short").to_be_bytes());
    piece
}

/// The packet that fragments were of.
fn joined(pieces: &[Vec<u8>]) -> Vec<u8> {
    let v4 = pieces[0][12] == 8;
    let mut frame = pieces[0][..if v4 { 34 } else { 54 }].to_vec();
    for piece in pieces {
        frame.extend_from_slice(&piece[if v4 { 34 } else { 62 }..]);
    }
    let body = u16::try_from(frame.len() - if v4 { 14 } else { 54 }).expect("short").to_be_bytes();
    if v4 {
        frame[16..18].copy_from_slice(&body);
        frame[20..22].fill(0);
        frame[24..26].fill(0);
        let sum = !naive_sum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[18..20].copy_from_slice(&body);
        frame[20] = pieces[0][54];
    }
    frame
}

#[derive(Debug, PartialEq)]
pub(super) enum Fate {
    Held,
    Tracked,
    Dropped(DropReason),
    Complete(Vec<Vec<u8>>, u32, (u16, u16), u16),
}

pub(super) struct Bench {
    pub(super) conntrack: Conntrack,
    pub(super) place: CtPlace,
    pub(super) zone: u16,
    pub(super) verdict: TrackVerdict,
}

impl Bench {
    pub(super) fn new() -> Self {
        let verdict = accepted(Rewrite::default());
        Self { conntrack: conntrack(), place: place(), zone: 7, verdict }
    }

    pub(super) fn send(&self, frame: &[u8]) -> Fate {
        let packet = packet(pool().mbuf_from(frame).expect("mbuf"));
        match self.conntrack.pass(packet, self.zone, self.place, |_| self.verdict) {
            Outcome::Held => Fate::Held,
            Outcome::Tracked(..) => Fate::Tracked,
            Outcome::Drop(_, reason) => Fate::Dropped(reason),
            Outcome::Complete(all) => {
                let frames = all.packets.iter().map(|packet| packet.mbuf.to_vec()).collect();
                Fate::Complete(frames, all.verdict.state, all.first.ports, all.first.tcp_flags)
            }
        }
    }

    fn maintain(&self, now: u64) -> Vec<DropReason> {
        let mut reasons = Vec::new();
        self.conntrack.maintain(Millis(now), |_, _, reason| reasons.push(reason));
        reasons
    }
}

const NEW: u32 = state::NEW | state::TRK;
const INVALID: u32 = state::INV | state::TRK;

/// Name, frame, ports and TCP flags.
type Case = (&'static str, Vec<u8>, (u16, u16), u16);

fn datagrams() -> Vec<Case> {
    let long = [7; 120];
    let router = error(Family::V4, 11, &v4(17, &udp(&long))[14..]);
    vec![
        ("UDP", v4(17, &udp(&long)), (4660, 53), 0),
        ("TCP", v4(6, &tcp(0x18, &[1; 8], &long)), (4660, 80), 0x18),
        ("SCTP", v4(132, &[sctp(), long.to_vec()].concat()), (4660, 2905), 0),
        ("echo", v4(1, &[icmp(8, 0), long.to_vec()].concat()), (8, 0), 0),
        ("an error", router, (11, 0), 0),
        ("GRE", v4(47, &long), (0, 0), 0),
        ("UDP over IPv6", v6(17, &udp(&long)), (4660, 53), 0),
        ("TCP over IPv6", v6(6, &tcp(0x18, &[], &long)), (4660, 80), 0x18),
        ("ICMPv6 echo", v6(58, &[icmp(128, 0), long.to_vec()].concat()), (128, 0), 0),
    ]
}

#[test]
fn fragments_in_any_order_leave_in_order_and_match_the_ports_of_the_first() {
    let order = Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle();
    let cuts = proptest::sample::subsequence((1..=14_usize).map(|units| units * 8).collect::<Vec<_>>(), 5);
    proptest!(|((order, cuts) in (order, cuts))| {
        for (name, frame, ports, tcp_flags) in datagrams() {
            let bench = Bench::new();
            let pieces = cut_at(&frame, &cuts);
            for i in &order[..5] {
                assert_eq!(bench.send(&pieces[*i]), Fate::Held, "{name}");
            }
            let fate = bench.send(&pieces[order[5]]);
            assert_eq!(fate, Fate::Complete(pieces, NEW, ports, tcp_flags), "{name}");
            assert_eq!(bench.conntrack.waiting(), (0, 0), "{name}");
        }
    });
}

#[test]
fn a_datagram_is_rewritten_as_if_it_were_whole() {
    for (name, frame, ..) in datagrams() {
        let family = if frame[12] == 8 { Family::V4 } else { Family::V6 };
        let (src, dst) = match family {
            Family::V4 => (End { addr: 0x0909_0909, port: 999 }, End { addr: 0x0808_0808, port: 888 }),
            Family::V6 => (End { addr: CLIENT6 << 8, port: 999 }, End { addr: SERVER6 << 4, port: 888 }),
        };
        let mut bench = Bench::new();
        let ends =
            if name == "an error" { (None, None, Some(src), Some(dst)) } else { (Some(src), Some(dst), None, None) };
        let rewrite = Rewrite { src: ends.0, dst: ends.1, inner_src: ends.2, inner_dst: ends.3 };
        bench.verdict = accepted(rewrite);
        // The shortest first fragment has no checksum of TCP.
        for cuts in [&[8_usize][..], &[8, 16, 24], &[64]] {
            let mut fate = Fate::Held;
            for piece in cut_at(&frame, cuts) {
                assert_eq!(fate, Fate::Held, "{name}");
                fate = bench.send(&piece);
            }
            let Fate::Complete(after, NEW, ..) = fate else { panic!("{name}: {fate:?}") };
            let expected = rewritten(&frame, Csum::Unknown, rewrite);
            assert_ne!(expected, frame, "{name}");
            assert_eq!(joined(&after), expected, "{name} cut at {cuts:?}");
            assert_eq!(after, cut_at(&expected, cuts), "{name} cut at {cuts:?}");
        }
    }
}

#[test]
fn a_datagram_whose_checksum_is_wrong_is_invalid_as_one() {
    for (name, frame, ports, tcp_flags) in datagrams() {
        if name == "GRE" {
            continue;
        }
        let bench = Bench::new();
        let last = frame.len() - 1;
        let pieces = cut_at(&with(frame, last, &[0x55]), &[32]);
        assert_eq!(bench.send(&pieces[1]), Fate::Held, "{name}");
        let fate = bench.send(&pieces[0]);
        assert_eq!(fate, Fate::Complete(pieces, INVALID, ports, tcp_flags), "{name}");
    }
}

#[test]
fn a_refusal_is_for_all_fragments() {
    let mut bench = Bench::new();
    bench.verdict.refusal = Some(Refusal::NatExhausted);
    let pieces = cut_at(&v4(17, &udp(&[7; 64])), &[16, 32]);
    assert_eq!(bench.send(&pieces[0]), Fate::Held);
    assert_eq!(bench.send(&pieces[1]), Fate::Held);
    assert_eq!(bench.send(&pieces[2]), Fate::Dropped(DropReason::NatExhausted));
    assert_eq!(bench.maintain(0), [DropReason::NatExhausted; 2]);
    assert_eq!(bench.maintain(u64::MAX), []);
}

#[test]
fn fragments_that_miss_others_are_given_up_in_time() {
    let mut bench = Bench::new();
    let pieces = cut_at(&v4(17, &udp(&[7; 64])), &[16, 32]);
    bench.place.now = Millis(1000);
    assert_eq!(bench.send(&pieces[0]), Fate::Held);
    bench.place.now = Millis(9000);
    assert_eq!(bench.send(&pieces[1]), Fate::Held);
    assert_eq!(bench.maintain(999 + FRAGMENT_TIMEOUT_MS), []);
    assert_eq!(bench.conntrack.waiting(), (1, 2));
    assert_eq!(bench.maintain(1000 + FRAGMENT_TIMEOUT_MS), [DropReason::FragTimeout; 2]);
    assert_eq!(bench.conntrack.waiting(), (0, 0));
    // The last one begins anew.
    assert_eq!(bench.send(&pieces[2]), Fate::Held);
}

#[test]
fn a_damaged_header_is_invalid_at_once() {
    let bench = Bench::new();
    let piece = cut_at(&v4(17, &udp(&[7; 64])), &[16]).remove(0);
    assert_eq!(bench.send(&with(piece, 22, &[63])), Fate::Tracked);
    assert_eq!(bench.conntrack.waiting(), (0, 0));
}

#[test]
fn fragments_in_many_segments_are_fine() {
    let bench = Bench::new();
    let mut all = Vec::new();
    for piece in cut_at(&v4(17, &udp(&[7; 4000])), &[1600, 3200]) {
        let mut mbuf = pool().mbuf_from(&piece[..100]).expect("mbuf");
        for part in piece[100..].chunks(333) {
            mbuf.chain(pool().mbuf_from(part).expect("mbuf"));
        }
        let rewrite = Rewrite { src: Some(End { addr: SERVER, port: 1 }), ..Rewrite::default() };
        match bench.conntrack.pass(packet(mbuf), 7, bench.place, |_| accepted(rewrite)) {
            Outcome::Held => {}
            Outcome::Complete(fragments) => all.extend(fragments.packets.iter().map(|packet| packet.mbuf.to_vec())),
            other => panic!("{other:?}"),
        }
    }
    let after = joined(&all);
    let parts = Parts::of_frame(&after).expect("IPv4");
    assert_eq!((parts.header_sum(&after), parts.l4_sum(&after)), (Some(0xffff), Some(0xffff)));
    assert_eq!((&after[26..30], &after[34..36]), (&[10, 0, 0, 2][..], &[0, 1][..]));
}

#[test]
fn extension_headers_behind_the_fragment_header_belong_to_what_was_cut() {
    let bench = Bench::new();
    let whole = v6(60, &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp(&[7; 64])].concat());
    let pieces = cut_at(&whole, &[24]);
    assert_eq!(bench.send(&pieces[1]), Fate::Held);
    assert_eq!(bench.send(&pieces[0]), Fate::Complete(pieces, NEW, (4660, 53), 0));
}

#[test]
fn a_datagram_of_too_many_fragments_does_not_grow() {
    let bench = Bench::new();
    let whole = v4(17, &udp(&[7; 2000]));
    let cuts: Vec<usize> = (1..200).map(|units| units * 8).collect();
    for (i, piece) in cut_at(&whole, &cuts).iter().enumerate().take(199) {
        let full = i >= FRAGMENTS_PER_DATAGRAM_MAX;
        let expected = if full { Fate::Dropped(DropReason::FragFull) } else { Fate::Held };
        assert_eq!(bench.send(piece), expected, "fragment {i}");
    }
    assert_eq!(bench.conntrack.waiting(), (1, FRAGMENTS_PER_DATAGRAM_MAX));
}

#[test]
fn fragments_of_other_ports_zones_and_tunnels_are_others() {
    let pieces = cut_at(&v4(17, &udp(&[7; 64])), &[16]);
    let mut bench = Bench::new();
    assert_eq!(bench.send(&pieces[0]), Fate::Held);
    let other = |at: usize| fragment(&with(pieces[1].clone(), at, &[16]), 16, &pieces[1][34..], false);
    let (other_id, other_protocol) = (other(18), other(23));
    for (name, frame, port, zone, tunnel) in [
        ("port", &pieces[1], 2, 7, 0),
        ("zone", &pieces[1], 1, 8, 0),
        ("tunnel", &pieces[1], 1, 7, 5),
        ("id", &other_id, 1, 7, 0),
        ("protocol", &other_protocol, 1, 7, 0),
    ] {
        (bench.place.port, bench.zone, bench.place.tunnel) = (PortId(port), zone, tunnel);
        assert_eq!(bench.send(frame), Fate::Held, "another {name}");
    }
    (bench.place.port, bench.zone, bench.place.tunnel) = (PortId(1), 7, 0);
    assert_eq!(bench.send(&pieces[1]), Fate::Complete(pieces, NEW, (4660, 53), 0));
}
