//! Reads packets of the plainest form: no fragments, no options of IP, headers in one segment.
//! Nearly all packets are; others are `read`'s.

use super::datagram::be16;
use super::read::{SYN, scale_among, segment, with_ports};
use crate::action::{Packet, TCP_LEN, UDP_LEN};
use crate::packet::checksum::Sum;
use crate::packet::ethertype;
use vswitch_conntrack::{End, Family, L4, Seen, Tuple, protocol, tcp};
use vswitch_dpdk::{Csum, Mbuf};
use vswitch_flow::extract::Layers;

/// What a plain packet says at `ct()` beside its tuple.
#[derive(Clone, Copy, Debug)]
pub enum Plain {
    /// TCP, over IPv6 if set.
    Tcp(tcp::Segment, bool),
    /// UDP, likewise.
    Udp(bool),
}

impl Plain {
    /// Reads a packet of TCP or UDP, of IPv6 if `v6`, whose headers lie where the layers say,
    /// without options and whole, as a compact key or [`seen`] has found out. None: its checksums
    /// or lengths are not right, or not in one segment; it is to be tracked as any other. That they
    /// are right is remembered in the mbuf.
    #[inline(always)] // into the fast path: a call for it costs 5 cycles of its 150
    #[allow(clippy::inline_always)] // see above
    pub fn read(mbuf: &mut Mbuf, layers: Layers, v6: bool) -> Option<Self> {
        let (l3, end) = (usize::from(layers.l3), usize::from(layers.l3_end));
        let l4 = l3 + if v6 { 40 } else { 20 };
        debug_assert_eq!(l4, usize::from(layers.l4), "without options");
        let len = end.checked_sub(l4)?;
        // Nobody sums GSO packets; of one without a size nobody knows whether it is one.
        let unchecked = mbuf.is_unchecked();
        let head = mbuf.head();
        let head = if unchecked {
            head.get(..end)?
        } else if mbuf.csum() == Csum::Bad || mbuf.csum() == Csum::Unknown && mbuf.gso_size() == 0 {
            return None;
        } else {
            &head[..end.min(head.len())]
        };
        let header = head.get(l3..l4)?;
        let (addresses, protocol) = if v6 {
            (&header[8..], header[6])
        } else {
            if !Sum::of_words::<20>(header.first_chunk()?).is_right() {
                return None;
            }
            (&header[12..], header[9])
        };
        let body = &head[l4..];
        let is_right = || {
            let others = [protocol.into(), u16::try_from(len).ok()?];
            let pseudo = match addresses.first_chunk::<32>() {
                Some(both) => Sum::of_words(both),
                None => match Sum::of_some(&head[l4 - 8..], others) {
                    // The addresses are what lies in front of L4.
                    Some(sum) => return sum.is_right().then_some(()),
                    None => Sum::of_words(addresses.first_chunk::<8>()?),
                },
            };
            pseudo.two_words(others).few_bytes(body).is_right().then_some(())
        };
        let plain = match protocol {
            protocol::TCP => {
                // First: what is read of a header before it is summed would have to be kept
                // meanwhile.
                if unchecked {
                    is_right()?;
                }
                // Options are left out: those of a SYN are whoever's business that has one
                // ([`seen`]).
                Self::Tcp(segment(body.first_chunk()?, len)?, v6)
            }
            protocol::UDP => {
                let header: &[u8; UDP_LEN] = body.first_chunk()?;
                let claimed = usize::from(be16([header[4], header[5]]));
                if claimed < UDP_LEN || claimed > len {
                    return None;
                }
                if !v6 && header[6..] == [0, 0] {
                    return Some(Self::Udp(false));
                }
                if unchecked {
                    is_right()?;
                }
                Self::Udp(v6)
            }
            _ => return None,
        };
        if unchecked {
            mbuf.set_csum(Csum::Good);
        }
        Some(plain)
    }

    /// The segment, of TCP.
    #[inline]
    #[must_use]
    pub const fn segment(&self) -> Option<&tcp::Segment> {
        match self {
            Self::Tcp(segment, _) => Some(segment),
            Self::Udp(_) => None,
        }
    }

