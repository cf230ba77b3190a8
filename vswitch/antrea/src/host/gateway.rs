//! The host's side of a gateway bridge: masquerade addresses on the host's port there, ways to
//! Services by the bridge, and `NodePorts` (docs/gateway.md, "What the host must do").
//!
//! Both modes translate the host's own connections to `NodePorts` into cluster IPs. In mode Local
//! the host does so for the wire, too; Services with policy Local are reached by a masquerade
//! address, so that the client's address stays. So are those with internal policy Local, in both
//! modes: that policy is of the cluster IP alone.

use super::services::{self, Places};
use super::table::{ip, set};
use super::{Draft, message};
use crate::gateway::{GatewayBridge, Masquerade, Mode};
use crate::object::Object;
use crate::object::service::{Front, Protocol, Service};
use crate::{Cidr, Facts, Family, Node, ObjectKind};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use vswitch_proto::antrea::v1;

/// The host's side of one family.
struct Side<'a> {
    family: Family,
    gateway: &'a GatewayBridge,
    /// The host's port on the gateway bridge.
    interface: &'a str,
    /// The Node's address.
    own: IpAddr,
}

/// A `NodePort` or a load balancer's place, and where the host translates it to.
type Translated = BTreeSet<(Protocol, String, SocketAddr)>;

pub(super) fn draft(facts: &Facts<'_>, draft: &mut Draft) {
    let node = facts.node;
    let (Some(gateway), Some(under)) = (node.gateway_bridge(), &facts.wire.under) else { return };
    if under.host.is_empty() {
        return;
    }
    let places = services::places(facts);
    if node.has(Family::V4) {
        draft.sysctl(format!("net/ipv4/conf/{}/rp_filter", under.host), "2");
    }
    for family in node.families.iter().copied() {
        let Some(own) = gateway.address(family) else { continue };
        let side = Side { family, gateway, interface: &under.host, own };
        side.masquerade_addresses(draft);
        side.routes(node, &places, draft);
        side.node_ports(facts, &places, draft);
    }
}

