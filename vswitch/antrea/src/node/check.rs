//! What of a Node contradicts the rest of it.

use super::Node;
use crate::address::parse_address;
use crate::problem::{Code, Problems};
use crate::{Cidr, Family, Mac};
use std::net::IpAddr;
use vswitch_proto::antrea::v1;

/// Addresses that serve `NodePorts`.
const NODE_PORT_ADDRESSES_MAX: usize = 64;

/// Addresses that serve `NodePorts`: those that are given, or the Node's own.
pub(super) fn node_ports(config: &v1::NodeConfig, own: Vec<IpAddr>, problems: &mut Problems) -> Vec<IpAddr> {
    let given = &config.node_port_addresses;
    if given.is_empty() {
        return own;
    }
    if given.len() > NODE_PORT_ADDRESSES_MAX {
        problems.push(Code::Limit, "node_port_addresses", format!("at most {NODE_PORT_ADDRESSES_MAX}"));
    }
    let read = |(at, text): (usize, &String)| problems.take(&format!("node_port_addresses[{at}]"), parse_address(text));
    given.iter().enumerate().filter_map(read).collect()
}

/// Values of enumerations that are none, and numbers out of their range, that nobody else reads.
pub(super) fn values(config: &v1::NodeConfig, problems: &mut Problems) {
    let known = [
        ("families", config.families, v1::Families::try_from(config.families).is_ok()),
        ("traffic_mode", config.traffic_mode, v1::TrafficMode::try_from(config.traffic_mode).is_ok()),
        ("local_probe", config.local_probe, v1::LocalProbe::try_from(config.local_probe).is_ok()),
    ];
    for (field, value, _) in known.into_iter().filter(|(_, _, known)| !known) {
        problems.push(Code::Value, field, format!("{value} is none of its values"));
    }
    let Some(fqdn) = &config.fqdn else { return };
    let most = [
        ("min_ttl_seconds", fqdn.min_ttl_seconds, 86_400),
        ("names_per_pattern_max", fqdn.names_per_pattern_max, 65_536),
        ("names_max", fqdn.names_max, 1_048_576),
        ("wait_ms_max", fqdn.wait_ms_max, 10_000),
    ];
    for (field, value, most) in most.into_iter().filter(|(_, value, most)| value > most) {
        problems.push(Code::Range, format!("fqdn.{field}"), format!("{value}: at most {most}"));
    }
    if fqdn.servers.len() > 64 {
        problems.push(Code::Limit, "fqdn.servers", format!("{}: at most 64", fqdn.servers.len()));
    }
    for (at, server) in fqdn.servers.iter().enumerate() {
        problems.take(&format!("fqdn.servers[{at}]"), parse_address(server));
    }
}

/// Families, overlaps, the same thing twice.
pub(super) fn whole(node: &Node, problems: &mut Problems) {
    families(node, problems);
    overlaps(node, problems);
    super::gateway::whole(node, problems);
    let ports = node.ports();
    for (at, (field, port)) in ports.iter().enumerate() {
        if let Some((other, _)) = ports.iter().take(at).find(|(_, other)| other == port && !port.is_empty()) {
            problems.push(Code::Duplicate, field, format!("port {port:?} is {other}, too"));
        }
    }
    let mut macs: Vec<(&str, Mac)> = vec![
        ("gateway.mac", node.gateway.mac),
        ("virtual_mac", node.virtual_mac),
        ("reentrance_mac", node.reentrance_mac),
    ];
    macs.extend(node.uplink.as_ref().map(|uplink| ("uplink.mac", uplink.mac)));
    for (at, (field, mac)) in macs.iter().enumerate() {
        if let Some((other, _)) = macs.iter().take(at).find(|(_, other)| other == mac) {
            problems.push(Code::Duplicate, *field, format!("{mac} is {other}, too"));
        }
    }
    let zones = [node.zones.fixed().as_slice(), &node.zones.of_wire()].concat();
    if let Some(zone) = zones.iter().find(|zone| node.zones.is_of_vlan(**zone)) {
        let reason = format!("{zone} is a VLAN's: 4096 to 8191 and 12288 to 16383 are, with features.pod_vlans");
        problems.push(Code::Overlap, "zones", reason);
    }
    let hops = node.uplink.iter().flat_map(|uplink| &uplink.next_hops);
    let hops: Vec<Family> = hops.map(|(address, _)| Family::of(address)).collect();
    if Family::BOTH.iter().any(|family| hops.iter().filter(|other| *other == family).count() > 1) {
        problems.push(Code::Duplicate, "uplink.next_hops", "there are two of one family");
    }
}

/// What Pods and Services have is of their families. (What Nodes have between them may be of any.)
fn families(node: &Node, problems: &mut Problems) {
    let mut check = |field: &str, address: &IpAddr| {
        if !node.has(Family::of(address)) {
            problems.push(Code::Family, field, format!("{address}: the Node has no {:?}", Family::of(address)));
        }
    };
    node.gateway.addresses.iter().for_each(|address| check("gateway.addresses", address));
    node.pod_cidrs.iter().for_each(|cidr| check("pod_cidrs", &cidr.address()));
    node.service_cidrs.iter().for_each(|cidr| check("service_cidrs", &cidr.address()));
    for family in Family::BOTH {
        if node.pod_cidrs.iter().filter(|cidr| cidr.family() == family).count() > 1 {
            problems.push(Code::Duplicate, "pod_cidrs", format!("there are two of {family:?}"));
        }
    }
}

fn overlaps(node: &Node, problems: &mut Problems) {
    let mut check = |field: &str, what: Cidr, others: &[Cidr], whose: &str| {
        if let Some(other) = others.iter().find(|other| other.overlaps(&what)) {
            problems.push(Code::Overlap, field, format!("{what} overlaps {other} of {whose}"));
        }
    };
    for cidr in &node.service_cidrs {
        check("service_cidrs", *cidr, &node.pod_cidrs, "pod_cidrs");
    }
    for address in &node.gateway.addresses {
        check("gateway.addresses", Cidr::host(*address), &node.service_cidrs, "service_cidrs");
    }
    for (address, _) in &node.transport {
        check("transport_addresses", Cidr::host(*address), &node.pod_cidrs, "pod_cidrs");
        check("transport_addresses", Cidr::host(*address), &node.service_cidrs, "service_cidrs");
    }
}
