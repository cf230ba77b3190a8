//! Verbs for tables, flows, groups, meters and packets: those of ovs-ofctl(8) and ovs-appctl(8),
//! with their arguments.

mod sort;

pub(crate) use sort::Sort;

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Verbs of ovs-ofctl, and `trace` and `dump-megaflows`, which are `ofproto/trace` and
/// `dpctl/dump-flows` of ovs-appctl.
#[derive(Debug, Subcommand)]
pub(crate) enum Pipeline {
    /// Name a table.
    AddTable {
        /// Name of the bridge.
        bridge: String,
        /// The table's name.
        name: String,
        /// Its number, 0 to 253 [default: the lowest one without name and flows].
        #[arg(long, value_parser = clap::value_parser!(u32).range(0..=253))]
        number: Option<u32>,
    },
    /// Take the name of a table away; its flows stay.
    DelTable {
        /// Name of the bridge.
        bridge: String,
        /// The table's name.
        name: String,
    },
    /// Show the tables that have a name or flows.
    DumpTables {
        /// Name of the bridge.
        bridge: String,
    },
    /// Add flows: one, or `-` for those on standard input. Like all changes: everything or nothing.
    AddFlow(Text),
    /// Add flows from a file. Lines may begin with add, modify, modify_strict, delete or
    /// delete_strict.
    AddFlows(Lines),
    /// Change the actions of flows.
    ModFlows(StrictText),
    /// Remove flows: all, those that match, or `-` for those on standard input.
    DelFlows(OptionalStrictText),
    /// Make a file the whole of a bridge's flows; what is equal keeps its counters.
    ReplaceFlows {
        /// Name of the bridge.
        bridge: String,
        /// The file; `-`: standard input.
        file: PathBuf,
        /// Only of the flows that this selects: cookie=0x10/0xf0
        #[arg(long, value_name = "FLOWS")]
        filter: Option<String>,
        #[command(flatten)]
        ignored: Ignored,
    },
    /// Compare flows of bridges or files, line by line (exit code 2: they differ).
    DiffFlows {
        /// A bridge, or a file: what begins with / or . or exists; `-`: standard input.
        first: String,
        /// Likewise.
        second: String,
        #[command(flatten)]
        names: Names,
    },
    /// Show flows.
    DumpFlows(DumpFlows),
    /// Show sums over flows.
    DumpAggregate {
        /// Name of the bridge.
        bridge: String,
        /// Only those flows: table=1,tcp,cookie=0x1/-1
        flows: Option<String>,
    },
    /// Add a group, or `-` for those on standard input.
    AddGroup {
        #[command(flatten)]
        text: Text,
        /// No effect: an existing group is refused.
        #[arg(long, hide = true)]
        may_create: bool,
    },
    /// Add groups from a file. Lines may begin with add, modify, add_or_mod, delete, insert_bucket
    /// or remove_bucket.
    AddGroups(Lines),
    /// Change a group.
    ModGroup {
        #[command(flatten)]
        text: Text,
        /// Add it if it is not there.
        #[arg(long)]
        may_create: bool,
    },
    /// Remove groups (all, one, or `-` for those on standard input), and the flows that use them.
    DelGroups(OptionalText),
    /// Add buckets to a group: group_id=1,command_bucket_id=last,bucket=...
    InsertBuckets(Text),
    /// Remove buckets from a group: group_id=1,command_bucket_id=first
    RemoveBuckets(Text),
    /// Show groups.
    DumpGroups {
        /// Name of the bridge.
        bridge: String,
        /// Id of one group: 1 or group_id=1
        #[arg(value_parser = group_id)]
        group: Option<Id>,
        #[command(flatten)]
        names: Names,
    },
    /// Show counters of groups.
    DumpGroupStats {
        /// Name of the bridge.
        bridge: String,
        /// Id of one group: 1 or group_id=1
        #[arg(value_parser = group_id)]
        group: Option<Id>,
    },
    /// Add a meter: meter=1,pktps,burst,bands=type=drop,rate=100,burst_size=10
    AddMeter(Text),
    /// Change a meter.
    ModMeter(Text),
    /// Remove meters (all, or one), and the flows that use them.
    #[command(alias = "del-meter")]
    DelMeters(OptionalText),
    /// Show meters.
    #[command(alias = "dump-meter")]
    DumpMeters {
        /// Name of the bridge.
        bridge: String,
        /// Id of one meter: 1 or meter=1
        #[arg(value_parser = meter_id)]
        meter: Option<Id>,
    },
    /// Show counters of meters.
    MeterStats {
        /// Name of the bridge.
        bridge: String,
        /// Id of one meter: 1 or meter=1
        #[arg(value_parser = meter_id)]
        meter: Option<Id>,
    },
    /// Do what the lines of a file say: `flow add ...`, `group insert_bucket ...`, `meter add ...`
    Bundle {
        #[command(flatten)]
        lines: Lines,
        /// The file is the whole of the bridge's flows and groups.
        #[arg(long)]
        replace_all: bool,
        /// The same, and meters too.
        #[arg(long)]
        replace_meters: bool,
    },
    /// Send a packet through actions: in_port=36,packet=HEX,actions=...
    PacketOut {
        /// Name of the bridge.
        bridge: String,
        /// The packet.
        packet: String,
    },
    /// Tell packet-ins, and flows with send_flow_rem that go, until interrupted.
    Monitor(Monitor),
    /// Show what became of packets for controllers, by controller id.
    DumpControllers {
        /// Name of the bridge.
        bridge: String,
    },
    /// Show what the workers have cached.
    DumpMegaflows {
        /// Name of a bridge [default: all].
        bridge: Option<String>,
    },
    /// Tell step by step what would happen to a packet.
    #[command(alias = "ofproto/trace")]
    Trace {
        /// Name of the bridge.
        bridge: String,
        /// The packet as a flow, its port included: in_port=1,tcp,nw_dst=10.0.0.1
        #[arg(required_unless_present = "packet", conflicts_with = "packet")]
        flow: Option<String>,
        /// The packet in hexadecimal digits.
        #[arg(long, value_name = "HEX", value_parser = hex)]
        packet: Option<Bytes>,
        /// Number or name of the port that this packet comes in by [default: LOCAL].
        #[arg(long, value_name = "PORT", conflicts_with = "flow")]
        in_port: Option<String>,
        /// ct_state behind each ct() with a table, in their order: trk,est,rpl [default: trk,new].
        #[arg(long, value_name = "FLAGS")]
        ct_next: Vec<String>,
        #[command(flatten)]
        names: Names,
    },
}

