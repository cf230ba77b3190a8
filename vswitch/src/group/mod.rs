//! Groups: choice among buckets.
//!
//! **Where in the walk**: translation. A bucket's actions are translated in place, on a copy of all state: no group type's changes
//! survive the group.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vswitch_flow::spec::GroupSpec;

/// A group in use. Immutable but for its counters.
#[derive(Debug)]
pub struct Group {
    /// As configured.
    pub spec: GroupSpec,
    /// Restarted by mod-group.
    pub stats: Arc<GroupStats>,
    /// Milliseconds when it was added (mod-group does not change it).
    pub created_ms: u64,
    /// For select groups: slots filled by weight (indexes of buckets); a hash picks a slot.
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
