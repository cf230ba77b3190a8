//! Nodes as peers of rules.

use super::net::first_address;
use super::selector::{matches, text};
use super::world::{Members, World};
use crate::kinds::node;
use crate::kinds::selector::Selector;
use crate::model::Item;

/// Addresses of Nodes with these labels: their own, and their gateways'.
pub fn select(world: &World<'_>, selector: &Selector) -> Members {
    let is_known = |node: &&Item<node::NodeBody>| !world.model.has_unknown_labels("Node.", &node.meta.name);
    let nodes = world.model.nodes.values().filter(is_known).filter(|node| matches(selector, &node.meta.labels));
    let mut addresses: Vec<String> = nodes.flat_map(addresses).filter(|address| world.has(address)).collect();
    addresses.sort();
    addresses.dedup();
    Members { name: format!("nodes {}", text(selector)), pods: [].into(), addresses, doubtful: [].into() }
}

fn addresses(node: &Item<node::NodeBody>) -> Vec<String> {
    let own = ["InternalIP", "ExternalIP"].into_iter().flat_map(|kind| node.body.addresses(kind));
    own.chain(gateways(node)).collect()
}

/// Addresses of a Node's gateway: of its annotation `vswitch/gateway-addresses`, or the first ones
/// of its Pods' prefixes.
pub fn gateways(node: &Item<node::NodeBody>) -> Vec<String> {
    match node.meta.annotation("gateway-addresses") {
        Some(text) => text.split(',').map(|address| address.trim().to_owned()).collect(),
        None => node.body.pod_cidrs().iter().filter_map(|cidr| first_address(cidr)).collect(),
    }
}
