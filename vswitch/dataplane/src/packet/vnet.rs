//! The virtio-net header (virtio 1.1, 5.1.6), as TAP, AF_PACKET and vhost speak it.

use super::checksum;
use super::headers::{HEADERS_MAX, Headers, L4, be16};
use super::nested::{Nested, holds_pseudo_sum};
use crate::observe::DropReason;
use vswitch_dpdk::{Csum, Mbuf, crc32c};

/// `struct virtio_net_hdr`, 10 bytes, host byte order (little-endian here).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHdr {
    /// `VIRTIO_NET_HDR_F_*`.
    pub flags: u8,
    /// `VIRTIO_NET_HDR_GSO_*`.
    pub gso_type: u8,
    /// Bytes of Ethernet, IP and L4 headers: a hint, not to be trusted.
    pub hdr_len: u16,
    /// Payload bytes per segment.
    pub gso_size: u16,
    /// Where the checksum starts.
    pub csum_start: u16,
    /// Where it is stored, from `csum_start`.
    pub csum_offset: u16,
}

/// Where SCTP has its checksum (RFC 9260, 3.1).
const SCTP_CHECKSUM: usize = 8;

/// Bit of TCP's flags byte (offset 13): congestion window reduced (RFC 3168).
const TCP_CWR: u8 = 0x80;

impl VnetHdr {
    /// Bytes on the wire.
    pub const LEN: usize = 10;
    /// `csum_start` and `csum_offset` are valid.
    pub const NEEDS_CSUM: u8 = 1;
    /// The checksum was verified.
    pub const DATA_VALID: u8 = 2;
    /// Not a GSO packet.
    pub const GSO_NONE: u8 = 0;
    /// TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// A train of UDP datagrams, over either IP (virtio 1.3).
    pub const GSO_UDP_L4: u8 = 5;
    /// Added to a TCP type: the first segment carries CWR.
    pub const GSO_ECN: u8 = 0x80;

