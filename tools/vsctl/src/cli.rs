//! What can be asked: the arguments.

mod antrea;
mod capture;
mod complete;
mod config;
mod conntrack;
mod description;
mod doctor;
mod drops;
mod headings;
mod listing;
mod log;
mod mistakes;
mod observe;
mod ovs;
mod parse;
mod pipeline;
mod support;
mod top;
mod tunnel;

pub(crate) use antrea::{
    Antrea, By, Events, Object, RecordVerdict, Records, Rules, TraceFlow, TraceFlowEnd, TraceFlowProtocol, kind_word,
};
pub(crate) use capture::{Capture, CaptureArgs, CapturePoint, TcpdumpArgs};
pub(crate) use complete::{Noun, Wanted, wanted};
pub(crate) use config::Config;
pub(crate) use conntrack::{Connections, Conntrack, Shown};
pub(crate) use description::{Format, description};
pub(crate) use doctor::Doctor;
pub(crate) use drops::{Class, DropFilter, Drops, DropsBy, DropsVerb, Samples};
pub(crate) use log::Log;
pub(crate) use observe::{Observe, ObserveFilter, ObserveKind, ObserveOutput, OnlyFilter, TrafficDirection, Verdict};
pub(crate) use parse::{Manner, format_of, parse, wrong_use};
pub(crate) use pipeline::{
    Bytes, CacheState, DumpFlows, Id, Lines, Monitor, Names, OptionalText, Pipeline, Testing, Text,
};
pub(crate) use support::SupportBundle;
pub(crate) use top::{Top, TopPage};
pub(crate) use tunnel::Tunnel;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Where vswitchd listens unless configured otherwise.
pub(crate) const DEFAULT_SOCKET: &str = "/run/vswitch/vswitch.sock";

const AFTER_HELP: &str = "\
Exit codes: 0 done; 1 the switch refused; 2 wrong usage, diff-flows found differences, or doctor found something bad; 3 vswitchd cannot be reached or does not answer.
The environment variable VSWITCH_SOCKET names the socket where --socket is not given; likewise VSWITCH_ADDRESS, VSWITCH_CERT, VSWITCH_KEY and VSWITCH_CA.";

/// Shows and changes a running vswitchd.
#[derive(Debug, Parser)]
#[command(name = "vsctl", version, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Socket of vswitchd.
    #[arg(long, global = true, value_name = "PATH", env = "VSWITCH_SOCKET", default_value = DEFAULT_SOCKET)]
    pub(crate) socket: PathBuf,
    #[command(flatten)]
    pub(crate) tls: Tls,
    /// Print JSON: answers on stdout, errors on stderr.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Seconds to wait for an answer; for those that tell until interrupted (monitor, port-events),
    /// for their beginning.
    #[arg(short = 't', short_alias = 'T', long, global = true, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// As ovs-ofctl has it; no effect. Likewise those below.
    #[arg(short = 'O', long = "protocols", global = true, value_name = "VERSION", hide = true)]
    pub(crate) protocols: Option<String>,
    #[arg(short = 'F', long, global = true, value_name = "FORMAT", hide = true)]
    pub(crate) flow_format: Option<String>,
    #[arg(short = 'm', long, global = true, hide = true, action = clap::ArgAction::Count)]
    pub(crate) more: u8,
    #[arg(long, global = true, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    pub(crate) color: Option<String>,
    #[arg(long, global = true, hide = true)]
    pub(crate) readd: bool,
    /// Filled in by `parse`.
    #[arg(skip)]
    pub(crate) manner: Manner,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How to reach a switch by TCP, with mutual TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "TCP with mutual TLS")]
pub(crate) struct Tls {
    /// Address and port of a listener of vswitchd, instead of a socket. Needs --cert, --key, --ca.
    #[arg(id = "tls_connect", long = "connect", global = true, value_name = "HOST:PORT", env = "VSWITCH_ADDRESS")]
    pub(crate) connect: Option<String>,
    /// File with this client's certificate, and those between it and the authority (PEM).
    #[arg(id = "tls_cert", long = "cert", global = true, value_name = "FILE", env = "VSWITCH_CERT")]
    pub(crate) cert: Option<PathBuf>,
    /// File with its private key (PEM).
    #[arg(id = "tls_key", long = "key", global = true, value_name = "FILE", env = "VSWITCH_KEY")]
    pub(crate) key: Option<PathBuf>,
    /// File with the authority of vswitchd's certificate (PEM).
    #[arg(id = "tls_ca", long = "ca", global = true, value_name = "FILE", env = "VSWITCH_CA")]
    pub(crate) ca: Option<PathBuf>,
}

