//! What a reader asked for, and what workers and the reader share of it.

use super::{BUFFERS_MAX, Buffer, Point, SESSION_BUFFERS, SESSIONS_MAX, SNAPLEN_MAX};
use crate::observe::{Counter, DropSample, DropTap};
use crate::port::PortId;
use crossbeam_queue::ArrayQueue;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::extract::extract;
use vswitch_flow::{FlowKey, SparseMatch};

/// A port and a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The port.
    pub port: PortId,
    /// Its name.
    pub name: String,
    /// Where it is looked at.
    pub point: Point,
}

/// What a reader asks for.
#[derive(Clone, Debug, Default)]
pub struct SessionSpec {
    /// Where packets are looked at; records name an interface by its index here.
    pub interfaces: Vec<Interface>,
    /// Which packets; none: all.
    pub matching: Option<SparseMatch>,
    /// Bytes that are kept of a packet at most, up to [`SNAPLEN_MAX`].
    pub snaplen: usize,
}

/// What one worker counted for one interface.
#[derive(Debug, Default)]
pub struct Counts {
    /// Packets that passed, and that the port took.
    pub(super) passed: Counter,
    /// Of them, those that were copied.
    pub(super) copied: Counter,
    /// Of them, those that were to be copied, and for which there was no room.
    pub(super) missed: Counter,
    /// Packets that the port refused, and that were to be copied.
    pub(super) refused: Counter,
}

/// [`Counts`], summed over workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that passed, and that the port took: what the port's counter rose by meanwhile.
    pub passed: u64,
    /// Of them, those that were copied.
    pub copied: u64,
    /// Of them, those that were to be copied, and for which there was no room.
    pub missed: u64,
    /// Packets that the port refused, and that were to be copied.
    pub refused: u64,
}

/// Between one worker and the reader.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) free: ArrayQueue<Buffer>,
    pub(super) full: ArrayQueue<Buffer>,
    /// By interface.
    pub(super) counts: Box<[Counts]>,
}

/// A capture that goes on.
#[derive(Debug)]
pub struct Session {
    pub(super) spec: SessionSpec,
    /// By worker.
    pub(super) lanes: Box<[Lane]>,
    /// By worker: what died, if that is captured.
    drops: Box<[Arc<DropTap>]>,
    /// Its place in [`Captures`].
    place: usize,
    /// None of its ports is left.
    over: AtomicBool,
}

impl Session {
    /// A session for so many workers, in a place of [`Captures`]. Allocates all that it will ever
    /// have.
    #[must_use]
    pub fn new(spec: SessionSpec, workers: usize, place: usize) -> Self {
        let spec = SessionSpec { snaplen: spec.snaplen.clamp(1, SNAPLEN_MAX), ..spec };
        let buffers = (SESSION_BUFFERS / workers.max(1)).clamp(1, BUFFERS_MAX);
        let lane = |_| {
            let (free, full) = (ArrayQueue::new(buffers), ArrayQueue::new(buffers));
            for _ in 0..buffers {
                let _ = free.push(Buffer::new()); // there is room for all
            }
            Lane { free, full, counts: spec.interfaces.iter().map(|_| Counts::default()).collect() }
        };
        let lanes = (0..workers).map(lane).collect();
        let dying = spec.interfaces.iter().filter(|interface| interface.point == Point::Drop);
        let dying: Vec<usize> = dying.map(|interface| interface.port.index()).collect();
        let taps = if dying.is_empty() { 0 } else { workers };
        let drops = (0..taps).map(|_| Arc::new(DropTap::new(&dying))).collect();
        Self { spec, lanes, drops, place, over: AtomicBool::new(false) }
    }

    /// What it is about.
    #[must_use]
    pub fn spec(&self) -> &SessionSpec {
        &self.spec
    }

    /// Whether none of its ports is left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Shows `visit` the oldest buffer that each worker has filled, with the worker's index, and
    /// gives the buffers back. False: there was none. For the one reader.
    pub fn read(&self, mut visit: impl FnMut(usize, &Buffer)) -> bool {
        let mut any = false;
        for (worker, lane) in self.lanes.iter().enumerate() {
            let Some(mut buffer) = lane.full.pop() else { continue };
            any = true;
            visit(worker, &buffer);
            buffer.clear();
            let _ = lane.free.push(buffer); // there is room: it came from there
        }
        any
    }

