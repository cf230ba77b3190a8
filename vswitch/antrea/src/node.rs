//! The Node: what `NodeConfig` says, read.

mod check;
pub(crate) mod compile;
mod gateway;
mod read;
#[cfg(test)]
mod tests;

use crate::{Cidr, Family, Features, Mac};
use std::net::IpAddr;

pub(crate) use read::{cidrs, mac, one_per_family, read};

/// How Pods of different Nodes reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficMode {
    /// By tunnels.
    #[default]
    Encap,
    /// By the network between Nodes.
    NoEncap,
    /// Tunnels to Nodes on other links.
    Hybrid,
    /// Another plug-in routes.
    PolicyOnly,
}

/// The host's way to Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Name of its port.
    pub port: String,
    /// The host's address behind it.
    pub mac: Mac,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// A way past the host's stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// Name of its port in the Node's bridge.
    pub port: String,
    /// Bridge behind the patch port; empty: none.
    pub underlay_bridge: String,
    /// MAC of the Node on that wire.
    pub mac: Mac,
    /// Next hops: address, and MAC if it is given.
    pub next_hops: Vec<(IpAddr, Option<Mac>)>,
    /// Traffic from outside is served from here.
    pub external_traffic: bool,
    /// Addresses of Services that this Node has on the wire.
    pub answered_addresses: Vec<IpAddr>,
    /// The bridge behind the patch port is a gateway bridge.
    pub gateway: Option<crate::GatewayBridge>,
}

/// How the host's own packets are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalProbe {
    /// By the gateway's address.
    ByAddress,
    /// By their port.
    ByPort(String),
    /// Not at all.
    #[default]
    None,
}

/// Zones of the tracker, IPv4 and IPv6 each unless they say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zones {
    /// Of all connections.
    pub main: [u16; 2],
    /// Of translated sources of Services.
    pub snat: [u16; 2],
    /// Of Egress IPs.
    pub egress: [u16; 2],
    /// In the bridge behind the uplink, both families: of the host's connections and of Services'
    /// at the Node's own addresses.
    pub uplink: u16,
    /// There, both families: of Services' connections to endpoints on the host.
    pub host_endpoints: u16,
    /// Connections of Pods of the wire have zones of their own, by VLAN.
    pub of_vlans: bool,
}

impl Default for Zones {
    fn default() -> Self {
        Self {
            main: [65520, 65510],
            snat: [65521, 65511],
            egress: [65522, 65512],
            uplink: 64000,
            host_endpoints: 64003,
            of_vlans: false,
        }
    }
}

/// What a zone of a VLAN has beside its number (Antrea: `IPCtZoneTypeField`): IPv4, IPv6.
const VLAN_ZONES: [u16; 2] = [0x1000, 0x3000];
/// Bits of a zone that are the VLAN.
const VLAN_BITS: u16 = 0xfff;

impl Zones {
    /// The zone of connections of a VLAN; 0: of what is not tagged.
    #[must_use]
    pub const fn of_vlan(family: Family, vlan: u16) -> u16 {
        VLAN_ZONES[family as usize] | vlan & VLAN_BITS
    }

    /// Whether a zone is for connections of a VLAN.
    #[must_use]
    pub fn is_of_vlan(&self, zone: u16) -> bool {
        self.of_vlans && VLAN_ZONES.contains(&(zone & !VLAN_BITS))
    }

    /// The VLAN of a zone; 0: none.
    #[must_use]
    pub fn vlan_of(&self, zone: u16) -> u16 {
        if self.is_of_vlan(zone) { zone & VLAN_BITS } else { 0 }
    }

    /// Whether connections in a zone are what they are before anything translates a source.
    #[must_use]
    pub fn is_main(&self, zone: u16) -> bool {
        self.main.contains(&zone) || self.is_of_vlan(zone)
    }

