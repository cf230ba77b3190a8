//! The host plan: what the host's kernel has to have beside the flows.
//!
//! **Design**: [`plan`] is a pure function of the facts. It reads what is in force, as compilation
//! does, and makes the whole plan anew. Each part of the Node adds what it needs to a [`Draft`]:
//!
//! | module | adds |
//! |---|---|
//! | here | gateway, forwarding, routes to peers and to Pods, masquerading of Pods |
//! | [`services`] | routes to Services, `NodePorts` |
//! | [`gateway`] | the host's side of a gateway bridge |
//! | [`egress`] | Egress IPs that the host translates |
//! | [`reentrance`] | Service traffic that enters the switch again (modes that route) |
//! | [`table`] | the text of nftables' table |
//!
//! A further mode of the gateway is one more module, and one more line of [`plan`].
//!
//! **Limits**: those of the objects. The plan has at most some lines for each object.

mod egress;
mod gateway;
mod reentrance;
mod services;
mod table;
#[cfg(test)]
mod tests;

use crate::node::TrafficMode;
use crate::object::peer::{Path, PeerNode};
use crate::{Cidr, Facts, Family, Mac, Node, ObjectKind};
use prost::Message;
use std::collections::BTreeSet;
use std::net::IpAddr;
use table::Table;
use vswitch_proto::antrea::v1;
use vswitch_proto::v1::MacAddress;

/// The plan of what is in force. `complete`: all objects are known.
#[must_use]
pub fn plan(facts: &Facts<'_>, complete: bool) -> v1::HostPlan {
    let mut draft = Draft::default();
    base(facts.node, &mut draft);
    pods(facts, &mut draft);
    let peers = facts.desired.of(ObjectKind::PeerNode).filter_map(|(key, _)| facts.peer(&key.name));
    let peers: Vec<PeerNode> = peers.collect();
    peers.iter().for_each(|peer| to_peer(peer, facts.node, &mut draft));
    // Before Services: their ways by the gateway bridge go before those by the gateway.
    gateway::draft(facts, &mut draft);
    services::draft(facts, &mut draft);
    egress::draft(facts, &mut draft);
    reentrance::draft(facts.node, &mut draft);
    masquerade(facts.node, &peers, &mut draft);
    draft.finish(complete)
}

/// A plan in the making.
#[derive(Debug, Default)]
struct Draft {
    plan: v1::HostPlan,
    /// Destinations that have a route in the main table. The first route of each counts.
    routed: BTreeSet<Cidr>,
    table: Table,
}

impl Draft {
    fn sysctl(&mut self, path: String, value: &str) {
        self.plan.sysctls.push(v1::HostSysctl { path, value: value.to_owned() });
    }

    fn neighbour(&mut self, address: IpAddr, mac: Mac, node: &Node) {
        let one =
            v1::HostNeighbour { interface: node.gateway.port.clone(), address: address.to_string(), mac: message(mac) };
        if !self.plan.neighbours.contains(&one) {
            self.plan.neighbours.push(one);
        }
    }

    /// A route in the main table, unless its destination has one.
    fn route(&mut self, to: Cidr, route: v1::HostRoute) {
        if self.routed.insert(to) {
            self.plan.routes.push(v1::HostRoute { destination: prefix(&to), ..route });
        }
    }

    /// To the gateway: by a next hop behind it, or directly.
    fn behind_gateway(&mut self, to: Cidr, via: Option<IpAddr>, node: &Node) {
        let interface = node.gateway.port.clone();
        let onlink = via.is_some();
        let via = via.map(|via| via.to_string()).unwrap_or_default();
        self.route(to, v1::HostRoute { via, interface, onlink, ..v1::HostRoute::default() });
    }

    /// Everything in an order of its own, and the number that stands for it.
    fn finish(self, complete: bool) -> v1::HostPlan {
        let mut plan = v1::HostPlan { nft: self.table.text(), complete, ..self.plan };
        plan.addresses.sort_by(|a, b| (&a.interface, &a.address).cmp(&(&b.interface, &b.address)));
        plan.addresses.dedup();
        plan.neighbours.sort_by(|a, b| a.address.cmp(&b.address));
        plan.routes.sort_by(|a, b| (a.table, &a.destination).cmp(&(b.table, &b.destination)));
        plan.generation = 0;
        plan.generation = fingerprint(&plan.encode_to_vec());
        plan
    }
}

/// FNV-1a, 64 bits; never 0.
fn fingerprint(bytes: &[u8]) -> u64 {
    let mixed = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    mixed.max(1)
}

#[allow(clippy::unnecessary_wraps)] // a message's field
fn message(mac: Mac) -> Option<MacAddress> {
    Some(MacAddress { octets: mac.0.to_vec() })
}

