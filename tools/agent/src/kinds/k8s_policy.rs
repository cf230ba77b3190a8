//! NetworkPolicy of networking.k8s.io.

use super::NumberOrName;
use super::ruled::Ruled;
use super::selector::Selector;
use serde::{Deserialize, Serialize};

/// NetworkPolicy without its metadata.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct K8sPolicyBody {
    /// What is asked for.
    pub spec: Spec,
}

/// What is asked for.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Pods of its namespace that it applies to; empty: all.
    #[serde(default)]
    pub pod_selector: Selector,
    /// Which ways it isolates. Not given: ingress, and egress if it has rules for that.
    pub policy_types: Option<Vec<PolicyType>>,
    /// What may come in.
    #[serde(skip)]
    pub ingress: Vec<Ruled<Ingress>>,
    /// What may go out.
    #[serde(skip)]
    pub egress: Vec<Ruled<Egress>>,
}

impl Spec {
    /// Whether it isolates ingress, egress.
    pub fn isolates(&self) -> (bool, bool) {
        // None of them is as good as not given.
        let types = self.policy_types.as_ref().filter(|types| !types.is_empty());
        let isolates = |kind: PolicyType, has_rules: bool| types.map_or(has_rules, |types| types.contains(&kind));
        (isolates(PolicyType::Ingress, true), isolates(PolicyType::Egress, !self.egress.is_empty()))
    }

    /// Whether a rule is not understood.
    pub fn has_wrong_rules(&self) -> bool {
        let is_wrong = |rule: &Ruled<_>| matches!(rule, Ruled::Wrong(_));
        self.ingress.iter().any(is_wrong) || self.egress.iter().any(|rule| matches!(rule, Ruled::Wrong(_)))
    }
}

/// A way.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)] // Kubernetes' words
pub enum PolicyType {
    Ingress,
    Egress,
}

/// What may come in.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    /// From whom; empty: anybody.
    #[serde(default)]
    pub from: Vec<Peer>,
    /// To which ports; empty: all.
    #[serde(default)]
    pub ports: Vec<Port>,
}

/// What may go out.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// To whom; empty: anybody.
    #[serde(default)]
    pub to: Vec<Peer>,
    /// To which ports; empty: all.
    #[serde(default)]
    pub ports: Vec<Port>,
}

/// The other side.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Peer {
    /// Pods: of the policy's namespace, or of those that are selected.
    pub pod_selector: Option<Selector>,
    /// Namespaces.
    pub namespace_selector: Option<Selector>,
    /// Addresses.
    pub ip_block: Option<IpBlock>,
}

/// Addresses.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct IpBlock {
    /// These.
    pub cidr: String,
    /// Without these.
    #[serde(default, rename = "except")]
    pub except: Vec<String>,
}

/// Ports.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Port {
    /// TCP by default.
    pub protocol: Option<String>,
    /// One of them, by number or name; none: all.
    pub port: Option<NumberOrName>,
    /// The last one of a range.
    pub end_port: Option<u16>,
}
