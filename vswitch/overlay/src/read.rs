//! What the outer headers of a tunnel's packet say.
//!
//! **Semantics**: what Open vSwitch 3.1 refuses is refused (`netdev_tnl_ip_extract_tnl_md` and the
//! functions that call it): IPv4 options, GRE with flags that it does not know, VXLAN with bits set
//! that must not be. Beyond that, fragments are, lengths must agree with each other, and what is
//! inside is an Ethernet frame. The group policy of VXLAN is understood, as by Linux.

use crate::wire::{self, BASE, IPV4, IPV6, UDP, be16, be32, fold, part, pseudo, sum};
use crate::{Ends, TunnelKind};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// What a tunnel's packet says. Offsets are from its Ethernet header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// As it was read.
    pub kind: TunnelKind,
    /// The two ends.
    pub ends: Ends,
    /// Type of service, traffic class.
    pub tos: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// VNI or GRE key; none: a GRE header without key.
    pub id: Option<u32>,
    /// There is a checksum in it (`FLOW_TNL_F_CSUM`).
    pub csum: bool,
    /// Geneve's O bit.
    pub oam: bool,
    /// `tun_gbp_flags` and `tun_gbp_id`, of a VXLAN header with the G bit. A port without
    /// `exts=gbp` refuses such a packet as [`Malformed::Flags`].
    pub gbp: Option<(u8, u16)>,
    /// Geneve's options, for [`crate::OptionMap::decode`]; else empty.
    pub options: Range<usize>,
    /// Bytes in front of the inner Ethernet header.
    pub header_len: usize,
    /// End of the inner frame, as the outer lengths say: what is behind it is padding.
    pub payload_end: usize,
    /// What the caller must verify; none: there is no checksum.
    pub checksum: Option<WireChecksum>,
}

/// A checksum to be verified over the bytes of the packet, which may be in several pieces: it is
/// right if `sum` and the sum over the bytes `start..end` fold to 0xffff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireChecksum {
    /// First byte of what is summed: the UDP or GRE header.
    pub start: usize,
    /// Behind the last one.
    pub end: usize,
    /// The folded sum of the pseudo-header, in host byte order; 0 for GRE.
    pub sum: u16,
}

/// Why a packet is none of a tunnel's. All of them are `tunnel_header` to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The headers are not all there.
    #[error("a header is cut short")]
    Short,
    /// A length contradicts the packet or another one.
    #[error("a length is wrong")]
    Length,
    /// Another version of IP, GRE or Geneve.
    #[error("unknown version")]
    Version,
    /// Flags, or bits that must be 0, that this version does not know: GRE routing, VXLAN without
    /// I.
    #[error("unknown flags")]
    Flags,
    /// What is inside is no Ethernet frame, or the packet is of another protocol.
    #[error("another protocol")]
    Protocol,
    /// IPv4 options, as in Open vSwitch; a routing header that has not ended.
    #[error("IP options")]
    Options,
    /// A fragment.
    #[error("a fragment")]
    Fragment,
    /// The IPv4 header checksum is wrong.
    #[error("wrong IPv4 header checksum")]
    Checksum,
}

/// Reads the outer headers. `packet`: its first bytes, from its Ethernet header, in one piece;
/// `len`: of all of it; `l3`: where its IP header starts. It is enough if `packet` has
/// [`crate::HEADER_MAX`] and four bytes per VLAN tag, or all there is: what has more in front of
/// the tunnel's header (IPv6 extension headers) may be [`Malformed::Short`] then.
///
/// Not checked: addresses, the UDP destination port, the checksum over the payload
/// ([`Outside::checksum`]), what the options mean. The inner frame has 14 bytes at least.
///
/// # Errors
/// Total: whatever the bytes are, it says what is wrong with them.
pub fn read(kind: TunnelKind, packet: &[u8], len: usize, l3: usize) -> Result<Outside, Malformed> {
    let packet = &packet[..packet.len().min(len)];
    let ip = ip(packet, len, l3)?;
    let protocol = if kind == TunnelKind::Gre { wire::PROTOCOL_GRE } else { wire::PROTOCOL_UDP };
    if ip.protocol != protocol {
        return Err(Malformed::Protocol);
    }
    let mut outside = Outside {
        kind,
        ends: ip.ends,
        tos: ip.tos,
        ttl: ip.ttl,
        id: None,
        csum: false,
        oam: false,
        gbp: None,
        options: 0..0,
        header_len: ip.l4,
        payload_end: ip.end,
        checksum: None,
    };
    match kind {
        TunnelKind::Geneve => udp(packet, &mut outside).and_then(|()| geneve(packet, &mut outside))?,
        TunnelKind::Vxlan => udp(packet, &mut outside).and_then(|()| vxlan(packet, &mut outside))?,
        TunnelKind::Gre => gre(packet, &mut outside)?,
    }
    if outside.header_len + wire::ETHERNET > outside.payload_end {
        return Err(Malformed::Length);
    }
    Ok(outside)
}

