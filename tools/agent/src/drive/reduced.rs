//! A Node without what of it cannot be: a feature that lacks its port or another feature, a field
//! that is wrong.

use super::DriveError;
use super::client::Client;
use crate::problem::{Origin, Problem};
use vswitch_proto::antrea::v1;

/// Times that a Node is tried with less each time.
const TRIES_MAX: usize = 8;

/// Says what the Node is; what the switch refuses of it is left out until it can be. Returns what
/// the switch has been told, and what is left out.
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
                let less = without(&told, problems.iter().map(|problem| problem.field.as_str()));
                left_out.extend(problems);
                let Some(less) = less else { return Err(DriveError::Node(left_out)) };
                told = less;
            }
            Err(error) => return Err(error),
        }
    }
    Err(DriveError::Node(left_out))
}

/// A Node without these fields, as far as it can be; what else is wrong may be so for them. None:
/// all of it is needed.
fn without<'a>(node: &v1::NodeConfig, fields: impl Iterator<Item = &'a str>) -> Option<v1::NodeConfig> {
    let mut less = node.clone();
    for field in fields {
        leave_out(&mut less, field);
    }
    (less != *node).then_some(less)
}

/// Leaves a field out that the switch names (`node.l7.target`), and what is of no use without it.
/// False: no Node is without it.
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
        // Then the bridge is as without one: Pods leave by the host.
        ("uplink", part) if part.split('.').next() == Some("gateway") => {
            node.uplink.iter_mut().for_each(|uplink| uplink.gateway = None);
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

    /// What a switch takes that has ports for the gateway and the tunnel.
    fn taken(mut node: v1::NodeConfig) -> Option<v1::NodeConfig> {
        let ports = [("gw0", 2), ("tun0", 3)].map(|(name, number)| (name.to_owned(), number));
        for _ in 0..TRIES_MAX {
            let mut switch = vswitch_antrea::NodeState::default();
            switch.set_ports(ports.clone().into_iter().collect());
            let problems = match switch.plan_node(&node) {
                Ok(plan) => {
                    switch.revert(plan);
                    return Some(node);
                }
                Err(problems) => problems,
            };
            let fields: Vec<_> = problems.all().iter().map(|problem| format!("node.{}", problem.field)).collect();
            node = without(&node, fields.iter().map(String::as_str))?;
        }
        None
    }

    #[test]
    fn the_switch_takes_a_node_without_what_of_it_cannot_be() {
        let mac = |last: u8| Some(vswitch_proto::v1::MacAddress { octets: vec![2, 0, 0, 0, 0, last] });
        let gateway = v1::Gateway { port: "gw0".to_owned(), mac: mac(1), addresses: vec!["10.10.0.1".to_owned()] };
        let plain = || v1::NodeConfig {
            name: "n1".to_owned(),
            bridge: "br0".to_owned(),
            transport_addresses: vec!["192.168.77.2/24".to_owned()],
            pod_cidrs: vec!["10.10.0.0/24".to_owned()],
            gateway: Some(gateway.clone()),
            tunnel: Some(v1::Tunnel { port: "tun0".to_owned() }),
            features: Some(v1::Features::default()),
            ..Default::default()
        };
        let l7 = || Some(v1::L7Ports { target: "t0".to_owned(), return_port: "t1".to_owned() });
        let uplink = || v1::Uplink { port: "up0".to_owned(), mac: mac(2), ..Default::default() };
        let off = || v1::Features::default();
        let text = |text: &str| vec![text.to_owned()];
        for (how, odd) in [
            (
                "l7 ports",
                v1::NodeConfig {
                    l7: l7(),
                    features: Some(v1::Features { l7_network_policy: true, ..off() }),
                    ..plain()
                },
            ),
            (
                "no l7 ports",
                v1::NodeConfig { features: Some(v1::Features { l7_network_policy: true, ..off() }), ..plain() },
            ),
            ("uplink's port", v1::NodeConfig { uplink: Some(uplink()), ..plain() }),
            (
                "the gateway's mode",
                v1::NodeConfig {
                    uplink: Some(v1::Uplink { gateway: Some(v1::GatewayBridge::default()), ..uplink() }),
                    ..plain()
                },
            ),
            (
                "VLANs",
                v1::NodeConfig {
                    uplink: Some(uplink()),
                    features: Some(v1::Features { pod_vlans: true, ..off() }),
                    ..plain()
                },
            ),
            ("no uplink", v1::NodeConfig { features: Some(v1::Features { pod_vlans: true, ..off() }), ..plain() }),
            (
                "shaping",
                v1::NodeConfig {
                    features: Some(v1::Features { egress_traffic_shaping: true, egress: Some(false), ..off() }),
                    ..plain()
                },
            ),
            ("DSR", v1::NodeConfig { features: Some(v1::Features { dsr: true, ..off() }), ..plain() }),
            (
                "all of proxy",
                v1::NodeConfig {
                    features: Some(v1::Features { proxy_all: true, dsr: true, proxy: Some(false), ..off() }),
                    ..plain()
                },
            ),
            (
                "probe",
                v1::NodeConfig {
                    local_probe: v1::LocalProbe::ByPort.into(),
                    local_probe_port: "p".to_owned(),
                    ..plain()
                },
            ),
            ("probe by address", v1::NodeConfig { local_probe: v1::LocalProbe::ByAddress.into(), ..plain() }),
            ("an enumeration", v1::NodeConfig { local_probe: 99, ..plain() }),
            ("Services' prefix", v1::NodeConfig { service_cidrs: text("10.10.0.0/16"), ..plain() }),
            ("their family", v1::NodeConfig { service_cidrs: text("fd00::/64"), ..plain() }),
            ("addresses", v1::NodeConfig { node_port_addresses: text("x"), egress_except_cidrs: text("x"), ..plain() }),
            (
                "virtual ones",
                v1::NodeConfig {
                    virtual_service_addresses: text("x"),
                    virtual_node_port_addresses: text("x"),
                    ..plain()
                },
            ),
            (
                "categories",
                v1::NodeConfig { taken_over: vec![99, 0], packet_limits: vec![v1::PacketLimit::default()], ..plain() },
            ),
            (
                "names",
                v1::NodeConfig {
                    fqdn: Some(v1::FqdnConfig { servers: text("x"), wait_ms_max: u32::MAX, ..Default::default() }),
                    ..plain()
                },
            ),
            (
                "zones",
                v1::NodeConfig { zones: Some(v1::Zones { main_v4: Some(70_000), ..Default::default() }), ..plain() },
            ),
            ("MAC addresses", v1::NodeConfig { virtual_mac: mac(1), reentrance_mac: mac(1), ..plain() }),
        ] {
            let taken = taken(odd.clone()).unwrap_or_else(|| panic!("{how}: it is not without"));
            assert_ne!(taken, odd, "{how}: there is nothing wrong with it");
            assert_eq!(
                (&taken.gateway, &taken.tunnel, &taken.pod_cidrs),
                (&plain().gateway, &plain().tunnel, &plain().pod_cidrs),
                "{how}"
            );
        }
        for node in [
            v1::NodeConfig { gateway: None, ..plain() },
            v1::NodeConfig { tunnel: None, ..plain() },
            v1::NodeConfig { pod_cidrs: Vec::new(), ..plain() },
            v1::NodeConfig { gateway: Some(v1::Gateway { port: "gw1".to_owned(), ..gateway.clone() }), ..plain() },
        ] {
            assert_eq!(taken(node.clone()), None, "{node:?}");
        }
    }

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
        let mut gateway = whole.clone();
        let uplink = gateway.uplink.get_or_insert_default();
        uplink.gateway = Some(v1::GatewayBridge::default());
        assert!(leave_out(&mut gateway, "node.uplink.gateway.masquerade_prefixes[0]"));
        assert_eq!(gateway.uplink, whole.uplink, "the uplink stays");
        let node = without("node.features.dsr").expect("it can be without");
        assert_eq!(node.features, Some(v1::Features { dsr: false, ..features }));
        for field in ["node.bridge", "node.gateway.port", "node.pod_cidrs[0]", "node.features.proxy", "", "node"] {
            assert_eq!(without(field), None, "{field}");
        }
    }
}
