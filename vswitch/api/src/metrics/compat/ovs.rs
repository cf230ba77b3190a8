//! Names of openstack-network-exporter, which reads Open vSwitch.
//!
//! Source: its collectors `iface`, `pmd_perf`, `pmd_rxq` and `datapath`. What the switch does not
//! count is left out.

use super::super::families::port;
use super::super::family::{Family, Samples, Value, counter, gauge};
use crate::services::Reading;
use std::fs;
use vswitch_proto::v1;

const INTERFACE: &[&str] = &["bridge", "port", "interface", "type"];
const CPU: &[&str] = &["numa", "cpu"];
const RXQ: &[&str] = &["numa", "cpu", "interface", "rxq"];
const DATAPATH: &[&str] = &["type", "name"];

pub(super) static FAMILIES: &[Family] = &[
    gauge("ovs_interface_admin_state", "1: up, 0: down.", INTERFACE, "vswitch_port_admin_up", |reading, samples| {
        interfaces(reading, samples, |_, port| port::admin_up(port));
    }),
    gauge("ovs_interface_link_state", "1: up, 0: down.", INTERFACE, "vswitch_port_link_up", |reading, samples| {
        interfaces(reading, samples, |_, port| port.link_up);
    }),
    gauge("ovs_interface_mtu_bytes", "Largest L3 packet.", INTERFACE, "vswitch_port_mtu_bytes", |reading, samples| {
        interfaces(reading, samples, |_, port| port::mtu(port));
    }),
    gauge(
        "ovs_interface_link_speed_bps",
        "Speed of the link in bits per second; 0: not known.",
        INTERFACE,
        "vswitch_port_speed_bytes_per_second",
        |reading, samples| interfaces(reading, samples, |_, port| u64::from(port.link_speed_mbps) * 1_000_000),
    ),
    counter(
        "ovs_interface_rx_packets",
        "Packets received.",
        INTERFACE,
        "vswitch_port_rx_packets_total",
        |reading, samples| interfaces(reading, samples, |statistics, _| statistics.rx_packets),
    ),
    counter(
        "ovs_interface_rx_bytes",
        "Bytes received.",
        INTERFACE,
        "vswitch_port_rx_bytes_total",
        |reading, samples| {
            interfaces(reading, samples, |statistics, _| statistics.rx_bytes);
        },
    ),
    counter(
        "ovs_interface_rx_errors",
        "Packets received with an error.",
        INTERFACE,
        "vswitch_port_rx_errors_total",
        |reading, samples| interfaces(reading, samples, |statistics, _| statistics.rx_errors),
    ),
    counter(
        "ovs_interface_rx_dropped",
        "Packets that the device dropped, since they were not taken in time.",
        INTERFACE,
        "vswitch_port_rx_missed_total",
        |reading, samples| interfaces(reading, samples, |statistics, _| statistics.rx_missed),
    ),
    counter(
        "ovs_interface_tx_packets",
        "Packets sent.",
        INTERFACE,
        "vswitch_port_tx_packets_total",
        |reading, samples| {
            interfaces(reading, samples, |statistics, _| statistics.tx_packets);
        },
    ),
    counter("ovs_interface_tx_bytes", "Bytes sent.", INTERFACE, "vswitch_port_tx_bytes_total", |reading, samples| {
        interfaces(reading, samples, |statistics, _| statistics.tx_bytes);
    }),
    counter(
        "ovs_interface_tx_errors",
        "Packets that were not sent: errors of the device, and those that found its queue full.",
        INTERFACE,
        "vswitch_port_tx_errors_total, vswitch_port_tx_drops_total of tx_full",
        |reading, samples| interfaces(reading, samples, |statistics, _| statistics.tx_errors + tx_full(statistics)),
    ),
    counter(
        "ovs_pmd_total_iterations",
        "Iterations of a worker's loop.",
        CPU,
        "vswitch_worker_iterations_total",
        |reading, samples| workers(reading, samples, |worker| worker.iterations),
    ),
    counter(
        "ovs_pmd_sleep_microseconds",
        "Time that a worker slept, in microseconds.",
        CPU,
        "vswitch_worker_cycles_total of sleep",
        |reading, samples| {
            workers(reading, samples, |worker| {
                let us = u128::from(worker.sleep_cycles) * 1_000_000 / u128::from(worker.tsc_hz.max(1));
                u64::try_from(us).unwrap_or(u64::MAX)
            });
        },
    ),
    counter(
        "ovs_pmd_rx_packets",
        "Packets that a worker received.",
        CPU,
        "vswitch_worker_packets_total",
        |reading, samples| workers(reading, samples, |worker| worker.packets),
    ),
    counter(
        "ovs_pmd_emc_hits",
        "Decisions of the exact-match cache, connection programs included.",
        CPU,
        "vswitch_worker_decisions_total of program, first, exact",
        |reading, samples| caches(reading, samples, exact),
    ),
    counter(
        "ovs_pmd_megaflow_hits",
        "Decisions of the megaflow cache.",
        CPU,
        "vswitch_worker_decisions_total of megaflow",
        |reading, samples| caches(reading, samples, |caches| caches.megaflow_hits),
    ),
    counter(
        "ovs_pmd_total_upcalls",
        "Decisions by the tables.",
        CPU,
        "vswitch_worker_decisions_total of miss",
        |reading, samples| caches(reading, samples, |caches| caches.misses),
    ),
    counter(
        "ovs_pmd_lost_upcalls",
        "Packets that were to be looked up in the tables, and were dropped.",
        CPU,
        "vswitch_worker_lost_misses_total",
        |reading, samples| caches(reading, samples, |caches| caches.lost_misses),
    ),
    counter(
        "ovs_pmd_nonvol_context_switches",
        "How often the kernel took the core of a worker away.",
        CPU,
        "vswitch_worker_nonvoluntary_switches_total",
        |reading, samples| {
            for worker in &reading.workers {
                if let Some(switches) = worker.nonvoluntary_switches {
                    samples.push(&[&numa(worker.core), &worker.core.to_string()], switches);
                }
            }
        },
    ),
    gauge(
        "ovs_pmd_cpu_overhead",
        "Percentage of cycles of a worker that no receive queue took.",
        CPU,
        "vswitch_rxq_usage_ratio",
        |reading, samples| {
            workers(reading, samples, |worker| {
                let taken = reading.rxqs.iter().filter(|rxq| rxq.core == worker.core).map(|rxq| rxq.usage_percent);
                (100.0 - taken.sum::<f64>()).max(0.0)
            });
        },
    ),
    gauge(
        "ovs_pmd_rxq_usage",
        "Percentage of cycles of a worker that a receive queue took.",
        RXQ,
        "vswitch_rxq_usage_ratio",
        |reading, samples| rxqs(reading, samples, |rxq| rxq.usage_percent),
    ),
    gauge("ovs_datapath_flows_total", "Megaflows.", DATAPATH, "vswitch_worker_megaflows", |reading, samples| {
        datapath(reading, samples, |caches| caches.megaflows);
    }),
    gauge(
        "ovs_datapath_lookup_hits_total",
        "Decisions of caches.",
        DATAPATH,
        "vswitch_worker_decisions_total of program, first, exact, megaflow",
        |reading, samples| datapath(reading, samples, |caches| exact(caches) + caches.megaflow_hits),
    ),
    gauge(
        "ovs_datapath_lookup_missed_total",
        "Decisions by the tables.",
        DATAPATH,
        "vswitch_worker_decisions_total of miss",
        |reading, samples| datapath(reading, samples, |caches| caches.misses),
    ),
    gauge(
        "ovs_datapath_lookup_lost_total",
        "Packets that were to be looked up in the tables, and were dropped.",
        DATAPATH,
        "vswitch_worker_lost_misses_total",
        |reading, samples| datapath(reading, samples, |caches| caches.lost_misses),
    ),
];

