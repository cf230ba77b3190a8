//! Packets of any headers and a long payload, to be segmented in software.

use super::oracle::{Parts, naive_sum};
use super::{be, cut, pool};
use crate::limits::GSO_SEGMENTS_MAX;
use crate::observe::DropReason;
use crate::packet::nested::Nested;
use crate::packet::offload::{TxCaps, finish, finish_checksum};
use crate::packet::{Headers, L4};
use vswitch_dpdk::{Csum, Mbuf};

/// What a fuzzer says beside the headers: flags, where the inner IP header is, the size of a
/// segment, bytes of payload that are added, how it is cut.
const CONTROL_LEN: usize = 7;

/// Bits of the flags.
const LENGTHS: u8 = 1;
const SUMS: u8 = 2;
const NESTED: u8 = 4;
const CSUM: u8 = 8;
const OUTER_PARTIAL: u8 = 16;

/// TCP's flags that only the first or the last segment keeps.
const FIN: u8 = 1;
const PSH: u8 = 8;
const CWR: u8 = 0x80;

/// Where the headers of what is segmented are.
#[derive(Clone, Copy, Debug)]
struct Shape {
    headers: Headers,
    l4: L4,
    is_nested: bool,
}

/// Writes the sum over the pseudo-header where the checksum is, as whoever leaves the rest to
/// others.
fn leave_sum(frame: &mut [u8], parts: &Parts) {
    let (Some((field, true)), Some(destination)) = (parts.checksum(), parts.destination) else { return };
    let (source, len) = if parts.v6 { (parts.l3 + 8, 16) } else { (parts.l3 + 12, 4) };
    let l4_len = parts.end.saturating_sub(parts.l4);
    let (Some(src), Some(dst)) = (frame.get(source..source + len), frame.get(destination..destination + len)) else {
        return;
    };
    let len = u32::try_from(l4_len).unwrap_or(0).to_be_bytes();
    let sum = naive_sum(&[src, dst, &len, &[0, 0, 0, parts.protocol]].concat());
    if let Some(field) = frame.get_mut(field..field + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Makes the lengths of an IP packet reach to the end of the frame, UDP's, too, and its header's
/// sum right.
fn reach(frame: &mut [u8], parts: &Parts) {
    let end = frame.len();
    let mut write = |at: usize, len: usize| {
        if let (Some(field), Ok(len)) = (frame.get_mut(at..at + 2), u16::try_from(len)) {
            field.copy_from_slice(&len.to_be_bytes());
        }
    };
    if parts.v6 {
        write(parts.l3 + 4, end.saturating_sub(parts.l3 + 40));
    } else {
        write(parts.l3 + 2, end - parts.l3);
        write(parts.l3 + 10, 0);
    }
    if parts.protocol == 17 {
        write(parts.l4 + 4, end.saturating_sub(parts.l4));
    }
    if let Some(sum) = parts.header_sum(frame) {
        frame[parts.l3 + 10..parts.l3 + 12].copy_from_slice(&(!sum).to_be_bytes());
    }
}

/// The IP packet that starts at `at`.
fn inner(frame: &[u8], at: usize) -> Option<Parts> {
    match frame.get(at)? >> 4 {
        4 => Parts::v4(frame, at),
        6 => Parts::v6(frame, at),
        _ => None,
    }
}

/// The packet, and where its inner IP header is said to be.
fn packet(control: [u8; CONTROL_LEN], headers: &[u8]) -> (Vec<u8>, Option<usize>) {
    let [flags, at, _, _, high, low, _] = control;
    let payload = usize::from(u16::from_be_bytes([high, low]) & 0x1fff);
    let mut frame = headers.to_vec();
    frame.extend((0..payload).map(|i| (i * 7 + i / 251).to_be_bytes()[7]));
    let at = (flags & NESTED != 0).then_some(usize::from(at));
    let both = [Some(12), at];
    for place in both {
        let parts = |frame: &[u8]| match place {
            Some(12) => Parts::of_frame(frame),
            Some(at) => inner(frame, at),
            None => None,
        };
        if let Some(found) = parts(&frame).filter(|found| flags & LENGTHS != 0 && found.l4 <= frame.len()) {
            reach(&mut frame, &found);
        }
        let is_left = flags & SUMS != 0 && (place == at || at.is_none() || flags & OUTER_PARTIAL != 0);
        if let Some(found) = parts(&frame).filter(|_| is_left) {
            leave_sum(&mut frame, &found);
        }
    }
    (frame, at)
}

/// A packet with any headers is segmented in software. Returns how many segments it becomes.
///
/// # Panics
/// When payload is lost, comes twice or in another order, when a segment is longer than it may be,
/// has a wrong length, sum or number, or other headers than the packet; when mbufs are lost.
pub fn segment(input: &[u8]) -> usize {
    let Some((control, headers)) = input.split_first_chunk::<CONTROL_LEN>() else { return 0 };
    let [flags, _, high, low, .., cuts] = *control;
    let used = pool().in_use();
    let (frame, at) = packet(*control, headers);
    let size = u16::from_be_bytes([high, low]) & 0x3fff;
    let Some(mut mbuf) = cut(&frame, usize::from(cuts)) else { return 0 };
    let is_partial = at.is_none() || flags & OUTER_PARTIAL != 0;
    mbuf.set_csum(if is_partial { Csum::Partial } else { Csum::Good });
    mbuf.set_gso_size(size);
    let inner_len = at.and_then(|at| frame.len().checked_sub(inner(&frame, at)?.l4));
    if let Some(inner_len) = inner_len.and_then(|len| u16::try_from(len).ok()) {
        mbuf.set_inner_gso(size, inner_len);
    }
    let shape = shape(&mbuf);
    let caps = TxCaps { csum: flags & CSUM != 0, ..TxCaps::default() };
    let mut sent = Vec::new();
    let result = finish(mbuf, caps, pool(), &mut |mbuf| sent.push(mbuf));
    let count = sent.len();
    match (result, shape) {
        (Err(reason), _) => {
            drop(sent);
            assert!(count == 0 && reason != DropReason::NoMbuf, "{reason:?} behind {count} segments");
        }
        (Ok(_), Some(shape)) if size > 0 && count > 0 => check(&frame, shape, usize::from(size), sent),
        (Ok(_), _) => {
            drop(sent);
            assert_eq!(count, 1, "a packet that is not segmented");
        }
    }
    assert_eq!(pool().in_use(), used, "mbufs are lost");
    count
}

/// What is to be segmented; none: nothing.
fn shape(mbuf: &Mbuf) -> Option<Shape> {
    if mbuf.inner_len() != 0 {
        let Nested { inner, l4, .. } = Nested::of(mbuf)?;
        return Some(Shape { headers: inner, l4, is_nested: true });
    }
    let headers = Headers::of(mbuf)?;
    Some(Shape { headers, l4: headers.l4?, is_nested: false })
}

fn check(frame: &[u8], shape: Shape, size: usize, sent: Vec<Mbuf>) {
    let Shape { headers, l4, is_nested } = shape;
    let (start, total) = (headers.payload_start(), headers.payload_len());
    let count = sent.len();
    let is_cut = is_nested || total > size;
    assert_eq!(count, if is_cut { total.div_ceil(size).max(1) } else { 1 }, "{total} bytes in pieces of {size}");
    assert!(count <= GSO_SEGMENTS_MAX);
    let mut payload = Vec::new();
    for (i, mut mbuf) in sent.into_iter().enumerate() {
        assert_eq!((mbuf.gso_size(), mbuf.inner_len()), (0, 0), "segment {i}");
        finish_checksum(&mut mbuf).expect("it has a header");
        let got = mbuf.to_vec();
        // One that is not cut keeps its padding.
        let end = if is_cut { got.len() } else { headers.end };
        let len = end - start;
        assert!(len == size || i + 1 == count && len <= size, "segment {i} of {count} has {len} bytes");
        payload.extend_from_slice(&got[start..end]);
        if is_cut {
            numbers(frame, &got, shape, (i, i * size, i + 1 == count));
        }
        sums(frame, &got, shape, is_cut);
    }
    assert!(payload == frame[start..headers.end], "the {l4:?} payload differs");
}

/// Numbers and flags of segment `i`, which has so much payload before it.
fn numbers(frame: &[u8], got: &[u8], shape: Shape, (i, before, is_last): (usize, usize, bool)) {
    let Shape { headers, l4, .. } = shape;
    let ip = headers.l2_len;
    if headers.ipv4 {
        assert_eq!(be(got, ip + 4), (be(frame, ip + 4) + i) & 0xffff, "ID of segment {i}");
        assert_eq!(be(got, ip + 2), got.len() - ip, "length of segment {i}");
    } else {
        assert_eq!(be(got, ip + 4), got.len() - ip - 40, "length of segment {i}");
    }
    let at = headers.l4_start();
    match l4 {
        L4::Udp => assert_eq!(be(got, at + 4), got.len() - at, "UDP's length of segment {i}"),
        L4::Tcp => {
            let word = |bytes: &[u8]| bytes[at + 4..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            let seq = word(frame).wrapping_add(u32::try_from(before).expect("short"));
            assert_eq!(word(got), seq, "sequence number of segment {i}");
            let first = if i == 0 { 0 } else { CWR };
            let last = if is_last { 0 } else { FIN | PSH };
            assert_eq!(got[at + 13], frame[at + 13] & !(first | last), "flags of segment {i}");
            assert_eq!(got[at..at + 4], frame[at..at + 4], "ports of segment {i}");
            assert_eq!(got[at + 8..at + 13], frame[at + 8..at + 13], "segment {i}");
            assert_eq!(got[at + 18..headers.payload_start()], frame[at + 18..headers.payload_start()], "segment {i}");
        }
    }
    assert_eq!(got[..12], frame[..12], "addresses of segment {i}");
}

/// The sums of a segment are right where those of the packet were left to be finished.
fn sums(frame: &[u8], got: &[u8], shape: Shape, is_cut: bool) {
    let at = shape.headers.l2_len;
    let parts = |bytes: &[u8]| inner(bytes, at);
    let (Some(before), Some(after)) = (parts(frame), parts(got)) else { return };
    if is_cut {
        assert_eq!(after.header_sum(got).unwrap_or(0xffff), 0xffff, "header checksum");
    }
    // What the packet says of its pseudo-header may be wrong, and then stays so.
    let mut left = frame.to_vec();
    leave_sum(&mut left, &before);
    let Some((field, _)) = before.checksum().filter(|_| before.destination.is_some()) else { return };
    if be(&left, field) % 0xffff == be(frame, field) % 0xffff {
        assert_eq!(after.l4_sum(got).unwrap_or(0xffff), 0xffff, "L4 checksum");
    }
    if let Some(outer) = Parts::of_frame(got).filter(|_| shape.is_nested) {
        assert_eq!(outer.header_sum(got).unwrap_or(0xffff), 0xffff, "outer header checksum");
    }
}
