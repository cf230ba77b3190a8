//! Connections.

use super::super::family::{Family, counter, gauge};
use super::SERIES_MAX;
use std::cmp::Reverse;

pub(super) static FAMILIES: &[Family] = &[
    gauge(
        "vswitch_conntrack_entries",
        "Connections.",
        &[],
        "ConntrackService.GetConntrackStats connections",
        |reading, samples| samples.push(&[], reading.conntrack.connections),
    ),
    gauge(
        "vswitch_conntrack_entries_max",
        "Connections that there may be.",
        &[],
        "ConntrackService.GetConntrackStats connections_max",
        |reading, samples| samples.push(&[], reading.conntrack.connections_max),
    ),
    gauge(
        "vswitch_conntrack_memory_bytes",
        "Memory for connections.",
        &[],
        "ConntrackService.GetConntrackStats memory",
        |reading, samples| samples.push(&[], reading.conntrack.memory),
    ),
    counter(
        "vswitch_conntrack_events_total",
        "What happened to connections; from early_drop on: what kept one from being.",
        &["kind"],
        "ConntrackService.GetConntrackStats created, expired, flushed, forgotten, dropped_early, refused_*",
        |reading, samples| {
            let stats = &reading.conntrack;
            samples.push(&["created"], stats.created);
            samples.push(&["expired"], stats.expired);
            samples.push(&["flushed"], stats.flushed);
            samples.push(&["forgotten"], stats.forgotten);
            samples.push(&["early_drop"], stats.dropped_early);
            samples.push(&["full"], stats.refused_full);
            samples.push(&["zone_limit"], stats.refused_zone);
            samples.push(&["nat_exhausted"], stats.refused_nat);
            samples.push(&["tuple_taken"], stats.refused_taken);
            samples.push(&["port_full"], stats.refused_port);
        },
    ),
    gauge(
        "vswitch_conntrack_zone_entries",
        "Connections of a zone; only of the 32 zones that have most.",
        &["zone"],
        "ConntrackService.GetConntrackLimits zones.count",
        |reading, samples| {
            let mut zones: Vec<(u32, u32)> = reading.zones.iter().map(|zone| (zone.count, zone.zone)).collect();
            zones.sort_unstable_by_key(|(count, zone)| (Reverse(*count), *zone));
            for (count, zone) in zones.into_iter().take(SERIES_MAX) {
                samples.push(&[&zone.to_string()], count);
            }
        },
    ),
];
