//! The page of workers.

use super::before::Before;
use super::sheet::{Cell, Column, Sheet, name, number, rounded};
use crate::commands::perf::{decisions, levels, since, sum};
use crate::commands::worker::Load;
use crate::output::percent;
use serde_json::{Map, Value};
use vswitch_proto::v1;

const COLUMNS: &[Column] = &[
    number("CORE", "core"),
    number("BUSY %", "busy_percent"),
    number("IDLE %", "idle_percent"),
    number("SLEEP %", "sleep_percent"),
    number("PACKETS/S", "packets_per_second"),
    number("CYCLES/P", "cycles_per_packet"),
    number("MISSES/S", "misses_per_second"),
    number("MEGAFLOWS", "megaflows"),
    number("LOST/S", "lost_misses_per_second"),
    number("RXQS", "rxqs"),
    number("HEARTBEAT", "heartbeat_age_ms"),
    name("STATE", "state"),
];

/// Where the page has its rates: packets per second.
pub(super) const MAIN: usize = 4;

/// The page.
pub(super) fn sheet(workers: &[v1::Worker], before: Option<Before<'_, Vec<v1::Worker>>>) -> Sheet {
    let mut sheet = Sheet::new(COLUMNS, "no workers");
    let mut counted = Vec::new();
    for worker in workers {
        let of_before = before.and_then(|before| {
            let old = before.data.iter().find(|old| old.id == worker.id)?;
            Some((since(old, worker)?, before.seconds))
        });
        sheet.row(row(worker, of_before.as_ref()));
        counted.extend(of_before.map(|(counted, _)| counted));
        if let Some(panicked) = &worker.panicked {
            sheet.alarm = Some(format!("the worker on core {} has panicked: {panicked}", worker.core));
        }
    }
    if let (Some(before), false) = (before, counted.is_empty()) {
        describe(&mut sheet, &sum(&counted), before);
    } else {
        sheet.lines.push("decided: not known before the second reading".to_owned());
    }
    sheet
}

/// What all workers did.
fn describe(sheet: &mut Sheet, all: &v1::Worker, before: Before<'_, Vec<v1::Worker>>) {
    let caches = all.caches.clone().unwrap_or_default();
    let count = decisions(&caches);
    let (packets, decided) = (before.per_second(all.packets), before.per_second(count));
    let shares: Vec<_> =
        levels(&caches).into_iter().map(|(word, key, level)| (word, key, percent(level, count))).collect();
    let text: Vec<_> = shares.iter().map(|(word, _, share)| format!("{word} {share:.1} %")).collect();
    sheet.lines.push(format!("packets: {}/s, decisions: {}/s", rounded(packets), rounded(decided)));
    sheet.lines.push(format!("decided by {}", text.join(", ")));
    sheet.fact("packets_per_second", packets);
    sheet.fact("decisions_per_second", decided);
    let shares = shares.into_iter().map(|(_, key, share)| (key.to_owned(), share.into()));
    sheet.fact("decided_percent", shares.collect::<Map<String, Value>>());
}

fn row(worker: &v1::Worker, counted: Option<&(v1::Worker, f64)>) -> Vec<Cell> {
    let load = counted.map(|(counted, _)| Load::of(counted));
    let load = |part: fn(&Load) -> f64| load.as_ref().map(part);
    let rate = |count: fn(&v1::Worker) -> u64| {
        Cell::Rate(counted.map(|(counted, seconds)| super::before::per_second(count(counted), *seconds)))
    };
    let caches = |worker: &v1::Worker| worker.caches.clone().unwrap_or_default();
    vec![
        Cell::Count(Some(worker.core.into())),
        Cell::Percent(load(|load| load.busy)),
        Cell::Percent(load(|load| load.idle)),
        Cell::Percent(load(|load| load.sleep)),
        rate(|counted| counted.packets),
        Cell::Rate(load(|load| load.cycles_per_packet)),
        rate(|counted| counted.caches.as_ref().map_or(0, |caches| caches.misses)),
        Cell::Count(Some(caches(worker).megaflows)),
        rate(|counted| counted.caches.as_ref().map_or(0, |caches| caches.lost_misses)),
        Cell::Count(Some(worker.rxqs.into())),
        Cell::Count(Some(worker.heartbeat_age_ms)),
        Cell::text(if worker.panicked.is_some() { "panicked" } else { "runs" }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(core: u32, iterations: u64, packets: u64, misses: u64) -> v1::Worker {
        let caches = v1::Caches { exact_hits: packets - misses, misses, megaflows: 7, ..Default::default() };
        let (busy_cycles, idle_cycles, sleep_cycles) = (packets * 100, packets * 50, packets * 50);
        v1::Worker {
            id: core,
            core,
            iterations,
            packets,
            busy_cycles,
            idle_cycles,
            sleep_cycles,
            caches: Some(caches),
            ..Default::default()
        }
    }

    #[test]
    fn load_and_shares_are_of_the_time_between_two_readings() {
        let old = vec![worker(1, 10, 1000, 10), worker(2, 50, 7, 7)];
        let now = vec![worker(1, 20, 5000, 1010), worker(2, 5, 9, 9)];
        let sheet = sheet(&now, Some(Before { data: &old, seconds: 2.0 }));
        let want = "\
packets: 2.00k/s, decisions: 2.00k/s
decided by programs 0.0 %, first packets 0.0 %, exact-match cache 75.0 %, megaflow cache 0.0 %, misses 25.0 %
CORE  BUSY %  IDLE %  SLEEP %  PACKETS/S  CYCLES/P  MISSES/S  MEGAFLOWS  LOST/S  RXQS  HEARTBEAT  STATE
   1    50.0    25.0     25.0      2.00k       100       500          7     0.0     0          0  runs
   2       -       -        -          -         -         -          7       -     0          0  runs
";
        assert_eq!(sheet.text(), want);
        let json = Value::Object(sheet.json());
        assert_eq!(json["decided_percent"]["exact_hits"], 75.0);
        assert_eq!(json["rows"][1]["packets_per_second"], Value::Null, "its counts have started over");
    }

    #[test]
    fn a_worker_that_panicked_is_an_alarm() {
        let panicked = v1::Worker { panicked: Some("index out of bounds".to_owned()), ..worker(3, 1, 1, 1) };
        let sheet = sheet(&[panicked], None);
        let told = "the worker on core 3 has panicked: index out of bounds\n";
        assert!(sheet.text().starts_with(told), "{}", sheet.text());
    }
}