/// What the IP header says.
struct Ip {
    ends: Ends,
    tos: u8,
    ttl: u8,
    protocol: u8,
    l4: usize,
    /// As the length says, which the packet has.
    end: usize,
}

fn ip(packet: &[u8], len: usize, l3: usize) -> Result<Ip, Malformed> {
    match part::<1>(packet, l3).ok_or(Malformed::Short)?[0] >> 4 {
        4 => ipv4(packet, len, l3),
        6 => ipv6(packet, len, l3),
        _ => Err(Malformed::Version),
    }
}

fn ipv4(packet: &[u8], len: usize, l3: usize) -> Result<Ip, Malformed> {
    let header = part::<IPV4>(packet, l3).ok_or(Malformed::Short)?;
    match usize::from(header[0] & 0xf) * 4 {
        IPV4 => {}
        more if more > IPV4 => return Err(Malformed::Options),
        _ => return Err(Malformed::Length),
    }
    if fold(sum(header)) != 0xffff {
        return Err(Malformed::Checksum);
    }
    let total = usize::from(be16(header, 2));
    if total < IPV4 || total > len - l3 {
        return Err(Malformed::Length);
    }
    // More fragments, or an offset.
    if be16(header, 6) & 0x3fff != 0 {
        return Err(Malformed::Fragment);
    }
    let ends = Ends::V4 { src: Ipv4Addr::from_bits(be32(header, 12)), dst: Ipv4Addr::from_bits(be32(header, 16)) };
    Ok(Ip { ends, tos: header[1], ttl: header[8], protocol: header[9], l4: l3 + IPV4, end: l3 + total })
}

fn ipv6(packet: &[u8], len: usize, l3: usize) -> Result<Ip, Malformed> {
    let header = part::<IPV6>(packet, l3).ok_or(Malformed::Short)?;
    let end = l3 + IPV6 + usize::from(be16(header, 4));
    if end > len {
        return Err(Malformed::Length);
    }
    let (protocol, l4) = extension_headers(packet, l3 + IPV6, end, header[6])?;
    let address = |at: usize| part::<16>(header, at).copied().map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from);
    let [high, low] = [header[0], header[1]];
    Ok(Ip {
        ends: Ends::V6 { src: address(8), dst: address(24) },
        tos: high << 4 | low >> 4,
        ttl: header[7],
        protocol,
        l4,
        end,
    })
}

/// Protocol numbers of IPv6's extension headers.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// The protocol behind the extension headers, and where it starts. Each of them has eight bytes at
/// least, so this ends with the packet.
fn extension_headers(packet: &[u8], at: usize, end: usize, first: u8) -> Result<(u8, usize), Malformed> {
    let (mut next, mut at) = (first, at);
    loop {
        if !matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION) {
            return Ok((next, at));
        }
        let header = header::<8>(packet, at, end)?;
        let units = usize::from(header[1]);
        let size = match next {
            FRAGMENT => return Err(Malformed::Fragment),
            // It has not arrived: the destination address is not the last one.
            ROUTING if header[3] != 0 => return Err(Malformed::Options),
            AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        (next, at) = (header[0], at + size);
        if at > end {
            return Err(Malformed::Length);
        }
    }
}

