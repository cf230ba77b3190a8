//! IPv4 headers (RFC 791).

use super::checksum::Sum;
use super::field::{be16, bytes, set};
use super::{WithOptions, WithOptionsMut};
use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};

/// The first 20 bytes of an IPv4 header; its length fields were checked against the packet.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<H>(H);

impl Ipv4<&[u8; 20]> {
    /// Bytes of a header without options.
    pub const LEN: usize = 20;

    /// The header at the front of a packet, its options, and its payload without padding. None when
    /// it is not version 4 or its header or total length contradict each other or the packet.
    #[must_use]
    pub fn parse(packet: &[u8]) -> Option<WithOptions<'_, Ipv4<&[u8; 20]>>> {
        let (header_len, total_len) = lengths(packet)?;
        let (header, rest) = packet.get(..total_len)?.split_first_chunk()?;
        let (options, payload) = rest.split_at_checked(header_len - 20)?;
        Some((Ipv4(header), options, payload))
    }

    /// [`Ipv4::parse`], to write.
    #[must_use]
    pub fn parse_mut(packet: &mut [u8]) -> Option<WithOptionsMut<'_, Ipv4<&mut [u8; 20]>>> {
        let (header_len, total_len) = lengths(packet)?;
        let (header, rest) = packet.get_mut(..total_len)?.split_first_chunk_mut()?;
        let (options, payload) = rest.split_at_mut_checked(header_len - 20)?;
        Some((Ipv4(header), options, payload))
    }
}

/// Header and total length: `20 <= header <= total <=` the packet's.
fn lengths(packet: &[u8]) -> Option<(usize, usize)> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = usize::from(be16(header, 2));
    let sane = header[0] >> 4 == 4 && header_len >= 20 && header_len <= total_len && total_len <= packet.len();
    sane.then_some((header_len, total_len))
}

impl<H: Deref<Target = [u8; 20]>> Ipv4<H> {
    /// Bytes of the header with its options.
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.0[0] & 0x0f) * 4
    }

    /// Type of service: DSCP (6 bits) and ECN (2 bits).
    #[must_use]
    pub fn tos(&self) -> u8 {
        self.0[1]
    }

    /// Bytes of header and payload.
    #[must_use]
    pub fn total_len(&self) -> u16 {
        be16(&self.0, 2)
    }

    /// Identification, for reassembly.
    #[must_use]
    pub fn id(&self) -> u16 {
        be16(&self.0, 4)
    }

    /// Must not be fragmented on the way.
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        self.0[6] & 0x40 != 0
    }

    /// A fragment that is not the last one.
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        self.0[6] & 0x20 != 0
    }

    /// Where this fragment's payload lies in the whole payload, in bytes.
    #[must_use]
    pub fn fragment_offset(&self) -> u16 {
        (be16(&self.0, 6) & 0x1fff) << 3
    }

    /// A fragment, the first one included.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        be16(&self.0, 6) & 0x3fff != 0
    }

    /// Time to live, in hops.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.0[8]
    }

    /// Protocol of the payload.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.0[9]
    }

    /// Header checksum.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16(&self.0, 10)
    }

    /// Whether the header checksum is right, given the header's options.
    #[must_use]
    pub fn checksum_is_right(&self, options: &[u8]) -> bool {
        Sum::of(&*self.0).bytes(options).checksum() == 0
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        bytes::<4, 20>(&self.0, 12).into()
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Ipv4Addr {
        bytes::<4, 20>(&self.0, 16).into()
    }
}

/// Setters write their field only; the header checksum is the caller's
/// ([`super::checksum::update`]).
impl<H: DerefMut<Target = [u8; 20]>> Ipv4<H> {
    /// Writes the type of service.
    pub fn set_tos(&mut self, tos: u8) {
        self.0[1] = tos;
    }

    /// Writes the time to live.
    pub fn set_ttl(&mut self, ttl: u8) {
        self.0[8] = ttl;
    }

    /// Writes the header checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        set(&mut self.0, 10, &checksum.to_be_bytes());
    }

    /// Writes the source address.
    pub fn set_source(&mut self, address: Ipv4Addr) {
        set(&mut self.0, 12, &address.octets());
    }

    /// Writes the destination address.
    pub fn set_destination(&mut self, address: Ipv4Addr) {
        set(&mut self.0, 16, &address.octets());
    }
}

