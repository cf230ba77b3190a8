//! From bytes to a [`FlowKey`]: `miniflow_extract` of Open vSwitch 3.1, case for case
//! (`extract/tests.rs` has its answers).
//!
//! On the packet path (whenever a cache misses): no allocation, headers are read as arrays of fixed
//! size so that one check of the length stands for all reads of it, and words are loaded whole.
//! Nothing is refused here: a broken header leaves its fields 0, and what lies above it unread.
//! Reads never go beyond the frame, whatever lengths its headers claim.
//!
//! The first fragment of a datagram keeps its ports (an action may read and write them). That Open
//! vSwitch's tables see ports of 0 in all fragments is a matter of looking up, not of extraction:
//! [`FlowKey::hide_fragment_ports`].

mod nd;
#[cfg(test)]
mod tests;

use crate::FlowKey;
use crate::field::number::*;

/// Where the headers of a packet lie, in bytes from its front; 0xffff: not there. The executor
/// writes headers by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Start of the L3 header (behind all VLAN tags that were parsed).
    pub l3: u16,
    /// Start of the L4 header; only where OVS would set it (not for malformed IP; for IPv6 behind
    /// the extension headers).
    pub l4: u16,
    /// End of the L3 packet by its own length field (padding follows); the frame's end if the
    /// header is malformed or not IP. Frames of more than 65534 bytes end there.
    pub l3_end: u16,
}

impl Default for Layers {
    fn default() -> Self {
        Self { l3: u16::MAX, l4: u16::MAX, l3_end: u16::MAX }
    }
}

impl Layers {
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // bounded just before
    fn new(l3: usize, l4: Option<usize>, end: usize) -> Self {
        let short = |offset: usize| offset.min(MAX_OFFSET) as u16;
        Self { l3: short(l3), l4: l4.map_or(u16::MAX, short), l3_end: short(end) }
    }
}

/// Largest offset that [`Layers`] can say.
const MAX_OFFSET: usize = u16::MAX as usize - 1;

/// VLAN tags that are parsed; the type behind them is `eth_type`, whatever it is.
const MAX_VLANS: usize = 2;

/// Smallest Ethernet type; below it the number is the length of an IEEE 802.2 frame.
const MIN_ETH_TYPE: u16 = 0x600;

// The words that are written, see key.rs.
const ETH_DST: usize = 28;
const ETH_SRC: usize = 29;
const VLANS: usize = 30;
const IPV4: usize = 31;
const IPV6: usize = 32;
const IP: usize = 36;
const PORTS: usize = 37;
const SHA: usize = 38;
const THA: usize = 39;
const ND_TARGET: usize = 40;
const GROUP: usize = 42;

/// Reads the headers of a frame into the packet words of `key`, which must be zero there; metadata
/// words stay as they are. `frame` is the first contiguous part of the packet (all headers lie in
/// it, else they are treated as cut off) and `len` the whole packet's length.
#[must_use]
pub fn extract(frame: &[u8], len: usize, key: &mut FlowKey) -> Layers {
    let frame = frame.get(..len).unwrap_or(frame);
    let Some(head) = frame.first_chunk::<14>() else { return Layers::default() };
    let (dst, src) = (be64(head, 0), be64(head, 6));
    // The type follows the source.
    let mut eth_type = low16(src);
    let mut l3 = 14;
    let mut tci = 0;
    if is_vlan(eth_type) {
        (eth_type, l3, tci) = vlans(frame, eth_type, key);
    }
    if eth_type < MIN_ETH_TYPE {
        (eth_type, l3) = llc(frame, l3);
    }
    key.0[ETH_DST] = dst & !0xffff | u64::from(eth_type);
    key.0[ETH_SRC] = src & !0xffff | u64::from(tci);
    match eth_type {
        ETH_IPV4 => ipv4(frame, len, l3, key),
        ETH_IPV6 => ipv6(frame, len, l3, key),
        ETH_ARP | ETH_RARP => {
            arp(frame, l3, key);
            Layers::new(l3, None, len)
        }
        _ => Layers::new(l3, None, len),
    }
}

