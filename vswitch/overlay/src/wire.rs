//! Numbers and sums that both directions need.

use crate::Ends;

/// Bytes of an Ethernet header without tags, of IPv4's without options, of IPv6's, of UDP's.
pub(crate) const ETHERNET: usize = 14;
pub(crate) const IPV4: usize = 20;
pub(crate) const IPV6: usize = 40;
pub(crate) const UDP: usize = 8;
/// Bytes of the headers of Geneve (without options) and of VXLAN.
pub(crate) const BASE: usize = 8;

pub(crate) const PROTOCOL_UDP: u8 = 17;
pub(crate) const PROTOCOL_GRE: u8 = 47;
pub(crate) const PROTOCOL_ICMPV6: u8 = 58;

pub(crate) const ETH_TYPE_IPV4: u16 = 0x0800;
pub(crate) const ETH_TYPE_ARP: u16 = 0x0806;
pub(crate) const ETH_TYPE_IPV6: u16 = 0x86dd;
/// Transparent Ethernet bridging: a frame, with its Ethernet header.
pub(crate) const ETH_TYPE_TEB: u16 = 0x6558;

/// Geneve's flags: a control packet, and one with a critical option.
pub(crate) const GENEVE_OAM: u8 = 0x80;
pub(crate) const GENEVE_CRITICAL: u8 = 0x40;
/// VXLAN's flags: I, there is a VNI; G, there is a group policy.
pub(crate) const VXLAN_VNI: u8 = 0x08;
pub(crate) const VXLAN_GBP: u8 = 0x80;
/// Of a group policy: D, do not learn; A, it was applied.
pub(crate) const GBP_FLAGS: u8 = 0x48;
/// GRE's flags.
pub(crate) const GRE_CSUM: u16 = 0x8000;
pub(crate) const GRE_KEY: u16 = 0x2000;
pub(crate) const GRE_SEQ: u16 = 0x1000;
/// GRE's version: three bits.
pub(crate) const GRE_VERSION: u16 = 0x0007;

/// Some bytes, if they are there.
pub(crate) fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

pub(crate) const fn be16<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

pub(crate) const fn be32<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// The ones' complement sum of 16-bit words (RFC 1071), not folded: of so few bytes that nothing
/// overflows.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |byte| u32::from(*byte) << 8);
    words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum::<u32>() + last
}

/// A sum with its carries brought around.
#[allow(clippy::cast_possible_truncation)] // at most 0xffff after these steps
pub(crate) const fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The sum over a pseudo-header of IPv4 or IPv6 without its length, not folded.
pub(crate) fn pseudo(ends: &Ends, protocol: u8) -> u32 {
    let addresses = match ends {
        Ends::V4 { src, dst } => sum(&src.octets()) + sum(&dst.octets()),
        Ends::V6 { src, dst } => sum(&src.octets()) + sum(&dst.octets()),
    };
    addresses + u32::from(protocol)
}

/// Bytes of a header that is being made, in order.
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    pub(crate) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    /// More bytes. There must be room: what is written here has a length that is known.
    pub(crate) fn put(&mut self, more: &[u8]) -> &mut Self {
        self.bytes[self.len..self.len + more.len()].copy_from_slice(more);
        self.len += more.len();
        self
    }

    pub(crate) fn be16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn be32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_be_bytes())
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)), 0xddf2);
        assert_eq!(sum(&[1, 2, 3]), 0x0102 + 0x0300, "an odd byte is a word's first");
        assert_eq!(fold(u32::MAX), 0xffff);
        assert_eq!(fold(0xffff_0001), 1, "the carry of the carry");
    }

    #[test]
    fn pseudo_headers_are_sums_over_their_bytes() {
        let [src, dst] = [[10, 0, 0, 1], [10, 255, 254, 253]];
        let v4 = Ends::V4 { src: src.into(), dst: dst.into() };
        assert_eq!(pseudo(&v4, 17), sum(&[10, 0, 0, 1, 10, 255, 254, 253, 0, 17]));
        let v6 = Ends::V6 { src: [0xfe; 16].into(), dst: [0x81; 16].into() };
        assert_eq!(pseudo(&v6, 47), sum(&[[0xfe; 16], [0x81; 16]].concat()) + 47);
    }
}