/// Options of single verbs that ovs-ofctl or ovs-dpctl takes in front of the verb too; and our own
/// --watch.
const OFCTL_OPTIONS: [&str; 12] = [
    "--strict",
    "--bundle",
    "--may-create",
    "--names",
    "--no-names",
    "--stats",
    "--no-stats",
    "--sort",
    "--rsort",
    "-s",
    "--statistics",
    "--watch",
];

/// Options with a value of their own, which is no verb.
const WITH_VALUE: [&str; 14] = [
    "--socket",
    "--connect",
    "--cert",
    "--key",
    "--ca",
    "--timeout",
    "-t",
    "-T",
    "-O",
    "--protocols",
    "-F",
    "--flow-format",
    "-o",
    "--output",
];

/// Arguments with options of ovs-ofctl moved behind the verb: `--strict del-flows br0` is
/// `del-flows br0 --strict`.
fn arguments(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (mut front, mut moved, mut rest) = (Vec::new(), Vec::new(), arguments.into_iter());
    front.extend(rest.next()); // the program
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        if OFCTL_OPTIONS.contains(&name) {
            moved.push(argument);
            continue;
        }
        let (takes_value, is_verb) = (WITH_VALUE.contains(&text), !text.starts_with('-'));
        front.push(argument);
        if takes_value {
            front.extend(rest.next());
        } else if is_verb {
            front.append(&mut moved);
            break;
        }
    }
    front.extend(moved);
    front.extend(rest);
    front
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show all bridges with their ports.
    Show,
    /// Add a bridge.
    AddBr(AddBridge),
    /// Remove a bridge with all its ports.
    DelBr(BridgeName),
    /// List the names of all bridges.
    ListBr,
    /// Set what a bridge does before anything is programmed.
    SetFailMode {
        /// Name of the bridge.
        bridge: String,
        /// The fail mode.
        mode: FailMode,
    },
    /// Drop malformed packets that come in by a bridge's ports, by name; or treat them as Open
    /// vSwitch does.
    SetStrict {
        /// Name of the bridge.
        bridge: String,
        /// Whether.
        strict: OnOff,
    },
    /// Add a port to a bridge.
    AddPort(Box<AddPort>),
    /// Remove a port.
    DelPort {
        /// Name of the bridge.
        bridge: String,
        /// Name of the port.
        name: String,
    },
    /// List the names of a bridge's ports.
    ListPorts(BridgeName),
    /// Change a port.
    ModPort(ModPort),
    /// Show counters of a bridge's ports, like `ovs-ofctl dump-ports`.
    DumpPorts {
        /// Name of the bridge.
        bridge: String,
        /// Name of one port.
        port: Option<String>,
    },
    /// Show what the devices of ports can do in the switch's place: asked for, offered, used, or
    /// done in software.
    PortCaps {
        /// Name of the bridge.
        bridge: String,
        /// Name of one port.
        port: Option<String>,
    },
    /// Tell what happens to ports, one line each, until interrupted.
    PortEvents {
        /// Begin with the ports that exist.
        #[arg(long)]
        existing: bool,
        /// End after so many lines.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
    },
    /// Show a bridge's MAC table, like `ovs-appctl fdb/show`.
    FdbShow(BridgeName),
    /// Remove addresses from a bridge's MAC table: all learned ones, or those that match.
    FdbFlush(FdbFlush),
    /// Add a static address to a bridge's MAC table.
    FdbAdd {
        /// Name of the bridge.
        bridge: String,
        /// Name of the port.
        port: String,
        /// VLAN, 0 (untagged) to 4095.
        #[arg(value_parser = clap::value_parser!(u32).range(0..=4095))]
        vlan: u32,
        /// The address.
        #[arg(value_parser = mac)]
        mac: [u8; 6],
    },
    /// Remove an address from a bridge's MAC table.
    FdbDel {
        /// Name of the bridge.
        bridge: String,
        /// VLAN, 0 (untagged) to 4095.
        #[arg(value_parser = clap::value_parser!(u32).range(0..=4095))]
        vlan: u32,
        /// The address.
        #[arg(value_parser = mac)]
        mac: [u8; 6],
    },
    /// Show a bridge's MAC table in numbers, like `ovs-appctl fdb/stats-show`.
    FdbStats(BridgeName),
    /// Show the workers and what they spend their time on.
    WorkerShow,
    /// Show how the workers decide packets and what that costs, like `ovs-appctl
    /// dpif-netdev/pmd-perf-show`.
    ///
    /// Counts begin with the worker or the last worker-clear; with --interval, now. A packet is
    /// decided once where it comes in and once more behind each ct(); a program decides all of that
    /// at once. Bridges that only learn addresses decide without any of this.
    WorkerPerfShow {
        /// Count for so long, from now: two readings, and what lies between them. Nothing in the
        /// switch is cleared.
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        interval: Option<Duration>,
        /// Only the sum of all workers.
        #[arg(long)]
        total: bool,
    },
    /// Start the workers' counts over.
    WorkerClear,
    /// Show which worker polls which receive queue, like `ovs-appctl dpif-netdev/pmd-rxq-show`.
    WorkerRxqShow,
    /// Pin a receive queue to the worker on a core.
    WorkerRxqPin {
        /// Name of the port.
        port: String,
        /// Queue number.
        queue: u32,
        /// Core of the worker; `auto`: by load.
        #[arg(value_name = "CORE|auto", value_parser = core)]
        core: Core,
    },
    /// Place all receive queues that are not pinned anew, by load.
    WorkerRxqRebalance,
    /// Tables, flows, groups, meters, packets.
    #[command(flatten)]
    Pipeline(Pipeline),
    /// Connections.
    #[command(flatten)]
    Conntrack(Conntrack),
    /// Tunnels: routes, neighbours, options.
    #[command(flatten)]
    Tunnel(Tunnel),
    /// Packets, as they pass ports.
    #[command(flatten)]
    Capture(Capture),
    /// Show what an agent of Antrea's made of the switch: Pods, Services, policies, and the flows
    /// of each.
    #[command(arg_required_else_help = true)]
    Antrea {
        /// What to show or do.
        #[command(subcommand)]
        verb: Antrea,
    },
    /// For tests.
    #[command(flatten)]
    Testing(Testing),
    /// Show the use of the mbuf pool.
    MempoolShow,
    /// Show what ports and clients share: limits, what is taken, and what each port has of it.
    Limits {
        /// What this port has.
        #[arg(long, value_name = "NAME")]
        port: Option<String>,
    },
    /// Show which lines the log of the switch has lost, and whether its reader reads.
    LogShow,
    /// Show the configuration in force, or change it as a whole.
    #[command(arg_required_else_help = true)]
    Config {
        /// What to show or do.
        #[command(subcommand)]
        verb: Config,
    },
    /// Show or change what the switch logs.
    #[command(arg_required_else_help = true)]
    Log {
        /// What to show or do.
        #[command(subcommand)]
        verb: Log,
    },
    /// Show what became of calls of gRPC, by method, and what streams have lost.
    CallsShow,
    /// Show what is dropped: how many, how fast, by which reason; what to do about it.
    Drops(Drops),
    /// Show load, traffic, drops, connections and policies as they change, on the whole screen.
    Top(Top),
    /// Show who talks to whom, and why not: connections, decisions of policies, refusals and drops,
    /// with the names of both ends.
    Observe(Box<Observe>),
    /// List the names of addresses that an agent has told.
    Names {
        /// Only those of this Pod, NAMESPACE/NAME.
        #[arg(long, value_name = "POD")]
        pod: Option<String>,
    },
    /// List why packets are dropped.
    DropReasons,
    /// Show versions, limits and port types of the switch.
    Capabilities,
    /// Say whether the switch, or a part of it, is healthy (exit code 1: it is not).
    Health {
        /// A part that `health-show` names.
        part: Option<String>,
    },
    /// Show how each part of the switch is, and why.
    HealthShow,
    /// Find what is wrong with this machine and its switch, and say how to fix it (exit code 1: it
    /// could be better; 2: the switch does not start or does not forward).
    Doctor(Doctor),
    /// Write what others need to understand a fault into one archive, without secrets or packets.
    SupportBundle(SupportBundle),
    /// Show where clients connect, with which roles, how many, and when certificates end.
    ListenerShow,
    /// Show the versions of vsctl and, if it can be reached, vswitchd.
    Version,
    /// Print a completion script.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Print what may follow an unfinished command line. The scripts of `completion` call it.
    #[command(name = "__complete", hide = true)]
    Complete {
        /// The words behind the program's name; the last one is unfinished.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Print a manual page, of vsctl or of one verb.
    Man {
        /// The verb.
        verb: Option<String>,
    },
}

