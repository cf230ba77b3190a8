//! Arguments of `doctor`.

use clap::Args;
use std::path::PathBuf;

/// What is looked at.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The configuration of the switch [default: /etc/vswitch/vswitchd.toml].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the files of the machine are, if not at /: in a container, where its Node has them.
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Look at the machine only.
    #[arg(long)]
    pub(crate) no_switch: bool,
    /// Show what is well, too.
    #[arg(long)]
    pub(crate) all: bool,
}
