//! What a worker keeps of packets that died: a few whole samples a second, for those who watch.
//!
//! **Where in the walk**: behind the one counter of a drop ([`super::Drops`]), nowhere else.
//!
//! **Design**: a worker puts samples into a bounded queue of its own, and the control side empties
//! it. A sample is a plain struct that is copied; the only thing shared is the name of its port. A
//! reason gets at most a rate of samples per second of the worker's clock. What is beyond that is
//! counted as suppressed, what found the queue full as lost.
//!
//! A capture of drops has a [`DropTap`] for each worker, which has no rate: it gets all drops of
//! its ports.
//!
//! **Limits**: [`DROP_SAMPLES_QUEUED`] samples per worker, [`DROP_TAP_QUEUED`] per worker and
//! capture, [`SAMPLE_BYTES`] bytes of each packet. Without a watcher a drop costs one relaxed load.
//!
//! **Threads**: one worker writes; any thread may set the rate, read the counters and take samples.

use super::{Counter, DropReason};
use crate::limits::{DROP_SAMPLES_QUEUED, DROP_TAP_QUEUED, SAMPLE_BYTES};
use crate::time::Millis;
use arc_swap::ArcSwap;
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_dpdk::{Mbuf, lcore};

/// Which way a packet was going, as its port sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// It came in by the port.
    In,
    /// It was to leave by the port.
    Out,
}

impl Direction {
    /// Name in JSON and command output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

/// The port that a drop is counted at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropPlace {
    /// Index of the port.
    pub port: usize,
    /// Its name.
    pub name: String,
    /// Name of its bridge.
    pub bridge: String,
}

/// What decided that a packet dies: the last rule that it met, or the table that had none for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decider {
    /// Cookie of the rule; 0 without one.
    pub cookie: u64,
    /// Number of the bridge ([`crate::pipeline::Bridge::id`]).
    pub bridge: u32,
    /// Number of the table.
    pub table: u8,
    /// There was a rule.
    pub matched: bool,
}

/// What is at hand of a packet that dies.
#[derive(Clone, Copy, Debug)]
pub enum Remains<'a> {
    /// Nothing: it was never read, or is gone already.
    Nothing,
    /// Its bytes.
    Bytes(&'a [u8]),
    /// The packet, in however many segments.
    Packet(&'a Mbuf),
}

impl Remains<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Packet(mbuf) => mbuf.len(),
        }
    }

    fn tag(&self) -> u64 {
        match self {
            Self::Packet(mbuf) => mbuf.tag(),
            Self::Nothing | Self::Bytes(_) => 0,
        }
    }

    /// Copies the first bytes; returns how many.
    fn copy(&self, into: &mut [u8; SAMPLE_BYTES]) -> usize {
        let len = self.len().min(SAMPLE_BYTES);
        let read = match self {
            Self::Nothing => false,
            Self::Bytes(bytes) => {
                into[..len].copy_from_slice(&bytes[..len]);
                true
            }
            Self::Packet(mbuf) => mbuf.read(0, &mut into[..len]),
        };
        if read { len } else { 0 }
    }
}

/// A packet that died.
#[derive(Clone, Debug)]
pub struct DropSample {
    /// Why.
    pub reason: DropReason,
    /// Where it is counted.
    pub place: Arc<DropPlace>,
    /// Which way it was going.
    pub direction: Direction,
    /// Index of the worker.
    pub worker: usize,
    /// When, by the worker's clock: to the millisecond.
    pub at: Millis,
    /// What decided so, where a decision did.
    pub decider: Option<Decider>,
    /// Bytes of the whole packet; 0 where it was not at hand.
    pub len: usize,
    /// Its mark ([`Mbuf::tag`]); 0: none.
    pub tag: u64,
    /// TSC cycles when it died; 0 if no capture asked.
    pub cycles: u64,
    bytes: [u8; SAMPLE_BYTES],
    copied: usize,
}

impl DropSample {
    /// The first bytes of the packet; none where it was not at hand.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.copied]
    }
}

/// Beside the rate: a capture wants drops.
const TAPPED: u32 = 1 << 31;

/// What one reason has had of the present second.
#[derive(Debug, Default)]
struct Share {
    /// Second of the worker's clock, plus 1; 0: none yet.
    second: Counter,
    taken: Counter,
    suppressed: Counter,
    lost: Counter,
}

/// The samples of one worker.
#[derive(Debug)]
pub struct DropSampler {
    /// Samples per second and reason; and [`TAPPED`]. 0: there is no watcher.
    wanted: AtomicU32,
    /// Captures of drops.
    taps: ArcSwap<Vec<Arc<DropTap>>>,
    worker: usize,
    /// Milliseconds of the worker's clock.
    now: Counter,
    shares: [Share; DropReason::COUNT],
    queue: ArrayQueue<DropSample>,
}

impl DropSampler {
    /// Of a worker without watchers.
    #[must_use]
    pub fn new(worker: usize) -> Self {
        Self {
            wanted: AtomicU32::new(0),
            taps: ArcSwap::default(),
            worker,
            now: Counter::default(),
            shares: std::array::from_fn(|_| Share::default()),
            queue: ArrayQueue::new(DROP_SAMPLES_QUEUED),
        }
    }

    /// Sets how many samples a reason may have per second; 0: none, and drops cost nothing.
    pub fn set_rate(&self, rate: u32) {
        let _ = self.wanted.fetch_update(Relaxed, Relaxed, |wanted| Some(wanted & TAPPED | rate & !TAPPED)); // always
    }

    /// From now on a capture gets all drops of its ports. The control side.
    pub fn add_tap(&self, tap: &Arc<DropTap>) {
        self.change_taps(|taps| taps.push(Arc::clone(tap)));
    }