/// A bridge.
#[derive(Debug, Args)]
pub(crate) struct BridgeName {
    /// Name of the bridge.
    pub(crate) bridge: String,
}

/// What a bridge does before anything is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailMode {
    /// Drop everything.
    Secure,
    /// Forward like an Ethernet switch.
    Standalone,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    /// Yes.
    On,
    /// No.
    Off,
}

/// A new bridge.
#[derive(Debug, Args)]
pub(crate) struct AddBridge {
    /// Name of the bridge.
    pub(crate) name: String,
    /// What it does before anything is programmed [default: secure].
    #[arg(long, value_name = "MODE")]
    pub(crate) fail_mode: Option<FailMode>,
    /// Addresses that its MAC table holds at most [default: 8192].
    #[arg(long, value_name = "N")]
    pub(crate) fdb_size: Option<u32>,
    /// Seconds after which an unused learned address goes [default: 300].
    #[arg(long, value_name = "SECONDS")]
    pub(crate) fdb_ageing: Option<u32>,
    /// Drop malformed packets that come in by its ports, by name.
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Kinds of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PortType {
    /// Any device of DPDK; needs --devargs.
    Dpdk,
    /// A guest or a virtio-user process; needs --path.
    VhostUser,
    /// A TAP interface that the switch makes.
    Tap,
    /// An existing interface of the host.
    #[value(name = "af_packet")]
    AfPacket,
    /// Capture files; needs --rx-file, --tx-file or both.
    Pcap,
    /// One end of a wire between two bridges; needs --peer.
    Patch,
    /// An interface for the host's own traffic.
    Internal,
    /// For tests, in a vswitchd --enable-dummy.
    Dummy,
    /// A Geneve tunnel; needs --option remote_ip=...
    Geneve,
    /// A VXLAN tunnel; needs --option remote_ip=...
    Vxlan,
    /// A GRE tunnel, of Ethernet; needs --option remote_ip=...
    Gre,
}

/// Which side of a vhost-user socket the switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VhostMode {
    /// The guest makes the socket (QEMU: server=on).
    Client,
    /// The switch makes the socket.
    Server,
}

