//! `Service`: what clients of the cluster and outside connect to. It writes for its
//! [`Endpoints`](super::endpoints::Endpoints), too.
//!
//! **Design**: a Service port has up to two groups per family, of all usable endpoints and of this
//! Node's ([`groups`]). For each place where it answers ([`Front`]) there are flows that lead to
//! one of them ([`flows`]). What belongs to an endpoint's address belongs to all Services that have
//! it, and is written by each, equal.

mod choice;
mod flows;
pub(crate) mod flush;
mod groups;
mod judge;
mod learned;
pub(crate) mod places;
pub(crate) mod read;
#[cfg(test)]
mod tests;

use crate::key::Need;
use crate::problem::Problems;
use crate::{Cidr, Claim, Desired, Facts, Family, Flush, GroupKey, Ids, Key, ObjectKind, CompiledObject, Problem, Reference};
use std::collections::BTreeSet;
use std::net::IpAddr;
use vswitch_proto::antrea::v1;

pub(crate) use choice::choose;
pub use groups::Used;
pub(crate) use judge::Places;

/// A transport protocol of Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// In IP's header.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    /// Match of its packets: `tcp6`.
    #[must_use]
    pub const fn of(self, family: Family) -> &'static str {
        match (self, family) {
            (Self::Tcp, Family::V4) => "tcp",
            (Self::Tcp, Family::V6) => "tcp6",
            (Self::Udp, Family::V4) => "udp",
            (Self::Udp, Family::V6) => "udp6",
            (Self::Sctp, Family::V4) => "sctp",
            (Self::Sctp, Family::V6) => "sctp6",
        }
    }

    /// The names of its source and destination port in `learn`.
    #[must_use]
    pub const fn ports_nxm(self) -> [&'static str; 2] {
        match self {
            Self::Tcp => ["NXM_OF_TCP_SRC[]", "NXM_OF_TCP_DST[]"],
            Self::Udp => ["NXM_OF_UDP_SRC[]", "NXM_OF_UDP_DST[]"],
            Self::Sctp => ["OXM_OF_SCTP_SRC[]", "OXM_OF_SCTP_DST[]"],
        }
    }
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; may be empty.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its port.
    pub port: u16,
    /// Where it answers at addresses of the Node.
    pub node_port: Option<u16>,
}

/// A Service: its addresses, its ports, and how endpoints are chosen.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // as many independent choices
pub struct Service {
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Addresses within the cluster.
    pub cluster_ips: Vec<IpAddr>,
    /// External IPs.
    pub external_ips: Vec<IpAddr>,
    /// A load balancer's.
    pub load_balancer_ips: Vec<IpAddr>,
    /// Packets to cluster IPs stay on this Node.
    pub internal_local: bool,
    /// Packets from outside stay on this Node.
    pub external_local: bool,
    /// Seconds that a client keeps its endpoint; 0: none.
    pub affinity: u32,
    /// Endpoints are chosen as Maglev does.
    pub maglev: bool,
    /// The endpoint's Node answers clients from outside.
    pub dsr: bool,
    /// Its endpoints are cluster IPs of other Services.
    pub nested: bool,
    /// Who may use a load balancer's addresses; none: all.
    pub source_ranges: Vec<Cidr>,
}

/// A place where a Service port answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Front {
    /// Within the cluster.
    Cluster(IpAddr),
    /// An external IP.
    External(IpAddr),
    /// A load balancer's.
    LoadBalancer(IpAddr),
    /// Any address of the Node that serves such.
    NodePort(u16),
}

impl Front {
    /// Clients from outside come here.
    const fn is_external(self) -> bool {
        !matches!(self, Self::Cluster(_))
    }

    /// None: any of the Node's.
    pub(crate) const fn address(self) -> Option<IpAddr> {
        match self {
            Self::Cluster(address) | Self::External(address) | Self::LoadBalancer(address) => Some(address),
            Self::NodePort(_) => None,
        }
    }
}

/// What all Services name that depend on which others there are: no Service has an empty name.
pub(crate) fn any_service() -> Key {
    Key::new(ObjectKind::Service, "")
}

impl Service {
    pub(crate) fn name_of(message: &v1::Service) -> String {
        message.name.clone()
    }

    pub(crate) fn read(message: &v1::Service, problems: &mut Problems) -> Option<Self> {
        Some(read::read(message, problems))
    }