#[cfg(test)]
mod tests {
    use super::super::checksum::{update, update_bytes};
    use super::*;

    /// 20 bytes of header, 4 of options, 5 of payload, 3 of padding.
    const PACKET: [u8; 32] = [
        0x46, 0xb9, 0, 29, 0x12, 0x34, 0x40, 0, 63, 6, 0x5a, 0x42, 10, 0, 0, 1, 192, 168, 1, 2, 1, 1, 1, 0, 1, 2, 3, 4,
        5, 0xee, 0xee, 0xee,
    ];

    #[test]
    fn fields_are_read() {
        let (ip, options, payload) = Ipv4::parse(&PACKET).expect("whole, with padding");
        assert_eq!((options, payload), (&[1, 1, 1, 0][..], &[1, 2, 3, 4, 5][..]));
        assert_eq!((ip.header_len(), ip.total_len(), ip.tos(), ip.id()), (24, 29, 0xb9, 0x1234));
        assert_eq!((ip.ttl(), ip.protocol(), ip.checksum()), (63, 6, 0x5a42));
        assert!(ip.checksum_is_right(options));
        assert!(!ip.checksum_is_right(&[1, 1, 1, 1]), "another option");
        assert_eq!((ip.source(), ip.destination()), ([10, 0, 0, 1].into(), [192, 168, 1, 2].into()));
    }

    #[test]
    fn fragments_are_told() {
        for (bytes, dont, more, offset, fragment) in [
            ([0x40, 0x00], true, false, 0, false),
            ([0x80, 0x00], false, false, 0, false),
            ([0x20, 0x00], false, true, 0, true),
            ([0x20, 0x01], false, true, 8, true),
            ([0x1f, 0xff], false, false, 65_528, true),
        ] {
            let mut packet = PACKET;
            packet[6..8].copy_from_slice(&bytes);
            let (ip, ..) = Ipv4::parse(&packet).expect("whole");
            let found = (ip.dont_fragment(), ip.more_fragments(), ip.fragment_offset(), ip.is_fragment());
            assert_eq!(found, (dont, more, offset, fragment), "{bytes:02x?}");
        }
    }

    #[test]
    fn a_rewritten_header_has_a_right_checksum_again() {
        let mut packet = PACKET;
        let (mut ip, options, _) = Ipv4::parse_mut(&mut packet).expect("whole");
        let (source, destination) = (Ipv4Addr::new(172, 16, 255, 254), Ipv4Addr::new(1, 1, 1, 1));
        let mut sum = update_bytes(ip.checksum(), &ip.source().octets(), &source.octets());
        sum = update_bytes(sum, &ip.destination().octets(), &destination.octets());
        sum = update(sum, u16::from_be_bytes([63, 6]), u16::from_be_bytes([62, 6]));
        sum = update(sum, u16::from_be_bytes([0x46, 0xb9]), u16::from_be_bytes([0x46, 0x03]));
        ip.set_source(source);
        ip.set_destination(destination);
        ip.set_ttl(62);
        ip.set_tos(3);
        assert!(!ip.checksum_is_right(options), "before the checksum is written");
        ip.set_checksum(sum);
        assert!(ip.checksum_is_right(options), "{sum:04x}");
        assert_eq!((ip.source(), ip.destination(), ip.ttl(), ip.tos()), (source, destination, 62, 3));
        assert_eq!(packet[24..], PACKET[24..], "payload and padding");
    }

    #[test]
    fn short_packets_and_bad_lengths_are_none() {
        let mut copy = PACKET;
        for len in 0..29 {
            assert!(Ipv4::parse(&PACKET[..len]).is_none(), "{len} bytes");
            assert!(Ipv4::parse_mut(&mut copy[..len]).is_none(), "{len} bytes, to write");
        }
        for (at, value) in [(0, 0x36), (0, 0x66), (0, 0x44), (0, 0x48), (3, 0), (3, 23), (3, 33), (2, 1)] {
            let mut packet = PACKET;
            packet[at] = value;
            assert!(Ipv4::parse(&packet).is_none(), "byte {at} is {value:#x}");
        }
    }
}
