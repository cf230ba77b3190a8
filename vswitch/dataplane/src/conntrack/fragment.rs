//! Whether a packet is a fragment, and which part of which datagram.

use super::CtPlace;
use super::datagram::{be16, part_len};
use crate::action::Packet;
use crate::packet::checksum::Sum;
use crate::packet::ethertype;
use vswitch_conntrack::Family;

/// Fragments of the same key are of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) port: u16,
    pub(super) zone: u16,
    tunnel: u64,
    pub(super) family: Family,
    /// Addresses; IPv4 in the low 32 bits.
    src: u128,
    dst: u128,
    /// 0 of IPv6: there the id alone counts (RFC 8200, 4.5).
    protocol: u8,
    id: u32,
}

/// A part of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    pub(super) key: Key,
    /// Where it belongs, in bytes.
    pub(super) offset: usize,
    /// Bytes; not 0.
    pub(super) len: usize,
    /// It is not the last one.
    pub(super) more: bool,
}

/// What a packet is to reassembly.
#[derive(Clone, Copy, Debug)]
pub(super) enum FragmentKind {
    /// No fragment: also not IP, malformed, an atomic fragment (RFC 6946).
    Whole,
    /// One whose IPv4 header has a wrong checksum: nothing that it says is true.
    Damaged,
    /// One that no datagram has.
    Impossible,
    /// A fragment.
    Fragment(Fragment),
}

/// Bytes of the longest IP packet: without the header of IPv6.
const PACKET_MAX: usize = 65_535;

/// Looks at the IP headers of a packet.
pub(super) fn kind_of(packet: &Packet, zone: u16, place: CtPlace) -> FragmentKind {
    let found = match packet.l3_type() {
        Some(ethertype::IPV4) => ipv4(packet, zone, place),
        Some(ethertype::IPV6) => ipv6(packet, zone, place),
        _ => None,
    };
    found.unwrap_or(FragmentKind::Whole)
}

fn ipv4(packet: &Packet, zone: u16, place: CtPlace) -> Option<FragmentKind> {
    let l3 = packet.l3()?;
    let header: &[u8; 20] = packet.bytes(l3)?;
    let field = be16([header[6], header[7]]);
    if field & 0x3fff == 0 {
        return None;
    }
    let (len, header_len) = (part_len(packet)?, usize::from(header[0] & 15) * 4);
    if Sum::of(packet.mbuf.head().get(l3..l3 + header_len)?).folded() != 0xffff {
        return Some(FragmentKind::Damaged);
    }
    let addr = |at: usize| header[at..].first_chunk().map_or(0, |addr| u32::from_be_bytes(*addr)).into();
    let key = Key {
        port: place.port.0,
        zone,
        tunnel: place.tunnel,
        family: Family::V4,
        src: addr(12),
        dst: addr(16),
        protocol: header[9],
        id: be16([header[4], header[5]]).into(),
    };
    let offset = usize::from(field & 0x1fff) * 8;
    Some(checked(Fragment { key, offset, len, more: field & 0x2000 != 0 }, header_len))
}

fn ipv6(packet: &Packet, zone: u16, place: CtPlace) -> Option<FragmentKind> {
    let l3 = packet.l3()?;
    let chain = packet.chain_of_ipv6()?;
    let at = chain.fragment?;
    let header: &[u8; 8] = packet.bytes(at)?;
    let (src, dst): (&[u8; 16], &[u8; 16]) = (packet.bytes(l3 + 8)?, packet.bytes(l3 + 24)?);
    let key = Key {
        port: place.port.0,
        zone,
        tunnel: place.tunnel,
        family: Family::V6,
        src: u128::from_be_bytes(*src),
        dst: u128::from_be_bytes(*dst),
        protocol: 0,
        id: u32::from_be_bytes(*header.last_chunk()?),
    };
    let field = be16([header[2], header[3]]);
    if field & 0xfff9 == 0 {
        return None;
    }
    // Extension headers behind the fragment header are part of what was cut.
    let end = usize::from(packet.layers.l4) + part_len(packet)?;
    let fragment = Fragment {
        key,
        offset: usize::from(field & 0xfff8),
        len: end.checked_sub(at + header.len())?,
        more: field & 1 != 0,
    };
    Some(if chain.fragments == 1 { checked(fragment, at - l3 - 40) } else { FragmentKind::Impossible })
}

/// `before`: bytes of the reassembled packet, as its length counts them, in front of what was cut.
fn checked(fragment: Fragment, before: usize) -> FragmentKind {
    let Fragment { offset, len, more, .. } = fragment;
    if len == 0 || more && !len.is_multiple_of(8) || before + offset + len > PACKET_MAX {
        return FragmentKind::Impossible;
    }
    FragmentKind::Fragment(fragment)
}
