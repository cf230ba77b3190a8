//! A part of the table: what is looked at without a lock, and what comes and goes under one.

use super::table::{Neighbours, SHARDS};
use super::{INTERVAL_MS, NEIGHBOURS_MAX, NEVER, Neighbour, PENDING_MAX, UNUSED_MS, passed};
use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Neighbours of a shard: four times its share, which bounds what is looked at and copied under its
/// lock.
const SHARD_MAX: usize = NEIGHBOURS_MAX / SHARDS * 4;

/// Bridge and address.
pub(super) type Key = (u32, IpAddr);

/// In order of keys.
pub(super) type List = Vec<(Key, Arc<Neighbour>)>;

#[derive(Debug)]
pub(super) struct Shard {
    pub(super) list: ArcSwap<List>,
    /// When there was last no room for a question: milliseconds, or [`NEVER`].
    pub(super) full: AtomicU64,
    writer: Mutex<()>,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self { list: ArcSwap::default(), full: AtomicU64::new(NEVER), writer: Mutex::new(()) }
    }

    pub(super) fn with<R>(&self, key: &Key, look: impl FnOnce(&Arc<Neighbour>) -> R) -> Option<R> {
        let list = self.list.load();
        let at = list.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        Some(look(&list[at].1))
    }
}

/// A shard under its lock.
pub(super) struct Writer<'a> {
    table: &'a Neighbours,
    shard: &'a Shard,
    /// Somebody who was known is no more.
    pub(super) changed: bool,
    _lock: MutexGuard<'a, ()>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(table: &'a Neighbours, shard: &'a Shard) -> Self {
        Self { table, shard, changed: false, _lock: shard.writer.lock() }
    }

    pub(super) fn find(&self, key: &Key) -> Option<Arc<Neighbour>> {
        self.shard.with(key, Arc::clone)
    }

    /// What is known of a neighbour in the list. True: it is something else than before.
    pub(super) fn know(&self, neighbour: &Neighbour, word: u64, now_ms: u64) -> bool {
        let old = neighbour.mac.load(Relaxed);
        if old == word {
            neighbour.heard.store(now_ms, Relaxed);
            return false;
        }
        if old == 0 {
            self.table.pending.fetch_sub(1, Relaxed);
        }
        neighbour.know(word, now_ms);
        true
    }

    /// The neighbour with this key, a new one if need be and there is room: one that waits for an
    /// answer, or one of which the caller knows it.
    pub(super) fn get_or_insert(&mut self, key: Key, waits: bool, now_ms: u64) -> Option<Arc<Neighbour>> {
        if let Some(found) = self.find(&key) {
            return Some(found);
        }
        if !self.reserve(waits, now_ms) {
            if waits {
                self.shard.full.store(now_ms, Relaxed);
            }
            self.table.counts.refused.fetch_add(1, Relaxed);
            return None;
        }
        let neighbour = Arc::new(Neighbour::new());
        let mut next = List::clone(&self.shard.list.load());
        let at = next.partition_point(|(other, _)| *other < key);
        next.insert(at, (key, Arc::clone(&neighbour)));
        self.shard.list.store(Arc::new(next));
        Some(neighbour)
    }

    /// Counts a new one that is not known yet, once another one gave way if need be.
    fn reserve(&mut self, waits: bool, now_ms: u64) -> bool {
        let most = if waits { PENDING_MAX } else { usize::MAX };
        if !take(&self.table.pending, most) {
            // Another one that waits must go.
            if !self.evict(true, now_ms) || !take(&self.table.pending, most) {
                return false;
            }
        }
        let full = self.shard.list.load().len() >= SHARD_MAX;
        if !full && take(&self.table.entries, NEIGHBOURS_MAX) {
            return true;
        }
        if self.evict(false, now_ms) && take(&self.table.entries, NEIGHBOURS_MAX) {
            return true;
        }
        self.table.pending.fetch_sub(1, Relaxed);
        false
    }

    /// Lets go of the neighbour in this shard that can best be spared: one that did not answer,
    /// else (unless only those may go) the longest unused one.
    fn evict(&mut self, only_pending: bool, now_ms: u64) -> bool {
        let list = self.shard.list.load();
        let spare = |neighbour: &Neighbour| {
            let at = |time: &AtomicU64| Some(time.load(Relaxed)).filter(|time| *time != NEVER);
            if neighbour.is_known() {
                let used = at(&neighbour.used).max(at(&neighbour.changed)).unwrap_or_default();
                (!only_pending && passed(used, now_ms, UNUSED_MS)).then_some((true, used))
            } else {
                let asked = at(&neighbour.asked).unwrap_or_default();
                passed(asked, now_ms, INTERVAL_MS).then_some((false, asked))
            }
        };
        let candidates = list.iter().filter_map(|(key, neighbour)| Some((spare(neighbour)?, *key)));
        let Some((_, victim)) = candidates.min() else { return false };
        drop(list);
        self.forget_if(|key, _| *key == victim);
        self.table.counts.evicted.fetch_add(1, Relaxed);
        true
    }

    /// Takes neighbours out of the list; returns how many.
    pub(super) fn forget_if(&mut self, which: impl Fn(&Key, &Neighbour) -> bool) -> usize {
        let (gone, kept): (List, List) =
            self.shard.list.load().iter().cloned().partition(|(key, neighbour)| which(key, neighbour));
        self.shard.list.store(Arc::new(kept));
        for (_, neighbour) in &gone {
            if neighbour.forget() {
                self.changed = true;
            } else {
                self.table.pending.fetch_sub(1, Relaxed);
            }
        }
        self.table.entries.fetch_sub(gone.len(), Relaxed);
        gone.len()
    }
}

/// Counts one more, if that is not too many.
fn take(count: &AtomicUsize, most: usize) -> bool {
    count.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1)).is_ok()
}
