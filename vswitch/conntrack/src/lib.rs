//! Connection tracking without packets: who talks to whom, in which state, under which other name.
//!
//! **Where in the walk**: behind `ct()`. The switch's own `conntrack` room reads a packet into a [`Seen`], asks [`Tracker::track`], and writes what the
//! [`Verdict`] says back into the packet. Bytes, checksums and fragments are that room's business; here are only values.
//!
//! **Semantics**: Open vSwitch 3.1's userspace datapath (`lib/conntrack.c`, `lib/conntrack-tcp.c`), except where it is wrong: a bare `nat` on a new connection is the identity, what finds no free
//! tuple or no room is refused by name, ICMP identifiers are translated on a clash, SCTP has ports.
//!
//! **Design**: one [`Tracker`] for all workers. Connections lie in an arena that is allocated once; an index of cache-line buckets leads from a keyed hash of a [`Tuple`] to
//! them, for both directions. Looking up takes no lock; what changes a connection takes that connection's own lock for some nanoseconds; adding and removing takes a lock of the
//! index's shard. A place is used again under a new generation: whoever looked it up before sees that it is another one.
//!
//! **Limits**: [`Config::connections_max`] in all, [`Limits`] per zone; a full table refuses new connections, after it has tried to let go of unreplied ones; established ones never go.
//!
//! **Threads**: everything is `&self`. Workers track; the control side expires, dumps, flushes and sets limits a few entries at a time, and nobody waits for it.

mod nat;
mod request;
pub mod tcp;
mod timeout;
mod tracker;
mod tuple;

pub use nat::{Nat, NatSide, choose};
pub use request::{Direction, Helper, L4, Refusal, Related, Request, Rewrite, Seen, Verdict, state};
pub use timeout::{Class, KERNEL_ONLY, Policy, UnknownClass};
pub use tracker::{Config, Connection, Counts, Event, EventKind, Filter, Limits, Tracker, ZoneCount};
pub use tuple::{End, Family, Tuple, protocol};