    pub(crate) fn references(&self) -> Vec<Reference> {
        if !self.nested {
            return Vec::new();
        }
        vec![Reference { key: any_service(), need: Need::May, field: "nested".to_owned() }]
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        let mut claims = Vec::new();
        for (at, port) in self.ports.iter().enumerate() {
            for address in self.addresses() {
                let claim = Claim::Service(*address, port.protocol.number(), port.port);
                claims.push((claim, format!("ports[{at}].port")));
            }
            let claim = |number| Claim::NodePort(port.protocol.number(), number);
            claims.extend(port.node_port.map(|number| (claim(number), format!("ports[{at}].node_port"))));
        }
        claims
    }

    pub(crate) fn judge(&self, name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        judge::judge(self, name, facts, problems);
    }

    pub(crate) fn claim(&self, name: &str, desired: &Desired, ids: &mut Ids) -> Result<(), Problem> {
        groups::claim(self, name, desired, ids)
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn flush(&self, _name: &str, new: Option<&Self>, _facts: &Facts<'_>, flush: &mut BTreeSet<Flush>) {
        flush::of_service(self, new, flush);
    }

    pub(crate) fn compile(&self, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
        flows::compile(self, name, facts, compiled);
    }

    /// All its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = &IpAddr> {
        self.cluster_ips.iter().chain(&self.external_ips).chain(&self.load_balancer_ips)
    }

    /// Whether it answers in a family: it has an address of it, or none at all and a `NodePort`.
    #[must_use]
    pub fn serves(&self, family: Family) -> bool {
        let mut addresses = self.addresses().peekable();
        addresses.peek().is_none() || addresses.any(|address| Family::of(address) == family)
    }

    /// The port of a name.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<&ServicePort> {
        self.ports.iter().find(|port| port.name == name)
    }

    /// Groups of a port as they are.
    #[must_use]
    pub fn used(&self, name: &str, port: &ServicePort, facts: &Facts<'_>) -> Vec<Used> {
        groups::used((name, self), port, facts)
    }

    /// Where a port answers in a family.
    pub(crate) fn fronts(&self, port: &ServicePort, family: Family) -> Vec<Front> {
        let of = |addresses: &[IpAddr], front: fn(IpAddr) -> Front| {
            let of_family = addresses.iter().filter(|address| Family::of(address) == family);
            of_family.map(|address| front(*address)).collect::<Vec<_>>()
        };
        let mut fronts = of(&self.cluster_ips, Front::Cluster);
        fronts.extend(port.node_port.filter(|_| self.serves(family)).map(Front::NodePort));
        fronts.extend(of(&self.load_balancer_ips, Front::LoadBalancer));
        fronts.extend(of(&self.external_ips, Front::External));
        fronts
    }

    /// Where it has an effect at present.
    pub(crate) fn effective(&self, name: &str, facts: &Facts<'_>) -> judge::Fronts {
        judge::judge(self, name, facts, &mut Problems::default())
    }

    /// Places where it has an effect at present, each with its family and its port's protocol.
    pub(crate) fn in_effect(&self, name: &str, facts: &Facts<'_>) -> BTreeSet<(Family, Protocol, Front)> {
        let fronts = self.effective(name, facts);
        let ports = self.ports.iter().flat_map(|port| facts.node.families.iter().map(move |family| (port, *family)));
        let places = ports.flat_map(|(port, family)| self.fronts(port, family).into_iter().map(move |front| (port, family, front)));
        places.filter(|(port, _, front)| fronts.has(port, *front)).map(|(port, family, front)| (family, port.protocol, front)).collect()
    }

    /// Whether packets that come to a place from outside are translated by their endpoint's Node.
    fn is_dsr(&self, front: Front) -> bool {
        let virtual_address = match front {
            Front::External(address) | Front::LoadBalancer(address) => Some(address),
            Front::Cluster(_) | Front::NodePort(_) => None,
        };
        self.dsr && virtual_address.is_some_and(|address| Family::of(&address) == Family::V4)
    }

    /// Whether a place leads to endpoints of this Node only.
    const fn is_local(&self, front: Front) -> bool {
        if front.is_external() { self.external_local } else { self.internal_local }
    }
}

/// It is gone: its numbers are free.
pub(crate) fn release(name: &str, ids: &mut Ids) {
    for key in ids.group_keys_of(name) {
        ids.release_group(&key);
    }
}

/// The key of a Service port's group.
#[must_use]
pub(crate) fn group_key(service: &str, port: &ServicePort, family: Family, local: bool) -> GroupKey {
    GroupKey::Service { service: service.into(), port: port.name.as_str().into(), family, local }
}