    /// A capture of drops ends. The control side.
    pub fn remove_tap(&self, tap: &Arc<DropTap>) {
        self.change_taps(|taps| taps.retain(|one| !Arc::ptr_eq(one, tap)));
    }

    fn change_taps(&self, change: impl Fn(&mut Vec<Arc<DropTap>>)) {
        self.taps.rcu(|taps| {
            let mut taps = Vec::clone(taps);
            change(&mut taps);
            taps
        });
        let tapped = if self.taps.load().is_empty() { 0 } else { TAPPED };
        let _ = self.wanted.fetch_update(Relaxed, Relaxed, |wanted| Some(wanted & !TAPPED | tapped)); // always
    }

    /// Whether anything is to be done about a drop but count it.
    #[inline]
    pub(super) fn is_watched(&self) -> bool {
        self.wanted.load(Relaxed) != 0
    }

    /// Samples that a reason may have per second; 0: there is no watcher.
    #[inline]
    #[must_use]
    pub fn rate(&self) -> u32 {
        self.wanted.load(Relaxed) & !TAPPED
    }

    /// The worker has read its clock.
    #[inline]
    pub fn set_now(&self, now: Millis) {
        self.now.set(now.0);
    }

    /// The oldest sample. The control side.
    #[must_use]
    pub fn take(&self) -> Option<DropSample> {
        self.queue.pop()
    }

    /// Drops of a reason that were counted while it had its share, since the worker started.
    #[must_use]
    pub fn suppressed(&self, reason: DropReason) -> u64 {
        self.shares[reason.index()].suppressed.get()
    }

    /// Drops of a reason that found the queue full, since the worker started.
    #[must_use]
    pub fn lost(&self, reason: DropReason) -> u64 {
        self.shares[reason.index()].lost.get()
    }

    /// A sample of a packet, or of what is at hand of it.
    fn copy(&self, place: &Arc<DropPlace>, direction: Direction, died: &Died<'_>) -> DropSample {
        let mut bytes = [0; SAMPLE_BYTES];
        let copied = died.remains.copy(&mut bytes);
        DropSample {
            reason: died.reason,
            place: Arc::clone(place),
            direction,
            worker: self.worker,
            at: Millis(self.now.get()),
            decider: died.decider,
            len: died.remains.len(),
            tag: died.remains.tag(),
            cycles: 0,
            bytes,
            copied,
        }
    }

    /// Packets died, of which one is at hand. The worker.
    #[cold]
    #[inline(never)]
    pub(super) fn sample(&self, place: &Arc<DropPlace>, direction: Direction, died: &Died<'_>) {
        if self.wanted.load(Relaxed) & TAPPED != 0 {
            for tap in self.taps.load().iter() {
                // No burst's time is at hand here.
                tap.take(place.port, died, || DropSample {
                    cycles: lcore::cycles(),
                    ..self.copy(place, direction, died)
                });
            }
        }
        let rate = self.rate().into();
        if rate == 0 {
            return;
        }
        let at = Millis(self.now.get());
        let share = &self.shares[died.reason.index()];
        let second = at.0 / 1000 + 1;
        if share.second.get() != second {
            share.second.set(second);
            share.taken.set(0);
        }
        if share.taken.get() >= rate {
            share.suppressed.add(died.packets);
            return;
        }
        share.taken.add(1);
        share.suppressed.add(died.packets - 1);
        let sample = self.copy(place, direction, died);
        // The name that comes back has an owner at the port: nothing is freed here.
        if self.queue.push(sample).is_err() {
            share.lost.add(1);
        }
    }
}

/// Packets that died of one reason; one of them is at hand, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Died<'a> {
    pub(super) reason: DropReason,
    /// How many; not 0.
    pub(super) packets: u64,
    pub(super) remains: Remains<'a>,
    pub(super) decider: Option<Decider>,
}

/// What one worker counted at one port.
#[derive(Debug, Default)]
struct TapCounts {
    passed: Counter,
    missed: Counter,
}

/// What a capture keeps of the packets of one worker that died: of some ports all, as far as there
/// is room. What found the queue full, or had no bytes left, is counted as missed.
#[derive(Debug)]
pub struct DropTap {
    /// By port, if it is captured.
    ports: Box<[Option<TapCounts>]>,
    queue: ArrayQueue<DropSample>,
}

impl DropTap {
    /// For ports with these indexes. Allocates all that it will ever have.
    #[must_use]
    pub fn new(ports: &[usize]) -> Self {
        let len = ports.iter().max().map_or(0, |last| last + 1);
        let mut counts: Vec<Option<TapCounts>> = (0..len).map(|_| None).collect();
        ports.iter().for_each(|port| counts[*port] = Some(TapCounts::default()));
        Self { ports: counts.into(), queue: ArrayQueue::new(DROP_TAP_QUEUED) }
    }

    /// Packets died at a port. The worker.
    fn take(&self, port: usize, died: &Died<'_>, sample: impl FnOnce() -> DropSample) {
        let Some(Some(counts)) = self.ports.get(port) else { return };
        counts.passed.add(died.packets);
        let at_hand = !matches!(died.remains, Remains::Nothing);
        // The name in a sample that comes back has an owner at the port: nothing is freed here.
        let kept = u64::from(at_hand && self.queue.push(sample()).is_ok());
        counts.missed.add(died.packets - kept);
    }

    /// The oldest sample. The reader.
    #[must_use]
    pub fn pop(&self) -> Option<DropSample> {
        self.queue.pop()
    }

    /// Packets that died at a port, and those of them that no sample was kept of.
    #[must_use]
    pub fn counted(&self, port: usize) -> (u64, u64) {
        let counts = self.ports.get(port).and_then(Option::as_ref);
        counts.map_or((0, 0), |counts| (counts.passed.get(), counts.missed.get()))
    }
}
