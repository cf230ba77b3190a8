//! The poll loop: one pinned thread per worker core.

use crate::limits::REFUSED_SHARE;
use crate::meter::Rates;
use crate::observe::Counter;
use crate::port::RxQueue;
use crate::time::{self, Millis};
use crate::worker::poll::lost;
use crate::worker::{Publisher, RxqSlot, Snapshot, Walk};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vswitch_dpdk::lcore::{self, Lcore};
use vswitch_dpdk::{Burst, Mempool};

/// Empty turns of the loop before a worker that may sleep does.
const IDLE_TURNS: u32 = 1000;

/// Between two looks whether a worker has ended.
const END_NAP: Duration = Duration::from_micros(100);

/// What a worker counts about itself; cycles are TSC cycles.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct WorkerStats {
    /// In turns that had packets.
    pub busy_cycles: Counter,
    /// In turns that had none.
    pub idle_cycles: Counter,
    /// Asleep.
    pub sleep_cycles: Counter,
    /// Turns of the loop.
    pub turns: Counter,
    /// Packets received.
    pub packets: Counter,
    /// Bursts that had packets.
    pub bursts: Counter,
    /// [`Millis`] of the last heartbeat.
    pub heartbeat_ms: Counter,
}

/// A running worker, as the control side holds it. Dropping it stops the thread and waits for it.
#[derive(Debug)]
pub struct Worker {
    /// Its core.
    pub core: u32,
    /// What it counts.
    pub stats: Arc<WorkerStats>,
    id: usize,
    publisher: Arc<Publisher>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a worker on a core and waits until it polls. `rates`: what each port may cost it.
    ///
    /// # Errors
    /// When the core does not exist or DPDK has no lcore left.
    pub fn start(
        id: usize,
        core: u32,
        publisher: Arc<Publisher>,
        pool: Mempool,
        idle_sleep: Duration,
        rates: Rates,
    ) -> io::Result<Self> {
        let (started, answer) = mpsc::sync_channel(1);
        let walk = Walk::new(id, pool, Arc::clone(&publisher.caches[id]), Arc::clone(&publisher.conntrack), rates);
        let poll = Poll::new(id, Arc::clone(&publisher), walk, idle_sleep);
        let (stats, stop) = (Arc::clone(&poll.stats), Arc::clone(&poll.stop));
        let thread = std::thread::Builder::new().name(format!("worker-{core}")).spawn(move || {
            let lcore = Lcore::enter(core);
            let failed = lcore.is_err();
            let _ = started
                .send(lcore.as_ref().map(|_| ()).map_err(|error| io::Error::new(error.kind(), error.to_string())));
            if !failed {
                poll.run();
            }
            drop(lcore);
        })?;
        // On failure the drop joins the thread: it must not outlive the pool that it holds.
        let worker = Self { core, stats, id, publisher, stop, thread: Some(thread) };
        answer.recv().unwrap_or_else(|_| Err(io::Error::other("the worker died at start"))).map(|()| worker)
    }
}

impl Worker {
    /// Whether it has panicked: its thread does not end.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.publisher.losses.of(self.id).is_some()
    }

    /// Tells the thread to end, between two bursts.
    pub fn ask_to_stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// Its core, when it has not by then: it goes on, and nobody waits for it any more.
    pub fn end(mut self, until: Instant) -> Result<(), u32> {
        self.ask_to_stop();
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if Instant::now() >= until || self.is_lost() {
                self.thread = None;
                return Err(self.core);
            }
            std::thread::sleep(END_NAP);
        }
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // A worker may be lost while it is waited for.
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && !self.is_lost() {
            std::thread::sleep(END_NAP);
        }
    }
}

/// A receive queue that this worker owns.
struct Owned {
    slot: Arc<RxqSlot>,
    /// None while the last owner has not let go.
    queue: Option<RxQueue>,
    /// Cycles that other queues' packets may take before it is polled again.
    waits: u64,
}

/// Cycles that a packet of a burst can take, for [`waits`]: beyond, the worker has done something
/// else meanwhile, or was not there.
const PACKET_CYCLES_MAX: u64 = 1 << 15;

/// How long a queue waits behind a burst that took these cycles, of which packets were refused
/// because of how many misses their port had caused: what they cost shall be a small part of what
/// all packets do. A turn without packets ends it: with time to spare nobody waits.
fn waits(cycles: u64, refused: u64, received: u64) -> u64 {
    if refused == 0 {
        return 0; // the common case, without a division
    }
    // A packet may be refused in several stages.
    let (refused, cycles) = (refused.min(received), cycles.min(received.saturating_mul(PACKET_CYCLES_MAX)));
    cycles.saturating_mul((refused * REFUSED_SHARE).saturating_sub(received)) / received.max(1)
}

