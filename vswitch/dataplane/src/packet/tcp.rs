//! TCP headers (RFC 9293).

use super::field::{be16, be32, set};
use super::{WithOptions, WithOptionsMut};
use std::ops::{Deref, DerefMut};

/// Protocol number.
pub const PROTOCOL: u8 = 6;

/// Bits of [`Tcp::flags`].
pub mod flags {
    /// The sender has no more data.
    pub const FIN: u16 = 0x01;
    /// Synchronises sequence numbers.
    pub const SYN: u16 = 0x02;
    /// Resets the connection.
    pub const RST: u16 = 0x04;
    /// Asks for delivery now.
    pub const PSH: u16 = 0x08;
    /// The acknowledgment number means something.
    pub const ACK: u16 = 0x10;
    /// The urgent pointer means something.
    pub const URG: u16 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u16 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u16 = 0x80;
}

/// The first 20 bytes of a TCP header; its data offset was checked against the segment.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<H>(H);

impl Tcp<&[u8; 20]> {
    /// Bytes of a header without options.
    pub const LEN: usize = 20;

    /// The header at the front of an IP payload, its options, and its payload. None when the data
    /// offset is below 5 or beyond the segment.
    #[must_use]
    pub fn parse(segment: &[u8]) -> Option<WithOptions<'_, Tcp<&[u8; 20]>>> {
        let (header, rest) = segment.split_first_chunk()?;
        let (options, payload) = rest.split_at_checked(options_len(header)?)?;
        Some((Tcp(header), options, payload))
    }

    /// [`Tcp::parse`], to write.
    #[must_use]
    pub fn parse_mut(segment: &mut [u8]) -> Option<WithOptionsMut<'_, Tcp<&mut [u8; 20]>>> {
        let (header, rest) = segment.split_first_chunk_mut()?;
        let (options, payload) = rest.split_at_mut_checked(options_len(header)?)?;
        Some((Tcp(header), options, payload))
    }
}

fn options_len(header: &[u8; 20]) -> Option<usize> {
    (usize::from(header[12] >> 4) * 4).checked_sub(20)
}

impl<H: Deref<Target = [u8; 20]>> Tcp<H> {
    /// Source port.
    #[must_use]
    pub fn source(&self) -> u16 {
        be16(&self.0, 0)
    }

    /// Destination port.
    #[must_use]
    pub fn destination(&self) -> u16 {
        be16(&self.0, 2)
    }

    /// Sequence number.
    #[must_use]
    pub fn seq(&self) -> u32 {
        be32(&self.0, 4)
    }

    /// Acknowledgment number.
    #[must_use]
    pub fn ack(&self) -> u32 {
        be32(&self.0, 8)
    }

    /// Bytes of the header with its options.
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.0[12] >> 4) * 4
    }

    /// The 12 bits behind the data offset, reserved ones included (ovs-fields(7): `tcp_flags`).
    #[must_use]
    pub fn flags(&self) -> u16 {
        be16(&self.0, 12) & 0xfff
    }

    /// Window, before scaling.
    #[must_use]
    pub fn window(&self) -> u16 {
        be16(&self.0, 14)
    }

    /// Checksum.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16(&self.0, 16)
    }
}

/// Setters write their field only; the checksum is the caller's ([`super::checksum::update`]).
impl<H: DerefMut<Target = [u8; 20]>> Tcp<H> {
    /// Writes the source port.
    pub fn set_source(&mut self, port: u16) {
        set(&mut self.0, 0, &port.to_be_bytes());
    }

    /// Writes the destination port.
    pub fn set_destination(&mut self, port: u16) {
        set(&mut self.0, 2, &port.to_be_bytes());
    }

    /// Writes the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        set(&mut self.0, 16, &checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: [u8; 26] =
        [0xc0, 1, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, 0x61, 0x12, 0xff, 0xfe, 0xab, 0xcd, 0, 0, 2, 4, 5, 0xb4, 0x47, 0x45];

    #[test]
    fn fields_are_read_and_written() {
        let (tcp, options, payload) = Tcp::parse(&SEGMENT).expect("whole");
        assert_eq!((options, payload), (&[2, 4, 5, 0xb4][..], &b"GE"[..]));
        assert_eq!((tcp.source(), tcp.destination(), tcp.header_len()), (0xc001, 80, 24));
        assert_eq!((tcp.seq(), tcp.ack()), (0x0102_0304, 0x0506_0708));
        assert_eq!((tcp.flags(), tcp.window(), tcp.checksum()), (0x112, 0xfffe, 0xabcd));
        assert_eq!(tcp.flags() & (flags::SYN | flags::ACK | flags::FIN), flags::SYN | flags::ACK);

        let mut segment = SEGMENT;
        let (mut tcp, ..) = Tcp::parse_mut(&mut segment).expect("whole");
        tcp.set_source(1);
        tcp.set_destination(0xfffe);
        tcp.set_checksum(0x1234);
        let mut expected = SEGMENT;
        expected[..4].copy_from_slice(&[0, 1, 0xff, 0xfe]);
        expected[16..18].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(segment, expected);
    }

    #[test]
    fn short_segments_and_bad_offsets_are_none() {
        let mut copy = SEGMENT;
        for len in 0..24 {
            assert!(Tcp::parse(&SEGMENT[..len]).is_none(), "{len} bytes");
            assert!(Tcp::parse_mut(&mut copy[..len]).is_none(), "{len} bytes, to write");
        }
        for offset in [0, 4, 7, 15] {
            let mut segment = SEGMENT;
            segment[12] = offset << 4;
            assert!(Tcp::parse(&segment).is_none(), "data offset {offset}");
        }
    }
}