    /// Reads the 10 bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 10]) -> Self {
        let [flags, gso_type, h0, h1, g0, g1, s0, s1, o0, o1] = *bytes;
        Self {
            flags,
            gso_type,
            hdr_len: u16::from_le_bytes([h0, h1]),
            gso_size: u16::from_le_bytes([g0, g1]),
            csum_start: u16::from_le_bytes([s0, s1]),
            csum_offset: u16::from_le_bytes([o0, o1]),
        }
    }

    /// Writes the 10 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 10] {
        let [h0, h1] = self.hdr_len.to_le_bytes();
        let [g0, g1] = self.gso_size.to_le_bytes();
        let [s0, s1] = self.csum_start.to_le_bytes();
        let [o0, o1] = self.csum_offset.to_le_bytes();
        [self.flags, self.gso_type, h0, h1, g0, g1, s0, s1, o0, o1]
    }

    /// Takes what the header says of a received packet over into the mbuf (`set_csum`,
    /// `set_gso_size`), trusting nothing: partial stays partial only where the parsed L4 checksum
    /// is the one that the header names (else it is finished here). A packet for segmentation
    /// inside of a tunnel of its sender becomes one ([`Mbuf::inner_len`]).
    ///
    /// # Errors
    /// [`DropReason::VnetHeader`] when the header contradicts the bytes.
    pub fn accept(self, mbuf: &mut Mbuf) -> Result<(), DropReason> {
        if self.flags & Self::NEEDS_CSUM == 0 {
            if self.gso_type != Self::GSO_NONE {
                // Virtio 1.1, 5.1.6.2: GSO comes with NEEDS_CSUM
                return Err(DropReason::VnetHeader);
            }
            if self.flags & Self::DATA_VALID != 0 {
                mbuf.set_csum(Csum::Good);
            }
            return Ok(());
        }
        let start = usize::from(self.csum_start);
        let field = start + usize::from(self.csum_offset);
        if field + 2 > mbuf.len() {
            return Err(DropReason::VnetHeader);
        }
        let headers = Headers::of(mbuf);
        match headers.filter(|found| found.l4_start() == start && found.checksum_at() == Some(field)) {
            Some(found) => {
                let gso_size = self.accept_gso(&found, mbuf.len())?;
                mbuf.set_gso_size(gso_size);
                mbuf.set_csum(Csum::Partial);
                Ok(())
            }
            None if self.gso_type == Self::GSO_NONE => finish_elsewhere(mbuf, headers, start, field),
            None => self.accept_nested(mbuf, start),
        }
    }

    /// Takes over what a kernel says of a packet for segmentation whose L4 header is inside of a
    /// tunnel. What is outside has a partial checksum, too, or none.
    fn accept_nested(self, mbuf: &mut Mbuf, start: usize) -> Result<(), DropReason> {
        let nested = Nested::find(mbuf, start).ok_or(DropReason::VnetHeader)?;
        if nested.checksum_at() != start + usize::from(self.csum_offset) {
            return Err(DropReason::VnetHeader);
        }
        self.accept_gso(&nested.inner, mbuf.len())?;
        let outside = match nested.outer_checksum_at() {
            None => Csum::Good,
            Some(at) => {
                let mut front = [0; HEADERS_MAX];
                let front = front.get_mut(..mbuf.len().min(HEADERS_MAX)).ok_or(DropReason::VnetHeader)?;
                if !mbuf.read(0, front) {
                    return Err(DropReason::VnetHeader);
                }
                match be16(front, at) {
                    Some(0) => Csum::Good,
                    Some(_) if holds_pseudo_sum(front, &nested.outer) => Csum::Partial,
                    _ => return Err(DropReason::VnetHeader),
                }
            }
        };
        let inner_len = u16::try_from(mbuf.len() - start).map_err(|_| DropReason::VnetHeader)?;
        mbuf.set_inner_gso(self.gso_size, inner_len);
        mbuf.set_csum(outside);
        Ok(())
    }

    /// The segment size of a packet that the header calls GSO and the bytes agree; 0 for an
    /// ordinary one.
    fn accept_gso(self, headers: &Headers, len: usize) -> Result<u16, DropReason> {
        let fits = match self.gso_type {
            Self::GSO_NONE => return Ok(0),
            Self::GSO_UDP_L4 => headers.l4 == Some(L4::Udp),
            tcp => match tcp & !Self::GSO_ECN {
                Self::GSO_TCPV4 => headers.l4 == Some(L4::Tcp) && headers.ipv4,
                Self::GSO_TCPV6 => headers.l4 == Some(L4::Tcp) && !headers.ipv4,
                _ => false, // UFO (3) is gone from Linux and its segments would be fragments
            },
        };
        if !fits || self.gso_size == 0 {
            return Err(DropReason::VnetHeader);
        }
        if headers.payload_len() <= self.gso_size.into() {
            return Ok(0);
        }
        // A device that segments goes by the length of the packet: padding would become payload.
        if headers.end == len { Ok(self.gso_size) } else { Err(DropReason::VnetHeader) }
    }

    /// The header to send with a packet to a peer that takes partial checksums and GSO; all offsets
    /// come from the bytes.
    ///
    /// # Errors
    /// [`DropReason::VnetHeader`] when a partial or GSO packet has no L4 header that can be
    /// described, or a GSO packet is in a tunnel.
    pub fn describe(mbuf: &Mbuf) -> Result<Self, DropReason> {
        if !mbuf.needs_offload() {
            let flags = if mbuf.csum() == Csum::Good { Self::DATA_VALID } else { 0 };
            return Ok(Self { flags, ..Self::default() });
        }
        Self::describe_offload(mbuf).ok_or(DropReason::VnetHeader)
    }

    fn describe_offload(mbuf: &Mbuf) -> Option<Self> {
        if mbuf.inner_len() != 0 {
            return None;
        }
        let headers = Headers::of(mbuf)?;
        let l4 = headers.l4.filter(|_| mbuf.csum() == Csum::Partial)?;
        let start = headers.l4_start();
        let mut header = Self {
            flags: Self::NEEDS_CSUM,
            csum_start: u16::try_from(start).ok()?,
            csum_offset: u16::try_from(l4.checksum_offset()).ok()?,
            ..Self::default()
        };
        let gso_size = mbuf.gso_size();
        if gso_size == 0 || headers.payload_len() <= gso_size.into() {
            return Some(header);
        }
        if headers.end != mbuf.len() {
            return None;
        }
        header.gso_size = gso_size;
        header.hdr_len = u16::try_from(headers.payload_start()).ok()?;
        header.gso_type = match l4 {
            L4::Udp => Self::GSO_UDP_L4,
            L4::Tcp => {
                let mut flags = [0];
                mbuf.read(start + 13, &mut flags).then_some(())?;
                let family = if headers.ipv4 { Self::GSO_TCPV4 } else { Self::GSO_TCPV6 };
                family | if flags[0] & TCP_CWR != 0 { Self::GSO_ECN } else { 0 }
            }
        };
        Some(header)
    }
}

/// Does what the header asks where the checksum is not that of the outermost TCP or UDP header (a
/// guest's own tunnel, ICMP): nobody behind us looks there.
fn finish_elsewhere(mbuf: &mut Mbuf, headers: Option<Headers>, start: usize, field: usize) -> Result<(), DropReason> {
    let inside = headers.filter(|found| field + 2 <= found.end);
    let end = inside.map_or(mbuf.len(), |found| found.end);
    // No other protocol has its checksum there, and this one is a CRC32c, of which the kernel says
    // it in the same words.
    let finished = if field - start == SCTP_CHECKSUM {
        finish_crc32c(mbuf, start, field, end)
    } else {
        // 0xffff for 0 always: right for UDP, and the same number for every other protocol (Linux:
        // skb_checksum_help).
        checksum::finish(mbuf, start, field, end, true)
    };
    if !finished {
        return Err(DropReason::VnetHeader);
    }
    mbuf.set_csum(Csum::Unknown);
    Ok(())
}

/// Writes the CRC32c over `start..end` (RFC 9260, appendix A), the field at `field` in it taken as
/// 0. False, and nothing is written, when the packet is shorter.
fn finish_crc32c(mbuf: &mut Mbuf, start: usize, field: usize, end: usize) -> bool {
    if end > mbuf.len() || field + 4 > end || !mbuf.write(field, &[0; 4]) {
        return false;
    }
    let mut crc = u32::MAX;
    mbuf.visit(start, end.saturating_sub(start), |piece| crc = crc32c(crc, piece));
    mbuf.write(field, &(!crc).to_le_bytes())
}

#[cfg(test)]
mod tests;
