//! Groups: choice among buckets.
//!
//! **Where in the walk**: translation. A bucket's actions are translated in place, on a copy of all state: no group type's changes
//! survive the group.
//!
//! **Design**: a select group has a table of slots, filled by weight; a hash picks a slot. A change of the group moves as few
//! slots as the new weights need, so that connections stay where they are. Liveness is the caller's business.
//!
//! **Limits**: [`crate::limits::BUCKETS_MAX`], [`SLOTS_MAX`].
//!
//! **Threads**: immutable but for counters, which are atomics.

mod slots;

use crate::time::Millis;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::spec::{GroupKind, GroupSpec};

pub use slots::SLOTS_MAX;

/// A group in use. Immutable but for its counters.
#[derive(Debug)]
pub struct Group {
    /// As configured.
    pub spec: GroupSpec,
    /// Restarted by mod-group.
    pub stats: Arc<GroupStats>,
    /// Milliseconds when it was added (mod-group does not change it).
    pub created_ms: u64,
    /// For select groups: slots filled by weight (indexes of buckets); a hash picks a slot. A power of two of them, or none if
    /// no bucket has a weight.
    pub slots: Box<[u16]>,
}

/// Counters of a group and its buckets. Added to when megaflows are collected, and by uncached packets.
#[derive(Debug, Default)]
pub struct GroupStats {
    /// Packets.
    pub packets: AtomicU64,
    /// Bytes.
    pub bytes: AtomicU64,
    /// Packets and bytes per bucket, by index.
    pub buckets: Box<[(AtomicU64, AtomicU64)]>,
}

impl GroupStats {
    /// Zeros for this many buckets.
    #[must_use]
    pub fn new(buckets: usize) -> Self {
        Self { buckets: (0..buckets).map(|_| Default::default()).collect(), ..Self::default() }
    }
}

impl Group {
    /// A new group.
    #[must_use]
    pub fn new(spec: GroupSpec, now: Millis) -> Self {
        Self::build(spec, now.0, None)
    }

    /// The group after a change: counters start over, the duration goes on, hashes stay with their buckets (known by id) as far as
    /// the weights allow.
    #[must_use]
    pub fn modified(&self, spec: GroupSpec) -> Self {
        Self::build(spec, self.created_ms, Some(self))
    }

    fn build(spec: GroupSpec, created_ms: u64, old: Option<&Self>) -> Self {
        let stats = Arc::new(GroupStats::new(spec.buckets.len()));
        let slots = if spec.kind == GroupKind::Select {
            slots::fill(&spec.buckets, old.map(|old| (&old.spec.buckets[..], &old.slots[..])))
        } else {
            Box::default()
        };
        Self { spec, stats, created_ms, slots }
    }

    /// The group after buckets were inserted or removed: as [`Group::modified`], but buckets that stay keep their counters.
    #[must_use]
    pub fn rearranged(&self, spec: GroupSpec) -> Self {
        let group = self.modified(spec);
        for (new, bucket) in group.stats.buckets.iter().zip(&group.spec.buckets) {
            let old = self.spec.buckets.iter().position(|old| old.id == bucket.id);
            if let Some((packets, bytes)) = old.and_then(|i| self.stats.buckets.get(i)) {
                new.0.store(packets.load(Relaxed), Relaxed);
                new.1.store(bytes.load(Relaxed), Relaxed);
            }
        }
        group
    }

    /// The bucket (by index) that takes a packet: of a select group the one that the hash picks, of others the first that
    /// lives. None: nothing takes it.
    ///
    /// When a bucket of a select group does not live, only its share moves, to the others by their weights. A bucket of weight
    /// 0 takes nothing, even if all have it.
    #[must_use]
    pub fn pick(&self, hash: u32, live: impl Fn(usize) -> bool) -> Option<usize> {
        match self.spec.kind {
            GroupKind::Select => slots::pick(&self.slots, hash, &live),
            GroupKind::All | GroupKind::Indirect | GroupKind::FastFailover => {
                (0..self.spec.buckets.len()).find(|i| live(*i))
            }
        }
    }
}

#[cfg(test)]
mod tests;
