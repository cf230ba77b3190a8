//! NodeConfig: what Nodes are, beside what Kubernetes knows of them. Its apiVersion is
//! `vswitch.io/v1`; files may say `vswitch/v1`. Fields and their meanings are those of
//! `antrea.v1.NodeConfig`. Each field may be absent: `resolve::own` decides which NodeConfigs are
//! about a Node, and derives what they do not say.

use super::node_port_local::NodePortLocal;
use super::selector::Selector;
use super::wellformed::{ADDRESS, error, is_address, is_host, is_mac, is_prefix, is_with_length, list};
use crate::source::FieldError;
use serde::{Deserialize, Serialize};

/// NodeConfig without its metadata.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NodeConfigBody {
    /// What is asked for.
    #[serde(default)]
    pub spec: Spec,
}

/// A spec with the first one's fields, and the other one's where the first has none.
macro_rules! over {
    ($own:ident, $base:ident, $($field:ident),*) => { Spec { $($field: $own.$field.or($base.$field)),* } };
}

impl Spec {
    /// These fields, and those of `base` where a field is absent here.
    pub fn over(self, base: Self) -> Self {
        over!(
            self,
            base,
            node_selector,
            bridge,
            traffic_mode,
            families,
            transport_addresses,
            transport_interface_cidrs,
            pod_cidrs,
            gateway,
            tunnel,
            uplink,
            service_cidrs,
            features,
            node_port_addresses,
            egress_except_cidrs,
            topology_zone,
            l7,
            local_probe,
            local_probe_port,
            taken_over,
            packet_limits,
            record_denied,
            fqdn,
            zones,
            virtual_mac,
            reentrance_mac,
            virtual_service_addresses,
            virtual_node_port_addresses,
            host,
            node_port_local
        )
    }

    /// Addresses of the gateway; none, if they are absent.
    pub fn gateway_addresses(&self) -> &[String] {
        self.gateway.as_ref().map(|gateway| texts(&gateway.addresses)).unwrap_or_default()
    }

    /// Whether Pods of other Nodes are reached by tunnels.
    pub fn has_tunnel(&self) -> bool {
        matches!(self.traffic_mode, None | Some(TrafficMode::Encap | TrafficMode::Hybrid))
    }

    /// Whether the Node is asked to have IPv4, IPv6: as it says, or as the prefixes of its Pods
    /// are. In policy only a Node need have no such prefix: addresses of the gateway count, too.
    pub fn asked_families(&self, pod_cidrs: &[String]) -> [bool; 2] {
        match self.families {
            Some(Families::IPv4) => [true, false],
            Some(Families::IPv6) => [false, true],
            Some(Families::Dual) => [true, true],
            None => {
                let (cidrs, gateways) = (has_each(pod_cidrs), has_each(self.gateway_addresses()));
                match [0, 1].map(|six| cidrs[six] || self.is_policy_only() && gateways[six]) {
                    [false, false] => [true, false], // as the switch takes it
                    families => families,
                }
            }
        }
    }

    /// Whether another plug-in has the network of Pods.
    pub fn is_policy_only(&self) -> bool {
        self.traffic_mode == Some(TrafficMode::NetworkPolicyOnly)
    }

    /// Whether the Node has IPv4, IPv6: of those that it is asked to have, those that have a prefix
    /// of Pods and an address of the gateway. One that lacks them takes nothing from the other one.
    pub fn families(&self, pod_cidrs: &[String]) -> [bool; 2] {
        let asked = self.asked_families(pod_cidrs);
        if self.is_policy_only() {
            return asked;
        }
        let (cidrs, gateways) = (has_each(pod_cidrs), has_each(self.gateway_addresses()));
        match [0, 1].map(|six| asked[six] && cidrs[six] && gateways[six]) {
            [false, false] => asked,
            families => families,
        }
    }
}

/// A list; empty, if it is absent.
pub fn texts(list: &Option<Vec<String>>) -> &[String] {
    list.as_deref().unwrap_or_default()
}

/// Whether there are texts of IPv4, of IPv6.
fn has_each(texts: &[String]) -> [bool; 2] {
    [false, true].map(|six| texts.iter().any(|text| text.contains(':') == six))
}

