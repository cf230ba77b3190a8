//! A worker's part: it copies packets of a burst into its sessions' buffers.

use super::budget::Budget;
use super::session::{Lane, PortTaps, key_of};
use super::{Buffer, Captures, Point, Record, SESSIONS_MAX, Session};
use crate::limits::{BURST, WORKERS_MAX};
use crate::observe::DropReason;
use crate::port::{Fates, PortId};
use std::sync::Arc;
use vswitch_dpdk::{Burst, Mbuf, lcore};
use vswitch_flow::FlowKey;

/// Packets of a burst, a bit each.
type Slots = u32;
const _: () = assert!(BURST == Slots::BITS as usize);

/// Bits of a tag that say which sessions took the packet when it came in. The id is above them.
const SESSION_BITS: u32 = 4;
const _: () = assert!(SESSIONS_MAX == SESSION_BITS as usize);

/// Bits of an id that say which worker gave it.
const WORKER_BITS: u32 = 6;
const _: () = assert!(WORKERS_MAX == 1 << WORKER_BITS);

/// Bytes of a packet in several segments that are looked at for its headers.
const HEADERS_MAX: usize = 256;

/// The id in a packet's tag; 0: it has none.
#[must_use]
pub const fn id_of(tag: u64) -> u64 {
    tag >> SESSION_BITS
}

/// What was copied of a burst that is not settled yet.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// First record of it in the buffer.
    first: usize,
    matched: Slots,
    copied: Slots,
}

/// What a worker has of captures.
#[derive(Debug)]
pub struct Taps {
    worker: usize,
    /// Of the last packet that got an id.
    serial: u64,
    captures: Option<Arc<Captures>>,
    budget: Budget,
    /// By session: what is being filled.
    buffers: [Option<Buffer>; SESSIONS_MAX],
    /// By session.
    pending: [Pending; SESSIONS_MAX],
}

impl Taps {
    /// For a worker, with no sessions yet.
    #[must_use]
    pub fn new(worker: usize) -> Self {
        let buffers = [const { None }; SESSIONS_MAX];
        Self { worker, serial: 0, captures: None, budget: Budget::new(0), buffers, pending: Default::default() }
    }

    /// From now on these are the sessions. What was copied for others goes to their readers.
    pub fn adopt(&mut self, captures: Option<&Arc<Captures>>) {
        self.give(|_| true);
        if self.captures.is_none() {
            self.budget = Budget::new(lcore::cycles());
        }
        self.captures = captures.cloned();
    }

    /// Whether a port is looked at.
    #[must_use]
    pub fn look_at(&self, port: PortId, point: Point) -> bool {
        self.captures.as_ref().is_some_and(|captures| captures.looks_at(port, point))
    }

    /// Gives readers that wait what was copied so far. One that has not taken the last buffer yet
    /// gets this one when it is full: a reader that is late shall not run out of buffers.
    pub fn hand_over(&mut self) {
        self.give(|lane| lane.full.is_empty());
    }

    fn give(&mut self, wants: impl Fn(&Lane) -> bool) {
        let Some(captures) = &self.captures else { return };
        for (session, buffer) in captures.sessions.iter().zip(&mut self.buffers) {
            let Some(lane) = session.as_ref().map(|session| &session.lanes[self.worker]) else { continue };
            if let Some(buffer) = buffer.take_if(|_| wants(lane)) {
                give(lane, buffer);
            }
        }
    }

    /// Looks at a burst that came in by a port: gives its packets ids, and copies them.
    #[cold]
    #[inline(never)]
    pub fn take_received(&mut self, burst: &mut Burst, port: PortId) {
        self.with(port, |taps, captures, of| {
            const POINT: usize = Point::Rx as usize;
            let cycles = lcore::cycles();
            if !taps.budget.allows(cycles) {
                taps.pass(captures, burst, of.sessions[POINT]);
                return taps.settle(captures, of, Point::Rx, burst.len(), &[None; BURST]);
            }
            let mut tags = [0; BURST];
            for (session, place) in sessions(captures, of.sessions[POINT]) {
                let matched = matched(session, burst, place, false);
                taps.pending[place].matched = matched;
                for (i, tag) in tags.iter_mut().enumerate() {
                    *tag |= u64::from(matched >> i & 1) << place;
                }
            }
            for (mbuf, tag) in burst.iter_mut().zip(&tags) {
                taps.serial += 1;
                let id = taps.serial << WORKER_BITS | taps.worker as u64;
                mbuf.set_tag(id << SESSION_BITS | tag);
            }
            for (session, place) in sessions(captures, of.sessions[POINT]) {
                taps.copy(session, place, burst, of.interfaces[place][POINT], cycles);
            }
            taps.settle(captures, of, Point::Rx, burst.len(), &[None; BURST]);
            taps.budget.charge(lcore::cycles().wrapping_sub(cycles));
        });
    }

    /// Copies a burst that is going to be handed to a port. [`Taps::settle_sent`] follows.
    #[cold]
    #[inline(never)]
    pub fn take_sent(&mut self, burst: &Burst, port: PortId) {
        self.with(port, |taps, captures, of| {
            const POINT: usize = Point::Tx as usize;
            let cycles = lcore::cycles();
            if !taps.budget.allows(cycles) {
                return taps.pass(captures, burst, of.sessions[POINT]);
            }
            for (session, place) in sessions(captures, of.sessions[POINT]) {
                taps.pending[place].matched = matched(session, burst, place, true);
                taps.copy(session, place, burst, of.interfaces[place][POINT], cycles);
            }
            taps.budget.charge(lcore::cycles().wrapping_sub(cycles));
        });
    }

