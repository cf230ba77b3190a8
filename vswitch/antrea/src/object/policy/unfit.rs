//! What a rule cannot be on this Node, or for these groups.

use super::{Direction, NetworkPolicy, Order, Peer, Rule};
use crate::problem::Code;
use crate::{Desired, Facts};
use std::sync::Arc;

impl NetworkPolicy {
    /// Why it cannot be applied to a group of Services, if it is applied to this one.
    pub(super) fn unfit_for_services(&self, group: &str, desired: &Desired) -> Option<(String, &'static str)> {
        if self.order == Order::K8s {
            return Some(("kind".to_owned(), "only Antrea's policies are applied to Services"));
        }
        self.rules.iter().find_map(|rule| {
            let (at, groups) = (rule.at, self.applied_to(rule));
            if !groups.iter().any(|other| **other == *group) {
                return None;
            }
            let has_pods = |name: &Arc<str>| desired.applied_to_group(name).is_some_and(|group| !group.pods.is_empty());
            let (field, reason) = if rule.direction == Direction::Egress {
                ("direction", "only rules of direction ingress are applied to Services")
            } else if matches!(&rule.peer, Peer::Some { patterns, .. } if !patterns.is_empty()) {
                ("peer.fqdns", "rules that are applied to Services have address groups and blocks as their peers")
            } else if rule.is_multicast() {
                ("ports", "rules that are applied to Services are not about multicast")
            } else if groups.iter().any(has_pods) {
                ("applied_to", "a rule is applied either to Pods or to Services")
            } else {
                return None;
            };
            Some((format!("rules[{at}].{field}"), reason))
        })
    }
}

/// What a rule needs that the Node does not have.
pub(super) fn missing(rule: &Rule, facts: &Facts<'_>) -> Vec<(Code, &'static str, String)> {
    let features = facts.features();
    let mut missing = Vec::new();
    let mut feature = |needed: bool, there: bool, field, reason: &str| {
        if needed && !there {
            missing.push((Code::Feature, field, reason.to_owned()));
        }
    };
    feature(rule.l7, features.l7_network_policy, "l7_protocols", "without features.l7_network_policy it drops what the engine was to read");
    let services = matches!(rule.peer, Peer::Services(_));
    feature(services, features.proxy, "peer.services", "it needs features.proxy");
    feature(rule.is_multicast(), features.multicast, "ports", "multicast needs features.multicast");
    let Peer::Some { blocks, .. } = &rule.peer else { return missing };
    if let Some(block) = blocks.iter().find(|block| !facts.node.has(block.family())) {
        missing.push((Code::Family, "peer.blocks", format!("the Node has no addresses such as {block}")));
    }
    missing
}