impl NodeConfigBody {
    /// What is wrong with its entries by themselves; of each item of a list one error at most.
    pub(super) fn check(&self) -> Vec<FieldError> {
        let spec = &self.spec;
        let link = "address with the length of its prefix";
        let mut errors = list("spec.transportAddresses", texts(&spec.transport_addresses), is_with_length, link);
        for (path, given) in [
            ("spec.transportInterfaceCIDRs", &spec.transport_interface_cidrs),
            ("spec.podCIDRs", &spec.pod_cidrs),
            ("spec.serviceCIDRs", &spec.service_cidrs),
            ("spec.egressExceptCIDRs", &spec.egress_except_cidrs),
        ] {
            errors.extend(list(path, texts(given), is_prefix, "prefix"));
        }
        errors.extend(list("spec.gateway.addresses", spec.gateway_addresses(), is_host, ADDRESS));
        let servers = spec.fqdn.as_ref().map(|fqdn| &fqdn.servers[..]).unwrap_or_default();
        let answered = spec.uplink.as_ref().map(|uplink| &uplink.answered_addresses[..]).unwrap_or_default();
        for (path, given) in [
            ("spec.nodePortAddresses", texts(&spec.node_port_addresses)),
            ("spec.virtualServiceAddresses", texts(&spec.virtual_service_addresses)),
            ("spec.virtualNodePortAddresses", texts(&spec.virtual_node_port_addresses)),
            ("spec.fqdn.servers", servers),
            ("spec.uplink.answeredAddresses", answered),
        ] {
            errors.extend(list(path, given, is_address, "address"));
        }
        errors.extend(spec.node_port_local.as_ref().and_then(NodePortLocal::check));
        let macs = [("spec.virtualMAC", &spec.virtual_mac), ("spec.reentranceMAC", &spec.reentrance_mac)];
        let wrong = |text: &&String| !is_mac(text);
        for (path, text) in macs {
            errors.extend(text.iter().filter(wrong).map(|text| error(path, text, "MAC address")));
        }
        if let Some(gateway) = spec.uplink.as_ref().and_then(|uplink| uplink.gateway.as_ref()) {
            errors.extend(list("spec.uplink.gateway.addresses", &gateway.addresses, is_with_length, link));
            errors.extend(list("spec.uplink.gateway.otherAddresses", &gateway.other_addresses, is_address, ADDRESS));
            let path = "spec.uplink.gateway.masqueradePrefixes";
            errors.extend(list(path, &gateway.masquerade_prefixes, is_prefix, "prefix"));
        }
        if let Some(uplink) = &spec.uplink {
            for (i, hop) in uplink.next_hops.iter().enumerate() {
                let path = format!("spec.uplink.nextHops[{i}]");
                if !is_address(&hop.address) {
                    errors.push(error(&format!("{path}.address"), &hop.address, "address"));
                } else if let Some(text) = hop.mac.as_ref().filter(wrong) {
                    errors.push(error(&format!("{path}.mac"), text, "MAC address"));
                }
            }
            // The last one: the others go with it.
            errors.extend(uplink.mac.iter().filter(wrong).map(|text| error("spec.uplink.mac", text, "MAC address")));
        }
        errors
    }
}

/// What is asked for. An object named as a Node overrides another one field by field.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs)] // antrea.v1.NodeConfig's
pub struct Spec {
    /// Labels of the Nodes that it is about.
    pub node_selector: Option<Selector>,
    /// Default: br-int.
    pub bridge: Option<String>,
    pub traffic_mode: Option<TrafficMode>,
    /// Default: those of `pod_cidrs`.
    pub families: Option<Families>,
    /// Default: the Node's InternalIPs.
    pub transport_addresses: Option<Vec<String>>,
    /// Networks between Nodes, with the lengths of their links: for the default of
    /// `transport_addresses`.
    #[serde(rename = "transportInterfaceCIDRs")]
    pub transport_interface_cidrs: Option<Vec<String>>,
    /// Default: the Node's `spec.podCIDRs`.
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Option<Vec<String>>,
    pub gateway: Option<Gateway>,
    /// Default: antrea-tun0, in traffic modes with a tunnel.
    pub tunnel: Option<PortName>,
    pub uplink: Option<Uplink>,
    #[serde(rename = "serviceCIDRs")]
    pub service_cidrs: Option<Vec<String>>,
    pub features: Option<Features>,
    pub node_port_addresses: Option<Vec<String>>,
    #[serde(rename = "egressExceptCIDRs")]
    pub egress_except_cidrs: Option<Vec<String>>,
    /// Default: the Node's label topology.kubernetes.io/zone.
    pub topology_zone: Option<String>,
    pub l7: Option<L7Ports>,
    pub local_probe: Option<LocalProbe>,
    pub local_probe_port: Option<String>,
    /// Answered by another program than this agent, which only says so.
    pub taken_over: Option<Vec<PacketCategory>>,
    pub packet_limits: Option<Vec<PacketLimit>>,
    pub record_denied: Option<bool>,
    pub fqdn: Option<Fqdn>,
    pub zones: Option<Zones>,
    #[serde(rename = "virtualMAC")]
    pub virtual_mac: Option<String>,
    #[serde(rename = "reentranceMAC")]
    pub reentrance_mac: Option<String>,
    pub virtual_service_addresses: Option<Vec<String>>,
    pub virtual_node_port_addresses: Option<Vec<String>>,
    pub host: Option<Host>,
    /// The agent's own: the switch has it as Services.
    pub node_port_local: Option<NodePortLocal>,
}

