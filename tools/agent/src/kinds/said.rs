//! Words that each policy has some of.

use super::ruled::{ADMIN_GROUP, Class};

/// Words that only policies have.
const OF_POLICIES: [&str; 2] = ["NetworkPolicy", "policyTypes"];

/// Words that say whom something applies to.
const OF_SELECTORS: [&str; 2] = ["podSelector", "appliedTo"];

/// Kinds that have the latter, too.
const SELECTING: [&str; 4] = ["ClusterGroup", "Group", "Egress", "TrafficControl"];

/// Words without one of which no policy is Antrea's, or of policy.networking.k8s.io.
const OF_ANTREA: [&str; 5] = ["crd.antrea.io", "ClusterNetworkPolicy", "AdminNetworkPolicy", ADMIN_GROUP, "appliedTo"];

/// Which of these words something has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    is_policy: bool,
    is_selector: bool,
    is_antrea: bool,
}

impl Said {
    /// Of a text.
    pub(super) fn of(text: &str) -> Self {
        let mut said = Self::default();
        said.add(text);
        said
    }

    /// Takes note of more text; of one that was read in the wrong encoding, too, which has zeros
    /// between its letters.
    pub(super) fn add(&mut self, text: &str) {
        let plain = text.contains('\0').then(|| text.replace('\0', ""));
        let text = plain.as_deref().unwrap_or(text);
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        self.is_policy |= has(&OF_POLICIES);
        self.is_selector |= has(&OF_SELECTORS);
        self.is_antrea |= has(&OF_ANTREA);
    }

    /// The kind of policy that something of a kind, as far as it is known, may be. Antrea's, which
    /// goes before that of Kubernetes, if it may be either.
    pub(super) fn class(self, kind: &str) -> Option<Class> {
        let kind = kind.strip_suffix("List").unwrap_or(kind);
        let is_one = self.is_policy || (self.is_selector && !SELECTING.contains(&kind));
        let class = if self.is_antrea { Class::Cluster } else { Class::K8s };
        is_one.then_some(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_policies_are_found_in_each_encoding_and_those_of_others_are_none() {
        for (text, kind, class) in [
            ("kind: NetworkPolicy", "", Some(Class::K8s)),
            ("podSelector", "List", Some(Class::K8s)),
            ("policyTypes", "ConfigMap", Some(Class::K8s)),
            ("appliedTo", "", Some(Class::Cluster)),
            ("crd.antrea.io NetworkPolicy", "", Some(Class::Cluster)),
            ("ClusterNetworkPolicy", "Egress", Some(Class::Cluster)),
            ("kind: BaselineAdminNetworkPolicy", "", Some(Class::Cluster)),
            ("crd.antrea.io appliedTo", "Egress", None),
            ("crd.antrea.io podSelector", "ClusterGroupList", None),
            ("kind: Pod", "", None),
        ] {
            let wide: String = text.chars().flat_map(|c| [c, '\0']).collect();
            assert_eq!([text, &wide].map(|text| Said::of(text).class(kind)), [class; 2], "{text} {kind}");
        }
    }
}