/// Verbs for tests, of a `vswitchd --enable-dummy`.
#[derive(Debug, Subcommand)]
pub(crate) enum Testing {
    /// Hand packets to a port as if they had come in by it, and show what leaves.
    #[command(name = "dummy/receive", alias = "netdev-dummy/receive", hide = true)]
    Receive {
        /// Name of the port.
        port: String,
        /// The packets in hexadecimal digits.
        #[arg(required = true, value_parser = hex)]
        packets: Vec<Bytes>,
    },
    /// Let a worker panic at a port, with the next packet.
    #[command(name = "dummy/panic", hide = true)]
    Panic {
        /// Name of the port.
        port: String,
        /// When it sends by the port; otherwise when it receives.
        #[arg(long)]
        sending: bool,
    },
    /// Stop the clock.
    #[command(name = "time/stop", hide = true)]
    StopTime,
    /// Move a stopped clock forward.
    #[command(name = "time/warp", hide = true)]
    WarpTime {
        /// Milliseconds.
        milliseconds: u64,
        /// In steps of so many.
        step: Option<u64>,
    },
    /// Switch the caches of the workers on or off, or empty them.
    #[command(name = "cache", hide = true)]
    Cache {
        /// What to do.
        state: CacheState,
    },
}

/// What `cache` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CacheState {
    /// Use them.
    On,
    /// Do not use them.
    Off,
    /// Empty them.
    Flush,
}

