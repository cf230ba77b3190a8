//! `top`: what the switch does, on the whole screen.
//!
//! **Where in the walk.** `ask` comes here. `cli::top` has the arguments.
//!
//! **Design.** One page is read at each interval (`reading`) and becomes a sheet: lines and a table
//! (`sheet`, a file for each page). `state` has what is shown and what keys change, `screen` draws
//! it. `--once` prints the sheet instead. A switch that goes away later is told on the screen: it
//! may come back, and each reading connects anew.
//!
//! **Limits.** One reading at a time; one that takes longer than `--timeout` counts as no answer.
//! 64 keys wait at most.
//!
//! **Threads.** Keys are read by a thread of their own. It ends with the process.

mod before;
mod connections;
mod drops;
mod policies;
mod ports;
mod reading;
mod screen;
mod sheet;
mod state;
mod workers;

use super::antrea::{clock, now_ms};
use super::port::usage;
use crate::cli::{Cli, Format, Top, TopPage};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Reply, Report};
use clap::error::ErrorKind;
use ratatui::crossterm::event::{self, Event};
use reading::Reading;
use serde_json::Value;
use sheet::Sheet;
use state::{State, Wish};
use std::future::Future;
use std::io::{self, IsTerminal};
use std::pin::Pin;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// Keys that wait at most.
const KEYS_MAX: usize = 64;

/// `top`.
pub(super) async fn ask<'a>(client: &'a Client, args: &'a Top, cli: &'a Cli) -> Result<Reply<'a>, Error> {
    if args.once {
        return Ok(Reply::Report(Box::new(once(client, args, cli.timeout).await?)));
    }
    if cli.manner.format != Format::Text || !io::stdout().is_terminal() {
        let message =
            "top draws on a terminal, and standard output is none or JSON is asked for; `--once` prints the page\n";
        return Err(usage(ErrorKind::InvalidValue, message));
    }
    Ok(Reply::stream(watch(client, args, cli.timeout)))
}

/// The page, printed.
struct Once {
    page: TopPage,
    seconds: f64,
    sheet: Sheet,
}

async fn once(client: &Client, args: &Top, timeout: Duration) -> Result<Once, Error> {
    let before = reading::read(client, args.page, timeout).await?;
    tokio::time::sleep(args.interval).await;
    let now = reading::read(client, args.page, timeout).await?;
    let mut sheet = now.sheet(Some(&before));
    sheet.sort(reading::first_order(args.page));
    Ok(Once { page: args.page, seconds: now.since(&before), sheet })
}

impl Report for Once {
    fn text(&self) -> String {
        self.sheet.text()
    }

    fn json(&self) -> Value {
        let mut json = self.sheet.json();
        json.insert("page".to_owned(), self.page.word().into());
        json.insert("seconds".to_owned(), self.seconds.into());
        Value::Object(json)
    }
}

/// The terminal is as it was before, however this ends.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

type Asking<'a> = Pin<Box<dyn Future<Output = Result<Reading, Error>> + 'a>>;

/// Shows pages until a key or a signal ends it.
async fn watch(client: &Client, args: &Top, timeout: Duration) -> Result<(), Error> {
    // A switch that is away from the beginning is an error like that of any verb.
    let first = reading::read(client, args.page, timeout).await?;
    let mut state = State::new(args.page);
    state.take(Ok(first), time());
    let mut terminal = ratatui::try_init()?;
    let _restored = Restored;
    let mut keys = keys();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + args.interval, args.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let ask = |page| -> Asking<'_> { Box::pin(reading::read(client, page, timeout)) };
    let mut asking: Option<Asking<'_>> = None;
    loop {
        terminal.draw(|frame| screen::draw(frame, &mut state))?;
        tokio::select! {
            event = keys.recv() => match event {
                Some(Event::Key(key)) => {
                    let columns = state.sheet().map_or(0, |sheet| sheet.columns.len());
                    match state.key(key, columns) {
                        Wish::Draw => {}
                        Wish::Quit => return Ok(()),
                        Wish::Read => {
                            asking = Some(ask(state.page));
                            ticks.reset();
                        }
                    }
                }
                // Another size: the next frame has it.
                Some(_) => {}
                None => return Ok(()),
            },
            reading = answer(&mut asking) => {
                asking = None;
                state.take(reading.map_err(|error| error.to_string()), time());
            }
            _ = ticks.tick(), if asking.is_none() && !state.is_paused => asking = Some(ask(state.page)),
            _ = terminated.recv() => return Ok(()),
        }
    }
}

/// The reading that is under way; none: never.
async fn answer(asking: &mut Option<Asking<'_>>) -> Result<Reading, Error> {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

/// Events of the terminal, until it is gone.
fn keys() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(KEYS_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Now, in UTC.
fn time() -> String {
    clock(now_ms()).split('.').next().unwrap_or_default().to_owned()
}
