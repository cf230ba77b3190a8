//! What is wrong with a Service beside the Node and other objects.

use super::Service;
use crate::problem::{Code, Problems};
use crate::{Claim, Facts, Family, Key, Kind, Problem};
use std::net::IpAddr;

pub(super) fn judge(service: &Service, name: &str, facts: &Facts<'_>, problems: &mut Problems) {
    features(service, facts, problems);
    families(service, facts, problems);
    for (field, addresses) in lists(service) {
        for (at, address) in addresses.iter().enumerate() {
            overlaps(&format!("{field}[{at}]"), address, facts, problems);
        }
    }
    node_ports(service, name, facts, problems);
}

fn lists(service: &Service) -> [(&'static str, &[IpAddr]); 3] {
    [
        ("cluster_ips", &service.cluster_ips),
        ("external_ips", &service.external_ips),
        ("load_balancer_ips", &service.load_balancer_ips),
    ]
}

fn features(service: &Service, facts: &Facts<'_>, problems: &mut Problems) {
    let features = facts.features();
    if !features.proxy {
        return problems.push(Code::Feature, "", "it needs features.proxy");
    }
    let mut needs = |there: bool, field: String, feature: bool, which: &str| {
        if there && !feature {
            problems.push(Code::Feature, field, format!("it needs features.{which}"));
        }
    };
    for (field, addresses) in &lists(service)[1..] {
        needs(!addresses.is_empty(), (*field).to_owned(), features.proxy_all, "proxy_all");
    }
    for (at, port) in service.ports.iter().enumerate() {
        needs(port.node_port.is_some(), format!("ports[{at}].node_port"), features.proxy_all, "proxy_all");
    }
    needs(service.dsr, "load_balancer_mode".to_owned(), features.dsr, "dsr");
}

fn families(service: &Service, facts: &Facts<'_>, problems: &mut Problems) {
    let missing = |family| format!("the Node does not have {family:?}");
    for (field, addresses) in lists(service) {
        for (at, address) in addresses.iter().enumerate() {
            let family = Family::of(address);
            let field = format!("{field}[{at}]");
            if !facts.node.has(family) {
                problems.push(Code::Family, field, format!("{address}: {}", missing(family)));
            } else if service.dsr && family == Family::V6 && !service.cluster_ips.contains(address) {
                problems.push(Code::Family, field, format!("{address}: with DSR endpoints answer by IPv4 only"));
            }
        }
    }
    for (at, range) in service.source_ranges.iter().enumerate() {
        if !facts.node.has(range.family()) {
            let reason = format!("{range}: {}", missing(range.family()));
            problems.push(Code::Family, format!("load_balancer_source_ranges[{at}]"), reason);
        }
    }
}

/// Addresses of Pods and of the Node are no Service's. (Its addresses in the network between Nodes may be external ones.)
fn overlaps(field: &str, address: &IpAddr, facts: &Facts<'_>, problems: &mut Problems) {
    if let Some(pod) = facts.desired.pod_of(address) {
        problems.add(Problem::new(Code::Overlap, field, format!("{address} belongs to {pod}")).other(pod.clone()));
    }
    let node = facts.node;
    let of_node = [
        ("the gateway", node.gateway.addresses.contains(address)),
        ("hairpin connections (virtual_service_addresses)", node.virtual_service.contains(address)),
        ("NodePorts (virtual_node_port_addresses)", node.virtual_node_port.contains(address)),
    ];
    for (what, _) in of_node.into_iter().filter(|(_, is)| *is) {
        let reason = format!("{address} is the Node's, of {what}");
        problems.add(Problem::new(Code::Overlap, field, reason).other(Key::node()));
    }
}

/// At an address of the Node, the port of an external IP is no `NodePort`.
fn node_ports(service: &Service, name: &str, facts: &Facts<'_>, problems: &mut Problems) {
    let own = &facts.node.node_port_addresses;
    let mut collides = |field: String, claim: &Claim| {
        if let Some(other) = facts.desired.holders(claim).next() {
            let whose = if *other.name == *name { "its own".to_owned() } else { format!("{other}'s") };
            let reason = format!("an address of the Node has this port twice: {claim} is {whose}");
            problems.add(Problem::new(Code::Overlap, field, reason).other(Key::new(Kind::Service, &other.name)));
        }
    };
    for (at, port) in service.ports.iter().enumerate() {
        let protocol = port.protocol.number();
        if service.addresses().any(|address| own.contains(address)) {
            collides(format!("ports[{at}].port"), &Claim::NodePort(protocol, port.port));
        }
        for (number, address) in port.node_port.iter().flat_map(|number| own.iter().map(move |to| (*number, to))) {
            collides(format!("ports[{at}].node_port"), &Claim::Service(*address, protocol, number));
        }
    }
}
