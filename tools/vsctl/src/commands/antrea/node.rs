//! The Node: its configuration, and its tables.

use super::listing::cells;
use super::words::some;
use crate::client::Client;
use crate::output::{Answer, Columns, Report, mac};
use serde_json::{Value, json};
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1;
use vswitch_proto::v1::MacAddress;

/// `node`.
pub(super) async fn show(client: &Client) -> Answer {
    Ok(Box::new(Node(client.answer(client.antrea_node().await?.get_node(v1::GetNodeRequest {}).await)?)))
}

struct Node(v1::GetNodeResponse);

const COLUMNS: Columns<'_> = &[("NUMBER", true), ("TABLE", false), ("STAGE", false), ("FLOWS", true)];

/// How Pods of different Nodes reach each other.
pub(super) const fn traffic_mode(mode: v1::TrafficMode) -> &'static str {
    match mode {
        v1::TrafficMode::Unspecified | v1::TrafficMode::Encap => "encap",
        v1::TrafficMode::NoEncap => "no-encap",
        v1::TrafficMode::Hybrid => "hybrid",
        v1::TrafficMode::NetworkPolicyOnly => "network-policy-only",
    }
}

/// Families of addresses.
pub(super) const fn families(families: v1::Families) -> &'static str {
    match families {
        v1::Families::Unspecified | v1::Families::Ipv4 => "ipv4",
        v1::Families::Ipv6 => "ipv6",
        v1::Families::Dual => "dual",
    }
}

const fn local_probe(probe: v1::LocalProbe) -> &'static str {
    match probe {
        v1::LocalProbe::Unspecified => "default",
        v1::LocalProbe::ByAddress => "by-address",
        v1::LocalProbe::ByPort => "by-port",
        v1::LocalProbe::None => "none",
    }
}

const fn category(category: v1::PacketCategory) -> &'static str {
    match category {
        v1::PacketCategory::Unspecified => "unknown",
        v1::PacketCategory::PolicyReject => "policy-reject",
        v1::PacketCategory::ServiceReject => "service-reject",
        v1::PacketCategory::Dns => "dns",
        v1::PacketCategory::Igmp => "igmp",
        v1::PacketCategory::PolicyLog => "policy-log",
        v1::PacketCategory::Traceflow => "traceflow",
    }
}

fn mac_json(address: Option<&MacAddress>) -> Option<String> {
    address.map(|address| mac(Some(address)))
}

