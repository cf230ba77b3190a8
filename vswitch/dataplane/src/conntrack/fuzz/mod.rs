//! For the fuzz targets `ct_nat`, `ct_inner`, `ct_fragments`, `ftp_text` and the tests that feed
//! the same: properties that hold whatever the bytes are.

mod fragments;
mod ftp;

pub use fragments::fragments;
pub use ftp::ftp;

use super::read::Message;
use super::{Conntrack, CtPlace, Outcome, fragment};
use crate::action::Packet;
pub(super) use crate::packet::fuzz::oracle;
pub(super) use crate::packet::fuzz::{cut, pool};
use crate::port::PortId;
use crate::time::Millis;
use oracle::Parts;
use vswitch_conntrack::{Config, End, Family, Rewrite, TrackVerdict, state};
use vswitch_dpdk::{Csum, Mbuf};
use vswitch_flow::FlowKey;
use vswitch_flow::extract::extract;

/// What a fuzzer says beside the packet.
const CONTROL_LEN: usize = 40;

pub(super) fn packet(mbuf: Mbuf) -> Packet {
    let layers = extract(mbuf.head(), mbuf.len(), &mut FlowKey::default());
    Packet { mbuf, layers }
}

pub(super) fn conntrack() -> Conntrack {
    Conntrack::new(Config { connections_max: 16 })
}

pub(super) fn place() -> CtPlace {
    CtPlace { worker: 0, now: Millis(0), port: PortId(1), tunnel: 0, before: 0, cached: false, unknown: false }
}

/// Addresses and ports to write, of which `flags` says whether.
fn ends(control: &[u8; CONTROL_LEN], family: Family) -> [Option<End>; 2] {
    let number = |at: usize| control[at..].first_chunk().map_or(0, |addr| u128::from_be_bytes(*addr));
    let addr = |at: usize| if family == Family::V4 { number(at) & 0xffff_ffff } else { number(at) };
    let port = |at: usize| u16::from_be_bytes([control[at], control[at + 1]]);
    let end = |bit: u8, at: usize, port_at: usize| {
        (control[0] & bit != 0).then(|| End { addr: addr(at), port: port(port_at) })
    };
    [end(4, 8, 2), end(8, 24, 4)]
}

fn established(rewrite: Rewrite) -> TrackVerdict {
    TrackVerdict { state: state::EST | state::TRK, rewrite, ..TrackVerdict::default() }
}

/// A frame of any bytes is tracked and translated. The control bytes: which checksums are made
/// right before, what is known of them, into how many segments it is cut, what is written. Returns
/// whether it was tracked.
///
/// # Panics
/// When a checksum does not stay what it was (right, or wrong by as much), when anything else
/// changes than what was to be written, or when a packet is tracked whose checksum is wrong.
pub fn nat(input: &[u8]) -> bool {
    let Some((control, frame)) = input.split_first_chunk::<CONTROL_LEN>() else { return false };
    let mut before = frame.to_vec();
    let parts = Parts::of_frame(&before);
    if let Some(parts) = parts.filter(|_| control[0] & 1 != 0) {
        parts.repair(&mut before);
    }
    let Some(mut mbuf) = cut(&before, usize::from(control[1])) else { return false };
    let trusted = control[0] & 2 != 0;
    mbuf.set_csum(if trusted { Csum::Good } else { Csum::Unknown });
    let packet = packet(mbuf);
    if !matches!(fragment::kind_of(&packet, 0, place()), fragment::FragmentKind::Whole) {
        return false;
    }
    let (mut message, mut rewrite) = (None, Rewrite::default());
    let outcome = conntrack().pass(packet, 7, place(), |read| {
        let family = if parts.is_some_and(|parts| parts.v6) { Family::V6 } else { Family::V4 };
        if let Message::Seen(seen) = read {
            let [src, dst] = ends(control, family);
            rewrite = Rewrite { src, dst, ..Rewrite::default() };
            message = Some(*seen);
        }
        established(rewrite)
    });
    let Outcome::Tracked(packet, _) = outcome else { panic!("{outcome:?}") };
    let after = packet.mbuf.to_vec();
    let (Some(seen), Some(parts)) = (message, parts) else {
        assert_eq!(after, before, "nothing was to be written");
        return false;
    };
    assert_eq!(parts.header_sum(&before).unwrap_or(0xffff), 0xffff, "tracked with a wrong header checksum");
    assert_eq!(parts.header_sum(&after), parts.header_sum(&before), "header checksum");
    assert_eq!(parts.l4_sum(&after), parts.l4_sum(&before), "L4 checksum");
    if !trusted && let Some(sum) = parts.l4_sum(&before) {
        assert_eq!(sum, 0xffff, "tracked with a wrong L4 checksum");
        assert_eq!(packet.mbuf.csum(), Csum::Good, "not remembered");
    }
    let l4 = &after[parts.l4..parts.end];
    if parts.protocol == 132 && !trusted {
        let without = [&l4[..8], &[0; 4], &l4[12..]].concat();
        assert_eq!(oracle::naive_crc32c(&without).to_le_bytes(), l4[8..12], "SCTP checksum");
    }
    let ports = seen.tuple.has_ports();
    assert_eq!(after, written(before, &after, parts, &rewrite, ports, seen.tuple.is_icmp()));
    true
}

