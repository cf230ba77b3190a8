//! `NodeConfig`, read: defaults filled in, everything that is wrong named.

use super::{Gateway, LocalProbe, NameLimits, Node, PacketCategory, PacketLimit, TrafficMode, Uplink, Zones};
use crate::address::parse_address;
use crate::problem::{Code, Problems};
use crate::{Cidr, Family, Features, Mac};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use vswitch_proto::antrea::v1;

/// Addresses that the switch answers for on the wire, beside Egress IPs.
const ANSWERED_ADDRESSES_MAX: usize = 1024;
/// MAC of all that is tunneled or routed, in all of Antrea's Nodes.
const VIRTUAL_MAC: Mac = Mac([0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]);
/// Source of packets that enter the host again.
const REENTRANCE_MAC: Mac = Mac([0x0e, 0, 0, 0, 0, 1]);
/// Source of hairpin Service connections: IPv4, IPv6.
const VIRTUAL_SERVICE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 0, 253)),
    IpAddr::V6(Ipv6Addr::new(0xfc01, 0, 0, 0, 0, 0xaabb, 0xccdd, 0xeeff)),
];
/// What the host translates `NodePort` packets to: IPv4, IPv6.
const VIRTUAL_NODE_PORT: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 0, 252)),
    IpAddr::V6(Ipv6Addr::new(0xfc01, 0, 0, 0, 0, 0xaabb, 0xccdd, 0xeefe)),
];

/// A unicast MAC address of a message; `required`: it must be given.
pub(crate) fn mac(
    field: &str,
    message: Option<&vswitch_proto::v1::MacAddress>,
    required: bool,
    problems: &mut Problems,
) -> Option<Mac> {
    let Some(message) = message else {
        if required {
            problems.push(Code::Missing, field, "there is no MAC address");
        }
        return None;
    };
    let read = <[u8; 6]>::try_from(&*message.octets).map(Mac).ok().filter(|mac| mac.is_unicast());
    let error = || format!("{:02x?} is no unicast MAC address", &message.octets[..message.octets.len().min(8)]);
    problems.take(field, read.ok_or_else(error))
}

/// Addresses of a message, each of its own family at most.
pub(crate) fn one_per_family(field: &str, texts: &[String], problems: &mut Problems) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let field = format!("{field}[{at}]");
        let Some(address) = problems.take(&field, parse_address(text)) else { continue };
        if addresses.contains(&address) {
            problems.twice(&field, address);
        } else if addresses.iter().any(|other| Family::of(other) == Family::of(&address)) {
            problems.push(Code::Duplicate, field, format!("{address} is the second address of its family"));
        } else {
            addresses.push(address);
        }
    }
    addresses.sort();
    addresses
}

/// Prefixes of a message.
pub(crate) fn cidrs(field: &str, texts: &[String], problems: &mut Problems) -> Vec<Cidr> {
    let read = texts.iter().enumerate().map(|(at, text)| problems.take(&format!("{field}[{at}]"), text.parse()));
    read.flatten().collect()
}

