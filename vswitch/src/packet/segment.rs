//! Segments a GSO packet in software: TCP and trains of UDP datagrams, over IPv4 and IPv6.

use super::checksum::Sum;
use super::headers::{HEADERS_MAX, Headers, L4};
use crate::dpdk::{Csum, Mbuf, Mempool};
use crate::limits::GSO_SEGMENTS_MAX;
use crate::observe::DropReason;

/// Bits of TCP's flags byte (offset 13).
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Makes packets of at most `mbuf.gso_size()` payload bytes each and hands them out in order, with partial checksums or
/// whole ones.
///
/// The field of the original's checksum must hold the pseudo-header sum over its full length (Linux and virtio 1.1, 5.1.6.2
/// have it so): the segments' sums derive from it, which is right also where the addresses in the header are not those of
/// the pseudo-header (IPv6 routing headers).
pub(super) fn segment(
    mbuf: &Mbuf,
    headers: &Headers,
    l4: L4,
    partial: bool,
    pool: &Mempool,
    out: &mut dyn FnMut(Mbuf),
) -> Result<(), DropReason> {
    let gso_size = usize::from(mbuf.gso_size());
    let total = headers.payload_len();
    if gso_size == 0 || total.div_ceil(gso_size) > GSO_SEGMENTS_MAX {
        return Err(DropReason::Segmentation);
    }
    let mut template = Template::new(mbuf, *headers, l4).ok_or(DropReason::Segmentation)?;
    let mut payload = Payload::new(mbuf.segments(), headers.payload_start());
    let mut done = 0;
    while done < total {
        let len = gso_size.min(total - done);
        let header = template.fill(done, len, done + len == total).ok_or(DropReason::Segmentation)?;
        let mut segment = pool.mbuf_from(header).ok_or(DropReason::NoMbuf)?;
        let mut left = len;
        while left > 0 {
            let piece = payload.next(left).ok_or(DropReason::Segmentation)?;
            if !segment.append(piece, pool) {
                return Err(DropReason::NoMbuf);
            }
            left -= piece.len();
        }
        template.finish(&mut segment, partial).ok_or(DropReason::Segmentation)?;
        out(segment);
        done += len;
    }
    Ok(())
}

/// Walks the payload of a packet, piece by piece.
struct Payload<'a, I> {
    segments: I,
    piece: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> Payload<'a, I> {
    fn new(mut segments: I, mut skip: usize) -> Self {
        for segment in segments.by_ref() {
            if let Some(piece) = segment.get(skip..) {
                return Self { segments, piece };
            }
            skip -= segment.len();
        }
        Self { segments, piece: &[] }
    }

    /// The next bytes, at least 1 and at most `max`; none at the end of the packet.
    fn next(&mut self, max: usize) -> Option<&'a [u8]> {
        while self.piece.is_empty() {
            self.piece = self.segments.next()?;
        }
        let (piece, rest) = self.piece.split_at(self.piece.len().min(max));
        self.piece = rest;
        Some(piece)
    }
}

/// The original's headers, and what of them changes from segment to segment.
struct Template {
    bytes: [u8; HEADERS_MAX],
    headers: Headers,
    l4: L4,
    ipv4_id: u16,
    tcp_seq: u32,
    tcp_flags: u8,
    /// Sum over the pseudo-header without its length.
    pseudo: Sum,
}

