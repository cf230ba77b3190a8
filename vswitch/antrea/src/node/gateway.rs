//! `NodeConfig.uplink.gateway`, read and judged.

use super::Node;
use crate::address::parse_address;
use crate::gateway::{GatewayBridge, Mode};
use crate::problem::{Code, Problem, Problems};
use crate::{Cidr, Family, Features};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use vswitch_proto::antrea::v1;

/// Addresses of the host, in either list.
const ADDRESSES_MAX: usize = 64;
/// The first zone, unless another one is given.
const FIRST_ZONE: u16 = 64000;
/// Zones that there are.
const ZONES: u16 = 4;
/// MTUs that Pods may have.
const POD_MTU: (u16, u16) = (1280, 9702);
/// Lengths that a masquerade prefix may have: IPv4, IPv6.
const LENGTHS: [(u8, u8); 2] = [(16, 29), (64, 125)];
/// Masquerade prefixes, unless others are given.
const MASQUERADE: [(IpAddr, u8); 2] =
    [(IpAddr::V4(Ipv4Addr::new(169, 254, 169, 0)), 29), (IpAddr::V6(Ipv6Addr::new(0xfd69, 0, 0, 0, 0, 0, 0, 0)), 125)];

/// Reads it. None: there is none, or it has no mode.
pub(super) fn read(
    config: &v1::NodeConfig,
    uplink: &v1::Uplink,
    features: &Features,
    problems: &mut Problems,
) -> Option<GatewayBridge> {
    let told = uplink.gateway.as_ref()?;
    needs(config, uplink, features, problems);
    let mode = mode(told, problems);
    let mut add = |code, field: &str, reason: &str, hint: &str| {
        problems.add(Problem::new(code, format!("uplink.{field}"), reason).hint(hint));
    };
    if mode == Some(Mode::Local) && uplink.external_traffic {
        let reason = "in GATEWAY_MODE_LOCAL the host takes external traffic";
        add(Code::Value, "external_traffic", reason, "leave it out, or use GATEWAY_MODE_SHARED");
    }
    if mode == Some(Mode::Shared) && told.no_uplink {
        let reason = "GATEWAY_MODE_SHARED serves the wire, and there is none";
        add(Code::Value, "gateway.no_uplink", reason, "leave it out, or use GATEWAY_MODE_LOCAL");
    }
    if mode == Some(Mode::Local) && told.pods_keep_addresses {
        let reason = "in GATEWAY_MODE_LOCAL Pods leave by the host";
        add(Code::Value, "gateway.pods_keep_addresses", reason, "leave it out, or use GATEWAY_MODE_SHARED");
    }
    if mode == Some(Mode::Local) && told.pod_mtu != 0 {
        let reason = "in GATEWAY_MODE_LOCAL the host's kernel tells senders of too long packets";
        add(Code::Value, "gateway.pod_mtu", reason, "leave it out, or use GATEWAY_MODE_SHARED");
    }
    if told.no_uplink && !told.port.is_empty() {
        let reason = format!("port {:?} is given, and no_uplink says that there is none", told.port);
        add(Code::Value, "gateway.port", &reason, "leave out one of both");
    }
    let addresses = if told.addresses.is_empty() { &config.transport_addresses } else { &told.addresses };
    let from = if told.addresses.is_empty() { "transport_addresses" } else { "uplink.gateway.addresses" };
    Some(GatewayBridge {
        addresses: addresses_of(from, addresses, !told.addresses.is_empty(), problems),
        other_addresses: others(&told.other_addresses, problems),
        masquerade: masquerade(&told.masquerade_prefixes, problems),
        first_zone: first_zone(told.first_zone, problems),
        pods_keep_addresses: told.pods_keep_addresses,
        port: told.port.clone(),
        no_uplink: told.no_uplink,
        pod_mtu: pod_mtu(told.pod_mtu, problems),
        mode: mode?,
    })
}

fn mode(told: &v1::GatewayBridge, problems: &mut Problems) -> Option<Mode> {
    let field = "uplink.gateway.mode";
    match v1::GatewayMode::try_from(told.mode) {
        Ok(v1::GatewayMode::Shared) => Some(Mode::Shared),
        Ok(v1::GatewayMode::Local) => Some(Mode::Local),
        Ok(v1::GatewayMode::Unspecified) => {
            let hint = "GATEWAY_MODE_SHARED: past the host; GATEWAY_MODE_LOCAL: by the host's routing";
            problems.add(Problem::new(Code::Missing, field, "the mode is not given").hint(hint));
            None
        }
        Err(_) => {
            problems.push(Code::Value, field, format!("{} is none of its values", told.mode));
            None
        }
    }
}