/// Reads it. None, or problems: it cannot be used.
pub(crate) fn read(config: &v1::NodeConfig, problems: &mut Problems) -> Option<Node> {
    for (field, value) in [("name", &config.name), ("bridge", &config.bridge)] {
        if value.is_empty() {
            problems.push(Code::Missing, field, "it is empty");
        }
    }
    super::check::values(config, problems);
    let families = match config.families() {
        v1::Families::Unspecified | v1::Families::Ipv4 => vec![Family::V4],
        v1::Families::Ipv6 => vec![Family::V6],
        v1::Families::Dual => Family::BOTH.to_vec(),
    };
    let mode = match config.traffic_mode() {
        v1::TrafficMode::Unspecified | v1::TrafficMode::Encap => TrafficMode::Encap,
        v1::TrafficMode::NoEncap => TrafficMode::NoEncap,
        v1::TrafficMode::Hybrid => TrafficMode::Hybrid,
        v1::TrafficMode::NetworkPolicyOnly => TrafficMode::PolicyOnly,
    };
    let features = features(config, mode, &families, problems);
    let transport = transport(&config.transport_addresses, problems);
    let gateway = gateway(config, mode, &families, problems);
    let pod_cidrs = pod_cidrs(config, mode, &families, problems);
    let own = transport.iter().map(|(address, _)| *address).collect();
    let node_port_addresses = super::check::node_ports(config, own, problems);
    let virtual_service =
        pair("virtual_service_addresses", &config.virtual_service_addresses, VIRTUAL_SERVICE, problems);
    let node_port = &config.virtual_node_port_addresses;
    let virtual_node_port = pair("virtual_node_port_addresses", node_port, VIRTUAL_NODE_PORT, problems);
    let servers = config.fqdn.iter().flat_map(|fqdn| &fqdn.servers);
    let gateway = gateway?;
    let node = Node {
        names: names(config),
        dns_servers: servers.filter_map(|text| parse_address(text).ok()).collect(),
        name: config.name.clone(),
        bridge: config.bridge.clone(),
        mode,
        tunnel: tunnel(config, mode, problems),
        uplink: uplink(config, &features, problems),
        service_cidrs: cidrs("service_cidrs", &config.service_cidrs, problems),
        egress_except: cidrs("egress_except_cidrs", &config.egress_except_cidrs, problems),
        topology_zone: config.topology_zone.clone(),
        l7: l7(config, &features, problems),
        local_probe: local_probe(config, &features, problems),
        taken_over: taken_over(config, problems),
        packet_limits: packet_limits(config, problems),
        record_denied: config.record_denied,
        zones: zones(config.zones.as_ref(), features.pod_vlans, problems),
        virtual_mac: mac("virtual_mac", config.virtual_mac.as_ref(), false, problems).unwrap_or(VIRTUAL_MAC),
        reentrance_mac: mac("reentrance_mac", config.reentrance_mac.as_ref(), false, problems)
            .unwrap_or(REENTRANCE_MAC),
        families,
        transport,
        pod_cidrs,
        gateway,
        features,
        node_port_addresses,
        virtual_service,
        virtual_node_port,
        pods_keep_addresses: config.host.is_some_and(|host| host.pods_keep_addresses),
    };
    super::check::whole(&node, problems);
    Some(node)
}

fn pair(field: &str, texts: &[String], defaults: [IpAddr; 2], problems: &mut Problems) -> [IpAddr; 2] {
    let given = one_per_family(field, texts, problems);
    let of = |family| given.iter().copied().find(|address| Family::of(address) == family);
    [of(Family::V4).unwrap_or(defaults[0]), of(Family::V6).unwrap_or(defaults[1])]
}

fn features(config: &v1::NodeConfig, mode: TrafficMode, families: &[Family], problems: &mut Problems) -> Features {
    let asked = config.features.unwrap_or_default();
    let tunneled = matches!(mode, TrafficMode::Encap | TrafficMode::Hybrid);
    let features = Features {
        proxy: asked.proxy.unwrap_or(true),
        proxy_all: asked.proxy_all,
        antrea_policy: asked.antrea_policy.unwrap_or(true),
        egress: asked.egress.unwrap_or(tunneled),
        egress_traffic_shaping: asked.egress_traffic_shaping,
        traffic_control: asked.traffic_control,
        l7_network_policy: asked.l7_network_policy,
        multicast: asked.multicast,
        dsr: asked.dsr,
        pod_vlans: asked.pod_vlans,
        ipv6: families.contains(&Family::V6),
    };
    let needs = [
        ("proxy_all", features.proxy_all, features.proxy, "features.proxy"),
        ("egress", features.egress, tunneled, "traffic mode encap or hybrid"),
        ("egress_traffic_shaping", features.egress_traffic_shaping, features.egress, "features.egress"),
        ("l7_network_policy", features.l7_network_policy, features.antrea_policy, "features.antrea_policy"),
        ("l7_network_policy", features.l7_network_policy, config.l7.is_some(), "l7: ports of the engine"),
        ("multicast", features.multicast, families.contains(&Family::V4), "IPv4"),
        ("dsr", features.dsr, features.proxy_all, "features.proxy_all"),
        ("dsr", features.dsr, mode == TrafficMode::Encap, "traffic mode encap"),
        ("dsr", features.dsr, families.contains(&Family::V4), "IPv4"),
        ("pod_vlans", features.pod_vlans, config.uplink.is_some(), "uplink"),
        ("pod_vlans", features.pod_vlans, mode != TrafficMode::PolicyOnly, "a mode in which Pods have pod_cidrs"),
        ("pod_vlans", features.pod_vlans, !features.multicast, "features.multicast off: groups have no VLANs"),
    ];
    for (feature, on, met, what) in needs {
        if on && !met {
            problems.push(Code::Feature, format!("features.{feature}"), format!("it needs {what}"));
        }
    }
    features
}