/// What the thread of a worker has.
pub(in crate::worker) struct Poll {
    id: usize,
    version: u64,
    walk: Walk,
    /// The world that the walk goes through.
    snapshot: Arc<Snapshot>,
    rxqs: Vec<Owned>,
    /// Cycles that packets took in the last turn.
    spent: u64,
    publisher: Arc<Publisher>,
    stats: Arc<WorkerStats>,
    stop: Arc<AtomicBool>,
    idle_sleep: Duration,
}

impl Poll {
    pub(in crate::worker) fn new(id: usize, publisher: Arc<Publisher>, walk: Walk, idle_sleep: Duration) -> Self {
        Self {
            id,
            version: 0,
            walk,
            snapshot: Arc::default(),
            rxqs: Vec::new(),
            spent: 0,
            publisher,
            stats: Arc::default(),
            stop: Arc::default(),
            idle_sleep,
        }
    }

    fn run(mut self) {
        let mut burst = Burst::new();
        let mut now = Millis::now();
        let cycles_per_ms = lcore::tsc_hz() / 1000;
        let mut last = lcore::cycles();
        let mut next_tick = last;
        let mut idle_turns = 0_u32;
        lost::begin(self.id, &self.publisher);
        self.publisher.inboxes[self.id].attend();
        self.publisher.quiescence().online(self.id);
        let mut clock = time::generation();
        self.publisher.samplers[self.id].set_now(now);
        while !self.stop.load(Relaxed) {
            self.quiescent_point();
            if clock != time::generation() {
                // Somebody moved the clock, and waits for a quiescent point before it sends packets
                // that are to see that.
                clock = time::generation();
                now = Millis::now();
                self.publisher.samplers[self.id].set_now(now);
            }
            let (packets, end) = self.turn(&mut burst, now, last);
            self.account(packets, end.wrapping_sub(last));
            last = end;
            if end >= next_tick {
                now = Millis::now();
                self.stats.heartbeat_ms.set(now.0);
                self.publisher.samplers[self.id].set_now(now);
                self.walk.maintain(now);
                next_tick = end + cycles_per_ms;
            }
            idle_turns = if packets == 0 { idle_turns.saturating_add(1) } else { 0 };
            if idle_turns > IDLE_TURNS && !self.idle_sleep.is_zero() {
                self.sleep(idle_turns - IDLE_TURNS);
                let end = lcore::cycles();
                self.stats.sleep_cycles.add(end - last);
                last = end;
            }
        }
        self.publisher.inboxes[self.id].leave();
        for owned in self.rxqs.drain(..) {
            if let Some(queue) = owned.queue {
                owned.slot.put(queue);
            }
        }
        self.publisher.quiescence().offline(self.id);
        lost::end();
    }

    /// Between two bursts: nothing of an older world is held. Adopts a newer one if there is one.
    #[inline]
    fn quiescent_point(&mut self) {
        let epoch = self.publisher.quiescence().epoch();
        if let Some(snapshot) = self.publisher.newer(&mut self.version) {
            self.adopt(snapshot);
        }
        self.publisher.quiescence().quiescent(self.id, epoch);
    }

    #[cold]
    pub(in crate::worker) fn adopt(&mut self, snapshot: Arc<Snapshot>) {
        let wanted = &snapshot.rxqs[self.id];
        let mut old = std::mem::take(&mut self.rxqs);
        for slot in wanted {
            let kept = old.iter().position(|owned| Arc::ptr_eq(&owned.slot, slot));
            self.rxqs.push(match kept {
                Some(i) => old.swap_remove(i),
                None => Owned { slot: Arc::clone(slot), queue: slot.take(), waits: 0 },
            });
        }
        for owned in old {
            if let Some(queue) = owned.queue {
                owned.slot.put(queue);
            }
        }
        let before = Arc::clone(&self.walk.snapshot().world);
        self.snapshot = Arc::clone(&snapshot);
        self.walk.adopt(snapshot);
        self.publisher.retire(before);
    }

