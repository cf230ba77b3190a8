//! Packets for segmentation inside of a tunnel that their sender made: VXLAN, Geneve, FOU and
//! others over UDP, GRE, IP in IP.
//!
//! A kernel hands such a packet to a packet socket as TCP (or as a train of UDP datagrams) whose
//! checksum starts at the *innermost* L4 header, and says nothing of the tunnel (Linux,
//! `virtio_net_hdr_from_skb`). The outer headers are whole, with lengths of the long packet. An
//! outer UDP checksum is 0 or partial, that of GRE is still to be made.
//!
//! No receiver is told the same way: a kernel that has to cut the packet again does not know the
//! tunnel and drops it. So it is cut here before it leaves.

use super::checksum::{Sum, pseudo_v4, pseudo_v6};
use super::headers::{HEADERS_MAX, Headers, L4, be16};
use super::{ethertype, tcp, udp};
use vswitch_dpdk::Mbuf;

/// IP in IP (RFC 2003, RFC 2473) and IPv6 in IP (RFC 4213, RFC 2473).
const IPIP: u8 = 4;
const IP6IP: u8 = 41;
const GRE: u8 = 47;

/// Ethernet in GRE (RFC 1701).
const TEB: u16 = 0x6558;

/// Bits of GRE's first word: checksum, key (RFC 2890).
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_KEY: u16 = 0x2000;

/// What of the tunnel depends on the length of a packet, beside the outer IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NestedKind {
    /// Nothing.
    Ip,
    /// Length and checksum of UDP. What follows is copied, whatever it is.
    Udp,
    /// GRE's checksum, if there is one.
    Gre {
        /// There is one.
        checksum: bool,
    },
}

/// Where the headers of such a packet lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nested {
    pub(super) outer: Headers,
    pub(super) kind: NestedKind,
    /// The innermost ones; `l2_len` is all that is in front of them.
    pub(super) inner: Headers,
    pub(super) l4: L4,
}

impl Nested {
    /// Of a packet for which [`Mbuf::inner_len`] says that it is one.
    pub(super) fn of(mbuf: &Mbuf) -> Option<Self> {
        let inner_len = usize::from(mbuf.inner_len());
        if inner_len == 0 { None } else { Self::find(mbuf, mbuf.len().checked_sub(inner_len)?) }
    }

    /// Finds the headers of a packet whose innermost L4 header starts at `start` and has the sum
    /// over its pseudo-header in its checksum field. None where the bytes are not those of a tunnel
    /// that can be cut.
    ///
    /// The tunnel's own header over UDP is not read: its port does not say which one it is. The
    /// innermost IP header is found from behind. It ends at `start`, its length is that of the
    /// packet, and its addresses are those of the pseudo-header.
    pub(super) fn find(mbuf: &Mbuf, start: usize) -> Option<Self> {
        let len = mbuf.len();
        let mut bytes = [0; HEADERS_MAX];
        let bytes = bytes.get_mut(..len.min(HEADERS_MAX))?;
        mbuf.read(0, bytes).then_some(())?;
        let outer = Headers::parse(bytes, len).filter(|outer| !outer.fragment && outer.end == len)?;
        // Else nothing that is summed in between would be a row of words.
        let front = start.checked_sub(outer.l4_start()).filter(|front| front.is_multiple_of(2))?;
        let (kind, at) = NestedKind::of(&outer, bytes)?;
        let fits = |inner: Headers| {
            let found = Self { outer, kind, inner, l4: inner.l4? };
            let whole = inner.l4_start() == start && inner.end == len && inner.payload_start() <= HEADERS_MAX;
            (whole && holds_pseudo_sum(bytes, &inner)).then_some(found)
        };
        let (least, most) = match at {
            At::Here(at) => (at, at),
            At::Behind(least) => (least, start.checked_sub(20)?),
        };
        // The header of an IPv4 packet is some words of 32 bits, that of an IPv6 packet some of 64.
        let mut places = (5..=front / 4).map(|words| start - 4 * words).filter(|at| (least..=most).contains(at));
        places.find_map(|at| Headers::from_ip(bytes, at, len).and_then(fits))
    }

    /// Where the checksum of the innermost L4 header lies.
    pub(super) const fn checksum_at(&self) -> usize {
        self.inner.l4_start() + self.l4.checksum_offset()
    }

    /// Where the checksum of the outer UDP header lies.
    pub(super) fn outer_checksum_at(&self) -> Option<usize> {
        (self.kind == NestedKind::Udp).then(|| self.outer.l4_start() + L4::Udp.checksum_offset())
    }
}

/// Where the innermost IP header may be.
enum At {
    Here(usize),
    Behind(usize),
}

impl NestedKind {
    /// The kind of tunnel, and where what is in it starts; none where its pieces could not be made.
    fn of(outer: &Headers, bytes: &[u8]) -> Option<(Self, At)> {
        let start = outer.l4_start();
        match outer.protocol {
            IPIP | IP6IP => Some((Self::Ip, At::Here(start))),
            udp::PROTOCOL if outer.l4 == Some(L4::Udp) => Some((Self::Udp, At::Behind(outer.payload_start()))),
            GRE => {
                let flags = be16(bytes, start)?;
                // A piece's own sequence number is not for us to choose; other bits are of other
                // versions.
                if flags & !(GRE_CHECKSUM | GRE_KEY) != 0 {
                    return None;
                }
                let words = 1 + usize::from(flags & GRE_CHECKSUM != 0) + usize::from(flags & GRE_KEY != 0);
                let behind = start + 4 * words;
                let at = match be16(bytes, start + 2)? {
                    ethertype::IPV4 | ethertype::IPV6 => At::Here(behind),
                    TEB => At::Behind(behind + 14),
                    _ => return None,
                };
                Some((Self::Gre { checksum: flags & GRE_CHECKSUM != 0 }, at))
            }
            _ => None,
        }
    }
}

/// Whether the L4 checksum field holds the sum over the pseudo-header of the addresses in the IP
/// header.
pub(super) fn holds_pseudo_sum(bytes: &[u8], headers: &Headers) -> bool {
    // Two numbers stand for zero.
    pseudo_sum(bytes, headers).is_some_and(|(held, sum)| held % 0xffff == sum % 0xffff)
}

/// What the field holds, and what it should.
fn pseudo_sum(bytes: &[u8], headers: &Headers) -> Option<(u16, u16)> {
    let held = be16(bytes, headers.checksum_at()?)?;
    let protocol = if headers.l4? == L4::Tcp { tcp::PROTOCOL } else { udp::PROTOCOL };
    let len = headers.end - headers.l4_start();
    let ip = bytes.get(headers.l2_len..)?;
    let sum: Sum = if headers.ipv4 {
        let len = u16::try_from(len).ok()?;
        pseudo_v4(*ip.get(12..)?.first_chunk()?, *ip.get(16..)?.first_chunk()?, protocol, len)
    } else {
        let len = u32::try_from(len).ok()?;
        pseudo_v6(ip.get(8..)?.first_chunk()?, ip.get(24..)?.first_chunk()?, protocol, len)
    };
    Some((held, sum.folded()))
}

#[cfg(test)]
mod tests;
