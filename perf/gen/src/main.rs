//! `vsgen`: sends packets at a steady rate through a switch, and tells how long each took.
//!
//! Each packet carries a number and the time stamp counter of when it was sent. One thread sends at
//! one end and receives at the other (or at the same, with one port), so both stamps are of one
//! core's counter. `cli` is what can be asked, `ends` are the DPDK devices, `frame` is what a
//! packet looks like, `pace` when the next one is due, `trial` the loop that measures, `tally` and
//! `histogram` what it keeps, `report` how it looks as JSON.
//!
//! Nothing is allocated, and nothing asked of the kernel, per packet. It ends by itself: a watchdog
//! sees to that.
//!
//! Exit codes: 0 done; 1 a device did not open or an answer could not be written; 2 wrong usage; 3
//! it did not end in time.
#![forbid(unsafe_code)]

mod cli;
mod ends;
mod frame;
mod histogram;
mod pace;
mod report;
mod tally;
mod trial;

use anyhow::Context;
use clap::Parser;
use cli::{Cli, Rate};
use ends::Ends;
use frame::Frames;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use trial::Trial;
use vswitch_dpdk::lcore::{Lcore, tsc_hz};

/// Exit code when it did not end in time: a device waits for its other side for ever.
const LATE: i32 = 3;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "vsgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    watch(cli.longest());
    let frames = Frames::new(&cli.plan()?)?;
    let mut ends = Ends::open(cli)?;
    let _lcore = Lcore::enter(cli.core).with_context(|| format!("core {}", cli.core))?;
    let hz = tsc_hz();
    say(&report::connected(hz))?;
    if cli.announce {
        ends.announce(&frames);
    }
    let mut capacity = None;
    for (number, rate) in (0_u8..).zip(&cli.rates) {
        let pps = pps(*rate, capacity);
        say(&report::started(*rate, pps))?;
        let trial = Trial { pps, number, hz, warm_up: cli.warm_up, length: cli.seconds };
        let outcome = trial.run(&mut ends, &frames);
        if *rate == Rate::Max {
            capacity = Some(outcome.received_pps());
        }
        say(&report::result(&trial, &outcome))?;
    }
    Ok(())
}

/// Packets per second of a trial; none: as fast as it goes. A share is of what came through in the
/// last trial without limit.
fn pps(rate: Rate, capacity: Option<u64>) -> Option<u64> {
    match rate {
        Rate::Max => None,
        Rate::Pps(pps) => Some(pps),
        Rate::Percent(percent) => Some((capacity.unwrap_or(0) * u64::from(percent) / 100).max(1)),
    }
}

/// Ends the process when it has not ended by itself.
fn watch(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        let _ = writeln!(std::io::stderr(), "vsgen: not done after {} s: is the other side there?", limit.as_secs());
        std::process::exit(LATE);
    });
}

/// A line for whoever started it.
fn say(value: &serde_json::Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}").and_then(|()| out.flush()).context("cannot write to stdout")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_what_came_through_without_limit() {
        assert_eq!(pps(Rate::Max, Some(9)), None);
        assert_eq!(pps(Rate::Pps(7), Some(9)), Some(7));
        assert_eq!(pps(Rate::Percent(50), Some(3_000_001)), Some(1_500_000));
        assert_eq!(pps(Rate::Percent(50), Some(0)), Some(1), "nothing came through: still a rate");
    }
}
