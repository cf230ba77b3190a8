//! `--watch`: a listing again and again, until interrupted.
//!
//! **Where in the walk.** `run` comes here in place of asking once.
//!
//! **Design.** Each reading is asked for like a first one. On a terminal it replaces the one
//! before. Elsewhere each is a block below a line with its time, in JSON one line. Listings of
//! counters get rates (`rates`). A switch that goes away later is told in place of the listing: it
//! may come back.

use super::antrea::{clock, date, now_ms};
use super::{once, rates};
use crate::cli::{Cli, Format};
use crate::client::Client;
use crate::error::Error;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;

/// What an interval has told.
struct Reading {
    at: Instant,
    counters: Option<Value>,
}

/// Shows the listing each time that `every` has passed. Ends without an error when interrupted.
pub(super) async fn repeat(client: &Client, cli: &Cli, every: Duration, out: &mut dyn Write) -> Result<(), Error> {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let is_screen = cli.manner.format == Format::Text && std::io::stdout().is_terminal();
    let mut before: Option<Reading> = None;
    loop {
        let mut text = Vec::new();
        let asked = async {
            ticks.tick().await;
            once(client, cli, &mut text).await
        };
        let asked = tokio::select! {
            _ = &mut interrupted => return Ok(()),
            asked = asked => asked,
        };
        let counters = match asked {
            Ok(report) => report.filter(|_| rates::has(&cli.manner.verb)).map(|report| report.json()),
            Err(error @ Error::Unreachable { .. }) if before.is_some() => {
                error.report(cli.manner.format);
                continue;
            }
            Err(error) => return Err(error),
        };
        let now = Reading { at: Instant::now(), counters };
        let rates = before.as_ref().and_then(|before| {
            let seconds = now.at.duration_since(before.at).as_secs_f64();
            rates::between(&cli.manner.verb, before.counters.as_ref()?, now.counters.as_ref()?, seconds)
        });
        if cli.json {
            let answer: Value = serde_json::from_slice(&text).unwrap_or_default();
            let mut reading = json!({ "time": time(), "answer": answer });
            if let Some(rates) = rates {
                reading["rates"] = rates.json;
            }
            writeln!(out, "{reading}")?;
        } else {
            if text.is_empty()
                && let Some(listing) = cli.manner.listing
            {
                let _ = writeln!(text, "({})", listing.nothing);
            }
            let rates = rates.map_or_else(String::new, |rates| format!("\n{}", rates.text));
            let (front, end) = if is_screen { ("\x1b[H\x1b[2J", "") } else { ("", "\n") };
            writeln!(out, "{front}# {} {}", time(), cli.manner.verb)?;
            out.write_all(&text)?;
            write!(out, "{rates}{end}")?;
        }
        out.flush()?;
        before = Some(now);
    }
}

/// Now, in UTC.
fn time() -> String {
    let now = now_ms();
    let time = clock(now);
    format!("{}T{}Z", date(now), time.split('.').next().unwrap_or_default())
}
