//! This Node's view of the cluster, as the switch takes it.

mod egress;
mod hold;
mod memory;
mod node;
pub mod node_port_local;
mod others;
mod peers;
mod policies;
mod text;
mod tiers;

use crate::health::HealthCheck;
use crate::model::Model;
use crate::problem::{Origin, Problem};
use crate::resolve::{World, bandwidth, net, nodes, services};
use std::collections::{BTreeMap, BTreeSet};
use vswitch_proto::antrea::v1::object::Object as Kinded;
use vswitch_proto::antrea::v1::{self, Kind};

pub use memory::KnownMemory;
pub use policies::Memory;
pub use text::text;

/// An object by its kind's number and its name.
pub type Key = (i32, String);

/// An object and the document that it is from (of a group, the first of those that name it).
#[derive(Clone, Debug, PartialEq)]
pub struct Projected {
    /// The object.
    pub object: v1::Object,
    /// Its document.
    pub origin: Origin,
}

/// All that the switch has to know.
#[derive(Clone, Debug, Default)]
pub struct Projection {
    /// The Node; None: nobody has said what it is.
    pub node: Option<(v1::NodeConfig, Origin)>,
    /// Objects in order of kinds and names.
    pub objects: BTreeMap<Key, Projected>,
    /// Objects whose documents are wrong: what they were before is to stay.
    pub failed: BTreeSet<Key>,
    /// Health check NodePorts by the names of their Services. The switch has nothing to do with
    /// them.
    pub health_checks: BTreeMap<String, HealthCheck>,
    /// Annotations that Pods of this Node are to have and have not, by their names.
    pub annotations: BTreeMap<String, node_port_local::Annotation>,
}

/// The name of an object within its kind.
pub fn name(object: &Kinded) -> String {
    match object {
        Kinded::PeerNode(peer) => peer.name.clone(),
        Kinded::Pod(pod) => pod.name.clone(),
        Kinded::Service(service) => service.name.clone(),
        Kinded::Endpoints(set) => format!("{}:{}", set.service, set.port),
        Kinded::AddressGroup(group) => group.name.clone(),
        Kinded::AppliedToGroup(group) => group.name.clone(),
        Kinded::NetworkPolicy(policy) => policy.name.clone(),
        Kinded::Egress(egress) => egress.name.clone(),
        Kinded::TrafficControl(control) => control.name.clone(),
        Kinded::MulticastGroup(group) => group.address.clone(),
    }
}

/// The kind of an object.
pub fn kind(object: &Kinded) -> Kind {
    match object {
        Kinded::PeerNode(_) => Kind::PeerNode,
        Kinded::Pod(_) => Kind::Pod,
        Kinded::Service(_) => Kind::Service,
        Kinded::Endpoints(_) => Kind::Endpoints,
        Kinded::AddressGroup(_) => Kind::AddressGroup,
        Kinded::AppliedToGroup(_) => Kind::AppliedToGroup,
        Kinded::NetworkPolicy(_) => Kind::NetworkPolicy,
        Kinded::Egress(_) => Kind::Egress,
        Kinded::TrafficControl(_) => Kind::TrafficControl,
        Kinded::MulticastGroup(_) => Kind::MulticastGroup,
    }
}

/// What the switch of `node` has to know of the cluster; and what is wrong or odd, in order of
/// files and lines.
pub fn project(model: &Model, node: &str) -> (Projection, Vec<Problem>) {
    project_after(model, node, &mut Memory::default())
}

/// The same, if more is known of before: a policy that is wrong stays as it was when it was right,
/// and what more it may bind is held. Without that, what stands for it is never less than what was
/// meant.
pub fn project_after(model: &Model, node: &str, memory: &mut Memory) -> (Projection, Vec<Problem>) {
    let (mut world, mut problems) = World::new(model, node, &mut memory.holders);
    memory.forget_tiers(model);
    let (tiers, more) = tiers::tiers(model, &memory.tiers);
    memory.tiers = tiers;
    problems.extend(more);
    world.tiers = memory.tiers.clone();
    let mut projector = Projector { world, memory, projection: Projection::default(), problems: Vec::new() };
    projector.nodes();
    projector.pods();
    projector.services();
    projector.node_port_local();
    projector.policies();
    projector.egresses();
    problems.append(&mut projector.problems);
    problems.extend(projector.world.missing_namespaces());
    problems.sort();
    problems.dedup();
    (projector.projection, problems)
}

/// So much of a UID as the switch takes.
fn uid(uid: &str) -> &str {
    &uid[..uid.floor_char_boundary(128)]
}

struct Projector<'a> {
    world: World<'a>,
    memory: &'a mut Memory,
    projection: Projection,
    problems: Vec<Problem>,
}