    /// By worker: where its packets that die go. Empty: they are not captured.
    #[must_use]
    pub fn drops(&self) -> &[Arc<DropTap>] {
        &self.drops
    }

    /// The oldest packet that died, with the index of its interface. Those of other ports, and
    /// those that do not fit the match, are counted and left out. For the one reader.
    pub fn read_drop(&self, left_out: &mut [u64]) -> Option<(u16, DropSample)> {
        loop {
            let sample = self.drops.iter().find_map(|tap| tap.pop())?;
            let is_it = |one: &Interface| {
                (one.point, one.port.index(), one.name.as_str())
                    == (Point::Drop, sample.place.port, &*sample.place.name)
            };
            let Some(at) = self.spec.interfaces.iter().position(is_it) else { continue };
            if self.wants(sample.bytes(), sample.len, sample.tag) {
                return Some((u16::try_from(at).unwrap_or(u16::MAX), sample));
            }
            left_out[at] += 1;
        }
    }

    /// Whether it wants a packet that begins with these bytes: it fits the match, or was wanted
    /// when it came in.
    fn wants(&self, head: &[u8], len: usize, tag: u64) -> bool {
        let fits = |matching: &SparseMatch| matching.matches(&key_of(head, len));
        tag >> self.place & 1 != 0 || self.spec.matching.as_ref().is_none_or(fits)
    }

    /// What workers counted, by interface.
    #[must_use]
    pub fn totals(&self) -> Vec<Totals> {
        let mut totals = vec![Totals::default(); self.spec.interfaces.len()];
        for (sum, interface) in totals.iter_mut().zip(&self.spec.interfaces) {
            if interface.point == Point::Drop {
                let counted = self.drops.iter().map(|tap| tap.counted(interface.port.index()));
                let (passed, missed) = counted.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
                *sum = Totals { passed, copied: passed - missed, missed, refused: 0 };
            }
        }
        for lane in &self.lanes {
            for (sum, counts) in totals.iter_mut().zip(&lane.counts) {
                sum.passed += counts.passed.get();
                sum.copied += counts.copied.get();
                sum.missed += counts.missed.get();
                sum.refused += counts.refused.get();
            }
        }
        totals
    }
}

/// The fields of a packet that begins with these bytes, as the tables see them: of no metadata.
pub(super) fn key_of(head: &[u8], len: usize) -> FlowKey {
    let mut key = FlowKey::default();
    let _ = extract(head, len, &mut key);
    let _ = key.hide_fragment_ports(); // for good: the key is only matched
    key
}

/// What a port has to do with the sessions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortTaps {
    /// By point: which sessions look there, a bit each.
    pub(super) sessions: [u8; Point::COUNT],
    /// By session and point: index of the interface.
    pub(super) interfaces: [[u16; Point::COUNT]; SESSIONS_MAX],
}

/// All sessions, as one snapshot has them.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    pub(super) sessions: [Option<Arc<Session>>; SESSIONS_MAX],
    /// By port.
    ports: Vec<PortTaps>,
}

impl Captures {
    /// Of sessions in their places. `is_open` is asked for a place, the index of one of the
    /// session's interfaces, and its port: whether that is still the port that the session was
    /// begun for. A session without such a port is over.
    #[must_use]
    pub fn new(sessions: [Option<Arc<Session>>; SESSIONS_MAX], is_open: impl Fn(usize, usize, PortId) -> bool) -> Self {
        let mut ports: Vec<PortTaps> = Vec::new();
        for (place, session) in sessions.iter().enumerate() {
            let Some(session) = session else { continue };
            let mut is_over = true;
            for (index, interface) in (0..).zip(&session.spec.interfaces) {
                if !is_open(place, usize::from(index), interface.port) {
                    continue;
                }
                is_over = false;
                let port = interface.port.index();
                if ports.len() <= port {
                    ports.resize(port + 1, PortTaps::default());
                }
                ports[port].sessions[interface.point.index()] |= 1 << place;
                ports[port].interfaces[place][interface.point.index()] = index;
            }
            session.over.fetch_or(is_over, Relaxed);
        }
        Self { sessions, ports }
    }

    /// Whether packets of a port are looked at there.
    #[must_use]
    pub fn looks_at(&self, port: PortId, point: Point) -> bool {
        self.port(port).is_some_and(|taps| taps.sessions[point.index()] != 0)
    }

    pub(super) fn port(&self, port: PortId) -> Option<&PortTaps> {
        self.ports.get(port.index())
    }
}