impl Template {
    fn new(mbuf: &Mbuf, headers: Headers, l4: L4) -> Option<Self> {
        let mut bytes = [0; HEADERS_MAX];
        let header = bytes.get_mut(..headers.payload_start())?;
        mbuf.read(0, header).then_some(())?;
        let (ip, l4_header) = header.get(headers.l2_len..)?.split_at_checked(headers.l3_len)?;
        let ipv4_id = if headers.ipv4 { u16::from_be_bytes(*ip.get(4..)?.first_chunk()?) } else { 0 };
        let (tcp_seq, tcp_flags) = match l4 {
            L4::Tcp => (u32::from_be_bytes(*l4_header.get(4..)?.first_chunk()?), *l4_header.get(13)?),
            L4::Udp => (0, 0),
        };
        let sum = u16::from_be_bytes(*l4_header.get(l4.checksum_offset()..)?.first_chunk()?);
        let l4_len = u16::try_from(headers.end - headers.l4_start()).ok()?;
        let pseudo = Sum::new().word(sum).minus_word(l4_len);
        Some(Self { bytes, headers, l4, ipv4_id, tcp_seq, tcp_flags, pseudo })
    }

    /// The headers of the segment that has `len` bytes of payload and `offset` bytes of payload before it; its L4 checksum
    /// is partial.
    fn fill(&mut self, offset: usize, len: usize, last: bool) -> Option<&[u8]> {
        let Headers { l2_len, l3_len, l4_len, ipv4, .. } = self.headers;
        let header = self.bytes.get_mut(..self.headers.payload_start())?;
        let (ip, l4_header) = header.get_mut(l2_len..)?.split_at_mut_checked(l3_len)?;
        let l4_bytes = u16::try_from(l4_len + len).ok()?;
        if ipv4 {
            let total = u16::try_from(l3_len + l4_len + len).ok()?;
            ip.get_mut(2..4)?.copy_from_slice(&total.to_be_bytes());
            ip.get_mut(4..6)?.copy_from_slice(&self.ipv4_id.to_be_bytes());
            self.ipv4_id = self.ipv4_id.wrapping_add(1);
            ip.get_mut(10..12)?.fill(0);
            let checksum = Sum::of(ip).checksum();
            ip.get_mut(10..12)?.copy_from_slice(&checksum.to_be_bytes());
        } else {
            let payload = u16::try_from(l3_len - 40 + l4_len + len).ok()?;
            ip.get_mut(4..6)?.copy_from_slice(&payload.to_be_bytes());
        }
        match self.l4 {
            L4::Tcp => {
                let seq = self.tcp_seq.wrapping_add(u32::try_from(offset).ok()?);
                l4_header.get_mut(4..8)?.copy_from_slice(&seq.to_be_bytes());
                let not_first = if offset == 0 { 0 } else { CWR };
                let not_last = if last { 0 } else { FIN | PSH };
                *l4_header.get_mut(13)? = self.tcp_flags & !(not_first | not_last);
            }
            L4::Udp => l4_header.get_mut(4..6)?.copy_from_slice(&l4_bytes.to_be_bytes()),
        }
        let sum = self.pseudo.word(l4_bytes).folded();
        let field = self.l4.checksum_offset();
        l4_header.get_mut(field..field + 2)?.copy_from_slice(&sum.to_be_bytes());
        Some(header)
    }

