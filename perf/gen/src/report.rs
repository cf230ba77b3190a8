//! What is told, as JSON: one object per event.

use crate::cli::Rate;
use crate::histogram::Histogram;
use crate::trial::{Outcome, Trial};
use serde_json::{Map, Value, json};

/// Names of percentiles, and how many of a thousand packets are not slower.
const PERCENTILES: [(&str, u64); 4] = [("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999)];

/// Both ends are there.
pub(crate) fn connected(hz: u64) -> Value {
    json!({"event": "connected", "tsc_hz": hz})
}

/// A trial begins, with its warm-up.
pub(crate) fn started(rate: Rate, pps: Option<u64>) -> Value {
    json!({"event": "started", "rate": rate.to_string(), "pps": pps})
}

/// A trial is over.
pub(crate) fn result(trial: &Trial, outcome: &Outcome) -> Value {
    let tally = &outcome.tally;
    json!({
        "event": "result",
        "pps": trial.pps,
        "sent": outcome.sent,
        "received": tally.received,
        "lost": outcome.sent.saturating_sub(tally.received),
        // More than were sent: something on the way has made copies.
        "surplus": tally.received.saturating_sub(outcome.sent),
        "reordered": tally.reordered,
        "foreign": tally.foreign,
        "given_up": outcome.given_up,
        "sent_pps": outcome.sent_pps(),
        "received_pps": outcome.received_pps(),
        "blocked": part(outcome.blocked, outcome.cycles),
        "latency_us": latency(&tally.all, trial.hz),
        "undisturbed": part(tally.undisturbed.count(), tally.all.count()),
        "undisturbed_us": latency(&tally.undisturbed, trial.hz),
        "gaps": {
            "count": tally.gaps.count,
            "part": part(tally.gaps.cycles, outcome.cycles),
            "longest_us": micros(tally.gaps.longest, trial.hz),
        },
    })
}

/// Null when nothing came.
fn latency(histogram: &Histogram, hz: u64) -> Value {
    let told = |value: Option<u64>| value.map(|cycles| micros(cycles, hz)).map_or(Value::Null, Into::into);
    let mut values = Map::new();
    values.insert("min".to_owned(), told(histogram.least()));
    values.extend(PERCENTILES.map(|(name, part)| (name.to_owned(), told(histogram.per_mille(part)))));
    values.insert("max".to_owned(), told(histogram.most()));
    values.into()
}

/// Cycles as microseconds, to the nanosecond.
fn micros(cycles: u64, hz: u64) -> f64 {
    rounded(to_f64(cycles) * 1e6 / to_f64(hz), 1e3)
}

fn part(of: u64, whole: u64) -> f64 {
    rounded(to_f64(of) / to_f64(whole.max(1)), 1e5)
}

fn rounded(value: f64, digits: f64) -> f64 {
    (value * digits).round() / digits
}

#[allow(clippy::cast_precision_loss)] // for people
fn to_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_microseconds_and_none_is_null() {
        let mut histogram = Histogram::new();
        assert_eq!(latency(&histogram, 1)["p50"], Value::Null);
        histogram.add(100);
        histogram.add(2600);
        let told = latency(&histogram, 2_600_000_000);
        assert_eq!(told, json!({"min": 0.038, "p50": 0.038, "p90": 1.0, "p99": 1.0, "p99.9": 1.0, "max": 1.0}));
    }

    #[test]
    fn parts_of_nothing_are_nothing() {
        assert_eq!((part(0, 0), part(1, 3)), (0.0, 0.33333));
    }
}
