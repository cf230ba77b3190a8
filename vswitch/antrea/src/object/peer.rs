//! `PeerNode`.

pub(crate) mod compile;
pub(crate) mod in_force;
#[cfg(test)]
mod tests;

use super::judge;
use crate::node::{TrafficMode, mac, one_per_family};
use crate::problem::{Code, Problems};
use crate::{Cidr, Claim, Desired, Facts, Family, Flush, Ids, Key, ObjectKind, Mac, Node, CompiledObject, Problem, Reference};
use std::collections::BTreeSet;
use std::net::IpAddr;
use vswitch_proto::antrea::v1;

/// How packets for a peer's Pods leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// By the tunnel.
    Tunnel,
    /// To the host, which routes.
    Gateway,
    /// By the uplink.
    Uplink,
}

/// Another Node, and how its Pods are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNode {
    /// Where its Pods' addresses are from: one for each family at most.
    pub pod_cidrs: Vec<Cidr>,
    /// Its gateway's addresses, defaults filled in.
    pub gateways: Vec<IpAddr>,
    /// Its addresses in the network between Nodes, one for each family at most.
    pub transport: Vec<IpAddr>,
    /// How packets leave; None: as the traffic mode says.
    pub path: Option<Path>,
    /// Its address on the uplink's link.
    pub mac: Option<Mac>,
    /// A tunnel port of its own.
    pub tunnel_port: Option<String>,
}

impl PeerNode {
    pub(crate) fn name_of(message: &v1::PeerNode) -> String {
        message.name.clone()
    }

    pub(crate) fn read(message: &v1::PeerNode, problems: &mut Problems) -> Option<Self> {
        let mut pod_cidrs: Vec<Cidr> = Vec::new();
        for cidr in crate::node::cidrs("pod_cidrs", &message.pod_cidrs, problems) {
            if pod_cidrs.contains(&cidr) {
                problems.twice("pod_cidrs", cidr);
                continue;
            }
            if pod_cidrs.iter().any(|other| other.family() == cidr.family()) {
                problems.push(Code::Duplicate, "pod_cidrs", format!("{cidr} is the second one of its family"));
            }
            pod_cidrs.push(cidr);
        }
        let transport = one_per_family("transport_addresses", &message.transport_addresses, problems);
        if message.transport_addresses.is_empty() {
            problems.push(Code::Missing, "transport_addresses", "it has no address");
        }
        for address in &transport {
            super::pod::check_host("transport_addresses", address, problems);
        }
        let path = match v1::PeerPath::try_from(message.path) {
            Ok(v1::PeerPath::Unspecified) => None,
            Ok(v1::PeerPath::Tunnel) => Some(Path::Tunnel),
            Ok(v1::PeerPath::Gateway) => Some(Path::Gateway),
            Ok(v1::PeerPath::Uplink) => Some(Path::Uplink),
            Err(_) => {
                problems.push(Code::Value, "path", format!("{} is no path", message.path));
                None
            }
        };
        let mac = mac("mac", message.mac.as_ref(), path == Some(Path::Uplink), problems);
        if message.mac.is_some() && path != Some(Path::Uplink) {
            problems.push(Code::Value, "mac", "it is for PEER_PATH_UPLINK only");
        }
        let tunnel_port = Some(message.tunnel_port.clone()).filter(|port| !port.is_empty());
        let gateways = gateways(message, &pod_cidrs, problems);
        Some(Self { pod_cidrs, gateways, transport, path, mac, tunnel_port })
    }

