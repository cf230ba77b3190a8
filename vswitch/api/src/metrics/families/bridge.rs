//! Bridges: MAC tables, flows, groups, meters, controllers.

use super::super::family::{Family, Samples, Value, counter, gauge};
use super::bounded;
use crate::services::{BridgeReading, Reading};
use vswitch_proto::v1::ControllerState;

const BRIDGE: &[&str] = &["bridge"];

/// A fate of packets for controllers, and how many had it.
type Fate = (&'static str, fn(&ControllerState) -> u64);

const FATES: [Fate; 4] = [
    ("told", |controller| controller.told),
    ("lost", |controller| controller.lost),
    ("metered", |controller| controller.metered),
    ("limited", |controller| controller.limited),
];

pub(super) static FAMILIES: &[Family] = &[
    gauge(
        "vswitch_fdb_entries",
        "Addresses in the MAC table.",
        BRIDGE,
        "FdbService.GetFdbStats entries",
        |reading, samples| each(reading, samples, |bridge| bridge.fdb.entries),
    ),
    gauge(
        "vswitch_fdb_entries_max",
        "Addresses that the MAC table may hold.",
        BRIDGE,
        "FdbService.GetFdbStats limit",
        |reading, samples| each(reading, samples, |bridge| bridge.fdb.limit),
    ),
    counter(
        "vswitch_fdb_events_total",
        "What happened to addresses in the MAC table.",
        &["bridge", "event"],
        "FdbService.GetFdbStats learned, expired, evicted, moved, refused",
        |reading, samples| {
            for BridgeReading { name, fdb, .. } in &reading.bridges {
                samples.push(&[name, "learned"], fdb.learned);
                samples.push(&[name, "expired"], fdb.expired);
                samples.push(&[name, "evicted"], fdb.evicted);
                samples.push(&[name, "moved"], fdb.moved);
                samples.push(&[name, "refused"], fdb.refused);
            }
        },
    ),
    gauge(
        "vswitch_flows",
        "Flows, by table; only tables with flows.",
        &["bridge", "table"],
        "TableService.ListTables flows",
        |reading, samples| {
            for bridge in &reading.bridges {
                for table in bridge.tables.iter().filter(|table| table.flows > 0) {
                    let number = table.number.to_string();
                    let name = if table.name.is_empty() { &number } else { &table.name };
                    samples.push(&[&bridge.name, name], table.flows);
                }
            }
        },
    ),
    gauge("vswitch_groups", "Groups.", BRIDGE, "GroupService.ListGroups how many", |reading, samples| {
        each(reading, samples, |bridge| bridge.groups);
    }),
    gauge("vswitch_meters", "Meters.", BRIDGE, "MeterService.ListMeters how many", |reading, samples| {
        each(reading, samples, |bridge| bridge.meters.len() as u64);
    }),
    counter(
        "vswitch_meter_drops_total",
        "Packets that drop bands of a meter caught; from the 33rd meter on as other.",
        &["bridge", "meter"],
        "MeterService.ListMeters statistics.bands",
        |reading, samples| {
            for bridge in &reading.bridges {
                bounded(&bridge.meters, |id, packets| samples.push(&[&bridge.name, id], packets));
            }
        },
    ),
    counter(
        "vswitch_controller_packets_total",
        "Packets for controllers, by what became of them; from the 33rd controller on as other.",
        &["bridge", "id", "fate"],
        "PacketService.ListControllers told, lost, metered, limited",
        |reading, samples| {
            for bridge in &reading.bridges {
                for (fate, count) in FATES {
                    let of = |controller: &ControllerState| (controller.controller_id, count(controller));
                    let packets: Vec<(u32, u64)> = bridge.controllers.iter().map(of).collect();
                    bounded(&packets, |id, packets| samples.push(&[&bridge.name, id, fate], packets));
                }
            }
        },
    ),
];

fn each<V: Into<Value>>(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&BridgeReading) -> V) {
    for bridge in &reading.bridges {
        samples.push(&[&bridge.name], value(bridge));
    }
}
