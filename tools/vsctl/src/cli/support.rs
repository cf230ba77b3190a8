//! Arguments of `support-bundle`.

use clap::Args;
use std::path::PathBuf;

/// Where what is collected comes from and goes to.
#[derive(Debug, Args)]
pub(crate) struct SupportBundle {
    /// The archive, a new file [default: vswitch-support-SECONDS.tar.gz].
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The configuration of the switch [default: /etc/vswitch/vswitchd.toml].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The log of the switch [default: the last 5000 lines of the journal].
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}
