//! Where a Service has an effect, beside the Node and other objects: what is contested belongs to
//! one place, and all others work.

use super::{Front, Service, ServicePort};
use crate::limits::SOURCE_FLOWS_MAX;
use crate::problem::{Code, Problems};
use crate::{Claim, Facts, Family, Key, ObjectKind, Problem};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Where a Service answers at present.
#[derive(Debug, Default)]
pub(crate) struct Fronts {
    /// Addresses that have no effect at any port.
    silent: BTreeSet<IpAddr>,
    /// Places that another Service has.
    taken: BTreeSet<(u8, Front, u16)>,
    /// Places outside have none.
    inside_only: bool,
    /// None at all.
    nowhere: bool,
    /// Those of a load balancer have none.
    crowded: bool,
}

impl Fronts {
    /// Whether a place of a port has an effect.
    pub(super) fn has(&self, port: &ServicePort, front: Front) -> bool {
        let place = (port.protocol.number(), front, port.port);
        let is_silent = front.address().is_some_and(|address| self.silent.contains(&address));
        let is_off = front.is_external() && self.inside_only || matches!(front, Front::LoadBalancer(_)) && self.crowded;
        !self.nowhere && !is_silent && !is_off && !self.taken.contains(&place)
    }
}

/// Tells what has no effect, and why.
pub(super) fn judge(service: &Service, name: &str, facts: &Facts<'_>, problems: &mut Problems) -> Fronts {
    let mut fronts = Fronts::default();
    features(service, facts, &mut fronts, problems);
    ranges(service, facts, &mut fronts, problems);
    for (field, addresses, front) in lists(service) {
        for (at, address) in addresses.iter().enumerate() {
            let field = format!("{field}[{at}]");
            if !has_address(service, &field, address, facts, problems) {
                fronts.silent.insert(*address);
                continue;
            }
            for port in &service.ports {
                if is_taken(name, &field, port, front(*address), facts, problems) {
                    fronts.taken.insert((port.protocol.number(), front(*address), port.port));
                }
            }
        }
    }
    for (at, port) in service.ports.iter().enumerate() {
        let Some(number) = port.node_port else { continue };
        let claim = Claim::NodePort(port.protocol.number(), number);
        if !crate::object::judge::held_by(&key(name), &claim, &format!("ports[{at}].node_port"), facts, problems) {
            fronts.taken.insert((port.protocol.number(), Front::NodePort(number), port.port));
        }
    }
    fronts
}

fn key(name: &str) -> Key {
    Key::new(ObjectKind::Service, name)
}

type List<'a> = (&'static str, &'a [IpAddr], fn(IpAddr) -> Front);

fn lists(service: &Service) -> [List<'_>; 3] {
    [
        ("cluster_ips", &service.cluster_ips, Front::Cluster),
        ("external_ips", &service.external_ips, Front::External),
        ("load_balancer_ips", &service.load_balancer_ips, Front::LoadBalancer),
    ]
}

fn features(service: &Service, facts: &Facts<'_>, fronts: &mut Fronts, problems: &mut Problems) {
    let features = facts.features();
    fronts.nowhere = !features.proxy;
    fronts.inside_only = !features.proxy_all;
    if !features.proxy {
        return problems.push(Code::Feature, "", "it needs features.proxy");
    }
    let mut needs = |there: bool, field: String, feature: bool, reason: &str| {
        if there && !feature {
            problems.push(Code::Feature, field, reason);
        }
    };
    for (field, addresses, _) in &lists(service)[1..] {
        needs(!addresses.is_empty(), (*field).to_owned(), features.proxy_all, "they need features.proxy_all");
    }
    for (at, port) in service.ports.iter().enumerate() {
        let field = || format!("ports[{at}].node_port");
        if port.node_port.is_some() && !features.proxy_all {
            needs(true, field(), false, "it needs features.proxy_all");
        }
    }
    needs(service.dsr, "load_balancer_mode".to_owned(), features.dsr, "without features.dsr its answers come back by this Node");
}