/// What a frame is to become: the ends written, checksums as they have become.
fn written(mut frame: Vec<u8>, after: &[u8], parts: Parts, rewrite: &Rewrite, ports: bool, icmp: bool) -> Vec<u8> {
    let (len, source) = if parts.v6 { (16, parts.l3 + 8) } else { (4, parts.l3 + 12) };
    for (end, at, is_source) in [(rewrite.src, source, true), (rewrite.dst, source + len, false)] {
        let Some(end) = end else { continue };
        frame[at..at + len].copy_from_slice(&end.addr.to_be_bytes()[16 - len..]);
        let at = parts.l4 + if is_source { 0 } else { 2 };
        if ports {
            frame[at..at + 2].copy_from_slice(&end.port.to_be_bytes());
        } else if icmp && is_source {
            frame[at + 4..at + 6].copy_from_slice(&end.port.to_be_bytes());
        }
    }
    let header = (!parts.v6).then_some((parts.l3 + 10, 2));
    let l4 = parts.checksum().map(|(at, _)| (at, 2)).or_else(|| (parts.protocol == 132).then_some((parts.l4 + 8, 4)));
    for (at, len) in [header, l4].into_iter().flatten() {
        frame[at..at + len].copy_from_slice(&after[at..at + len]);
    }
    frame
}