    /// Finishes the checksum of a segment made with [`Template::fill`], unless it shall stay partial.
    fn finish(&self, segment: &mut Mbuf, partial: bool) -> Option<()> {
        if partial {
            segment.set_csum(Csum::Partial);
            return Some(());
        }
        let start = self.headers.l4_start();
        let field = start + self.l4.checksum_offset();
        let end = segment.len();
        super::checksum::finish(segment, start, field, end, self.l4 == L4::Udp).then_some(())?;
        segment.set_csum(Csum::Good);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::offload::{TxCaps, describe, finish};
    use super::super::testing::{Spec, cut, cuts, naive_checksum, specs};
    use super::*;
    use proptest::prelude::*;

    /// Sends a GSO packet out by a port with these capabilities.
    fn send(mbuf: Mbuf, caps: TxCaps, pool: &Mempool) -> (Vec<Mbuf>, Result<(), DropReason>) {
        let mut sent = Vec::new();
        let result = finish(mbuf, caps, pool, &mut |mbuf| sent.push(mbuf));
        (sent, result.map(drop))
    }

    fn gso(pool: &Mempool, spec: &Spec, cuts: &[usize], gso_size: u16) -> Mbuf {
        let mut mbuf = cut(pool, &spec.partial(), cuts);
        mbuf.set_csum(Csum::Partial);
        mbuf.set_gso_size(gso_size);
        mbuf
    }

    /// What segment `index` of `count` should be: the packet that the builder makes of its share of the payload.
    fn expected(spec: &Spec, index: usize, count: usize, gso_size: usize) -> Spec {
        let payload = spec.payload.chunks(gso_size).nth(index).expect("a segment of the payload").to_vec();
        let mut flags = spec.tcp_flags;
        if index > 0 {
            flags &= !CWR;
        }
        if index + 1 < count {
            flags &= !(FIN | PSH);
        }
        let index16 = u16::try_from(index).expect("few segments");
        let before = u32::try_from(index * gso_size).expect("at most 64 KiB");
        Spec {
            payload,
            padding: 0,
            tcp_flags: flags,
            tcp_seq: spec.tcp_seq.wrapping_add(before),
            ipv4_id: spec.ipv4_id.wrapping_add(index16),
            ..spec.clone()
        }
    }

    #[test]
    fn segments_are_the_packets_that_the_sender_would_have_made() {
        let pool = Mempool::for_tests(2048);
        let sizes = prop_oneof![1..50_u16, 500..3000_u16];
        proptest!(|((spec, cuts, gso_size, csum) in (specs(6000), cuts(), sizes, any::<bool>()))| {
            let size = usize::from(gso_size);
            let count = spec.payload.len().div_ceil(size);
            let caps = TxCaps { csum, ..TxCaps::default() };
            let (sent, result) = send(gso(&pool, &spec, &cuts, gso_size), caps, &pool);
            if count <= 1 {
                let bytes = if csum { spec.partial() } else { spec.complete() };
                prop_assert_eq!((result, sent.len(), sent[0].gso_size()), (Ok(()), 1, 0));
                prop_assert!(sent[0].to_vec() == bytes, "an ordinary packet changed");
                return Ok(());
            }
            if count > GSO_SEGMENTS_MAX {
                prop_assert_eq!((result, sent.len()), (Err(DropReason::Segmentation), 0));
                return Ok(());
            }
            prop_assert_eq!((result, sent.len()), (Ok(()), count));
            let mut payload = Vec::new();
            for (i, mut mbuf) in sent.into_iter().enumerate() {
                let segment = expected(&spec, i, count, size);
                let bytes = if csum { segment.partial() } else { segment.complete() };
                let state = if csum { Csum::Partial } else { Csum::Good };
                prop_assert_eq!((mbuf.csum(), mbuf.gso_size()), (state, 0), "segment {} of {}", i, count);
                let got = mbuf.to_vec();
                prop_assert!(same(&got, &bytes, &segment), "segment {i} of {count}:\n{got:02x?}\nnot\n{bytes:02x?}");
                prop_assert!(describe(&mut mbuf).is_ok());
                payload.extend_from_slice(&got[segment.payload_start()..]);
                if !csum {
                    let l4 = [segment.pseudo(got.len() - segment.l4_start()), got[segment.l4_start()..].to_vec()].concat();
                    prop_assert_eq!(naive_checksum(&l4), 0, "segment {} of {} verifies", i, count);
                }
            }
            prop_assert!(payload == spec.payload, "the payload differs");
        });
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }

    /// Equal, or different only in which of the two zeros of ones' complement the checksum field holds.
    fn same(got: &[u8], expected: &[u8], spec: &Spec) -> bool {
        let at = spec.checksum_at();
        let normal = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            if bytes[at..].starts_with(&[0xff, 0xff]) {
                bytes[at..][..2].fill(0);
            }
            bytes
        };
        got == expected || normal(got) == normal(expected)
    }

