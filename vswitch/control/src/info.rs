//! Plain values that the control side takes and gives: what gRPC and the command line show.

use vswitch_dataplane::cache::CacheStats;
use vswitch_dataplane::limits;
use vswitch_dataplane::observe::{Fallback, PortTotals};
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::port::{FieldError, PortConfig, is_name};

pub use vswitch_dataplane::pipeline::{FailMode, FdbStats};

/// A bridge as its owner describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Name, unique in the switch.
    pub name: String,
    /// What it does before anything is programmed.
    pub fail_mode: FailMode,
    /// Addresses that its MAC table holds at most.
    pub fdb_entries: u32,
    /// Seconds after which an unused learned address goes.
    pub fdb_ageing_s: u32,
    /// Malformed packets that come in by its ports are dropped by name
    /// ([`vswitch_dataplane::packet::strict`]).
    pub strict: bool,
}

impl BridgeConfig {
    /// A bridge with defaults.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            fail_mode: FailMode::Secure,
            fdb_entries: limits::FDB_ENTRIES_DEFAULT,
            fdb_ageing_s: limits::FDB_AGEING_S_DEFAULT,
            strict: false,
        }
    }
}

impl BridgeConfig {
    /// Everything that is wrong with these values by themselves.
    #[must_use]
    pub fn errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !is_name(&self.name) {
            let problem = format!("{:?} is not a name", self.name);
            errors.push(FieldError::new("name", problem, "use 1 to 15 characters of A-Z a-z 0-9 . _ -"));
        }
        for (field, value, range) in [
            ("fdb_entries", self.fdb_entries, 1..=limits::FDB_ENTRIES_MAX),
            ("fdb_ageing_s", self.fdb_ageing_s, limits::FDB_AGEING_S),
        ] {
            if !range.contains(&value) {
                let hint = format!("use {} to {}", range.start(), range.end());
                errors.push(FieldError::new(field, format!("{value} is out of range"), hint));
            }
        }
        errors
    }
}

/// A bridge as it is.
#[derive(Clone, Debug)]
pub struct BridgeInfo {
    /// What was asked for.
    pub config: BridgeConfig,
    /// Its ports, by number.
    pub ports: Vec<PortInfo>,
    /// Its MAC table, in numbers.
    pub fdb: FdbStats,
}

/// A port as it is.
#[derive(Clone, Debug)]
pub struct PortInfo {
    /// Name of its bridge.
    pub bridge: String,
    /// What was asked for.
    pub config: PortConfig,
    /// Its OpenFlow number; `u32::MAX - 1` (0xfffffffe) is LOCAL.
    pub number: u32,
    /// Its address.
    pub mac: Mac,
    /// Whether it has a peer: carrier, a connected guest, the other end of a patch.
    pub link_up: bool,
    /// Link speed in Mbit/s; 0: unknown.
    pub link_speed_mbps: u32,
    /// MTU of the interface of the kernel behind it, in bytes.
    pub interface_mtu: Option<u32>,
    /// Its device is being opened for the first time: nobody was told that it is there.
    pub opening: bool,
    /// Why it is not open, when it is not: it is kept, and opened again on request. Or that its
    /// device is being opened, or that its interface is gone.
    pub error: Option<String>,
    /// Receive queues in use.
    pub rx_queues: u16,
    /// Transmit queues in use.
    pub tx_queues: u16,
    /// Offloads in use, by name (`rx-csum`, `tx-csum`, `tx-tso`, `multi-segment`, ...).
    pub offloads: Vec<&'static str>,
    /// What its other end can do: asked, offered, used, done in software.
    pub capabilities: Vec<vswitch_dataplane::port::Capability>,
    /// Counters, summed over workers.
    pub totals: PortTotals,
}

/// Whether a table may have this name. `table=all` is all tables.
pub(crate) fn is_table_name(name: &str) -> bool {
    name.len() <= limits::TABLE_NAME_MAX
        && !name.eq_ignore_ascii_case("all")
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

/// OpenFlow number of a bridge's LOCAL port.
pub const LOCAL: u32 = 0xffff_fffe;

/// A change of some of a bridge's attributes; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeChange {
    /// New fail mode.
    pub fail_mode: Option<FailMode>,
    /// New strict flag.
    pub strict: Option<bool>,
}

/// A change of some of a port's attributes; `None` leaves one as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortChange {
    /// New administrative state.
    pub admin_up: Option<bool>,
    /// New no-flood flag.
    pub no_flood: Option<bool>,
    /// New no-receive flag.
    pub no_receive: Option<bool>,
    /// New no-forward flag.
    pub no_forward: Option<bool>,
    /// New addresses.
    pub addresses: Option<Vec<vswitch_dataplane::port::Cidr>>,
    /// New strict flag.
    pub strict: Option<bool>,
    /// New underlay flag.
    pub underlay: Option<bool>,
    /// New MTU.
    pub mtu: Option<u16>,
    /// Whether the MTU follows the interface of the kernel behind the port. None: it does not any
    /// more, if `mtu` is given.
    pub mtu_follows: Option<bool>,
    /// New external ids, all of them.
    pub external_ids: Option<std::collections::BTreeMap<String, String>>,
}