/// Reads again what a router changes at a hop: Ethernet addresses and TTL (hop limit). Every other
/// byte is to be as it was when `key` and `layers` were read from the frame, and there is to be an
/// L4 header.
#[inline]
pub fn refresh_hop(frame: &[u8], layers: Layers, key: &mut FlowKey) {
    let Some(head) = frame.first_chunk::<14>() else { return };
    key.0[ETH_DST] = be64(head, 0) & !0xffff | key.0[ETH_DST] & 0xffff;
    key.0[ETH_SRC] = be64(head, 6) & !0xffff | key.0[ETH_SRC] & 0xffff;
    let at = match low16(key.0[ETH_DST]) {
        ETH_IPV4 => 8,
        ETH_IPV6 => 7,
        _ => return,
    };
    if let Some(ttl) = frame.get(usize::from(layers.l3) + at) {
        key.0[IP] = key.0[IP] & !(0xff << 16) | u64::from(*ttl) << 16;
    }
}

const fn is_vlan(eth_type: u16) -> bool {
    eth_type == ETH_VLAN || eth_type == ETH_QINQ
}

/// Reads tags. Returns the type behind them, where the header that it names starts, and the first
/// tag's TCI.
fn vlans(frame: &[u8], mut eth_type: u16, key: &mut FlowKey) -> (u16, usize, u16) {
    let mut at = 12;
    let mut tags = [(0u16, 0u16); MAX_VLANS];
    for tag in &mut tags {
        // TPID, TCI, and the next type must be there.
        let Some(bytes) = part::<6>(frame, at).filter(|_| is_vlan(eth_type)) else { break };
        *tag = (eth_type, be16(bytes, 2) | VLAN_PRESENT);
        eth_type = be16(bytes, 4);
        at += 4;
    }
    let [(tpid0, tci0), (tpid1, tci1)] = tags;
    key.0[VLANS] = u64::from(tpid0) << 48 | u64::from(tpid1) << 32 | u64::from(tci1) << 16;
    (eth_type, at + 2, tci0)
}

/// An IEEE 802.2 frame: the type of its SNAP header, if it has one. Returns the type and where the
/// payload starts.
#[cold]
fn llc(frame: &[u8], at: usize) -> (u16, usize) {
    match part::<8>(frame, at) {
        Some([0xaa, 0xaa, 0x03, 0, 0, 0, high, low]) => {
            let eth_type = u16::from_be_bytes([*high, *low]);
            (if eth_type < MIN_ETH_TYPE { ETH_NONE } else { eth_type }, at + 8)
        }
        _ => (ETH_NONE, at),
    }
}

#[inline]
fn ipv4(frame: &[u8], len: usize, l3: usize, key: &mut FlowKey) -> Layers {
    let broken = Layers::new(l3, None, len);
    let Some(header) = part::<20>(frame, l3) else { return broken };
    let header_len = usize::from(header[0] & 15) * 4;
    let total = usize::from(be16(header, 2));
    let size = len - l3;
    if header_len < 20 || header_len > total || total > size || size - total > usize::from(u16::MAX) {
        return broken;
    }
    let fragment = be16(header, 6);
    // More fragments, or an offset.
    let frag = if fragment & 0x3fff == 0 {
        0
    } else if fragment & 0x1fff == 0 {
        FRAG_ANY
    } else {
        FRAG_ANY | FRAG_LATER
    };
    let proto = header[9];
    key.0[IPV4] = be64(header, 12);
    key.0[IP] = u64::from(u32::from_be_bytes([header[1], header[8], proto, frag]));
    let (l4, end) = (l3 + header_len, l3 + total);
    if frag & FRAG_LATER == 0 {
        transport(frame, l4, end, proto, key);
    }
    Layers::new(l3, Some(l4), end)
}

fn ipv6(frame: &[u8], len: usize, l3: usize, key: &mut FlowKey) -> Layers {
    let broken = Layers::new(l3, None, len);
    let Some(header) = part::<40>(frame, l3) else { return broken };
    let payload = usize::from(be16(header, 4));
    let size = len - l3 - 40;
    if payload > size || size - payload > usize::from(u16::MAX) {
        return broken;
    }
    for i in 0..4 {
        key.0[IPV6 + i] = be64(header, 8 + 8 * i);
    }
    let end = l3 + 40 + payload;
    let Some((proto, frag, l4)) = extension_headers(frame, l3 + 40, end, header[6]) else {
        return Layers::new(l3, None, end);
    };
    let first = be32(header, 0);
    #[allow(clippy::cast_possible_truncation)] // the middle 8 bits
    let tos = (first >> 20) as u8;
    key.0[IP] = u64::from(first & 0xf_ffff) << 32 | u64::from(u32::from_be_bytes([tos, header[7], proto, frag]));
    if frag & FRAG_LATER == 0 {
        transport(frame, l4, end, proto, key);
    }
    Layers::new(l3, Some(l4), end)
}