fn transport(texts: &[String], problems: &mut Problems) -> Vec<(IpAddr, Cidr)> {
    let mut transport: Vec<(IpAddr, Cidr)> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let field = format!("transport_addresses[{at}]");
        let read = text.split_once('/').ok_or_else(|| format!("{text:?} has no length: ADDRESS/LENGTH"));
        let read = read.and_then(|(address, length)| {
            let address = parse_address(address)?;
            let link = length.parse().ok().and_then(|length| Cidr::new(address, length));
            link.map(|link| (address, link)).ok_or_else(|| format!("{text:?} has no length of its family"))
        });
        let Some((address, link)) = problems.take(&field, read) else { continue };
        if transport.iter().any(|(other, _)| Family::of(other) == Family::of(&address)) {
            problems.push(Code::Duplicate, field, format!("{address} is the second address of its family"));
        } else {
            transport.push((address, link));
        }
    }
    transport.sort();
    transport
}

fn gateway(
    config: &v1::NodeConfig,
    mode: TrafficMode,
    families: &[Family],
    problems: &mut Problems,
) -> Option<Gateway> {
    let Some(gateway) = &config.gateway else {
        problems.push(Code::Missing, "gateway", "the Node has no gateway");
        return None;
    };
    if gateway.port.is_empty() {
        problems.push(Code::Missing, "gateway.port", "it is empty");
    }
    let mac = mac("gateway.mac", gateway.mac.as_ref(), true, problems);
    let addresses = one_per_family("gateway.addresses", &gateway.addresses, problems);
    for family in families.iter().filter(|_| mode != TrafficMode::PolicyOnly) {
        if !addresses.iter().any(|address| Family::of(address) == *family) {
            problems.push(Code::Missing, "gateway.addresses", format!("there is none of {family:?}"));
        }
    }
    Some(Gateway { port: gateway.port.clone(), mac: mac?, addresses })
}

fn pod_cidrs(config: &v1::NodeConfig, mode: TrafficMode, families: &[Family], problems: &mut Problems) -> Vec<Cidr> {
    let read = cidrs("pod_cidrs", &config.pod_cidrs, problems);
    for family in families.iter().filter(|_| mode != TrafficMode::PolicyOnly) {
        if !read.iter().any(|cidr| cidr.family() == *family) {
            problems.push(Code::Missing, "pod_cidrs", format!("there is none of {family:?}"));
        }
    }
    read
}

fn tunnel(config: &v1::NodeConfig, mode: TrafficMode, problems: &mut Problems) -> Option<String> {
    let tunneled = matches!(mode, TrafficMode::Encap | TrafficMode::Hybrid);
    match &config.tunnel {
        None if tunneled => problems.push(Code::Missing, "tunnel", "this traffic mode needs a tunnel port"),
        Some(_) if !tunneled => problems.push(Code::Value, "tunnel", "this traffic mode has no tunnel"),
        Some(tunnel) if tunnel.port.is_empty() => problems.push(Code::Missing, "tunnel.port", "it is empty"),
        Some(tunnel) => return Some(tunnel.port.clone()),
        None => {}
    }
    None
}

