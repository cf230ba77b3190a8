//! What the outer headers of a tunnel's packet say.

use crate::{Ends, Kind};
use std::ops::Range;

/// What a tunnel's packet says. Offsets are from its Ethernet header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// As it was read.
    pub kind: Kind,
    /// The two ends.
    pub ends: Ends,
    /// Type of service, traffic class.
    pub tos: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// VNI or GRE key; none: a GRE header without key.
    pub id: Option<u32>,
    /// There is a checksum in it (`FLOW_TNL_F_CSUM`).
    pub csum: bool,
    /// Geneve's O bit.
    pub oam: bool,
    /// `tun_gbp_flags` and `tun_gbp_id`, of a VXLAN header with the G bit. A port without `exts=gbp` refuses such a packet as [`Malformed::Flags`].
    pub gbp: Option<(u8, u16)>,
    /// Geneve's options, for [`crate::OptionMap::decode`]; else empty.
    pub options: Range<usize>,
    /// Bytes in front of the inner Ethernet header.
    pub header_len: usize,
    /// End of the inner frame, as the outer lengths say: what is behind it is padding.
    pub payload_end: usize,
    /// What the caller must verify; none: there is no checksum.
    pub checksum: Option<WireChecksum>,
}

/// A checksum to be verified over the bytes of the packet, which may be in several pieces: it is right if `sum` and the sum over the bytes `start..end` fold to 0xffff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireChecksum {
    /// First byte of what is summed: the UDP or GRE header.
    pub start: usize,
    /// Behind the last one.
    pub end: usize,
    /// The folded sum of the pseudo-header, in host byte order; 0 for GRE.
    pub sum: u16,
}

/// Why a packet is none of a tunnel's. All of them are `tunnel_header` to the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Malformed {
    /// The headers are not all there.
    #[error("a header is cut short")]
    Short,
    /// A length contradicts the packet or another one.
    #[error("a length is wrong")]
    Length,
    /// Another version of IP, GRE or Geneve.
    #[error("unknown version")]
    Version,
    /// Flags, or bits that must be 0, that this version does not know: GRE routing, VXLAN without I.
    #[error("unknown flags")]
    Flags,
    /// What is inside is no Ethernet frame, or the packet is of another protocol.
    #[error("another protocol")]
    Protocol,
    /// IPv4 options, as in Open vSwitch; a routing header that has not ended.
    #[error("IP options")]
    Options,
    /// A fragment.
    #[error("a fragment")]
    Fragment,
    /// The IPv4 header checksum is wrong.
    #[error("wrong IPv4 header checksum")]
    Checksum,
}

/// Reads the outer headers. `packet`: its first bytes, from its Ethernet header, in one piece; `len`: of all of it; `l3`: where its IP header starts. It is enough if `packet` has
/// [`crate::HEADER_MAX`] and four bytes per VLAN tag, or all there is: what has more in front of the tunnel's header (IPv6 extension headers) may be [`Malformed::Short`] then.
///
/// Not checked: addresses, the UDP destination port, the checksum over the payload ([`Outside::checksum`]), what the options mean. The inner frame has 14 bytes at least.
///
/// # Errors
/// Total: whatever the bytes are, it says what is wrong with them.
pub fn read(kind: Kind, packet: &[u8], len: usize, l3: usize) -> Result<Outside, Malformed> {
    let _ = (kind, packet, len, l3);
    unimplemented!()
}
