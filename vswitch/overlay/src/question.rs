//! Who has this address, and who has ours? ARP requests (RFC 826), neighbour solicitations and
//! advertisements (RFC 4861), as bytes.

use crate::Ends;
use crate::wire::{
    ETH_TYPE_ARP, ETH_TYPE_IPV4, ETH_TYPE_IPV6, ETHERNET, IPV6, PROTOCOL_ICMPV6, Writer, fold, pseudo, sum,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an ARP packet about Ethernet and IPv4.
const ARP: usize = 28;
/// Bytes of a neighbour solicitation or advertisement with one option.
const SOLICITATION: usize = 32;

/// The frame that asks for the MAC address of `ends.dst`, from our own addresses: to all (ARP), or
/// to the solicited-node group. 42 or 86 bytes, without padding.
#[must_use]
pub fn question(eth_src: [u8; 6], ends: Ends) -> Vec<u8> {
    match ends {
        Ends::V4 { src, dst } => request(eth_src, src, dst),
        Ends::V6 { src, dst } => solicitation(eth_src, src, dst),
    }
}

fn request(eth_src: [u8; 6], src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0; ETHERNET + ARP];
    let mut writer = Writer::new(&mut frame);
    writer.put(&[0xff; 6]).put(&eth_src).be16(ETH_TYPE_ARP);
    // Ethernet (1), IPv4, lengths of their addresses, request (1).
    writer.be16(1).be16(ETH_TYPE_IPV4).put(&[6, 4]).be16(1);
    writer.put(&eth_src).put(&src.octets()).put(&[0; 6]).put(&dst.octets());
    frame
}

fn solicitation(eth_src: [u8; 6], src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    /// Of the multicast group of all addresses that end like this one (RFC 4291, section 2.7.1).
    const GROUP: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    const LAST_24: u128 = 0xff_ffff;
    let group = Ipv6Addr::from_bits(GROUP | dst.to_bits() & LAST_24);
    let [.., a, b, c, d] = group.octets();
    let mut frame = vec![0; ETHERNET + IPV6 + SOLICITATION];
    let mut writer = Writer::new(&mut frame);
    writer.put(&[0x33, 0x33, a, b, c, d]).put(&eth_src).be16(ETH_TYPE_IPV6);
    // The hop limit tells the receiver that nobody forwarded it (RFC 4861, section 4.3).
    writer.be32(6 << 28).be16(32).put(&[PROTOCOL_ICMPV6, 255]).put(&src.octets()).put(&group.octets());
    writer.put(&[135, 0]).be16(0).be32(0).put(&dst.octets());
    // Option: our link-layer address, of one unit of eight bytes.
    writer.put(&[1, 1]).put(&eth_src);
    finish(&mut frame, Ends::V6 { src, dst: group });
    frame
}

/// The frame that tells a link that an address is ours: an ARP announcement (RFC 5227, section 2.3)
/// to all, or an unsolicited neighbour advertisement (RFC 4861, section 7.2.6) to all nodes, that
/// overrides what they knew.
#[must_use]
pub fn announcement(mac: [u8; 6], ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => request(mac, ip, ip),
        IpAddr::V6(ip) => advertisement(mac, ip),
    }
}

fn advertisement(mac: [u8; 6], ip: Ipv6Addr) -> Vec<u8> {
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    /// The answer counts more than what is known.
    const OVERRIDE: u32 = 1 << 29;
    let mut frame = vec![0; ETHERNET + IPV6 + SOLICITATION];
    let mut writer = Writer::new(&mut frame);
    writer.put(&[0x33, 0x33, 0, 0, 0, 1]).put(&mac).be16(ETH_TYPE_IPV6);
    writer.be32(6 << 28).be16(32).put(&[PROTOCOL_ICMPV6, 255]).put(&ip.octets()).put(&ALL_NODES.octets());
    writer.put(&[136, 0]).be16(0).be32(OVERRIDE).put(&ip.octets());
    // Option: the target's link-layer address.
    writer.put(&[2, 1]).put(&mac);
    finish(&mut frame, Ends::V6 { src: ip, dst: ALL_NODES });
    frame
}

/// Writes the checksum of a message of ICMPv6.
fn finish(frame: &mut [u8], ends: Ends) {
    let message = sum(&frame[ETHERNET + IPV6..]) + 32;
    let checksum = !fold(message + pseudo(&ends, PROTOCOL_ICMPV6));
    frame[ETHERNET + IPV6 + 2..][..2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    const OWN: [u8; 6] = [0xaa, 0x55, 0xaa, 0x55, 0, 0];

    #[test]
    fn requests_are_those_of_open_vswitch() {
        let ends = Ends::V4 { src: Ipv4Addr::new(1, 1, 2, 88), dst: Ipv4Addr::new(1, 1, 2, 93) };
        let seen = "ffffffffffffaa55aa55000008060001080006040001aa55aa550000010102580000000000000101025d";
        assert_eq!(hex(&question(OWN, ends)), seen);
    }

    #[test]
    fn solicitations_are_those_of_open_vswitch() {
        let src = Ipv6Addr::new(0x2001, 0xcafe, 0, 0, 0, 0, 0, 0x88);
        let dst = Ipv6Addr::new(0x2001, 0xcafe, 0, 0, 0, 0, 0x12, 0x93);
        let seen = "3333ff120093aa55aa55000086dd6000000000203aff2001cafe000000000000000000000088ff0200000000000000000001ff12009387004d22000000002001cafe0000000000000000001200930101aa55aa550000";
        let frame = question(OWN, Ends::V6 { src, dst });
        assert_eq!(hex(&frame), seen);
        let total = sum(&frame[54..]) + 32 + sum(&frame[22..54]) + u32::from(PROTOCOL_ICMPV6);
        assert_eq!(fold(total), 0xffff, "the checksum");
    }

    #[test]
    fn announcements_are_for_all() {
        let arp = announcement(OWN, [1, 2, 3, 4].into());
        assert_eq!(hex(&arp), "ffffffffffffaa55aa55000008060001080006040001aa55aa5500000102030400000000000001020304");
        let src = Ipv6Addr::new(0x2001, 0xcafe, 0, 0, 0, 0, 0, 0x88);
        let frame = announcement(OWN, src.into());
        assert_eq!((&frame[..6], &frame[54..56], frame[58]), (&[0x33, 0x33, 0, 0, 0, 1][..], &[136, 0][..], 0x20));
        assert_eq!((&frame[22..38], &frame[62..78]), (&src.octets()[..], &src.octets()[..]));
        assert_eq!(frame[78..], [&[2, 1][..], &OWN].concat());
        let total = sum(&frame[54..]) + 32 + sum(&frame[22..54]) + u32::from(PROTOCOL_ICMPV6);
        assert_eq!(fold(total), 0xffff, "the checksum");
    }
}
