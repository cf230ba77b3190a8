//! Connection tracking without packets: who talks to whom, in which state, under which other name.
//!
//! **Where in the walk**: behind `ct()`. The switch's own `conntrack` room reads a packet into a
//! [`Seen`], asks [`Tracker::track`], and writes what the [`TrackVerdict`] says back into the
//! packet. Bytes, checksums and fragments are the packet path's business; here are only values.
//!
//! **Semantics**: Open vSwitch 3.1's userspace datapath (`lib/conntrack.c`, `lib/conntrack-tcp.c`),
//! except where it is wrong: a bare `nat` on a new connection is the identity, what finds no free
//! tuple or no room is refused by name, ICMP identifiers are translated on a clash, SCTP has ports.
//!
//! **Design**: one [`Tracker`] for all workers. Connections lie in an arena that is allocated once,
//! two cache lines each: what every packet touches, and the rest; addresses of IPv6 in a third one,
//! which takes memory when it is first used. With the index that is 164 bytes, or 228. An index of
//! cache-line buckets leads from a keyed hash of a [`Tuple`] to them, for both directions. Looking
//! up takes no lock until a place is found; what belongs to a connection is read and changed under
//! that connection's own lock, after it was verified that it is the connection that was looked for:
//! for some nanoseconds, or by the worker that keeps it for its packets on the fast path
//! ([`Owner`]), without a locked instruction then; adding takes the locks of both tuples in the
//! index, removing takes none. A place is used again under a new generation.
//!
//! **Over a restart**: [`Tracker::save`] writes all of it, [`Tracker::restore`] reads it into an
//! empty table, or none of it.
//!
//! **Limits**: [`Config::connections_max`] in all, of any mix of families, [`Limits`] per zone, a
//! [`Share`] per port. A full table refuses new connections, after it has tried to let go of
//! unreplied ones. A port that has its share loses unreplied ones of its own, else its new
//! connections are refused. Established ones never go.
//!
//! **Threads**: everything is `&self`. Workers track; the control side expires, dumps, flushes and
//! sets limits a few entries at a time. Who wants to change a connection that a worker keeps waits
//! until that worker is done with its burst.
#![forbid(unsafe_code)]

mod checksum;
mod ingress;
mod memory;
mod nat;
mod request;
pub mod tcp;
mod timeout;
mod tracker;
mod tuple;

pub use checksum::Checksum;
pub use ingress::Ingress;
pub use memory::{Memory, Ordinary};
pub use nat::{Nat, NatSide, choose};
pub use request::{Direction, Helper, L4, Refusal, Related, Request, Rewrite, Seen, TrackVerdict, state};
pub use timeout::{Class, KERNEL_ONLY, Policy, UnknownClass};
pub use tracker::{
    Config, Connection, Control, Counts, Event, EventKind, Expected, Filter, Handle, Limits, Link, Moment, Owner,
    PORTS, PortCount, RestoreError, Restored, Saved, Share, Tracker, ZoneCount,
};
pub use tuple::{End, Family, Tuple, protocol};