    /// Polls every queue once, for at most a burst; returns the packets received, and the cycle
    /// counter at the end.
    #[inline]
    pub(in crate::worker) fn turn(&mut self, burst: &mut Burst, now: Millis, start: u64) -> (u64, u64) {
        let mut packets = 0;
        let mut last = start;
        let spent = std::mem::take(&mut self.spent);
        for owned in &mut self.rxqs {
            let Some(queue) = &mut owned.queue else {
                owned.queue = owned.slot.take();
                continue;
            };
            owned.waits = if spent == 0 { 0 } else { owned.waits.saturating_sub(spent) };
            if owned.waits > 0 {
                continue;
            }
            let (port, walk) = (owned.slot.port, &mut self.walk);
            let Some(view) = self.snapshot.port(port) else { continue };
            let (mut received, mut refused) = (0, 0);
            queue.receive(burst, &view.shared.counters[self.id], &mut |borrowed| {
                received += borrowed.len() as u64;
                walk.burst_borrowed(borrowed, port, now);
                refused += walk.refused();
            });
            if !burst.is_empty() {
                received += burst.len() as u64;
                walk.burst(burst, port, now);
                refused += walk.refused();
            } else if received == 0 {
                continue;
            }
            walk.flush();
            let end = lcore::cycles();
            let cycles = end.wrapping_sub(last);
            owned.waits = waits(cycles, refused, received);
            self.spent += cycles;
            owned.slot.cycles.add(cycles);
            owned.slot.packets.add(received);
            self.stats.bursts.add(1);
            last = end;
            packets += received;
        }
        if !self.publisher.inboxes[self.id].is_empty() {
            self.walk.serve(&self.publisher.inboxes[self.id], now);
        }
        // Empty polls behind the last packet count for the next turn: one reading less.
        (packets, if packets == 0 { lcore::cycles() } else { last })
    }

    #[inline]
    fn account(&self, packets: u64, cycles: u64) {
        self.stats.turns.add(1);
        if packets == 0 {
            self.stats.idle_cycles.add(cycles);
        } else {
            self.stats.packets.add(packets);
            self.stats.busy_cycles.add(cycles);
        }
    }

    /// Sleeps a little longer each time, up to the bound; nobody waits for this worker meanwhile.
    #[cold]
    fn sleep(&mut self, times: u32) {
        self.walk.hand_over();
        self.publisher.quiescence().offline(self.id);
        // Ends early when the control side has a packet.
        std::thread::park_timeout(self.idle_sleep.min(Duration::from_micros(u64::from(times))));
        self.publisher.quiescence().online(self.id);
        self.rxqs.iter_mut().filter_map(|owned| owned.queue.as_mut()).for_each(RxQueue::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conntrack::Conntrack;

    /// For so long a worker would sleep here, and whoever waited for it would wait.
    const LONG_US: u32 = 60_000_000;

    #[test]
    fn nobody_waits_for_a_worker_that_sleeps() {
        let conntrack = Arc::new(Conntrack::new(vswitch_conntrack::Config { connections_max: 1 }));
        let publisher = Arc::new(Publisher::new(&[0], Arc::clone(&conntrack)));
        let walk = Walk::new(0, Mempool::for_tests(64), Arc::default(), conntrack, Rates::NONE);
        let mut poll = Poll::new(0, Arc::clone(&publisher), walk, Duration::from_micros(LONG_US.into()));
        publisher.quiescence().online(0);
        let (waited, answer) = mpsc::channel();
        std::thread::scope(|scope| {
            let sleeping = scope.spawn(|| poll.sleep(LONG_US));
            scope.spawn(|| {
                publisher.wait();
                let _ = waited.send(());
            });
            let answer = answer.recv_timeout(Duration::from_secs(30));
            sleeping.thread().unpark();
            assert_eq!(answer, Ok(()), "somebody waits for a worker that sleeps");
            sleeping.join().expect("it wakes");
        });
        // Awake, it is waited for again.
        let epoch = publisher.quiescence().epoch();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| publisher.wait());
            while publisher.quiescence().epoch() == epoch {
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished(), "nobody waits for a worker that is awake");
            publisher.quiescence().quiescent(0, epoch + 1);
        });
    }

    #[test]
    fn refused_packets_take_a_fortieth_of_the_time() {
        assert_eq!(waits(1000, 0, 32), 0);
        assert_eq!(waits(1000, 1, 40), 0, "a fortieth of them");
        assert_eq!(waits(1000, 32, 32), 39_000, "39 times as long for others");
        assert_eq!(waits(1000, 16, 32), 19_000, "its own good ones count, too");
        assert_eq!(waits(1000, 1024, 32), 39_000, "refused once, however often");
        assert_eq!(waits(u64::MAX, 32, 32), 39 * 32 * PACKET_CYCLES_MAX, "what took that long were not the packets");
    }
}
