//! What follows the IP headers: the L4 header and its payload, in one packet or across all
//! fragments of a datagram, whatever their segments.

use crate::action::Packet;
use crate::packet::checksum::Sum;
use crate::packet::ethertype;
use vswitch_dpdk::crc32c;

/// A packet that is no fragment, or all fragments of a datagram, in order of their offsets. Offsets
/// are from the start of the L4 header.
#[derive(Debug)]
pub(super) struct Datagram<'a> {
    pub(super) packets: &'a mut [Packet],
}

/// Where the checksum of an SCTP packet lies, and where it ends (RFC 9260).
pub(super) const SCTP_CHECKSUM: (usize, usize) = (8, 12);

impl Datagram<'_> {
    /// The packet with the L4 header. No packets at all are none.
    pub(super) fn first(&self) -> Option<&Packet> {
        self.packets.first()
    }

    /// The packet, if it is one alone.
    pub(super) fn whole(&self) -> Option<&Packet> {
        if let [packet] = &*self.packets { Some(packet) } else { None }
    }

    /// Bytes of the L4 header and its payload, without padding.
    pub(super) fn len(&self) -> usize {
        self.packets.iter().filter_map(place).map(|(from, to)| to - from).sum()
    }

    /// Bytes of all frames.
    pub(super) fn frame_len(&self) -> usize {
        self.packets.iter().map(|packet| packet.mbuf.len()).sum()
    }

    /// Runs `f` on the pieces of the bytes `from..to`, in order; false (and `f` run on some) when
    /// there are fewer.
    fn pieces(&self, mut from: usize, to: usize, mut f: impl FnMut(&[u8])) -> bool {
        let Some(mut left) = to.checked_sub(from) else { return false };
        // Nearly always: one packet, in one segment.
        if let Some(packet) = self.whole()
            && let Some((start, end)) = place(packet)
            && let Some(piece) = packet.mbuf.head().get(start..end).and_then(|all| all.get(from..to))
        {
            f(piece);
            return true;
        }
        for packet in &*self.packets {
            let Some((start, end)) = place(packet) else { return false };
            if from >= end - start {
                from -= end - start;
                continue;
            }
            let here = (end - start - from).min(left);
            if !packet.mbuf.visit(start + from, here, &mut f) {
                return false;
            }
            left -= here;
            from = 0;
            if left == 0 {
                return true;
            }
        }
        left == 0
    }

    /// Copies the bytes from `at` on; false when there are fewer.
    pub(super) fn copy(&self, at: usize, to: &mut [u8]) -> bool {
        let (end, mut done) = (at + to.len(), 0);
        self.pieces(at, end, |piece| {
            to[done..done + piece.len()].copy_from_slice(piece);
            done += piece.len();
        })
    }

    /// The bytes from `at` on.
    pub(super) fn read<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.copy(at, &mut bytes).then_some(bytes)
    }

    /// Writes bytes that are there; else none of them, or some.
    pub(super) fn write(&mut self, mut at: usize, mut bytes: &[u8]) {
        for packet in &mut *self.packets {
            let Some((start, end)) = place(packet) else { return };
            if at >= end - start {
                at -= end - start;
                continue;
            }
            let (here, rest) = bytes.split_at(bytes.len().min(end - start - at));
            if !packet.mbuf.write(start + at, here) || rest.is_empty() {
                return;
            }
            (at, bytes) = (0, rest);
        }
    }

    /// The sum over all bytes, added to `sum`.
    pub(super) fn sum(&self, mut sum: Sum) -> Sum {
        self.pieces(0, self.len(), |piece| sum = sum.bytes(piece));
        sum
    }

    /// The CRC32c over all bytes, those of the SCTP checksum taken as 0.
    pub(super) fn sctp_crc(&self) -> u32 {
        let mut crc = u32::MAX;
        self.pieces(0, SCTP_CHECKSUM.0, |piece| crc = crc32c(crc, piece));
        crc = crc32c(crc, &[0; SCTP_CHECKSUM.1 - SCTP_CHECKSUM.0]);
        self.pieces(SCTP_CHECKSUM.1, self.len(), |piece| crc = crc32c(crc, piece));
        !crc
    }
}

/// Where the part of an IP packet behind its headers starts and ends, padding left out; none where
/// the headers are malformed. The layers alone do not say so of packets beyond 64 KiB.
fn place(packet: &Packet) -> Option<(usize, usize)> {
    let start = Some(usize::from(packet.layers.l4)).filter(|_| packet.layers.l4 != u16::MAX)?;
    let l3 = packet.l3()?;
    let end = match packet.l3_type()? {
        ethertype::IPV4 => l3 + usize::from(be16(*packet.bytes(l3 + 2)?)),
        ethertype::IPV6 => l3 + 40 + usize::from(be16(*packet.bytes(l3 + 4)?)),
        _ => return None,
    };
    (start <= end && end <= packet.mbuf.len()).then_some((start, end))
}

/// [`place`], as the length alone.
pub(super) fn part_len(packet: &Packet) -> Option<usize> {
    place(packet).map(|(start, end)| end - start)
}

pub(super) const fn be16(bytes: [u8; 2]) -> u16 {
    u16::from_be_bytes(bytes)
}
