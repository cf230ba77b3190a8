//! Other Nodes.

use super::node::{mac_address, masked};
use crate::kinds::node::NodeBody;
use crate::model::Item;
use crate::problem::Problem;
use crate::resolve::{World, net, nodes};
use vswitch_proto::antrea::v1;

/// A peer; None: it has no address yet. Annotations `vswitch/path` (Tunnel, Gateway, Uplink),
/// `vswitch/mac`, `vswitch/tunnel-port` and `vswitch/gateway-addresses` say what Kubernetes does
/// not know.
pub(super) fn peer(
    world: &World<'_>,
    item: &Item<NodeBody>,
    odd: &mut Vec<Problem>,
) -> Result<Option<v1::PeerNode>, Box<Problem>> {
    let wrong = |name: &str, reason: String| {
        Box::new(item.origin.error(format!("metadata.annotations[vswitch/{name}]"), reason))
    };
    let path = match item.meta.annotation("path") {
        None => v1::PeerPath::Unspecified,
        Some("Tunnel") => v1::PeerPath::Tunnel,
        Some("Gateway") => v1::PeerPath::Gateway,
        Some("Uplink") => v1::PeerPath::Uplink,
        Some(other) => return Err(wrong("path", format!("{other:?} is not one of Tunnel, Gateway, Uplink"))),
    };
    let mac = match item.meta.annotation("mac") {
        None => None,
        Some(text) => Some(net::mac(text).ok_or_else(|| wrong("mac", format!("{text:?} is no MAC address")))?),
    };
    let transport_addresses = item.body.addresses("InternalIP");
    if transport_addresses.is_empty() {
        return Ok(None);
    }
    let pod_cidrs: Vec<String> = item.body.pod_cidrs().into_iter().filter(|cidr| world.has(cidr)).collect();
    Ok(Some(v1::PeerNode {
        name: item.meta.name.clone(),
        pod_cidrs: net::once(masked("podCIDRs", &pod_cidrs, &item.origin, odd)),
        gateway_addresses: net::once(nodes::gateways(item).into_iter().filter(|address| world.has(address)).collect()),
        transport_addresses: net::once(transport_addresses),
        path: path.into(),
        // Other ways do not need it. The Node itself may have it for its uplink.
        mac: mac.filter(|_| path == v1::PeerPath::Uplink).map(mac_address),
        tunnel_port: item.meta.annotation("tunnel-port").unwrap_or_default().to_owned(),
    }))
}
