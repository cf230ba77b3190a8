//! The switch as a whole.

use super::super::family::{Family, counter, gauge};
use vswitch_proto::v1::HealthCondition;

pub(super) static FAMILIES: &[Family] = &[
    gauge(
        "vswitch_build_info",
        "The switch that runs; its value is 1.",
        &["version", "dpdk", "cpu"],
        "CapabilitiesService.GetCapabilities version",
        |reading, samples| {
            let version = &reading.version;
            samples.push(&[&version.package, &version.dpdk_runtime, &version.cpu_baseline], true);
        },
    ),
    gauge(
        "vswitch_up_seconds",
        "Time since the switch was started.",
        &[],
        "StatisticsService.GetHealth up_ms",
        |reading, samples| samples.push(&[], seconds(reading.health.up_ms)),
    ),
    gauge(
        "vswitch_healthy",
        "Whether the switch forwards and obeys.",
        &[],
        "StatisticsService.GetHealth serving",
        |reading, samples| samples.push(&[], reading.health.serving),
    ),
    gauge(
        "vswitch_part_good",
        "Whether a part of the switch is as it should be.",
        &["part"],
        "StatisticsService.GetHealth parts",
        |reading, samples| {
            for part in &reading.health.parts {
                samples.push(&[&part.name], part.condition() == HealthCondition::Good);
            }
        },
    ),
    gauge(
        "vswitch_mbufs",
        "Packet buffers, by state.",
        &["state"],
        "StatisticsService.GetMempool size, in_use",
        |reading, samples| {
            let pool = &reading.mempool;
            samples.push(&["in_use"], pool.in_use);
            samples.push(&["free"], pool.size.saturating_sub(pool.in_use));
        },
    ),
    gauge(
        "vswitch_heap_bytes",
        "Memory of DPDK's heap that is allocated.",
        &[],
        "StatisticsService.GetMempool heap_bytes",
        |reading, samples| samples.push(&[], reading.mempool.heap_bytes),
    ),
    counter(
        "vswitch_log_lines_lost_total",
        "Lines of the log that did not fit, since its reader was slow.",
        &["level"],
        "StatisticsService.GetLog lost_*",
        |reading, samples| {
            let log = &reading.log;
            samples.push(&["error"], log.lost_error);
            samples.push(&["warn"], log.lost_warn);
            samples.push(&["info"], log.lost_info);
            samples.push(&["debug"], log.lost_debug);
            samples.push(&["trace"], log.lost_trace);
        },
    ),
    counter(
        "vswitch_log_lines_left_out_total",
        "Lines of the log that were left out, since too many of their kind came within a second.",
        &[],
        "StatisticsService.GetLog left_out",
        |reading, samples| samples.push(&[], reading.log.left_out),
    ),
];

/// Milliseconds as Prometheus has them.
#[allow(clippy::cast_precision_loss)] // exact for 285,000 years
pub(super) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
