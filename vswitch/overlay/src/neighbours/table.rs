//! The table of all shards.

use super::news::News;
use super::shard::{Key, Shard, Writer};
use super::{AGEING_MS, Heard, KNOWN, Listed, NEVER, Neighbour, Stats, passed};
use crate::is_host;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Shards of the table.
pub(super) const SHARDS: usize = 64;
/// Milliseconds for which a shard that had no room for a question is not searched again: questions
/// come as fast as packets.
const FULL_MS: u64 = 10;

const _: () = assert!(super::REFRESH_MS < AGEING_MS && SHARDS.is_power_of_two());

/// Counts since start.
#[derive(Debug, Default)]
pub(super) struct Counts {
    changed: AtomicU64,
    held_off: AtomicU64,
    pub(super) refused: AtomicU64,
    expired: AtomicU64,
    pub(super) evicted: AtomicU64,
}

/// The table.
pub struct Neighbours {
    shards: Box<[Shard]>,
    hasher: RandomState,
    /// Of all shards, and those of them that are not known.
    pub(super) entries: AtomicUsize,
    pub(super) pending: AtomicUsize,
    epoch: AtomicU64,
    news: News,
    pub(super) counts: Counts,
    notice: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Neighbours").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Neighbours {
    /// Empty. `notice` is called after what is known of a neighbour has changed (known, another, or
    /// known no more) and can be seen, on the thread that changed it, without a lock: raise the
    /// switch's epoch there (`Changes`, as with links).
    #[must_use]
    pub fn new(notice: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::new()).collect(),
            hasher: RandomState::new(),
            entries: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            epoch: AtomicU64::new(0),
            news: News::default(),
            counts: Counts::default(),
            notice: Box::new(notice),
        }
    }

    /// How often what is known has changed. Read it before looking up what is to be remembered.
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// What is known has changed, and can be seen.
    fn announce(&self) {
        self.epoch.fetch_add(1, Release);
        (self.notice)();
    }

    #[allow(clippy::cast_possible_truncation)] // the low bits are what counts
    pub(super) fn shard(&self, key: &Key) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Looks at a neighbour, if it is in the table.
    fn with<R>(&self, key: &Key, look: impl FnOnce(&Arc<Neighbour>) -> R) -> Option<R> {
        self.shard(key).with(key, look)
    }

    /// The MAC address of a neighbour, if it is known.
    #[must_use]
    pub fn lookup(&self, bridge: u32, ip: IpAddr) -> Option<[u8; 6]> {
        self.with(&(bridge, ip), |neighbour| neighbour.mac())?
    }

    /// The neighbour itself, if it is known: to be kept with a decision.
    #[must_use]
    pub fn entry(&self, bridge: u32, ip: IpAddr) -> Option<Arc<Neighbour>> {
        self.with(&(bridge, ip), |neighbour| neighbour.is_known().then(|| Arc::clone(neighbour)))?
    }

    /// Somebody wants to know a neighbour. True: send a question now; it has been noted. False: it
    /// is known and fresh, or was asked less than a second ago, or there is no room, or nobody can
    /// have that address. Takes no lock but for a new one.
    #[must_use]
    pub fn ask(&self, bridge: u32, ip: IpAddr, now_ms: u64) -> bool {
        let key = (bridge, ip);
        if let Some(asks) = self.with(&key, |neighbour| neighbour.wanted(now_ms)) {
            return asks;
        }
        if !is_host(ip) {
            return false;
        }
        if !passed(self.shard(&key).full.load(Relaxed), now_ms, FULL_MS) {
            self.counts.refused.fetch_add(1, Relaxed);
            return false;
        }
        let (asks, changed) = {
            let mut shard = Writer::new(self, self.shard(&key));
            let found = shard.get_or_insert(key, true, now_ms);
            (found.is_some_and(|neighbour| neighbour.wanted(now_ms)), shard.changed)
        };
        if changed {
            self.announce();
        }
        asks
    }

    /// An ARP packet (its sender addresses) or a neighbour advertisement (its target) was seen in a
    /// bridge. Counts only for neighbours that are in the table. True: what is known changed. Takes
    /// a lock only for that.
    pub fn learn(&self, bridge: u32, ip: IpAddr, mac: [u8; 6], now_ms: u64) -> bool {
        let key = (bridge, ip);
        let Some(word) = word(mac) else { return false };
        match self.with(&key, |neighbour| neighbour.hear(word, now_ms)) {
            None | Some(Heard::Known) => return false,
            Some(Heard::TooSoon) => {
                self.counts.held_off.fetch_add(1, Relaxed);
                let _ = self.with(&key, |neighbour| neighbour.doubt());
                return false;
            }
            Some(Heard::Another) if !self.news.take(now_ms) => {
                self.counts.held_off.fetch_add(1, Relaxed);
                let _ = self.with(&key, |neighbour| neighbour.doubt());
                return false;
            }
            Some(Heard::First | Heard::Another) => {}
        }
        let shard = Writer::new(self, self.shard(&key));
        // It may have gone, or somebody else was faster.
        let found =
            shard.find(&key).filter(|neighbour| matches!(neighbour.hear(word, now_ms), Heard::First | Heard::Another));
        let changed = found.is_some_and(|neighbour| shard.know(&neighbour, word, now_ms));
        drop(shard);
        if changed {
            self.counts.changed.fetch_add(1, Relaxed);
            self.announce();
        }
        changed
    }

    /// Somebody says so: as if it had been asked and answered (`ovs-appctl tnl/neigh/set`). It
    /// ages, and an answer may change it. False: there is no room, or an address is no host's.
    pub fn set(&self, bridge: u32, ip: IpAddr, mac: [u8; 6], now_ms: u64) -> bool {
        let key = (bridge, ip);
        let Some(word) = word(mac).filter(|_| is_host(ip)) else { return false };
        let mut shard = Writer::new(self, self.shard(&key));
        let Some(neighbour) = shard.get_or_insert(key, false, now_ms) else { return false };
        // Who gave way to it is told of at once with it.
        let changed = shard.know(&neighbour, word, now_ms);
        drop(shard);
        if changed {
            self.announce();
        }
        true
    }

    /// Forgets those of a bridge, or all; returns how many. Call it when a bridge goes.
    pub fn flush(&self, bridge: Option<u32>) -> usize {
        self.forget_if(|key, _| bridge.is_none_or(|bridge| bridge == key.0))
    }

    /// Forgets what is older than [`super::AGEING_MS`], and who has not answered for
    /// [`super::PENDING_MS`]. The control side calls it about once a second.
    pub fn age(&self, now_ms: u64) {
        let expired = self.forget_if(|_, neighbour| neighbour.is_due(now_ms));
        self.counts.expired.fetch_add(expired as u64, Relaxed);
    }

    /// One shard at a time, and its lock only if there is something to forget.
    fn forget_if(&self, which: impl Fn(&Key, &Neighbour) -> bool) -> usize {
        let (mut forgotten, mut changed) = (0, false);
        for shard in &self.shards {
            if shard.list.load().iter().any(|(key, neighbour)| which(key, neighbour)) {
                let mut shard = Writer::new(self, shard);
                forgotten += shard.forget_if(&which);
                changed |= shard.changed;
            }
        }
        if changed {
            self.announce();
        }
        forgotten
    }

    /// All, in order of bridge and address.
    #[must_use]
    pub fn dump(&self) -> Vec<Listed> {
        let mut all = Vec::with_capacity(self.entries.load(Relaxed));
        for shard in &self.shards {
            all.extend(shard.list.load().iter().map(|(key, neighbour)| listed(key, neighbour)));
        }
        all.sort_unstable();
        all
    }

    /// The table in numbers.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            entries: self.entries.load(Relaxed),
            pending: self.pending.load(Relaxed),
            changed: self.counts.changed.load(Relaxed),
            held_off: self.counts.held_off.load(Relaxed),
            refused: self.counts.refused.load(Relaxed),
            expired: self.counts.expired.load(Relaxed),
            evicted: self.counts.evicted.load(Relaxed),
        }
    }
}

/// A host's MAC address as it is kept; none: it is a group's, or zero.
fn word(mac: [u8; 6]) -> Option<u64> {
    let is_host = mac[0] & 1 == 0 && mac != [0; 6];
    let mut octets = [0; 8];
    octets[2..].copy_from_slice(&mac);
    is_host.then_some(KNOWN | u64::from_be_bytes(octets))
}

fn listed(&(bridge, ip): &Key, neighbour: &Neighbour) -> Listed {
    let time = |time: &AtomicU64| Some(time.load(Relaxed)).filter(|time| *time != NEVER).unwrap_or_default();
    Listed {
        bridge,
        ip,
        mac: neighbour.mac(),
        heard_ms: time(&neighbour.heard),
        asked_ms: time(&neighbour.asked),
        used_ms: time(&neighbour.used),
    }
}
