//! The configuration of the switch as values.

use super::listener_value::ListenerConfig;
use super::paths::PathsConfig;
use super::program::BridgeProgram;
use crate::{BridgeConfig, RouteConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use vswitch_conntrack::Policy;
use vswitch_dataplane::limits::{CONNECTIONS_DEFAULT, OBSERVE_RING_DEFAULT};
use vswitch_dataplane::meter::Rates;
use vswitch_dataplane::port::PortConfig;
use vswitch_dpdk::capabilities::Capabilities;

/// All of `vswitchd`'s configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Section `[dpdk]`.
    pub dpdk: DpdkConfig,
    /// Section `[worker]`.
    pub worker: WorkerConfig,
    /// Section `[conntrack]`.
    pub conntrack: ConntrackConfig,
    /// Section `[antrea]`.
    pub antrea: AntreaConfig,
    /// Section `[slow_path]`.
    pub slow_path: Rates,
    /// `[control] socket`: where gRPC listens, for admins; mode 0660.
    pub socket: PathBuf,
    /// `[control] persist`: where changes at run time are kept for the next start.
    pub persist: Option<PathBuf>,
    /// `[[control.listener]]`: further listeners.
    pub listeners: Vec<ListenerConfig>,
    /// `[control] audit_file`: who called what, beside the log; none: in the log only.
    pub audit_file: Option<PathBuf>,
    /// Section `[paths]`.
    pub paths: PathsConfig,
    /// Section `[process]`.
    pub process: ProcessConfig,
    /// Section `[debug]`.
    pub debug: DebugConfig,
    /// Section `[observe]`.
    pub observe: ObserveConfig,
    /// There may be dummy ports. Not from the file: `vswitchd --enable-dummy`.
    pub enable_dummy: bool,
    /// `[[bridge]]`, each with its `[[bridge.port]]`.
    pub bridges: Vec<(BridgeConfig, Vec<PortConfig>)>,
    /// `[[route]]`: ways to the other ends of tunnels.
    pub routes: Vec<RouteConfig>,
    /// What bridges do from the start on, by name: keys of `[[bridge]]`.
    pub programs: BTreeMap<String, BridgeProgram>,
    /// `rxq_affinity` of ports: the core that polls a receive queue, by port and queue.
    pub pins: BTreeMap<(String, u16), u32>,
    /// `[saved]`: only of the file that the switch writes itself.
    pub saved: Option<Saved>,
}

/// `[saved]`: what the operator's file was when the state was saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// A mark of its text (`mark_of`).
    pub file: String,
    /// Bridges, ports and routes that it named (`names_of`).
    pub names: BTreeSet<String>,
    /// Ports that clients added: they are opened with the rights of a client.
    pub client_ports: BTreeSet<String>,
}

/// Section `[dpdk]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpdkConfig {
    /// Cores that poll, one worker each. Default: the highest available core.
    pub worker_cores: Vec<u32>,
    /// Core of DPDK's and the switch's control threads. Default: the lowest available core.
    pub main_core: u32,
    /// Memory for mbufs and devices, in MiB.
    pub memory_mb: u32,
    /// Buffers in the mbuf pool (about 2.4 KiB each). Default: what fits three quarters of
    /// `memory_mb`.
    pub mbufs: Option<u32>,
    /// Use hugepages.
    pub hugepages: bool,
    /// Prefix of EAL's runtime files.
    pub file_prefix: Option<String>,
    /// Let PCI devices be probed (implied by a port whose devargs are a PCI address).
    pub pci: bool,
    /// Passed to EAL as they are.
    pub args: Vec<String>,
    /// Drivers that clients may name beside those that they always may.
    pub allow_drivers: Vec<String>,
}

/// Section `[worker]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Longest sleep of an idle worker, in microseconds; 0: never sleeps.
    pub idle_sleep_us: u32,
    /// How late guests may be called by a thread that spares workers that, in microseconds; 0:
    /// workers call them, at once.
    pub call_delay_us: u32,
}

/// Section `[conntrack]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConntrackConfig {
    /// Most connections; memory for them is taken at start, but for addresses of IPv6.
    pub connections: usize,
    /// Check TCP sequence numbers against windows.
    pub tcp_seq_check: bool,
    /// One port may have a share of the connections only.
    pub port_shares: bool,
    /// Most connections of a zone without a limit of its own; none: no limit.
    pub default_limit: Option<u32>,
    /// `[[conntrack.zone]]`.
    pub zones: Vec<ZoneConfig>,
    /// Where connections are over a restart; none: they end with the switch.
    pub state_file: Option<PathBuf>,
}

/// Section `[antrea]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AntreaConfig {
    /// Directory of what agents declared, over a restart; none: the switch waits for an agent.
    pub state_dir: Option<PathBuf>,
}

