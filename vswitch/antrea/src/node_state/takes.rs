//! What another Node would take from objects that are in force.

use super::NodeState;
use crate::problem::{Code, Problems};
use crate::{Claim, Key, Mac, Node, ObjectKind, Problem};
use std::net::IpAddr;

impl NodeState {
    /// Tells ports, addresses and MAC addresses that the Node did not have before, and that a Pod
    /// has in force; and prefixes of Pods that take the route to a peer. Before the first Node
    /// nothing is in force.
    pub(super) fn takes(&self, node: &Node, problems: &mut Problems) {
        let Some((_, old)) = &self.node else { return };
        let had: Vec<Claim> = claims(old).into_iter().map(|(_, claim)| claim).collect();
        for (field, claim) in claims(node).into_iter().filter(|(_, claim)| !had.contains(claim)) {
            if let Some(pod) = self.desired.holder(&claim).filter(|key| self.is_pod_in_force(key, old)) {
                let reason = format!("{claim} is {pod}'s, which has it in force");
                problems.add(Problem::new(Code::Overlap, field, reason).other(pod.clone()));
            }
        }
        for cidr in node.pod_cidrs.iter().filter(|cidr| !old.pod_cidrs.contains(cidr)) {
            if let Some((other, key)) = self.desired.peer_prefixes().iter().find(|(other, _)| other.overlaps(cidr)) {
                let reason = format!("{cidr} overlaps {other} of {key}, whose route is in force");
                problems.add(Problem::new(Code::Overlap, "pod_cidrs", reason).other(key.clone()));
            }
        }
    }

    /// Whether an object is a Pod with flows beside a Node.
    fn is_pod_in_force(&self, key: &Key, old: &Node) -> bool {
        let has_port =
            |pod: &crate::object::pod::Pod| self.ports.number(&pod.port).is_some() && !old.has_port(&pod.port);
        key.kind == ObjectKind::Pod && self.desired.pod(&key.name).is_some_and(has_port)
    }
}

/// Ports, addresses and MAC addresses of a Node that could be a Pod's, with their fields.
fn claims(node: &Node) -> Vec<(String, Claim)> {
    let ports = node.ports().into_iter().map(|(field, port)| (field, Claim::Port(port.to_owned())));
    let mut claims: Vec<(String, Claim)> = ports.collect();
    let mut add = |field: &str, address: &IpAddr| claims.push((field.to_owned(), Claim::Address(*address)));
    node.gateway.addresses.iter().for_each(|address| add("gateway.addresses", address));
    node.transport.iter().for_each(|(address, _)| add("transport_addresses", address));
    node.virtual_service.iter().for_each(|address| add("virtual_service_addresses", address));
    node.virtual_node_port.iter().for_each(|address| add("virtual_node_port_addresses", address));
    let mut add = |field: &str, mac: Mac| claims.push((field.to_owned(), Claim::Mac(mac)));
    add("gateway.mac", node.gateway.mac);
    add("virtual_mac", node.virtual_mac);
    add("reentrance_mac", node.reentrance_mac);
    node.uplink.iter().for_each(|uplink| add("uplink.mac", uplink.mac));
    claims
}
