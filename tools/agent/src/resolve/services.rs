//! Services and their endpoints.

use super::net::{is_six, once, prefix};
use super::rule::{self, protocol_number};
use super::world::{Pod, World};
use crate::health::HealthCheck;
use crate::kinds::endpoint_slice::{self, AddressType};
use crate::kinds::service::{Affinity, Family, Port, ServiceBody, ServiceType, TrafficPolicy};
use crate::kinds::{NumberOrName, node_config};
use crate::model::Item;
use crate::problem::Problem;
use std::collections::{BTreeMap, BTreeSet};
use vswitch_proto::antrea::v1;

/// Kubernetes' default: three hours.
const AFFINITY_SECONDS: u32 = 10_800;

/// Label by which a Service is somebody else's.
const OTHER_PROXY: &str = "service.kubernetes.io/service-proxy-name";

/// Annotation of Antrea that says how connections from outside are served.
const LOAD_BALANCER_MODE: &str = "service.antrea.io/load-balancer-mode";

/// A Service and the endpoints of its ports.
pub type Served = (v1::Service, Vec<v1::Endpoints>);

/// Whether the switch serves a Service: it has addresses or ports that the Node's features serve.
pub fn is_served(world: &World<'_>, item: &Item<ServiceBody>) -> bool {
    let addresses = Addresses::new(world, item);
    let is_ours = item.body.spec.kind != Some(ServiceType::ExternalName) && !item.meta.labels.contains_key(OTHER_PROXY);
    let has_node_port = addresses.has_outside && item.body.spec.ports.iter().any(|port| port.node_port != 0);
    addresses.is_proxy && is_ours && (has_node_port || !addresses.all().is_empty())
}

struct Addresses {
    is_proxy: bool,
    has_outside: bool,
    cluster: Vec<String>,
    external: Vec<String>,
    load_balancer: Vec<String>,
    /// Who may use these; empty: anybody.
    sources: Vec<String>,
}

impl Addresses {
    fn new(world: &World<'_>, item: &Item<ServiceBody>) -> Self {
        let features = world.own.as_ref().ok().and_then(|own| own.spec.features.as_ref());
        let default = node_config::Features::default();
        let features = features.unwrap_or(&default);
        let spec = &item.body.spec;
        let mut cluster = spec.cluster_ips.clone();
        if cluster.is_empty() {
            cluster.extend(spec.cluster_ip.clone());
        }
        cluster.retain(|address| !address.is_empty() && address != "None" && world.has(address));
        cluster = once(cluster);
        let is_proxy = features.proxy.unwrap_or(true);
        let has_outside = is_proxy && features.proxy_all;
        let ingress = item.body.status.load_balancer.ingress.iter();
        let vips = ingress.filter(|ingress| ingress.ip_mode.as_deref() != Some("Proxy"));
        let vips: Vec<String> = vips.filter_map(|ingress| ingress.ip.clone()).collect();
        let given = &spec.load_balancer_source_ranges;
        let mut sources: Vec<String> = given.iter().filter_map(|text| prefix(text.trim())).collect();
        sources.retain(|source| world.has(source));
        sources.sort();
        sources.dedup();
        // A list of which nothing is left means nobody, and an empty one would mean anybody.
        let has_vips = has_outside && (given.is_empty() || !sources.is_empty());
        let of_node = |all: &[String]| once(all.iter().filter(|address| world.has(address)).cloned().collect());
        Self {
            is_proxy,
            has_outside,
            cluster,
            external: if has_outside { of_node(&spec.external_ips) } else { Vec::new() },
            load_balancer: if has_vips { of_node(&vips) } else { Vec::new() },
            sources,
        }
    }

    fn all(&self) -> Vec<&String> {
        self.cluster.iter().chain(&self.external).chain(&self.load_balancer).collect()
    }
}

