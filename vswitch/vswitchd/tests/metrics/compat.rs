//! Metrics with names of other programs, and the same values as calls tell them.

use crate::compare::How::{Counts, Fades, Gauge, Runs};
use crate::compare::{
    Compare, Samples, caches, compare, dropped, drops, f, flows, key, listed, one, ports, state, workers, yes,
};
use crate::told::Told;
use std::collections::BTreeMap;
use vswitch_proto::antrea::v1 as antrea;
use vswitch_proto::v1;

/// The same values under labels of Open vSwitch: a port has one interface, of its name.
fn interfaces(samples: Samples, told: &Told) -> Samples {
    let types: BTreeMap<(String, String), String> = told
        .bridges
        .iter()
        .flat_map(|bridge| &bridge.ports)
        .map(|port| ((port.bridge.clone(), port.config.as_ref().expect("a port").name.clone()), port.r#type.clone()))
        .collect();
    let with = |(labels, value): (Vec<String>, f64)| {
        let r#type = &types[&(labels[0].clone(), labels[1].clone())];
        (key(&[&labels[0], &labels[1], &labels[1], r#type]), value)
    };
    samples.into_iter().map(with).collect()
}

/// The same values under labels of Open vSwitch. This machine has one NUMA node, or the node is
/// looked at by nothing else.
fn cpus(samples: Samples) -> Samples {
    let node = |core: &str| {
        let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).expect("a core").flatten();
        let names = entries.filter_map(|entry| entry.file_name().to_str().map(str::to_owned));
        let node = names.filter_map(|name| name.strip_prefix("node").map(str::to_owned)).next();
        node.unwrap_or_else(|| "0".to_owned())
    };
    samples.into_iter().map(|(labels, value)| (key(&[&node(&labels[0]), &labels[0]]), value)).collect()
}

fn datapath(told: &Told, value: impl Fn(&v1::Caches) -> u64) -> Samples {
    BTreeMap::from([(key(&["netdev", "vswitch"]), caches(told, value).values().sum())])
}

fn objects(told: &Told, kind: antrea::Kind) -> f64 {
    told.antrea.kinds.iter().filter(|known| known.kind() == kind).map(|known| f(known.objects)).sum()
}

/// All of them.
pub(crate) const ALL: &[Compare] = &[
    // Names of Open vSwitch's exporter.
    compare("ovs_interface_admin_state", Gauge, |told| {
        interfaces(listed(told, |_, config| Some(yes(config.admin_up()))), told)
    }),
    compare("ovs_interface_link_state", Gauge, |told| {
        interfaces(listed(told, |port, _| Some(yes(port.link_up))), told)
    }),
    compare("ovs_interface_mtu_bytes", Gauge, |told| {
        interfaces(listed(told, |_, config| config.mtu.map(f64::from)), told)
    }),
    compare("ovs_interface_link_speed_bps", Gauge, |told| {
        interfaces(listed(told, |port, _| Some(f64::from(port.link_speed_mbps) * 1e6)), told)
    }),
    compare("ovs_interface_rx_packets", Counts, |told| interfaces(ports(told, false, |port| port.rx_packets), told)),
    compare("ovs_interface_rx_bytes", Counts, |told| interfaces(ports(told, false, |port| port.rx_bytes), told)),
    compare("ovs_interface_rx_errors", Counts, |told| interfaces(ports(told, false, |port| port.rx_errors), told)),
    compare("ovs_interface_rx_dropped", Counts, |told| interfaces(ports(told, false, |port| port.rx_missed), told)),
    compare("ovs_interface_tx_packets", Counts, |told| interfaces(ports(told, false, |port| port.tx_packets), told)),
    compare("ovs_interface_tx_bytes", Counts, |told| interfaces(ports(told, false, |port| port.tx_bytes), told)),
    compare("ovs_interface_tx_errors", Counts, |told| {
        let full = |port: &v1::PortStatistics| {
            port.tx_drops.iter().filter(|drop| drop.reason == "tx_full").map(|drop| drop.packets).sum::<u64>()
        };
        interfaces(ports(told, false, |port| port.tx_errors + full(port)), told)
    }),
    compare("ovs_pmd_total_iterations", Runs, |told| cpus(workers(told, |worker| Some(f(worker.iterations))))),
    compare("ovs_pmd_sleep_microseconds", Runs, |told| {
        let us = |worker: &v1::Worker| u128::from(worker.sleep_cycles) * 1_000_000 / u128::from(worker.tsc_hz);
        cpus(workers(told, |worker| Some(f(us(worker).try_into().expect("centuries")))))
    }),
    compare("ovs_pmd_rx_packets", Counts, |told| cpus(workers(told, |worker| Some(f(worker.packets))))),
    compare("ovs_pmd_emc_hits", Counts, |told| {
        cpus(caches(told, |caches| caches.program_hits + caches.opening_hits + caches.exact_hits))
    }),
    compare("ovs_pmd_megaflow_hits", Counts, |told| cpus(caches(told, |caches| caches.megaflow_hits))),
    compare("ovs_pmd_total_upcalls", Counts, |told| cpus(caches(told, |caches| caches.misses))),
    compare("ovs_pmd_lost_upcalls", Counts, |told| cpus(caches(told, |caches| caches.lost_misses))),
    compare("ovs_pmd_nonvol_context_switches", Runs, |told| {
        cpus(workers(told, |worker| worker.nonvoluntary_switches.map(f)))
    }),
    compare("ovs_pmd_cpu_overhead", Fades, |told| {
        let taken = |core: u32| told.rxqs.iter().filter(move |rxq| rxq.core == core).map(|rxq| rxq.usage_percent);
        cpus(workers(told, |worker| Some((100.0 - taken(worker.core).sum::<f64>()).max(0.0))))
    }),
    compare("ovs_pmd_rxq_usage", Fades, |told| {
        let mut samples = Samples::new();
        for rxq in &told.rxqs {
            let node = cpus(BTreeMap::from([(key(&[&rxq.core.to_string()]), 0.0)]));
            let mut labels = node.into_keys().next().expect("a core");
            labels.extend([rxq.port.clone(), rxq.queue.to_string()]);
            samples.insert(labels, rxq.usage_percent);
        }
        samples
    }),
    compare("ovs_datapath_flows_total", Gauge, |told| datapath(told, |caches| caches.megaflows)),
    compare("ovs_datapath_lookup_hits_total", Counts, |told| {
        datapath(told, |caches| caches.program_hits + caches.opening_hits + caches.exact_hits + caches.megaflow_hits)
    }),
    compare("ovs_datapath_lookup_missed_total", Counts, |told| datapath(told, |caches| caches.misses)),
    compare("ovs_datapath_lookup_lost_total", Counts, |told| datapath(told, |caches| caches.lost_misses)),
    // Names of Antrea's agent.
    compare("antrea_agent_local_pod_count", Gauge, |told| state(told, |_| objects(told, antrea::Kind::Pod))),
    compare("antrea_agent_networkpolicy_count", Gauge, |told| {
        state(told, |_| objects(told, antrea::Kind::NetworkPolicy))
    }),
    compare("antrea_agent_ingress_networkpolicy_rule_count", Gauge, |told| state(told, |state| f(state.ingress_rules))),
    compare("antrea_agent_egress_networkpolicy_rule_count", Gauge, |told| state(told, |state| f(state.egress_rules))),
    compare("antrea_agent_ovs_total_flow_count", Gauge, |told| {
        one(flows(told, |bridge, table| Some(key(&[&bridge.name, &table.number.to_string()]))).values().sum::<f64>())
    }),
    compare("antrea_agent_ovs_flow_count", Gauge, |told| {
        flows(told, |bridge, table| {
            (bridge.name == told.antrea.bridge).then(|| key(&[&table.number.to_string(), &table.name]))
        })
    }),
    compare("antrea_agent_ovs_meter_packet_dropped_count", Counts, |told| {
        let node = told.bridges.iter().filter(|bridge| bridge.name == told.antrea.bridge);
        let id = |meter: &v1::MeterEntry| key(&[&meter.meter.as_ref().expect("a meter").id.to_string()]);
        node.flat_map(|bridge| &bridge.meters).map(|meter| (id(meter), f(dropped(meter)))).collect()
    }),
    compare("antrea_agent_conntrack_total_connection_count", Gauge, |told| one(f(told.conntrack.connections))),
    compare("antrea_agent_conntrack_max_connection_count", Gauge, |told| one(f(told.conntrack.connections_max))),
    compare("antrea_agent_conntrack_antrea_connection_count", Gauge, |told| {
        let pods = told.zones.iter().filter(|zone| zone.zone == 65520 || zone.zone == 65510);
        one(pods.map(|zone| f64::from(zone.count)).sum::<f64>())
    }),
    compare("antrea_agent_denied_connection_count", Counts, |told| {
        let by_rules = |labels: &[String]| labels[2] == "rule_drop" || labels[2] == "rejected";
        let all = drops(told, |port| &port.rx_drops);
        one(all.iter().filter(|(labels, _)| by_rules(labels)).map(|(_, packets)| packets).sum::<f64>())
    }),
];
