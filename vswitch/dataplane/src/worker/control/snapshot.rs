//! The world as workers see it, and how a new one reaches them.

use crate::cache::CacheShared;
use crate::capture::Captures;
use crate::conntrack::Conntrack;
use crate::observe::{Counter, DropSampler, PortCounters, PortTotals};
use crate::pipeline::World;
use crate::port::{Device, PortId, RxQueue, TxQueue};
use crate::worker::Inbox;
use crate::worker::control::losses::Losses;
use crate::worker::control::worker_wait::WorkerWait;
use crossbeam_queue::SegQueue;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};
use vswitch_quiescence::{Published, Quiescence};

/// A state of the whole switch. Never changes once published.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Bridges, and ports as translation sees them. A port names its bridge by index.
    pub world: Arc<World>,
    /// Ports by [`PortId`].
    pub ports: Vec<Option<PortView>>,
    /// Receive queues per worker.
    pub rxqs: Vec<Vec<Arc<RxqSlot>>>,
    /// Captures, if there are any.
    pub captures: Option<Arc<Captures>>,
}

impl Snapshot {
    /// A port, if it is in this snapshot.
    #[inline]
    #[must_use]
    pub fn port(&self, id: PortId) -> Option<&PortView> {
        self.ports.get(id.index())?.as_ref()
    }
}

/// A port as one snapshot has it.
#[derive(Debug, Clone)]
pub struct PortView {
    /// Index of its bridge.
    pub bridge: usize,
    /// Takes and gives packets.
    pub admin_up: bool,
    /// Longest frame that may come in or go out, in bytes: MTU, Ethernet header, two VLAN tags.
    pub frame_max: usize,
    /// The other end, of a patch port that has one.
    pub peer: Option<PortId>,
    /// What stays the same from snapshot to snapshot.
    pub shared: Arc<PortShared>,
}

/// The part of a port that lives as long as it is open. Fields drop in order: the device last.
#[derive(Debug)]
pub struct PortShared {
    /// Its index.
    pub id: PortId,
    /// Its name.
    pub name: String,
    /// Transmit queues; a worker takes the one of its index, modulo. One lock per burst.
    pub tx: Box<[Mutex<TxQueue>]>,
    /// Counters, one block per worker.
    pub counters: Box<[PortCounters]>,
    /// The control side.
    pub device: Device,
    /// Packets that a GRE tunnel has numbered.
    pub sequence: AtomicU32,
    /// A worker that is lost holds it: its device stays open as long as the process lives.
    pub held: AtomicBool,
}

impl PortShared {
    /// Counters summed over workers, with the device's own.
    #[must_use]
    pub fn totals(&self) -> PortTotals {
        let mut totals = PortTotals::default();
        self.counters.iter().for_each(|counters| totals.add(counters));
        let device = self.device.counters();
        totals.rx_missed = device.rx_missed;
        totals.rx_errors = device.rx_errors;
        totals.tx_errors = device.tx_errors;
        totals
    }
}

/// Where a receive queue changes hands. It is in here only between two owners.
#[derive(Debug)]
pub struct RxqSlot {
    /// Its port.
    pub port: PortId,
    /// Its number.
    pub queue: u16,
    /// TSC cycles that workers spent on its packets.
    pub cycles: Counter,
    /// Packets received.
    pub packets: Counter,
    parked: Mutex<Option<RxQueue>>,
}

impl RxqSlot {
    /// A slot with its queue in it.
    #[must_use]
    pub fn new(port: PortId, number: u16, queue: RxQueue) -> Self {
        Self {
            port,
            queue: number,
            cycles: Counter::default(),
            packets: Counter::default(),
            parked: Mutex::new(Some(queue)),
        }
    }

    /// Takes the queue, unless its last owner still has it.
    pub fn take(&self) -> Option<RxQueue> {
        self.parked.lock().take()
    }

    /// Gives the queue back.
    pub fn put(&self, queue: RxQueue) {
        *self.parked.lock() = Some(queue);
    }
}

/// A worker that has not adopted the present snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker-{core} has not moved for {} s: is its core taken away or a burst stuck?", .since.elapsed().as_secs())]
pub struct Stuck {
    /// Its index.
    pub worker: usize,
    /// Its core, which its thread is named by.
    pub core: u32,
    /// Since when it is waited for.
    pub since: Instant,
}

/// A snapshot that was replaced, and the wait for workers to leave it.
#[derive(Debug)]
struct Left {
    target: u64,
    since: Instant,
    _old: Arc<Snapshot>,
}

/// Publishes snapshots: one writer, any number of workers.
#[derive(Debug)]
pub struct Publisher {
    snapshots: Published<Snapshot>,
    /// By worker: its core.
    cores: Box<[u32]>,
    /// Worlds that workers have left.
    retired: SegQueue<Arc<World>>,
    /// Snapshots that a worker may still use, and nobody waits for.
    left: Mutex<Vec<Left>>,
    /// Waits are to be short.
    hurry: AtomicBool,
    /// By worker: packets that the control side sends.
    pub inboxes: Box<[Inbox]>,
    /// By worker: its caches, from outside.
    pub caches: Box<[Arc<CacheShared>]>,
    /// By worker: samples of what died.
    pub samplers: Arc<[Arc<DropSampler>]>,
    /// All workers' connections.
    pub conntrack: Arc<Conntrack>,
    /// Workers that have panicked.
    pub losses: Losses,
}

