//! The tracker: the table of connections, and what packets do to it.

use crate::{Policy, Related, Request, Seen, Tuple, Verdict, tcp};
use std::ops::ControlFlow;

/// How large the tracker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Connections in all; memory for them is taken at start.
    pub connections_max: usize,
}

/// Limits of zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// For zones without one of their own; none: unlimited.
    pub default: Option<u32>,
}

/// A zone with its limit and number of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCount {
    /// The zone.
    pub zone: u16,
    /// Its own limit.
    pub limit: Option<u32>,
    /// Connections.
    pub count: u32,
}

/// A connection as a dump shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Unique among those alive: place and generation.
    pub id: u64,
    /// Tuple of the original direction.
    pub original: Tuple,
    /// Tuple of the replies: the original one reversed, unless translated.
    pub reply: Tuple,
    /// Mark.
    pub mark: u32,
    /// Label.
    pub label: u128,
    /// State of both ends, of TCP.
    pub tcp: Option<tcp::Tcp>,
    /// Replies were seen.
    pub replied: bool,
    /// Milliseconds left to live without packets.
    pub timeout_ms: u64,
    /// When it began, in milliseconds of the tracker's clock.
    pub start_ms: u64,
    /// Packets by direction.
    pub packets: [u64; 2],
    /// Bytes by direction.
    pub bytes: [u64; 2],
    /// Connection that it was expected by (FTP data, TFTP data): the original tuple of it.
    pub master: Option<Tuple>,
}

/// Which connections are meant. Empty: all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this zone.
    pub zone: Option<u16>,
    /// IP protocol.
    pub protocol: Option<u8>,
    /// Source address of the original direction. A given family is implied.
    pub src: Option<(crate::Family, u128)>,
    /// Destination address of the original direction.
    pub dst: Option<(crate::Family, u128)>,
    /// Source port (ICMP: identifier) of the original direction.
    pub src_port: Option<u16>,
    /// Destination port of the original direction (ICMP: `type << 8 | code`).
    pub dst_port: Option<u16>,
    /// Value and mask of the mark.
    pub mark: (u32, u32),
    /// Value and mask of the label.
    pub label: (u128, u128),
}

/// Something happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// To whom, as it is now.
    pub connection: Connection,
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Committed.
    New,
    /// First reply, TCP state, mark or label changed.
    Update,
    /// Gone: expired, flushed, replaced, or dropped early.
    End,
}

/// What the tracker counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    /// Connections now.
    pub connections: u64,
    /// Most that there may be.
    pub connections_max: u64,
    /// Bytes taken at start.
    pub memory: u64,
    /// Since the start, of all connections.
    pub created: u64,
    pub expired: u64,
    pub flushed: u64,
    pub dropped_early: u64,
    pub refused_full: u64,
    pub refused_zone: u64,
    pub refused_nat: u64,
    pub refused_taken: u64,
    /// Events that subscribers lost because they read too slowly.
    pub events_lost: u64,
}

/// Tracks connections, for all workers. `now` is always milliseconds of one monotonic clock.
#[derive(Debug)]
pub struct Tracker {}

impl Tracker {
    /// Takes all memory that it will ever need.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let _ = config;
        Self {}
    }

    /// A packet meets `ct()`. `worker` names the calling thread's counters.
    pub fn track(&self, seen: &Seen, request: &Request, worker: usize, now: u64) -> Verdict {
        let _ = (seen, request, worker, now);
        Verdict::INVALID
    }

    /// An ICMP or ICMPv6 error meets `ct()`.
    pub fn track_related(&self, related: &Related, request: &Request, worker: usize, now: u64) -> Verdict {
        let _ = (related, request, worker, now);
        Verdict::INVALID
    }

    /// Lets go of what has expired, looking at a bounded number of entries; call it often (every few milliseconds, on the control side). Returns how many went.
    pub fn expire(&self, now: u64) -> usize {
        let _ = now;
        0
    }

    /// Shows each connection that a filter means, in no particular order; one that lives from before the dump until after it is shown once. Takes no lock that a worker
    /// waits for longer than for one connection.
    pub fn dump(&self, filter: &Filter, now: u64, mut show: impl FnMut(&Connection) -> ControlFlow<()>) {
        let _ = (filter, now, &mut show);
    }

    /// Removes what a filter means; returns how many went.
    pub fn flush(&self, filter: &Filter, now: u64) -> usize {
        let _ = (filter, now);
        0
    }

    /// Limits for zones without one of their own.
    pub fn set_default_limit(&self, limit: Option<u32>) {
        let _ = limit;
    }

    /// A zone's own limit; none: the default.
    pub fn set_limit(&self, zone: u16, limit: Option<u32>) {
        let _ = (zone, limit);
    }

    /// The default limit, and every zone that has a limit or connections.
    #[must_use]
    pub fn limits(&self) -> (Limits, Vec<ZoneCount>) {
        (Limits::default(), Vec::new())
    }

    /// Timeouts of a zone; none: the default ones.
    pub fn set_policy(&self, zone: u16, policy: Option<Policy>) {
        let _ = (zone, policy);
    }

    /// Timeouts of zones that have their own.
    #[must_use]
    pub fn policies(&self) -> Vec<(u16, Policy)> {
        Vec::new()
    }

    /// Whether TCP windows are checked (`ct-enable-tcp-seq-chk`); on at start.
    pub fn check_windows(&self, on: bool) {
        let _ = on;
    }

    /// See [`Self::check_windows`].
    #[must_use]
    pub fn checks_windows(&self) -> bool {
        true
    }

    /// Events from now on are kept for [`Self::take_events`], this many at most; 0: none (the default: they cost nothing then).
    pub fn keep_events(&self, max: usize) {
        let _ = max;
    }

    /// The next events, oldest first.
    pub fn take_events(&self, max: usize) -> Vec<Event> {
        let _ = max;
        Vec::new()
    }

    /// What is counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::default()
    }
}
