//! `worker-perf-show`: how workers decide packets, and what that costs.

use super::worker::Load;
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Report, percent, ratio};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::Duration;
use tonic::Status;
use vswitch_proto::v1;

pub(super) async fn show(client: &Client, interval: Option<Duration>, only_total: bool) -> Answer {
    let mut workers = read(client).await?;
    if let Some(interval) = interval {
        tokio::time::sleep(interval).await;
        workers = between(&workers, &read(client).await?).ok_or_else(|| {
            client.error(Status::aborted(
                "the counts have started over meanwhile (worker-clear, a new vswitchd): ask again",
            ))
        })?;
    }
    Ok(Box::new(Perf { workers, interval, only_total }))
}

pub(super) async fn read(client: &Client) -> Result<Vec<v1::Worker>, Error> {
    Ok(client.answer(client.workers().await?.list_workers(v1::ListWorkersRequest {}).await)?.workers)
}

/// What workers counted between two readings. None: they are not the same ones, or their counts
/// have started over.
fn between(first: &[v1::Worker], second: &[v1::Worker]) -> Option<Vec<v1::Worker>> {
    let workers: Vec<_> = first.iter().zip(second).filter_map(|(first, second)| since(first, second)).collect();
    (workers.len() == first.len() && workers.len() == second.len()).then_some(workers)
}

/// What a worker counted between two readings. None: it is not the same one, or its counts have
/// started over.
pub(super) fn since(first: &v1::Worker, second: &v1::Worker) -> Option<v1::Worker> {
    let is_same = (first.id, first.core) == (second.id, second.core) && first.iterations <= second.iterations;
    is_same.then(|| {
        let mut worker = second.clone();
        combine(&mut worker, first, u64::saturating_sub);
        worker
    })
}

/// Applies `f` to every count of `to` and its counterpart of `other`. What the caches hold stays.
fn combine(to: &mut v1::Worker, other: &v1::Worker, f: fn(u64, u64) -> u64) {
    for (to, other) in [
        (&mut to.busy_cycles, other.busy_cycles),
        (&mut to.idle_cycles, other.idle_cycles),
        (&mut to.sleep_cycles, other.sleep_cycles),
        (&mut to.iterations, other.iterations),
        (&mut to.packets, other.packets),
        (&mut to.bursts, other.bursts),
    ] {
        *to = f(*to, other);
    }
    let (to, other) = (to.caches.get_or_insert_default(), other.caches.clone().unwrap_or_default());
    for (to, other) in [
        (&mut to.program_hits, other.program_hits),
        (&mut to.opening_hits, other.opening_hits),
        (&mut to.exact_hits, other.exact_hits),
        (&mut to.megaflow_hits, other.megaflow_hits),
        (&mut to.misses, other.misses),
        (&mut to.lost_misses, other.lost_misses),
        (&mut to.spared, other.spared),
        (&mut to.revalidated, other.revalidated),
        (&mut to.retired, other.retired),
    ] {
        *to = f(*to, other);
    }
    for (to, other) in to.fallbacks.iter_mut().zip(&other.fallbacks) {
        to.packets = f(to.packets, other.packets);
    }
}

/// What all workers counted and hold.
pub(super) fn sum(workers: &[v1::Worker]) -> v1::Worker {
    let mut workers = workers.iter();
    let mut sum = workers.next().cloned().unwrap_or_default();
    for worker in workers {
        combine(&mut sum, worker, u64::saturating_add);
        let (held, more) = (sum.caches.get_or_insert_default(), worker.caches.as_ref());
        held.paths += more.map_or(0, |caches| caches.paths);
        held.megaflows += more.map_or(0, |caches| caches.megaflows);
        held.masks += more.map_or(0, |caches| caches.masks);
    }
    sum
}

/// Packets that a worker received in a second; of several workers' sum, all of theirs in the time
/// of one.
#[allow(clippy::cast_precision_loss)] // for display
fn per_second(worker: &v1::Worker, workers: usize) -> f64 {
    let cycles = worker.busy_cycles.saturating_add(worker.idle_cycles).saturating_add(worker.sleep_cycles);
    ratio(worker.packets, cycles) * worker.tsc_hz as f64 * workers as f64
}

struct Perf {
    workers: Vec<v1::Worker>,
    /// Counted for so long; none: since the counts started.
    interval: Option<Duration>,
    only_total: bool,
}

impl Report for Perf {
    fn text(&self) -> String {
        let mut text = String::new();
        if !self.only_total {
            for worker in &self.workers {
                let _ = writeln!(text, "worker {} on core {}:", worker.id, worker.core);
                block(&mut text, worker, 1);
            }
        }
        // The sum of one worker is that worker.
        if self.only_total || self.workers.len() > 1 {
            let _ = writeln!(text, "all workers:");
            block(&mut text, &sum(&self.workers), self.workers.len());
        }
        text
    }