/// The health check NodePort of a Service with these endpoints; None: it has none that is served
/// here.
pub fn health_check(world: &World<'_>, item: &Item<ServiceBody>, sets: &[v1::Endpoints]) -> Option<HealthCheck> {
    let (spec, addresses) = (&item.body.spec, Addresses::new(world, item));
    let is_asked = spec.kind == Some(ServiceType::LoadBalancer)
        && spec.external_traffic_policy == Some(TrafficPolicy::Local)
        && spec.health_check_node_port != 0;
    if !is_asked || !addresses.has_outside {
        return None;
    }
    let has = families(item, &addresses);
    let endpoints = || sets.iter().flat_map(|set| &set.endpoints);
    let count = |six: bool| {
        let local = endpoints().filter(|endpoint| endpoint.ready && endpoint.node == world.node);
        // One that has several ports counts once.
        let of_family = local.filter(|endpoint| is_six(&endpoint.address) == six);
        of_family.map(|endpoint| endpoint.address.as_str()).collect::<BTreeSet<_>>().len()
    };
    let is_served = |six: bool| has[usize::from(six)] && world.has(if six { "::1" } else { "127.0.0.1" });
    Some(HealthCheck {
        port: spec.health_check_node_port,
        namespace: item.meta.namespace.clone(),
        name: item.meta.name.clone(),
        local_endpoints: [false, true].map(|six| is_served(six).then(|| count(six))),
        origin: item.origin.clone(),
    })
}

/// A Service; None: it is not served here.
pub fn service(
    world: &World<'_>,
    item: &Item<ServiceBody>,
    odd: &mut Vec<Problem>,
) -> Result<Option<Served>, Box<Problem>> {
    let spec = &item.body.spec;
    let addresses = Addresses::new(world, item);
    // Fewer may come in then: nothing is open that is not meant to be.
    let bad_source = |(_, text): &(usize, &String)| !text.is_empty() && prefix(text.trim()).is_none();
    for (i, text) in spec.load_balancer_source_ranges.iter().enumerate().filter(bad_source) {
        let field = format!("spec.loadBalancerSourceRanges[{i}]");
        odd.push(item.origin.error(field, format!("{text:?} is no prefix")));
    }
    if addresses.has_outside && addresses.sources.is_empty() && !spec.load_balancer_source_ranges.is_empty() {
        let reason = "none of the Node's families: its load balancer's addresses are left out";
        odd.push(item.origin.warning("spec.loadBalancerSourceRanges", reason));
    }
    let is_headless = spec.cluster_ip.as_deref() == Some("None") || spec.cluster_ips.iter().any(|ip| ip == "None");
    if !is_served(world, item) {
        let wants_one = spec.kind.is_none_or(|kind| kind == ServiceType::ClusterIP) && spec.external_ips.is_empty();
        if addresses.is_proxy && wants_one && !is_headless {
            odd.push(item.origin.warning("spec.clusterIP", "not given: nobody here gives addresses; left out"));
        }
        return Ok(None);
    }
    let ports: Vec<_> = spec.ports.iter().map(|port| service_port(port, addresses.has_outside)).collect();
    if ports.is_empty() {
        return Err(Box::new(item.origin.error("spec.ports", "is required")));
    }
    let families = families(item, &addresses);
    let slices = slices(world, item, odd);
    let sets = spec.ports.iter().map(|port| v1::Endpoints {
        service: item.meta.full_name(),
        port: port.name.clone(),
        endpoints: endpoints(world, item, port, slices.as_deref(), &families),
    });
    let sets = sets.collect();
    Ok(Some((switch_service(item, addresses, rule::once(ports), odd), sets)))
}

fn service_port(port: &Port, has_outside: bool) -> v1::ServicePort {
    v1::ServicePort {
        name: port.name.clone(),
        protocol: protocol_number(port.protocol.as_deref().unwrap_or("TCP")).into(),
        port: port.port.into(),
        node_port: if has_outside { port.node_port.into() } else { 0 },
    }
}

