//! Who has which address on the links that tunnels go through: (bridge, IP address) to MAC address.
//!
//! **Where in the walk**: translation looks a next hop up; if it is not known, a packet
//! [asks](Neighbours::ask) and sends a [`crate::question`]. Whoever sees an ARP packet or a
//! neighbour advertisement in that bridge [tells](Neighbours::learn). A packet that uses a decision
//! marks the neighbour as [used](Neighbour::used).
//!
//! **Design**: entries are made only by asking and by hand, so that strangers cannot fill the
//! table. What is known of a neighbour is one word. The neighbours of a shard are an immutable
//! sorted list that is replaced when one comes or goes; readers take no lock, and an answer that
//! says what is known writes nothing but the time, once a second. Whoever changes what is known, or
//! the list, holds the lock of the shard, for as long as some hundred entries take. Which shard, a
//! keyed hash says: nobody can aim at one.
//!
//! **Limits**: [`NEIGHBOURS_MAX`] in all, [`PENDING_MAX`] of them unanswered. When either is
//! reached a new one takes the place of one in its shard that has had a second to answer, else of
//! one that was not used for a minute; if there is none it is refused. What is known of a neighbour
//! changes at most once a second from the wire, and of all neighbours together ten times a second,
//! after fifty at once ([`news`]): hosts that quarrel over addresses cannot keep the caches busy.
//! Who is held off is asked again when it is used next, so that no change is missed; first answers
//! are not counted.
//!
//! **Threads**: everything is `&self`. Workers look up, ask, learn; the control side lists, sets,
//! flushes and ages.

mod news;
mod shard;
mod table;
#[cfg(test)]
mod tests;

pub use table::Neighbours;

use std::net::IpAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Neighbours of all bridges.
pub const NEIGHBOURS_MAX: usize = 4096;
/// Of them, those that have not answered yet.
pub const PENDING_MAX: usize = 1024;
/// Milliseconds after which an answer is forgotten (Open vSwitch's default, `tnl/neigh/aging`).
pub const AGEING_MS: u64 = 15 * 60 * 1000;
/// Milliseconds after which a neighbour in use is asked again.
pub const REFRESH_MS: u64 = 13 * 60 * 1000;
/// Milliseconds after the last question when one that has not answered is forgotten.
pub const PENDING_MS: u64 = 5000;
/// Milliseconds that a neighbour must have been out of use to give way to a new one.
pub const UNUSED_MS: u64 = 60_000;
/// Milliseconds between two questions to a neighbour, two changes of it from the wire, two writes
/// of the same time.
const INTERVAL_MS: u64 = 1000;

/// It has not happened.
const NEVER: u64 = u64::MAX;

/// A MAC address is known: above its 48 bits.
const KNOWN: u64 = 1 << 48;

/// One neighbour, known or asked for. A decision keeps it, and marks it per packet instead of
/// looking it up.
#[derive(Debug)]
pub struct Neighbour {
    /// [`KNOWN`] and its address; 0: not known, or no longer in the table. Written under the lock
    /// of the shard.
    mac: AtomicU64,
    /// When an answer, whatever it said, was last taken; when what is known last changed; when it
    /// was last asked, and used. Milliseconds, or [`NEVER`].
    heard: AtomicU64,
    changed: AtomicU64,
    asked: AtomicU64,
    used: AtomicU64,
    /// It has said something else, which could not be taken.
    doubted: AtomicBool,
}

impl Neighbour {
    const fn new() -> Self {
        Self {
            mac: AtomicU64::new(0),
            heard: AtomicU64::new(NEVER),
            changed: AtomicU64::new(NEVER),
            asked: AtomicU64::new(NEVER),
            used: AtomicU64::new(NEVER),
            doubted: AtomicBool::new(false),
        }
    }

    /// Its address, if it is known and it is still in the table.
    #[inline]
    #[must_use]
    pub fn mac(&self) -> Option<[u8; 6]> {
        let word = self.mac.load(Acquire);
        let [_, _, mac @ ..] = word.to_be_bytes();
        (word != 0).then_some(mac)
    }