    /// Nothing of a burst is copied, or looked at: all of it may have been wanted.
    fn pass(&mut self, captures: &Captures, burst: &Burst, mask: u8) {
        for (_, place) in sessions(captures, mask) {
            self.pending[place] = Pending { first: 0, matched: present(burst), copied: 0 };
        }
    }

    /// Notes what became of the packets of [`Taps::take_sent`].
    pub fn settle_sent(&mut self, port: PortId, packets: usize, fates: &Fates) {
        self.with(port, |taps, captures, of| taps.settle(captures, of, Point::Tx, packets, fates));
    }

    /// Does something with the sessions of a port, if there are any.
    fn with(&mut self, port: PortId, f: impl FnOnce(&mut Self, &Captures, &PortTaps)) {
        let Some(captures) = self.captures.take() else { return };
        if let Some(of) = captures.port(port) {
            f(self, &captures, of);
        }
        self.captures = Some(captures);
    }

    /// Copies the packets that match, as many as one buffer takes.
    fn copy(&mut self, session: &Session, place: usize, burst: &Burst, interface: u16, cycles: u64) {
        let Pending { matched, .. } = self.pending[place];
        let snaplen = session.spec.snaplen;
        let chosen = || slots(burst).filter(|(i, _)| matched >> i & 1 != 0);
        let bytes = chosen().map(|(_, mbuf)| mbuf.len().min(snaplen)).sum();
        let lane = &session.lanes[self.worker];
        let buffer = &mut self.buffers[place];
        let packets = matched.count_ones() as usize;
        if let Some(full) = buffer.take_if(|buffer| !buffer.is_empty() && !buffer.has_room(packets, bytes)) {
            give(lane, full);
        }
        if buffer.is_none() && packets > 0 {
            *buffer = lane.free.pop();
        }
        let mut copied = 0;
        let first = buffer.as_ref().map_or(0, Buffer::len);
        if let Some(buffer) = buffer {
            for (i, mbuf) in chosen() {
                let record = Record::new(interface, i, mbuf, id_of(mbuf.tag()), cycles);
                copied |= Slots::from(buffer.push(mbuf, snaplen, record)) << i;
            }
        }
        self.pending[place] = Pending { first, matched, copied };
    }

    /// Counts what became of a burst, and notes it in its records.
    fn settle(&mut self, captures: &Captures, of: &PortTaps, point: Point, packets: usize, fates: &Fates) {
        let taken = taken(packets, fates);
        for (session, place) in sessions(captures, of.sessions[point.index()]) {
            let Pending { first, matched, copied } = std::mem::take(&mut self.pending[place]);
            let lane = &session.lanes[self.worker];
            let interface = of.interfaces[place][point.index()];
            let counts = &lane.counts[usize::from(interface)];
            counts.passed.add(taken.count_ones().into());
            counts.copied.add((copied & taken).count_ones().into());
            counts.missed.add((matched & !copied & taken).count_ones().into());
            counts.refused.add((matched & !taken).count_ones().into());
            if let (Some(buffer), true) = (&mut self.buffers[place], copied & !taken != 0) {
                for record in buffer.records_from(first) {
                    record.refused = fates[usize::from(record.slot)];
                }
            }
        }
    }
}

/// Gives the reader a buffer.
fn give(lane: &Lane, buffer: Buffer) {
    let queue = if buffer.is_empty() { &lane.free } else { &lane.full };
    let _ = queue.push(buffer); // each has room for all
}

/// Which packets the port took.
fn taken(packets: usize, fates: &Fates) -> Slots {
    let took = |(i, fate): (usize, &Option<DropReason>)| Slots::from(fate.is_none()) << i;
    fates.iter().enumerate().take(packets).map(took).sum()
}

/// The sessions of a mask, each with its place.
fn sessions(captures: &Captures, mask: u8) -> impl Iterator<Item = (&Session, usize)> {
    let wanted = move |(place, session)| Some((Option::as_deref(session)?, place)).filter(|_| mask >> place & 1 != 0);
    captures.sessions.iter().enumerate().filter_map(wanted)
}

/// Packets of a burst with their places.
fn slots(burst: &Burst) -> impl Iterator<Item = (u8, &Mbuf)> {
    (0..).zip(burst.slots()).filter_map(|(i, slot)| Some((i, slot.as_ref()?)))
}

/// The packets of a burst.
fn present(burst: &Burst) -> Slots {
    slots(burst).map(|(i, _)| 1 << i).sum()
}

/// Which packets a session wants. `follow`: also those that it took when they came in.
fn matched(session: &Session, burst: &Burst, place: usize, follow: bool) -> Slots {
    let Some(matching) = &session.spec.matching else { return present(burst) };
    let wants = |mbuf: &Mbuf| (follow && mbuf.tag() >> place & 1 != 0) || matching.matches(&key_of_mbuf(mbuf));
    slots(burst).map(|(i, mbuf)| Slots::from(wants(mbuf)) << i).sum()
}

/// The packet's fields.
fn key_of_mbuf(mbuf: &Mbuf) -> FlowKey {
    let mut copy = [0; HEADERS_MAX];
    let wanted = mbuf.len().min(HEADERS_MAX);
    let head = match mbuf.head() {
        head if head.len() >= wanted => head,
        _ if mbuf.read(0, &mut copy[..wanted]) => &copy[..wanted],
        head => head,
    };
    key_of(head, mbuf.len())
}
