//! Verbs of the configuration.

use super::log::span;
use clap::Subcommand;
use std::path::PathBuf;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print what is in force, as a configuration file that starts the same switch.
    Export,
    /// Make what is in force equal to a configuration file, all of it or nothing.
    ///
    /// Ports that the file does not change go on without the loss of a packet. A change that needs
    /// a restart is refused. What an agent owns stays as it is.
    Apply {
        /// The file; `-`: standard input.
        file: PathBuf,
        /// Only print what would change.
        #[arg(long, conflicts_with = "confirm")]
        dry_run: bool,
        /// Take it back after this time, unless `config confirm` comes before.
        #[arg(long, value_name = "TIME", value_parser = span)]
        confirm: Option<u32>,
    },
    /// Keep what `config apply --confirm` has changed.
    Confirm,
    /// Take back at once what `config apply --confirm` has changed.
    Rollback,
    /// Print what would change: by this file, or by the one that the switch was started with.
    Diff {
        /// The file; `-`: standard input.
        file: Option<PathBuf>,
    },
    /// Show the last apply, and what differs from the file that the switch was started with.
    State,
}