impl Publisher {
    /// Starts from an empty world, for one worker per core.
    #[must_use]
    pub fn new(cores: &[u32], conntrack: Arc<Conntrack>) -> Self {
        let workers = cores.len();
        let empty = Snapshot { rxqs: vec![Vec::new(); workers], ..Snapshot::default() };
        Self {
            snapshots: Published::new(workers, empty),
            cores: cores.into(),
            retired: SegQueue::new(),
            left: Mutex::default(),
            hurry: AtomicBool::new(false),
            inboxes: (0..workers).map(|_| Inbox::default()).collect(),
            caches: (0..workers).map(|_| Arc::default()).collect(),
            samplers: (0..workers).map(|worker| Arc::new(DropSampler::new(worker))).collect(),
            conntrack,
            losses: Losses::new(workers),
        }
    }

    /// Makes a snapshot the present one, and waits until every worker has adopted it (or is
    /// offline), for at most `patience`.
    ///
    /// # Errors
    /// When a worker has not adopted it by then. It adopts it all the same before its next burst.
    /// What the old snapshot owns is kept until [`Publisher::settle`] finds that it has.
    pub fn publish(&self, snapshot: Snapshot, patience: Duration) -> Result<(), Stuck> {
        let wait = WorkerWait::new(&self.cores).at_most(patience, Some(&self.hurry));
        self.publish_within(snapshot, wait)
    }

    /// [`Publisher::publish`], of the snapshot that the switch stops with.
    ///
    /// # Errors
    /// As there.
    pub fn publish_last(&self, snapshot: Snapshot, patience: Duration) -> Result<(), Stuck> {
        self.publish_within(snapshot, WorkerWait::new(&self.cores).at_most(patience, None))
    }

    fn publish_within(&self, snapshot: Snapshot, mut wait: WorkerWait<'_>) -> Result<(), Stuck> {
        // The old one is kept until nobody uses it, so that what it owns is dropped here and not by
        // a worker. (One that sleeps may find itself the last: of what it drops then, ports are
        // waited for when they are closed, and the rest is retired.)
        let (old, target) = self.snapshots.replace(snapshot);
        let behind = self.snapshots.quiescence.wait_while(target, |worker, turn| wait.pause(worker, turn));
        if behind.is_some() {
            self.left.lock().push(Left { target, since: wait.began(), _old: old });
            return self.settle();
        }
        drop(old);
        self.drop_retired();
        Ok(())
    }

    /// Whether every worker has adopted the present snapshot since [`Publisher::publish`] gave up
    /// to wait for it. Does not wait.
    ///
    /// # Errors
    /// The worker that has not.
    pub fn settle(&self) -> Result<(), Stuck> {
        let mut left = self.left.lock();
        let Some(last) = left.last() else { return Ok(()) };
        if let Some(worker) = self.snapshots.quiescence.behind(last.target) {
            let since = left.first().map_or(last.since, |first| first.since);
            return Err(Stuck { worker, core: self.cores[worker], since });
        }
        let gone = std::mem::take(&mut *left);
        drop(left);
        drop(gone);
        self.drop_retired();
        Ok(())
    }

    /// The switch stops: from now on [`Publisher::publish`] waits for a few bursts only, also where
    /// it waits already.
    pub fn hurry(&self) {
        self.hurry.store(true, Relaxed);
    }

    /// Whether the switch stops.
    #[must_use]
    pub fn is_hurried(&self) -> bool {
        self.hurry.load(Relaxed)
    }

    /// Waits until no worker uses what was unpublished before (see [`Quiescence::wait`]), and names
    /// one that keeps everybody waiting. Not for workers themselves. For what must not go on
    /// before: it waits as long as it takes.
    pub fn wait(&self) {
        let mut wait = WorkerWait::new(&self.cores);
        self.snapshots.quiescence.wait(|worker, turn| {
            wait.pause(worker, turn);
        });
    }

    /// [`Publisher::wait`], for at most `patience`.
    ///
    /// # Errors
    /// The worker that has had no quiescent point by then.
    pub fn wait_at_most(&self, patience: Duration) -> Result<(), Stuck> {
        let mut wait = WorkerWait::new(&self.cores).at_most(patience, Some(&self.hurry));
        let quiescence = &self.snapshots.quiescence;
        let behind = quiescence.wait_while(quiescence.begin(), |worker, turn| wait.pause(worker, turn));
        behind.map_or(Ok(()), |worker| Err(Stuck { worker, core: self.cores[worker], since: wait.began() }))
    }

    /// Where packets of the control side go: to the first worker that is not lost.
    #[must_use]
    pub fn inbox(&self) -> Option<&Inbox> {
        self.inboxes.iter().enumerate().find(|(worker, _)| self.losses.of(*worker).is_none()).map(|(_, inbox)| inbox)
    }

    /// When workers have let go, as they say it.
    #[inline]
    #[must_use]
    pub fn quiescence(&self) -> &Quiescence {
        &self.snapshots.quiescence
    }

    /// A worker has left this world. Freeing a million rules takes a second: that is not for a
    /// worker to do.
    pub fn retire(&self, world: Arc<World>) {
        self.retired.push(world);
    }

    /// Drops the worlds that workers have left. The control side.
    pub fn drop_retired(&self) {
        while let Some(world) = self.retired.pop() {
            drop(world);
        }
    }

    /// The present snapshot, if it is newer than the one of that number, which is then its own.
    #[inline]
    pub fn newer(&self, version: &mut u64) -> Option<Arc<Snapshot>> {
        self.snapshots.newer(version)
    }

    /// The present snapshot.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        self.snapshots.current()
    }
}