/// A prefix with its length, always.
fn prefix(cidr: &Cidr) -> String {
    format!("{}/{}", cidr.address(), cidr.length())
}

/// The gateway is up, has its addresses, and the host forwards.
fn base(node: &Node, draft: &mut Draft) {
    let gateway = &node.gateway;
    draft.plan.links.push(v1::HostLink { interface: gateway.port.clone(), mac: message(gateway.mac), up: true });
    if node.has(Family::V4) {
        draft.sysctl("net/ipv4/ip_forward".to_owned(), "1");
        // Answers may come back by another way than the one that the host would take.
        draft.sysctl(format!("net/ipv4/conf/{}/rp_filter", gateway.port), "2");
    }
    if node.has(Family::V6) {
        draft.sysctl("net/ipv6/conf/all/forwarding".to_owned(), "1");
    }
    for address in gateway.addresses.iter().filter(|address| node.has(Family::of(address))) {
        let whole = Family::of(address).bits();
        let own = node.pod_cidrs.iter().find(|cidr| cidr.contains(address)).map_or(whole, Cidr::length);
        let length = if node.mode == TrafficMode::PolicyOnly { whole } else { own };
        draft.plan.addresses.push(v1::HostAddress {
            interface: gateway.port.clone(),
            address: format!("{address}/{length}"),
            ..v1::HostAddress::default()
        });
    }
    // The kernel has these by the gateway's addresses.
    if node.mode != TrafficMode::PolicyOnly {
        draft.routed.extend(node.pod_cidrs.iter().copied());
    }
}

/// Where another plug-in gives Pods their addresses, each of them has a route.
fn pods(facts: &Facts<'_>, draft: &mut Draft) {
    if facts.node.mode != TrafficMode::PolicyOnly {
        return;
    }
    let pods = facts.desired.of(ObjectKind::Pod).filter_map(|(key, _)| facts.pod(&key.name));
    for address in pods.flat_map(|pod| pod.addresses) {
        draft.behind_gateway(Cidr::host(address), None, facts.node);
    }
}

/// The host's way to another Node's Pods. By the network between Nodes, only a peer on the same
/// link has a route here: the way to other links is the network's own.
fn to_peer(peer: &PeerNode, node: &Node, draft: &mut Draft) {
    for cidr in peer.pod_cidrs.iter().filter(|cidr| node.has(cidr.family())) {
        let of_family = |address: &&IpAddr| Family::of(address) == cidr.family();
        if peer.path(node) == Path::Tunnel {
            let Some(gateway) = peer.gateways.iter().find(of_family) else { continue };
            // The pipeline answers for it by ARP, and not every solicitation is the pipeline's.
            if cidr.family() == Family::V6 {
                draft.neighbour(*gateway, node.virtual_mac, node);
            }
            draft.behind_gateway(*cidr, Some(*gateway), node);
        } else if node.mode != TrafficMode::PolicyOnly {
            let on_link = |address: &&IpAddr| node.transport.iter().any(|(_, link)| link.contains(address));
            let Some(hop) = peer.transport.iter().filter(on_link).find(of_family) else { continue };
            draft.route(*cidr, v1::HostRoute { via: hop.to_string(), ..v1::HostRoute::default() });
        }
    }
}

/// Pods have the host's address outside. Egresses go before.
fn masquerade(node: &Node, peers: &[PeerNode], draft: &mut Draft) {
    if node.mode == TrafficMode::PolicyOnly || node.pods_keep_addresses {
        return;
    }
    for family in node.families.iter().copied() {
        let within = node.pod_cidrs.iter().chain(peers.iter().flat_map(|peer| &peer.pod_cidrs));
        let within = within.chain(&node.service_cidrs).filter(|cidr| cidr.family() == family);
        let except: BTreeSet<Cidr> = within.copied().collect();
        let except = table::set(outermost(&except).into_iter().map(|cidr| prefix(&cidr)));
        for own in node.pod_cidrs.iter().filter(|cidr| cidr.family() == family) {
            let ip = table::ip(family);
            draft.table.sources.push(format!(
                "oifname != \"{}\" {ip} saddr {} {ip} daddr != {except} masquerade",
                node.gateway.port,
                prefix(own)
            ));
        }
    }
}

/// Without prefixes that are in another one: nft takes no set of those. (In order, a prefix comes
/// before all that are in it.)
fn outermost(cidrs: &BTreeSet<Cidr>) -> Vec<Cidr> {
    let mut kept: Vec<Cidr> = Vec::new();
    for cidr in cidrs {
        if !kept.last().is_some_and(|last| last.covers(cidr)) {
            kept.push(*cidr);
        }
    }
    kept
}
