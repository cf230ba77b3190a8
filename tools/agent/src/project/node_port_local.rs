//! Ports of the Node for ports of its Pods (Antrea: NodePortLocal).
//!
//! A Service with the annotation [`ENABLED`] asks for them: each Pod of this Node that it selects
//! gets a port of the Node for each target port. For the switch that is a Service of its own
//! ([`service`]): nothing but NodePorts, each with one endpoint. So packets keep their source, and
//! the Pod's policies bind them. The annotation [`ANNOTATION`] of the Pod says which ports it has.
//!
//! **Which port.** A Pod's port keeps what the agent remembers. Else it has what its annotation
//! says, if that is free, in the range, and nobody else claims it. Else it has the first free one
//! behind a hash of its name. So an agent that knows nothing chooses alike. Anyone who may change a
//! Pod may write its annotation: it takes no port from another Pod, and none outside the range.
//! NodePorts of Services come first.
//!
//! **Limits**: TCP and UDP, as Antrea has it. As many Pods' ports of a protocol as the range has.

#[cfg(test)]
mod tests;

use super::Projector;
use crate::attach::is_further;
use crate::hash::mixed;
use crate::kinds::node_config::texts;
use crate::kinds::service::{Family, ServiceBody, ServiceType};
use crate::model::Item;
use crate::resolve::net::is_six;
use crate::resolve::services::target;
use crate::resolve::world::Pod;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object as Kinded;

/// Annotation of Services: `"true"`.
pub const ENABLED: &str = "nodeportlocal.antrea.io/enabled";
/// Annotation of Pods.
pub const ANNOTATION: &str = "nodeportlocal.antrea.io";

/// A protocol, as the annotation has it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum Transport {
    Tcp,
    Udp,
}

/// A port of a Pod.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodPort {
    pod: String,
    port: u16,
    protocol: Transport,
}

/// Which ports of the Node ports of Pods have.
pub type NodePorts = BTreeMap<PodPort, u16>;

/// The annotation that a Pod is to have, and has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// UID of the Pod.
    pub uid: String,
    /// Its text; None: it is to go.
    pub text: Option<String>,
}

/// A port, as the annotation of Antrea says it.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
struct Entry {
    pod_port: u16,
    #[serde(rename = "nodeIP")]
    node_ip: String,
    node_port: u16,
    protocol: Transport,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    ip_family: String,
}

/// What is asked for: the families of each port, IPv4 and IPv6.
type Wanted = BTreeMap<PodPort, [bool; 2]>;