/// A bridge and a text.
#[derive(Debug, Args)]
pub(crate) struct Text {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// In the syntax of ovs-ofctl(8); `-`: lines of it on standard input.
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) ignored: Ignored,
}

/// A bridge and perhaps a text.
#[derive(Debug, Args)]
pub(crate) struct OptionalText {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// In the syntax of ovs-ofctl(8); `-`: lines of it on standard input. Not given: all.
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) ignored: Ignored,
}

/// A bridge and flows.
#[derive(Debug, Args)]
pub(crate) struct StrictText {
    #[command(flatten)]
    pub(crate) text: Text,
    /// Only flows with exactly this match and priority.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// A bridge and perhaps flows.
#[derive(Debug, Args)]
pub(crate) struct OptionalStrictText {
    #[command(flatten)]
    pub(crate) text: OptionalText,
    /// Only flows with exactly this match and priority.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// A bridge and a file.
#[derive(Debug, Args)]
pub(crate) struct Lines {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// The file; `-`: standard input. Blank lines and what follows a # do not count.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) ignored: Ignored,
}

/// Options of ovs-ofctl that change nothing here.
#[derive(Debug, Args)]
pub(crate) struct Ignored {
    /// No effect: every change is all or nothing.
    #[arg(long, hide = true)]
    pub(crate) bundle: bool,
}

/// How ports and tables are shown.
#[derive(Debug, Args)]
pub(crate) struct Names {
    /// Show ports and tables by name [default on a terminal].
    #[arg(long, overrides_with = "no_names")]
    pub(crate) names: bool,
    /// Show ports and tables by number.
    #[arg(long)]
    pub(crate) no_names: bool,
}

/// What `dump-flows` shows.
#[derive(Debug, Args)]
pub(crate) struct DumpFlows {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// Only those flows: table=1,tcp,cookie=0x1/-1
    pub(crate) flows: Option<String>,
    #[command(flatten)]
    pub(crate) names: Names,
    /// Leave counters and times out.
    #[arg(long, overrides_with = "stats")]
    pub(crate) no_stats: bool,
    /// Show counters and times (the default).
    #[arg(long, hide = true)]
    pub(crate) stats: bool,
    #[command(flatten)]
    pub(crate) sort: Sort,
}

/// What `monitor` tells.
#[derive(Debug, Args)]
pub(crate) struct Monitor {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// `invalid_ttl`: packets whose TTL ran out, too. Other words of ovs-ofctl monitor (miss-len)
    /// have no effect: whole packets are told.
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// Tell packet-ins of controller(id=N).
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=65535))]
    pub(crate) controller: u32,
    /// Let paused packets go on.
    #[arg(long)]
    pub(crate) resume: bool,
    /// End after so many messages.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) names: Names,
}

/// An id, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) Option<u32>);

fn id(text: &str, key: &str) -> Result<Id, String> {
    let value = text.strip_prefix(key).and_then(|rest| rest.strip_prefix('=')).unwrap_or(text);
    if value.eq_ignore_ascii_case("all") {
        return Ok(Id(None));
    }
    let number = match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => value.parse(),
    };
    number.map(|number| Id(Some(number))).map_err(|_| format!("give a number, {key}=N or all"))
}

fn group_id(text: &str) -> Result<Id, String> {
    id(text, "group_id")
}

fn meter_id(text: &str) -> Result<Id, String> {
    id(text, "meter")
}

/// Bytes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

pub(super) fn hex(text: &str) -> Result<Bytes, String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let value = |pair: &[u8]| {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(value).collect();
    bytes.filter(|bytes| !bytes.is_empty()).map(Bytes).ok_or_else(|| "give pairs of hexadecimal digits".to_owned())
}
