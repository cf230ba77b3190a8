//! Nodes as peers of rules.

use super::claims::parsed;
use super::own::addresses;
pub use super::own::gateways;
use super::selector::{matches, text};
use super::world::{Members, World};
use crate::kinds::node;
use crate::kinds::selector::Selector;
use crate::model::Item;
use crate::problem::Problem;
use std::collections::BTreeSet;

/// Addresses of Nodes with these labels: their own, and their gateways'. Those that are a Pod's,
/// and those of Nodes whose labels cannot be read, are in doubt.
pub fn select(world: &World<'_>, selector: &Selector) -> Members {
    let (mut known, mut in_doubt) = (BTreeSet::new(), BTreeSet::new());
    for node in world.model.nodes.values() {
        let is_known = !world.model.has_unknown_labels("Node.", &node.meta.name);
        if is_known && !matches(selector, &node.meta.labels) {
            continue;
        }
        for address in addresses(node).into_iter().filter(|address| world.has(address)) {
            let is_its = is_known && world.pod_with(&address).is_none();
            if is_its { &mut known } else { &mut in_doubt }.insert(address);
        }
    }
    let in_doubt = in_doubt.difference(&known).cloned().collect();
    let (name, addresses) = (format!("nodes {}", text(selector)), known.into_iter().collect());
    Members { name, addresses, in_doubt, ..Members::default() }
}

/// What is odd about addresses of a Node: a Pod has them.
pub fn shared(world: &World<'_>, node: &Item<node::NodeBody>) -> Vec<Problem> {
    let told = |address: String| {
        let pod = world.pod_with(&address)?;
        let reason = format!("OVERLAP: {address} is Pod {pod}'s: no rule allows it by this Node");
        Some(node.origin.warning("status.addresses", reason))
    };
    addresses(node).into_iter().filter_map(told).collect()
}

impl World<'_> {
    /// The Pod that says to have an address of its own; None: none does.
    fn pod_with(&self, address: &str) -> Option<&str> {
        self.by_address.get(&parsed(address)?).copied()
    }
}
