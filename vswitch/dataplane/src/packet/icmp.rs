//! ICMP and ICMPv6 (RFC 792, RFC 4443): both start with the same 8 bytes.

use super::field::{be16, set};
use std::ops::{Deref, DerefMut};

/// Protocol number of ICMP.
pub const PROTOCOL_V4: u8 = 1;
/// Protocol number of ICMPv6.
pub const PROTOCOL_V6: u8 = 58;

/// ICMP type: echo reply.
pub const V4_ECHO_REPLY: u8 = 0;
/// ICMP type: echo request.
pub const V4_ECHO_REQUEST: u8 = 8;
/// ICMPv6 type: echo request.
pub const V6_ECHO_REQUEST: u8 = 128;
/// ICMPv6 type: echo reply.
pub const V6_ECHO_REPLY: u8 = 129;

/// The first 8 bytes of a message.
#[derive(Clone, Copy, Debug)]
pub struct Icmp<H>(H);

impl Icmp<&[u8; 8]> {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// The header at the front of an IP payload, and what follows it: the offending packet in an
    /// error. None when there are fewer bytes.
    #[must_use]
    pub fn parse(message: &[u8]) -> Option<(Icmp<&[u8; 8]>, &[u8])> {
        let (header, rest) = message.split_first_chunk()?;
        Some((Icmp(header), rest))
    }

    /// [`Icmp::parse`], to write.
    #[must_use]
    pub fn parse_mut(message: &mut [u8]) -> Option<(Icmp<&mut [u8; 8]>, &mut [u8])> {
        let (header, rest) = message.split_first_chunk_mut()?;
        Some((Icmp(header), rest))
    }
}

impl<H: Deref<Target = [u8; 8]>> Icmp<H> {
    /// Type of the message; ICMP and ICMPv6 number them differently.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.0[0]
    }

    /// Code within the type.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.0[1]
    }

    /// Checksum: over the message in ICMP, with a pseudo-header in ICMPv6.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        be16(&self.0, 2)
    }

    /// Identifier of an echo.
    #[must_use]
    pub fn identifier(&self) -> u16 {
        be16(&self.0, 4)
    }

    /// Sequence number of an echo.
    #[must_use]
    pub fn sequence(&self) -> u16 {
        be16(&self.0, 6)
    }

    /// An ICMP message that quotes a packet: unreachable, source quench, redirect, time exceeded,
    /// parameter problem.
    #[must_use]
    pub fn is_error_v4(&self) -> bool {
        matches!(self.kind(), 3 | 4 | 5 | 11 | 12)
    }

    /// An ICMPv6 message that quotes a packet (RFC 4443, 2.1: types below 128).
    #[must_use]
    pub fn is_error_v6(&self) -> bool {
        self.kind() < 128
    }
}

/// Setters write their field only; the checksum is the caller's ([`super::checksum::update`]).
impl<H: DerefMut<Target = [u8; 8]>> Icmp<H> {
    /// Writes the identifier of an echo.
    pub fn set_identifier(&mut self, identifier: u16) {
        set(&mut self.0, 4, &identifier.to_be_bytes());
    }

    /// Writes the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        set(&mut self.0, 2, &checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: [u8; 10] = [8, 0, 0xab, 0xcd, 0x12, 0x34, 0, 7, 0x61, 0x62];

    #[test]
    fn fields_are_read_and_written() {
        let (icmp, rest) = Icmp::parse(&ECHO).expect("whole");
        assert_eq!((icmp.kind(), icmp.code(), icmp.checksum()), (V4_ECHO_REQUEST, 0, 0xabcd));
        assert_eq!((icmp.identifier(), icmp.sequence(), rest), (0x1234, 7, &b"ab"[..]));

        let mut echo = ECHO;
        let (mut icmp, _) = Icmp::parse_mut(&mut echo).expect("whole");
        icmp.set_identifier(0x0102);
        icmp.set_checksum(0x0304);
        assert_eq!(echo, [8, 0, 3, 4, 1, 2, 0, 7, 0x61, 0x62]);
    }

    #[test]
    fn errors_are_told_from_queries() {
        let kinds = |is_error: fn(&Icmp<&[u8; 8]>) -> bool| -> Vec<u8> {
            (0..=255).filter(|kind| is_error(&Icmp(&[*kind, 0, 0, 0, 0, 0, 0, 0]))).collect()
        };
        assert_eq!(kinds(|icmp| icmp.is_error_v4()), [3, 4, 5, 11, 12]);
        assert_eq!(kinds(|icmp| icmp.is_error_v6()), (0..128).collect::<Vec<u8>>());
    }

    #[test]
    fn shorter_than_a_header_is_none() {
        let mut copy = ECHO;
        for len in 0..8 {
            assert!(Icmp::parse(&ECHO[..len]).is_none(), "{len} bytes");
            assert!(Icmp::parse_mut(&mut copy[..len]).is_none(), "{len} bytes, to write");
        }
    }
}
