use super::*;

fn fallback(reason: &str, packets: u64) -> v1::FallbackCount {
    v1::FallbackCount { reason: reason.to_owned(), sentence: format!("Why {reason}."), packets }
}

fn workers() -> Vec<v1::Worker> {
    let caches = v1::Caches {
        program_hits: 4,
        exact_hits: 3,
        megaflow_hits: 2,
        misses: 1,
        lost_misses: 11,
        spared: 12,
        revalidated: 13,
        retired: 14,
        fallbacks: vec![fallback("untracked", 3), fallback("changed", 0), fallback("checksum", 1)],
        paths: 5,
        megaflows: 6,
        masks: 7,
        opening_hits: 10,
    };
    let busy = v1::Worker {
        id: 0,
        core: 3,
        tsc_hz: 2000,
        busy_cycles: 500,
        idle_cycles: 250,
        sleep_cycles: 250,
        iterations: 20,
        packets: 8,
        bursts: 2,
        heartbeat_age_ms: 4,
        rxqs: 2,
        panicked: None,
        nonvoluntary_switches: None,
        caches: Some(caches),
    };
    vec![busy.clone(), v1::Worker { id: 1, core: 11, packets: 0, caches: None, ..busy }]
}

fn perf(only_total: bool) -> Perf {
    Perf { workers: workers(), interval: None, only_total }
}

#[test]
fn text() {
    let want = "\
worker 0 on core 3:
  packets:                           8  (16/s, 62.5 cycles/packet, 4.0 packets/burst)
  busy cycles:                     500  ( 50.0 %)
  idle cycles:                     250  ( 25.0 %)
  sleep cycles:                    250  ( 25.0 %)
  decisions:                        20  (2.50/packet)
  - programs:                        4  ( 20.0 %)
  - first packets:                  10  ( 50.0 %)
  - exact-match cache:               3  ( 15.0 %)
  - megaflow cache:                  2  ( 10.0 %)
  - misses:                          1  (  5.0 %)
  lost misses:                      11
  fallbacks:                         4
  - untracked:                       3  ( 75.0 %) Why untracked.
  - checksum:                        1  ( 25.0 %) Why checksum.
  megaflows changed:                39
  - spared:                         12
  - revalidated:                    13
  - retired:                        14
  paths now:                         5
  megaflows now:                     6
  masks now:                         7
";
    let one = Perf { workers: vec![workers()[0].clone()], ..perf(false) };
    assert_eq!(one.text(), want, "one worker needs no sum");
    let text = perf(false).text();
    assert!(text.starts_with(want), "{text}");
    let (_, rest) = text.split_once("worker 1 on core 11:\n").expect("the other worker");
    assert!(
        rest.starts_with("  packets:                           0  (0/s, 0.0 cycles/packet, 0.0 packets/burst)\n"),
        "{rest}"
    );
    let (_, total) = rest.split_once("all workers:\n").expect("the sum");
    assert!(
        total.starts_with("  packets:                           8  (16/s, 125.0 cycles/packet, 2.0 packets/burst)\n"),
        "{total}"
    );
    assert_eq!(perf(true).text(), format!("all workers:\n{total}"));
}

#[test]
fn json() {
    let want = json!({
        "id": 0, "core": 3, "packets": 8, "packets_per_second": 16.0, "cycles_per_packet": 62.5, "packets_per_burst": 4.0,
        "busy_percent": 50.0, "idle_percent": 25.0, "sleep_percent": 25.0,
        "decisions": 20, "decisions_per_packet": 2.5,
        "levels": {
            "program_hits": { "count": 4, "percent": 20.0 },
            "opening_hits": { "count": 10, "percent": 50.0 },
            "exact_hits": { "count": 3, "percent": 15.0 },
            "megaflow_hits": { "count": 2, "percent": 10.0 },
            "misses": { "count": 1, "percent": 5.0 },
        },
        "lost_misses": 11,
        "changed_megaflows": { "spared": 12, "revalidated": 13, "retired": 14 },
        "fallbacks": { "untracked": 3, "changed": 0, "checksum": 1 },
        "paths": 5, "megaflows": 6, "masks": 7,
    });
    let shown = perf(false).json();
    assert_eq!(shown["workers"][0], want);
    assert_eq!(shown["workers"][1]["levels"]["misses"], json!({ "count": 0, "percent": 0.0 }), "nothing to divide by");
    assert_eq!(shown["interval_seconds"], Value::Null);
    let total = Perf { interval: Some(Duration::from_millis(500)), ..perf(true) }.json();
    assert_eq!((&total["workers"], &total["interval_seconds"]), (&Value::Null, &json!(0.5)));
    assert_eq!(total["total"]["levels"], want["levels"]);
}

#[test]
fn a_sum_has_everything_of_everyone() {
    let workers = [workers()[0].clone(), workers()[0].clone()];
    let sum = sum(&workers);
    assert_eq!((sum.busy_cycles, sum.idle_cycles, sum.sleep_cycles), (1000, 500, 500));
    assert_eq!((sum.iterations, sum.packets, sum.bursts), (40, 16, 4));
    let caches = sum.caches.clone().expect("caches");
    assert_eq!((caches.program_hits, caches.opening_hits), (8, 20));
    assert_eq!((caches.exact_hits, caches.megaflow_hits, caches.misses), (6, 4, 2));
    assert_eq!((caches.lost_misses, caches.spared, caches.revalidated, caches.retired), (22, 24, 26, 28));
    assert_eq!(caches.fallbacks, [fallback("untracked", 6), fallback("changed", 0), fallback("checksum", 2)]);
    assert_eq!((caches.paths, caches.megaflows, caches.masks), (10, 12, 14));
    assert!((per_second(&sum, 2) - 32.0).abs() < 1e-9, "both at a time");
    assert_eq!(super::sum(&[]), v1::Worker::default());
}

#[test]
fn an_interval_is_what_lies_between_two_readings() {
    let first = workers();
    let mut second = first.clone();
    second[0].packets += 5;
    second[0].iterations += 1;
    let caches = second[0].caches.as_mut().expect("caches");
    caches.program_hits += 5;
    caches.fallbacks[2].packets += 2;
    caches.masks = 1;
    let found = between(&first, &second).expect("the same workers");
    assert_eq!((found[0].packets, found[0].iterations, found[0].busy_cycles), (5, 1, 0));
    let caches = found[0].caches.as_ref().expect("caches");
    assert_eq!((caches.program_hits, caches.exact_hits), (5, 0));
    assert_eq!(caches.fallbacks.iter().map(|fallback| fallback.packets).collect::<Vec<_>>(), [0, 0, 2]);
    assert_eq!((caches.paths, caches.masks), (5, 1), "what they hold, they hold now");

    second[1].iterations -= 1;
    assert_eq!(between(&first, &second), None, "the counts have started over");
    assert_eq!(between(&first[1..], &second), None, "other workers");
}