/// An ICMP or ICMPv6 error quotes any bytes, and is translated. The control bytes: its type,
/// whether the checksums of what it quotes are right, what is written. Returns whether it was about
/// a packet that can be tracked.
///
/// # Panics
/// When its checksum is not right afterwards, when one in the quoted packet does not stay what it
/// was, or when anything else changes than what was to be written.
pub fn inner(input: &[u8]) -> bool {
    let Some((control, quote)) = input.split_first_chunk::<CONTROL_LEN>() else { return false };
    let v6 = control[1] & 1 != 0;
    let mut quote = quote.to_vec();
    let parts = if v6 { Parts::v6(&quote, 0) } else { Parts::v4(&quote, 0) };
    if let Some(parts) = parts.filter(|_| control[0] & 1 != 0) {
        parts.repair(&mut quote);
    }
    let family = if v6 { Family::V6 } else { Family::V4 };
    let kind = if v6 { control[1] >> 1 & 3 } else { [2, 3, 10, 10][usize::from(control[1] >> 1 & 3)] } + 1;
    let before = error(family, kind, &quote);
    let outer = Parts::of_frame(&before).expect("an IP packet");
    let Some(mbuf) = cut(&before, usize::from(control[6])) else { return false };
    let mut rewrite = None;
    let outcome = conntrack().pass(packet(mbuf), 7, place(), |read| {
        let Message::Related(related, _) = read else { panic!("{read:?} of an error") };
        assert!(related.inner.family == family && related.inner.zone == 7, "{related:?}");
        let [inner_src, inner_dst] = ends(control, family);
        // The router that complains is translated with those that it complains about, or not.
        let [src, dst] = if control[0] & 16 != 0 { [inner_dst, inner_src] } else { [None; 2] };
        established(*rewrite.insert(Rewrite { src, dst, inner_src, inner_dst }))
    });
    let Outcome::Tracked(packet, _) = outcome else { panic!("{outcome:?}") };
    let after = packet.mbuf.to_vec();
    let (Some(rewrite), Some(parts)) = (rewrite, parts) else {
        assert_eq!(after, before, "nothing was to be written");
        return false;
    };
    assert_eq!(outer.header_sum(&after).unwrap_or(0xffff), 0xffff, "header checksum");
    assert_eq!(outer.l4_sum(&after), Some(0xffff), "checksum of the error");
    let start = outer.l4 + 8;
    let inner = &after[start..];
    assert_eq!(parts.header_sum(inner), parts.header_sum(&quote), "quoted header checksum");
    assert_eq!(parts.l4_sum(inner), parts.l4_sum(&quote), "quoted L4 checksum");
    let icmp = matches!((parts.protocol, v6), (1, false) | (58, true));
    let ports = matches!(parts.protocol, 6 | 17 | 132);
    let wanted = Rewrite { src: rewrite.inner_src, dst: rewrite.inner_dst, ..Rewrite::default() };
    let mut expected = before[..start].to_vec();
    let outside = Rewrite { inner_src: None, inner_dst: None, ..rewrite };
    expected.extend_from_slice(&with_checksums(&quote, inner, parts, &wanted, ports, icmp));
    assert_eq!(after, written(expected, &after, outer, &outside, false, false));
    true
}

/// [`written`] of a quoted packet: its checksum may have been cut off, and of SCTP it stays.
fn with_checksums(quote: &[u8], after: &[u8], parts: Parts, rewrite: &Rewrite, ports: bool, icmp: bool) -> Vec<u8> {
    // As if it were whole, then cut again.
    let pad = |bytes: &[u8]| [bytes, &[0; 24]].concat();
    let mut whole = written(pad(quote), &pad(after), parts, rewrite, ports, icmp);
    whole.truncate(quote.len());
    if parts.protocol == 132 && quote.len() >= parts.l4 + 12 {
        whole[parts.l4 + 8..parts.l4 + 12].copy_from_slice(&quote[parts.l4 + 8..parts.l4 + 12]);
    }
    whole
}

/// The frame of an error about a packet, sent to whom that packet claims to come from.
pub(super) fn error(family: Family, kind: u8, quote: &[u8]) -> Vec<u8> {
    let len = |more: usize| u16::try_from(quote.len() + more).expect("short").to_be_bytes();
    let part =
        |at: usize, len: usize| (at..at + len).map(|at| quote.get(at).copied().unwrap_or(0)).collect::<Vec<u8>>();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    match family {
        Family::V4 => {
            frame.extend_from_slice(&[8, 0, 0x45, 0]);
            frame.extend_from_slice(&len(28));
            frame.extend_from_slice(&[0x12, 0x34, 0, 0, 64, 1, 0, 0, 172, 16, 0, 254]);
            frame.extend_from_slice(&part(12, 4));
        }
        Family::V6 => {
            frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend_from_slice(&len(8));
            frame.extend_from_slice(&[58, 64]);
            frame.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe]);
            frame.extend_from_slice(&part(8, 16));
        }
    }
    frame.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
    frame.extend_from_slice(quote);
    let parts = Parts::of_frame(&frame).expect("an IP packet");
    parts.repair(&mut frame);
    frame
}
