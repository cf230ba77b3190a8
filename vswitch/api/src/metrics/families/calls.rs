//! Calls of gRPC, and streams.

use super::super::family::{Family, Kind, counter, gauge};

pub(super) static FAMILIES: &[Family] = &[
    counter(
        "vswitch_grpc_requests_total",
        "Calls that have ended, by method and code.",
        &["method", "code"],
        "StatisticsService.GetCalls methods.codes",
        |reading, samples| {
            for method in &reading.calls.methods {
                for code in &method.codes {
                    samples.push(&[&method.method, &code.code], code.calls);
                }
            }
        },
    ),
    gauge(
        "vswitch_grpc_requests_in_progress",
        "Calls in progress, such as streams; only methods that were called.",
        &["method"],
        "StatisticsService.GetCalls methods.in_progress",
        |reading, samples| {
            for method in &reading.calls.methods {
                samples.push(&[&method.method], method.in_progress);
            }
        },
    ),
    Family {
        name: "vswitch_grpc_request_seconds",
        help: "How long calls took that send one message and get one.",
        kind: Kind::Histogram,
        labels: &[],
        from: "StatisticsService.GetCalls durations, timed_calls, timed_us",
        read: |reading, samples| {
            let calls = &reading.calls;
            let classes = calls.durations.iter().map(|class| (class.up_to_ms / 1000.0, class.calls));
            #[allow(clippy::cast_precision_loss)] // exact for 285 years
            samples.histogram(classes, calls.timed_calls, calls.timed_us as f64 / 1e6);
        },
    },
    counter(
        "vswitch_stream_lost_total",
        "What streams did not tell their subscribers, since those were slow.",
        &["kind"],
        "StatisticsService.GetCalls losses",
        |reading, samples| {
            for losses in &reading.calls.losses {
                samples.push(&[&losses.kind], losses.lost);
            }
        },
    ),
];