fn switch_service(
    item: &Item<ServiceBody>,
    addresses: Addresses,
    ports: Vec<v1::ServicePort>,
    odd: &mut Vec<Problem>,
) -> v1::Service {
    let spec = &item.body.spec;
    let timeout = || spec.session_affinity_config.as_ref()?.client_ip.as_ref()?.timeout_seconds;
    let affinity =
        if spec.session_affinity == Some(Affinity::ClientIP) { timeout().unwrap_or(AFFINITY_SECONDS) } else { 0 };
    let mut word = |annotation: &str, value: &str, known: &str| {
        let reason = format!("{value:?} is not one of {known}: left out");
        odd.push(item.origin.tolerated(format!("metadata.annotations[{annotation}]"), reason));
    };
    let mut load_balancer_mode = v1::LoadBalancerMode::Unspecified;
    match item.meta.annotations.get(LOAD_BALANCER_MODE).map(|mode| mode.to_lowercase()) {
        None => {}
        Some(mode) if mode == "nat" => load_balancer_mode = v1::LoadBalancerMode::Nat,
        Some(mode) if mode == "dsr" => load_balancer_mode = v1::LoadBalancerMode::Dsr,
        Some(mode) => word(LOAD_BALANCER_MODE, &mode, "NAT, DSR"),
    }
    let mut selection = v1::Selection::Unspecified;
    match item.meta.annotation("selection") {
        None => {}
        Some("DpHash") => selection = v1::Selection::DpHash,
        Some("Maglev") => selection = v1::Selection::Maglev,
        Some(other) => word("vswitch/selection", other, "DpHash, Maglev"),
    }
    let nested = item.meta.annotation("nested");
    if let Some(other) = nested.filter(|nested| !["true", "false"].contains(nested)) {
        word("vswitch/nested", other, "true, false");
    }
    let nested = nested == Some("true");
    let sources = if addresses.load_balancer.is_empty() { Vec::new() } else { addresses.sources };
    v1::Service {
        name: item.meta.full_name(),
        ports,
        cluster_ips: addresses.cluster,
        external_ips: addresses.external,
        load_balancer_ips: addresses.load_balancer,
        internal_traffic_policy: traffic_policy(spec.internal_traffic_policy).into(),
        external_traffic_policy: traffic_policy(spec.external_traffic_policy).into(),
        affinity_timeout_seconds: affinity,
        selection: selection.into(),
        load_balancer_mode: load_balancer_mode.into(),
        nested,
        load_balancer_source_ranges: sources,
    }
}

fn traffic_policy(policy: Option<TrafficPolicy>) -> v1::TrafficPolicy {
    match policy {
        None => v1::TrafficPolicy::Unspecified,
        Some(TrafficPolicy::Cluster) => v1::TrafficPolicy::Cluster,
        Some(TrafficPolicy::Local) => v1::TrafficPolicy::Local,
    }
}

/// Whether a Service has addresses of IPv4, of IPv6. One with nothing but NodePorts may have both.
fn families(item: &Item<ServiceBody>, addresses: &Addresses) -> [bool; 2] {
    let spec = &item.body.spec;
    if !spec.ip_families.is_empty() {
        return [Family::IPv4, Family::IPv6].map(|family| spec.ip_families.contains(&family));
    }
    let all = addresses.all();
    if all.is_empty() {
        return [true, true];
    }
    [false, true].map(|six| all.iter().any(|address| is_six(address) == six))
}

type ByAddress = BTreeMap<(String, u32), v1::Endpoint>;

/// A slice, and the share of each of its endpoints.
type Weighed<'a> = (&'a Item<endpoint_slice::EndpointSliceBody>, u32);

/// Slices of a Service that have addresses; None: it has none of these.
fn slices<'a>(world: &World<'a>, item: &Item<ServiceBody>, odd: &mut Vec<Problem>) -> Option<Vec<Weighed<'a>>> {
    let all = world.slices(&item.meta.namespace, &item.meta.name);
    if all.is_empty() {
        return None;
    }
    let mut weighed = Vec::new();
    for &slice in all {
        if slice.body.address_type == AddressType::FQDN {
            odd.push(slice.origin.warning("addressType", "names are no endpoints: left out"));
        } else {
            weighed.push((slice, weight(slice, odd)));
        }
    }
    (!weighed.is_empty()).then_some(weighed)
}

