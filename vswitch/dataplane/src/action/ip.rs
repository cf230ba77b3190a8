//! IPv4 and IPv6 headers. Every checksum over a changed field is adjusted by the difference (RFC
//! 1624): a wrong one stays wrong by the same amount.

use super::{Packet, SetIpv4, SetIpv6};
use crate::packet::ethertype;

/// Rewrites an IPv4 header. A header that is cut off stays as it is.
pub(super) fn set_ipv4(packet: &mut Packet, set: &SetIpv4) {
    let Some(l3) = packet.l3() else { return };
    for (at, address) in [(l3 + 12, &set.src), (l3 + 16, &set.dst)] {
        let Some(header) = packet.bytes::<20>(l3) else { return };
        let old: [u8; 4] = array(&header[at - l3..]);
        let new = address.apply(u32::from_be_bytes(old)).to_be_bytes();
        if new == old {
            continue;
        }
        if let Some(l4) = packet.l4_of_ipv4() {
            packet.readdress(l4, &old, &new);
        }
        packet.adjust(l3 + 10, &old, &new);
        if let Some(field) = packet.bytes_mut(at) {
            *field = new;
        }
    }
    // Words under the checksum: version and TOS, TTL and protocol.
    for (at, byte, set) in [(l3, 1, &set.tos), (l3 + 8, 0, &set.ttl)] {
        let Some(old) = packet.bytes::<2>(at).copied() else { return };
        let mut new = old;
        new[byte] = set.apply(old[byte]);
        if new != old {
            packet.adjust(l3 + 10, &old, &new);
            if let Some(field) = packet.bytes_mut(at) {
                *field = new;
            }
        }
    }
}

/// Rewrites an IPv6 header. A header that is cut off stays as it is, and so does another
/// protocol's, which may be shorter.
pub(super) fn set_ipv6(packet: &mut Packet, set: &SetIpv6) {
    let Some(l3) = packet.l3().filter(|_| packet.l3_type() == Some(ethertype::IPV6)) else { return };
    let l4 = packet.l4_of_ipv6();
    for (at, address, is_destination) in [(8, &set.src, false), (24, &set.dst, true)] {
        let Some(header) = packet.bytes::<40>(l3) else { return };
        let old: [u8; 16] = array(&header[at..]);
        let new = address.apply(u128::from_be_bytes(old)).to_be_bytes();
        if new == old {
            continue;
        }
        // Behind a routing header the checksum covers the final destination (RFC 8200, 8.1), which
        // is not this one.
        if let Some(l4) = l4.filter(|l4| !(is_destination && l4.routed)) {
            packet.readdress(l4, &old, &new);
        }
        if let Some(field) = packet.bytes_mut(l3 + at) {
            *field = new;
        }
    }
    let Some(header) = packet.bytes_mut::<40>(l3) else { return };
    let word = u32::from_be_bytes(array(header));
    let label = set.label.apply(word) & 0xf_ffff;
    let tclass = set.tclass.apply((word >> 20 & 0xff) as u8);
    header[..4].copy_from_slice(&(word & 0xf000_0000 | u32::from(tclass) << 20 | label).to_be_bytes());
    header[7] = set.hop_limit.apply(header[7]);
}

/// Raises the drop precedence of an assured forwarding code point (RFC 2597) by `by`, up to 3: what
/// a meter's remark does. Other code points stay.
pub(super) fn remark(packet: &mut Packet, by: u8) {
    let Some(l3) = packet.l3() else { return };
    let Some(first) = packet.bytes::<2>(l3).map(|word| u16::from_be_bytes(*word)) else { return };
    match packet.l3_type() {
        Some(ethertype::IPV4) => {
            let tos = super::Masked { value: remarked((first & 0xff) as u8, by), mask: 0xfc };
            set_ipv4(packet, &SetIpv4 { tos, ..SetIpv4::default() });
        }
        Some(ethertype::IPV6) => {
            let tclass = super::Masked { value: remarked((first >> 4 & 0xff) as u8, by), mask: 0xfc };
            set_ipv6(packet, &SetIpv6 { tclass, ..SetIpv6::default() });
        }
        _ => {}
    }
}

/// A TOS byte with its drop precedence raised: AFcd is the code point 8c + 2d, in the upper six
/// bits.
fn remarked(tos: u8, by: u8) -> u8 {
    let (class, precedence) = (tos >> 5, tos >> 3 & 3);
    if (1..=4).contains(&class) && precedence > 0 && tos & 4 == 0 {
        tos & 0xe7 | precedence.saturating_add(by).min(3) << 3
    } else {
        tos
    }
}

/// The first bytes of a slice that is long enough: all callers cut it out of a checked header.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}
