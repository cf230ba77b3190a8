//! The Node itself.

use crate::kinds::node_config::{
    Features, GatewayBridge, GatewayMode, LocalProbe, PacketCategory, PacketLimit, Spec, TrafficMode, Uplink, texts,
};
use crate::problem::{Origin, Problem};
use crate::resolve::World;
use crate::resolve::net::{self, is_six};
use crate::resolve::own::Own;
use std::net::IpAddr;
use vswitch_proto::antrea::v1;
use vswitch_proto::v1::MacAddress;

/// The label that says a Node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A MAC address as the switch takes it.
pub(super) fn mac_address(octets: Vec<u8>) -> MacAddress {
    MacAddress { octets }
}

/// The configuration of a Node: what NodeConfigs say of it, and its Node's object where they are
/// silent; and the document that it is from.
pub(super) fn config(world: &World<'_>, odd: &mut Vec<Problem>) -> Result<(v1::NodeConfig, Origin), Vec<Problem>> {
    let own = world.own.as_ref().map_err(Clone::clone)?;
    odd.extend(own.odd.iter().cloned());
    let (spec, origin, name) = (&own.spec, &own.origin, world.node);
    let mut macs = Macs { origin, problems: Vec::new() };
    let has = own_families(own, odd);
    let served = |texts: &[String]| -> Vec<String> {
        texts.iter().filter(|text| has[usize::from(is_six(text))]).cloned().collect()
    };
    let zone = || world.model.nodes.get(name).and_then(|node| node.meta.labels.get(ZONE)).cloned().unwrap_or_default();
    let gateway = spec.gateway.clone().unwrap_or_default();
    let config = v1::NodeConfig {
        name: name.to_owned(),
        bridge: spec.bridge.clone().unwrap_or_default(),
        traffic_mode: traffic_mode(spec.traffic_mode).into(),
        families: families(has).into(),
        transport_addresses: texts(&spec.transport_addresses).to_vec(),
        pod_cidrs: masked("podCIDRs", &served(own.pod_cidrs()), &own.cidrs_origin, odd),
        gateway: Some(v1::Gateway {
            port: gateway.port.unwrap_or_default(),
            mac: macs.parse("gateway.mac", gateway.mac.as_deref()),
            addresses: served(spec.gateway_addresses()),
        }),
        tunnel: spec.tunnel.as_ref().map(|tunnel| v1::Tunnel { port: tunnel.port.clone() }),
        uplink: spec.uplink.as_ref().map(|of| uplink(of, &mut macs)),
        service_cidrs: masked("serviceCIDRs", &served(texts(&spec.service_cidrs)), origin, odd),
        features: Some(features(&spec.features.clone().unwrap_or_default())),
        node_port_addresses: texts(&spec.node_port_addresses).to_vec(),
        egress_except_cidrs: masked("egressExceptCIDRs", texts(&spec.egress_except_cidrs), origin, odd),
        topology_zone: spec.topology_zone.clone().unwrap_or_else(zone),
        l7: spec.l7.as_ref().map(|l7| v1::L7Ports { target: l7.target.clone(), return_port: l7.return_port.clone() }),
        local_probe: local_probe(spec.local_probe).into(),
        local_probe_port: spec.local_probe_port.clone().unwrap_or_default(),
        taken_over: spec.taken_over.iter().flatten().map(|of| category(*of).into()).collect(),
        packet_limits: spec.packet_limits.iter().flatten().map(packet_limit).collect(),
        record_denied: spec.record_denied.unwrap_or_default(),
        fqdn: fqdn(spec),
        zones: zones(spec),
        virtual_mac: macs.parse("virtualMAC", spec.virtual_mac.as_deref()),
        reentrance_mac: macs.parse("reentranceMAC", spec.reentrance_mac.as_deref()),
        virtual_service_addresses: texts(&spec.virtual_service_addresses).to_vec(),
        virtual_node_port_addresses: texts(&spec.virtual_node_port_addresses).to_vec(),
        host: spec.host.map(|host| v1::HostConfig { pods_keep_addresses: host.pods_keep_addresses }),
    };
    let config = once(config);
    if macs.problems.is_empty() { Ok((config, origin.clone())) } else { Err(macs.problems) }
}

