//! Verbs of captures.

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;

use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Capture {
    /// Write packets of a bridge's ports to a file, until a limit is reached or it is interrupted.
    ///
    /// The file is pcapng, for Wireshark, tshark and tcpdump: one interface for each port and
    /// point. Packets are as the switch has them: checksums may be unfinished, and packets for
    /// segmentation are long.
    Capture(CaptureArgs),
    /// Show packets of a port by tcpdump, like `ovs-tcpdump -i`.
    ///
    /// What follows the port is tcpdump's: `vsctl tcpdump br0 p1 -nn tcp port 80`. Options of this
    /// verb stand before the bridge.
    Tcpdump(TcpdumpArgs),
}

/// Where packets of a port are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CapturePoint {
    /// As received, before any check.
    Rx,
    /// As handed to the port.
    Tx,
    /// As dropped, with the reason as a comment; the first 128 bytes.
    Drop,
}

/// Which packets.
#[derive(Debug, Args)]
pub(crate) struct CaptureFilter {
    /// Where; may be given more than once [default: rx,tx].
    #[arg(long = "point", value_name = "POINT", value_delimiter = ',')]
    pub(crate) points: Vec<CapturePoint>,
    /// Packets with these header fields, as in a flow, and what becomes of them at the point tx
    /// [default: all].
    #[arg(long = "match", value_name = "FLOW", default_value = "", hide_default_value = true)]
    pub(crate) matching: String,
    /// Bytes that are kept of a packet at most [default: 65535].
    #[arg(short = 's', long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) snaplen: Option<u32>,
}

/// A capture to a file.
#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// Names of its ports [default: all].
    #[arg(value_name = "PORT")]
    pub(crate) ports: Vec<String>,
    /// Which packets.
    #[command(flatten)]
    pub(crate) filter: CaptureFilter,
    /// End after so many packets [default: 1000].
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End after so many seconds [default: 10].
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: Option<u32>,
    /// The file; `-`: stdout. A file that is there is overwritten. Only its owner may read it.
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// A capture that tcpdump shows.
#[derive(Debug, Args)]
pub(crate) struct TcpdumpArgs {
    /// Which packets.
    #[command(flatten)]
    pub(crate) filter: CaptureFilter,
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// Name of the port.
    pub(crate) port: String,
    /// Options and expression of tcpdump.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}