impl Default for ConntrackConfig {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_DEFAULT,
            tcp_seq_check: true,
            port_shares: true,
            default_limit: None,
            zones: Vec::new(),
            state_file: None,
        }
    }
}

/// A zone of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneConfig {
    /// Its number.
    pub zone: u16,
    /// Most connections that it may have; 0: none at all. None: the default counts.
    pub limit: Option<u32>,
    /// Timeouts of its own.
    pub timeouts: Option<Policy>,
    /// What nobody has answered yet is `+new`, not `+est`.
    pub established_after_answer: bool,
}

/// Section `[process]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessConfig {
    /// Capabilities of Linux that all threads keep when the ports of the configuration are open.
    pub keep_capabilities: Capabilities,
}

/// What ports that are added later need. `net_admin`, `net_raw`: interfaces, packet sockets.
/// `ipc_lock`: memory of AF_XDP and VFIO. `sys_admin`: the network namespace of a Pod's TAP, the
/// program of AF_XDP. `dac_override`: sockets of guests that are not root's.
const KEPT: [&str; 5] = ["net_admin", "net_raw", "ipc_lock", "sys_admin", "dac_override"];

impl Default for ProcessConfig {
    fn default() -> Self {
        let kept = KEPT.iter().try_fold(Capabilities::NONE, |set, name| set.with(name));
        Self { keep_capabilities: kept.unwrap_or(Capabilities::ALL) }
    }
}

/// Section `[debug]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugConfig {
    /// Keep decisions in caches. Off: every packet is looked up in the tables.
    pub cache: bool,
    /// Tell the links of tunnels' VTEPs which addresses are theirs.
    pub announce: bool,
}

/// Section `[observe]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObserveConfig {
    /// Where metrics are shown by HTTP; none: nowhere.
    pub metrics: Option<MetricsAddress>,
    /// Further sets of names that metrics have; each once.
    pub compat: Vec<Compat>,
    /// Metrics tell each rule of policies.
    pub rule_metrics: bool,
    /// Observations that the switch keeps; 0: it observes only while a client follows.
    pub ring: usize,
    /// Connections are observed though no client follows.
    pub ring_connections: bool,
}

impl Default for ObserveConfig {
    fn default() -> Self {
        let ring = OBSERVE_RING_DEFAULT;
        Self { metrics: None, compat: Vec::new(), rule_metrics: false, ring, ring_connections: false }
    }
}

/// An address for HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsAddress {
    /// A unix socket; mode 0660.
    Unix(PathBuf),
    /// TCP. The port is not 0.
    Tcp(SocketAddr),
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// Names that other programs give to what the switch counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// Those of openstack-network-exporter, which tells of Open vSwitch.
    Ovs,
    /// Those of Antrea's agent.
    Antrea,
}

impl Compat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Ovs, Self::Antrea];

    /// As the file has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ovs => "ovs",
            Self::Antrea => "antrea",
        }
    }
}

/// Where gRPC listens by default. Its directory is made at start; any other must exist.
pub const SOCKET_DEFAULT: &str = "/run/vswitch/vswitch.sock";

impl SwitchConfig {
    /// What an empty file means on a machine where the process may run on `cores`.
    #[must_use]
    pub fn with_defaults(cores: &[u32]) -> Self {
        let main_core = default_main_core(cores, &[]);
        Self {
            dpdk: DpdkConfig {
                worker_cores: default_worker_cores(cores, main_core),
                main_core,
                memory_mb: 512,
                mbufs: None,
                hugepages: true,
                file_prefix: None,
                pci: false,
                args: Vec::new(),
                allow_drivers: Vec::new(),
            },
            worker: WorkerConfig::default(),
            conntrack: ConntrackConfig::default(),
            antrea: AntreaConfig::default(),
            slow_path: Rates::default(),
            socket: PathBuf::from(SOCKET_DEFAULT),
            persist: None,
            listeners: Vec::new(),
            audit_file: None,
            paths: PathsConfig::default(),
            process: ProcessConfig::default(),
            debug: DebugConfig { cache: true, announce: true },
            observe: ObserveConfig::default(),
            enable_dummy: false,
            bridges: Vec::new(),
            routes: Vec::new(),
            programs: BTreeMap::new(),
            pins: BTreeMap::new(),
            saved: None,
        }
    }
}

/// The lowest core that is no worker's, else the lowest.
pub(super) fn default_main_core(cores: &[u32], workers: &[u32]) -> u32 {
    let free = cores.iter().filter(|core| !workers.contains(core)).min();
    free.or(cores.iter().min()).copied().unwrap_or(0)
}

/// The highest core that is not the main core, else the main core itself.
pub(super) fn default_worker_cores(cores: &[u32], main_core: u32) -> Vec<u32> {
    vec![cores.iter().filter(|core| **core != main_core).max().copied().unwrap_or(main_core)]
}
