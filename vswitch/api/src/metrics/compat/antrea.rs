//! Names of Antrea's agent.
//!
//! Source: "Prometheus Integration" of Antrea. What the switch does not count is left out, such as
//! connections to a flow collector.

use super::super::families::antrea::state;
use super::super::family::{Family, gauge};
use crate::services::{BridgeReading, Reading};
use vswitch_proto::antrea::v1::Kind;

/// Zones of connections of Pods: IPv4, IPv6.
const ZONES: [u32; 2] = [65520, 65510];

/// Reasons of drops by rules.
const DENIED: [&str; 2] = ["rule_drop", "rejected"];

pub(super) static FAMILIES: &[Family] = &[
    gauge(
        "antrea_agent_local_pod_count",
        "Pods of this Node.",
        &[],
        "vswitch_antrea_objects of pod",
        |reading, samples| {
            if let Some(pods) = objects(reading, Kind::Pod) {
                samples.push(&[], pods);
            }
        },
    ),
    gauge(
        "antrea_agent_networkpolicy_count",
        "Policies of this Node.",
        &[],
        "vswitch_antrea_objects of network_policy",
        |reading, samples| {
            if let Some(policies) = objects(reading, Kind::NetworkPolicy) {
                samples.push(&[], policies);
            }
        },
    ),
    gauge(
        "antrea_agent_ingress_networkpolicy_rule_count",
        "Rules for packets to Pods.",
        &[],
        "SyncService.GetState ingress_rules",
        |reading, samples| {
            if let Some(state) = state(reading) {
                samples.push(&[], state.ingress_rules);
            }
        },
    ),
    gauge(
        "antrea_agent_egress_networkpolicy_rule_count",
        "Rules for packets from Pods.",
        &[],
        "SyncService.GetState egress_rules",
        |reading, samples| {
            if let Some(state) = state(reading) {
                samples.push(&[], state.egress_rules);
            }
        },
    ),
    gauge("antrea_agent_ovs_total_flow_count", "Flows of all bridges.", &[], "vswitch_flows", |reading, samples| {
        let tables = reading.bridges.iter().flat_map(|bridge| &bridge.tables);
        samples.push(&[], tables.map(|table| table.flows).sum::<u64>());
    }),
    gauge(
        "antrea_agent_ovs_flow_count",
        "Flows of the Node's bridge, by table.",
        &["table_id", "table_name"],
        "vswitch_flows",
        |reading, samples| {
            let tables = bridge(reading).into_iter().flat_map(|bridge| &bridge.tables);
            for table in tables.filter(|table| table.flows > 0) {
                samples.push(&[&table.number.to_string(), &table.name], table.flows);
            }
        },
    ),
    gauge(
        "antrea_agent_ovs_meter_packet_dropped_count",
        "Packets that a meter dropped.",
        &["meter_id"],
        "vswitch_meter_drops_total",
        |reading, samples| {
            for (id, packets) in bridge(reading).into_iter().flat_map(|bridge| &bridge.meters) {
                samples.push(&[&id.to_string()], *packets);
            }
        },
    ),
    gauge(
        "antrea_agent_conntrack_total_connection_count",
        "Connections.",
        &[],
        "vswitch_conntrack_entries",
        |reading, samples| samples.push(&[], reading.conntrack.connections),
    ),
    gauge(
        "antrea_agent_conntrack_max_connection_count",
        "Connections that there may be.",
        &[],
        "vswitch_conntrack_entries_max",
        |reading, samples| samples.push(&[], reading.conntrack.connections_max),
    ),
    gauge(
        "antrea_agent_conntrack_antrea_connection_count",
        "Connections in zones of Pods.",
        &[],
        "vswitch_conntrack_zone_entries",
        |reading, samples| {
            let pods = reading.zones.iter().filter(|zone| ZONES.contains(&zone.zone));
            samples.push(&[], pods.map(|zone| u64::from(zone.count)).sum::<u64>());
        },
    ),
    gauge(
        "antrea_agent_denied_connection_count",
        "Packets that rules denied: the switch counts packets, not connections.",
        &[],
        "vswitch_port_rx_drops_total of rule_drop, rejected",
        |reading, samples| {
            let drops = reading.ports().flat_map(|(statistics, _)| &statistics.rx_drops);
            let denied = drops.filter(|drop| DENIED.contains(&drop.reason.as_str()));
            samples.push(&[], denied.map(|drop| drop.packets).sum::<u64>());
        },
    ),
];

/// How many objects of a kind there are, if there is a Node.
fn objects(reading: &Reading, kind: Kind) -> Option<u64> {
    let kinds = &state(reading)?.kinds;
    Some(kinds.iter().filter(|known| known.kind() == kind).map(|known| known.objects).sum())
}

/// The bridge of the Node.
fn bridge(reading: &Reading) -> Option<&BridgeReading> {
    let name = &state(reading)?.bridge;
    reading.bridges.iter().find(|bridge| bridge.name == *name)
}
