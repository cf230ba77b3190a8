//! The page of connections.

use super::before::Before;
use super::sheet::{Cell, Column, Sheet, number, rounded};
use crate::commands::conntrack::protocol;
use crate::output::percent;
use serde_json::{Map, Value};
use vswitch_proto::v1;

/// Counting by protocol looks at each connection: of larger tables it is left to `ct-stats-show`.
pub(super) const COUNTED_MAX: u64 = 65_536;

/// What is read of the connection table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// In numbers. With protocols if there are at most [`COUNTED_MAX`] connections.
    pub(super) stats: v1::GetConntrackStatsResponse,
    /// By zone.
    pub(super) zones: v1::GetConntrackLimitsResponse,
}

const COLUMNS: &[Column] = &[
    number("ZONE", "zone"),
    number("CONNECTIONS", "connections"),
    number("CHANGE/S", "change_per_second"),
    number("LIMIT", "limit"),
    number("FULL %", "full_percent"),
];

/// Where the page has how many there are.
pub(super) const MAIN: usize = 1;

/// Counts of the table that become rates, by line: a word for people, a name for programs, where it
/// is.
type Counts = &'static [(&'static str, &'static str, fn(&v1::GetConntrackStatsResponse) -> u64)];

const EVENTS: Counts = &[
    ("new", "created", |stats| stats.created),
    ("expired", "expired", |stats| stats.expired),
    ("flushed", "flushed", |stats| stats.flushed),
    ("gave way", "dropped_early", |stats| stats.dropped_early),
    ("events lost", "events_lost", |stats| stats.events_lost),
];

const REFUSED: Counts = &[
    ("table full", "refused_full", |stats| stats.refused_full),
    ("share of port", "refused_port", |stats| stats.refused_port),
    ("limit of zone", "refused_zone", |stats| stats.refused_zone),
    ("no translation", "refused_nat", |stats| stats.refused_nat),
    ("tuple taken", "refused_taken", |stats| stats.refused_taken),
];

/// The page.
pub(super) fn sheet(now: &Table, before: Option<Before<'_, Table>>) -> Sheet {
    let mut sheet = Sheet::new(COLUMNS, "no zone has connections or a limit");
    let v1::GetConntrackStatsResponse { connections, connections_max, .. } = now.stats;
    let full = percent(connections, connections_max);
    sheet.lines.push(format!("connections: {connections} of {connections_max} ({full:.1} %)"));
    sheet.fact("connections", connections);
    sheet.fact("connections_max", connections_max);
    if full > 80.0 {
        sheet.alarm = Some(format!("the connection table is {full:.0} % full ([conntrack] connections sets its size)"));
    }
    for (what, counts) in [("per second", EVENTS), ("refused per second", REFUSED)] {
        let told = counts.iter().map(|(word, key, count)| {
            let rate = before.and_then(|before| before.rate(count(&before.data.stats), count(&now.stats)));
            sheet.fact(&format!("{key}_per_second"), rate);
            format!("{word} {}", rate.map_or("-".to_owned(), rounded))
        });
        let told: Vec<_> = told.collect();
        sheet.lines.push(format!("{what}: {}", told.join(", ")));
    }
    by_protocol(&mut sheet, &now.stats);
    for zone in &now.zones.zones {
        sheet.row(row(zone, now.zones.default_limit, before));
    }
    sheet
}

fn by_protocol(sheet: &mut Sheet, stats: &v1::GetConntrackStatsResponse) {
    let word = |number: u32| protocol(number).map_or_else(|| number.to_string(), str::to_owned);
    let counts: Vec<_> = stats.protocols.iter().map(|count| (word(count.protocol), count.connections)).collect();
    let text: Vec<_> = counts.iter().map(|(word, count)| format!("{word} {count}")).collect();
    sheet.lines.push(match stats.connections {
        COUNTED_MAX.. => "by protocol: many connections; `vsctl ct-stats-show` counts them".to_owned(),
        _ if text.is_empty() => "by protocol: none".to_owned(),
        _ => format!("by protocol: {}", text.join(", ")),
    });
    let counts = counts.into_iter().map(|(word, count)| (word, count.into()));
    sheet.fact("protocols", counts.collect::<Map<String, Value>>());
}

fn row(zone: &v1::ZoneLimit, default_limit: Option<u32>, before: Option<Before<'_, Table>>) -> Vec<Cell> {
    let limit = zone.limit.or(default_limit);
    // A zone that was not told had none.
    let old = |before: Before<'_, Table>| {
        before.data.zones.zones.iter().find(|old| old.zone == zone.zone).map_or(0, |old| old.count)
    };
    let change = before.map(|before| (f64::from(zone.count) - f64::from(old(before))) / before.seconds);
    vec![
        Cell::Count(Some(zone.zone.into())),
        Cell::Count(Some(zone.count.into())),
        Cell::Rate(change),
        Cell::Count(limit.map(Into::into)),
        Cell::Percent(limit.map(|limit| percent(zone.count.into(), limit.into()))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(connections: u64, created: u64, zones: &[(u32, u32, Option<u32>)]) -> Table {
        let count = |protocol, connections| v1::ProtocolCount { protocol, connections, ..Default::default() };
        let stats = v1::GetConntrackStatsResponse {
            connections,
            connections_max: 1000,
            created,
            refused_zone: created / 10,
            protocols: vec![count(6, connections - 1), count(99, 1)],
            ..Default::default()
        };
        let zone = |&(zone, count, limit): &(u32, u32, Option<u32>)| v1::ZoneLimit { zone, limit, count };
        let zones =
            v1::GetConntrackLimitsResponse { default_limit: Some(500), zones: zones.iter().map(zone).collect() };
        Table { stats, zones }
    }

    #[test]
    fn connections_by_zone_and_by_protocol() {
        let old = table(300, 1000, &[(1, 300, None)]);
        let now = table(250, 3000, &[(1, 200, None), (7, 50, Some(100))]);
        let sheet = sheet(&now, Some(Before { data: &old, seconds: 2.0 }));
        let want = "\
connections: 250 of 1000 (25.0 %)
per second: new 1.00k, expired 0.0, flushed 0.0, gave way 0.0, events lost 0.0
refused per second: table full 0.0, share of port 0.0, limit of zone 100, no translation 0.0, tuple taken 0.0
by protocol: tcp 249, 99 1
ZONE  CONNECTIONS  CHANGE/S  LIMIT  FULL %
   1          200     -50.0    500    40.0
   7           50      25.0    100    50.0
";
        assert_eq!(sheet.text(), want);
        let json = Value::Object(sheet.json());
        assert_eq!((&json["created_per_second"], &json["protocols"]["tcp"]), (&1000.0.into(), &249.into()));
    }

    #[test]
    fn a_full_table_is_an_alarm_and_a_large_one_is_not_counted() {
        let text = sheet(&table(900, 0, &[]), None).text();
        assert!(text.starts_with("the connection table is 90 % full"), "{text}");
        assert!(text.contains("per second: new -"), "{text}");
        let text = sheet(&table(COUNTED_MAX, 0, &[]), None).text();
        assert!(text.contains("`vsctl ct-stats-show` counts them"), "{text}");
    }
}
