//! `vsctl`: the command line of vswitch.
//!
//! One verb, one call of the API, one answer: text that Open vSwitch's users can read without
//! learning, or JSON. `cli` is what can be asked, `client` how the switch is reached, `commands`
//! what is asked and how answers look, `output` and `error` how they leave. `text` makes what
//! others wrote fit for a terminal.
//!
//! Exit codes: 0 done; 1 the switch refused, or output failed; 2 wrong usage; 3 vswitchd cannot be
//! reached or does not answer.
#![forbid(unsafe_code)]

mod cli;
mod client;
mod commands;
mod doctor;
mod error;
mod output;
#[cfg_attr(not(test), allow(dead_code))] // no verb writes captures yet
mod pcapng;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    let result = match cli::Cli::try_parse_from(cli::arguments(std::env::args_os())) {
        Ok(cli) => commands::run(&cli, &mut std::io::stdout().lock()),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(wants_json),
    }
}
