//! Ports.

use super::super::family::{Family, Samples, Value, counter, gauge};
use crate::services::Reading;
use vswitch_proto::v1;

/// Labels of a port's counters.
const TYPED: &[&str] = &["bridge", "port", "type"];
const PORT: &[&str] = &["bridge", "port"];

pub(super) static FAMILIES: &[Family] = &[
    counter(
        "vswitch_port_rx_packets_total",
        "Packets received, those that were dropped included.",
        TYPED,
        "StatisticsService.GetPortStatistics rx_packets",
        |reading, samples| typed(reading, samples, |port| port.rx_packets),
    ),
    counter(
        "vswitch_port_rx_bytes_total",
        "Bytes received.",
        TYPED,
        "StatisticsService.GetPortStatistics rx_bytes",
        |reading, samples| typed(reading, samples, |port| port.rx_bytes),
    ),
    counter(
        "vswitch_port_tx_packets_total",
        "Packets sent.",
        TYPED,
        "StatisticsService.GetPortStatistics tx_packets",
        |reading, samples| typed(reading, samples, |port| port.tx_packets),
    ),
    counter(
        "vswitch_port_tx_bytes_total",
        "Bytes sent.",
        TYPED,
        "StatisticsService.GetPortStatistics tx_bytes",
        |reading, samples| typed(reading, samples, |port| port.tx_bytes),
    ),
    counter(
        "vswitch_port_rx_drops_total",
        "Packets dropped where they came in, by reason; only reasons that happened.",
        &["bridge", "port", "reason"],
        "StatisticsService.GetPortStatistics rx_drops",
        |reading, samples| drops(reading, samples, |port| &port.rx_drops),
    ),
    counter(
        "vswitch_port_tx_drops_total",
        "Packets dropped where they were to leave, by reason; only reasons that happened.",
        &["bridge", "port", "reason"],
        "StatisticsService.GetPortStatistics tx_drops",
        |reading, samples| drops(reading, samples, |port| &port.tx_drops),
    ),
    counter(
        "vswitch_port_rx_missed_total",
        "Packets that the device dropped itself, since the switch did not take them in time.",
        PORT,
        "StatisticsService.GetPortStatistics rx_missed",
        |reading, samples| named(reading, samples, |port, _| port.rx_missed),
    ),
    counter(
        "vswitch_port_rx_errors_total",
        "Packets that the device received with an error.",
        PORT,
        "StatisticsService.GetPortStatistics rx_errors",
        |reading, samples| named(reading, samples, |port, _| port.rx_errors),
    ),
    counter(
        "vswitch_port_tx_errors_total",
        "Packets that the device failed to send.",
        PORT,
        "StatisticsService.GetPortStatistics tx_errors",
        |reading, samples| named(reading, samples, |port, _| port.tx_errors),
    ),
    gauge(
        "vswitch_port_link_up",
        "Whether the port has a peer: carrier, a connected guest, the other end of a patch.",
        PORT,
        "PortService.ListPorts link_up",
        |reading, samples| named(reading, samples, |_, port| port.link_up),
    ),
    gauge(
        "vswitch_port_admin_up",
        "Whether the port is to take and give packets.",
        PORT,
        "PortService.ListPorts config.admin_up",
        |reading, samples| named(reading, samples, |_, port| admin_up(port)),
    ),
    gauge(
        "vswitch_port_open",
        "Whether the device of the port is open and as it should be.",
        PORT,
        "PortService.ListPorts error",
        |reading, samples| named(reading, samples, |_, port| port.error.is_none()),
    ),
    gauge(
        "vswitch_port_speed_bytes_per_second",
        "Speed of the link, where it is known.",
        PORT,
        "PortService.ListPorts link_speed_mbps",
        |reading, samples| {
            for (_, port) in reading.ports().filter(|(_, port)| port.link_speed_mbps > 0) {
                samples.push(&[&port.bridge, name(port)], u64::from(port.link_speed_mbps) * 125_000);
            }
        },
    ),
    gauge(
        "vswitch_port_mtu_bytes",
        "Largest L3 packet.",
        PORT,
        "PortService.ListPorts config.mtu",
        |reading, samples| named(reading, samples, |_, port| mtu(port)),
    ),
    counter(
        "vswitch_port_offload_software_packets_total",
        "Packets for which the switch did what its device or guest cannot do; only where there were any.",
        &["bridge", "port", "capability"],
        "PortService.ListPorts capabilities.software_packets",
        |reading, samples| {
            for (_, port) in reading.ports() {
                for capability in &port.capabilities {
                    if let Some(packets) = capability.software_packets.filter(|packets| *packets > 0) {
                        samples.push(&[&port.bridge, name(port), &capability.name], packets);
                    }
                }
            }
        },
    ),
];

/// The name of a port.
pub(in super::super) fn name(port: &v1::Port) -> &str {
    port.config.as_ref().map_or("", |config| &config.name)
}

/// Whether a port is to take and give packets.
pub(in super::super) fn admin_up(port: &v1::Port) -> bool {
    port.config.as_ref().is_some_and(|config| config.admin_up())
}

/// The MTU of a port, in bytes.
pub(in super::super) fn mtu(port: &v1::Port) -> u32 {
    port.config.as_ref().map_or(0, |config| config.mtu())
}

fn typed(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&v1::PortStatistics) -> u64) {
    for (statistics, port) in reading.ports() {
        samples.push(&[&port.bridge, name(port), &port.r#type], value(statistics));
    }
}

fn named<V: Into<Value>>(
    reading: &Reading,
    samples: &mut Samples<'_>,
    value: impl Fn(&v1::PortStatistics, &v1::Port) -> V,
) {
    for (statistics, port) in reading.ports() {
        samples.push(&[&port.bridge, name(port)], value(statistics, port));
    }
}

fn drops(reading: &Reading, samples: &mut Samples<'_>, counts: impl Fn(&v1::PortStatistics) -> &Vec<v1::DropCount>) {
    for (statistics, port) in reading.ports() {
        for drop in counts(statistics) {
            samples.push(&[&port.bridge, name(port), &drop.reason], drop.packets);
        }
    }
}
