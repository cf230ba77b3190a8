//! Rates between two readings of a listing of counters.
//!
//! **Where in the walk.** `watch` shows them below the listing.
//!
//! **Design.** Readings are compared as JSON, by the key of each row. A row that was not there
//! before, or whose counters began again, has no rates.

use crate::output::table;
use serde_json::{Map, Value, json};

/// A column: its heading, its counter, and the factor to its unit.
type Column = (&'static str, &'static str, f64);

/// Listings with counters: the verb, the key of a row, the columns.
const COUNTERS: &[(&str, &str, &[Column])] = &[
    (
        "dump-ports",
        "name",
        &[
            ("RX PACKETS/S", "rx_packets", 1.0),
            ("RX MBIT/S", "rx_bytes", 8e-6),
            ("RX DROPS/S", "rx_dropped", 1.0),
            ("TX PACKETS/S", "tx_packets", 1.0),
            ("TX MBIT/S", "tx_bytes", 8e-6),
            ("TX DROPS/S", "tx_dropped", 1.0),
        ],
    ),
    (
        "worker-show",
        "core",
        &[
            ("PACKETS/S", "packets", 1.0),
            ("BURSTS/S", "bursts", 1.0),
            ("BUSY MCYCLES/S", "busy_cycles", 1e-6),
            ("IDLE MCYCLES/S", "idle_cycles", 1e-6),
            ("SLEEP MCYCLES/S", "sleep_cycles", 1e-6),
        ],
    ),
];

/// Rates, both ways.
pub(super) struct Rates {
    /// A table.
    pub(super) text: String,
    /// Per row and counter, in units of the counter per second.
    pub(super) json: Value,
}

fn counters(verb: &str) -> Option<(&'static str, &'static [Column])> {
    COUNTERS.iter().find(|(name, ..)| *name == verb).map(|(_, key, columns)| (*key, *columns))
}

/// Whether a listing has counters.
pub(super) fn has(verb: &str) -> bool {
    counters(verb).is_some()
}

/// Rates of a listing between two readings, which are so many seconds apart.
pub(super) fn between(verb: &str, before: &Value, now: &Value, seconds: f64) -> Option<Rates> {
    let (key, columns) = counters(verb)?;
    let headings: Vec<_> =
        std::iter::once((key, false)).chain(columns.iter().map(|(name, ..)| (*name, true))).collect();
    let (mut rows, mut json) = (Vec::new(), Map::new());
    for row in now.as_array()? {
        let old = before.as_array()?.iter().find(|old| old[key] == row[key]);
        let rate = |counter: &str| rate(old?, row, counter, seconds);
        let name = row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned);
        let cell =
            |(_, counter, unit): &Column| rate(counter).map_or("-".to_owned(), |rate| format!("{:.1}", rate * unit));
        rows.push(std::iter::once(name.clone()).chain(columns.iter().map(cell)).collect());
        json.insert(
            name,
            columns.iter().map(|(_, counter, _)| ((*counter).to_owned(), json!(rate(counter)))).collect(),
        );
    }
    let upper = key.to_uppercase();
    let headings: Vec<_> =
        headings.iter().map(|(name, number)| (if *name == key { upper.as_str() } else { name }, *number)).collect();
    Some(Rates { text: table(&headings, rows), json: Value::Object(json) })
}

#[allow(clippy::cast_precision_loss)] // for display
fn rate(old: &Value, new: &Value, counter: &str, seconds: f64) -> Option<f64> {
    let more = new[counter].as_u64()?.checked_sub(old[counter].as_u64()?)?;
    (seconds > 0.0).then(|| more as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_by_time() {
        let port = |name: &str, packets: u64, bytes: u64| json!({ "name": name, "rx_packets": packets, "rx_bytes": bytes, "rx_dropped": 0, "tx_packets": 7, "tx_bytes": 0, "tx_dropped": 0 });
        let before = json!([port("p1", 100, 1_000_000), port("again", 50, 0)]);
        let now = json!([port("p1", 300, 2_000_000), port("again", 10, 0), port("new", 5, 5)]);
        let rates = between("dump-ports", &before, &now, 2.0).expect("rates");
        let row = |name: &str| {
            let line = rates.text.lines().find(|line| line.starts_with(name)).expect(name);
            line.split_whitespace().skip(1).take(4).map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(rates.text.starts_with("NAME"), "{}", rates.text);
        assert_eq!(row("p1"), ["100.0", "4.0", "0.0", "0.0"]);
        assert_eq!(row("again")[0], "-", "counters began again");
        assert_eq!(row("new")[0], "-");
        assert_eq!(rates.json["p1"]["rx_bytes"], 500_000.0);
        assert_eq!(rates.json["new"]["rx_bytes"], Value::Null);
        assert!(between("show", &before, &now, 2.0).is_none());
    }
}