fn uplink(config: &v1::NodeConfig, features: &Features, problems: &mut Problems) -> Option<Uplink> {
    let uplink = config.uplink.as_ref()?;
    if uplink.port.is_empty() {
        problems.push(Code::Missing, "uplink.port", "it is empty");
    }
    if uplink.external_traffic && !features.proxy_all {
        problems.push(Code::Feature, "uplink.external_traffic", "it needs features.proxy_all");
    }
    let mut next_hops = Vec::new();
    for (at, hop) in uplink.next_hops.iter().enumerate() {
        let address = problems.take(&format!("uplink.next_hops[{at}].address"), parse_address(&hop.address));
        let mac = mac(&format!("uplink.next_hops[{at}].mac"), hop.mac.as_ref(), false, problems);
        next_hops.extend(address.map(|address| (address, mac)));
    }
    let answered = &uplink.answered_addresses;
    if answered.len() > ANSWERED_ADDRESSES_MAX {
        let problem = format!("{}: at most {ANSWERED_ADDRESSES_MAX}", answered.len());
        problems.push(Code::Limit, "uplink.answered_addresses", problem);
    }
    if !answered.is_empty() && uplink.underlay_bridge.is_empty() {
        problems.push(Code::Feature, "uplink.answered_addresses", "it needs uplink.underlay_bridge");
    }
    let read =
        |(at, text): (usize, &String)| problems.take(&format!("uplink.answered_addresses[{at}]"), parse_address(text));
    let answered_addresses = answered.iter().take(ANSWERED_ADDRESSES_MAX).enumerate().filter_map(read).collect();
    let gateway = super::gateway::read(config, uplink, features, problems);
    let is_shared = gateway.as_ref().is_some_and(|gateway| gateway.mode == crate::gateway::Mode::Shared);
    Some(Uplink {
        port: uplink.port.clone(),
        underlay_bridge: uplink.underlay_bridge.clone(),
        mac: mac("uplink.mac", uplink.mac.as_ref(), true, problems)?,
        next_hops,
        external_traffic: uplink.external_traffic || is_shared,
        answered_addresses,
        gateway,
    })
}

fn l7(config: &v1::NodeConfig, features: &Features, problems: &mut Problems) -> Option<(String, String)> {
    let l7 = config.l7.as_ref()?;
    for (field, port) in [("l7.target", &l7.target), ("l7.return_port", &l7.return_port)] {
        if port.is_empty() {
            problems.push(Code::Missing, field, "it is empty");
        }
    }
    features.l7_network_policy.then(|| (l7.target.clone(), l7.return_port.clone()))
}

fn local_probe(config: &v1::NodeConfig, features: &Features, problems: &mut Problems) -> LocalProbe {
    match config.local_probe() {
        v1::LocalProbe::Unspecified if features.proxy_all => LocalProbe::ByAddress,
        v1::LocalProbe::Unspecified | v1::LocalProbe::None => LocalProbe::None,
        v1::LocalProbe::ByAddress => {
            if !features.proxy_all {
                problems.push(Code::Feature, "local_probe", "by address it needs features.proxy_all");
            }
            LocalProbe::ByAddress
        }
        v1::LocalProbe::ByPort => {
            if config.local_probe_port.is_empty() {
                problems.push(Code::Missing, "local_probe_port", "it is empty");
            }
            LocalProbe::ByPort(config.local_probe_port.clone())
        }
    }
}

/// Numbers out of their range are told elsewhere.
fn names(config: &v1::NodeConfig) -> NameLimits {
    let default = NameLimits::default();
    let Some(told) = &config.fqdn else { return default };
    let or = |value: u32, default: usize| if value == 0 { default } else { value as usize };
    NameLimits {
        min_ttl_seconds: told.min_ttl_seconds,
        names_per_pattern: or(told.names_per_pattern_max, default.names_per_pattern),
        names: or(told.names_max, default.names),
        wait_ms: if told.wait_ms_max == 0 { default.wait_ms } else { told.wait_ms_max },
    }
}