/// Protocol numbers of IPv6's extension headers.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// Skips extension headers; the loop ends because each takes 8 bytes at least. Returns the protocol
/// behind them, `nw_frag`, and where that protocol's header starts; None: they are cut off.
fn extension_headers(frame: &[u8], mut at: usize, end: usize, mut proto: u8) -> Option<(u8, u8, usize)> {
    let mut frag = 0;
    while matches!(proto, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
        let header = part::<8>(frame, at).filter(|_| at + 8 <= end)?;
        let kind = proto;
        proto = header[0];
        at += match kind {
            FRAGMENT => 8,
            AUTHENTICATION => (usize::from(header[1]) + 2) * 4,
            _ => (usize::from(header[1]) + 1) * 8,
        };
        if at > end {
            return None;
        }
        let offset = be16(header, 2);
        if kind == FRAGMENT && offset != 0 {
            frag = FRAG_ANY;
            if offset & 0xfff8 != 0 {
                // What the fragment carries cannot be parsed.
                return Some((FRAGMENT, FRAG_ANY | FRAG_LATER, at));
            }
        }
    }
    Some((proto, frag, at))
}

/// Ports, type and code, and what else the L4 header has. `end`: of the L3 packet.
#[inline]
fn transport(frame: &[u8], l4: usize, end: usize, proto: u8, key: &mut FlowKey) {
    let data = frame.get(l4..end.min(frame.len())).unwrap_or_default();
    match proto {
        IP_TCP => {
            let Some(tcp) = data.first_chunk::<20>() else { return };
            let header_len = usize::from(tcp[12] >> 4) * 4;
            // A header that claims less than it has, or more than there is, is none.
            if header_len >= 20 && header_len <= end - l4 {
                let flags = be16(tcp, 12) & 0xfff;
                key.0[PORTS] = u64::from(be32(tcp, 0)) << 32 | u64::from(flags) << 16;
            }
        }
        IP_UDP => {
            if let Some(udp) = data.first_chunk::<8>() {
                key.0[PORTS] = u64::from(be32(udp, 0)) << 32;
            }
        }
        IP_SCTP => {
            if let Some(sctp) = data.first_chunk::<12>() {
                key.0[PORTS] = u64::from(be32(sctp, 0)) << 32;
            }
        }
        IP_ICMP | IP_IGMP | IP_ICMPV6 => control(data, proto, key),
        _ => {}
    }
}

/// ICMP, IGMP, ICMPv6: type and code stand where ports do.
fn control(data: &[u8], proto: u8, key: &mut FlowKey) {
    let Some(header) = data.first_chunk::<8>() else { return };
    key.0[PORTS] = u64::from(header[0]) << 48 | u64::from(header[1]) << 32;
    match proto {
        IP_IGMP => key.0[GROUP] = u64::from(be32(header, 4)) << 32,
        IP_ICMPV6 => nd::extract(header, &data[8..], key),
        _ => {}
    }
}

/// ARP for Ethernet and IPv4; others leave everything 0.
fn arp(frame: &[u8], l3: usize, key: &mut FlowKey) {
    let Some(arp) = part::<28>(frame, l3) else { return };
    // Hardware type 1, protocol IPv4, addresses of 6 and 4 bytes.
    if be64(arp, 0) >> 16 != 0x0001_0800_0604 {
        return;
    }
    let op = be16(arp, 6);
    key.0[IPV4] = u64::from(be32(arp, 14)) << 32 | u64::from(be32(arp, 24));
    if op <= 0xff {
        key.0[IP] = u64::from(op) << 8;
    }
    key.0[SHA] = be64(arp, 8) & !0xffff;
    key.0[THA] = be64(arp, 18) & !0xffff;
}

/// `N` bytes from `at`.
#[inline]
fn part<const N: usize>(frame: &[u8], at: usize) -> Option<&[u8; N]> {
    frame.get(at..)?.first_chunk()
}

// Offsets are constants, so that the checks are done by the compiler.

#[inline]
const fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
const fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
const fn be64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    (be32(bytes, at) as u64) << 32 | be32(bytes, at + 4) as u64
}

#[inline]
#[allow(clippy::cast_possible_truncation)]
const fn low16(number: u64) -> u16 {
    number as u16
}
