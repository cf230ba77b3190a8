//! ClusterGroup, and Group of a namespace.

use super::antrea_policy::Named;
use super::k8s_policy::IpBlock;
use super::selector::Selector;
use serde::{Deserialize, Serialize};

/// ClusterGroup without its metadata.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ClusterGroupBody {
    /// What is asked for.
    pub spec: Spec,
}

/// What is asked for: one of these, but for the two selectors, which go together.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Pods.
    pub pod_selector: Option<Selector>,
    /// Their namespaces.
    pub namespace_selector: Option<Selector>,
    /// Addresses.
    #[serde(default)]
    pub ip_blocks: Vec<IpBlock>,
    /// Addresses, too.
    pub ip_block: Option<IpBlock>,
    /// The Pods of a Service.
    pub service_reference: Option<Named>,
    /// Other ClusterGroups, which have none themselves.
    #[serde(default)]
    pub child_groups: Vec<String>,
    /// Nodes; of ClusterGroups only.
    pub node_selector: Option<Selector>,
    /// Not served.
    pub external_entity_selector: Option<Selector>,
}
