//! Names of policies, taken apart.

use vswitch_proto::antrea::v1::{ObservedPolicy, RuleRef};

/// What names begin with, the kind that it stands for, and whether a namespace follows. Longer
/// beginnings stand before those that they begin with.
const KINDS: [(&str, &str, bool); 10] = [
    ("np:", "NetworkPolicy", true),
    ("anp:", "AntreaNetworkPolicy", true),
    ("acnp:k8s-cnp:", "ClusterNetworkPolicy", false),
    ("acnp:k8s-anp:", "AdminNetworkPolicy", false),
    ("acnp:k8s-banp:", "BaselineAdminNetworkPolicy", false),
    ("acnp:", "AntreaClusterNetworkPolicy", false),
    ("K8sNetworkPolicy:", "NetworkPolicy", true),
    ("AntreaNetworkPolicy:", "AntreaNetworkPolicy", true),
    ("AntreaClusterNetworkPolicy:", "AntreaClusterNetworkPolicy", false),
    ("AdminNetworkPolicy:", "AdminNetworkPolicy", false),
];

/// Kind, namespace and name of a policy that the agent calls so: `np:shop/web` is the
/// `NetworkPolicy` web of the namespace shop. A name in no known form has no kind.
#[must_use]
pub fn split_policy(name: &str) -> (&'static str, &str, &str) {
    for (prefix, kind, namespaced) in KINDS {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        return match rest.split_once('/').filter(|_| namespaced) {
            Some((namespace, name)) => (kind, namespace, name),
            None => (kind, "", rest),
        };
    }
    ("", "", name)
}

/// A policy that decided. None: none is known. `rule_name` is what people call the rule; without
/// one its id is told.
pub(crate) fn observed(rule: &RuleRef, rule_name: &str, default_deny: bool) -> Option<ObservedPolicy> {
    if rule.policy.is_empty() {
        return None;
    }
    let (kind, namespace, name) = split_policy(&rule.policy);
    Some(ObservedPolicy {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        kind: kind.to_owned(),
        rule: if rule_name.is_empty() { rule.rule.clone() } else { rule_name.to_owned() },
        default_deny,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        for (name, expected) in [
            ("np:shop/web", ("NetworkPolicy", "shop", "web")),
            ("anp:shop/web", ("AntreaNetworkPolicy", "shop", "web")),
            ("acnp:strict", ("AntreaClusterNetworkPolicy", "", "strict")),
            ("acnp:k8s-banp:default", ("BaselineAdminNetworkPolicy", "", "default")),
            ("acnp:k8s-cnp:a", ("ClusterNetworkPolicy", "", "a")),
            ("K8sNetworkPolicy:shop/web", ("NetworkPolicy", "shop", "web")),
            ("np:odd", ("NetworkPolicy", "", "odd")),
            ("mine", ("", "", "mine")),
        ] {
            assert_eq!(split_policy(name), expected);
        }
        assert_eq!(observed(&RuleRef::default(), "", true), None);
    }
}
