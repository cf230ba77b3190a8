//! The host's way to Services: behind the gateway, by a virtual next hop.

use super::table::{ip, set};
use super::{Draft, prefix};
use crate::node::TrafficMode;
use crate::object::Object;
use crate::object::service::{Front, Protocol};
use crate::{Cidr, Facts, Family, Node, ObjectKind};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Where Services answer.
pub(super) type Places = BTreeSet<(Family, Protocol, Front)>;

pub(super) fn draft(facts: &Facts<'_>, draft: &mut Draft) {
    let node = facts.node;
    if !node.features.proxy {
        return;
    }
    let places = places(facts);
    for family in node.families.iter().copied() {
        let virtual_service = node.virtual_service[family as usize];
        draft.neighbour(virtual_service, node.virtual_mac, node);
        draft.behind_gateway(Cidr::host(virtual_service), None, node);
        let cluster = node.service_cidrs.iter().copied().filter(|cidr| cidr.family() == family);
        let cluster: Vec<Cidr> = cluster.collect();
        for cidr in &cluster {
            draft.behind_gateway(*cidr, Some(virtual_service), node);
        }
        let addresses = places.iter().filter(|(of, ..)| *of == family).filter_map(|(.., front)| front.address());
        let is_routed = |address: &IpAddr| cluster.iter().any(|cidr| cidr.contains(address));
        for address in addresses.filter(|address| !is_routed(address) && !node.is_own(address)) {
            draft.behind_gateway(Cidr::host(address), Some(virtual_service), node);
        }
        sources(family, node, draft);
        // A gateway bridge has ways of its own.
        if node.features.proxy_all && node.gateway_bridge().is_none() {
            node_ports(family, &places, node, draft);
        }
    }
}

pub(super) fn places(facts: &Facts<'_>) -> Places {
    let services = facts.desired.of(ObjectKind::Service);
    let services = services.filter_map(|(key, entry)| match &entry.object {
        Object::Service(service) => Some(service.in_effect(&key.name, facts)),
        _ => None,
    });
    services.flatten().collect()
}

/// Connections that come back from the gateway with the virtual source leave with the host's
/// address. Those of the host itself enter with the gateway's, so that answers come back by it.
fn sources(family: Family, node: &Node, draft: &mut Draft) {
    let (word, gateway) = (ip(family), &node.gateway.port);
    let virtual_service = node.virtual_service[family as usize];
    draft.table.sources.push(format!("oifname != \"{gateway}\" {word} saddr {virtual_service} masquerade"));
    if let Some(own) = node.gateway_address(family).filter(|_| node.mode != TrafficMode::PolicyOnly) {
        draft
            .table
            .sources
            .push(format!("oifname \"{gateway}\" fib saddr type local {word} saddr != {own} masquerade"));
    }
}

/// Connections to a `NodePort` go on to the virtual address, and into the pipeline.
fn node_ports(family: Family, places: &Places, node: &Node, draft: &mut Draft) {
    let index = family as usize;
    let virtual_node_port = node.virtual_node_port[index];
    draft.behind_gateway(Cidr::host(virtual_node_port), Some(node.virtual_service[index]), node);
    let own: BTreeSet<&IpAddr> = node.node_port_addresses.iter().filter(|own| Family::of(own) == family).collect();
    if own.is_empty() {
        return;
    }
    let word = ip(family);
    let own = set(own.into_iter().map(|own| prefix(&Cidr::host(*own))));
    for protocol in Protocol::ALL {
        let ports = places.iter().filter_map(|(of, by, front)| match front {
            Front::NodePort(number) if *of == family && *by == protocol => Some(*number),
            _ => None,
        });
        let ports: BTreeSet<u16> = ports.collect();
        if ports.is_empty() {
            continue;
        }
        let name = protocol.of(Family::V4);
        let ports = set(ports.iter().map(u16::to_string));
        let rule = format!("{word} daddr {own} {name} dport {ports} dnat {word} to {virtual_node_port}");
        draft.table.destinations.push(rule.clone());
        draft.table.own.push(rule);
    }
}
