//! `ct()`: from packets to connections and back.
//!
//! **Where in the walk**: [`crate::action::Op::Ct`]. A packet comes in, is read and verified (`read`), held if it is a fragment (`fragments`), tracked
//! ([`vswitch_conntrack::Tracker`]), and rewritten as the connection says (`rewrite`, `related`).
//!
//! **Semantics**: Open vSwitch 3.1's userspace datapath: a wrong checksum or length is `+inv`, never a drop. Chosen otherwise: fragments of any length are held, per in_port and tunnel
//! too; they match the first one's ports behind `ct()`; what is refused is dropped by name.
//!
//! **Threads**: one [`Conntrack`] for all workers, `&self`. Fragments are behind a short lock, whole packets are not.

use crate::action::Packet;
use crate::dpdk::Mbuf;
use crate::observe::DropReason;
use crate::port::PortId;
use crate::time::Millis;
use vswitch_conntrack::{Config, Request, Tracker, Verdict};

/// The switch's connections and waiting fragments.
#[derive(Debug)]
pub struct Conntrack {
    tracker: Tracker,
}

/// Where a packet meets `ct()`.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Whose counters count.
    pub worker: usize,
    /// Now.
    pub now: Millis,
    /// Port that the packet came in by: fragments of different ports are never joined.
    pub port: PortId,
    /// Digest of the tunnel metadata that the packet came with, likewise; 0: none.
    pub tunnel: u64,
}

/// What becomes of a packet at `ct()`.
#[derive(Debug)]
pub enum Outcome {
    /// It goes on, rewritten.
    Tracked(Packet, Verdict),
    /// It is a fragment and waits for the others.
    Held,
    /// It was the last missing fragment: all of them go on, in order of their offsets, rewritten.
    Complete(Fragments),
    /// It dies.
    Drop(Mbuf, DropReason),
}

/// All fragments of a datagram.
#[derive(Debug)]
pub struct Fragments {
    /// In order of their offsets.
    pub packets: Vec<Packet>,
    /// One for all.
    pub verdict: Verdict,
    /// Ports (of ICMP type and code) of the first one as it is now, which all are to match.
    pub ports: (u16, u16),
    /// TCP flags of the first one, likewise.
    pub tcp_flags: u16,
}

impl Conntrack {
    /// Takes the memory for so many connections.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { tracker: Tracker::new(config) }
    }

    /// The connections.
    #[must_use]
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// A packet meets `ct()`.
    #[must_use]
    pub fn track(&self, packet: Packet, request: &Request, place: Place) -> Outcome {
        let _ = (request, place);
        Outcome::Tracked(packet, Verdict::INVALID)
    }

    /// Gives up fragments whose others did not come. A worker, every millisecond; it does nothing most of the time.
    pub fn tend(&self, now: Millis, mut drop: impl FnMut(PortId, Mbuf, DropReason)) {
        let _ = (now, &mut drop);
    }
}