/// Endpoints of a port: of the Service's slices if there are any, else of the Pods that it selects.
fn endpoints(
    world: &World<'_>,
    item: &Item<ServiceBody>,
    port: &Port,
    slices: Option<&[Weighed<'_>]>,
    families: &[bool; 2],
) -> Vec<v1::Endpoint> {
    let mut found = ByAddress::new();
    if slices.is_none() && !item.body.spec.selector.is_empty() {
        of_pods(world, item, port, &mut found);
    }
    for (slice, weight) in slices.unwrap_or_default() {
        of_slice(slice, *weight, item.body.spec.publish_not_ready_addresses, port, &mut found);
    }
    let is_served = |address: &str| families[usize::from(is_six(address))] && world.has(address);
    found.into_values().filter(|endpoint| is_served(&endpoint.address)).collect()
}

/// The share of each of a slice's endpoints (annotation `vswitch/weight`); 0: the switch's default.
fn weight(slice: &Item<endpoint_slice::EndpointSliceBody>, odd: &mut Vec<Problem>) -> u32 {
    let Some(text) = slice.meta.annotation("weight") else { return 0 };
    match text.parse::<u16>() {
        Ok(weight) if weight != 0 => weight.into(),
        _ => {
            let reason = format!("{text:?} is no number from 1 to 65535: left out");
            odd.push(slice.origin.warning("metadata.annotations[vswitch/weight]", reason));
            0
        }
    }
}

fn of_slice(
    slice: &Item<endpoint_slice::EndpointSliceBody>,
    weight: u32,
    all_ready: bool,
    port: &Port,
    found: &mut ByAddress,
) {
    let is_it = |of: &&endpoint_slice::Port| {
        let same_protocol = of.protocol.as_deref().unwrap_or("TCP") == port.protocol.as_deref().unwrap_or("TCP");
        of.name.as_deref().unwrap_or_default() == port.name && same_protocol
    };
    let Some(number) = slice.body.ports.iter().find(is_it).and_then(|of| of.port) else { return };
    for endpoint in &slice.body.endpoints {
        let Some(address) = endpoint.addresses.first() else { continue };
        let conditions = &endpoint.conditions;
        let ready = conditions.ready.unwrap_or(true);
        let names = |hints: &[endpoint_slice::Hint]| hints.iter().map(|hint| hint.name.clone()).collect();
        let endpoint = v1::Endpoint {
            address: address.clone(),
            port: number.into(),
            node: endpoint.node_name.clone().unwrap_or_default(),
            ready: ready || all_ready,
            serving: conditions.serving.unwrap_or(ready),
            terminating: conditions.terminating.unwrap_or(false),
            weight,
            hint_zones: names(&endpoint.hints.for_zones),
            hint_nodes: names(&endpoint.hints.for_nodes),
        };
        found.entry((endpoint.address.clone(), endpoint.port)).or_insert(endpoint);
    }
}

fn of_pods(world: &World<'_>, item: &Item<ServiceBody>, port: &Port, found: &mut ByAddress) {
    let spec = &item.body.spec;
    for index in world.labelled(&item.meta.namespace, &spec.selector) {
        let pod = &world.pods[index];
        let meta = &pod.item.meta;
        let Some(number) = target(pod, port) else { continue };
        let terminating = meta.deletion_timestamp.is_some();
        let serving = is_ready(pod);
        for address in &pod.addresses {
            let endpoint = v1::Endpoint {
                address: address.clone(),
                port: number.into(),
                node: pod.item.body.spec.node_name.clone(),
                ready: serving && !terminating || spec.publish_not_ready_addresses,
                serving,
                terminating,
                ..Default::default()
            };
            found.entry((endpoint.address.clone(), endpoint.port)).or_insert(endpoint);
        }
    }
}

/// The port of a Pod that a Service's port leads to; None: it has none of that name.
pub fn target(pod: &Pod<'_>, port: &Port) -> Option<u16> {
    match &port.target_port {
        None => Some(port.port),
        Some(NumberOrName::Number(number)) => Some(if *number == 0 { port.port } else { *number }),
        Some(NumberOrName::Name(name)) => {
            pod.named_ports(name, port.protocol.as_deref().unwrap_or("TCP")).first().copied()
        }
    }
}

/// As the condition Ready says; without one, a Pod that is not said to be something else than
/// running is.
fn is_ready(pod: &Pod<'_>) -> bool {
    let status = &pod.item.body.status;
    let is_running = ["", "Running"].contains(&status.phase.as_str());
    let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
    is_running && ready.is_none_or(|condition| condition.status == "True")
}
