//! Packets of any bytes before a strict port, cut anywhere.

use super::oracle::Parts;
use super::{be, pool};
use crate::packet::strict::check;
use vswitch_dpdk::{Csum, Mbuf};

/// What a fuzzer says beside the packet: flags, where it is cut.
const CONTROL_LEN: usize = 3;

/// The frame in up to three segments.
fn cut(frame: &[u8], [first, second]: [u8; 2]) -> Option<Mbuf> {
    let (front, rest) = frame.split_at(usize::from(first).min(frame.len()));
    let (middle, end) = rest.split_at(usize::from(second).min(rest.len()));
    let mut mbuf = pool().mbuf_from(front)?;
    for piece in [middle, end] {
        if !piece.is_empty() {
            mbuf.chain(pool().mbuf_from(piece)?);
        }
    }
    Some(mbuf)
}

/// A packet of any bytes is looked at. Returns whether it passes.
///
/// # Panics
/// When it makes a difference where it is cut, or when something passes whose lengths contradict
/// each other, or whose checksums are wrong.
pub fn strict(input: &[u8]) -> bool {
    let Some(([flags, cuts @ ..], frame)) = input.split_first_chunk::<CONTROL_LEN>() else { return false };
    let mut frame = frame.to_vec();
    if let Some(parts) = Parts::of_frame(&frame).filter(|_| flags & 1 != 0) {
        parts.repair(&mut frame);
    }
    let trusted = flags & 2 != 0;
    let verdict = |mbuf: Option<Mbuf>| {
        let mut mbuf = mbuf.expect("the pool is large enough");
        mbuf.set_csum(if trusted { Csum::Good } else { Csum::Unknown });
        let verdict = check(&mbuf);
        assert!(mbuf.to_vec() == frame, "it was changed");
        verdict
    };
    let reason = verdict(pool().mbuf_from(&frame));
    assert_eq!(verdict(cut(&frame, *cuts)), reason, "cut at {cuts:?}");
    if reason.is_some() {
        return false;
    }
    assert!(frame.len() > 14, "{} bytes pass", frame.len());
    if let Some(parts) = Parts::before_fragment(&frame) {
        whole(&frame, &parts, trusted);
    }
    true
}

/// What holds for each IP packet that passes.
fn whole(frame: &[u8], parts: &Parts, trusted: bool) {
    let is_inside = parts.l4 <= parts.end && parts.end <= frame.len();
    assert!(is_inside, "{parts:?} in {} bytes", frame.len());
    assert_eq!(parts.header_sum(frame).unwrap_or(0xffff), 0xffff, "header checksum");
    let (version, ttl) = if parts.v6 { (6, frame[parts.l3 + 7]) } else { (4, frame[parts.l3 + 8]) };
    assert!(frame[parts.l3] >> 4 == version && ttl > 0, "version or TTL of {parts:?}");
    // What fragments carry is for reassembly.
    if !parts.v6 && be(frame, parts.l3 + 6) & 0x3fff != 0 {
        return;
    }
    let l4 = &frame[parts.l4..parts.end];
    match parts.protocol {
        6 => {
            let header = l4.get(12).map(|offset| usize::from(offset >> 4) * 4);
            assert!(header.is_some_and(|header| (20..=l4.len()).contains(&header)), "TCP header of {header:?} bytes");
        }
        17 => assert_eq!(be(l4, 4), l4.len(), "UDP's length"),
        1 | 58 if parts.v6 == (parts.protocol == 58) => assert!(l4.len() >= 8, "ICMP of {} bytes", l4.len()),
        _ => return,
    }
    if !trusted {
        assert_eq!(parts.l4_sum(frame).unwrap_or(0xffff), 0xffff, "L4 checksum");
    }
}
