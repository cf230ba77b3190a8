//! IPv6 headers (RFC 8200).

use super::field::{be16, be32, bytes, set};
use std::net::Ipv6Addr;
use std::ops::{Deref, DerefMut};

/// An IPv6 header; its payload length was checked against the packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<H>(H);

impl Ipv6<&[u8; 40]> {
    /// Bytes of the header.
    pub const LEN: usize = 40;

    /// The header at the front of a packet, and its payload (extension headers included) without
    /// padding. None when it is not version 6 or the packet is shorter than its payload length
    /// says.
    #[must_use]
    pub fn parse(packet: &[u8]) -> Option<(Ipv6<&[u8; 40]>, &[u8])> {
        let (header, rest) = packet.split_first_chunk()?;
        let payload = rest.get(..payload_len(header)?)?;
        Some((Ipv6(header), payload))
    }

    /// [`Ipv6::parse`], to write.
    #[must_use]
    pub fn parse_mut(packet: &mut [u8]) -> Option<(Ipv6<&mut [u8; 40]>, &mut [u8])> {
        let (header, rest) = packet.split_first_chunk_mut()?;
        let payload = rest.get_mut(..payload_len(header)?)?;
        Some((Ipv6(header), payload))
    }
}

fn payload_len(header: &[u8; 40]) -> Option<usize> {
    (header[0] >> 4 == 6).then_some(be16(header, 4).into())
}

impl<H: Deref<Target = [u8; 40]>> Ipv6<H> {
    /// DSCP (6 bits) and ECN (2 bits).
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        self.0[0] << 4 | self.0[1] >> 4
    }

    /// Flow label, 20 bits.
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        be32(&self.0, 0) & 0xf_ffff
    }

    /// Bytes behind the header.
    #[must_use]
    pub fn payload_len(&self) -> u16 {
        be16(&self.0, 4)
    }

    /// What follows: an extension header or a protocol.
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.0[6]
    }

    /// Hops left.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        bytes::<16, 40>(&self.0, 8).into()
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Ipv6Addr {
        bytes::<16, 40>(&self.0, 24).into()
    }
}

impl<H: DerefMut<Target = [u8; 40]>> Ipv6<H> {
    /// Writes the traffic class.
    pub fn set_traffic_class(&mut self, class: u8) {
        self.0[0] = 0x60 | class >> 4;
        self.0[1] = class << 4 | self.0[1] & 0x0f;
    }

    /// Writes the hop limit.
    pub fn set_hop_limit(&mut self, hops: u8) {
        self.0[7] = hops;
    }

    /// Writes the source address. L4 checksums cover it.
    pub fn set_source(&mut self, address: Ipv6Addr) {
        set(&mut self.0, 8, &address.octets());
    }

    /// Writes the destination address. L4 checksums cover it.
    pub fn set_destination(&mut self, address: Ipv6Addr) {
        set(&mut self.0, 24, &address.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 bytes of header, 3 of payload, 2 of padding.
    const PACKET: [u8; 45] = [
        0x6b, 0x9a, 0xbc, 0xde, 0, 3, 17, 64, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x20, 1, 0xd, 0xb8, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 7, 8, 9, 0xee, 0xee,
    ];

    #[test]
    fn fields_are_read_and_written() {
        let (ip, payload) = Ipv6::parse(&PACKET).expect("whole, with padding");
        assert_eq!(payload, [7, 8, 9]);
        assert_eq!((ip.traffic_class(), ip.flow_label(), ip.payload_len()), (0xb9, 0xa_bcde, 3));
        assert_eq!((ip.next_header(), ip.hop_limit()), (17, 64));
        let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
        assert_eq!((ip.source(), ip.destination()), (address("fd00::1"), address("2001:db8::2")));

        let mut packet = PACKET;
        let (mut ip, _) = Ipv6::parse_mut(&mut packet).expect("whole");
        ip.set_traffic_class(0x46);
        ip.set_hop_limit(9);
        ip.set_source(address("fe80::5"));
        ip.set_destination(address("ff02::1"));
        assert_eq!((ip.traffic_class(), ip.flow_label(), ip.hop_limit()), (0x46, 0xa_bcde, 9));
        assert_eq!((ip.source(), ip.destination()), (address("fe80::5"), address("ff02::1")));
        assert_eq!((packet[0] >> 4, &packet[40..]), (6, &PACKET[40..]), "version and payload stay");
    }

    #[test]
    fn short_packets_and_bad_lengths_are_none() {
        let mut copy = PACKET;
        for len in 0..43 {
            assert!(Ipv6::parse(&PACKET[..len]).is_none(), "{len} bytes");
            assert!(Ipv6::parse_mut(&mut copy[..len]).is_none(), "{len} bytes, to write");
        }
        for (at, value) in [(0, 0x4b), (0, 0x7b), (5, 6), (4, 1)] {
            let mut packet = PACKET;
            packet[at] = value;
            assert!(Ipv6::parse(&packet).is_none(), "byte {at} is {value:#x}");
        }
    }
}