impl Projector<'_> {
    /// Ports of the Node for Pods that Services ask for.
    pub(super) fn node_port_local(&mut self) {
        let Ok(own) = &self.world.own else { return };
        let asked = own.spec.node_port_local.as_ref().filter(|asked| asked.enable);
        let Some(asked) = asked else { return self.memory.node_ports.clear() };
        if !own.spec.features.as_ref().is_some_and(|features| features.proxy_all && features.proxy != Some(false)) {
            let problem = own.origin.error("spec.nodePortLocal", "needs features.proxyAll");
            return self.problems.push(problem.hint("set it, or leave nodePortLocal out"));
        }
        let Some(range) = asked.ports() else { return };
        let addresses = node_addresses(own);
        let wanted = self.wanted();
        self.allocate(&wanted, range);
        let pods: Vec<usize> = (0..self.world.pods.len()).filter(|at| is_candidate(&self.world.pods[*at])).collect();
        for at in pods {
            self.publish(at, &wanted, &addresses);
        }
    }

    /// Ports that Services ask for.
    fn wanted(&mut self) -> Wanted {
        let mut wanted = Wanted::new();
        let asking = |item: &&Item<ServiceBody>| item.meta.annotations.get(ENABLED).is_some_and(|text| text == "true");
        for item in self.world.model.services.values().filter(asking) {
            let spec = &item.body.spec;
            let field = format!("metadata.annotations[{ENABLED}]");
            let reason = match spec.kind {
                Some(ServiceType::NodePort) => Some("a Service of type NodePort has ports of all Nodes"),
                Some(ServiceType::ExternalName) => Some("a Service of type ExternalName has no Pods"),
                _ if spec.selector.is_empty() => Some("a Service without a selector has no Pods"),
                _ => None,
            };
            if let Some(reason) = reason {
                self.problems.push(item.origin.tolerated(field, format!("{reason}: no effect")));
                continue;
            }
            let pods = self.world.labelled(&item.meta.namespace, &spec.selector);
            let families = if spec.ip_families.is_empty() {
                [true, true]
            } else {
                [Family::IPv4, Family::IPv6].map(|family| spec.ip_families.contains(&family))
            };
            for port in &spec.ports {
                let protocol = match port.protocol.as_deref().unwrap_or("TCP") {
                    "TCP" => Transport::Tcp,
                    "UDP" => Transport::Udp,
                    other => {
                        let reason = format!("no ports of Nodes for {other}");
                        self.problems.push(item.origin.tolerated(field.clone(), reason));
                        continue;
                    }
                };
                for pod in pods.iter().map(|at| &self.world.pods[*at]).filter(|pod| is_candidate(pod)) {
                    let Some(number) = target(pod, port) else { continue };
                    let of = wanted.entry(PodPort { pod: pod.name.to_owned(), port: number, protocol }).or_default();
                    *of = [of[0] || families[0], of[1] || families[1]];
                }
            }
        }
        wanted
    }

    /// Gives each a port, in the memory; tells what has none, and what had to move.
    fn allocate(&mut self, wanted: &Wanted, range: RangeInclusive<u16>) {
        let mut real: BTreeMap<(Transport, u16), &str> = BTreeMap::new();
        for (name, item) in &self.world.model.services {
            for port in item.body.spec.ports.iter().filter(|port| port.node_port != 0) {
                let protocol = if port.protocol.as_deref() == Some("UDP") { Transport::Udp } else { Transport::Tcp };
                real.insert((protocol, port.node_port), name);
            }
            if item.body.spec.health_check_node_port != 0 {
                real.insert((Transport::Tcp, item.body.spec.health_check_node_port), name);
            }
        }
        let mut claims = NodePorts::new();
        let pods: BTreeMap<&str, &Pod<'_>> =
            self.world.pods.iter().filter(|pod| is_candidate(pod)).map(|pod| (pod.name, pod)).collect();
        for (name, pod) in &pods {
            for entry in entries(pod).into_iter().flatten() {
                let key = PodPort { pod: (*name).to_owned(), port: entry.pod_port, protocol: entry.protocol };
                claims.insert(key, entry.node_port);
            }
        }
        for (key, port) in &self.memory.node_ports {
            if let (Some(service), Some(pod)) = (real.get(&(key.protocol, *port)), pods.get(key.pod.as_str())) {
                let reason = format!("port {port} of the Node is Service {service}'s now: the Pod gets another one");
                let field = format!("metadata.annotations[{ANNOTATION}]");
                self.problems.push(
                    pod.item.origin.warning(field, reason).hint("keep nodePortLocal.portRange free of NodePorts"),
                );
            }
        }
        let real = real.into_keys().collect();
        for key in allocate(wanted.keys(), &claims, &real, &range, &mut self.memory.node_ports) {
            let Some(pod) = pods.get(key.pod.as_str()) else { continue };
            let reason = format!("no port of {}-{} is free for port {}", range.start(), range.end(), key.port);
            let field = format!("metadata.annotations[{ANNOTATION}]");
            self.problems.push(pod.item.origin.error(field, reason).hint("widen nodePortLocal.portRange"));
        }
    }

    /// What the switch and the Pod are told of a Pod.
    fn publish(&mut self, at: usize, wanted: &Wanted, addresses: &[Option<String>; 2]) {
        let pod = &self.world.pods[at];
        let first = PodPort { pod: pod.name.to_owned(), port: 0, protocol: Transport::Tcp };
        let ports = wanted.range(first..).take_while(|(key, _)| key.pod == pod.name);
        let (mut said, mut served) = (Vec::new(), Vec::new());
        for (key, families) in ports {
            let Some(node_port) = self.memory.node_ports.get(key) else { continue };
            let has = |address: &&String| families[usize::from(is_six(address))];
            let own: Vec<&String> = pod.addresses.iter().filter(has).collect();
            let of_node = own.iter().filter_map(|address| addresses[usize::from(is_six(address))].clone());
            said.extend(of_node.map(|node_ip| Entry {
                pod_port: key.port,
                node_port: *node_port,
                protocol: key.protocol,
                ip_family: if is_six(&node_ip) { "IPv6" } else { "IPv4" }.to_owned(),
                node_ip,
            }));
            served.push((key.clone(), *node_port, own.into_iter().cloned().collect()));
        }
        said.sort();
        let has = entries(pod);
        let is_annotated = pod.item.meta.annotations.contains_key(ANNOTATION);
        if (is_annotated || !said.is_empty()) && has.as_ref() != Some(&said) {
            let text = (!said.is_empty()).then(|| serde_json::to_string(&said).unwrap_or_default());
            let annotation = Annotation { uid: pod.item.meta.uid.clone(), text };
            self.projection.annotations.insert(pod.name.to_owned(), annotation);
        }
        if served.is_empty() {
            return;
        }
        let origin = pod.item.origin.clone();
        let (service, sets) = service(pod.name, self.world.node, served);
        self.add(Kinded::Service(service), &origin);
        sets.into_iter().for_each(|set| self.add(Kinded::Endpoints(set), &origin));
    }
}

