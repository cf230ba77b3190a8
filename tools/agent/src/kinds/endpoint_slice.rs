//! EndpointSlice.

use super::wellformed::{ADDRESS, error, is_host, is_protocol};
use crate::source::{FieldError, Tree, typed_without_unknown};
use serde::{Deserialize, Serialize};

/// EndpointSlice without its metadata.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct EndpointSliceBody {
    /// What its addresses are.
    pub address_type: AddressType,
    /// Endpoints.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
    /// Their ports; one for each port of the Service that they serve.
    #[serde(default)]
    pub ports: Vec<Port>,
}

/// What addresses are.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)] // Kubernetes' words
pub enum AddressType {
    IPv4,
    IPv6,
    FQDN,
}

/// An endpoint.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Endpoint {
    /// Its addresses; the first one counts.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Its state.
    #[serde(default)]
    pub conditions: Conditions,
    /// Its Node.
    #[serde(default)]
    pub node_name: Option<String>,
    /// Who is to use it.
    #[serde(default)]
    pub hints: Hints,
    /// Its zone.
    #[serde(default)]
    pub zone: Option<String>,
    /// Its name in DNS.
    #[serde(default)]
    pub hostname: Option<String>,
    /// The Pod that it is.
    #[serde(default)]
    pub target_ref: Option<TargetRef>,
}

/// The object that an endpoint is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub struct TargetRef {}

/// The state of an endpoint.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// It may be used; so it is unless this says otherwise.
    pub ready: Option<bool>,
    /// It answers; as `ready` unless this says otherwise.
    pub serving: Option<bool>,
    /// It is about to go.
    pub terminating: Option<bool>,
}

/// Who is to use an endpoint.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Hints {
    /// Zones.
    #[serde(default)]
    pub for_zones: Vec<Hint>,
    /// Nodes.
    #[serde(default)]
    pub for_nodes: Vec<Hint>,
}

/// A zone or Node.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Hint {
    /// Its name.
    pub name: String,
}

/// A port.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Port {
    /// Name of the Service's port.
    pub name: Option<String>,
    /// TCP, UDP or SCTP.
    pub protocol: Option<String>,
    /// Its number at the endpoints.
    pub port: Option<u16>,
    /// Of no meaning here.
    pub app_protocol: Option<String>,
}

impl EndpointSliceBody {
    /// What is wrong with its entries by themselves; of each item of a list one error at most.
    pub(super) fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let endpoints = self.endpoints.iter().enumerate().filter(|_| self.address_type != AddressType::FQDN);
        for (i, endpoint) in endpoints {
            match endpoint.addresses.first() {
                None => errors.push(FieldError::new(0, &format!("endpoints[{i}].addresses"), "is required")),
                Some(text) if !is_host(text) => {
                    errors.push(error(&format!("endpoints[{i}].addresses[0]"), text, ADDRESS));
                }
                Some(text) if text.contains(':') != (self.address_type == AddressType::IPv6) => {
                    let family = if self.address_type == AddressType::IPv6 { "IPv6 address" } else { "IPv4 address" };
                    errors.push(error(&format!("endpoints[{i}].addresses[0]"), text, family));
                }
                Some(_) => {}
            }
        }
        for (i, port) in self.ports.iter().enumerate() {
            let wrong = |field: &str, reason: &str| FieldError::new(0, &format!("ports[{i}].{field}"), reason);
            if port.port == Some(0) {
                errors.push(wrong("port", "0 is no port, which is 1 to 65535"));
            } else if port.protocol.as_deref().is_some_and(|word| !is_protocol(word)) {
                errors.push(wrong("protocol", "is not one of TCP, UDP, SCTP"));
            }
        }
        errors
    }
}

pub(super) fn parse(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<Box<EndpointSliceBody>, FieldError> {
    tree.strip(&["endpoints"], &["deprecatedTopology"]);
    typed_without_unknown(tree, unknown).map(Box::new)
}