impl Side<'_> {
    fn at(&self, which: Masquerade) -> IpAddr {
        self.gateway.masquerade(self.family, which)
    }

    /// The host's own one; the others are permanent neighbours.
    fn masquerade_addresses(&self, draft: &mut Draft) {
        let interface = self.interface.to_owned();
        let length = self.gateway.prefix(self.family).length();
        draft.plan.addresses.push(v1::HostAddress {
            interface: interface.clone(),
            address: format!("{}/{length}", self.at(Masquerade::Host)),
            deprecated: true,
            ..v1::HostAddress::default()
        });
        for which in [Masquerade::PodsSide, Masquerade::NextHop] {
            draft.plan.neighbours.push(v1::HostNeighbour {
                interface: interface.clone(),
                address: self.at(which).to_string(),
                mac: message(self.gateway.mac(self.family, which)),
            });
        }
    }

    /// To the Pods' side, and to everything where Services answer.
    fn routes(&self, node: &Node, places: &Places, draft: &mut Draft) {
        let interface = self.interface.to_owned();
        let direct = v1::HostRoute { interface, source: self.own.to_string(), ..v1::HostRoute::default() };
        let by_bridge = v1::HostRoute { via: self.at(Masquerade::NextHop).to_string(), onlink: true, ..direct.clone() };
        draft.route(Cidr::host(self.at(Masquerade::PodsSide)), direct);
        let cluster: Vec<Cidr> =
            node.service_cidrs.iter().copied().filter(|cidr| cidr.family() == self.family).collect();
        for cidr in &cluster {
            draft.route(*cidr, by_bridge.clone());
        }
        let addresses = places.iter().filter(|(of, ..)| *of == self.family).filter_map(|(.., front)| front.address());
        let is_host =
            |address: &IpAddr| node.is_own(address) || self.gateway.own(self.family).any(|own| own == *address);
        for address in
            addresses.filter(|address| !cluster.iter().any(|cidr| cidr.contains(address)) && !is_host(address))
        {
            draft.route(Cidr::host(address), by_bridge.clone());
        }
        let hop = node.virtual_service[self.family as usize];
        draft.behind_gateway(Cidr::host(self.at(Masquerade::LocalPolicy)), Some(hop), node);
    }

    /// Connections to `NodePorts`, and in mode Local those of the wire to load balancers whose
    /// Services have policy Local.
    fn node_ports(&self, facts: &Facts<'_>, places: &Places, draft: &mut Draft) {
        let (mut own, mut of_wire, mut of_balancers) = (Translated::new(), Translated::new(), Translated::new());
        for (_, entry) in facts.desired.of(ObjectKind::Service) {
            let Object::Service(service) = &entry.object else { continue };
            self.translate(service, places, &mut own, &mut of_wire, &mut of_balancers);
        }
        let word = ip(self.family);
        let addresses = facts.node.node_port_addresses.iter().filter(|own| Family::of(own) == self.family);
        let addresses: BTreeSet<&IpAddr> = addresses.collect();
        if !addresses.is_empty() {
            let matching = format!("{word} daddr {} ", set(addresses.into_iter().map(IpAddr::to_string)));
            draft.table.own.extend(self.rules(&matching, "", &own));
            if self.gateway.mode == Mode::Local {
                draft.table.destinations.extend(self.rules(&matching, "", &of_wire));
            }
        }
        if self.gateway.mode == Mode::Local {
            draft.table.destinations.extend(self.rules("", &format!("{word} daddr . "), &of_balancers));
        }
    }

    fn translate(
        &self,
        service: &Service,
        places: &Places,
        own: &mut Translated,
        of_wire: &mut Translated,
        of_balancers: &mut Translated,
    ) {
        let cluster = service.cluster_ips.iter().find(|address| Family::of(address) == self.family);
        if cluster.is_none() && !service.external_local {
            return;
        }
        let is_there = |protocol, front| places.contains(&(self.family, protocol, front));
        for port in &service.ports {
            let Some(number) = port.node_port.filter(|number| is_there(port.protocol, Front::NodePort(*number))) else {
                continue;
            };
            let to_local = SocketAddr::new(self.at(Masquerade::LocalPolicy), number);
            // The internal policy is the cluster IP's alone.
            let to_any = match cluster {
                Some(cluster) if !service.internal_local => SocketAddr::new(*cluster, port.port),
                _ => to_local,
            };
            own.insert((port.protocol, number.to_string(), to_any));
            let wired = if service.external_local { to_local } else { to_any };
            of_wire.insert((port.protocol, number.to_string(), wired));
            let balancers = service.load_balancer_ips.iter().map(|address| (*address, Front::LoadBalancer(*address)));
            let external = service.external_ips.iter().map(|address| (*address, Front::External(*address)));
            for (address, front) in balancers.chain(external).filter(|_| service.external_local) {
                if Family::of(&address) == self.family && is_there(port.protocol, front) {
                    of_balancers.insert((port.protocol, format!("{address} . {}", port.port), to_local));
                }
            }
        }
    }

    /// One rule for each protocol: a look-up, however many Services there are.
    fn rules(&self, matching: &str, key: &str, all: &Translated) -> Vec<String> {
        let word = ip(self.family);
        let of = |protocol: Protocol| {
            let of_protocol = all.iter().filter(|(of, ..)| *of == protocol);
            let map = set(of_protocol.map(|(_, key, to)| format!("{key} : {} . {}", to.ip(), to.port())));
            format!("{matching}dnat {word} addr . port to {key}{} dport map {map}", protocol.of(Family::V4))
        };
        let there = Protocol::ALL.into_iter().filter(|protocol| all.iter().any(|(of, ..)| of == protocol));
        there.map(of).collect()
    }
}