/// Who may come to a load balancer's addresses. Where that is more than a table can say, nobody
/// may.
fn ranges(service: &Service, facts: &Facts<'_>, fronts: &mut Fronts, problems: &mut Problems) {
    const FIELD: &str = "load_balancer_source_ranges";
    let flows = 4 * service.ports.len() * service.load_balancer_ips.len() * service.source_ranges.len();
    if flows > SOURCE_FLOWS_MAX {
        fronts.crowded = true;
        let reason = format!("ports times addresses times ranges would be {flows} flows, at most {SOURCE_FLOWS_MAX}: nobody may come to the load balancer's addresses");
        problems.push(Code::Limit, FIELD, reason);
    }
    let mut missing = Family::BOTH.into_iter().filter(|family| !facts.node.has(*family));
    if let Some(family) = missing.next()
        && let Some(range) = service.source_ranges.iter().find(|range| range.family() == family)
    {
        problems.push(Code::Family, FIELD, format!("{range}: the Node does not have {family:?}"));
    }
}

/// Whether an address is of its family, and nobody's that goes before: the Node's, and, if it is
/// none that only Services have, a Pod's or an Egress's. (The Node's addresses in the network
/// between Nodes may be external ones.)
fn has_address(service: &Service, field: &str, address: &IpAddr, facts: &Facts<'_>, problems: &mut Problems) -> bool {
    let (node, family) = (facts.node, Family::of(address));
    if !node.has(family) {
        problems.push(Code::Family, field, format!("{address}: the Node does not have {family:?}"));
        return false;
    }
    if service.dsr && family == Family::V6 && !service.cluster_ips.contains(address) {
        problems.push(Code::Family, field, format!("{address}: with DSR endpoints answer by IPv4 only; its answers come back by this Node"));
    }
    let before = problems.count();
    let of_pod = facts.desired.pod_of(address);
    let others = facts.desired.overlapping(&crate::Cidr::host(*address));
    let of_egress = others.iter().map(|(_, key)| *key).find(|key| key.kind == ObjectKind::Egress);
    let is_own = crate::object::judge::of_services(address, facts).is_some();
    if let Some(other) = of_pod.or(of_egress).filter(|_| !is_own) {
        problems.add(Problem::new(Code::Overlap, field, format!("{address} belongs to {other}")).other(other.clone()));
    }
    // Where another Node's Pods are, no Service is.
    for (prefix, peer) in facts.desired.peers_at(&crate::Cidr::host(*address)).filter(|_| !is_own) {
        let reason = format!("{address} is of {prefix} of {peer}");
        problems.add(Problem::new(Code::Overlap, field, reason).other(peer.clone()));
    }
    let of_node = [
        ("the gateway", node.gateway.addresses.contains(address)),
        ("hairpin connections (virtual_service_addresses)", node.virtual_service.contains(address)),
        ("NodePorts (virtual_node_port_addresses)", node.virtual_node_port.contains(address)),
    ];
    for (what, _) in of_node.into_iter().filter(|(_, is)| *is) {
        let reason = format!("{address} is the Node's, of {what}");
        problems.add(Problem::new(Code::Overlap, field, reason).other(Key::node()));
    }
    problems.count() == before
}

/// Whether a port of an address is another Service's; at an address of the Node, a `NodePort`,
/// which goes before.
fn is_taken(name: &str, field: &str, port: &ServicePort, front: Front, facts: &Facts<'_>, problems: &mut Problems) -> bool {
    let (protocol, before) = (port.protocol.number(), problems.count());
    let Some(address) = front.address() else { return false };
    crate::object::judge::held_by(&key(name), &Claim::Service(address, protocol, port.port), field, facts, problems);
    let node_port = Claim::NodePort(protocol, port.port);
    let holder = facts.desired.holder(&node_port).filter(|_| facts.node.node_port_addresses.contains(&address));
    if let Some(other) = holder {
        let whose = if *other.name == *name { "its own".to_owned() } else { format!("{other}'s") };
        let reason = format!("{address} is the Node's, where {node_port} is {whose}");
        problems.add(Problem::new(Code::Overlap, field, reason).other(other.clone()));
    }
    problems.count() != before
}

/// Places that a Service's flows are for at present, with the names of the ports that have them,
/// and whether clients are remembered there.
pub(crate) type Places = BTreeMap<super::flush::ServiceAddress, (String, bool)>;
