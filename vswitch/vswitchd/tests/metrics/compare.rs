//! Each metric, and the same value as calls tell it.

use crate::told::{Told, ToldBridge};
use std::collections::BTreeMap;
use vswitch_proto::antrea::v1 as antrea;
use vswitch_proto::v1;

/// Values by values of labels, in the order of the labels' names in the text.
pub(crate) type Samples = BTreeMap<Vec<String>, f64>;

/// How a value moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It grows with traffic, and stands without.
    Counts,
    /// It grows without traffic, too.
    Runs,
    /// It stands without traffic.
    Gauge,
    /// It is a mean of the last seconds, which goes to a value without traffic.
    Fades,
}
use How::{Counts, Fades, Gauge, Runs};

/// A metric and its value.
pub(crate) struct Compare {
    pub(crate) metric: &'static str,
    pub(crate) how: How,
    pub(crate) value: fn(&Told) -> Samples,
}

pub(crate) const fn compare(metric: &'static str, how: How, value: fn(&Told) -> Samples) -> Compare {
    Compare { metric, how, value }
}

#[allow(clippy::cast_precision_loss)] // as Prometheus reads it
pub(crate) const fn f(count: u64) -> f64 {
    count as f64
}

pub(crate) fn one(value: impl Into<f64>) -> Samples {
    BTreeMap::from([(Vec::new(), value.into())])
}

pub(crate) fn yes(value: bool) -> f64 {
    f64::from(u8::from(value))
}

