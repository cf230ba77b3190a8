//! The header in front of a frame that goes into a tunnel: built once per decision, written for each packet.

use crate::{Ends, HEADER_MAX};

/// What stands in front of the inner frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outer {
    /// MAC address of the port that has the tunnel's address.
    pub eth_src: [u8; 6],
    /// MAC address of the next hop.
    pub eth_dst: [u8; 6],
    /// The two ends.
    pub ends: Ends,
    /// Type of service, traffic class.
    pub tos: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// IPv4: don't fragment. IPv6 ignores it.
    pub df: bool,
    /// What follows the IP header.
    pub body: Body,
}

/// The header between IP and the inner frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// UDP and Geneve.
    Geneve {
        /// Virtual network identifier; its low 24 bits are sent, as Open vSwitch does with a tunnel id.
        vni: u32,
        /// UDP destination port.
        dst_port: u16,
        /// IPv4: with a UDP checksum. IPv6 always has one.
        csum: bool,
        /// The O bit: a control packet.
        oam: bool,
        /// Options as they are sent: [`crate::OptionMap::encode`]. The C bit follows from them.
        options: Vec<u8>,
    },
    /// UDP and VXLAN.
    Vxlan {
        /// As with Geneve.
        vni: u32,
        /// UDP destination port.
        dst_port: u16,
        /// As with Geneve.
        csum: bool,
        /// Group Policy: `tun_gbp_flags` (of which D, 0x40, and A, 0x08, are sent) and `tun_gbp_id`. None: the port does not have `exts=gbp`.
        gbp: Option<(u8, u16)>,
    },
    /// GRE with Ethernet frames.
    Gre {
        /// The key; none: no such field.
        key: Option<u32>,
        /// With a checksum.
        csum: bool,
        /// With a sequence number, which [`Header::write`] is given.
        seq: bool,
    },
}

/// Why there is no such header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// More bytes of options than Geneve can have.
    #[error("{0} bytes of Geneve options, where 252 are the most")]
    OptionSpace(usize),
    /// What should be options is no sequence of whole ones.
    #[error("malformed Geneve options")]
    Options,
}

/// Where a checksum goes that whoever has the packet in hand must finish: sum the bytes from `start` to the end of the packet, the field included, and write the complement at `field`
/// (`packet::checksum::finish`). [`Header::write`] leaves the field as this wants it: for UDP it holds the pseudo-header sum, so the packet may as well be marked as one with a partial checksum
/// (`Csum::Partial`) that somebody else finishes; for GRE it holds 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChecksumAt {
    /// First byte that is summed, from the outer Ethernet header.
    pub start: usize,
    /// The field, from the outer Ethernet header.
    pub field: usize,
    /// UDP: a sum of 0 is written as 0xffff (RFC 768).
    pub no_zero: bool,
}

/// A header that waits for packets. Two that are equal write the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; HEADER_MAX],
    len: usize,
}

impl Header {
    /// Prepares it.
    ///
    /// # Errors
    /// When Geneve's options are too long or malformed.
    pub fn new(outer: &Outer) -> Result<Self, HeaderError> {
        let _ = outer;
        unimplemented!()
    }

    /// Bytes in front of the inner frame: at least 38, at most [`HEADER_MAX`].
    #[allow(clippy::len_without_is_empty)] // none is
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The header without what each packet changes: lengths, IPv4 header checksum, UDP source port and checksum, GRE sequence number are 0.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Longest inner frame that the 16-bit lengths can tell.
    #[must_use]
    pub const fn inner_max(&self) -> usize {
        unimplemented!()
    }

    /// Where it goes.
    #[must_use]
    pub const fn ends(&self) -> Ends {
        unimplemented!()
    }

    /// Writes the header for one packet into `front`, which is [`Header::len`] bytes: lengths, IPv4 header checksum, UDP source port (32768 to 60999, by `hash` of the inner flow, as Open vSwitch),
    /// GRE sequence number `seq` (what [`Header::sequenced`] asks for). The checksum over the payload is left to the caller: [`Header::checksum`]. False, and nothing is written, when `front` has
    /// another length or `inner_len` is more than [`Header::inner_max`].
    #[must_use]
    pub fn write(&self, front: &mut [u8], inner_len: usize, hash: u32, seq: u32) -> bool {
        let _ = (front, inner_len, hash, seq);
        unimplemented!()
    }

    /// It has a GRE sequence number: the port counts them.
    #[must_use]
    pub const fn sequenced(&self) -> bool {
        unimplemented!()
    }

    /// Where the checksum over the outer payload goes, if this header has one.
    #[must_use]
    pub const fn checksum(&self) -> Option<ChecksumAt> {
        unimplemented!()
    }
}