/// A header in front of `end`, up to which the packet is known to go.
fn header<const N: usize>(packet: &[u8], at: usize, end: usize) -> Result<&[u8; N], Malformed> {
    if at + N > end { Err(Malformed::Length) } else { part(packet, at).ok_or(Malformed::Short) }
}

/// Goes on behind the UDP header, which starts at `header_len`.
fn udp(packet: &[u8], outside: &mut Outside) -> Result<(), Malformed> {
    let start = outside.header_len;
    let header = header::<UDP>(packet, start, outside.payload_end)?;
    let length = be16(header, 4);
    let end = start + usize::from(length);
    if usize::from(length) < UDP || end > outside.payload_end {
        return Err(Malformed::Length);
    }
    outside.header_len = start + UDP;
    outside.payload_end = end;
    if be16(header, 6) != 0 {
        let sum = fold(pseudo(&outside.ends, wire::PROTOCOL_UDP) + u32::from(length));
        outside.checksum = Some(WireChecksum { start, end, sum });
        outside.csum = true;
    }
    Ok(())
}

fn geneve(packet: &[u8], outside: &mut Outside) -> Result<(), Malformed> {
    let start = outside.header_len;
    let header = header::<BASE>(packet, start, outside.payload_end)?;
    if header[0] >> 6 != 0 {
        return Err(Malformed::Version);
    }
    if be16(header, 2) != wire::ETH_TYPE_TEB {
        return Err(Malformed::Protocol);
    }
    let first = start + BASE;
    let options = first..first + usize::from(header[0] & 0x3f) * 4;
    if options.end > outside.payload_end {
        return Err(Malformed::Length);
    }
    if options.end > packet.len() {
        return Err(Malformed::Short);
    }
    outside.id = Some(be32(header, 4) >> 8);
    outside.oam = header[1] & wire::GENEVE_OAM != 0;
    outside.header_len = options.end;
    outside.options = options;
    Ok(())
}

fn vxlan(packet: &[u8], outside: &mut Outside) -> Result<(), Malformed> {
    let start = outside.header_len;
    let header = header::<BASE>(packet, start, outside.payload_end)?;
    outside.gbp = match header[0] {
        wire::VXLAN_VNI if header[1..4] == [0; 3] => None,
        flags if flags == wire::VXLAN_VNI | wire::VXLAN_GBP => Some((header[1] & wire::GBP_FLAGS, be16(header, 2))),
        _ => return Err(Malformed::Flags),
    };
    if header[7] != 0 {
        return Err(Malformed::Flags);
    }
    outside.id = Some(be32(header, 4) >> 8);
    outside.header_len = start + BASE;
    Ok(())
}

fn gre(packet: &[u8], outside: &mut Outside) -> Result<(), Malformed> {
    let (start, end) = (outside.header_len, outside.payload_end);
    let base = header::<4>(packet, start, end)?;
    let flags = be16(base, 0);
    if flags & wire::GRE_VERSION != 0 {
        return Err(Malformed::Version);
    }
    if flags & !(wire::GRE_CSUM | wire::GRE_KEY | wire::GRE_SEQ) != 0 {
        return Err(Malformed::Flags);
    }
    if be16(base, 2) != wire::ETH_TYPE_TEB {
        return Err(Malformed::Protocol);
    }
    // Checksum, key, sequence number: four bytes each, in this order.
    let mut at = start + 4;
    let mut field = |flag: u16| -> Result<Option<u32>, Malformed> {
        if flags & flag == 0 {
            return Ok(None);
        }
        let field = header::<4>(packet, at, end)?;
        at += 4;
        Ok(Some(be32(field, 0)))
    };
    outside.checksum = field(wire::GRE_CSUM)?.map(|_| WireChecksum { start, end, sum: 0 });
    outside.csum = outside.checksum.is_some();
    outside.id = field(wire::GRE_KEY)?;
    field(wire::GRE_SEQ)?;
    outside.header_len = at;
    Ok(())
}

#[cfg(test)]
mod tests;