/// Families of the Node; those that it is to have and cannot have are told.
fn own_families(own: &Own, odd: &mut Vec<Problem>) -> [bool; 2] {
    let (spec, pod_cidrs) = (&own.spec, own.pod_cidrs());
    let (asked, has) = (spec.asked_families(pod_cidrs), spec.families(pod_cidrs));
    let all = || pod_cidrs.iter().chain(spec.gateway_addresses()).chain(texts(&spec.service_cidrs));
    let is_left_out = |six: usize| !has[six] && (asked[six] || all().any(|text| usize::from(is_six(text)) == six));
    for (six, family) in ["IPv4", "IPv6"].iter().enumerate().filter(|(six, _)| is_left_out(*six)) {
        let what = if six == 0 { "an IPv4" } else { "an IPv6" };
        let prefix = if spec.is_policy_only() { String::new() } else { format!("{what} prefix of Pods and ") };
        let reason = format!("{family} is left out: it needs {prefix}{what} address of the gateway");
        odd.push(own.origin.error("spec", reason));
    }
    has
}

/// What is said twice in its lists, once.
fn once(mut config: v1::NodeConfig) -> v1::NodeConfig {
    for list in [
        &mut config.transport_addresses,
        &mut config.pod_cidrs,
        &mut config.service_cidrs,
        &mut config.node_port_addresses,
        &mut config.egress_except_cidrs,
        &mut config.virtual_service_addresses,
        &mut config.virtual_node_port_addresses,
    ] {
        *list = net::once(std::mem::take(list));
    }
    config
}

struct Macs<'a> {
    origin: &'a Origin,
    problems: Vec<Problem>,
}

impl Macs<'_> {
    fn parse(&mut self, field: &str, text: Option<&str>) -> Option<MacAddress> {
        let text = text?;
        let octets = net::mac(text);
        if octets.is_none() {
            self.problems.push(self.origin.error(format!("spec.{field}"), format!("{text:?} is no MAC address")));
        }
        octets.map(mac_address)
    }
}

fn traffic_mode(mode: Option<TrafficMode>) -> v1::TrafficMode {
    match mode {
        None => v1::TrafficMode::Unspecified,
        Some(TrafficMode::Encap) => v1::TrafficMode::Encap,
        Some(TrafficMode::NoEncap) => v1::TrafficMode::NoEncap,
        Some(TrafficMode::Hybrid) => v1::TrafficMode::Hybrid,
        Some(TrafficMode::NetworkPolicyOnly) => v1::TrafficMode::NetworkPolicyOnly,
    }
}

fn families(families: [bool; 2]) -> v1::Families {
    match families {
        [true, true] => v1::Families::Dual,
        [false, true] => v1::Families::Ipv6,
        [_, false] => v1::Families::Ipv4,
    }
}

/// Prefixes without bits behind their lengths.
pub(super) fn masked(field: &str, cidrs: &[String], origin: &Origin, odd: &mut Vec<Problem>) -> Vec<String> {
    let mask = |(i, text): (usize, &String)| {
        let prefix = net::prefix(text)?;
        if text.split_once('/').map(|(address, _)| address.parse::<IpAddr>().ok())
            != prefix.split_once('/').map(|(address, _)| address.parse().ok())
        {
            let reason = format!("{text} has bits behind its length: it is read as {prefix}");
            odd.push(origin.tolerated(format!("spec.{field}[{i}]"), reason));
        }
        Some(prefix)
    };
    cidrs.iter().enumerate().map(mask).zip(cidrs).map(|(prefix, text)| prefix.unwrap_or_else(|| text.clone())).collect()
}