/// Something that happened to a port.
#[derive(Clone, Debug)]
pub struct PortEvent {
    /// Counts events of this switch, from 1, without gaps.
    pub sequence: u64,
    /// What.
    pub kind: PortEventKind,
    /// The port after it (before it, for `Removed`).
    pub port: PortInfo,
}

/// Kinds of port events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEventKind {
    /// It exists now.
    Added,
    /// It is gone.
    Removed,
    /// Its link went up.
    LinkUp,
    /// Its link went down.
    LinkDown,
    /// Attributes changed.
    Modified,
}

/// An address in a bridge's MAC table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdbInfo {
    /// Number of the port.
    pub port_number: u32,
    /// Name of the port.
    pub port: String,
    /// VLAN; 0: untagged.
    pub vlan: u16,
    /// The address.
    pub mac: Mac,
    /// Seconds since it was seen; `None`: static.
    pub age_s: Option<u32>,
}

/// Which addresses to flush; `None` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FdbFilter {
    /// Only of this port (by name).
    pub port: Option<String>,
    /// Only of this VLAN.
    pub vlan: Option<u16>,
    /// Only this address.
    pub mac: Option<Mac>,
    /// Static ones too.
    pub statics: bool,
}

/// A worker as it is. Cycles are TSC cycles since it started, or since the last clear.
#[derive(Clone, Debug, Default)]
pub struct WorkerInfo {
    /// Its index.
    pub id: u32,
    /// Its core.
    pub core: u32,
    /// TSC cycles per second.
    pub tsc_hz: u64,
    /// Cycles in iterations that had packets.
    pub busy_cycles: u64,
    /// Cycles in iterations that had none.
    pub idle_cycles: u64,
    /// Cycles slept.
    pub sleep_cycles: u64,
    /// Iterations of the loop.
    pub iterations: u64,
    /// Packets received.
    pub packets: u64,
    /// Bursts that had any packet.
    pub bursts: u64,
    /// Milliseconds since its last heartbeat.
    pub heartbeat_age_ms: u64,
    /// Receive queues that it polls.
    pub rxqs: u32,
    /// What its panic said; None: it has not panicked.
    pub panicked: Option<String>,
    /// How often the kernel took its core away since the thread began; none: it has ended.
    pub nonvoluntary_switches: Option<u64>,
    /// What its caches did, and hold.
    pub caches: CachesInfo,
}

impl WorkerInfo {
    /// Counts only what came after `base`, an earlier reading of the same worker.
    pub(super) fn count_from(&mut self, base: &Self) {
        self.busy_cycles -= base.busy_cycles;
        self.idle_cycles -= base.idle_cycles;
        self.sleep_cycles -= base.sleep_cycles;
        self.iterations -= base.iterations;
        self.packets -= base.packets;
        self.bursts -= base.bursts;
        self.caches.count_from(&base.caches);
    }
}

/// What a worker's caches did, counted from when the worker's counts start, and what they hold now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachesInfo {
    /// Packets decided by programs, all stages at once.
    pub program_hits: u64,
    /// First packets of connections, all stages at once.
    pub opening_hits: u64,
    /// Decisions found in the exact-match cache.
    pub exact_hits: u64,
    /// Decisions found in the megaflow cache.
    pub megaflow_hits: u64,
    /// Decisions by translation.
    pub misses: u64,
    /// Packets that were to be translated and were dropped.
    pub lost_misses: u64,
    /// Megaflows that used tables which changed, but only by rules that their packets cannot meet.
    pub spared: u64,
    /// Megaflows that used something which changed, and are what would be decided now.
    pub revalidated: u64,
    /// Megaflows that a change ended.
    pub retired: u64,
    /// Packets that met `ct()` and took the slow path, by [`Fallback`].
    pub fallbacks: [u64; Fallback::COUNT],
    /// Paths of programs now.
    pub paths: u64,
    /// Megaflows now.
    pub megaflows: u64,
    /// Masks now.
    pub masks: u64,
}

impl CachesInfo {
    /// A reading of what a worker counts.
    pub(super) fn read(stats: &CacheStats) -> Self {
        Self {
            program_hits: stats.program_hits.get(),
            opening_hits: stats.opening_hits.get(),
            exact_hits: stats.exact_hits.get(),
            megaflow_hits: stats.megaflow_hits.get(),
            misses: stats.misses.get(),
            lost_misses: stats.lost_misses.get(),
            spared: stats.spared.get(),
            revalidated: stats.revalidated.get(),
            retired: stats.retired.get(),
            fallbacks: Fallback::ALL.map(|why| stats.fallbacks[why as usize].get()),
            paths: stats.paths.get(),
            megaflows: stats.megaflows.get(),
            masks: stats.masks.get(),
        }
    }