/// A new port.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // flags of a command line
pub(crate) struct AddPort {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// Name of the port.
    pub(crate) name: String,
    /// Kind of the port.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) port_type: PortType,
    /// OpenFlow port number, 1 to 65279 [default: a free one that no port has had lately].
    #[arg(long, value_name = "N")]
    pub(crate) number: Option<u32>,
    /// dpdk: a PCI address or the devargs of a virtual device.
    #[arg(long, required_if_eq("port_type", "dpdk"))]
    pub(crate) devargs: Option<String>,
    /// vhost-user: the socket, an absolute path.
    #[arg(long, required_if_eq("port_type", "vhost-user"))]
    pub(crate) path: Option<String>,
    /// vhost-user: who makes the socket [default: client].
    #[arg(long)]
    pub(crate) mode: Option<VhostMode>,
    /// dpdk, vhost-user, tap, internal: queues [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) queues: Option<u32>,
    /// tap, af_packet: the interface [default: the port's name].
    #[arg(long)]
    pub(crate) interface: Option<String>,
    /// patch: name of the port at the other end.
    #[arg(long, value_name = "PORT", required_if_eq("port_type", "patch"))]
    pub(crate) peer: Option<String>,
    /// pcap: packets to receive.
    #[arg(long, value_name = "FILE")]
    pub(crate) rx_file: Option<String>,
    /// pcap: where to write sent packets.
    #[arg(long, value_name = "FILE")]
    pub(crate) tx_file: Option<String>,
    /// pcap: receive the file over and over.
    #[arg(long)]
    pub(crate) infinite_rx: bool,
    /// Address [default: the device's, or a random one].
    #[arg(long, value_parser = mac)]
    pub(crate) mac: Option<[u8; 6]>,
    /// Largest L3 packet in bytes, 68 to 9702 [default: 1500].
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u32>,
    /// Leave it out when the bridge floods.
    #[arg(long)]
    pub(crate) no_flood: bool,
    /// Drop malformed packets that come in by it, by name.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Packets that come in by it may be for our end of tunnels, as is the default of all but
    /// vhost-user ports.
    #[arg(long, conflicts_with = "no_underlay")]
    pub(crate) underlay: bool,
    /// They may not: those that are are dropped as spoof_vtep.
    #[arg(long)]
    pub(crate) no_underlay: bool,
    /// Add it switched off.
    #[arg(long)]
    pub(crate) admin_down: bool,
    /// A key-value pair for the owner's use; may be repeated.
    #[arg(long = "external-id", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) external_ids: Vec<(String, String)>,
    /// internal, tap: an address of the switch behind this port, by which tunnels are reached; may
    /// be repeated.
    #[arg(long = "address", value_name = "CIDR")]
    pub(crate) addresses: Vec<String>,
    /// geneve, vxlan, gre: an option by its name in ovs-vswitchd.conf.db(5), such as
    /// remote_ip=flow; may be repeated.
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = key_value)]
    pub(crate) options: Vec<(String, String)>,
    /// vhost-user: do not offer checksum offload (nor TSO).
    #[arg(long)]
    pub(crate) no_csum: bool,
    /// vhost-user: do not offer TSO.
    #[arg(long)]
    pub(crate) no_tso: bool,
    /// vhost-user: do not offer mergeable receive buffers.
    #[arg(long)]
    pub(crate) no_mergeable: bool,
    /// vhost-user: do not offer indirect descriptors.
    #[arg(long)]
    pub(crate) no_indirect: bool,
    /// vhost-user: offer packed rings.
    #[arg(long)]
    pub(crate) packed: bool,
}