    /// A packet goes to it. Writes at most once a second. True: what is known is old, ask it again
    /// (at most once a second, and one caller only is told).
    #[inline]
    #[must_use]
    pub fn used(&self, now_ms: u64) -> bool {
        passed(self.used.load(Relaxed), now_ms, INTERVAL_MS) && self.used_again(now_ms)
    }

    #[cold]
    fn used_again(&self, now_ms: u64) -> bool {
        self.used.store(now_ms, Relaxed);
        self.is_known() && self.is_old(now_ms) && self.claim(now_ms)
    }

    /// Somebody wants to know it: whether to ask now.
    fn wanted(&self, now_ms: u64) -> bool {
        let fresh = self.is_known() && !self.is_old(now_ms);
        !fresh && self.claim(now_ms)
    }

    /// Notes a question, unless there was one less than a second ago: of several callers, one may
    /// send it.
    fn claim(&self, now_ms: u64) -> bool {
        let last = self.asked.load(Relaxed);
        passed(last, now_ms, INTERVAL_MS) && self.asked.compare_exchange(last, now_ms, Relaxed, Relaxed).is_ok()
    }

    fn is_known(&self) -> bool {
        self.mac.load(Relaxed) != 0
    }

    /// What an answer is to it. One that says what is known writes nothing but the time, at most
    /// once a second.
    fn hear(&self, word: u64, now_ms: u64) -> Heard {
        if self.mac.load(Relaxed) == word {
            if passed(self.heard.load(Relaxed), now_ms, INTERVAL_MS) {
                self.heard.store(now_ms, Relaxed);
                self.doubted.store(false, Relaxed);
            }
            Heard::Known
        } else if !passed(self.changed.load(Relaxed), now_ms, INTERVAL_MS) {
            Heard::TooSoon
        } else if self.is_known() {
            Heard::Another
        } else {
            Heard::First
        }
    }

    /// What is known may be wrong, and could not be changed: it is asked when it is used next.
    fn doubt(&self) {
        self.doubted.store(true, Relaxed);
    }

    /// What is known of it is to be asked again.
    fn is_old(&self, now_ms: u64) -> bool {
        self.doubted.load(Relaxed) || passed(self.heard.load(Relaxed), now_ms, REFRESH_MS)
    }

    /// Its time is over.
    fn is_due(&self, now_ms: u64) -> bool {
        if self.is_known() {
            passed(self.heard.load(Relaxed), now_ms, AGEING_MS)
        } else {
            passed(self.asked.load(Relaxed), now_ms, PENDING_MS)
        }
    }

    /// Knows it; the lock is held.
    fn know(&self, word: u64, now_ms: u64) {
        self.heard.store(now_ms, Relaxed);
        self.changed.store(now_ms, Relaxed);
        self.doubted.store(false, Relaxed);
        self.mac.store(word, Release);
    }

    /// It is no longer in the table; the lock is held. True: it was known.
    fn forget(&self) -> bool {
        let known = self.is_known();
        self.mac.store(0, Release);
        known
    }
}

/// What an answer is to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Known,
    /// It changed so recently that the wire may not change it again.
    TooSoon,
    /// It was not known.
    First,
    /// It was known as somebody else.
    Another,
}

/// So many milliseconds have passed since then, if it ever was.
const fn passed(then: u64, now_ms: u64, ms: u64) -> bool {
    then == NEVER || now_ms.saturating_sub(then) >= ms
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
pub struct Stats {
    /// Now, pending ones included.
    pub entries: usize,
    /// Asked for, and not answered yet.
    pub pending: usize,
    /// Answers that changed something, since start.
    pub changed: u64,
    /// Answers that would have, less than a second after the last change of their neighbour, or
    /// when there was too much news of all.
    pub held_off: u64,
    /// New ones for which there was no room.
    pub refused: u64,
    /// Forgotten because they were old.
    pub expired: u64,
    /// Forgotten to make room.
    pub evicted: u64,
}
