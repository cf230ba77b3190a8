//! Arguments of `top`.

use super::seconds;
use clap::{Args, ValueEnum};
use std::time::Duration;

/// Where it begins, and how often it reads.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// The page to begin with.
    #[arg(long, value_name = "NAME", default_value = "workers")]
    pub(crate) page: TopPage,
    /// Time between two readings, 0.1 s at least.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print the page as text and end. It takes one interval, as rates need two readings.
    #[arg(long)]
    pub(crate) once: bool,
}

/// What `top` shows at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopPage {
    /// Load of each worker, and how packets are decided.
    Workers,
    /// Traffic and drops of each port.
    Ports,
    /// Drops by port and reason.
    Drops,
    /// The connection table and its zones.
    Connections,
    /// Rules of policies, those that deny first.
    Policies,
}

impl TopPage {
    /// All of them, in the order of their keys.
    pub(crate) const ALL: [Self; 5] = [Self::Workers, Self::Ports, Self::Drops, Self::Connections, Self::Policies];

    /// The word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Workers => "workers",
            Self::Ports => "ports",
            Self::Drops => "drops",
            Self::Connections => "connections",
            Self::Policies => "policies",
        }
    }
}

/// Shorter intervals would load the switch by being looked at.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = seconds(text)?;
    if interval < Duration::from_millis(100) { Err("give 0.1 seconds at least".to_owned()) } else { Ok(interval) }
}
