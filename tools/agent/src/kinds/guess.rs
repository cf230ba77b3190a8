//! Policies that do not say their kind, or misspell it or its group: which kind is meant.

use super::misspelt::is_akin;
use super::ruled::{ADMIN_GROUP, Class};
use crate::source::{Tree, Words};

/// The kind of a policy that does not say it, or misspells it or its group; from what it says
/// beside. None: it is no such policy, or it says all of that.
/// `is_read`: documents of its group and kind are read.
pub(super) fn guessed(tree: &Tree, words: &Words, is_read: bool) -> Option<&'static str> {
    const POLICIES: [&str; 2] = ["NetworkPolicy", "ClusterNetworkPolicy"];
    let group = words.api.split_once('/').map_or("", |(group, _)| group);
    if is_read {
        return None;
    }
    let says = |field: &&str| !tree.all(&["spec", *field]).is_empty();
    if group == ADMIN_GROUP {
        return guessed_admin(&words.kind, &says);
    }
    if let Some(known) = ADMIN[1..].iter().find(|known| words.kind.eq_ignore_ascii_case(known)) {
        return (says(&"subject") && !words.api.is_empty()).then_some(known);
    }
    let has_rules = ["ingress", "egress", "policyTypes"].iter().any(says);
    let is_about_pods = ["podSelector", "appliedTo"].iter().any(says);
    if !words.kind.is_empty() {
        let is_of_group = Class::of(group, POLICIES[0]).is_some();
        let by_name = POLICIES.into_iter().find(|known| words.kind.eq_ignore_ascii_case(known));
        if let Some(known) = by_name.filter(|known| Class::of(group, known).is_some()) {
            return Some(known);
        }
        // Other people's policies (Calico, Cilium) select Pods by fields of other names. What has
        // no version is told so.
        if !is_of_group {
            return by_name.filter(|_| is_about_pods && !words.api.is_empty());
        }
        if !(has_rules && is_about_pods) {
            return None;
        }
    } else if !has_rules && (group == "crd.antrea.io" || !says(&"podSelector")) {
        return None;
    }
    let is_antrea = group == "crd.antrea.io" || ["appliedTo", "priority", "tier"].iter().any(says);
    Some(if is_antrea && words.namespace.is_empty() { POLICIES[1] } else { POLICIES[0] })
}

/// Kinds of policies of policy.networking.k8s.io.
const ADMIN: [&str; 3] = ["ClusterNetworkPolicy", "AdminNetworkPolicy", "BaselineAdminNetworkPolicy"];

/// The kind of a policy of policy.networking.k8s.io that does not say it, or misspells it.
fn guessed_admin(kind: &str, says: &dyn Fn(&&str) -> bool) -> Option<&'static str> {
    let has_rules = says(&"ingress") || says(&"egress");
    let is_one = if kind.is_empty() { has_rules || says(&"subject") } else { has_rules && says(&"subject") };
    ADMIN.into_iter().find(|known| is_akin(kind, known)).or_else(|| is_one.then_some(ADMIN[0]))
}