    #[test]
    fn what_the_port_takes_goes_as_it_is() {
        let pool = Mempool::for_tests(256);
        let none = TxCaps::default();
        for (ipv4, l4, caps) in [
            (true, L4::Tcp, TxCaps { csum: true, tso4: true, ..none }),
            (false, L4::Tcp, TxCaps { csum: true, tso6: true, ..none }),
            (true, L4::Udp, TxCaps { csum: true, uso: true, ..none }),
            (false, L4::Udp, TxCaps { csum: true, uso: true, ..none }),
        ] {
            let spec = Spec::plain(ipv4, l4, 9000);
            let (sent, result) = send(gso(&pool, &spec, &[100], 1448), caps, &pool);
            assert_eq!((result, sent.len()), (Ok(()), 1), "{ipv4} {l4:?}");
            assert_eq!((sent[0].gso_size(), sent[0].csum()), (1448, Csum::Partial), "{ipv4} {l4:?}");
            assert_eq!(sent[0].to_vec(), spec.partial(), "{ipv4} {l4:?}");
            // Segmentation by others needs checksums by others.
            for caps in [TxCaps { csum: false, ..caps }, TxCaps { csum: true, ..none }, none] {
                let (sent, result) = send(gso(&pool, &spec, &[100], 1448), caps, &pool);
                assert_eq!((result, sent.len()), (Ok(()), 7), "{ipv4} {l4:?} {caps:?}");
            }
        }
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }

    #[test]
    fn segments_longer_than_an_mbuf_span_several() {
        let pool = Mempool::for_tests(256);
        let spec = Spec::plain(true, L4::Tcp, 60_000);
        let (sent, result) = send(gso(&pool, &spec, &[], 8948), TxCaps::default(), &pool);
        assert_eq!((result, sent.len(), sent[0].nb_segs()), (Ok(()), 7, 5));
        for (i, mbuf) in sent.iter().enumerate() {
            assert_eq!(mbuf.to_vec(), expected(&spec, i, 7, 8948).complete(), "segment {i}");
        }
    }

    #[test]
    fn too_many_segments_are_refused_by_name() {
        let pool = Mempool::for_tests(2048);
        for (payload, sent, result) in [(1024, 1024, Ok(())), (1025, 0, Err(DropReason::Segmentation))] {
            let spec = Spec::plain(false, L4::Udp, payload);
            let (segments, got) = send(gso(&pool, &spec, &[], 1), TxCaps::default(), &pool);
            assert_eq!((segments.len(), got), (sent, result), "{payload} bytes of payload, one in each segment");
        }
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }

    #[test]
    fn an_empty_pool_ends_it_without_a_leak() {
        let pool = Mempool::for_tests(40);
        let spec = Spec::plain(true, L4::Tcp, 40_000);
        let mbuf = gso(&pool, &spec, &[], 3000); // 20 segments of it, 2 for each of 14 to send
        let used = pool.in_use();
        let (sent, result) = send(mbuf, TxCaps::default(), &pool);
        assert_eq!((result, sent.len()), (Err(DropReason::NoMbuf), (40 - used) / 2), "{used} in use before");
        drop(sent);
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }

    #[test]
    fn a_gso_packet_that_is_none_is_refused() {
        let pool = Mempool::for_tests(64);
        let spec = Spec::plain(true, L4::Tcp, 3000);
        let mut arp = spec.partial();
        arp[13] = 6;
        for (name, bytes, csum) in [("ARP", arp, Csum::Partial), ("whole checksum", spec.complete(), Csum::Unknown)] {
            let mut mbuf = cut(&pool, &bytes, &[]);
            mbuf.set_csum(csum);
            mbuf.set_gso_size(1000);
            let (sent, result) = send(mbuf, TxCaps::default(), &pool);
            assert_eq!((result, sent.len()), (Err(DropReason::Segmentation), 0), "{name}");
        }
        assert_eq!(pool.in_use(), 0, "segments leaked");
    }
}
