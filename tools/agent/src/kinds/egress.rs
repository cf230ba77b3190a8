//! Egress.

use super::selector::Selector;
use super::wellformed::{ADDRESS, error, is_host, list};
use crate::source::{FieldError, Tree, typed_without_unknown};
use serde::{Deserialize, Serialize};

/// Egress without its metadata.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct EgressBody {
    /// What is asked for.
    pub spec: Spec,
    /// What there is.
    #[serde(default)]
    pub status: Status,
}

/// What is asked for.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Which Pods.
    pub applied_to: PodsOrGroup,
    /// The address.
    #[serde(default, rename = "egressIP")]
    pub egress_ip: String,
    /// Addresses, if that is not given.
    #[serde(default, rename = "egressIPs")]
    pub egress_ips: Vec<String>,
    /// The pools that they are from.
    #[serde(default, rename = "externalIPPools")]
    pub external_ip_pools: Vec<String>,
    /// The pool that the address is from.
    #[serde(rename = "externalIPPool")]
    pub external_ip_pool: Option<String>,
    /// Its rate.
    pub bandwidth: Option<Bandwidth>,
}

/// Pods by selectors, or of a ClusterGroup.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PodsOrGroup {
    /// Pods.
    pub pod_selector: Option<Selector>,
    /// Their namespaces.
    pub namespace_selector: Option<Selector>,
    /// A ClusterGroup.
    pub group: Option<String>,
}

/// A rate, in bits, as Kubernetes writes quantities: `500k`, `10M`.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// Bits per second.
    pub rate: String,
    /// Bits at once.
    pub burst: String,
}

/// What there is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Status {
    /// The Node that has the address.
    #[serde(default)]
    pub egress_node: String,
    /// The address that it has.
    #[serde(default, rename = "egressIP")]
    pub egress_ip: String,
}

impl EgressBody {
    /// What is wrong with its addresses by themselves.
    pub(super) fn check(&self) -> Vec<FieldError> {
        let (spec, status) = (&self.spec, &self.status);
        let mut errors = Vec::new();
        for (path, text) in [("spec.egressIP", &spec.egress_ip), ("status.egressIP", &status.egress_ip)] {
            if !text.is_empty() && !is_host(text) {
                errors.push(error(path, text, ADDRESS));
            }
        }
        errors.extend(list("spec.egressIPs", &spec.egress_ips, is_host, ADDRESS));
        errors
    }
}

pub(super) fn parse(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<Box<EgressBody>, FieldError> {
    tree.strip(&["status"], &["conditions"]);
    typed_without_unknown(tree, unknown).map(Box::new)
}
