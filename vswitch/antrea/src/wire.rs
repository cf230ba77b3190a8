//! The wire: what is known of it beside what the Node's configuration says, and what is written
//! into the bridge behind the uplink.
//!
//! That bridge is somebody else's, unless it is a gateway bridge (`gateway`). Packets that are for
//! the Pods' bridge are led there by flows of ours above its own, in table 0; everything else meets
//! what it would have met without us. What the Pods' bridge sends out passes as if the VTEP had
//! sent it, so that nobody learns the Node's MAC address at two ports.

#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod writer;

use crate::Mac;
use crate::contribution::Category;
use std::collections::BTreeMap;
use std::net::IpAddr;
use vswitch_flow::spec::{FlowFilter, Update};

/// What is known of the wire at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Next hops that have said who they are. Those with a MAC address in the configuration need
    /// not.
    pub hops: BTreeMap<IpAddr, Mac>,
    /// The bridge behind the uplink; None: there is none, the uplink's port is the device.
    pub under: Option<Under>,
}

/// The bridge behind the uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Under {
    /// Number of the patch port that leads to the Pods' bridge.
    pub patch: u32,
    /// The host's interface at the VTEP. Empty: the switch does not know it.
    pub host: String,
    /// Number of the VTEP: the port with the Node's addresses.
    pub vtep: u32,
    /// Number of the port on the wire; None: there is none, or it is not the switch's matter.
    pub wire: Option<u32>,
    /// What packets for the VTEP are tunnels by: UDP ports; 0 is GRE.
    pub tunnels: Vec<u16>,
}

/// Deletes all that is ours in the bridge behind the uplink.
#[must_use]
pub fn clear() -> Update {
    let (cookie, cookie_mask) = (Category::Underlay.shared(), 0xffff_ff00_0000_0000);
    Update::DeleteFlows(FlowFilter { cookie, cookie_mask, ..FlowFilter::default() })
}
