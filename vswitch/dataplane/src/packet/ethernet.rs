//! Ethernet II headers and VLAN tags (IEEE 802.3, 802.1Q).

use super::Mac;
use super::field::{be16, bytes, set};
use std::ops::{Deref, DerefMut};

/// Ethertypes that the switch looks behind.
pub mod ethertype {
    /// RFC 791.
    pub const IPV4: u16 = 0x0800;
    /// RFC 826.
    pub const ARP: u16 = 0x0806;
    /// RFC 903.
    pub const RARP: u16 = 0x8035;
    /// A VLAN tag (802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// RFC 8200.
    pub const IPV6: u16 = 0x86dd;
    /// A service VLAN tag (802.1ad).
    pub const SERVICE_VLAN: u16 = 0x88a8;

    /// Whether a VLAN tag follows.
    #[must_use]
    pub const fn is_vlan(ethertype: u16) -> bool {
        matches!(ethertype, VLAN | SERVICE_VLAN)
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<H>(H);

impl Ethernet<&[u8; 14]> {
    /// Bytes of the header.
    pub const LEN: usize = 14;

    /// The header at the front of a frame, and what follows it. None when the frame is shorter.
    #[must_use]
    pub fn parse(frame: &[u8]) -> Option<(Ethernet<&[u8; 14]>, &[u8])> {
        let (header, rest) = frame.split_first_chunk()?;
        Some((Ethernet(header), rest))
    }

    /// [`Ethernet::parse`], to write.
    #[must_use]
    pub fn parse_mut(frame: &mut [u8]) -> Option<(Ethernet<&mut [u8; 14]>, &mut [u8])> {
        let (header, rest) = frame.split_first_chunk_mut()?;
        Some((Ethernet(header), rest))
    }
}

impl<H: Deref<Target = [u8; 14]>> Ethernet<H> {
    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Mac {
        Mac(bytes(&self.0, 0))
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Mac {
        Mac(bytes(&self.0, 6))
    }

    /// Ethertype, or the length of an 802.3 frame where it is below 0x600.
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        be16(&self.0, 12)
    }
}

impl<H: DerefMut<Target = [u8; 14]>> Ethernet<H> {
    /// Writes the destination address.
    pub fn set_destination(&mut self, mac: Mac) {
        set(&mut self.0, 0, &mac.0);
    }

    /// Writes the source address.
    pub fn set_source(&mut self, mac: Mac) {
        set(&mut self.0, 6, &mac.0);
    }
}

/// What follows the ethertype [`ethertype::VLAN`] or [`ethertype::SERVICE_VLAN`].
#[derive(Clone, Copy, Debug)]
pub struct Vlan<H>(H);

impl Vlan<&[u8; 4]> {
    /// Bytes of a tag.
    pub const LEN: usize = 4;

    /// The tag at the front, and what follows it. None when there are fewer bytes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<(Vlan<&[u8; 4]>, &[u8])> {
        let (header, rest) = bytes.split_first_chunk()?;
        Some((Vlan(header), rest))
    }

    /// [`Vlan::parse`], to write.
    #[must_use]
    pub fn parse_mut(bytes: &mut [u8]) -> Option<(Vlan<&mut [u8; 4]>, &mut [u8])> {
        let (header, rest) = bytes.split_first_chunk_mut()?;
        Some((Vlan(header), rest))
    }
}

impl<H: Deref<Target = [u8; 4]>> Vlan<H> {
    /// Tag control information: priority (3 bits), drop eligible (1), VLAN id (12).
    #[must_use]
    pub fn tci(&self) -> u16 {
        be16(&self.0, 0)
    }

    /// VLAN id.
    #[must_use]
    pub fn vid(&self) -> u16 {
        self.tci() & 0xfff
    }

    /// Priority code point.
    #[must_use]
    pub fn pcp(&self) -> u8 {
        self.0[0] >> 5
    }

    /// Ethertype of what follows.
    #[must_use]
    pub fn ethertype(&self) -> u16 {
        be16(&self.0, 2)
    }
}

impl<H: DerefMut<Target = [u8; 4]>> Vlan<H> {
    /// Writes the tag control information.
    pub fn set_tci(&mut self, tci: u16) {
        set(&mut self.0, 0, &tci.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGGED: [u8; 20] = [2, 0, 0, 0, 0, 1, 6, 0, 0, 0, 0, 2, 0x81, 0x00, 0xb0, 0x64, 0x08, 0x00, 0x45, 0x99];

    #[test]
    fn fields_are_read_and_written() {
        let mut frame = TAGGED;
        let (ethernet, rest) = Ethernet::parse(&frame).expect("whole");
        assert_eq!(ethernet.destination(), Mac([2, 0, 0, 0, 0, 1]));
        assert_eq!(ethernet.source(), Mac([6, 0, 0, 0, 0, 2]));
        assert!(ethertype::is_vlan(ethernet.ethertype()));
        let (vlan, rest) = Vlan::parse(rest).expect("whole");
        assert_eq!((vlan.tci(), vlan.vid(), vlan.pcp()), (0xb064, 100, 5));
        assert_eq!((vlan.ethertype(), rest), (ethertype::IPV4, &[0x45, 0x99][..]));

        let (mut ethernet, rest) = Ethernet::parse_mut(&mut frame).expect("whole");
        ethernet.set_destination(Mac([1; 6]));
        ethernet.set_source(Mac([4; 6]));
        Vlan::parse_mut(rest).expect("whole").0.set_tci(0x2fff);
        let expected = [1, 1, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4, 0x81, 0, 0x2f, 0xff, 8, 0, 0x45, 0x99];
        assert_eq!(frame, expected);
    }

    #[test]
    fn shorter_than_a_header_is_none() {
        let mut copy = TAGGED;
        for len in 0..14 {
            assert!(Ethernet::parse(&TAGGED[..len]).is_none(), "{len} bytes");
            assert!(Ethernet::parse_mut(&mut copy[..len]).is_none(), "{len} bytes, to write");
        }
        for len in 0..4 {
            assert!(Vlan::parse(&TAGGED[14..14 + len]).is_none(), "a tag of {len} bytes");
        }
    }
}
