//! Service.

use super::names::wrong_pairs;
use super::wellformed::{ADDRESS, error, is_host, is_port_name, list, wrong_port};
use super::{Labels, NumberOrName};
use crate::source::{FieldError, Tree, typed_without_unknown};
use serde::{Deserialize, Serialize};

/// Service without its metadata.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ServiceBody {
    /// What is asked for.
    pub spec: Spec,
    /// What there is.
    #[serde(default)]
    pub status: Status,
}

/// What is asked for.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Its Pods; none: somebody else makes its EndpointSlices.
    #[serde(default)]
    pub selector: Labels,
    /// The selector is not understood.
    #[serde(skip)]
    pub has_lost_selector: bool,
    /// Its ports.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// Where it can be reached from; ClusterIP by default.
    #[serde(rename = "type")]
    pub kind: Option<ServiceType>,
    /// The first of its addresses, or `None`.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// One for each family.
    #[serde(default, rename = "clusterIPs")]
    pub cluster_ips: Vec<String>,
    /// External addresses.
    #[serde(default, rename = "externalIPs")]
    pub external_ips: Vec<String>,
    /// IPv4, IPv6.
    #[serde(default)]
    pub ip_families: Vec<Family>,
    /// ClientIP: a client stays with its endpoint.
    pub session_affinity: Option<Affinity>,
    /// For how long.
    pub session_affinity_config: Option<AffinityConfig>,
    /// Cluster or Local, from outside.
    pub external_traffic_policy: Option<TrafficPolicy>,
    /// Cluster or Local, from inside.
    pub internal_traffic_policy: Option<TrafficPolicy>,
    /// Who may use the addresses of the load balancer.
    #[serde(default)]
    pub load_balancer_source_ranges: Vec<String>,
    /// Where load balancers ask whether this Node has endpoints; 0: nowhere.
    #[serde(default)]
    pub health_check_node_port: u16,
    /// Endpoints that are not ready count as ready.
    #[serde(default)]
    pub publish_not_ready_addresses: bool,
}

/// Where a Service can be reached from.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)] // Kubernetes' words
pub enum ServiceType {
    ClusterIP,
    NodePort,
    LoadBalancer,
    ExternalName,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)] // Kubernetes' words
pub enum Family {
    IPv4,
    IPv6,
}

/// Whether clients stay with their endpoints.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)] // Kubernetes' words
pub enum Affinity {
    None,
    ClientIP,
}

/// Which endpoints may be used.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)] // Kubernetes' words
pub enum TrafficPolicy {
    Cluster,
    Local,
}

/// How long a client stays.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AffinityConfig {
    /// By its address.
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIp>,
}

/// How long a client's address is remembered.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ClientIp {
    /// Seconds; 10800 by default.
    pub timeout_seconds: Option<u32>,
}

/// A port.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Port {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// TCP, UDP or SCTP.
    pub protocol: Option<String>,
    /// Its number.
    pub port: u16,
    /// The endpoints' port; the same by default.
    pub target_port: Option<NumberOrName>,
    /// Its number on Nodes; 0: none.
    #[serde(default)]
    pub node_port: u16,
}

/// What there is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Of the load balancer.
    #[serde(default)]
    pub load_balancer: LoadBalancer,
}

/// Addresses of the load balancer.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancer {
    /// They.
    #[serde(default)]
    pub ingress: Vec<Ingress>,
}

/// An address of the load balancer.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Ingress {
    /// The address.
    pub ip: Option<String>,
    /// Proxy: packets do not come with it as their destination.
    pub ip_mode: Option<String>,
    /// A name in place of an address.
    pub hostname: Option<String>,
}

impl ServiceBody {
    /// What is wrong with its entries by themselves; of each item of a list one error at most.
    pub(super) fn check(&self) -> Vec<FieldError> {
        let spec = &self.spec;
        let is_address: fn(&str) -> bool = |text| text.is_empty() || text == "None" || is_host(text);
        let mut errors = wrong_pairs("spec.selector", &spec.selector);
        // The first of them is all of them, where these are given.
        for text in spec.cluster_ip.iter().filter(|text| spec.cluster_ips.is_empty() && !is_address(text)) {
            errors.push(error("spec.clusterIP", text, ADDRESS));
        }
        errors.extend(list("spec.clusterIPs", &spec.cluster_ips, is_address, ADDRESS));
        errors.extend(list("spec.externalIPs", &spec.external_ips, is_host, ADDRESS));
        errors.extend(spec.ports.iter().enumerate().filter_map(|(i, port)| port.check(&format!("spec.ports[{i}]"))));
        for (i, ingress) in self.status.load_balancer.ingress.iter().enumerate() {
            let wrong = ingress.ip.iter().find(|text| !is_host(text));
            errors.extend(wrong.map(|text| error(&format!("status.loadBalancer.ingress[{i}].ip"), text, ADDRESS)));
        }
        errors
    }
}

impl Port {
    fn check(&self, path: &str) -> Option<FieldError> {
        if let Some(wrong) = wrong_port(path, "port", self.port, self.protocol.as_deref()) {
            return Some(wrong);
        }
        match &self.target_port {
            Some(NumberOrName::Name(name)) if !is_port_name(name) => {
                let error = error(&format!("{path}.targetPort"), name, "name of a port");
                let is_number = name.parse::<u16>().is_ok();
                let hint = if is_number { "a number is written without quotes" } else { "" };
                Some(FieldError { hint: hint.to_owned(), ..error })
            }
            _ => None,
        }
    }
}

pub(super) fn parse(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<Box<ServiceBody>, FieldError> {
    tree.strip(
        &["spec"],
        &[
            "allocateLoadBalancerNodePorts",
            "externalName",
            "ipFamilyPolicy",
            "loadBalancerClass",
            "loadBalancerIP",
            "trafficDistribution",
        ],
    );
    tree.strip(&["spec", "ports"], &["appProtocol"]);
    tree.strip(&["status", "loadBalancer", "ingress"], &["ports"]);
    typed_without_unknown(tree, unknown).map(Box::new)
}
