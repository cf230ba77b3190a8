//! Workers and receive queues.

use super::super::family::{Family, Samples, Value, counter, gauge};
use super::switch::seconds;
use crate::services::Reading;
use vswitch_proto::v1;

const CORE: &[&str] = &["core"];

pub(super) static FAMILIES: &[Family] = &[
    counter(
        "vswitch_worker_cycles_total",
        "TSC cycles of a worker: busy with packets, idle without, asleep.",
        &["core", "state"],
        "WorkerService.ListWorkers busy_cycles, idle_cycles, sleep_cycles",
        |reading, samples| {
            for worker in &reading.workers {
                let core = worker.core.to_string();
                samples.push(&[&core, "busy"], worker.busy_cycles);
                samples.push(&[&core, "idle"], worker.idle_cycles);
                samples.push(&[&core, "sleep"], worker.sleep_cycles);
            }
        },
    ),
    counter(
        "vswitch_worker_packets_total",
        "Packets that a worker received.",
        CORE,
        "WorkerService.ListWorkers packets",
        |reading, samples| each(reading, samples, |worker| worker.packets),
    ),
    counter(
        "vswitch_worker_bursts_total",
        "Bursts that had packets.",
        CORE,
        "WorkerService.ListWorkers bursts",
        |reading, samples| each(reading, samples, |worker| worker.bursts),
    ),
    counter(
        "vswitch_worker_iterations_total",
        "Iterations of a worker's loop.",
        CORE,
        "WorkerService.ListWorkers iterations",
        |reading, samples| each(reading, samples, |worker| worker.iterations),
    ),
    gauge(
        "vswitch_worker_heartbeat_age_seconds",
        "Time since the last heartbeat of a worker.",
        CORE,
        "WorkerService.ListWorkers heartbeat_age_ms",
        |reading, samples| each(reading, samples, |worker| seconds(worker.heartbeat_age_ms)),
    ),
    gauge(
        "vswitch_worker_panicked",
        "Whether a worker has panicked: it runs no more.",
        CORE,
        "WorkerService.ListWorkers panicked",
        |reading, samples| each(reading, samples, |worker| worker.panicked.is_some()),
    ),
    counter(
        "vswitch_worker_nonvoluntary_switches_total",
        "How often the kernel took the core of a worker away.",
        CORE,
        "WorkerService.ListWorkers nonvoluntary_switches",
        |reading, samples| {
            for worker in &reading.workers {
                if let Some(switches) = worker.nonvoluntary_switches {
                    samples.push(&[&worker.core.to_string()], switches);
                }
            }
        },
    ),
    counter(
        "vswitch_worker_decisions_total",
        "Decisions, by what made them: program, first, exact, megaflow, miss (the tables).",
        &["core", "by"],
        "WorkerService.ListWorkers caches.*_hits, caches.misses",
        |reading, samples| {
            for (core, caches) in caches(reading) {
                samples.push(&[&core, "program"], caches.program_hits);
                samples.push(&[&core, "first"], caches.opening_hits);
                samples.push(&[&core, "exact"], caches.exact_hits);
                samples.push(&[&core, "megaflow"], caches.megaflow_hits);
                samples.push(&[&core, "miss"], caches.misses);
            }
        },
    ),
    counter(
        "vswitch_worker_lost_misses_total",
        "Packets that were dropped, since their port had had as many misses as it may (miss_rate).",
        CORE,
        "WorkerService.ListWorkers caches.lost_misses",
        |reading, samples| each_cache(reading, samples, |caches| caches.lost_misses),
    ),
    counter(
        "vswitch_worker_fallbacks_total",
        "Packets of connections that took the slow path, by reason; only reasons that happened.",
        &["core", "reason"],
        "WorkerService.ListWorkers caches.fallbacks",
        |reading, samples| {
            for (core, caches) in caches(reading) {
                for fallback in caches.fallbacks.iter().filter(|fallback| fallback.packets > 0) {
                    samples.push(&[&core, &fallback.reason], fallback.packets);
                }
            }
        },
    ),
    counter(
        "vswitch_worker_revalidations_total",
        "Megaflows that met a change of the tables, by what became of them.",
        &["core", "fate"],
        "WorkerService.ListWorkers caches.spared, caches.revalidated, caches.retired",
        |reading, samples| {
            for (core, caches) in caches(reading) {
                samples.push(&[&core, "spared"], caches.spared);
                samples.push(&[&core, "revalidated"], caches.revalidated);
                samples.push(&[&core, "retired"], caches.retired);
            }
        },
    ),
    gauge(
        "vswitch_worker_megaflows",
        "Megaflows that a worker holds.",
        CORE,
        "WorkerService.ListWorkers caches.megaflows",
        |reading, samples| each_cache(reading, samples, |caches| caches.megaflows),
    ),
    gauge(
        "vswitch_worker_masks",
        "Masks of megaflows that a worker holds.",
        CORE,
        "WorkerService.ListWorkers caches.masks",
        |reading, samples| each_cache(reading, samples, |caches| caches.masks),
    ),
    gauge(
        "vswitch_worker_paths",
        "Paths of connection programs that a worker holds.",
        CORE,
        "WorkerService.ListWorkers caches.paths",
        |reading, samples| each_cache(reading, samples, |caches| caches.paths),
    ),
    gauge(
        "vswitch_rxq_usage_ratio",
        "Part of a worker's cycles that a receive queue took over the last seconds.",
        &["bridge", "port", "queue", "core"],
        "WorkerService.ListRxqs usage_percent",
        |reading, samples| {
            for rxq in &reading.rxqs {
                let labels = [&rxq.bridge, &rxq.port, &rxq.queue.to_string(), &rxq.core.to_string()];
                samples.push(&labels.map(String::as_str), rxq.usage_percent / 100.0);
            }
        },
    ),
];

fn each<V: Into<Value>>(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&v1::Worker) -> V) {
    for worker in &reading.workers {
        samples.push(&[&worker.core.to_string()], value(worker));
    }
}

fn caches(reading: &Reading) -> impl Iterator<Item = (String, &v1::Caches)> {
    reading.workers.iter().filter_map(|worker| Some((worker.core.to_string(), worker.caches.as_ref()?)))
}

fn each_cache(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&v1::Caches) -> u64) {
    for (core, caches) in caches(reading) {
        samples.push(&[&core], value(caches));
    }
}
