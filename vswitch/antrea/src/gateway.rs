//! The gateway bridge: the bridge behind the uplink, shared by host, wire and Pods' bridge.
//!
//! **Where in the walk**: between the card and the Pods' bridge. It does what OVN-Kubernetes'
//! breth0 does; the Pods' bridge is the router and the load balancer behind its patch port.
//!
//! **Design**: `docs/gateway.md`. `node` reads and judges `NodeConfig.uplink.gateway`.
//! [`bridge`] writes the flows of the gateway bridge, into the same store as `wire` does. [`pods`]
//! writes what the Pods' bridge needs for it. Zones of the tracker say who owns a connection:
//! `first_zone` on the wire (mark 1: Pods' side, 2: host), the next one for packets of the host,
//! then for packets to the host, then for endpoints on the host.
//!
//! **Limits**: one port on the wire; neither VLANs of Pods, nor direct server return, nor peers by
//! the uplink.

pub(crate) mod bridge;
pub(crate) mod pods;
#[cfg(test)]
mod tests;

use crate::{Cidr, Family, Mac};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Who leads packets between the wire and Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The switch.
    Shared,
    /// The host's routing.
    Local,
}

/// An address of the masquerade prefix, by its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Masquerade {
    /// The Pods' side, as the host sees it.
    PodsSide = 1,
    /// The host, as the Pods' side sees it.
    Host = 2,
    /// Services with policy Local, as the host translates to them.
    LocalPolicy = 3,
    /// Where the host sends packets for Services.
    NextHop = 4,
    /// Those that the host forwards for, as the Pods' side sees them.
    Forwarded = 6,
}

/// `NodeConfig.uplink.gateway`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayBridge {
    /// Who leads packets.
    pub mode: Mode,
    /// The host's addresses on the wire, with their links, in the order given.
    pub addresses: Vec<(IpAddr, Cidr)>,
    /// Addresses of the host beside those.
    pub other_addresses: Vec<IpAddr>,
    /// Masquerade prefixes: IPv4, IPv6.
    pub masquerade: [Cidr; 2],
    /// First of four zones.
    pub first_zone: u16,
    /// Pods leave with their own addresses.
    pub pods_keep_addresses: bool,
    /// Name of the port on the wire; empty: the only one there.
    pub port: String,
    /// There is no port on the wire.
    pub no_uplink: bool,
    /// Longest IP packet for Pods; 0: any.
    pub pod_mtu: u16,
}

impl GatewayBridge {
    /// The Node's address of a family.
    #[must_use]
    pub fn address(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().map(|(address, _)| *address).find(|address| Family::of(address) == family)
    }

    /// All addresses of the host, of a family.
    pub fn own(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        let all = self.addresses.iter().map(|(address, _)| address).chain(&self.other_addresses);
        all.copied().filter(move |address| Family::of(address) == family)
    }

    /// The masquerade prefix of a family.
    #[must_use]
    pub const fn prefix(&self, family: Family) -> Cidr {
        self.masquerade[family as usize]
    }

    /// A masquerade address of a family.
    #[must_use]
    pub fn masquerade(&self, family: Family, which: Masquerade) -> IpAddr {
        match self.prefix(family).address() {
            IpAddr::V4(base) => Ipv4Addr::from_bits(base.to_bits() | which as u32).into(),
            IpAddr::V6(base) => Ipv6Addr::from_bits(base.to_bits() | which as u128).into(),
        }
    }

    /// The MAC address that the host is to have for a masquerade address: 0a:58 and the last four
    /// octets of the address.
    #[must_use]
    pub fn mac(&self, family: Family, which: Masquerade) -> Mac {
        let [a, b, c, d] = match self.masquerade(family, which) {
            IpAddr::V4(address) => address.octets(),
            IpAddr::V6(address) => {
                let [.., a, b, c, d] = address.octets();
                [a, b, c, d]
            }
        };
        Mac([0x0a, 0x58, a, b, c, d])
    }

    /// Zone of connections on the wire: mark 1 is the Pods' side's, 2 the host's.
    #[must_use]
    pub const fn wire_zone(&self) -> u16 {
        self.first_zone
    }

    /// Zone of packets of the host: its address becomes a masquerade address.
    #[must_use]
    pub const fn host_zone(&self) -> u16 {
        self.first_zone + 1
    }

    /// Zone of packets to the host: the source becomes a masquerade address.
    #[must_use]
    pub const fn pods_zone(&self) -> u16 {
        self.first_zone + 2
    }

    /// Zone of connections from the wire to endpoints on the host.
    #[must_use]
    pub const fn endpoint_zone(&self) -> u16 {
        self.first_zone + 3
    }
}
