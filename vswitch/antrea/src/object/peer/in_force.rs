//! Prefixes of peers that have an effect.

use crate::problem::Problems;
use crate::{Cidr, Facts, Key, ObjectKind};
use std::collections::BTreeSet;

/// Prefixes of peers that have an effect: of those that overlap, the ones that had it before. Of
/// those that came together, the first by name has it. A peer without any effect has none, and so
/// has a prefix that overlaps one of the Node, or has its address in it.
pub(crate) fn in_force(facts: &Facts<'_>) -> BTreeSet<(Cidr, Key)> {
    let node = facts.node;
    let is_free = |cidr: &Cidr| {
        let mut own = node.pod_cidrs.iter().chain(&node.service_cidrs);
        let has_node = node.transport.iter().any(|(address, _)| cidr.contains(address));
        node.has(cidr.family()) && !has_node && !own.any(|own| own.overlaps(cidr))
    };
    let mut candidates = Vec::new();
    for (key, _) in facts.desired.of(ObjectKind::PeerNode) {
        let Some(peer) = facts.desired.peer_node(&key.name) else { continue };
        if peer.usable(&key.name, facts, &mut Problems::default()).is_some() {
            candidates.extend(peer.pod_cidrs.iter().filter(|cidr| is_free(cidr)).map(|cidr| (*cidr, key.clone())));
        }
    }
    let before = facts.desired.peer_prefixes();
    let (there, new): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| before.contains(candidate));
    let mut in_force: BTreeSet<(Cidr, Key)> = BTreeSet::new();
    for (cidr, key) in there.into_iter().chain(new) {
        let others = facts.desired.overlapping(&cidr).into_iter().filter(|(_, other)| **other != key);
        let is_taken = others.into_iter().any(|(cidr, other)| in_force.contains(&(cidr, other.clone())));
        if !is_taken {
            in_force.insert((cidr, key));
        }
    }
    in_force
}
