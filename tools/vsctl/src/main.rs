//! `vsctl`: the command line of vswitch.
//!
//! One verb, one call of the API, one answer: text that Open vSwitch's users can read without
//! learning, or JSON. `cli` is what can be asked, `client` how the switch is reached, `commands`
//! what is asked and how answers look, `output` and `error` how they leave. `text` makes what
//! others wrote fit for a terminal. `yaml` writes JSON values as YAML.
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
mod yaml;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let format = cli::format_of(&words);
    let result = match cli::parse(words) {
        Ok(cli) => commands::run(&cli, &mut std::io::stdout().lock()).map_err(|error| error.of_verb(&cli)),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(format),
    }
}