    /// As far as rewriting wants to know.
    pub(super) fn seen(self, packet: &Packet) -> Seen {
        let (l4, protocol, v6) = match self {
            Self::Tcp(segment, v6) => (L4::Tcp(segment), protocol::TCP, v6),
            Self::Udp(v6) => (L4::Udp, protocol::UDP, v6),
        };
        let family = if v6 { Family::V6 } else { Family::V4 };
        let len = u32::try_from(packet.mbuf.len()).unwrap_or(u32::MAX);
        Seen { tuple: Tuple { family, protocol, ..Tuple::default() }, l4, len, ..Seen::default() }
    }
}

/// What the tracker is to see of a packet of the plainest form: TCP or UDP, no fragment, no options
/// of IP, in one segment, all of it right. The same as [`super::Conntrack::track`] would read,
/// sooner; into a place where it stays: what is written in pieces and moved at once waits for its
/// pieces. None: it may be anything, and nothing of what was written counts.
#[must_use]
#[inline]
pub fn seen<'s>(packet: &mut Packet, zone: u16, to: &'s mut Seen) -> Option<&'s Seen> {
    let (l3, l4) = (packet.l3()?, usize::from(packet.layers.l4));
    let kind = packet.l3_type()?;
    let head = packet.mbuf.head();
    let (tuple, end) = match (kind, l4.wrapping_sub(l3)) {
        (ethertype::IPV4, 20) => {
            let header: &[u8; 20] = head.get(l3..)?.first_chunk()?;
            // No options, no fragment.
            if header[0] != 0x45 || be16([header[6], header[7]]) & 0x3fff != 0 {
                return None;
            }
            let [.., a, b, c, d, e, f, g, h] = *header;
            let end = |addr: [u8; 4]| End { addr: u32::from_be_bytes(addr).into(), port: 0 };
            let (src, dst) = (end([a, b, c, d]), end([e, f, g, h]));
            let tuple = Tuple { src, dst, family: Family::V4, protocol: header[9], zone };
            (tuple, l3 + usize::from(be16([header[2], header[3]])))
        }
        (ethertype::IPV6, 40) => {
            let header: &[u8; 40] = head.get(l3..)?.first_chunk()?;
            let end = |at: usize| Some(End { addr: u128::from_be_bytes(*header[at..].first_chunk()?), port: 0 });
            let tuple = Tuple { src: end(8)?, dst: end(24)?, family: Family::V6, protocol: header[6], zone };
            (tuple, l4 + usize::from(be16([header[4], header[5]])))
        }
        _ => return None,
    };
    if end > packet.mbuf.len() || !matches!(tuple.protocol, protocol::TCP | protocol::UDP) {
        return None;
    }
    to.tuple = with_ports(tuple, head.get(l4..)?.first_chunk()?)?;
    // A header that says it is shorter than it is.
    if to.tuple.protocol == protocol::TCP && head.get(l4 + 12)? >> 4 < 5 {
        return None;
    }
    let layers = Layers { l3_end: u16::try_from(end).ok()?, ..packet.layers };
    to.len = u32::try_from(packet.mbuf.len()).unwrap_or(u32::MAX);
    if !read_apart(&mut packet.mbuf, layers, &mut to.l4) {
        return None;
    }
    if let L4::Tcp(segment) = &mut to.l4
        && segment.flags & SYN != 0
    {
        let header = packet.mbuf.head().get(l4..end)?;
        let len = usize::from(header.get(12)? >> 4) * 4;
        segment.scale = scale_among(header.get(TCP_LEN..len)?);
    }
    Some(to)
}

/// [`Plain::read`], for the slow path. False: it is none.
#[inline(never)]
fn read_apart(mbuf: &mut Mbuf, layers: Layers, to: &mut L4) -> bool {
    match Plain::read(mbuf, layers, layers.l4 - layers.l3 == 40) {
        Some(Plain::Tcp(segment, _)) => *to = L4::Tcp(segment),
        Some(Plain::Udp(_)) => *to = L4::Udp,
        None => return false,
    }
    true
}