pub(crate) fn key(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

/// Of each port, with its type or without.
pub(crate) fn ports(told: &Told, typed: bool, value: impl Fn(&v1::PortStatistics) -> u64) -> Samples {
    let all = told.bridges.iter().flat_map(|bridge| &bridge.statistics);
    all.map(|statistics| {
        let port = statistics.port.as_ref().expect("a port");
        let name = &port.config.as_ref().expect("what was asked for").name;
        let mut labels = key(&[&port.bridge, name]);
        labels.extend(typed.then(|| port.r#type.clone()));
        (labels, f(value(statistics)))
    })
    .collect()
}

/// Of each port as `ListPorts` has it.
pub(crate) fn listed(told: &Told, value: impl Fn(&v1::Port, &v1::PortConfig) -> Option<f64>) -> Samples {
    let all = told.bridges.iter().flat_map(|bridge| &bridge.ports);
    all.filter_map(|port| {
        let config = port.config.as_ref().expect("what was asked for");
        Some((key(&[&port.bridge, &config.name]), value(port, config)?))
    })
    .collect()
}

pub(crate) fn drops(told: &Told, counts: impl Fn(&v1::PortStatistics) -> &Vec<v1::DropCount>) -> Samples {
    let mut samples = Samples::new();
    for statistics in told.bridges.iter().flat_map(|bridge| &bridge.statistics) {
        let port = statistics.port.as_ref().expect("a port");
        let name = &port.config.as_ref().expect("what was asked for").name;
        for drop in counts(statistics) {
            samples.insert(key(&[&port.bridge, name, &drop.reason]), f(drop.packets));
        }
    }
    samples
}

pub(crate) fn workers(told: &Told, value: impl Fn(&v1::Worker) -> Option<f64>) -> Samples {
    let all = told.workers.iter();
    all.filter_map(|worker| Some((key(&[&worker.core.to_string()]), value(worker)?))).collect()
}

pub(crate) fn caches(told: &Told, value: impl Fn(&v1::Caches) -> u64) -> Samples {
    workers(told, |worker| worker.caches.as_ref().map(|caches| f(value(caches))))
}

/// Several of each worker, with a second label.
fn parts(told: &Told, values: impl Fn(&v1::Worker, &v1::Caches) -> Vec<(String, u64)>) -> Samples {
    let mut samples = Samples::new();
    for worker in &told.workers {
        for (name, value) in values(worker, worker.caches.as_ref().expect("caches")) {
            samples.insert(key(&[&worker.core.to_string(), &name]), f(value));
        }
    }
    samples
}

fn bridges(told: &Told, value: impl Fn(&ToldBridge) -> u64) -> Samples {
    told.bridges.iter().map(|bridge| (key(&[&bridge.name]), f(value(bridge)))).collect()
}

pub(crate) fn flows(told: &Told, label: impl Fn(&ToldBridge, &v1::Table) -> Option<Vec<String>>) -> Samples {
    let mut samples = Samples::new();
    for bridge in &told.bridges {
        for table in bridge.tables.iter().filter(|table| table.flows > 0) {
            samples.extend(label(bridge, table).map(|labels| (labels, f(table.flows))));
        }
    }
    samples
}

pub(crate) fn dropped(meter: &v1::MeterEntry) -> u64 {
    let (bands, counts) = (&meter.meter.as_ref().expect("a meter").bands, meter.statistics.as_ref().expect("counts"));
    let all = bands.iter().zip(&counts.bands);
    all.filter(|(band, _)| band.dscp_remark.is_none()).map(|(_, count)| count.packets).sum()
}

pub(crate) fn state(told: &Told, value: impl Fn(&antrea::GetStateResponse) -> f64) -> Samples {
    if told.antrea.initialized { one(value(&told.antrea)) } else { Samples::new() }
}

fn names(told: &Told, value: impl Fn(&antrea::NameState) -> u64) -> Samples {
    state(told, |state| f(value(state.names.as_ref().expect("names"))))
}

fn listeners(told: &Told, value: impl Fn(&v1::Listener) -> f64) -> Samples {
    told.listeners.listeners.iter().map(|listener| (key(&[&listener.name]), value(listener))).collect()
}

fn rules(told: &Told, value: impl Fn(&antrea::RuleStatistics) -> u64) -> Samples {
    let name = |rule: &antrea::RuleStatistics| rule.rule.clone().unwrap_or_default();
    told.rules.iter().map(|rule| (key(&[&name(rule).policy, &name(rule).rule]), f(value(rule)))).collect()
}

/// All metrics with names of the switch's own.
pub(crate) const OWN: &[Compare] = &[
    compare("vswitch_build_info", Gauge, |told| {
        let v1::Version { package, dpdk_runtime, cpu_baseline, .. } = &told.version;
        BTreeMap::from([(key(&[package, dpdk_runtime, cpu_baseline]), 1.0)])
    }),
    compare("vswitch_up_seconds", Runs, |told| one(f(told.health.up_ms) / 1000.0)),
    compare("vswitch_healthy", Gauge, |told| one(yes(told.health.serving))),
    compare("vswitch_part_good", Gauge, |told| {
        let good = |part: &v1::HealthPart| part.condition() == v1::HealthCondition::Good;
        told.health.parts.iter().map(|part| (key(&[&part.name]), yes(good(part)))).collect()
    }),
    compare("vswitch_mbufs", Gauge, |told| {
        let v1::Mempool { size, in_use, .. } = told.mempool;
        BTreeMap::from([(key(&["in_use"]), f(in_use)), (key(&["free"]), f(size - in_use))])
    }),
    compare("vswitch_heap_bytes", Gauge, |told| one(f(told.mempool.heap_bytes))),
    compare("vswitch_log_lines_lost_total", Counts, |told| {
        let v1::LogState { lost_error, lost_warn, lost_info, lost_debug, lost_trace, .. } = told.log;
        let levels = ["error", "warn", "info", "debug", "trace"].into_iter();
        let lost = [lost_error, lost_warn, lost_info, lost_debug, lost_trace];
        levels.zip(lost).map(|(level, lost)| (key(&[level]), f(lost))).collect()
    }),
    compare("vswitch_log_lines_left_out_total", Counts, |told| one(f(told.log.left_out))),
    compare("vswitch_port_rx_packets_total", Counts, |told| ports(told, true, |port| port.rx_packets)),
    compare("vswitch_port_rx_bytes_total", Counts, |told| ports(told, true, |port| port.rx_bytes)),
    compare("vswitch_port_tx_packets_total", Counts, |told| ports(told, true, |port| port.tx_packets)),
    compare("vswitch_port_tx_bytes_total", Counts, |told| ports(told, true, |port| port.tx_bytes)),
    compare("vswitch_port_rx_drops_total", Counts, |told| drops(told, |port| &port.rx_drops)),
    compare("vswitch_port_tx_drops_total", Counts, |told| drops(told, |port| &port.tx_drops)),
    compare("vswitch_port_rx_missed_total", Counts, |told| ports(told, false, |port| port.rx_missed)),
    compare("vswitch_port_rx_errors_total", Counts, |told| ports(told, false, |port| port.rx_errors)),
    compare("vswitch_port_tx_errors_total", Counts, |told| ports(told, false, |port| port.tx_errors)),
    compare("vswitch_port_link_up", Gauge, |told| listed(told, |port, _| Some(yes(port.link_up)))),
    compare("vswitch_port_admin_up", Gauge, |told| listed(told, |_, config| Some(yes(config.admin_up())))),
    compare("vswitch_port_open", Gauge, |told| listed(told, |port, _| Some(yes(port.error.is_none())))),
    compare("vswitch_port_speed_bytes_per_second", Gauge, |told| {
        listed(told, |port, _| (port.link_speed_mbps > 0).then(|| f64::from(port.link_speed_mbps) * 125e3))
    }),
    compare("vswitch_port_mtu_bytes", Gauge, |told| listed(told, |_, config| config.mtu.map(f64::from))),
    compare("vswitch_port_offload_software_packets_total", Counts, |told| {
        let mut samples = Samples::new();
        for port in told.bridges.iter().flat_map(|bridge| &bridge.ports) {
            for capability in port.capabilities.iter().filter(|capability| capability.software_packets() > 0) {
                let name = &port.config.as_ref().expect("a port").name;
                samples.insert(key(&[&port.bridge, name, &capability.name]), f(capability.software_packets()));
            }
        }
        samples
    }),
    compare("vswitch_worker_cycles_total", Runs, |told| {
        parts(told, |worker, _| {
            let (busy, idle, sleep) = (worker.busy_cycles, worker.idle_cycles, worker.sleep_cycles);
            vec![("busy".to_owned(), busy), ("idle".to_owned(), idle), ("sleep".to_owned(), sleep)]
        })
    }),
    compare("vswitch_worker_packets_total", Counts, |told| workers(told, |worker| Some(f(worker.packets)))),
    compare("vswitch_worker_bursts_total", Counts, |told| workers(told, |worker| Some(f(worker.bursts)))),
    compare("vswitch_worker_iterations_total", Runs, |told| workers(told, |worker| Some(f(worker.iterations)))),
    compare("vswitch_worker_heartbeat_age_seconds", Gauge, |told| {
        workers(told, |worker| Some(f(worker.heartbeat_age_ms) / 1000.0))
    }),
    compare("vswitch_worker_panicked", Gauge, |told| workers(told, |worker| Some(yes(worker.panicked.is_some())))),
    compare("vswitch_worker_nonvoluntary_switches_total", Runs, |told| {
        workers(told, |worker| worker.nonvoluntary_switches.map(f))
    }),
    compare("vswitch_worker_decisions_total", Counts, |told| {
        parts(told, |_, caches| {
            let by = ["program", "first", "exact", "megaflow", "miss"].map(str::to_owned).into_iter();
            let &v1::Caches { program_hits, opening_hits, exact_hits, megaflow_hits, misses, .. } = caches;
            by.zip([program_hits, opening_hits, exact_hits, megaflow_hits, misses]).collect()
        })
    }),
    compare("vswitch_worker_lost_misses_total", Counts, |told| caches(told, |caches| caches.lost_misses)),
    compare("vswitch_worker_fallbacks_total", Counts, |told| {
        parts(told, |_, caches| {
            let happened = caches.fallbacks.iter().filter(|fallback| fallback.packets > 0);
            happened.map(|fallback| (fallback.reason.clone(), fallback.packets)).collect()
        })
    }),
    compare("vswitch_worker_revalidations_total", Counts, |told| {
        parts(told, |_, caches| {
            let (spared, revalidated, retired) = (caches.spared, caches.revalidated, caches.retired);
            let fates = ["spared", "revalidated", "retired"].map(str::to_owned).into_iter();
            fates.zip([spared, revalidated, retired]).collect()
        })
    }),
    compare("vswitch_worker_megaflows", Gauge, |told| caches(told, |caches| caches.megaflows)),
    compare("vswitch_worker_masks", Gauge, |told| caches(told, |caches| caches.masks)),
    compare("vswitch_worker_paths", Gauge, |told| caches(told, |caches| caches.paths)),
    compare("vswitch_rxq_usage_ratio", Fades, |told| {
        let labels = |rxq: &v1::Rxq| key(&[&rxq.bridge, &rxq.port, &rxq.queue.to_string(), &rxq.core.to_string()]);
        told.rxqs.iter().map(|rxq| (labels(rxq), rxq.usage_percent / 100.0)).collect()
    }),
    compare("vswitch_fdb_entries", Gauge, |told| bridges(told, |bridge| bridge.fdb.entries.into())),
    compare("vswitch_fdb_entries_max", Gauge, |told| bridges(told, |bridge| bridge.fdb.limit.into())),
    compare("vswitch_fdb_events_total", Counts, |told| {
        let mut samples = Samples::new();
        for ToldBridge { name, fdb, .. } in &told.bridges {
            let events = ["learned", "expired", "evicted", "moved", "refused"].into_iter();
            for (event, count) in events.zip([fdb.learned, fdb.expired, fdb.evicted, fdb.moved, fdb.refused]) {
                samples.insert(key(&[name, event]), f(count));
            }
        }
        samples
    }),
    compare("vswitch_flows", Gauge, |told| {
        flows(told, |bridge, table| {
            let number = table.number.to_string();
            Some(key(&[&bridge.name, if table.name.is_empty() { &number } else { &table.name }]))
        })
    }),
    compare("vswitch_groups", Gauge, |told| bridges(told, |bridge| bridge.groups.len() as u64)),
    compare("vswitch_meters", Gauge, |told| bridges(told, |bridge| bridge.meters.len() as u64)),
    compare("vswitch_meter_drops_total", Counts, |told| {
        let mut samples = Samples::new();
        for bridge in &told.bridges {
            for meter in &bridge.meters {
                let id = meter.meter.as_ref().expect("a meter").id.to_string();
                samples.insert(key(&[&bridge.name, &id]), f(dropped(meter)));
            }
        }
        samples
    }),
    compare("vswitch_controller_packets_total", Counts, |told| {
        let mut samples = Samples::new();
        for bridge in &told.bridges {
            for controller in &bridge.controllers {
                let id = controller.controller_id.to_string();
                let fates = [
                    ("told", controller.told),
                    ("lost", controller.lost),
                    ("metered", controller.metered),
                    ("limited", controller.limited),
                ];
                samples.extend(fates.map(|(fate, count)| (key(&[&bridge.name, &id, fate]), f(count))));
            }
        }
        samples
    }),
    compare("vswitch_conntrack_entries", Gauge, |told| one(f(told.conntrack.connections))),
    compare("vswitch_conntrack_entries_max", Gauge, |told| one(f(told.conntrack.connections_max))),
    compare("vswitch_conntrack_memory_bytes", Gauge, |told| one(f(told.conntrack.memory))),
    compare("vswitch_conntrack_events_total", Counts, |told| {
        let stats = &told.conntrack;
        let kinds = [
            ("created", stats.created),
            ("expired", stats.expired),
            ("flushed", stats.flushed),
            ("forgotten", stats.forgotten),
            ("early_drop", stats.dropped_early),
            ("full", stats.refused_full),
            ("zone_limit", stats.refused_zone),
            ("nat_exhausted", stats.refused_nat),
            ("tuple_taken", stats.refused_taken),
            ("port_full", stats.refused_port),
        ];
        kinds.map(|(kind, count)| (key(&[kind]), f(count))).into()
    }),
    compare("vswitch_conntrack_zone_entries", Gauge, |told| {
        told.zones.iter().map(|zone| (key(&[&zone.zone.to_string()]), zone.count.into())).collect()
    }),
    compare("vswitch_grpc_requests_total", Runs, |told| {
        let mut samples = Samples::new();
        for method in &told.calls.methods {
            samples.extend(method.codes.iter().map(|code| (key(&[&method.method, &code.code]), f(code.calls))));
        }
        samples
    }),
    compare("vswitch_grpc_requests_in_progress", Gauge, |told| {
        // The call that tells it is in progress itself.
        let own = |method: &str| u64::from(method == "vswitch.v1.StatisticsService/GetCalls");
        let all = told.calls.methods.iter();
        all.map(|method| (key(&[&method.method]), f(method.in_progress - own(&method.method)))).collect()
    }),
    compare("vswitch_grpc_request_seconds", Runs, |told| {
        let calls = &told.calls;
        let classes =
            calls.durations.iter().map(|class| (key(&[&format!("{:?}", class.up_to_ms / 1000.0)]), f(class.calls)));
        let mut samples: Samples = classes.collect();
        for name in ["+Inf", "count"] {
            samples.insert(key(&[name]), f(calls.timed_calls));
        }
        samples.insert(key(&["sum"]), f(calls.timed_us) / 1e6);
        samples
    }),
    compare("vswitch_stream_lost_total", Counts, |told| {
        told.calls.losses.iter().map(|losses| (key(&[&losses.kind]), f(losses.lost))).collect()
    }),
    compare("vswitch_listener_connections", Gauge, |told| listeners(told, |one| f(one.connections.into()))),
    compare("vswitch_listener_accepted_total", Counts, |told| listeners(told, |one| f(one.accepted))),
    compare("vswitch_listener_denied_total", Counts, |told| listeners(told, |one| f(one.denied))),
    compare("vswitch_listener_refused_total", Counts, |told| {
        let mut samples = Samples::new();
        for one in &told.listeners.listeners {
            let refusals = one.refusals.iter();
            samples.extend(refusals.map(|refusal| (key(&[&one.name, &refusal.reason]), f(refusal.count))));
        }
        samples
    }),
    compare("vswitch_listener_certificate_end_timestamp_seconds", Gauge, |told| {
        let listeners = told.listeners.listeners.iter();
        let ends = listeners.filter_map(|one| Some((key(&[&one.name]), one.certificate.as_ref()?.not_after)));
        ends.map(|(key, end)| (key, f(end.try_into().expect("behind 1970")))).collect()
    }),
    compare("vswitch_audit_lost_total", Counts, |told| one(f(told.listeners.audit_lost))),
    compare("vswitch_antrea_rule_packets_total", Counts, |told| rules(told, |rule| rule.packets)),
    compare("vswitch_antrea_rule_bytes_total", Counts, |told| rules(told, |rule| rule.bytes)),
    compare("vswitch_antrea_rule_sessions_total", Counts, |told| rules(told, |rule| rule.sessions)),
    compare("vswitch_antrea_gate_open", Gauge, |told| state(told, |state| yes(state.gate_open))),
    compare("vswitch_antrea_round", Gauge, |told| state(told, |state| f(state.round))),
    compare("vswitch_antrea_committed_timestamp_seconds", Gauge, |told| {
        state(told, |state| f(state.committed_unix_ms) / 1000.0)
    }),
    compare("vswitch_antrea_reported_timestamp_seconds", Gauge, |told| {
        state(told, |state| f(state.host.as_ref().expect("a report").reported_unix_ms) / 1000.0)
    }),
    compare("vswitch_antrea_restored", Gauge, |told| state(told, |state| yes(state.restored))),
    compare("vswitch_antrea_unwritten", Gauge, |told| state(told, |state| yes(!state.unwritten.is_empty()))),
    compare("vswitch_antrea_objects", Gauge, |told| {
        let mut samples = Samples::new();
        for kind in &told.antrea.kinds {
            let name = kind.kind().as_str_name().trim_start_matches("KIND_").to_lowercase();
            samples.insert(key(&[&name, "good"]), f(kind.objects - kind.degraded));
            samples.insert(key(&[&name, "degraded"]), f(kind.degraded));
        }
        samples
    }),
    compare("vswitch_antrea_flows", Gauge, |told| state(told, |state| f(state.flows))),
    compare("vswitch_antrea_clauses", Gauge, |told| state(told, |state| f(state.clauses))),
    compare("vswitch_antrea_memory_bytes", Gauge, |told| state(told, |state| f(state.memory))),
    compare("vswitch_antrea_fqdn_names", Gauge, |told| names(told, |names| names.names)),
    compare("vswitch_antrea_fqdn_addresses", Gauge, |told| names(told, |names| names.addresses)),
    compare("vswitch_antrea_dns_answers_total", Counts, |told| {
        let names = told.antrea.names.as_ref().expect("names");
        let (waited, unread, dropped) = (names.answers_waited, names.answers_unread, names.answers_dropped);
        let passed = names.answers - waited - unread - dropped;
        let fates = [("waited", waited), ("unread", unread), ("dropped", dropped), ("lost", names.answers_lost)];
        fates.into_iter().chain([("passed", passed)]).map(|(fate, count)| (key(&[fate]), f(count))).collect()
    }),
];
