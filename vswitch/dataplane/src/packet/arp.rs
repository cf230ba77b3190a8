//! ARP for IPv4 over Ethernet (RFC 826).

use super::Mac;
use super::field::{be16, bytes};
use std::net::Ipv4Addr;
use std::ops::Deref;

/// Operation: who has the target address?
pub const REQUEST: u16 = 1;
/// Operation: the sender has its address.
pub const REPLY: u16 = 2;

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug)]
pub struct Arp<H>(H);

impl Arp<&[u8; 28]> {
    /// Bytes of the packet.
    pub const LEN: usize = 28;

    /// The packet at the front of these bytes (an Ethernet frame may be padded). None when there
    /// are fewer, or when it is not about IPv4 and Ethernet addresses.
    #[must_use]
    pub fn parse(packet: &[u8]) -> Option<Arp<&[u8; 28]>> {
        let header = packet.first_chunk()?;
        let about: [u8; 6] = bytes(header, 0);
        (about == [0, 1, 8, 0, 6, 4]).then_some(Arp(header))
    }
}

impl<H: Deref<Target = [u8; 28]>> Arp<H> {
    /// [`REQUEST`], [`REPLY`] or another operation.
    #[must_use]
    pub fn operation(&self) -> u16 {
        be16(&self.0, 6)
    }

    /// Sender's Ethernet address.
    #[must_use]
    pub fn sender_mac(&self) -> Mac {
        Mac(bytes(&self.0, 8))
    }

    /// Sender's IPv4 address.
    #[must_use]
    pub fn sender(&self) -> Ipv4Addr {
        bytes::<4, 28>(&self.0, 14).into()
    }

    /// Target's Ethernet address.
    #[must_use]
    pub fn target_mac(&self) -> Mac {
        Mac(bytes(&self.0, 18))
    }

    /// Target's IPv4 address.
    #[must_use]
    pub fn target(&self) -> Ipv4Addr {
        bytes::<4, 28>(&self.0, 24).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY_BYTES: [u8; 30] =
        [0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 0xaa, 0xbb];

    #[test]
    fn fields_are_read() {
        let arp = Arp::parse(&REPLY_BYTES).expect("whole, with padding");
        assert_eq!(arp.operation(), REPLY);
        assert_eq!((arp.sender_mac(), arp.sender()), (Mac([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!((arp.target_mac(), arp.target()), (Mac([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 0, 0, 2)));
    }

    #[test]
    fn short_or_other_addresses_are_none() {
        for len in 0..28 {
            assert!(Arp::parse(&REPLY_BYTES[..len]).is_none(), "{len} bytes");
        }
        for at in 0..6 {
            let mut bytes = REPLY_BYTES;
            bytes[at] ^= 2;
            assert!(Arp::parse(&bytes).is_none(), "byte {at} is {}", bytes[at]);
        }
    }
}
