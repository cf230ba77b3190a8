//! The command line.

use super::{cpu, log};
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::sync::LazyLock;

/// A DPDK virtual switch for Kubernetes nodes. Runs in the foreground and logs to stderr.
#[derive(Debug, Parser)]
#[command(name = "vswitchd", version = version(), after_help = EXIT_CODES)]
pub(super) struct Cli {
    /// Configuration (TOML)
    #[arg(long, value_name = "FILE")]
    pub(super) config: PathBuf,

    /// Report everything that is wrong with the configuration on this machine, and exit
    #[arg(long)]
    pub(super) check: bool,

    /// Report what is wrong with the file itself, and exit: also while a switch runs by it, which
    /// has the sockets and the memory that it names
    #[arg(long, conflicts_with = "check")]
    pub(super) check_file: bool,

    /// Allow ports of type dummy, and their gRPC service: for tests of a whole switch
    #[arg(long)]
    pub(super) enable_dummy: bool,

    /// How to write the log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,

    /// off, error, warn, info, debug, trace, and module=LEVEL, separated by commas; default:
    /// $VSWITCH_LOG, else info
    #[arg(long, value_name = "LEVEL", value_parser = log::filter)]
    log_level: Option<String>,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

const EXIT_CODES: &str = "Exit codes: 0 stopped by a signal, or a check found no error; 1 failed; 2 wrong usage; \
                          78 the configuration was refused, all of its problems are on stderr.";

impl Cli {
    /// The log filter: from the command line, else the environment, else the default. Ends the
    /// process (code 2) if that of the environment is wrong.
    pub(super) fn log_filter(&self) -> String {
        use clap::CommandFactory;
        use clap::error::ErrorKind;
        if let Some(filter) = &self.log_level {
            return filter.clone();
        }
        let Some(value) = std::env::var_os(log::VARIABLE).filter(|value| !value.is_empty()) else {
            return "info".to_owned();
        };
        log::filter(&value.to_string_lossy()).unwrap_or_else(|problem| {
            let message = format!("invalid value {value:?} of ${}: {problem}", log::VARIABLE);
            Self::command().error(ErrorKind::ValueValidation, message).exit()
        })
    }
}

/// Package, DPDK (of the headers and of the library that runs), CPU.
fn version() -> &'static str {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| format!("{}\n{}\nCPU: {}", env!("CARGO_PKG_VERSION"), dpdk(), cpu::baseline()));
    &TEXT
}

#[cfg(feature = "dpdk")]
fn dpdk() -> String {
    format!("DPDK: built with {}, running {}", vswitch_dpdk::eal::BUILD_VERSION, vswitch_dpdk::eal::version())
}

#[cfg(not(feature = "dpdk"))]
fn dpdk() -> String {
    "DPDK: none".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn usage_errors_are_told_from_good_lines() {
        for (args, good) in [
            (vec!["--config", "f"], true),
            (
                vec![
                    "--config",
                    "f",
                    "--check",
                    "--log-format",
                    "json",
                    "--log-level",
                    "warn,vswitch_dataplane::port=trace",
                ],
                true,
            ),
            (vec!["--config", "f", "--check-file"], true),
            (vec!["--config", "f", "--check-file", "--check"], false),
            (vec![], false),
            (vec!["--config"], false),
            (vec!["--config", "f", "--log-format", "xml"], false),
            (vec!["--config", "f", "--log-level", "inof"], false),
            (vec!["--config", "f", "extra"], false),
        ] {
            let parsed = Cli::try_parse_from([&["vswitchd"], &args[..]].concat());
            assert_eq!(parsed.is_ok(), good, "{args:?}");
            assert!(parsed.err().is_none_or(|error| error.exit_code() == 2), "{args:?}");
        }
    }
}
