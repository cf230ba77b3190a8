//! Families of addresses.

use crate::model::Model;

/// Families of a Node. Both, if no document says.
pub(super) fn families(model: &Model, node: &str) -> [bool; 2] {
    let Some(config) = model.node_configs.get(node) else { return [true, true] };
    let own = &config.body.spec.pod_cidrs;
    let of_node = model.nodes.get(node).map(|node| node.body.pod_cidrs()).unwrap_or_default();
    config.body.spec.families(if own.is_empty() { &of_node } else { own })
}
