//! Groups: choice among buckets.
//!
//! **Where in the walk**: translation. A bucket's actions are translated in place, on a copy of all
//! state: no group type's changes survive the group.
//!
//! **Design**: a select group has a table of slots, filled by weight; a hash picks a slot. A change
//! of the group moves as few slots as the new weights need, so that connections stay where they
//! are: so the table has a history (`slots.rs`). One that is to be the same wherever the buckets
//! are the same has none, and moves some more (`maglev.rs`). Liveness is the caller's business.
//!
//! **Limits**: [`crate::limits::BUCKETS_MAX`], [`crate::limits::SELECT_BUCKETS_MAX`],
//! [`SLOTS_MAX`]. To fill the largest table takes 20 ms.
//!
//! **Threads**: immutable but for counters, which are atomics.

mod maglev;
mod slots;

use crate::time::Millis;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::spec::{GroupKind, GroupSpec, Selection};

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
    /// For select groups: slots filled by weight (indexes of buckets); a hash picks a slot. A power
    /// of two of them, or none if no bucket has a weight.
    pub slots: Box<[u16]>,
    /// A bucket watches something: whether it takes packets may change without the group.
    pub watched: bool,
}

/// Counters of a group and its buckets. Added to when megaflows are collected, and by uncached
/// packets.
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

    /// The group after a change: counters start over, the duration goes on, hashes stay with their
    /// buckets (known by id) as far as the weights allow.
    #[must_use]
    pub fn modified(&self, spec: GroupSpec) -> Self {
        Self::build(spec, self.created_ms, Some(self))
    }

    fn build(spec: GroupSpec, created_ms: u64, old: Option<&Self>) -> Self {
        let stats = Arc::new(GroupStats::new(spec.buckets.len()));
        let slots = match (spec.kind, &spec.selection) {
            (GroupKind::Select, Selection::Maglev { .. }) => maglev::fill(&spec.buckets),
            (GroupKind::Select, _) => {
                slots::fill(&spec.buckets, old.map(|old| (&old.spec.buckets[..], &old.slots[..])))
            }
            _ => Box::default(),
        };
        let watched = spec.buckets.iter().any(|bucket| bucket.watch_port.is_some() || bucket.watch_group.is_some());
        Self { spec, stats, created_ms, slots, watched }
    }

    /// The group after buckets were inserted or removed: as [`Group::modified`], but buckets that
    /// `stay` (by id) keep their counters.
    #[must_use]
    pub fn rearranged(&self, spec: GroupSpec, stay: impl Fn(u32) -> bool) -> Self {
        let group = self.modified(spec);
        let counted: HashMap<u32, _> =
            self.spec.buckets.iter().map(|bucket| bucket.id).zip(&self.stats.buckets).collect();
        for (new, bucket) in group.stats.buckets.iter().zip(&group.spec.buckets) {
            if let Some((packets, bytes)) = counted.get(&bucket.id).filter(|_| stay(bucket.id)) {
                new.0.store(packets.load(Relaxed), Relaxed);
                new.1.store(bytes.load(Relaxed), Relaxed);
            }
        }
        group
    }

    /// The bucket (by index) that takes a packet: of a select group the one that the hash picks, of
    /// others the first that lives. None: nothing takes it.
    ///
    /// When a bucket of a select group does not live, only its share moves, to the others by their
    /// weights. A bucket of weight 0 takes nothing, even if all have it.
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