fn uplink(uplink: &Uplink, macs: &mut Macs<'_>) -> v1::Uplink {
    let mut next_hops = Vec::new();
    for (i, hop) in uplink.next_hops.iter().enumerate() {
        let mac = macs.parse(&format!("uplink.nextHops[{i}].mac"), hop.mac.as_deref());
        next_hops.push(v1::NextHop { address: hop.address.clone(), mac });
    }
    v1::Uplink {
        port: uplink.port.clone(),
        underlay_bridge: uplink.underlay_bridge.clone(),
        mac: macs.parse("uplink.mac", uplink.mac.as_deref()),
        next_hops,
        external_traffic: uplink.external_traffic,
        answered_addresses: uplink.answered_addresses.clone(),
        gateway: uplink.gateway.as_ref().map(gateway_bridge),
    }
}

fn gateway_bridge(gateway: &GatewayBridge) -> v1::GatewayBridge {
    let mode = match gateway.mode {
        None => v1::GatewayMode::Unspecified,
        Some(GatewayMode::Shared) => v1::GatewayMode::Shared,
        Some(GatewayMode::Local) => v1::GatewayMode::Local,
    };
    v1::GatewayBridge {
        mode: mode.into(),
        addresses: net::once(gateway.addresses.clone()),
        other_addresses: net::once(gateway.other_addresses.clone()),
        masquerade_prefixes: net::once(gateway.masquerade_prefixes.clone()),
        first_zone: gateway.first_zone,
        pods_keep_addresses: gateway.pods_keep_addresses,
        port: gateway.port.clone(),
        no_uplink: gateway.no_uplink,
        pod_mtu: gateway.pod_mtu,
    }
}

fn features(features: &Features) -> v1::Features {
    v1::Features {
        proxy: features.proxy,
        proxy_all: features.proxy_all,
        antrea_policy: features.antrea_policy,
        egress: features.egress,
        egress_traffic_shaping: features.egress_traffic_shaping,
        traffic_control: features.traffic_control,
        l7_network_policy: features.l7_network_policy,
        multicast: features.multicast,
        dsr: features.dsr,
        pod_vlans: features.pod_vlans,
    }
}

fn local_probe(probe: Option<LocalProbe>) -> v1::LocalProbe {
    match probe {
        None => v1::LocalProbe::Unspecified,
        Some(LocalProbe::ByAddress) => v1::LocalProbe::ByAddress,
        Some(LocalProbe::ByPort) => v1::LocalProbe::ByPort,
        Some(LocalProbe::None) => v1::LocalProbe::None,
    }
}

const fn category(category: PacketCategory) -> v1::PacketCategory {
    match category {
        PacketCategory::PolicyReject => v1::PacketCategory::PolicyReject,
        PacketCategory::ServiceReject => v1::PacketCategory::ServiceReject,
        PacketCategory::DNS => v1::PacketCategory::Dns,
        PacketCategory::IGMP => v1::PacketCategory::Igmp,
        PacketCategory::PolicyLog => v1::PacketCategory::PolicyLog,
        PacketCategory::Traceflow => v1::PacketCategory::Traceflow,
    }
}

fn packet_limit(limit: &PacketLimit) -> v1::PacketLimit {
    v1::PacketLimit {
        category: category(limit.category).into(),
        rate_pps: limit.rate_pps,
        burst_packets: limit.burst_packets,
    }
}

fn fqdn(spec: &Spec) -> Option<v1::FqdnConfig> {
    spec.fqdn.as_ref().map(|fqdn| v1::FqdnConfig {
        min_ttl_seconds: fqdn.min_ttl_seconds,
        names_per_pattern_max: fqdn.names_per_pattern_max,
        names_max: fqdn.names_max,
        wait_ms_max: fqdn.wait_ms_max,
        servers: fqdn.servers.clone(),
    })
}

fn zones(spec: &Spec) -> Option<v1::Zones> {
    spec.zones.as_ref().map(|zones| v1::Zones {
        main_v4: zones.main_v4,
        snat_v4: zones.snat_v4,
        egress_v4: zones.egress_v4,
        main_v6: zones.main_v6,
        snat_v6: zones.snat_v6,
        egress_v6: zones.egress_v6,
        uplink: zones.uplink,
        host_endpoints: zones.host_endpoints,
    })
}
