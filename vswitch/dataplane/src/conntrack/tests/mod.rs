//! Packets in, messages and rewritten packets out.

mod alg;
mod fragments;
mod hostile;
mod properties;
mod read;
mod related;

use super::fuzz::oracle::Parts;
use super::fuzz::{conntrack, packet, place, pool};
use super::read::Message;
use super::{Conntrack, CtPlace, Outcome, plainly_seen};
use vswitch_conntrack::{End, Family, L4, Rewrite, Seen, TrackVerdict, Tuple, state};
use vswitch_dpdk::{Csum, Mbuf};

const CLIENT: u128 = 0x0a00_0001;
const SERVER: u128 = 0x0a00_0002;
const CLIENT6: u128 = 0xfd00_0000_0000_0000_0000_0000_0000_0001;
const SERVER6: u128 = 0xfd00_0000_0000_0000_0000_0000_0000_0002;

/// An IPv4 frame from the client to the server, its checksums right.
fn v4(protocol: u8, l4: &[u8]) -> Vec<u8> {
    v4_between(CLIENT, SERVER, protocol, l4)
}

fn v4_between(src: u128, dst: u128, protocol: u8, l4: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend_from_slice(&u16::try_from(20 + l4.len()).expect("short").to_be_bytes());
    frame.extend_from_slice(&[0x12, 0x34, 0, 0, 64, protocol, 0, 0]);
    frame.extend_from_slice(&src.to_be_bytes()[12..]);
    frame.extend_from_slice(&dst.to_be_bytes()[12..]);
    frame.extend_from_slice(l4);
    repaired(frame)
}

/// Likewise of IPv6.
fn v6(protocol: u8, l4: &[u8]) -> Vec<u8> {
    v6_between(CLIENT6, SERVER6, protocol, l4)
}

fn v6_between(src: u128, dst: u128, protocol: u8, l4: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0];
    frame.extend_from_slice(&u16::try_from(l4.len()).expect("short").to_be_bytes());
    frame.extend_from_slice(&[protocol, 64]);
    frame.extend_from_slice(&src.to_be_bytes());
    frame.extend_from_slice(&dst.to_be_bytes());
    frame.extend_from_slice(l4);
    repaired(frame)
}

fn repaired(mut frame: Vec<u8>) -> Vec<u8> {
    Parts::of_frame(&frame).expect("an IP packet").repair(&mut frame);
    frame
}

/// A frame with some bytes changed, its checksums as they were.
fn with(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

/// From 4660 to 80; options in whole words.
fn tcp(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let offset = u8::try_from(5 + options.len() / 4).expect("short") << 4;
    let header = [0x12, 0x34, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, offset, flags, 0x20, 0x30, 0, 0, 0, 0];
    [&header, options, payload].concat()
}

/// From 4660 to 53.
fn udp(payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + payload.len()).expect("short").to_be_bytes();
    [&[0x12, 0x34, 0, 53, len[0], len[1], 0, 0], payload].concat()
}

/// With the identifier 7.
fn icmp(kind: u8, code: u8) -> Vec<u8> {
    [&[kind, code, 0, 0, 0, 7, 0, 1][..], b"payload"].concat()
}

fn sctp() -> Vec<u8> {
    [&[0x12, 0x34, 0x0b, 0x59, 1, 2, 3, 4, 0, 0, 0, 0][..], &[1, 0, 0, 4]].concat()
}

fn tuple(family: Family, protocol: u8, src: u16, dst: u16) -> Tuple {
    let (client, server) = if family == Family::V4 { (CLIENT, SERVER) } else { (CLIENT6, SERVER6) };
    let (src, dst) = (End { addr: client, port: src }, End { addr: server, port: dst });
    Tuple { src, dst, family, protocol, zone: 7 }
}

fn accepted(rewrite: Rewrite) -> TrackVerdict {
    TrackVerdict { state: state::NEW | state::TRK, rewrite, ..TrackVerdict::default() }
}

/// What is read of a frame of which `csum` is known, in zone 7; and the mbuf afterwards.
fn read_as(frame: &[u8], csum: Csum) -> (Option<Message>, Mbuf) {
    let mut mbuf = pool().mbuf_from(frame).expect("mbuf");
    mbuf.set_csum(csum);
    let mut message = None;
    match conntrack().pass(packet(mbuf), 7, place(), |read| {
        message = Some(*read);
        accepted(Rewrite::default())
    }) {
        Outcome::Tracked(packet, verdict) => {
            assert_eq!(verdict == TrackVerdict::INVALID, message.is_none(), "{verdict:?} of {message:?}");
            plainly(frame, csum, message.as_ref(), packet.mbuf.csum());
            (message, packet.mbuf)
        }
        other => panic!("{other:?}"),
    }
}

/// What is seen of a plain packet at once is what is read of it; whether it was seen.
fn plainly(frame: &[u8], csum: Csum, message: Option<&Message>, after: Csum) -> bool {
    let mut mbuf = pool().mbuf_from(frame).expect("mbuf");
    mbuf.set_csum(csum);
    let mut packet = packet(mbuf);
    let mut seen = Seen::default();
    let Some(&seen) = plainly_seen(&mut packet, 7, &mut seen) else { return false };
    let Some(Message::Seen(read)) = message else { panic!("{seen:?} of {frame:02x?}, which is {message:?}") };
    assert_eq!((seen, packet.mbuf.csum()), (*read, after), "{frame:02x?}, {csum:?}");
    true
}

fn read_frame(frame: &[u8]) -> Option<Message> {
    read_as(frame, Csum::Unknown).0
}

fn seen(frame: &[u8]) -> Option<Seen> {
    match read_frame(frame) {
        Some(Message::Seen(seen)) => Some(seen),
        Some(Message::Related(related, _)) => panic!("{related:?}"),
        None => None,
    }
}

/// What a frame becomes.
fn rewritten(frame: &[u8], csum: Csum, rewrite: Rewrite) -> Vec<u8> {
    let mut mbuf = pool().mbuf_from(frame).expect("mbuf");
    mbuf.set_csum(csum);
    match conntrack().pass(packet(mbuf), 7, place(), |_| accepted(rewrite)) {
        Outcome::Tracked(packet, verdict) => {
            assert_ne!(verdict, TrackVerdict::INVALID, "not read");
            packet.mbuf.to_vec()
        }
        other => panic!("{other:?}"),
    }
}
