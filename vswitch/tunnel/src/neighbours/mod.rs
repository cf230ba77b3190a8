//! Who has which address on the links that tunnels go through: (bridge, IP address) to MAC address.
//!
//! **Where in the walk**: translation looks a next hop up; if it is not known it [asks](Neighbours::ask) and sends a [`crate::question`]. Whoever sees an ARP packet or a neighbour advertisement
//! in that bridge [tells](Neighbours::learn). A packet that uses a decision marks the neighbour as [used](Neighbour::used).
//!
//! **Design**: entries are made only by asking and by hand, so that strangers cannot fill the table. An entry's answer is one word. The entries of a shard are an immutable sorted list that
//! is replaced when one comes or goes; readers take no lock, and an answer that says what is known writes nothing but the time, once a second.
//!
//! **Limits**: [`NEIGHBOURS_MAX`] in all, [`PENDING_MAX`] of them unanswered; a new one may take the place of one in its shard that is unanswered or unused for long. An answer changes at most
//! once a second from the wire.
//!
//! **Threads**: everything is `&self`. Workers look up, ask, learn; the control side lists, sets, flushes and ages.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Neighbours of all bridges.
pub const NEIGHBOURS_MAX: usize = 4096;
/// Of them, those that have not answered yet.
pub const PENDING_MAX: usize = 1024;
/// Milliseconds after which an answer is forgotten (Open vSwitch's default, `tnl/neigh/aging`).
pub const AGEING_MS: u64 = 15 * 60 * 1000;
/// Milliseconds after which a neighbour in use is asked again.
pub const REFRESH_MS: u64 = 13 * 60 * 1000;

/// One neighbour, known or asked for. A decision keeps it, and asks it per packet instead of looking it up.
#[derive(Debug)]
pub struct Neighbour {}

impl Neighbour {
    /// Its address, if it is known and still in the table.
    #[inline]
    #[must_use]
    pub fn mac(&self) -> Option<[u8; 6]> {
        unimplemented!()
    }

    /// A packet goes to it. Writes at most once a second. True: its answer is old, ask it again (at most once a second, and one caller only is told).
    #[inline]
    #[must_use]
    pub fn used(&self, now_ms: u64) -> bool {
        let _ = now_ms;
        unimplemented!()
    }
}

/// A neighbour, as listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Number of the bridge, as the caller counts bridges.
    pub bridge: u32,
    /// Its IP address.
    pub ip: IpAddr,
    /// Its MAC address; none: it has not answered yet.
    pub mac: Option<[u8; 6]>,
    /// Milliseconds (of the caller's clock) when it was last heard of or set; 0 if never.
    pub heard_ms: u64,
    /// When it was last asked; 0 if never.
    pub asked_ms: u64,
    /// When a packet was last sent to it; 0 if never.
    pub used_ms: u64,
}

/// The table in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stats {
    /// Now, pending ones included.
    pub entries: usize,
    /// Asked for, and not answered yet.
    pub pending: usize,
    /// Answers that changed something, since start.
    pub changed: u64,
    /// Answers that came less than a second after the last change of their entry.
    pub held_off: u64,
    /// Questions that were not asked because the table or the list of unanswered ones is full.
    pub refused: u64,
    pub expired: u64,
    pub evicted: u64,
}

/// The table.
pub struct Neighbours {
    notice: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Neighbours").finish_non_exhaustive()
    }
}

impl Neighbours {
    /// Empty. `notice` is called after an answer has changed (known, another, or known no more) and can be seen, on the thread that changed it, without a lock: raise the switch's epoch there
    /// (`Changes`, as with links).
    #[must_use]
    pub fn new(notice: impl Fn() + Send + Sync + 'static) -> Self {
        Self { notice: Box::new(notice) }
    }

    /// How often an answer has changed. Read it before looking up what is to be remembered.
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> u64 {
        (self.notice)();
        unimplemented!()
    }

    /// The MAC address of a neighbour, if it is known.
    #[must_use]
    pub fn lookup(&self, bridge: u32, ip: IpAddr) -> Option<[u8; 6]> {
        let _ = (bridge, ip);
        unimplemented!()
    }

    /// The neighbour itself, if it is known: to be kept with a decision.
    #[must_use]
    pub fn entry(&self, bridge: u32, ip: IpAddr) -> Option<Arc<Neighbour>> {
        let _ = (bridge, ip);
        unimplemented!()
    }

    /// Somebody wants to know a neighbour. True: send a question now; it has been noted. False: it is known and fresh, or was asked less than a second ago, or there is no room.
    #[must_use]
    pub fn ask(&self, bridge: u32, ip: IpAddr, now_ms: u64) -> bool {
        let _ = (bridge, ip, now_ms);
        unimplemented!()
    }

    /// An ARP packet (its sender addresses) or a neighbour advertisement (its target) was seen in a bridge. Counts only for neighbours that are in the table. True: the answer changed.
    pub fn learn(&self, bridge: u32, ip: IpAddr, mac: [u8; 6], now_ms: u64) -> bool {
        let _ = (bridge, ip, mac, now_ms);
        unimplemented!()
    }

    /// Somebody says so: as if it had been asked and answered (`ovs-appctl tnl/neigh/set`). It ages, and an answer may change it. False: there is no room, or the address is no host's.
    pub fn set(&self, bridge: u32, ip: IpAddr, mac: [u8; 6], now_ms: u64) -> bool {
        let _ = (bridge, ip, mac, now_ms);
        unimplemented!()
    }

    /// Forgets those of a bridge, or all; returns how many. Call it when a bridge goes.
    pub fn flush(&self, bridge: Option<u32>) -> usize {
        let _ = bridge;
        unimplemented!()
    }

    /// Forgets answers older than [`AGEING_MS`], and who has not answered for some seconds. The control side calls it about once a second.
    pub fn age(&self, now_ms: u64) {
        let _ = now_ms;
        unimplemented!()
    }

    /// All, in order of bridge and address.
    #[must_use]
    pub fn dump(&self) -> Vec<Listed> {
        unimplemented!()
    }

    /// The table in numbers.
    #[must_use]
    pub fn stats(&self) -> Stats {
        unimplemented!()
    }
}