/// Features by their names in the API; those that are on by default, too.
fn features(features: &v1::Features) -> [(&'static str, bool); 10] {
    [
        ("proxy", features.proxy.unwrap_or(true)),
        ("proxy_all", features.proxy_all),
        ("antrea_policy", features.antrea_policy.unwrap_or(true)),
        ("egress", features.egress.unwrap_or(true)),
        ("egress_traffic_shaping", features.egress_traffic_shaping),
        ("traffic_control", features.traffic_control),
        ("l7_network_policy", features.l7_network_policy),
        ("multicast", features.multicast),
        ("dsr", features.dsr),
        ("pod_vlans", features.pod_vlans),
    ]
}

fn hops_json(hops: &[v1::NextHop]) -> Value {
    hops.iter().map(|hop| json!({ "address": hop.address, "mac": mac_json(hop.mac.as_ref()) })).collect()
}

fn uplink_json(uplink: &v1::Uplink) -> Value {
    json!({
        "port": uplink.port,
        "underlay_bridge": some(uplink.underlay_bridge.clone()),
        "mac": mac_json(uplink.mac.as_ref()),
        "next_hops": hops_json(&uplink.next_hops),
        "external_traffic": uplink.external_traffic,
        "answered_addresses": uplink.answered_addresses,
        "gateway": uplink.gateway.as_ref().map(gateway_bridge_json),
    })
}

fn gateway_bridge_json(gateway: &v1::GatewayBridge) -> Value {
    let mode = match gateway.mode() {
        v1::GatewayMode::Unspecified => "unknown",
        v1::GatewayMode::Shared => "shared",
        v1::GatewayMode::Local => "local",
    };
    json!({
        "mode": mode,
        "addresses": gateway.addresses,
        "other_addresses": gateway.other_addresses,
        "masquerade_prefixes": gateway.masquerade_prefixes,
        "first_zone": gateway.first_zone,
        "pods_keep_addresses": gateway.pods_keep_addresses,
        "port": some(gateway.port.clone()),
        "no_uplink": gateway.no_uplink,
        "pod_mtu": gateway.pod_mtu,
    })
}

fn gateway_json(gateway: &v1::Gateway) -> Value {
    json!({ "port": gateway.port, "mac": mac_json(gateway.mac.as_ref()), "addresses": gateway.addresses })
}

fn fqdn_json(fqdn: &v1::FqdnConfig) -> Value {
    json!({
        "min_ttl_seconds": fqdn.min_ttl_seconds,
        "names_per_pattern_max": some(fqdn.names_per_pattern_max),
        "names_max": some(fqdn.names_max),
        "wait_ms_max": some(fqdn.wait_ms_max),
        "servers": fqdn.servers,
    })
}

fn zones_json(zones: &v1::Zones) -> Value {
    json!({
        "main_v4": zones.main_v4,
        "snat_v4": zones.snat_v4,
        "egress_v4": zones.egress_v4,
        "main_v6": zones.main_v6,
        "snat_v6": zones.snat_v6,
        "egress_v6": zones.egress_v6,
        "uplink": zones.uplink,
        "host_endpoints": zones.host_endpoints,
    })
}

/// The configuration by the API's names.
fn config_json(node: &v1::NodeConfig) -> Value {
    let limit = |limit: &v1::PacketLimit| {
        let category = category(limit.category());
        json!({ "category": category, "rate_pps": some(limit.rate_pps), "burst_packets": some(limit.burst_packets) })
    };
    let features: serde_json::Map<_, _> = features(&node.features.unwrap_or_default())
        .into_iter()
        .map(|(name, is_on)| (name.to_owned(), is_on.into()))
        .collect();
    json!({
        "name": node.name,
        "bridge": node.bridge,
        "traffic_mode": traffic_mode(node.traffic_mode()),
        "families": families(node.families()),
        "transport_addresses": node.transport_addresses,
        "pod_cidrs": node.pod_cidrs,
        "gateway": node.gateway.as_ref().map(gateway_json),
        "tunnel": node.tunnel.as_ref().map(|tunnel| json!({ "port": tunnel.port })),
        "uplink": node.uplink.as_ref().map(uplink_json),
        "service_cidrs": node.service_cidrs,
        "features": features,
        "node_port_addresses": node.node_port_addresses,
        "egress_except_cidrs": node.egress_except_cidrs,
        "topology_zone": some(node.topology_zone.clone()),
        "l7": node.l7.as_ref().map(|ports| json!({ "target": ports.target, "return_port": ports.return_port })),
        "local_probe": local_probe(node.local_probe()),
        "local_probe_port": some(node.local_probe_port.clone()),
        "taken_over": node.taken_over().map(category).collect::<Vec<_>>(),
        "packet_limits": node.packet_limits.iter().map(limit).collect::<Value>(),
        "record_denied": node.record_denied,
        "fqdn": node.fqdn.as_ref().map(fqdn_json),
        "zones": node.zones.as_ref().map(zones_json),
        "virtual_mac": mac_json(node.virtual_mac.as_ref()),
        "reentrance_mac": mac_json(node.reentrance_mac.as_ref()),
        "virtual_service_addresses": node.virtual_service_addresses,
        "virtual_node_port_addresses": node.virtual_node_port_addresses,
    })
}

/// A value on one line; nothing of what is not set, and of flags only those that are.
fn inline(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(false) => String::new(),
        Value::Bool(true) => "yes".to_owned(),
        Value::String(text) => shown(text).into_owned(),
        Value::Array(values) => values.iter().map(inline).collect::<Vec<_>>().join(" "),
        Value::Object(pairs) => {
            let told =
                pairs.iter().map(|(key, value)| (key, value, inline(value))).filter(|(.., text)| !text.is_empty());
            let pair = |(key, value, text): (&String, &Value, String)| match value {
                Value::Bool(_) => key.clone(),
                Value::Array(values) if values.iter().any(Value::is_object) => format!("{key}=({text})"),
                _ => format!("{key}={text}"),
            };
            told.map(pair).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

impl Report for Node {
    fn text(&self) -> String {
        let config = config_json(&self.0.node.clone().unwrap_or_default());
        let lines = config.as_object().into_iter().flatten().map(|(key, value)| (key, inline(value)));
        let mut text: String =
            lines.filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}: {value}\n")).collect();
        let row = |table: &v1::TableState| {
            vec![table.number.to_string(), table.name.clone(), table.stage.clone(), table.flows.to_string()]
        };
        if !self.0.next_hops.is_empty() {
            text.push_str(&format!("next_hops: {}\n", inline(&hops_json(&self.0.next_hops))));
        }
        text.push('\n');
        text.push_str(&cells(COLUMNS, self.0.tables.iter().map(row)));
        text
    }

    fn json(&self) -> Value {
        let table = |table: &v1::TableState| json!({ "number": table.number, "name": table.name, "stage": table.stage, "flows": table.flows });
        json!({
            "node": self.0.node.as_ref().map(config_json),
            "tables": self.0.tables.iter().map(table).collect::<Value>(),
            "next_hops": hops_json(&self.0.next_hops),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        let address = |last| Some(MacAddress { octets: vec![2, 0, 0, 0, 0, last] });
        let gateway = v1::Gateway {
            port: "gw0".to_owned(),
            mac: address(1),
            addresses: vec!["10.10.0.1".to_owned(), "fd00::1".to_owned()],
        };
        let hops = vec![v1::NextHop { address: "192.0.2.1".to_owned(), mac: None }];
        let uplink = v1::Uplink { port: "up0".to_owned(), mac: address(2), next_hops: hops, ..Default::default() };
        let limit = v1::PacketLimit { category: v1::PacketCategory::Dns.into(), rate_pps: 100, burst_packets: 0 };
        let config = v1::NodeConfig {
            name: "worker-0".to_owned(),
            bridge: "br-int".to_owned(),
            traffic_mode: v1::TrafficMode::Hybrid.into(),
            pod_cidrs: vec!["10.10.0.0/24".to_owned()],
            gateway: Some(gateway),
            tunnel: Some(v1::Tunnel { port: "tun0".to_owned() }),
            uplink: Some(uplink),
            features: Some(v1::Features { egress: Some(false), dsr: true, ..Default::default() }),
            taken_over: vec![v1::PacketCategory::Igmp.into()],
            packet_limits: vec![limit],
            zones: Some(v1::Zones { main_v4: Some(65520), ..Default::default() }),
            ..Default::default()
        };
        let table = |number, name: &str, flows| v1::TableState {
            number,
            name: name.to_owned(),
            stage: "classifier".to_owned(),
            flows,
        };
        Node(v1::GetNodeResponse {
            node: Some(config),
            tables: vec![table(0, "PipelineRootClassifier", 2), table(12, "Classifier", 30)],
            next_hops: vec![v1::NextHop { address: "192.0.2.1".to_owned(), mac: address(3) }],
        })
    }

    #[test]
    fn people_see_what_is_set() {
        let want = "\
name: worker-0
bridge: br-int
traffic_mode: hybrid
families: ipv4
pod_cidrs: 10.10.0.0/24
gateway: port=gw0, mac=02:00:00:00:00:01, addresses=10.10.0.1 fd00::1
tunnel: port=tun0
uplink: port=up0, mac=02:00:00:00:00:02, next_hops=(address=192.0.2.1)
features: proxy, antrea_policy, dsr
local_probe: default
taken_over: igmp
packet_limits: category=dns, rate_pps=100
zones: main_v4=65520
next_hops: address=192.0.2.1, mac=02:00:00:00:00:03

NUMBER  TABLE                   STAGE       FLOWS
     0  PipelineRootClassifier  classifier      2
    12  Classifier              classifier     30
";
        assert_eq!(node().text(), want);
    }

    #[test]
    fn programs_see_all() {
        let json = node().json();
        let config = &json["node"];
        assert_eq!((&config["features"]["proxy"], &config["features"]["egress"]), (&json!(true), &json!(false)));
        assert_eq!(config["uplink"]["next_hops"], json!([{ "address": "192.0.2.1", "mac": null }]));
        assert_eq!(json["next_hops"], json!([{ "address": "192.0.2.1", "mac": "02:00:00:00:00:03" }]));
        assert_eq!(
            (&config["fqdn"], &config["service_cidrs"], &config["record_denied"]),
            (&Value::Null, &json!([]), &json!(false))
        );
        assert_eq!(
            json["tables"][1],
            json!({ "number": 12, "name": "Classifier", "stage": "classifier", "flows": 30 })
        );
    }
}
