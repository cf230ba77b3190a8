//! Verbs of drops: counts, samples, explanations.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What was dropped, and why.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Drops {
    /// What else to do.
    #[command(subcommand)]
    pub(crate) verb: Option<DropsVerb>,
    /// Add up what has this in common.
    #[arg(long, value_name = "WHAT")]
    pub(crate) by: Option<DropsBy>,
    /// Of which drops.
    #[command(flatten)]
    pub(crate) filter: DropFilter,
}

/// What drops are added up by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DropsBy {
    /// The reason.
    Reason,
    /// The port.
    Port,
    /// The Pod of the port.
    Pod,
}

/// What else there is to do with drops.
#[derive(Debug, Subcommand)]
pub(crate) enum DropsVerb {
    /// Say what a reason means: its usual cause, where to look, what to change.
    Explain {
        /// Name of the reason, such as tx_full.
        reason: String,
    },
    /// Show packets that are dropped, as it happens, until interrupted.
    Samples(Samples),
}

/// Which drops are meant. Each option may be repeated; an option that is not given allows all.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DropFilter {
    /// Of this bridge.
    #[arg(long = "bridge", value_name = "NAME")]
    pub(crate) bridges: Vec<String>,
    /// At this port.
    #[arg(long = "port", value_name = "NAME")]
    pub(crate) ports: Vec<String>,
    /// By this reason, such as tx_full.
    #[arg(long = "reason", value_name = "NAME")]
    pub(crate) reasons: Vec<String>,
    /// By a reason of this class.
    #[arg(long = "class", value_name = "CLASS")]
    pub(crate) classes: Vec<Class>,
}

/// Kinds of causes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Class {
    /// A rule or a check of addresses denies the packet.
    Policy,
    /// The flows, groups and bridges lead it nowhere.
    Pipeline,
    /// Something was used up.
    Resource,
    /// Its bytes are not what a host may send.
    Malformed,
    /// A peer, a device or the network behind it.
    Link,
    /// The configuration of a port, a bridge or a tunnel.
    Config,
    /// A rate or a share that one port, zone or meter may have.
    Limit,
}

/// Which samples, and where they go.
#[derive(Debug, Args)]
pub(crate) struct Samples {
    /// Of which drops.
    #[command(flatten)]
    pub(crate) filter: DropFilter,
    /// End after so many samples.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Samples per second of each reason and worker, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rate: u32,
    /// Write a pcapng file instead of lines; `-` is standard output.
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
}