    /// Those of the Pods' bridge that are not a VLAN's.
    #[must_use]
    pub fn fixed(&self) -> [u16; 6] {
        let ([a, b], [c, d], [e, f]) = (self.main, self.snat, self.egress);
        [a, b, c, d, e, f]
    }

    /// Those of the bridge behind the uplink.
    #[must_use]
    pub const fn of_wire(&self) -> [u16; 2] {
        [self.uplink, self.host_endpoints]
    }

    /// Whether a zone is ours.
    #[must_use]
    pub fn contains(&self, zone: u16) -> bool {
        self.fixed().contains(&zone) || self.of_wire().contains(&zone) || self.is_of_vlan(zone)
    }
}

/// Packets that somebody has to answer or is told of, by `PacketCategory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum PacketCategory {
    PolicyReject,
    ServiceReject,
    Dns,
    Igmp,
    PolicyLog,
    Traceflow,
}

/// A rate: packets per second, and at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PacketLimit {
    pub rate_pps: u32,
    pub burst_packets: u32,
}

impl Default for PacketLimit {
    /// Antrea's `packetInRate`, and twice as many at once.
    fn default() -> Self {
        Self { rate_pps: 5000, burst_packets: 10_000 }
    }
}

/// What is learned of names, and how long an answer may wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameLimits {
    /// Least seconds that an address is held.
    pub min_ttl_seconds: u32,
    /// Names of one pattern.
    pub names_per_pattern: usize,
    /// Names in all.
    pub names: usize,
    /// Milliseconds that an answer waits at most.
    pub wait_ms: u32,
}

impl Default for NameLimits {
    fn default() -> Self {
        Self { min_ttl_seconds: 0, names_per_pattern: 1024, names: 10_000, wait_ms: 2000 }
    }
}

/// The Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name in the cluster.
    pub name: String,
    /// Bridge of its Pods.
    pub bridge: String,
    /// How Pods of different Nodes reach each other.
    pub mode: TrafficMode,
    /// Families of Pods and Services, in order.
    pub families: Vec<Family>,
    /// Its addresses in the network between Nodes, with their links.
    pub transport: Vec<(IpAddr, Cidr)>,
    /// Where its Pods' addresses are from.
    pub pod_cidrs: Vec<Cidr>,
    /// The gateway.
    pub gateway: Gateway,
    /// Name of the tunnel port; modes encap and hybrid.
    pub tunnel: Option<String>,
    /// A way past the host's stack.
    pub uplink: Option<Uplink>,
    /// Where cluster IPs are from.
    pub service_cidrs: Vec<Cidr>,
    /// Features.
    pub features: Features,
    /// Addresses that serve `NodePorts`.
    pub node_port_addresses: Vec<IpAddr>,
    /// Destinations that no Egress applies to.
    pub egress_except: Vec<Cidr>,
    /// Its zone; may be empty.
    pub topology_zone: String,
    /// Ports of the application-aware engine: to it, from it.
    pub l7: Option<(String, String)>,
    /// How the host's own packets are known.
    pub local_probe: LocalProbe,
    /// Categories that the agent answers.
    pub taken_over: Vec<PacketCategory>,
    /// Rates that are not the default ones.
    pub packet_limits: Vec<(PacketCategory, PacketLimit)>,
    /// Denied connections are told as flow records.
    pub record_denied: bool,
    /// Servers whose answers to questions for names count; none: any.
    pub dns_servers: Vec<IpAddr>,
    /// What is learned of names.
    pub names: NameLimits,
    /// Zones of the tracker.
    pub zones: Zones,
    /// MAC of all that is tunneled or routed.
    pub virtual_mac: Mac,
    /// Source of packets that enter the host again.
    pub reentrance_mac: Mac,
    /// Source of hairpin Service connections through the gateway: IPv4, IPv6.
    pub virtual_service: [IpAddr; 2],
    /// What the host translates `NodePort` packets to: IPv4, IPv6.
    pub virtual_node_port: [IpAddr; 2],
    /// Pods keep their source when they leave by the host.
    pub pods_keep_addresses: bool,
}

