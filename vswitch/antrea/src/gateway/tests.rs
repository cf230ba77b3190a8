//! The gateway bridge: what is refused, what is written, and when.

mod ovn;
mod printed;
mod refused;
mod written;

use super::{Masquerade, Mode};
use crate::object::egress::tests::wired;
use crate::testing::{document_node, dual_node, ip, node_state};
use crate::wire::Under;
use crate::wire::tests::know;
use crate::{Family, NodeState, Wire};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

/// The document's Node with a gateway bridge.
fn gateway_of(node: v1::NodeConfig, mode: v1::GatewayMode) -> v1::NodeConfig {
    let mut node = wired(node);
    if let Some(uplink) = &mut node.uplink {
        uplink.underlay_bridge = "br-phy".to_owned();
        uplink.external_traffic = false;
        let others = ["172.20.0.2", "fd00:172:20::2"].map(str::to_owned);
        let mut gateway = v1::GatewayBridge { other_addresses: others.into(), ..v1::GatewayBridge::default() };
        gateway.set_mode(mode);
        uplink.gateway = Some(gateway);
    }
    node
}

fn under() -> Under {
    Under { patch: 2, host: "br-phy0".to_owned(), vtep: 0xffff_fffe, wire: Some(1), tunnels: vec![6081] }
}

/// A node state of it, whose gateway bridge is known.
fn behind(node: &v1::NodeConfig, objects: Vec<Object>) -> NodeState {
    let mut node_state = node_state(node, objects);
    know(&mut node_state, Wire { under: Some(under()), ..Wire::default() });
    node_state
}

#[test]
fn masquerade_addresses_are_offsets_of_their_prefix() {
    let state = behind(&gateway_of(dual_node(), v1::GatewayMode::Shared), Vec::new());
    let (_, node) = state.node().expect("a Node");
    let gateway = node.gateway_bridge().expect("a gateway bridge");
    assert_eq!(gateway.mode, Mode::Shared);
    let all =
        [Masquerade::PodsSide, Masquerade::Host, Masquerade::LocalPolicy, Masquerade::NextHop, Masquerade::Forwarded];
    for (which, last) in all.into_iter().zip([1, 2, 3, 4, 6]) {
        assert_eq!(gateway.masquerade(Family::V4, which), ip(&format!("169.254.169.{last}")));
        assert_eq!(gateway.masquerade(Family::V6, which), ip(&format!("fd69::{last}")));
    }
    assert_eq!(gateway.mac(Family::V4, Masquerade::NextHop).to_string(), "0a:58:a9:fe:a9:04");
    assert_eq!(gateway.mac(Family::V6, Masquerade::NextHop).to_string(), "0a:58:00:00:00:04");
    let zones = [gateway.wire_zone(), gateway.host_zone(), gateway.pods_zone(), gateway.endpoint_zone()];
    assert_eq!(zones, [64000, 64001, 64002, 64003]);
    assert_eq!(gateway.own(Family::V4).collect::<Vec<_>>(), [ip("192.168.77.102"), ip("172.20.0.2")]);
    assert!(node.uplink.as_ref().is_some_and(|uplink| uplink.external_traffic), "shared mode implies it");
    let local = behind(&gateway_of(document_node(), v1::GatewayMode::Local), Vec::new());
    let (_, node) = local.node().expect("a Node");
    assert!(node.uplink.as_ref().is_some_and(|uplink| !uplink.external_traffic));
}
