//! Ports for tests of a whole switch, as `netdev-dummy` of Open vSwitch: what comes in is given by
//! a call, what leaves is written down.
//!
//! Only in a switch that was started for it (`vswitchd --enable-dummy`). All dummy ports of a
//! switch write into one [`DummyLog`], in the order in which packets leave. A call that gives a
//! packet returns when the worker has taken it all the way: [`DummyWire::receive`].

use super::device::Link;
use crate::limits::{DUMMY_QUEUED, DUMMY_SENT_MAX, FRAME_MAX};
use crate::observe::{DropReason, PortCounters, Remains};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::time::{Duration, Instant};
use vswitch_dpdk::{Burst, Mempool};

/// A worker takes a packet within a burst, or one sleep. After this long the caller is told.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long a caller spins before it gives its core to others: a worker that does not sleep is done
/// by then.
const SPIN: Duration = Duration::from_micros(100);

/// What left by the dummy ports of a switch, in order.
#[derive(Debug, Default)]
pub struct DummyLog {
    sent: Mutex<Vec<Sent>>,
    /// Packets that were not written down since the last [`DummyLog::take`].
    lost: AtomicU64,
}

/// A packet that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Name of the port.
    pub port: Arc<str>,
    /// The packet.
    pub packet: Vec<u8>,
}

impl DummyLog {
    /// What left since the last call, and how much more was not written down.
    #[must_use]
    pub fn take(&self) -> (Vec<Sent>, u64) {
        (std::mem::take(&mut self.sent.lock()), self.lost.swap(0, Relaxed))
    }
}

/// Both ends of a dummy port.
#[derive(Debug)]
pub struct DummyWire {
    name: Arc<str>,
    log: Arc<DummyLog>,
    incoming: Mutex<VecDeque<Vec<u8>>>,
    /// Packets given, taken by the worker, and done with.
    given: AtomicU64,
    done: AtomicU64,
    /// Something may be in `incoming`: asked once per poll, without the lock.
    waiting: AtomicBool,
    link_up: AtomicBool,
    /// A [`PanicAt`]; 0: nowhere.
    panic_at: AtomicU8,
}

/// Where a worker is to panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PanicAt {
    /// When it takes a packet from the port.
    Receive = 1,
    /// When it sends by the port, under the lock of the queue.
    Send = 2,
}

impl DummyWire {
    /// The next packet that gets there lets its worker panic.
    pub fn panic_at(&self, at: PanicAt) {
        self.panic_at.store(at as u8, Relaxed);
    }

    fn maybe_panic(&self, at: PanicAt) {
        assert!(self.panic_at.load(Relaxed) != at as u8, "a test asked for it at port {}", self.name);
    }

    /// Gives packets to the port, in one burst if they are few enough, and returns when the worker
    /// is done with them and has sent what they led to. `wake` ends the workers' sleep.
    ///
    /// # Errors
    /// In words: a packet is too long, too many wait, or no worker polls the port.
    pub fn receive(&self, packets: Vec<Vec<u8>>, wake: impl Fn()) -> Result<(), String> {
        if let Some(long) = packets.iter().find(|packet| packet.len() > FRAME_MAX) {
            return Err(format!("a packet has {} bytes; use at most {FRAME_MAX}", long.len()));
        }
        let mine = {
            let mut incoming = self.incoming.lock();
            if incoming.len() + packets.len() > DUMMY_QUEUED {
                return Err(format!("{} packets already wait at port {}", incoming.len(), self.name));
            }
            let mine = self.given.fetch_add(packets.len() as u64, Relaxed) + packets.len() as u64;
            incoming.extend(packets);
            self.waiting.store(true, Release);
            mine
        };
        wake();
        let start = Instant::now();
        while self.done.load(Acquire) < mine {
            let waited = start.elapsed();
            if waited > ANSWER_MAX {
                return Err(format!("no worker took the packet at port {} within 2 s; is the port up?", self.name));
            } else if waited > SPIN {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}

/// The receive queue of a dummy port.
#[derive(Debug)]
pub struct DummyRxQueue {
    wire: Arc<DummyWire>,
    pool: Mempool,
    taken: u64,
    told: u64,
}

impl DummyRxQueue {
    pub(super) fn receive(&mut self, burst: &mut Burst, counters: &PortCounters) {
        // The worker is back: what it took before has gone all the way.
        if self.told != self.taken {
            self.told = self.taken;
            self.wire.done.store(self.taken, Release);
        }
        if !self.wire.waiting.load(Acquire) {
            return;
        }
        self.wire.maybe_panic(PanicAt::Receive);
        let mut incoming = self.wire.incoming.lock();
        while !burst.is_full() {
            let Some(packet) = incoming.pop_front() else {
                self.wire.waiting.store(false, Release);
                return;
            };
            self.taken += 1;
            match self.pool.mbuf_from(&packet) {
                Some(mbuf) => {
                    let _ = burst.push(mbuf); // there is room
                }
                None => counters.refuse(DropReason::NoMbuf, Remains::Bytes(&packet)),
            }
        }
    }
}

/// The transmit queue of a dummy port.
#[derive(Debug)]
pub struct DummyTxQueue(Arc<DummyWire>);

impl DummyTxQueue {
    pub(super) fn send(&mut self, burst: &mut Burst, counters: &PortCounters) {
        let wire = &self.0;
        wire.maybe_panic(PanicAt::Send);
        let mut sent = wire.log.sent.lock();
        for mbuf in burst.drain() {
            counters.tx_packets.add(1);
            counters.tx_bytes.add(mbuf.len() as u64);
            if sent.len() < DUMMY_SENT_MAX {
                sent.push(Sent { port: Arc::clone(&wire.name), packet: mbuf.to_vec() });
            } else {
                wire.log.lost.fetch_add(1, Relaxed);
            }
        }
    }
}

/// The control side of a dummy port.
#[derive(Debug)]
pub struct DummyDevice {
    /// Both ends.
    pub wire: Arc<DummyWire>,
}

impl DummyDevice {
    /// Up, unless it was taken down.
    #[must_use]
    pub fn link(&self) -> Link {
        Link { up: self.wire.link_up.load(Relaxed), speed_mbps: 0 }
    }

    /// Plugs the cable in or pulls it.
    pub fn set_link(&self, up: bool) {
        self.wire.link_up.store(up, Relaxed);
    }
}

/// Opens a dummy port: one queue each way.
#[must_use]
pub fn open(name: &str, log: &Arc<DummyLog>, pool: &Mempool) -> (DummyRxQueue, DummyTxQueue, DummyDevice) {
    let wire = Arc::new(DummyWire {
        name: name.into(),
        log: Arc::clone(log),
        incoming: Mutex::default(),
        given: AtomicU64::new(0),
        done: AtomicU64::new(0),
        waiting: AtomicBool::new(false),
        link_up: AtomicBool::new(true),
        panic_at: AtomicU8::new(0),
    });
    let rx = DummyRxQueue { wire: Arc::clone(&wire), pool: pool.clone(), taken: 0, told: 0 };
    (rx, DummyTxQueue(Arc::clone(&wire)), DummyDevice { wire })
}