/// Packets that found the queue of their port full, which Open vSwitch counts as failures to send.
fn tx_full(statistics: &v1::PortStatistics) -> u64 {
    statistics.tx_drops.iter().filter(|drop| drop.reason == "tx_full").map(|drop| drop.packets).sum()
}

const fn exact(caches: &v1::Caches) -> u64 {
    caches.program_hits + caches.opening_hits + caches.exact_hits
}

/// The NUMA node of a core, as a label has it; 0 on a machine without nodes.
fn numa(core: u32) -> String {
    let entries = fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).into_iter().flatten().flatten();
    let mut nodes = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse::<u32>().ok()?;
        Some(number.to_string())
    });
    nodes.next().unwrap_or_else(|| "0".to_owned())
}

/// A port has one interface, of its own name.
fn interfaces<V: Into<Value>>(
    reading: &Reading,
    samples: &mut Samples<'_>,
    value: impl Fn(&v1::PortStatistics, &v1::Port) -> V,
) {
    for (statistics, port) in reading.ports() {
        let name = port::name(port);
        samples.push(&[&port.bridge, name, name, &port.r#type], value(statistics, port));
    }
}

fn workers<V: Into<Value>>(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&v1::Worker) -> V) {
    for worker in &reading.workers {
        samples.push(&[&numa(worker.core), &worker.core.to_string()], value(worker));
    }
}

fn caches(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&v1::Caches) -> u64) {
    workers(reading, samples, |worker| worker.caches.as_ref().map_or(0, &value));
}

fn rxqs(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&v1::Rxq) -> f64) {
    for rxq in &reading.rxqs {
        let (numa, core, queue) = (numa(rxq.core), rxq.core.to_string(), rxq.queue.to_string());
        samples.push(&[&numa, &core, &rxq.port, &queue], value(rxq));
    }
}

/// One for all workers: that is how Open vSwitch counts.
fn datapath(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&v1::Caches) -> u64) {
    let all = reading.workers.iter().filter_map(|worker| worker.caches.as_ref());
    samples.push(&["netdev", "vswitch"], all.map(value).sum::<u64>());
}
