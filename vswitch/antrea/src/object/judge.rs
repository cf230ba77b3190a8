//! What is wrong with ports and addresses beside the Node and other objects: for all kinds that
//! name some.

use crate::problem::{Code, Problems};
use crate::{Claim, Facts, Family, Key, ObjectKind, Problem};
use std::net::IpAddr;

/// The bridge has a port of this name, and the Node does not use it itself.
pub(crate) fn port(field: &str, port: &str, facts: &Facts<'_>, problems: &mut Problems) {
    there(field, port, facts, problems);
    if !facts.node.has_port(port) {
        return;
    }
    for (whose, _) in facts.node.ports().into_iter().filter(|(_, other)| *other == port) {
        let reason = format!("port {port:?} is the Node's ({whose})");
        problems.add(Problem::new(Code::Port, field, reason).other(Key::node()));
    }
}

/// The bridge has a port of this name.
pub(crate) fn there(field: &str, port: &str, facts: &Facts<'_>, problems: &mut Problems) {
    if facts.ports.number(port).is_none() {
        let reason = format!("bridge {} has no port {port:?}", facts.node.bridge);
        problems.add(Problem::new(Code::Port, field, reason).hint("add it before (PortService.AddPort)"));
    }
}

/// The Node has the address's family.
pub(crate) fn family(field: &str, address: &IpAddr, facts: &Facts<'_>, problems: &mut Problems) {
    if !facts.node.has(Family::of(address)) {
        problems.push(Code::Family, field, format!("{address}: the Node has no {:?}", Family::of(address)));
    }
}

/// The address is none of the Node's own.
pub(crate) fn address(field: &str, address: &IpAddr, facts: &Facts<'_>, problems: &mut Problems) {
    let node = facts.node;
    let pair = |pair: &[IpAddr; 2]| pair.contains(address);
    let whose = [
        (node.gateway.addresses.contains(address), "the gateway's"),
        (node.transport.iter().any(|(other, _)| other == address), "the Node's"),
        (pair(&node.virtual_service), "the virtual one of Services"),
        (pair(&node.virtual_node_port), "the virtual one of NodePorts"),
    ];
    for (_, whose) in whose.iter().filter(|(is, _)| *is) {
        problems.add(Problem::new(Code::Overlap, field, format!("{address} is {whose}")).other(Key::node()));
    }
}

/// Whether an address is a Service's, and no Pod's or Egress's whoever came first: it is of the
/// Node's service CIDRs. Where the Node has none, and the address is of none of its Pods' prefixes,
/// that of a Service's cluster IP is.
pub(crate) fn of_services(address: &IpAddr, facts: &Facts<'_>) -> Option<Key> {
    let (node, family) = (facts.node, Family::of(address));
    let mut cidrs = node.service_cidrs.iter().filter(|cidr| cidr.family() == family).peekable();
    let has_cidrs = cidrs.peek().is_some();
    let is_within = cidrs.any(|cidr| cidr.contains(address));
    if has_cidrs && !is_within {
        return None;
    }
    let has = |key: &&Key| facts.desired.service(&key.name).is_some_and(|other| other.cluster_ips.contains(address));
    match facts.desired.services_at(address).find(has) {
        Some(service) if is_within || !node.pod_cidrs.iter().any(|cidr| cidr.contains(address)) => {
            Some(service.clone())
        }
        _ => is_within.then(Key::node),
    }
}

/// The address is none that only Services have.
pub(crate) fn no_service(field: &str, address: &IpAddr, facts: &Facts<'_>, problems: &mut Problems) {
    if let Some(other) = of_services(address, facts) {
        let whose = if other.kind == ObjectKind::Node { "of service_cidrs".to_owned() } else { format!("{other}'s") };
        let reason = format!("{address} is {whose}");
        problems.add(Problem::new(Code::Overlap, field, reason).other(other));
    }
}

/// Whether what it claims is its own, and not another object's.
pub(crate) fn held_by(key: &Key, claim: &Claim, field: &str, facts: &Facts<'_>, problems: &mut Problems) -> bool {
    let other = facts.desired.holder(claim).filter(|holder| *holder != key);
    if let Some(other) = other {
        let reason = format!("{claim} belongs to {other}");
        problems.add(Problem::new(Code::Overlap, field, reason).other(other.clone()));
    }
    other.is_none()
}
