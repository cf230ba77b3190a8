//! TrafficControl.

use super::egress::PodsOrGroup;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// TrafficControl without its metadata.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TrafficControlBody {
    /// What is asked for.
    pub spec: Spec,
}

/// What is asked for.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Which Pods.
    pub applied_to: PodsOrGroup,
    /// Which of their packets.
    pub direction: Direction,
    /// What happens to them.
    pub action: Action,
    /// Where they, or copies of them, leave.
    pub target_port: Port,
    /// Where they come back.
    pub return_port: Option<Port>,
}

/// Which packets.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)] // Antrea's words
pub enum Direction {
    Ingress,
    Egress,
    Both,
}

/// What happens to them.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[allow(missing_docs)] // Antrea's words
pub enum Action {
    Mirror,
    Redirect,
}

/// A port of the bridge. Tunnels are not made here: they are ports to be named as devices.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Port {
    /// A port of its own.
    pub ovs_internal: Option<Device>,
    /// A device of the Node.
    pub device: Option<Device>,
    /// A tunnel: not served.
    pub geneve: Option<Tunnel>,
    /// A tunnel: not served.
    pub vxlan: Option<Tunnel>,
    /// A tunnel: not served.
    pub gre: Option<Tunnel>,
    /// A tunnel: not served.
    pub erspan: Option<Tunnel>,
}

/// A tunnel, whatever it says.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(from = "IgnoredAny", into = "bool")]
pub struct Tunnel;

impl From<IgnoredAny> for Tunnel {
    fn from(_: IgnoredAny) -> Self {
        Self
    }
}

impl From<Tunnel> for bool {
    fn from(_: Tunnel) -> Self {
        true
    }
}

/// A port by name.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name.
    pub name: String,
}

impl Port {
    /// The tunnel that it is.
    pub fn tunnel(&self) -> Option<&'static str> {
        let all = [("geneve", &self.geneve), ("vxlan", &self.vxlan), ("gre", &self.gre), ("erspan", &self.erspan)];
        all.into_iter().find(|(_, given)| given.is_some()).map(|(name, _)| name)
    }

    /// Its name, if exactly one kind of port is given.
    pub fn name(&self) -> Option<&str> {
        match (&self.ovs_internal, &self.device) {
            (Some(port), None) | (None, Some(port)) => Some(&port.name),
            _ => None,
        }
    }
}
