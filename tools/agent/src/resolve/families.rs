//! Families of addresses.

use super::net::is_six;
use crate::kinds::node_config::Families;
use crate::model::Model;

/// Families of a Node: as its NodeConfig says, or those of its Pods' prefixes. Both, if nobody says.
pub(super) fn families(model: &Model, node: &str) -> [bool; 2] {
    let Some(config) = model.node_configs.get(node) else { return [true, true] };
    match config.body.spec.families {
        Some(Families::IPv4) => return [true, false],
        Some(Families::IPv6) => return [false, true],
        Some(Families::Dual) => return [true, true],
        None => {}
    }
    let own = &config.body.spec.pod_cidrs;
    let of_node = model.nodes.get(node).map(|node| node.body.pod_cidrs()).unwrap_or_default();
    let cidrs = if own.is_empty() { &of_node } else { own };
    match [false, true].map(|six| cidrs.iter().any(|cidr| is_six(cidr) == six)) {
        [false, false] => [true, false], // as the switch takes it
        families => families,
    }
}