/// A change of a port.
#[derive(Debug, Args)]
pub(crate) struct ModPort {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// Name of the port.
    pub(crate) name: String,
    /// New state.
    pub(crate) state: Vec<PortState>,
    /// New MTU, 68 to 9702 bytes.
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u32>,
    /// A key-value pair; may be repeated. Those given replace all that were there.
    #[arg(long = "external-id", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) external_ids: Vec<(String, String)>,
    /// Remove all external ids.
    #[arg(long, conflicts_with = "external_ids")]
    pub(crate) no_external_ids: bool,
    /// An address of the switch behind the port; may be repeated. Those given replace all that were
    /// there.
    #[arg(long = "address", value_name = "CIDR")]
    pub(crate) addresses: Vec<String>,
    /// Remove all addresses.
    #[arg(long, conflicts_with = "addresses")]
    pub(crate) no_addresses: bool,
}

/// Words of `mod-port`: those of `ovs-ofctl mod-port`, and two of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PortState {
    /// Take and give packets.
    Up,
    /// Drop packets.
    Down,
    /// Take part when the bridge floods.
    Flood,
    /// Be left out when the bridge floods.
    NoFlood,
    /// Take what comes in by it.
    Receive,
    /// Drop what comes in by it.
    NoReceive,
    /// Let packets leave by it.
    Forward,
    /// Let nothing leave by it.
    NoForward,
    /// Drop malformed packets that come in by it, by name.
    Strict,
    /// Treat malformed packets as Open vSwitch does.
    NoStrict,
    /// Let packets that come in by it be for our end of tunnels.
    Underlay,
    /// Drop those that are (spoof_vtep).
    NoUnderlay,
}

/// Which addresses to remove.
#[derive(Debug, Args)]
pub(crate) struct FdbFlush {
    /// Name of the bridge.
    pub(crate) bridge: String,
    /// Only those of this port.
    #[arg(long)]
    pub(crate) port: Option<String>,
    /// Only those of this VLAN, 0 (untagged) to 4095.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=4095))]
    pub(crate) vlan: Option<u32>,
    /// Only this address.
    #[arg(long, value_parser = mac)]
    pub(crate) mac: Option<[u8; 6]>,
    /// Static ones too.
    #[arg(long = "static")]
    pub(crate) statics: bool,
}

/// Shells that can complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// bash(1).
    Bash,
    /// zsh(1).
    Zsh,
    /// fish(1).
    Fish,
}

/// Where a receive queue is to be polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Core {
    /// By load.
    Auto,
    /// By the worker on this core.
    On(u32),
}

fn core(text: &str) -> Result<Core, String> {
    if text == "auto" {
        return Ok(Core::Auto);
    }
    text.parse().map(Core::On).map_err(|_| "give the number of a core, or auto".to_owned())
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    let octet = |part: &str| {
        let digits = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        if digits { u8::from_str_radix(part, 16).ok() } else { None }
    };
    let octets: Option<Vec<u8>> = text.split(':').map(octet).collect();
    octets.and_then(|octets| octets.try_into().ok()).ok_or_else(|| "give an address like 02:00:00:00:00:01".to_owned())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("give KEY=VALUE")?;
    if key.is_empty() { Err("the key is empty".to_owned()) } else { Ok((key.to_owned(), value.to_owned())) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds".to_owned())?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("give 0.001 to 86400 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
