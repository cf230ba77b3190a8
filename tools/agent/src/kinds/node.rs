//! Node: of peers where their Pods are and how to reach them.

use super::wellformed::{ADDRESS, error, is_host, is_prefix, list};
use crate::source::{FieldError, Tree, typed_without_unknown};
use serde::{Deserialize, Serialize};

/// Node without its metadata.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NodeBody {
    /// What is asked for.
    #[serde(default)]
    pub spec: Spec,
    /// What there is.
    #[serde(default)]
    pub status: Status,
}

/// What is asked for.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Where its Pods' addresses are from.
    #[serde(default, rename = "podCIDRs")]
    pub pod_cidrs: Vec<String>,
    /// The first of them.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Option<String>,
}

/// What there is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub struct Status {
    /// Its addresses.
    #[serde(default)]
    pub addresses: Vec<Address>,
    /// The condition Ready, if it has one; the others say nothing here.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// A condition of a Node.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Condition {
    /// Its name.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    #[serde(default)]
    pub status: String,
}

/// An address of a Node.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// InternalIP, ExternalIP, Hostname, ...
    #[serde(rename = "type")]
    pub kind: String,
    /// The address.
    pub address: String,
}

/// Types of addresses that Kubernetes has.
const TYPES: [&str; 5] = ["InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS"];

/// The condition of a Node whose kubelet is there (Kubernetes API, `NodeConditionType`).
const READY: &str = "Ready";

impl NodeBody {
    /// Where its Pods' addresses are from.
    pub fn pod_cidrs(&self) -> Vec<String> {
        match (&self.spec.pod_cidr, self.spec.pod_cidrs.is_empty()) {
            (Some(cidr), true) => vec![cidr.clone()],
            _ => self.spec.pod_cidrs.clone(),
        }
    }

    /// What is wrong with its entries by themselves; of each item of a list one error at most.
    pub(super) fn check(&self) -> Vec<FieldError> {
        let mut errors = list("spec.podCIDRs", &self.spec.pod_cidrs, is_prefix, "prefix");
        // Where the others are given, this one says nothing.
        let is_used = |text: &&String| self.spec.pod_cidrs.is_empty() && !is_prefix(text);
        errors.extend(self.spec.pod_cidr.iter().filter(is_used).map(|text| error("spec.podCIDR", text, "prefix")));
        for (i, of) in self.status.addresses.iter().enumerate() {
            if !TYPES.contains(&of.kind.as_str()) {
                errors.push(error(&format!("status.addresses[{i}].type"), &of.kind, "type of an address"));
            } else if ["InternalIP", "ExternalIP"].contains(&of.kind.as_str()) && !is_host(&of.address) {
                errors.push(error(&format!("status.addresses[{i}].address"), &of.address, ADDRESS));
            }
        }
        errors
    }

    /// Whether nobody says that it is not ready.
    pub fn is_ready(&self) -> bool {
        self.status.conditions.iter().all(|condition| condition.kind != READY || condition.status == "True")
    }

    /// Its addresses of a type.
    pub fn addresses(&self, kind: &str) -> Vec<String> {
        self.status.addresses.iter().filter(|address| address.kind == kind).map(|a| a.address.clone()).collect()
    }
}

pub(super) fn parse(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<NodeBody, FieldError> {
    tree.strip(
        &["spec"],
        &["configSource", "externalID", "podPreemptionPolicy", "providerID", "taints", "unschedulable"],
    );
    let mut body: NodeBody = typed_without_unknown(tree, unknown)?;
    body.status.conditions.retain(|condition| condition.kind == READY);
    Ok(body)
}