/// The host's part (`antrea.v1.HostConfig`).
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Host {
    #[serde(default)]
    pub pods_keep_addresses: bool,
}

/// How Pods of different Nodes reach each other (`antrea.v1.TrafficMode`).
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)]
pub enum TrafficMode {
    Encap,
    NoEncap,
    Hybrid,
    NetworkPolicyOnly,
}

/// Internet protocol families of the Node (`antrea.v1.Families`).
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)]
pub enum Families {
    IPv4,
    IPv6,
    Dual,
}

/// The host's port to Pods, with its MAC address and addresses (`antrea.v1.Gateway`).
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Gateway {
    /// Default: antrea-gw0.
    pub port: Option<String>,
    /// Default: made of its first address.
    pub mac: Option<String>,
    /// Default: the first address of each prefix of Pods.
    pub addresses: Option<Vec<String>>,
}

/// The tunnel port (`antrea.v1.Tunnel`).
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct PortName {
    pub port: String,
}

/// The way past the host's stack (`antrea.v1.Uplink`).
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Uplink {
    pub port: String,
    #[serde(default)]
    pub underlay_bridge: String,
    /// Default: the Node's annotation `vswitch/mac`.
    pub mac: Option<String>,
    #[serde(default)]
    pub next_hops: Vec<NextHop>,
    #[serde(default)]
    pub external_traffic: bool,
    #[serde(default)]
    pub answered_addresses: Vec<String>,
    pub gateway: Option<GatewayBridge>,
}

/// The bridge behind the uplink as a gateway bridge (`antrea.v1.GatewayBridge`).
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct GatewayBridge {
    /// The switch refuses a gateway bridge without a mode.
    pub mode: Option<GatewayMode>,
    pub addresses: Vec<String>,
    pub other_addresses: Vec<String>,
    pub masquerade_prefixes: Vec<String>,
    pub first_zone: Option<u32>,
    pub pods_keep_addresses: bool,
    pub port: String,
    pub no_uplink: bool,
    pub pod_mtu: u32,
}

/// Who leads packets between the wire and Pods (`antrea.v1.GatewayMode`).
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)]
pub enum GatewayMode {
    Shared,
    Local,
}

/// A next hop of the uplink (`antrea.v1.NextHop`).
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct NextHop {
    pub address: String,
    pub mac: Option<String>,
}

/// What of the pipeline exists (`antrea.v1.Features`).
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct Features {
    pub proxy: Option<bool>,
    pub proxy_all: bool,
    pub antrea_policy: Option<bool>,
    pub egress: Option<bool>,
    pub egress_traffic_shaping: bool,
    pub traffic_control: bool,
    #[serde(rename = "l7NetworkPolicy")]
    pub l7_network_policy: bool,
    pub multicast: bool,
    pub dsr: bool,
    #[serde(rename = "podVLANs")]
    pub pod_vlans: bool,
}

/// Ports of the application-aware engine (`antrea.v1.L7Ports`).
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct L7Ports {
    pub target: String,
    pub return_port: String,
}

/// How the host's own packets are known (`antrea.v1.LocalProbe`).
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)]
pub enum LocalProbe {
    ByAddress,
    ByPort,
    None,
}

/// A kind of packet that an answer is expected for (`antrea.v1.PacketCategory`).
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)]
pub enum PacketCategory {
    PolicyReject,
    ServiceReject,
    DNS,
    IGMP,
    PolicyLog,
    Traceflow,
}

/// How many packets of a category are described or answered (`antrea.v1.PacketLimit`).
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct PacketLimit {
    pub category: PacketCategory,
    #[serde(default, rename = "ratePPS")]
    pub rate_pps: u32,
    #[serde(default)]
    pub burst_packets: u32,
}

/// Bounds of what is learned of names (`antrea.v1.FqdnConfig`).
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct Fqdn {
    #[serde(rename = "minTTLSeconds")]
    pub min_ttl_seconds: u32,
    pub names_per_pattern_max: u32,
    pub names_max: u32,
    pub wait_ms_max: u32,
    pub servers: Vec<String>,
}

/// Zones of the connection tracker (`antrea.v1.Zones`).
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct Zones {
    #[serde(rename = "mainV4")]
    pub main_v4: Option<u32>,
    #[serde(rename = "snatV4")]
    pub snat_v4: Option<u32>,
    #[serde(rename = "egressV4")]
    pub egress_v4: Option<u32>,
    #[serde(rename = "mainV6")]
    pub main_v6: Option<u32>,
    #[serde(rename = "snatV6")]
    pub snat_v6: Option<u32>,
    #[serde(rename = "egressV6")]
    pub egress_v6: Option<u32>,
    pub uplink: Option<u32>,
    #[serde(rename = "hostEndpoints")]
    pub host_endpoints: Option<u32>,
}