/// What it needs of the rest of the Node.
fn needs(config: &v1::NodeConfig, uplink: &v1::Uplink, features: &Features, problems: &mut Problems) {
    let field = "uplink.gateway";
    let mut unless = |met: bool, code, field: &str, reason: &str, hint: &str| {
        if !met {
            problems.add(Problem::new(code, field, reason).hint(hint));
        }
    };
    let bridge = "name the bridge of the card and of the host's port";
    let is_there = !uplink.underlay_bridge.is_empty();
    unless(is_there, Code::Missing, "uplink.underlay_bridge", "uplink.gateway needs it", bridge);
    unless(features.proxy_all, Code::Feature, field, "it needs features.proxy_all", "set features.proxy_all");
    let routes = config.traffic_mode() != v1::TrafficMode::NetworkPolicyOnly;
    let reason = "in networkPolicyOnly another plug-in has the Node's traffic";
    unless(routes, Code::Value, field, reason, "use encap, noEncap or hybrid");
    let reason = "it does not serve direct server return";
    unless(!features.dsr, Code::Feature, field, reason, "leave out features.dsr");
    let reason = "it does not serve Pods of the wire";
    unless(!features.pod_vlans, Code::Feature, field, reason, "leave out features.pod_vlans");
}

/// Addresses with links. Those of `transport_addresses` are judged elsewhere.
fn addresses_of(field: &str, texts: &[String], judged: bool, problems: &mut Problems) -> Vec<(IpAddr, Cidr)> {
    let mut unheard = Problems::default();
    let problems = if judged { problems } else { &mut unheard };
    if texts.len() > ADDRESSES_MAX {
        problems.push(Code::Limit, field, format!("{}: at most {ADDRESSES_MAX}", texts.len()));
    }
    let mut addresses: Vec<(IpAddr, Cidr)> = Vec::new();
    for (at, text) in texts.iter().take(ADDRESSES_MAX).enumerate() {
        let field = format!("{field}[{at}]");
        let read = text.split_once('/').ok_or_else(|| format!("{text:?} has no length: ADDRESS/LENGTH"));
        let read = read.and_then(|(address, length)| {
            let address = parse_address(address)?;
            let link = length.parse().ok().and_then(|length| Cidr::new(address, length));
            link.map(|link| (address, link)).ok_or_else(|| format!("{text:?} has no length of its family"))
        });
        let Some((address, link)) = problems.take(&field, read) else { continue };
        if addresses.iter().any(|(other, _)| *other == address) {
            problems.twice(&field, address);
        } else {
            one_host(&field, &address, problems);
            addresses.push((address, link));
        }
    }
    addresses
}

fn others(texts: &[String], problems: &mut Problems) -> Vec<IpAddr> {
    let field = "uplink.gateway.other_addresses";
    if texts.len() > ADDRESSES_MAX {
        problems.push(Code::Limit, field, format!("{}: at most {ADDRESSES_MAX}", texts.len()));
    }
    let mut others = Vec::new();
    for (at, text) in texts.iter().take(ADDRESSES_MAX).enumerate() {
        let field = format!("{field}[{at}]");
        let Some(address) = problems.take(&field, parse_address(text)) else { continue };
        if others.contains(&address) {
            problems.twice(&field, address);
        } else {
            one_host(&field, &address, problems);
            others.push(address);
        }
    }
    others
}

fn masquerade(texts: &[String], problems: &mut Problems) -> [Cidr; 2] {
    let mut prefixes = MASQUERADE.map(|(address, length)| Cidr::new(address, length).unwrap_or(Cidr::host(address)));
    let mut given = [false; 2];
    for (at, text) in texts.iter().enumerate() {
        let field = format!("uplink.gateway.masquerade_prefixes[{at}]");
        let Some(prefix) = problems.take(&field, text.parse::<Cidr>()) else { continue };
        let family = prefix.family() as usize;
        let (shortest, longest) = LENGTHS[family];
        if !(shortest..=longest).contains(&prefix.length()) {
            let reason = format!("{prefix} has length {}: {shortest} to {longest}", prefix.length());
            let hint = "eight addresses are needed; longer lengths have fewer";
            problems.add(Problem::new(Code::Range, field, reason).hint(hint));
        } else if given[family] {
            problems.push(Code::Duplicate, field, format!("{prefix} is the second one of its family"));
        } else {
            given[family] = true;
            prefixes[family] = prefix;
        }
    }
    prefixes
}

