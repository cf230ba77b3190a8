//! Tunnels without packets: what stands in front of a frame that goes through one, what such a
//! header says, and where it goes.
//!
//! **Where in the walk**: an output to a tunnel port asks [`Routes`] for the way and [`Neighbours`]
//! for the address, and builds a [`Header`] once; each packet of the decision then gets it by
//! [`Header::write`]. An output to the port that has the tunnel's address asks [`read()`] what the
//! outer headers say. Mbufs, checksums over payloads, ports and bridges are the business of the
//! switch's own rooms; here are only bytes and tables.
//!
//! **Semantics**: Open vSwitch 3.1's userspace tunnels (`lib/netdev-native-tnl.c`,
//! `lib/tun-metadata.c`, `lib/ovs-router.c`, `lib/tnl-neigh-cache.c`), except where it is wrong: a
//! GRE checksum covers the sequence number that is sent, the longest prefix wins among routes, and
//! nobody gets into the table of neighbours whom we did not ask for.
//!
//! **Limits**: [`routes::ROUTES_MAX`], [`neighbours::NEIGHBOURS_MAX`], [`options::SPACE_MAX`].
//!
//! **Threads**: [`Neighbours`] is shared by all workers, who read it without a lock. The rest are
//! plain values.
#![forbid(unsafe_code)]

mod header;
pub mod neighbours;
pub mod options;
pub mod question;
mod read;
pub mod routes;
mod wire;

pub use header::{ChecksumAt, Header, HeaderError, Outer, TunnelHeader, source_port};
pub use neighbours::{Neighbour, Neighbours};
pub use options::OptionMap;
pub use read::{Malformed, Outside, WireChecksum, read};
pub use routes::{Route, Routes};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the longest header: Ethernet, IPv6, UDP, Geneve, its options.
pub const HEADER_MAX: usize = 14 + 40 + 8 + 8 + options::SPACE_MAX;

/// UDP port of Geneve (RFC 8926, section 3.3).
pub const GENEVE_PORT: u16 = 6081;
/// UDP port of VXLAN (RFC 7348, section 5).
pub const VXLAN_PORT: u16 = 4789;

/// What a tunnel speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TunnelKind {
    /// RFC 8926.
    Geneve,
    /// RFC 7348, with the Group Policy extension (draft-smith-vxlan-group-policy).
    Vxlan,
    /// RFC 2784 and 2890, with Ethernet frames in it.
    Gre,
}

/// The two ends of a tunnel, as a packet names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Ends {
    V4 { src: Ipv4Addr, dst: Ipv4Addr },
    V6 { src: Ipv6Addr, dst: Ipv6Addr },
}

impl Ends {
    /// From one address to another; none if they are of different families.
    #[must_use]
    pub const fn new(src: IpAddr, dst: IpAddr) -> Option<Self> {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Self::V4 { src, dst }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Self::V6 { src, dst }),
            _ => None,
        }
    }

    /// Who sent it.
    #[must_use]
    pub const fn src(&self) -> IpAddr {
        match *self {
            Self::V4 { src, .. } => IpAddr::V4(src),
            Self::V6 { src, .. } => IpAddr::V6(src),
        }
    }

    /// Whom it is for.
    #[must_use]
    pub const fn dst(&self) -> IpAddr {
        match *self {
            Self::V4 { dst, .. } => IpAddr::V4(dst),
            Self::V6 { dst, .. } => IpAddr::V6(dst),
        }
    }
}

/// A host can have this address, and others can reach it.
const fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_broadcast()),
        IpAddr::V6(ip) => !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast()),
    }
}
