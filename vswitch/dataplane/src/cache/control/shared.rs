//! Between a worker's cache and the control side: megaflows to be counted, and switches to be
//! thrown.

use crate::cache::{Megaflow, Path};
use crate::observe::{Counter, Fallback};
use crossbeam_queue::SegQueue;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What a worker's cache and the control side both see.
#[derive(Debug)]
pub struct CacheShared {
    enabled: AtomicBool,
    /// Rises with every flush that is asked for.
    flushes: AtomicU64,
    /// Megaflows that the control side has not seen yet.
    added: SegQueue<Arc<Megaflow>>,
    /// Megaflows that were made.
    pub(in crate::cache) made: Counter,
    /// Megaflows that the control side has freed.
    freed: AtomicU64,
    /// Paths likewise.
    added_paths: SegQueue<Arc<Path>>,
    paths_made: Counter,
    paths_freed: AtomicU64,
    /// Packets decided by the exact-match cache, by the megaflow cache, and by translation.
    pub stats: CacheStats,
}

/// How packets were decided.
#[derive(Debug, Default)]
pub struct CacheStats {
    /// By the exact-match cache.
    pub exact_hits: Counter,
    /// By the megaflow cache.
    pub megaflow_hits: Counter,
    /// By translation.
    pub misses: Counter,
    /// By nothing: packets that were to be translated, when their port had had as many misses as it
    /// may.
    pub lost_misses: Counter,
    /// Megaflows that used tables which changed, but only by rules that their packets cannot meet.
    pub spared: Counter,
    /// Megaflows that used something which changed, and are what would be decided now.
    pub revalidated: Counter,
    /// Megaflows that a change ended.
    pub retired: Counter,
    /// Megaflows now.
    pub megaflows: Counter,
    /// Masks now.
    pub masks: Counter,
    /// By programs, all stages at once.
    pub program_hits: Counter,
    /// First packets of connections, all stages at once.
    pub opening_hits: Counter,
    /// Paths of programs now.
    pub paths: Counter,
    /// Packets that met `ct()` and took the slow path, by [`Fallback`].
    pub fallbacks: [Counter; Fallback::COUNT],
}

impl Default for CacheShared {
    fn default() -> Self {
        Self {
            enabled: AtomicBool::new(true),
            flushes: AtomicU64::new(0),
            added: SegQueue::new(),
            made: Counter::default(),
            freed: AtomicU64::new(0),
            added_paths: SegQueue::new(),
            paths_made: Counter::default(),
            paths_freed: AtomicU64::new(0),
            stats: CacheStats::default(),
        }
    }
}

impl CacheShared {
    /// Turns the caches on or off. Off: every packet is translated.
    pub fn enable(&self, on: bool) {
        self.enabled.store(on, Relaxed);
    }

    /// The caches are on.
    #[inline]
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Relaxed)
    }

    /// Asks for an empty cache, before the worker's next burst.
    pub fn flush(&self) {
        self.flushes.fetch_add(1, Release);
    }

    #[inline]
    pub(in crate::cache) fn flushes(&self) -> u64 {
        self.flushes.load(Acquire)
    }

    /// Megaflows that were made and not freed.
    pub(in crate::cache) fn outstanding(&self) -> u64 {
        self.made.get().wrapping_sub(self.freed.load(Relaxed))
    }

    /// Hands a megaflow to the control side, to be counted. The worker.
    pub(in crate::cache) fn add(&self, megaflow: Arc<Megaflow>) {
        self.made.add(1);
        self.added.push(megaflow);
    }

    /// Paths that were made and not freed.
    pub(in crate::cache) fn outstanding_paths(&self) -> u64 {
        self.paths_made.get().wrapping_sub(self.paths_freed.load(Relaxed))
    }

    /// Hands a path to the control side, to be counted. The worker.
    pub(in crate::cache) fn add_path(&self, path: Arc<Path>) {
        self.paths_made.add(1);
        self.added_paths.push(path);
    }
}

/// Something that counts packets, and how much of it was credited.
#[derive(Debug)]
struct Tracked<T> {
    item: Arc<T>,
    packets: u64,
    bytes: u64,
}

impl<T> Tracked<T> {
    const fn new(item: Arc<T>) -> Self {
        Self { item, packets: 0, bytes: 0 }
    }

    /// What has been counted since the last time, if anything has.
    fn new_since(&mut self, (packets, bytes): (u64, u64)) -> Option<(u64, u64)> {
        let new = (packets.wrapping_sub(self.packets), bytes.wrapping_sub(self.bytes));
        (self.packets, self.bytes) = (packets, bytes);
        (new != (0, 0)).then_some(new)
    }
}

/// What a worker has handed over.
#[derive(Debug)]
struct Handed {
    shared: Arc<CacheShared>,
    megaflows: Vec<Tracked<Megaflow>>,
    paths: Vec<Tracked<Path>>,
}

/// Gathers what all workers' megaflows counted, and credits it to rules, groups and tables. The
/// control side has one.
#[derive(Debug, Default)]
pub struct Collector {
    workers: Vec<Handed>,
}

impl Collector {
    /// For these workers.
    #[must_use]
    pub fn new(workers: impl Iterator<Item = Arc<CacheShared>>) -> Self {
        Self { workers: workers.map(|shared| Handed { shared, megaflows: Vec::new(), paths: Vec::new() }).collect() }
    }

    /// Credits what was counted since the last time. Workers go on meanwhile; what they count after
    /// they were looked at is for the next time.
    pub fn collect(&mut self) {
        self.workers.iter_mut().for_each(Handed::collect);
    }

    /// All live megaflows, by worker, as of the last [`Collector::collect`].
    pub fn megaflows(&self) -> impl Iterator<Item = (usize, &Megaflow)> {
        self.workers.iter().enumerate().flat_map(|(worker, handed)| {
            let megaflows = handed.megaflows.iter().map(|tracked| &*tracked.item);
            megaflows.filter(|megaflow| !megaflow.is_dead()).map(move |megaflow| (worker, megaflow))
        })
    }
}

impl Handed {
    fn collect(&mut self) {
        // Paths first: when the last of them goes that has a megaflow, the megaflow may go, too.
        while let Some(path) = self.shared.added_paths.pop() {
            self.paths.push(Tracked::new(path));
        }
        let before = self.paths.len();
        self.paths.retain_mut(|path| {
            // In this order: what nobody else has any more counts no more.
            let last = Arc::get_mut(&mut path.item).is_some();
            if let Some((packets, bytes)) = path.new_since(path.item.counted()) {
                let used = path.item.used();
                path.item.steps().for_each(|megaflow| megaflow.credit_path(packets, bytes, used));
            }
            !last
        });
        self.shared.paths_freed.fetch_add((before - self.paths.len()) as u64, Relaxed);

        while let Some(megaflow) = self.shared.added.pop() {
            self.megaflows.push(Tracked::new(megaflow));
        }
        let before = self.megaflows.len();
        self.megaflows.retain_mut(|tracked| {
            // In this order: the counters of a dead one stand still, and those of its ops when
            // nobody has it any more. The worker may still have it in its exact-match cache, from
            // where it goes soon.
            let last = tracked.item.is_dead() && Arc::get_mut(&mut tracked.item).is_some();
            if let Some((packets, bytes)) = tracked.new_since(tracked.item.counted()) {
                tracked.item.credit(packets, bytes, tracked.item.used());
            }
            tracked.item.credit_ops();
            !last
        });
        self.shared.freed.fetch_add((before - self.megaflows.len()) as u64, Relaxed);
    }
}