fn pod_mtu(told: u32, problems: &mut Problems) -> u16 {
    let (shortest, longest) = POD_MTU;
    match u16::try_from(told).ok().filter(|mtu| *mtu == 0 || (shortest..=longest).contains(mtu)) {
        Some(mtu) => mtu,
        None => {
            let reason = format!("{told}: 0, or {shortest} to {longest}");
            let hint = "bytes of an IP packet, without Ethernet's header; IPv6 needs 1280";
            problems.add(Problem::new(Code::Range, "uplink.gateway.pod_mtu", reason).hint(hint));
            0
        }
    }
}

fn first_zone(told: Option<u32>, problems: &mut Problems) -> u16 {
    let Some(told) = told else { return FIRST_ZONE };
    let last = u16::MAX - ZONES + 1;
    match u16::try_from(told).ok().filter(|zone| (1..=last).contains(zone)) {
        Some(zone) => zone,
        None => {
            problems.push(Code::Range, "uplink.gateway.first_zone", format!("{told}: 1 to {last}"));
            FIRST_ZONE
        }
    }
}

/// What of it contradicts the rest of the Node.
pub(super) fn whole(node: &Node, problems: &mut Problems) {
    let Some(gateway) = node.gateway_bridge() else { return };
    for family in node.families.iter().filter(|family| gateway.address(**family).is_none()) {
        let reason = format!("the host has no address of {family:?} there");
        let hint = "name it, or leave out uplink.gateway.addresses: then it is of transport_addresses";
        problems.add(Problem::new(Code::Missing, "uplink.gateway.addresses", reason).hint(hint));
    }
    for (at, address) in gateway.other_addresses.iter().enumerate() {
        if gateway.addresses.iter().any(|(other, _)| other == address) {
            let field = format!("uplink.gateway.other_addresses[{at}]");
            problems.push(Code::Duplicate, field, format!("{address} is of addresses, too"));
        }
    }
    for address in Family::BOTH.into_iter().flat_map(|family| gateway.own(family)) {
        let own = [(&node.pod_cidrs, "pod_cidrs"), (&node.service_cidrs, "service_cidrs")];
        for (other, whose) in own.iter().flat_map(|(cidrs, whose)| cidrs.iter().map(move |cidr| (cidr, whose))) {
            if other.contains(&address) {
                let reason = format!("{address} is of {other} of {whose}");
                problems.push(Code::Overlap, "uplink.gateway.addresses", reason);
            }
        }
    }
    for family in &node.families {
        masqueraded(node, gateway.prefix(*family), problems);
    }
    let zones = gateway.first_zone..=gateway.endpoint_zone();
    if let Some(zone) = node.zones.fixed().iter().find(|zone| zones.contains(zone)) {
        let reason = format!("{zone} is of zones, too; it has {} to {}", zones.start(), zones.end());
        problems.push(Code::Overlap, "uplink.gateway.first_zone", reason);
    }
}

/// Nobody else has addresses of a masquerade prefix.
fn masqueraded(node: &Node, prefix: Cidr, problems: &mut Problems) {
    let Some(gateway) = node.gateway_bridge() else { return };
    let mut taken: Vec<(Cidr, &str)> = Vec::new();
    taken.extend(node.pod_cidrs.iter().map(|cidr| (*cidr, "pod_cidrs")));
    taken.extend(node.service_cidrs.iter().map(|cidr| (*cidr, "service_cidrs")));
    let mut hosts = |addresses: Vec<IpAddr>, whose: &'static str| {
        taken.extend(addresses.into_iter().map(|address| (Cidr::host(address), whose)));
    };
    hosts(node.transport.iter().map(|(address, _)| *address).collect(), "transport_addresses");
    hosts(node.gateway.addresses.clone(), "gateway.addresses");
    hosts(node.node_port_addresses.clone(), "node_port_addresses");
    hosts(gateway.own(prefix.family()).collect(), "the host's addresses");
    hosts(node.virtual_service.to_vec(), "virtual_service_addresses");
    hosts(node.virtual_node_port.to_vec(), "virtual_node_port_addresses");
    let uplink = node.uplink.as_ref();
    hosts(uplink.iter().flat_map(|uplink| &uplink.next_hops).map(|(hop, _)| *hop).collect(), "uplink.next_hops");
    hosts(uplink.map(|uplink| uplink.answered_addresses.clone()).unwrap_or_default(), "uplink.answered_addresses");
    if let Some((other, whose)) = taken.iter().find(|(other, _)| other.overlaps(&prefix)) {
        let reason = format!("{prefix} overlaps {other} of {whose}");
        let hint = "choose a prefix that nobody else has";
        problems.add(Problem::new(Code::Overlap, "uplink.gateway.masquerade_prefixes", reason).hint(hint));
    }
}

/// It is an address of one host.
fn one_host(field: &str, address: &IpAddr, problems: &mut Problems) {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() || broadcast {
        problems.push(Code::Value, field, format!("{address} is no address of one host in a network"));
    }
}
