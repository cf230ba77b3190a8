//! What the tracker counts: one block of words per worker, so that workers do not write the same
//! lines.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// What the tracker counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    /// Connections now.
    pub connections: u64,
    /// Most that there may be.
    pub connections_max: u64,
    /// Bytes taken: at start, and since then for as many connections of IPv6 as there were at a
    /// time.
    pub memory: u64,
    /// Since the start, of all connections.
    pub created: u64,
    pub expired: u64,
    pub flushed: u64,
    /// Replaced by a new one of the same tuple: a SYN after the end of a TCP connection, `force`.
    pub replaced: u64,
    pub dropped_early: u64,
    /// Taken back by a packet that met them as new ([`crate::Tracker::forget`]).
    pub forgotten: u64,
    pub refused_full: u64,
    pub refused_zone: u64,
    pub refused_port: u64,
    pub refused_nat: u64,
    pub refused_taken: u64,
    /// Events that subscribers lost because they read too slowly.
    pub events_lost: u64,
}

/// One word of a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    /// A place was taken, and no connection came there.
    Unopened,
    Expired,
    Flushed,
    Replaced,
    DroppedEarly,
    Forgotten,
    RefusedFull,
    RefusedZone,
    RefusedPort,
    RefusedNat,
    RefusedTaken,
}

const WORDS: usize = 11;

/// Workers share a block when there are more of them.
const BLOCKS: usize = 32;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Block([AtomicU64; WORDS]);

/// Counters of the tracker's events, in a block of lines for each worker, so that no two workers
/// write one line.
#[derive(Debug, Default)]
pub(super) struct Counters([Block; BLOCKS]);

impl Counters {
    #[inline]
    pub(super) fn add(&self, worker: usize, count: Count) {
        self.add_many(worker, count, 1);
    }

    #[inline]
    pub(super) fn add_many(&self, worker: usize, count: Count, n: u64) {
        self.0[worker % BLOCKS].0[count as usize].fetch_add(n, Relaxed);
    }

    fn sum(&self, count: Count) -> u64 {
        self.0.iter().map(|block| block.0[count as usize].load(Relaxed)).sum()
    }

    /// All but what others know. `taken`: how many places were taken so far, read when this asks.
    pub(super) fn collect(&self, taken: impl FnOnce() -> u64) -> Counts {
        // What takes away is read first: connections come before they go, so the difference is
        // never negative.
        let gone = [Count::Expired, Count::Flushed, Count::Replaced, Count::DroppedEarly, Count::Forgotten];
        let gone @ [expired, flushed, replaced, dropped_early, forgotten] = gone.map(|count| self.sum(count));
        let unopened = self.sum(Count::Unopened);
        let created = taken().saturating_sub(unopened);
        Counts {
            connections: created.saturating_sub(gone.iter().sum()),
            created,
            expired,
            flushed,
            replaced,
            dropped_early,
            forgotten,
            refused_full: self.sum(Count::RefusedFull),
            refused_zone: self.sum(Count::RefusedZone),
            refused_port: self.sum(Count::RefusedPort),
            refused_nat: self.sum(Count::RefusedNat),
            refused_taken: self.sum(Count::RefusedTaken),
            ..Counts::default()
        }
    }
}
