//! Verbs for connections: those of `ovs-appctl dpctl/...` (ovs-dpctl(8), "Connection Tracking Table
//! Commands"), with their arguments.

use clap::{Args, Subcommand};

/// Verbs of ovs-dpctl, and some for what Open vSwitch keeps in its database.
#[derive(Debug, Subcommand)]
#[allow(clippy::enum_variant_names)] // named like the verbs
pub(crate) enum Conntrack {
    /// Show connections.
    #[command(alias = "dpctl/dump-conntrack")]
    DumpConntrack {
        #[command(flatten)]
        connections: Connections,
        #[command(flatten)]
        shown: Shown,
    },
    /// End connections: all, or those that match. A whole tuple (addresses, protocol and ports)
    /// that is not there is an error.
    #[command(alias = "dpctl/flush-conntrack")]
    FlushConntrack(Connections),
    /// Count connections by protocol; of TCP, with `verbose`, by state.
    #[command(alias = "dpctl/ct-stats-show")]
    CtStatsShow {
        /// zone=N: only those of this zone; verbose
        #[arg(value_name = "WORD")]
        words: Vec<String>,
    },
    /// Set how many connections zones may have: default=100 zone=1,limit=50
    #[command(alias = "dpctl/ct-set-limits")]
    CtSetLimits {
        /// default=LIMIT, for zones without one of their own; zone=N,limit=LIMIT
        #[arg(value_name = "LIMIT", required = true)]
        words: Vec<String>,
    },
    /// Show how many connections zones may have, and have.
    #[command(alias = "dpctl/ct-get-limits")]
    CtGetLimits {
        /// zone=N,N,...: only of these zones
        #[arg(value_name = "ZONES")]
        words: Vec<String>,
    },
    /// Take limits of zones away.
    #[command(alias = "dpctl/ct-del-limits")]
    CtDelLimits {
        /// zone=N,N,...; default
        #[arg(value_name = "ZONES", required = true)]
        words: Vec<String>,
    },
    /// Show how many connections there are.
    #[command(alias = "dpctl/ct-get-nconns")]
    CtGetNconns,
    /// Show how many connections there may be.
    #[command(alias = "dpctl/ct-get-maxconns")]
    CtGetMaxconns,
    /// Tell how to change how many connections there may be.
    #[command(alias = "dpctl/ct-set-maxconns")]
    CtSetMaxconns {
        /// How many.
        connections: u64,
    },
    /// Show what has become of connections, and the memory that they may take.
    CtCountersShow,
    /// Check TCP sequence numbers against windows.
    #[command(alias = "dpctl/ct-enable-tcp-seq-chk")]
    CtEnableTcpSeqChk,
    /// Do not check TCP sequence numbers.
    #[command(alias = "dpctl/ct-disable-tcp-seq-chk")]
    CtDisableTcpSeqChk,
    /// Show whether TCP sequence numbers are checked.
    #[command(alias = "dpctl/ct-get-tcp-seq-chk")]
    CtGetTcpSeqChk,
    /// Give a zone its own timeouts, in seconds; what is not named has its default: zone=1
    /// udp_first=5 tcp_established=3600
    CtSetTimeouts {
        /// zone=N, then NAME=SECONDS with the names of Open vSwitch's CT_Timeout_Policy
        #[arg(value_name = "WORD", required = true)]
        words: Vec<String>,
    },
    /// Show the default timeouts and those of zones that have their own, in seconds.
    CtGetTimeouts {
        /// zone=N: only of this zone
        #[arg(value_name = "ZONE")]
        words: Vec<String>,
    },
    /// Take a zone's own timeouts away.
    CtDelTimeouts {
        /// zone=N
        #[arg(value_name = "ZONE", required = true)]
        words: Vec<String>,
    },
    /// Set options of zones: zone=5,6 established_after_answer=true
    CtSetZoneOptions {
        /// zone=N,N,...; established_after_answer=true: what the other end has not answered yet is
        /// +new, not +est
        #[arg(value_name = "WORD", required = true)]
        words: Vec<String>,
    },
    /// Show options of zones that have any.
    CtGetZoneOptions {
        /// zone=N,N,...: only of these zones
        #[arg(value_name = "ZONES")]
        words: Vec<String>,
    },
    /// Tell what happens to connections, one line each, until interrupted.
    MonitorConntrack {
        #[command(flatten)]
        connections: Connections,
        #[command(flatten)]
        shown: Shown,
        /// End after so many events.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
    },
}

/// Which connections.
#[derive(Debug, Args)]
pub(crate) struct Connections {
    /// zone=N; of the original direction, joined by commas: ct_nw_src, ct_nw_dst, ct_ipv6_src,
    /// ct_ipv6_dst, ct_nw_proto, ct_tp_src, ct_tp_dst, icmp_id, icmp_type, icmp_code; mark=V/M;
    /// labels=V/M
    #[arg(value_name = "WHICH")]
    pub(crate) words: Vec<String>,
}

/// How connections are shown. (`-m`, which every verb takes: with ids, flags and the state of both
/// ends.)
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Shown {
    /// With counters, start and timeout.
    #[arg(short = 's', long)]
    pub(crate) statistics: bool,
}