    fn count_from(&mut self, base: &Self) {
        self.program_hits -= base.program_hits;
        self.opening_hits -= base.opening_hits;
        self.exact_hits -= base.exact_hits;
        self.megaflow_hits -= base.megaflow_hits;
        self.misses -= base.misses;
        self.lost_misses -= base.lost_misses;
        self.spared -= base.spared;
        self.revalidated -= base.revalidated;
        self.retired -= base.retired;
        self.fallbacks.iter_mut().zip(base.fallbacks).for_each(|(count, base)| *count -= base);
    }
}

/// A receive queue and where it is polled.
#[derive(Clone, Debug)]
pub struct RxqInfo {
    /// Name of the bridge.
    pub bridge: String,
    /// Name of the port.
    pub port: String,
    /// Queue number.
    pub queue: u16,
    /// Core of the worker that polls it.
    pub core: u32,
    /// Pinned there by request.
    pub pinned: bool,
    /// Part of the worker's cycles that went into it, in percent, over the last seconds.
    pub usage_percent: f64,
    /// Packets received.
    pub packets: u64,
}

/// The mbuf pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MempoolInfo {
    /// Buffers in all.
    pub size: u64,
    /// Buffers that devices, bursts and packets hold.
    pub in_use: u64,
    /// Bytes of DPDK's heap that are allocated.
    pub heap_bytes: u64,
}

/// Why a change was refused. Nothing was changed, but for [`SwitchError::Late`].
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// It does not exist.
    #[error("{what} {name:?} does not exist; {hint}")]
    NotFound {
        /// "bridge", "port", ...
        what: &'static str,
        /// Its name.
        name: String,
        /// How to find out what exists.
        hint: String,
    },
    /// Name, number or device is taken.
    #[error("{what} {name:?} already exists; {hint}")]
    Exists {
        /// "bridge", "port", "port number", ...
        what: &'static str,
        /// Its name.
        name: String,
        /// What to do.
        hint: String,
    },
    /// Values are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<FieldError>),
    /// A limit is reached.
    #[error("{what}: the limit of {limit} is reached")]
    Exhausted {
        /// What there are too many of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A device could not be opened or changed.
    #[error("port {name:?}: {reason}")]
    Device {
        /// Name of the port.
        name: String,
        /// What the device or kernel said, and a hint.
        reason: String,
    },
    /// Not in this state.
    #[error("{0}")]
    Precondition(String),
    /// Not now: something else has to end first. Nothing was changed; trying again helps.
    #[error("{0}")]
    Busy(String),
    /// Something did not answer in time. The change is made, and not in force everywhere yet; or
    /// the device of a port may still come. The text says which.
    #[error("{0}")]
    Late(String),
}

/// A route for tunnels, as its owner describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    /// Where to.
    pub prefix: vswitch_dataplane::port::Cidr,
    /// Name of the port that it leads out of; it has addresses.
    pub port: String,
    /// The next hop, if it is not the destination itself.
    pub gateway: Option<std::net::IpAddr>,
    /// Our own address to be used; none: the port's that fits.
    pub source: Option<std::net::IpAddr>,
}

/// A route as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// Where to.
    pub prefix: String,
    /// Name of the port.
    pub port: String,
    /// The next hop.
    pub gateway: Option<std::net::IpAddr>,
    /// Our own address; none: the port has none that fits, and the route is not used.
    pub source: Option<std::net::IpAddr>,
    /// Somebody added it; else it is a port's own network.
    pub user: bool,
}

/// A neighbour of a tunnel's underlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourInfo {
    /// Name of the bridge.
    pub bridge: String,
    /// Its address.
    pub address: std::net::IpAddr,
    /// Its MAC address; none: it has not answered yet.
    pub mac: Option<Mac>,
    /// Seconds since it was last heard of.
    pub age_s: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_start_over_and_what_is_held_stays() {
        let caches = |n: u64| CachesInfo {
            program_hits: n,
            opening_hits: 9 * n,
            exact_hits: 2 * n,
            megaflow_hits: 3 * n,
            misses: 4 * n,
            lost_misses: 5 * n,
            spared: 6 * n,
            revalidated: 7 * n,
            retired: 8 * n,
            fallbacks: [n; Fallback::COUNT],
            paths: 5,
            megaflows: 6,
            masks: 7,
        };
        let mut worker = WorkerInfo { packets: 12, bursts: 5, caches: caches(10), ..WorkerInfo::default() };
        worker.count_from(&WorkerInfo { packets: 10, bursts: 1, caches: caches(7), ..WorkerInfo::default() });
        assert_eq!((worker.packets, worker.bursts), (2, 4));
        assert_eq!(worker.caches, caches(3));
    }
}