const fn category(told: v1::PacketCategory) -> Option<PacketCategory> {
    match told {
        v1::PacketCategory::Unspecified => None,
        v1::PacketCategory::PolicyReject => Some(PacketCategory::PolicyReject),
        v1::PacketCategory::ServiceReject => Some(PacketCategory::ServiceReject),
        v1::PacketCategory::Dns => Some(PacketCategory::Dns),
        v1::PacketCategory::Igmp => Some(PacketCategory::Igmp),
        v1::PacketCategory::PolicyLog => Some(PacketCategory::PolicyLog),
        v1::PacketCategory::Traceflow => Some(PacketCategory::Traceflow),
    }
}

fn taken_over(config: &v1::NodeConfig, problems: &mut Problems) -> Vec<PacketCategory> {
    let mut taken = Vec::new();
    for (at, told) in config.taken_over.iter().enumerate() {
        let read = v1::PacketCategory::try_from(*told).ok().and_then(category);
        match read.filter(|read| !matches!(read, PacketCategory::PolicyLog | PacketCategory::Traceflow)) {
            Some(read) => taken.push(read),
            None => problems.push(Code::Value, format!("taken_over[{at}]"), format!("{told} is no category to answer")),
        }
    }
    taken.sort_unstable();
    taken.dedup();
    taken
}

fn packet_limits(config: &v1::NodeConfig, problems: &mut Problems) -> Vec<(PacketCategory, PacketLimit)> {
    let mut limits = Vec::new();
    for (at, limit) in config.packet_limits.iter().enumerate() {
        let field = format!("packet_limits[{at}]");
        let Some(category) = category(limit.category()) else {
            problems.push(Code::Value, format!("{field}.category"), "it is no category");
            continue;
        };
        let rate_pps = if limit.rate_pps == 0 { PacketLimit::default().rate_pps } else { limit.rate_pps };
        if rate_pps > 1_000_000 {
            problems.push(Code::Range, format!("{field}.rate_pps"), format!("{rate_pps}: 1 to 1000000"));
        }
        let burst_packets = if limit.burst_packets == 0 { rate_pps.saturating_mul(2) } else { limit.burst_packets };
        if limits.iter().any(|(other, _)| *other == category) {
            problems.push(Code::Duplicate, field, "its category is there twice");
        }
        limits.push((category, PacketLimit { rate_pps, burst_packets }));
    }
    limits.sort_unstable_by_key(|(category, _)| *category);
    limits
}

fn zones(told: Option<&v1::Zones>, of_vlans: bool, problems: &mut Problems) -> Zones {
    let mut zones = Zones { of_vlans, ..Zones::default() };
    let Some(told) = told else { return zones };
    let mut given = |field: &str, value: Option<u32>, zone: &mut u16| {
        let Some(value) = value else { return };
        match u16::try_from(value).ok().filter(|value| *value != 0) {
            Some(value) => *zone = value,
            None => problems.push(Code::Range, format!("zones.{field}"), format!("{value}: 1 to 65535")),
        }
    };
    given("main_v4", told.main_v4, &mut zones.main[0]);
    given("main_v6", told.main_v6, &mut zones.main[1]);
    given("snat_v4", told.snat_v4, &mut zones.snat[0]);
    given("snat_v6", told.snat_v6, &mut zones.snat[1]);
    given("egress_v4", told.egress_v4, &mut zones.egress[0]);
    given("egress_v6", told.egress_v6, &mut zones.egress[1]);
    given("uplink", told.uplink, &mut zones.uplink);
    given("host_endpoints", told.host_endpoints, &mut zones.host_endpoints);
    let mut all = [zones.fixed().as_slice(), &zones.of_wire()].concat();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    if all.len() < count {
        problems.push(Code::Duplicate, "zones", "two of them are the same");
    }
    zones
}
