//! The world as workers see it, and how a new one reaches them.

use crate::cache::CacheShared;
use crate::conntrack::Conntrack;
use crate::observe::{Counter, PortCounters, PortTotals};
use crate::pipeline::World;
use crate::port::{Device, PortId, RxQueue, TxQueue};
use crate::worker::Inbox;
use crate::worker::control::worker_wait::WorkerWait;
use crossbeam_queue::SegQueue;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
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

/// Publishes snapshots: one writer, any number of workers.
#[derive(Debug)]
pub struct Publisher {
    snapshots: Published<Snapshot>,
    /// By worker: its core.
    cores: Box<[u32]>,
    /// Worlds that workers have left.
    retired: SegQueue<Arc<World>>,
    /// By worker: packets that the control side sends.
    pub inboxes: Box<[Inbox]>,
    /// By worker: its caches, from outside.
    pub caches: Box<[Arc<CacheShared>]>,
    /// All workers' connections.
    pub conntrack: Arc<Conntrack>,
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
            inboxes: (0..workers).map(|_| Inbox::default()).collect(),
            caches: (0..workers).map(|_| Arc::default()).collect(),
            conntrack,
        }
    }

    /// Makes a snapshot the present one, and waits until every worker has adopted it (or is
    /// offline).
    pub fn publish(&self, snapshot: Snapshot) {
        // The old one is kept until nobody uses it, so that what it owns is dropped here and not by
        // a worker. (One that sleeps may find itself the last: of what it drops then, ports are
        // waited for when they are closed, and the rest is retired.)
        let mut wait = WorkerWait::new(&self.cores);
        let old = self.snapshots.publish(snapshot, |worker, turn| wait.pause(worker, turn));
        drop(old);
        self.drop_retired();
    }

    /// Waits until no worker uses what was unpublished before (see [`Quiescence::wait`]), and names
    /// one that keeps everybody waiting. Not for workers themselves.
    pub fn wait(&self) {
        let mut wait = WorkerWait::new(&self.cores);
        self.snapshots.quiescence.wait(|worker, turn| wait.pause(worker, turn));
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