impl Node {
    /// Whether Pods have addresses of this family.
    #[must_use]
    pub fn has(&self, family: Family) -> bool {
        self.families.contains(&family)
    }

    /// Whether an address is one of the Node's own in the network between Nodes.
    pub(crate) fn is_own(&self, address: &IpAddr) -> bool {
        self.node_port_addresses.contains(address) || self.transport.iter().any(|(own, _)| own == address)
    }

    /// The Node's own addresses of a family in the network between Nodes, each once.
    pub(crate) fn own_addresses(&self, family: Family) -> Vec<IpAddr> {
        let all = self.node_port_addresses.iter().chain(self.transport.iter().map(|(own, _)| own));
        let mut own: Vec<IpAddr> = all.copied().filter(|own| Family::of(own) == family && !own.is_loopback()).collect();
        own.sort_unstable();
        own.dedup();
        own
    }

    /// The gateway's address of a family.
    #[must_use]
    pub fn gateway_address(&self, family: Family) -> Option<IpAddr> {
        self.gateway.addresses.iter().copied().find(|address| Family::of(address) == family)
    }

    /// The zone of all connections of a family.
    #[must_use]
    pub fn zone(&self, family: Family) -> u16 {
        self.zones.main[family as usize]
    }

    /// The zone of a packet, as `ct()` names it: its VLAN's, where Pods have some.
    pub(crate) fn zone_of_packet(&self, family: Family) -> String {
        if self.features.pod_vlans { "NXM_NX_REG8[0..15]".to_owned() } else { self.zone(family).to_string() }
    }

    /// The zone of translated sources of Services.
    #[must_use]
    pub fn snat_zone(&self, family: Family) -> u16 {
        self.zones.snat[family as usize]
    }

    /// The zone of Egress IPs.
    #[must_use]
    pub fn egress_zone(&self, family: Family) -> u16 {
        self.zones.egress[family as usize]
    }

    /// The gateway bridge, if there is one.
    #[must_use]
    pub fn gateway_bridge(&self) -> Option<&crate::GatewayBridge> {
        self.uplink.as_ref()?.gateway.as_ref()
    }

    /// Likewise, if the switch leads packets between the wire and Pods.
    pub(crate) fn shared_gateway(&self) -> Option<&crate::GatewayBridge> {
        self.gateway_bridge().filter(|gateway| gateway.mode == crate::gateway::Mode::Shared)
    }

    /// Whether the configuration names a port of the bridge.
    pub(crate) fn has_port(&self, port: &str) -> bool {
        let is = |other: &str| other == port;
        is(&self.gateway.port)
            || self.tunnel.as_deref().is_some_and(is)
            || self.uplink.as_ref().is_some_and(|uplink| is(&uplink.port))
            || self.l7.as_ref().is_some_and(|(target, back)| is(target) || is(back))
            || matches!(&self.local_probe, LocalProbe::ByPort(probe) if is(probe))
    }

    /// Ports of the bridge that the configuration names, with the fields that do.
    #[must_use]
    pub fn ports(&self) -> Vec<(String, &str)> {
        let mut ports = vec![("gateway.port".to_owned(), self.gateway.port.as_str())];
        ports.extend(self.tunnel.iter().map(|port| ("tunnel.port".to_owned(), port.as_str())));
        ports.extend(self.uplink.iter().map(|uplink| ("uplink.port".to_owned(), uplink.port.as_str())));
        if let Some((target, back)) = &self.l7 {
            ports.push(("l7.target".to_owned(), target));
            ports.push(("l7.return_port".to_owned(), back));
        }
        if let LocalProbe::ByPort(port) = &self.local_probe {
            ports.push(("local_probe_port".to_owned(), port));
        }
        ports
    }
}