impl Projector<'_> {
    fn add(&mut self, object: Kinded, origin: &Origin) {
        let key = (kind(&object) as i32, name(&object));
        let projected = Projected { object: v1::Object { object: Some(object) }, origin: origin.clone() };
        self.projection.objects.entry(key).or_insert(projected);
    }

    fn fail(&mut self, kind: Kind, name: String, problem: Problem) {
        self.projection.failed.insert((kind as i32, name));
        self.problems.push(problem);
    }

    fn nodes(&mut self) {
        let (model, own) = (self.world.model, self.world.node);
        match node::config(&self.world, &mut self.problems) {
            Ok(config) => self.projection.node = Some(config),
            Err(problems) => self.problems.extend(problems),
        }
        for (name, item) in model.nodes.iter().filter(|(name, _)| *name != own) {
            self.problems.extend(nodes::shared(&self.world, item));
            match peers::peer(&self.world, item, &mut self.problems) {
                Ok(Some(peer)) => self.add(Kinded::PeerNode(peer), &item.origin),
                Ok(None) => self.problems.push(item.origin.warning("status.addresses", "no InternalIP yet: left out")),
                Err(problem) => self.fail(Kind::PeerNode, name.clone(), *problem),
            }
        }
    }

    fn pods(&mut self) {
        let pods = self.world.pods.iter().filter(|pod| pod.is_local && !pod.item.body.spec.host_network);
        let mut odd = Vec::new();
        let made: Vec<_> = pods
            .map(|pod| {
                let annotation = |name| pod.item.meta.annotation(name).unwrap_or_default();
                let pod_object = v1::Pod {
                    name: pod.name.to_owned(),
                    port: annotation("port").to_owned(),
                    addresses: pod.addresses.clone(),
                    mac: net::mac(annotation("mac")).map(node::mac_address),
                    vlan: annotation("vlan").parse().unwrap_or(0),
                    uid: uid(&pod.item.meta.uid).to_owned(),
                    ingress_bandwidth: bandwidth::limit(pod.item, bandwidth::INGRESS, &mut odd),
                    egress_bandwidth: bandwidth::limit(pod.item, bandwidth::EGRESS, &mut odd),
                };
                (pod_object, pod.item.origin.clone())
            })
            .collect();
        made.into_iter().for_each(|(pod, origin)| self.add(Kinded::Pod(pod), &origin));
        self.problems.append(&mut odd);
    }

    fn services(&mut self) {
        for (name, item) in &self.world.model.services {
            let mut odd = Vec::new();
            match services::service(&self.world, item, &mut odd) {
                Ok(Some((service, sets))) => {
                    let check = services::health_check(&self.world, item, &sets);
                    self.projection.health_checks.extend(check.map(|check| (name.clone(), check)));
                    self.add(Kinded::Service(service), &item.origin);
                    sets.into_iter().for_each(|set| self.add(Kinded::Endpoints(set), &item.origin));
                }
                Ok(None) => {}
                Err(problem) => {
                    for port in &item.body.spec.ports {
                        self.projection.failed.insert((Kind::Endpoints as i32, format!("{name}:{}", port.name)));
                    }
                    self.fail(Kind::Service, name.clone(), *problem);
                }
            }
            self.problems.append(&mut odd);
        }
    }

    /// Whether the switch knows a Node, or would if its document were right.
    fn is_node(&self, name: &str) -> bool {
        let key = (Kind::PeerNode as i32, name.to_owned());
        let is_peer = self.projection.objects.contains_key(&key) || self.projection.failed.contains(&key);
        name.is_empty() || name == self.world.node || is_peer
    }

    fn egresses(&mut self) {
        let model = self.world.model;
        for (name, item) in &model.egresses {
            let mut odd = Vec::new();
            match egress::egress(&self.world, item, &mut odd) {
                Ok(Some(mut egress)) => {
                    if !self.is_node(&egress.node) {
                        let reason = format!("there is no Node {:?} here: nobody has the address yet", egress.node);
                        self.problems.push(item.origin.warning("status.egressNode", reason));
                        egress.node.clear();
                    }
                    self.add(Kinded::Egress(egress), &item.origin);
                }
                Ok(None) => {}
                Err(problem) if problem.is_error() => self.fail(Kind::Egress, name.clone(), *problem),
                Err(problem) => self.problems.push(*problem),
            }
            self.problems.append(&mut odd);
        }
        for (name, item) in &model.traffic_controls {
            let mut odd = Vec::new();
            match egress::traffic_control(&self.world, item, &mut odd) {
                Ok(Some(control)) => self.add(Kinded::TrafficControl(control), &item.origin),
                Ok(None) => {}
                Err(problem) => self.fail(Kind::TrafficControl, name.clone(), *problem),
            }
            self.problems.append(&mut odd);
        }
    }
}

impl Projection {
    /// Takes over from `before` what documents that are wrong now said when they were right.
    pub fn keep_failed(&mut self, before: &Self) {
        for key in &self.failed {
            if let (false, Some(old)) = (self.objects.contains_key(key), before.objects.get(key)) {
                self.objects.insert(key.clone(), old.clone());
            }
            if let (true, Some(old)) = (key.0 == Kind::Service as i32, before.health_checks.get(&key.1)) {
                self.health_checks.entry(key.1.clone()).or_insert_with(|| old.clone());
            }
        }
    }
}

/// Keys of the groups that a policy names.
pub(crate) fn groups_of(object: &v1::Object) -> Vec<Key> {
    let Some(Kinded::NetworkPolicy(policy)) = &object.object else { return Vec::new() };
    let rules = || policy.rules.iter();
    let applied = policy.applied_to.iter().chain(rules().flat_map(|rule| &rule.applied_to));
    let peers = rules().filter_map(|rule| rule.peer.as_ref()).flat_map(|peer| &peer.address_groups);
    let applied = applied.map(|name| (Kind::AppliedToGroup as i32, name.clone()));
    applied.chain(peers.map(|name| (Kind::AddressGroup as i32, name.clone()))).collect()
}