    pub(crate) fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        let addresses = self.transport.iter().zip(0..);
        let mut claims: Vec<(Claim, String)> =
            addresses.map(|(address, at)| (Claim::Node(*address), format!("transport_addresses[{at}]"))).collect();
        claims.extend(self.tunnel_port.iter().map(|port| (Claim::Port(port.clone()), "tunnel_port".to_owned())));
        claims
    }

    pub(crate) fn judge(&self, name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        self.effective(name, facts, problems);
    }

    /// The peer with those of its prefixes and addresses that are nobody else's. None: it has no
    /// flows at all.
    pub(crate) fn effective(&self, name: &str, facts: &Facts<'_>, problems: &mut Problems) -> Option<Self> {
        let transport = self.usable(name, facts, problems);
        let cidrs = self.pod_cidrs.iter().zip(0..);
        let pod_cidrs: Vec<Cidr> =
            cidrs.filter(|(cidr, at)| has_cidr(name, cidr, *at, facts, problems)).map(|(cidr, _)| *cidr).collect();
        let gateways = self.gateways.iter().filter(|gateway| pod_cidrs.iter().any(|cidr| cidr.family() == Family::of(gateway)));
        let gateways = gateways.copied().collect();
        transport.map(|transport| Self { pod_cidrs, gateways, transport, ..self.clone() })
    }

    /// Those of its addresses that are nobody else's. None: it has no effect at all.
    fn usable(&self, name: &str, facts: &Facts<'_>, problems: &mut Problems) -> Option<Vec<IpAddr>> {
        let (node, key) = (facts.node, Key::new(ObjectKind::PeerNode, name));
        let before = problems.count();
        if name == node.name {
            problems.add(Problem::new(Code::Overlap, "name", "it is this Node").other(Key::node()));
        }
        // Where a cluster got its second family later, Nodes of before have the first one only.
        if node.mode != TrafficMode::PolicyOnly && !self.pod_cidrs.iter().any(|cidr| node.has(cidr.family())) {
            problems.push(Code::Missing, "pod_cidrs", format!("there is none of {:?}", node.families));
        }
        let path = self.path(node);
        let tunneled = matches!(node.mode, TrafficMode::Encap | TrafficMode::Hybrid);
        if path == Path::Tunnel && !tunneled {
            problems.push(Code::Value, "path", "this traffic mode has no tunnel");
        }
        if path == Path::Uplink && node.uplink.is_none() {
            problems.push(Code::Feature, "path", "it needs the Node's uplink");
        }
        if path == Path::Uplink && node.gateway_bridge().is_some() {
            problems.push(Code::Feature, "path", "behind a gateway bridge there is no path by the uplink yet");
        }
        if self.mac.is_some_and(|mac| node.uplink.as_ref().is_some_and(|uplink| uplink.mac == mac)) {
            problems.add(Problem::new(Code::Overlap, "mac", "it is our uplink's").other(Key::node()));
        }
        if let Some(port) = &self.tunnel_port {
            judge::port("tunnel_port", port, facts, problems);
            facts.ports.no_guest("tunnel_port", port, problems);
            judge::held_by(&key, &Claim::Port(port.clone()), "tunnel_port", facts, problems);
            if !tunneled {
                problems.push(Code::Value, "tunnel_port", "this traffic mode has no tunnel");
            }
        }
        let is_whole = problems.count() == before;
        let transport: Vec<IpAddr> = self
            .transport
            .iter()
            .zip(0..)
            .filter(|(address, at)| {
                let field = format!("transport_addresses[{at}]");
                let is_ours = node.transport.iter().any(|(own, _)| own == *address);
                if is_ours {
                    let problem = Problem::new(Code::Overlap, &*field, format!("{address} is this Node's"));
                    problems.add(problem.other(Key::node()));
                }
                judge::held_by(&key, &Claim::Node(**address), &field, facts, problems) && !is_ours
            })
            .map(|(address, _)| *address)
            .collect();
        (is_whole && !transport.is_empty()).then_some(transport)
    }

    pub(crate) fn claim(&self, _name: &str, _desired: &Desired, _ids: &mut Ids) -> Result<(), Problem> {
        Ok(())
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn flush(&self, _name: &str, _new: Option<&Self>, _facts: &Facts<'_>, _flush: &mut BTreeSet<Flush>) {}

    pub(crate) fn compile(&self, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
        if let Some(effective) = self.effective(name, facts, &mut Problems::default()) {
            compile::compile(&effective, facts, compiled);
        }
    }

    /// How packets for its Pods leave.
    #[must_use]
    pub fn path(&self, node: &Node) -> Path {
        let on_link = |address: &IpAddr| node.transport.iter().any(|(_, link)| link.contains(address));
        self.path.unwrap_or(match node.mode {
            TrafficMode::Encap => Path::Tunnel,
            TrafficMode::NoEncap | TrafficMode::PolicyOnly => Path::Gateway,
            TrafficMode::Hybrid if self.transport.iter().any(on_link) => Path::Gateway,
            TrafficMode::Hybrid => Path::Tunnel,
        })
    }

    /// Where tunnels for its Pods of a family end: its address of this family, else the other one.
    #[must_use]
    pub fn tunnel_end(&self, family: Family) -> Option<IpAddr> {
        let same = self.transport.iter().find(|address| Family::of(address) == family);
        same.or_else(|| self.transport.first()).copied()
    }
}

/// Whether a prefix is of one of the Node's families, and neither its own nor another peer's.
fn has_cidr(name: &str, cidr: &Cidr, at: usize, facts: &Facts<'_>, problems: &mut Problems) -> bool {
    let (node, key) = (facts.node, Key::new(ObjectKind::PeerNode, name));
    let field = format!("pod_cidrs[{at}]");
    judge::family(&field, &cidr.address(), facts, problems);
    for own in node.pod_cidrs.iter().chain(&node.service_cidrs).filter(|own| own.overlaps(cidr)) {
        let problem = Problem::new(Code::Overlap, &field, format!("{cidr} overlaps {own} of this Node"));
        problems.add(problem.other(Key::node()));
    }
    for (address, _) in node.transport.iter().filter(|(address, _)| cidr.contains(address)) {
        let problem = Problem::new(Code::Overlap, &field, format!("{address} of this Node is in {cidr}"));
        problems.add(problem.other(Key::node()));
    }
    if facts.desired.peer_prefixes().contains(&(*cidr, key.clone())) {
        return true;
    }
    if let Some((other, key)) = facts.desired.peers_at(cidr).find(|(_, other)| **other != key) {
        let reason = format!("{cidr} overlaps {other} of {key}");
        problems.add(Problem::new(Code::Overlap, field, reason).other(key.clone()));
    }
    false
}

/// One gateway for each CIDR: those that are given, or the first addresses.
fn gateways(message: &v1::PeerNode, cidrs: &[Cidr], problems: &mut Problems) -> Vec<IpAddr> {
    if message.gateway_addresses.is_empty() {
        return cidrs.iter().map(Cidr::first_host).collect();
    }
    let gateways = one_per_family("gateway_addresses", &message.gateway_addresses, problems);
    for address in &gateways {
        super::pod::check_host("gateway_addresses", address, problems);
    }
    for family in Family::BOTH {
        let cidr = cidrs.iter().any(|cidr| cidr.family() == family);
        let gateway = gateways.iter().any(|address| Family::of(address) == family);
        if cidr && !gateway {
            problems.push(Code::Missing, "gateway_addresses", format!("there is none of {family:?}"));
        } else if gateway && !cidr {
            problems.push(Code::Value, "gateway_addresses", format!("there is no CIDR of {family:?}"));
        }
    }
    gateways
}
