//! UDP headers (RFC 768).

use super::field::{be16, set};
use std::ops::{Deref, DerefMut};

/// Protocol number.
pub const PROTOCOL: u8 = 17;

/// A UDP header; its length was checked against the IP payload.
#[derive(Clone, Copy, Debug)]
pub struct Udp<H>(H);

impl Udp<&[u8; 8]> {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// The header at the front of an IP payload, and the datagram's payload. None when the length
    /// is below 8 or beyond the IP payload (this is right for whole packets; the first fragment of
    /// a datagram is shorter than its length says).
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<(Udp<&[u8; 8]>, &[u8])> {
        let (header, rest) = datagram.split_first_chunk()?;
        let payload = rest.get(..payload_len(header)?)?;
        Some((Udp(header), payload))
    }

    /// [`Udp::parse`], to write.
    #[must_use]
    pub fn parse_mut(datagram: &mut [u8]) -> Option<(Udp<&mut [u8; 8]>, &mut [u8])> {
        let (header, rest) = datagram.split_first_chunk_mut()?;
        let payload = rest.get_mut(..payload_len(header)?)?;
        Some((Udp(header), payload))
    }
}

fn payload_len(header: &[u8; 8]) -> Option<usize> {
    usize::from(be16(header, 4)).checked_sub(8)
}

impl<H: Deref<Target = [u8; 8]>> Udp<H> {
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

    /// Bytes of header and payload.
    #[must_use]
    pub fn len(&self) -> u16 {
        be16(&self.0, 4)
    }

    /// Whether no payload follows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 8
    }

    /// Checksum; 0: the sender computed none (IPv4 only).
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16(&self.0, 6)
    }
}

/// Setters write their field only; the checksum is the caller's ([`super::checksum::update`]).
impl<H: DerefMut<Target = [u8; 8]>> Udp<H> {
    /// Writes the source port.
    pub fn set_source(&mut self, port: u16) {
        set(&mut self.0, 0, &port.to_be_bytes());
    }

    /// Writes the destination port.
    pub fn set_destination(&mut self, port: u16) {
        set(&mut self.0, 2, &port.to_be_bytes());
    }

    /// Writes the checksum. A computed 0 must be given as 0xffff.
    pub fn set_checksum(&mut self, checksum: u16) {
        set(&mut self.0, 6, &checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: [u8; 13] = [0x30, 0x39, 0, 53, 0, 11, 0xab, 0xcd, 1, 2, 3, 0xee, 0xee];

    #[test]
    fn fields_are_read_and_written() {
        let (udp, payload) = Udp::parse(&DATAGRAM).expect("whole, with more behind it");
        assert_eq!(payload, [1, 2, 3]);
        assert_eq!((udp.source(), udp.destination(), udp.len()), (12_345, 53, 11));
        assert_eq!((udp.checksum(), udp.is_empty()), (0xabcd, false));

        let mut datagram = DATAGRAM;
        let (mut udp, _) = Udp::parse_mut(&mut datagram).expect("whole");
        udp.set_source(0x0102);
        udp.set_destination(0x0304);
        udp.set_checksum(0xffff);
        assert_eq!(datagram, [1, 2, 3, 4, 0, 11, 0xff, 0xff, 1, 2, 3, 0xee, 0xee]);
    }

    #[test]
    fn short_datagrams_and_bad_lengths_are_none() {
        let mut copy = DATAGRAM;
        for len in 0..11 {
            assert!(Udp::parse(&DATAGRAM[..len]).is_none(), "{len} bytes");
            assert!(Udp::parse_mut(&mut copy[..len]).is_none(), "{len} bytes, to write");
        }
        for (length, good) in [(0, false), (7, false), (8, true), (13, true), (14, false), (255, false)] {
            let mut datagram = DATAGRAM;
            datagram[5] = length;
            assert_eq!(Udp::parse(&datagram).is_some(), good, "length {length} in 13 bytes");
        }
    }
}
