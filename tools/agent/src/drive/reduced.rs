//! A Node without what of it cannot be: a feature that lacks its port or another feature, a field that is wrong.

use super::DriveError;
use super::client::Client;
use crate::problem::{Origin, Problem};
use vswitch_proto::antrea::v1;

/// Times that a Node is tried with less each time.
const TRIES_MAX: usize = 8;

/// Says what the Node is; what the switch refuses of it is left out until it can be. Returns what the switch has been told,
/// and what is left out.
///
/// # Errors
/// The switch refuses what no Node is without.
pub(super) async fn initialize(
    client: &mut Client,
    node: &v1::NodeConfig,
    origin: &Origin,
    round: u64,
) -> Result<(v1::NodeConfig, Vec<Problem>), DriveError> {
    let mut told = node.clone();
    let mut left_out = Vec::new();
    for _ in 0..TRIES_MAX {
        match client.initialize(&told, origin, round).await {
            Ok(()) => return Ok((told, left_out)),
            Err(DriveError::Node(problems)) => {
                let mut less = told.clone();
                if !problems.iter().all(|problem| leave_out(&mut less, &problem.field)) || less == told {
                    left_out.extend(problems);
                    return Err(DriveError::Node(left_out));
                }
                left_out.extend(problems);
                told = less;
            }
            Err(error) => return Err(error),
        }
    }
    Err(DriveError::Node(left_out))
}

/// Leaves a field out that the switch names (`node.l7.target`), and what is of no use without it. False: no Node is
/// without it.
fn leave_out(node: &mut v1::NodeConfig, field: &str) -> bool {
    let field = field.strip_prefix("node.").unwrap_or(field);
    let (whole, part) = field.split_once('.').unwrap_or((field, ""));
    let whole = whole.split('[').next().unwrap_or_default();
    let features = node.features.get_or_insert_default();
    match (whole, part) {
        ("features", feature) => return turn_off(features, feature),
        ("l7", _) => (node.l7, features.l7_network_policy) = (None, false),
        ("uplink", "external_traffic") => node.uplink.iter_mut().for_each(|uplink| uplink.external_traffic = false),
        ("uplink", part) if part.starts_with("answered_addresses") => {
            node.uplink.iter_mut().for_each(|uplink| uplink.answered_addresses.clear());
        }
        ("uplink", part) if part.starts_with("next_hops") => {
            node.uplink.iter_mut().for_each(|uplink| uplink.next_hops.clear());
        }
        ("uplink", _) => (node.uplink, features.pod_vlans) = (None, false),
        ("local_probe" | "local_probe_port", _) => {
            node.set_local_probe(v1::LocalProbe::Unspecified);
            node.local_probe_port.clear();
        }
        ("service_cidrs", _) => node.service_cidrs.clear(),
        ("node_port_addresses", _) => node.node_port_addresses.clear(),
        ("egress_except_cidrs", _) => node.egress_except_cidrs.clear(),
        ("virtual_service_addresses", _) => node.virtual_service_addresses.clear(),
        ("virtual_node_port_addresses", _) => node.virtual_node_port_addresses.clear(),
        ("taken_over", _) => node.taken_over.clear(),
        ("packet_limits", _) => node.packet_limits.clear(),
        ("fqdn", _) => node.fqdn = None,
        ("zones", _) => node.zones = None,
        ("virtual_mac", _) => node.virtual_mac = None,
        ("reentrance_mac", _) => node.reentrance_mac = None,
        _ => return false,
    }
    true
}

/// Turns a feature off; false: there is no such feature.
fn turn_off(features: &mut v1::Features, feature: &str) -> bool {
    match feature {
        "proxy_all" => features.proxy_all = false,
        "egress" => features.egress = Some(false),
        "egress_traffic_shaping" => features.egress_traffic_shaping = false,
        "traffic_control" => features.traffic_control = false,
        "l7_network_policy" => features.l7_network_policy = false,
        "multicast" => features.multicast = false,
        "dsr" => features.dsr = false,
        "pod_vlans" => features.pod_vlans = false,
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_can_be_without_goes_and_nothing_else() {
        let features = v1::Features { l7_network_policy: true, pod_vlans: true, dsr: true, ..Default::default() };
        let whole = v1::NodeConfig {
            bridge: "br0".to_owned(),
            features: Some(features),
            l7: Some(v1::L7Ports::default()),
            uplink: Some(v1::Uplink { external_traffic: true, ..Default::default() }),
            ..Default::default()
        };
        let without = |field: &str| {
            let mut node = whole.clone();
            leave_out(&mut node, field).then_some(node)
        };
        let node = without("node.l7.target").expect("it can be without");
        assert_eq!((node.l7, node.features.map(|features| features.l7_network_policy)), (None, Some(false)));
        let node = without("node.uplink.port").expect("it can be without");
        assert_eq!((node.uplink, node.features.map(|features| features.pod_vlans)), (None, Some(false)));
        let node = without("node.uplink.external_traffic").expect("it can be without");
        assert_eq!(node.uplink.map(|uplink| uplink.external_traffic), Some(false));
        let node = without("node.features.dsr").expect("it can be without");
        assert_eq!(node.features, Some(v1::Features { dsr: false, ..features }));
        for field in ["node.bridge", "node.gateway.port", "node.pod_cidrs[0]", "node.features.proxy", "", "node"] {
            assert_eq!(without(field), None, "{field}");
        }
    }
}
