//! Netlink's messages of things of a plan, and back.

use super::plan::{Address, Route, Rule};
use super::there::{Interface, ThereAddress, ThereNeighbour, ThereRoute, ThereRule};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, CacheInfo};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The routing protocol of the agent's routes and rules ("v"). iproute2 shows it as this number.
pub(super) const PROTOCOL: u8 = 118;

const fn family(address: &IpAddr) -> AddressFamily {
    if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet }
}

/// A table's number in a header of one octet; 0: an attribute has it.
fn octet(table: u32) -> u8 {
    u8::try_from(table).unwrap_or_default()
}

/// An interface by its name.
pub(super) fn interface(message: &LinkMessage) -> Option<(String, Interface)> {
    let (mut name, mut mac) = (None, Vec::new());
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(text.clone()),
            LinkAttribute::Address(octets) => mac.clone_from(octets),
            _ => {}
        }
    }
    let up = message.header.flags.contains(LinkFlags::Up);
    Some((name?, Interface { index: message.header.index, mac, up }))
}

/// A change of an interface.
pub(super) fn link(index: u32, mac: Option<&[u8]>, up: Option<bool>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    if let Some(up) = up {
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
    }
    message.attributes.extend(mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
    message
}

/// An address; of a point-to-point link the local one.
pub(super) fn there_address(message: &AddressMessage) -> Option<ThereAddress> {
    let (mut local, mut address) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(found) => local = Some(*found),
            AddressAttribute::Address(found) => address = Some(*found),
            _ => {}
        }
    }
    let (index, length) = (message.header.index, message.header.prefix_len);
    Some(ThereAddress { index, address: local.or(address)?, length })
}

/// An address, as it is added.
pub(super) fn address(address: &Address, index: u32) -> AddressMessage {
    let mut message = bare_address(address.address, address.length, index);
    if address.address.is_ipv6() {
        message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    if address.deprecated {
        let mut times = CacheInfo::default();
        (times.ifa_preferred, times.ifa_valid) = (0, u32::MAX);
        message.attributes.push(AddressAttribute::CacheInfo(times));
    }
    message
}

/// An address without more.
pub(super) fn bare_address(address: IpAddr, length: u8, index: u32) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(&address);
    message.header.prefix_len = length;
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    message
}

/// A neighbour that is there.
pub(super) fn there_neighbour(message: &NeighbourMessage) -> Option<ThereNeighbour> {
    let (mut address, mut mac) = (None, Vec::new());
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(found)) => address = Some(IpAddr::V4(*found)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(found)) => address = Some(IpAddr::V6(*found)),
            NeighbourAttribute::LinkLayerAddress(octets) => mac.clone_from(octets),
            _ => {}
        }
    }
    let permanent = message.header.state == NeighbourState::Permanent;
    Some(ThereNeighbour { index: message.header.ifindex, address: address?, mac, permanent })
}

/// A permanent neighbour; without a MAC address, to remove it.
pub(super) fn neighbour(address: IpAddr, mac: Option<[u8; 6]>, index: u32) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(&address);
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.attributes.push(NeighbourAttribute::Destination(match address {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    }));
    message.attributes.extend(mac.map(|mac| NeighbourAttribute::LinkLayerAddress(mac.to_vec())));
    message
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

/// A route that is there. None: it is of neither family.
pub(super) fn there_route(message: &RouteMessage) -> Option<ThereRoute> {
    let header = &message.header;
    let nowhere = match header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let mut there = ThereRoute {
        route: Route {
            destination: nowhere,
            length: header.destination_prefix_length,
            table: header.table.into(),
            via: None,
            interface: None,
            onlink: header.flags.contains(RouteFlags::Onlink),
            source: None,
        },
        index: 0,
        metric: None,
        ours: header.protocol == RouteProtocol::Other(PROTOCOL),
        odd: header.kind != RouteType::Unicast || header.tos != 0 || header.source_prefix_length != 0,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => there.route.destination = ip(address)?,
            RouteAttribute::Table(table) => there.route.table = *table,
            RouteAttribute::Gateway(address) => there.route.via = ip(address),
            RouteAttribute::Oif(index) => there.index = *index,
            RouteAttribute::Priority(metric) => there.metric = Some(*metric),
            RouteAttribute::PrefSource(source) => there.route.source = ip(source),
            RouteAttribute::Via(_) | RouteAttribute::MultiPath(_) => there.odd = true,
            _ => {}
        }
    }
    Some(there)
}

/// Has a question be for routes of a table alone.
pub(super) fn in_table(ask: &mut RouteMessage, table: u32) {
    ask.header.table = octet(table);
    ask.attributes.push(RouteAttribute::Table(table));
}

/// A route.
pub(super) fn route(route: &Route, index: Option<u32>, metric: Option<u32>) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(&route.destination);
    message.header.destination_prefix_length = route.length;
    message.header.table = octet(route.table);
    message.header.protocol = RouteProtocol::Other(PROTOCOL);
    message.header.kind = RouteType::Unicast;
    let is_direct = route.via.is_none() && !route.destination.is_ipv6();
    message.header.scope = if is_direct { RouteScope::Link } else { RouteScope::Universe };
    if route.onlink {
        message.header.flags = RouteFlags::Onlink;
    }
    message.attributes.push(RouteAttribute::Destination(route.destination.into()));
    message.attributes.push(RouteAttribute::Table(route.table));
    message.attributes.extend(route.via.map(|via| RouteAttribute::Gateway(via.into())));
    message.attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(source.into())));
    message.attributes.extend(index.map(RouteAttribute::Oif));
    message.attributes.extend(metric.map(RouteAttribute::Priority));
    message
}

/// A route of the agent's that goes, whatever else it is.
pub(super) fn route_to_remove(there: &ThereRoute) -> RouteMessage {
    let index = Some(there.index).filter(|index| *index != 0);
    let mut message = route(&there.route, index, there.metric);
    message.header.kind = RouteType::Unspec;
    message.header.scope = RouteScope::NoWhere;
    message
}

/// A routing rule that is there.
pub(super) fn there_rule(message: &RuleMessage) -> Option<ThereRule> {
    let header = &message.header;
    let ipv6 = header.family == AddressFamily::Inet6;
    let table = header.table.into();
    let mut rule = Rule { priority: 0, ipv6, mark: 0, mask: 0, in_interface: String::new(), table };
    let (mut ours, mut odd) =
        (false, header.action != RuleAction::ToTable || header.src_len != 0 || header.dst_len != 0);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::FwMark(mark) => rule.mark = *mark,
            RuleAttribute::FwMask(mask) => rule.mask = *mask,
            RuleAttribute::Iifname(name) => rule.in_interface.clone_from(name),
            RuleAttribute::Table(table) => rule.table = *table,
            RuleAttribute::Protocol(protocol) => ours = *protocol == RouteProtocol::Other(PROTOCOL),
            RuleAttribute::Oifname(_) | RuleAttribute::IpProtocol(_) | RuleAttribute::TunId(_) => odd = true,
            _ => {}
        }
    }
    Some(ThereRule { rule, ours, odd })
}

/// A routing rule.
pub(super) fn rule(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if rule.ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.action = RuleAction::ToTable;
    message.header.table = octet(rule.table);
    message.attributes = vec![
        RuleAttribute::Priority(rule.priority),
        RuleAttribute::FwMark(rule.mark),
        RuleAttribute::FwMask(rule.mask),
        RuleAttribute::Iifname(rule.in_interface.clone()),
        RuleAttribute::Table(rule.table),
        RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)),
    ];
    message
}