/// Whether a Pod may have ports of this Node.
fn is_candidate(pod: &Pod<'_>) -> bool {
    pod.is_local && !pod.item.body.spec.host_network && !is_further(pod.name)
}

/// What a Pod's annotation says, in order; None: nothing that is understood.
fn entries(pod: &Pod<'_>) -> Option<Vec<Entry>> {
    let mut entries: Vec<Entry> = serde_json::from_str(pod.item.meta.annotations.get(ANNOTATION)?).ok()?;
    entries.sort();
    Some(entries)
}

/// The Node's addresses that serve NodePorts, the first one of each family.
fn node_addresses(own: &crate::resolve::own::Own) -> [Option<String>; 2] {
    let given = texts(&own.spec.node_port_addresses);
    let all = if given.is_empty() { texts(&own.spec.transport_addresses) } else { given };
    let bare = |text: &String| text.split('/').next().unwrap_or_default().to_owned();
    [false, true].map(|six| all.iter().map(bare).find(|address| is_six(address) == six))
}

/// Gives each key a port, and takes those that are no key's away. Returns keys without a port.
fn allocate<'a>(
    wanted: impl Iterator<Item = &'a PodPort>,
    claims: &NodePorts,
    real: &BTreeSet<(Transport, u16)>,
    range: &RangeInclusive<u16>,
    ports: &mut NodePorts,
) -> Vec<PodPort> {
    let wanted: BTreeSet<&PodPort> = wanted.collect();
    let may = |key: &PodPort, port: u16| range.contains(&port) && !real.contains(&(key.protocol, port));
    ports.retain(|key, port| wanted.contains(key) && may(key, *port));
    let mut used: BTreeSet<(Transport, u16)> = ports.iter().map(|(key, port)| (key.protocol, *port)).collect();
    let mut claimed: BTreeMap<(Transport, u16), Vec<&PodPort>> = BTreeMap::new();
    for (key, port) in claims {
        let is_new = wanted.contains(key) && !ports.contains_key(key);
        if is_new && may(key, *port) && !used.contains(&(key.protocol, *port)) {
            claimed.entry((key.protocol, *port)).or_default().push(key);
        }
    }
    for (place, keys) in claimed {
        if let [key] = keys.as_slice() {
            ports.insert((*key).clone(), place.1);
            used.insert(place);
        }
    }
    used.extend(real.iter().filter(|(_, port)| range.contains(port)));
    let total = usize::from(range.end() - range.start()) + 1;
    let mut without = Vec::new();
    for key in wanted {
        if ports.contains_key(key) {
            continue;
        }
        // None is looked for where there is none.
        let is_full = used.iter().filter(|(protocol, _)| *protocol == key.protocol).count() >= total;
        let free = (0..total).filter(|_| !is_full).find_map(|step| {
            let place = (usize::try_from(hash(key) % total as u64).ok()? + step) % total;
            let port = range.start() + u16::try_from(place).ok()?;
            (!used.contains(&(key.protocol, port))).then_some(port)
        });
        match free {
            Some(port) => {
                used.insert((key.protocol, port));
                ports.insert(key.clone(), port);
            }
            None => without.push(key.clone()),
        }
    }
    without
}

/// The same for the same port of a Pod.
fn hash(key: &PodPort) -> u64 {
    let words = key.port.to_be_bytes().into_iter().chain([key.protocol as u8]);
    mixed(key.pod.bytes().chain(words))
}

/// The Service that leads ports of the Node to one Pod. No Service of Kubernetes has such a name.
fn service(pod: &str, node: &str, served: Vec<(PodPort, u16, Vec<String>)>) -> (v1::Service, Vec<v1::Endpoints>) {
    let name = format!("{pod}@nodeportlocal");
    let mut service = v1::Service { name: name.clone(), ..Default::default() };
    service.set_external_traffic_policy(v1::TrafficPolicy::Local);
    let mut sets = Vec::new();
    for (key, node_port, addresses) in served {
        let (word, protocol) = match key.protocol {
            Transport::Tcp => ("tcp", v1::Protocol::Tcp),
            Transport::Udp => ("udp", v1::Protocol::Udp),
        };
        let port = format!("{word}-{}", key.port);
        let (number, protocol) = (u32::from(key.port), protocol.into());
        service.ports.push(v1::ServicePort { name: port.clone(), protocol, port: number, node_port: node_port.into() });
        let endpoint = |address: String| v1::Endpoint {
            address,
            port: number,
            node: node.to_owned(),
            ready: true,
            serving: true,
            ..Default::default()
        };
        let endpoints = addresses.into_iter().map(endpoint).collect();
        sets.push(v1::Endpoints { service: name.clone(), port, endpoints });
    }
    (service, sets)
}
