//! The kinds that are followed.

use super::PLACE;
use crate::kinds;

/// Objects of kinds of which each Node, Pod or Service has one or some. Beyond five times the
/// largest cluster that is supported (20,000 Pods), the server is not believed.
const MANY: usize = 100_000;

/// Objects of kinds that people write.
const SOME: usize = 20_000;

/// A kind that is followed.
#[derive(Debug)]
pub(super) struct Kind {
    /// Its group; empty: the core.
    pub(super) group: &'static str,
    /// Versions of it that are read, the best one first.
    pub(super) versions: &'static [&'static str],
    /// Its name.
    pub(super) kind: &'static str,
    /// Its name in paths.
    pub(super) plural: &'static str,
    /// Objects of it at most.
    pub(super) max: usize,
    /// Saved files for its objects.
    pub(super) shards: usize,
    /// Its group is Kubernetes' own: no CustomResourceDefinition makes it.
    pub(super) is_built_in: bool,
    /// Agents write its status.
    pub(super) has_our_status: bool,
}

impl Kind {
    const fn new(group: &'static str, versions: &'static [&'static str], names: [&'static str; 2]) -> Self {
        let [kind, plural] = names;
        Self { group, versions, kind, plural, max: SOME, shards: 4, is_built_in: false, has_our_status: false }
    }

    const fn built_in(self) -> Self {
        Self { is_built_in: true, ..self }
    }

    const fn reported(self) -> Self {
        Self { has_our_status: true, ..self }
    }

    const fn many(self) -> Self {
        Self { max: MANY, shards: 64, ..self }
    }

    /// `apiVersion` of a version of it.
    pub(super) fn api(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// The file that problems of its objects name: `cluster/crd.antrea.io`. Two groups may have a
    /// kind of one name.
    pub(super) fn place(&self) -> String {
        if self.group.is_empty() { PLACE.to_owned() } else { format!("{PLACE}/{}", self.group) }
    }

    /// `apiVersion` of its best version.
    pub(super) fn best_api(&self) -> String {
        self.api(self.versions.first().unwrap_or(&"v1"))
    }

    /// The name of its CustomResourceDefinition, and of it in problems: `egresses.crd.antrea.io`.
    pub(super) fn name(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

const ANTREA: &str = "crd.antrea.io";
const POLICY: &str = "policy.networking.k8s.io";
const VERSIONS: &[&str] = &["v1beta1", "v1alpha2", "v1alpha3", "v1alpha1"];

/// All kinds that may be followed.
static KINDS: [Kind; 18] = [
    Kind::new("", &["v1"], ["Namespace", "namespaces"]).built_in(),
    Kind::new("", &["v1"], ["Node", "nodes"]).built_in(),
    Kind::new("", &["v1"], ["Pod", "pods"]).built_in().many(),
    Kind::new("", &["v1"], ["Service", "services"]).built_in(),
    Kind::new("discovery.k8s.io", &["v1", "v1beta1"], ["EndpointSlice", "endpointslices"]).built_in().many(),
    Kind::new("networking.k8s.io", &["v1"], ["NetworkPolicy", "networkpolicies"]).built_in(),
    Kind::new(ANTREA, VERSIONS, ["NetworkPolicy", "networkpolicies"]).reported(),
    Kind::new(ANTREA, VERSIONS, ["ClusterNetworkPolicy", "clusternetworkpolicies"]).reported(),
    Kind::new(ANTREA, VERSIONS, ["Tier", "tiers"]),
    Kind::new(ANTREA, VERSIONS, ["ClusterGroup", "clustergroups"]).reported(),
    Kind::new(ANTREA, VERSIONS, ["Group", "groups"]).reported(),
    Kind::new(ANTREA, VERSIONS, ["Egress", "egresses"]),
    Kind::new(ANTREA, &["v1alpha2"], ["TrafficControl", "trafficcontrols"]),
    Kind::new(ANTREA, VERSIONS, ["ExternalIPPool", "externalippools"]).reported(),
    Kind::new(POLICY, &["v1alpha2"], ["ClusterNetworkPolicy", "clusternetworkpolicies"]).reported(),
    Kind::new(POLICY, &["v1alpha1"], ["AdminNetworkPolicy", "adminnetworkpolicies"]).reported(),
    Kind::new(POLICY, &["v1alpha1"], ["BaselineAdminNetworkPolicy", "baselineadminnetworkpolicies"]).reported(),
    Kind::new("vswitch.io", &["v1"], ["NodeConfig", "nodeconfigs"]),
];

/// Kinds to follow: those that the agent reads.
pub(super) fn kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kinds::is_read(kind.group, kind.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name_of_its_own_and_is_read_by_that() {
        let names: std::collections::BTreeSet<String> = KINDS.iter().map(Kind::name).collect();
        assert_eq!(names.len(), KINDS.len());
        let followed: Vec<&str> = kinds().map(|kind| kind.kind).collect();
        for kind in ["Namespace", "Node", "Pod", "Service", "EndpointSlice", "NetworkPolicy", "Egress", "Tier"] {
            assert!(followed.contains(&kind), "{kind}");
        }
        let slices = kinds().find(|kind| kind.kind == "EndpointSlice").expect("it is followed");
        assert_eq!(
            (slices.best_api(), slices.name()),
            ("discovery.k8s.io/v1".into(), "endpointslices.discovery.k8s.io".into())
        );
        assert_eq!(kinds().next().map(Kind::best_api), Some("v1".to_owned()));
    }
}