    fn json(&self) -> Value {
        let mut object = json!({ "total": numbers(&sum(&self.workers), self.workers.len()) });
        if let Some(interval) = self.interval {
            object["interval_seconds"] = json!(interval.as_secs_f64());
        }
        if !self.only_total {
            let worker = |worker: &v1::Worker| {
                let mut object = numbers(worker, 1);
                object["id"] = json!(worker.id);
                object["core"] = json!(worker.core);
                object
            };
            object["workers"] = self.workers.iter().map(worker).collect();
        }
        object
    }
}

/// The levels that decide packets, fastest first: a word for people, one for programs, how often.
pub(super) fn levels(caches: &v1::Caches) -> [(&'static str, &'static str, u64); 5] {
    [
        ("programs", "program_hits", caches.program_hits),
        ("first packets", "opening_hits", caches.opening_hits),
        ("exact-match cache", "exact_hits", caches.exact_hits),
        ("megaflow cache", "megaflow_hits", caches.megaflow_hits),
        ("misses", "misses", caches.misses),
    ]
}

/// What became of megaflows that used something which changed.
fn changes(caches: &v1::Caches) -> [(&'static str, u64); 3] {
    [("spared", caches.spared), ("revalidated", caches.revalidated), ("retired", caches.retired)]
}

pub(super) fn decisions(caches: &v1::Caches) -> u64 {
    levels(caches).iter().map(|(_, _, count)| count).sum()
}

fn all_fallbacks(caches: &v1::Caches) -> u64 {
    caches.fallbacks.iter().map(|fallback| fallback.packets).sum()
}

/// The lines of a worker, in the shape of pmd-perf-show.
fn block(text: &mut String, worker: &v1::Worker, workers: usize) {
    let (load, caches) = (Load::of(worker), worker.caches.clone().unwrap_or_default());
    let mut line = |what: &str, count: u64, more: String| {
        let _ = writeln!(text, "{}", format!("  {what:<20} {count:>15}  {more}").trim_end());
    };
    let (rate, cycles, burst) = (per_second(worker, workers), load.cycles_per_packet, load.packets_per_burst);
    line("packets:", worker.packets, format!("({rate:.0}/s, {cycles:.1} cycles/packet, {burst:.1} packets/burst)"));
    line("busy cycles:", worker.busy_cycles, format!("({:5.1} %)", load.busy));
    line("idle cycles:", worker.idle_cycles, format!("({:5.1} %)", load.idle));
    line("sleep cycles:", worker.sleep_cycles, format!("({:5.1} %)", load.sleep));
    let all = decisions(&caches);
    line("decisions:", all, format!("({:.2}/packet)", ratio(all, worker.packets)));
    for (name, _, count) in levels(&caches) {
        line(&format!("- {name}:"), count, format!("({:5.1} %)", percent(count, all)));
    }
    line("lost misses:", caches.lost_misses, String::new());
    let all = all_fallbacks(&caches);
    line("fallbacks:", all, String::new());
    for fallback in caches.fallbacks.iter().filter(|fallback| fallback.packets > 0) {
        let share = percent(fallback.packets, all);
        line(&format!("- {}:", fallback.reason), fallback.packets, format!("({share:5.1} %) {}", fallback.sentence));
    }
    line("megaflows changed:", changes(&caches).iter().map(|(_, count)| count).sum(), String::new());
    for (name, count) in changes(&caches) {
        line(&format!("- {name}:"), count, String::new());
    }
    line("paths now:", caches.paths, String::new());
    line("megaflows now:", caches.megaflows, String::new());
    line("masks now:", caches.masks, String::new());
}

fn numbers(worker: &v1::Worker, workers: usize) -> Value {
    let (load, caches) = (Load::of(worker), worker.caches.clone().unwrap_or_default());
    let all = decisions(&caches);
    let level = |(_, name, count): (&str, &'static str, u64)| {
        (name.to_owned(), json!({ "count": count, "percent": percent(count, all) }))
    };
    let fallback = |fallback: &v1::FallbackCount| (fallback.reason.clone(), json!(fallback.packets));
    json!({
        "packets": worker.packets,
        "packets_per_second": per_second(worker, workers),
        "cycles_per_packet": load.cycles_per_packet,
        "packets_per_burst": load.packets_per_burst,
        "busy_percent": load.busy,
        "idle_percent": load.idle,
        "sleep_percent": load.sleep,
        "decisions": all,
        "decisions_per_packet": ratio(all, worker.packets),
        "levels": levels(&caches).into_iter().map(level).collect::<Map<_, _>>(),
        "lost_misses": caches.lost_misses,
        "fallbacks": caches.fallbacks.iter().map(fallback).collect::<Map<_, _>>(),
        "changed_megaflows": changes(&caches).into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect::<Map<_, _>>(),
        "paths": caches.paths,
        "megaflows": caches.megaflows,
        "masks": caches.masks,
    })
}

#[cfg(test)]
#[path = "perf_tests.rs"]
mod tests;
