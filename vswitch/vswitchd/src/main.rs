//! The process `vswitchd`: command line, log, start, stop.
//!
//! **Where in the walk**: around it.
//!
//! **Design**: in the order of a start. `cpu` refuses a machine that this build would crash on;
//! `cli` reads the command line, `log` sets the log up; the configuration is read and compared with
//! the machine ([`vswitch_control::config`]), and refused as a whole or not at all; `run` takes the
//! control socket, starts the switch, tells the service manager (`notify`) and serves until a
//! signal (`signals`) comes. It stays in the foreground.
//!
//! **Exit codes**: 0 stopped by a signal, or nothing wrong (`--check`, `--check-file`); 1 failed
//! while starting or running, stopped though a worker or a device did not end, or stopped for a
//! restart after a worker's panic; 2 wrong usage; 78 (`EX_CONFIG` of sysexits.h) refused
//! configuration; 101 or SIGABRT after a panic, whose reason is in the log; 128 + signal when a
//! second signal cut the stop short.
//!
//! **Threads**: the main thread is pinned to `[dpdk] main_core` before any other is born; all but
//! the workers inherit that.
#![forbid(unsafe_code)]

mod cli;
mod cpu;
mod log;
mod notify;
mod run;
mod signals;

use clap::Parser;
use cli::{Cli, LogFormat};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use vswitch_control::SwitchConfig;
use vswitch_control::config::{ConfigErrors, ConfigFile, Environment, Report, Severity};
use vswitch_control::running::Started;

/// Failed while starting or running.
const EXIT_FAILED: u8 = 1;

/// `EX_CONFIG` of sysexits.h: the configuration was refused, trying again will not help.
const EXIT_CONFIG: u8 = 78;

fn main() -> ExitCode {
    // Before anything else: any function may use what the CPU lacks.
    if let Err(missing) = cpu::check() {
        say(&format!("vswitchd: {missing}"));
        return EXIT_FAILED.into();
    }
    let cli = Cli::parse();
    log::start(cli.log_format, &cli.log_filter());
    let code = run_daemon(&cli);
    log::flush();
    code
}

/// Checks the configuration, and runs the switch by it.
fn run_daemon(cli: &Cli) -> ExitCode {
    let read = read(&cli.config, !cli.check_file);
    if cli.check || cli.check_file {
        return check(&cli.config, &read);
    }
    let read = match read {
        Ok(read) if !read.report().has_errors() => read,
        Ok(read) => return refuse(read.report(), cli.log_format),
        Err(report) => return refuse(&report, cli.log_format),
    };
    for (_, line) in read.report().lines() {
        tracing::warn!("{line}");
    }
    let config = read.into_config().map(|config| SwitchConfig { enable_dummy: cli.enable_dummy, ..config });
    // Before the main thread is pinned: the file is read again later.
    let started = config.map(|config| Started::load(config, &cli.config, Environment::host().cores));
    match started.map_err(Into::into).and_then(|started| run::run(&started)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tracing::error!("vswitchd stops: {:#}", failure.error);
            failure.exit_code.into()
        }
    }
}

/// The configuration, with everything that is wrong with it, and with the machine if that is asked
/// for.
fn read(file: &Path, with_machine: bool) -> Result<ConfigFile, ConfigErrors> {
    let environment = Environment::host();
    let mut read = ConfigFile::load(file, &environment.cores)?;
    if with_machine {
        read.check(&environment);
    }
    Ok(read)
}

/// Prints what a check found.
fn check(file: &Path, read: &Result<ConfigFile, ConfigErrors>) -> ExitCode {
    let report = match read {
        Ok(read) => read.report(),
        Err(report) => report,
    };
    if !report.problems().is_empty() {
        say(&report.to_string());
    }
    if report.has_errors() {
        return EXIT_CONFIG.into();
    }
    if let Some(Err(error)) = read.as_ref().ok().map(|read| vswitch_api::server::check_tls(&read.config)) {
        say(&format!("{}: [[control.listener]] tls: {error}", file.display()));
        return EXIT_CONFIG.into();
    }
    // A closed stdout does not make the file wrong.
    let _ = writeln!(std::io::stdout(), "{}: ok", file.display());
    ExitCode::SUCCESS
}

/// Tells why the switch does not start: whole lines for people, events for what reads the log as
/// JSON.
fn refuse(report: &Report, format: LogFormat) -> ExitCode {
    match format {
        LogFormat::Text => log::say(&report.to_string()),
        LogFormat::Json => {
            for (severity, line) in report.lines() {
                match severity {
                    Severity::Error => tracing::error!("{line}"),
                    Severity::Warning => tracing::warn!("{line}"),
                }
            }
        }
    }
    EXIT_CONFIG.into()
}

/// Writes a line to stderr; there is nobody to tell if that fails.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
