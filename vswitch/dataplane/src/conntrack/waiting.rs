//! Fragments that wait for the others of their datagram.
//!
//! **Design**: fragments are as they came, sorted by offset; the last missing one takes all of them
//! away. A fragment that overlaps another one is dropped: of IPv4 the datagram may still be
//! completed by others (as in Open vSwitch), of IPv6 it is dropped as a whole, with what comes of
//! it later (RFC 5722). One that comes twice is dropped alone.
//!
//! **Limits**: of datagrams and mbufs, in all and per port ([`crate::limits`]). A port beyond its
//! own gives up its oldest datagram, a full table that of the port that has most. What is given up
//! waits for [`Waiting::maintain`], which has somebody to tell.
//!
//! **Threads**: one lock around everything, held for some hundred nanoseconds per fragment.
//! Fragments are rare, and allocate.

use super::fragment::{Fragment, Key};
use crate::action::Packet;
use crate::limits::{
    FRAGMENT_MBUFS_MAX, FRAGMENT_MBUFS_PER_PORT_MAX, FRAGMENT_TIMEOUT_MS, FRAGMENTED_MAX, FRAGMENTED_PER_PORT_MAX,
    FRAGMENTS_GIVEN_UP_MAX, FRAGMENTS_PER_DATAGRAM_MAX,
};
use crate::observe::DropReason;
use crate::port::PortId;
use crate::time::Millis;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_conntrack::Family;
use vswitch_dpdk::Mbuf;

/// What became of a fragment.
#[derive(Debug)]
pub(super) enum Arrival {
    /// It waits.
    Held,
    /// It was the last one: all of them, in order.
    Complete(Vec<Packet>),
    /// It is not wanted.
    Refused(Mbuf, DropReason),
}

/// All fragments that wait.
#[derive(Debug)]
pub(super) struct Waiting {
    table: Mutex<Table>,
    /// When [`Self::maintain`] has something to do, in milliseconds; `u64::MAX`: never. A hint:
    /// written under the lock, read without.
    due: AtomicU64,
}

/// Datagrams that `maintain` gives up in one call.
const TEND_BUDGET: usize = 64;

impl Default for Waiting {
    fn default() -> Self {
        Self { table: Mutex::default(), due: AtomicU64::new(u64::MAX) }
    }
}

impl Waiting {
    /// A fragment came.
    pub(super) fn add(&self, packet: Packet, fragment: &Fragment, now: Millis) -> Arrival {
        self.locked(|table| table.add(packet, fragment, now))
    }

    /// Packets that are to be dropped, some time soon.
    pub(super) fn give_up(&self, packets: impl Iterator<Item = Packet>, port: PortId, reason: DropReason) {
        self.locked(|table| table.given_up.extend(packets.map(|packet| (port, packet.mbuf, reason))));
    }

    /// Gives up what has waited too long, and hands out what was given up.
    pub(super) fn maintain(&self, now: Millis, drop: &mut dyn FnMut(PortId, Mbuf, DropReason)) {
        if now.0 < self.due.load(Relaxed) {
            return;
        }
        let given_up = self.locked(|table| {
            table.expire(now);
            std::mem::take(&mut table.given_up)
        });
        for (port, mbuf, reason) in given_up {
            drop(port, mbuf, reason);
        }
    }

    /// Datagrams that wait, and mbufs.
    pub(super) fn counts(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.datagrams.len(), table.mbufs)
    }

    fn locked<T>(&self, f: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table.lock();
        let result = f(&mut table);
        self.due.store(table.due(), Relaxed);
        result
    }
}

#[derive(Debug, Default)]
struct Table {
    /// By key, the number of a datagram.
    numbers: HashMap<Key, u64>,
    /// By number: oldest first.
    datagrams: BTreeMap<u64, Incomplete>,
    /// Ports and numbers.
    by_port: BTreeSet<(u16, u64)>,
    /// Ports with datagrams.
    ports: HashMap<u16, Used>,
    /// Of all ports.
    mbufs: usize,
    last_number: u64,
    given_up: Vec<(PortId, Mbuf, DropReason)>,
}

/// What the fragments of a port take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Used {
    mbufs: usize,
    datagrams: usize,
}

/// A datagram that is not all there.
#[derive(Debug)]
struct Incomplete {
    key: Key,
    since: Millis,
    /// In order of their offsets; none overlaps another one.
    parts: Vec<Part>,
    /// Bytes of all of them.
    len: usize,
    /// Where the last one ends, once it has come.
    end: Option<usize>,
    mbufs: usize,
    /// It was given up, and so is what comes.
    spoilt: bool,
}

#[derive(Debug)]
struct Part {
    offset: usize,
    end: usize,
    more: bool,
    packet: Packet,
}

/// Why a fragment does not fit.
enum Misfit {
    Overlaps,
    Otherwise(DropReason),
}

impl Incomplete {
    /// Where among the parts a fragment belongs.
    fn place(&self, fragment: &Fragment) -> Result<usize, Misfit> {
        let (start, end) = (fragment.offset, fragment.offset + fragment.len);
        if self.spoilt {
            return Err(Misfit::Otherwise(DropReason::FragOverlap));
        }
        let at = self.parts.partition_point(|part| part.offset < start);
        let (before, behind) = self.parts.split_at(at);
        if behind.first().is_some_and(|part| (part.offset, part.end, part.more) == (start, end, fragment.more)) {
            return Err(Misfit::Otherwise(DropReason::FragOverlap));
        }
        if before.last().is_some_and(|part| part.end > start) || behind.first().is_some_and(|part| part.offset < end) {
            return Err(Misfit::Overlaps);
        }
        let beyond = self.end.is_some_and(|last| end > last || !fragment.more);
        if beyond || !fragment.more && !behind.is_empty() {
            return Err(Misfit::Otherwise(DropReason::FragInvalid));
        }
        if self.parts.len() >= FRAGMENTS_PER_DATAGRAM_MAX {
            return Err(Misfit::Otherwise(DropReason::FragFull));
        }
        Ok(at)
    }
}

impl Table {
    fn add(&mut self, packet: Packet, fragment: &Fragment, now: Millis) -> Arrival {
        let key = fragment.key;
        let mbufs = packet.mbuf.nb_segs();
        let known = self.numbers.get(&key).and_then(|number| Some((*number, self.datagrams.get(number)?)));
        match known.map(|(number, datagram)| (number, datagram.place(fragment))) {
            Some((_, Err(Misfit::Otherwise(reason)))) => return Arrival::Refused(packet.mbuf, reason),
            Some((number, Err(Misfit::Overlaps))) => {
                if key.family == Family::V6 {
                    self.spoil(number);
                }
                return Arrival::Refused(packet.mbuf, DropReason::FragOverlap);
            }
            _ => {}
        }
        if !self.make_room(key.port, Used { mbufs, datagrams: usize::from(known.is_none()) }) {
            return Arrival::Refused(packet.mbuf, DropReason::FragFull);
        }
        // Making room may have cost this very datagram.
        let number = self.numbers.get(&key).copied().unwrap_or_else(|| self.begin(key, now));
        let Some(datagram) = self.datagrams.get_mut(&number) else {
            return Arrival::Refused(packet.mbuf, DropReason::FragFull);
        };
        let Fragment { offset, len, more, .. } = *fragment;
        let at = datagram.parts.partition_point(|part| part.offset < offset);
        datagram.parts.insert(at, Part { offset, end: offset + len, more, packet });
        datagram.len += len;
        datagram.mbufs += mbufs;
        if !more {
            datagram.end = Some(offset + len);
        }
        // Nothing overlaps: as many bytes as there are to be are all of them.
        let complete = datagram.end == Some(datagram.len);
        self.mbufs += mbufs;
        self.ports.entry(key.port).or_default().mbufs += mbufs;
        if !complete {
            return Arrival::Held;
        }
        let parts = self.remove(number).map(|datagram| datagram.parts).unwrap_or_default();
        Arrival::Complete(parts.into_iter().map(|part| part.packet).collect())
    }

    fn begin(&mut self, key: Key, since: Millis) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        let datagram = Incomplete { key, since, parts: Vec::new(), len: 0, end: None, mbufs: 0, spoilt: false };
        self.numbers.insert(key, number);
        self.datagrams.insert(number, datagram);
        self.by_port.insert((key.port, number));
        self.ports.entry(key.port).or_default().datagrams += 1;
        number
    }

    fn remove(&mut self, number: u64) -> Option<Incomplete> {
        let datagram = self.datagrams.remove(&number)?;
        let port = datagram.key.port;
        self.numbers.remove(&datagram.key);
        self.by_port.remove(&(port, number));
        self.mbufs -= datagram.mbufs;
        if let Some(used) = self.ports.get_mut(&port) {
            used.mbufs -= datagram.mbufs;
            used.datagrams -= 1;
            if used.datagrams == 0 {
                self.ports.remove(&port);
            }
        }
        Some(datagram)
    }

    /// Gives up a datagram.
    fn give_up(&mut self, number: u64, reason: DropReason) {
        let Some(datagram) = self.remove(number) else { return };
        let port = PortId(datagram.key.port);
        self.given_up.extend(datagram.parts.into_iter().map(|part| (port, part.packet.mbuf, reason)));
    }

    /// Gives up what there is of a datagram, and what will come.
    fn spoil(&mut self, number: u64) {
        let Some(datagram) = self.datagrams.get_mut(&number) else { return };
        let port = datagram.key.port;
        let (parts, mbufs) = (std::mem::take(&mut datagram.parts), std::mem::take(&mut datagram.mbufs));
        datagram.spoilt = true;
        self.mbufs -= mbufs;
        if let Some(used) = self.ports.get_mut(&port) {
            used.mbufs -= mbufs;
        }
        let overlaps = |part: Part| (PortId(port), part.packet.mbuf, DropReason::FragOverlap);
        self.given_up.extend(parts.into_iter().map(overlaps));
    }

    /// Gives up old datagrams until there is room for more; false when there is none. Each round
    /// takes one of at most [`FRAGMENTED_MAX`].
    fn make_room(&mut self, port: u16, more: Used) -> bool {
        if more.mbufs > FRAGMENT_MBUFS_PER_PORT_MAX {
            return false;
        }
        loop {
            let own = self.ports.get(&port).copied().unwrap_or_default();
            let victim = if own.mbufs + more.mbufs > FRAGMENT_MBUFS_PER_PORT_MAX
                || own.datagrams + more.datagrams > FRAGMENTED_PER_PORT_MAX
            {
                Some(port)
            } else if self.mbufs + more.mbufs > FRAGMENT_MBUFS_MAX
                || self.datagrams.len() + more.datagrams > FRAGMENTED_MAX
            {
                self.ports.iter().max_by_key(|(_, used)| **used).map(|(port, _)| *port)
            } else {
                return true;
            };
            let oldest = victim.and_then(|port| self.by_port.range((port, 0)..=(port, u64::MAX)).next().copied());
            let Some((_, number)) = oldest.filter(|_| self.given_up.len() < FRAGMENTS_GIVEN_UP_MAX) else {
                return false;
            };
            self.give_up(number, DropReason::FragFull);
        }
    }

    fn expire(&mut self, now: Millis) {
        for _ in 0..TEND_BUDGET {
            match self.datagrams.first_key_value() {
                Some((&number, datagram)) if expires(datagram) <= now.0 => {
                    self.give_up(number, DropReason::FragTimeout);
                }
                _ => return,
            }
        }
    }

    /// When there is something to do for `maintain`.
    fn due(&self) -> u64 {
        if self.given_up.is_empty() {
            self.datagrams.first_key_value().map_or(u64::MAX, |(_, datagram)| expires(datagram))
        } else {
            0
        }
    }
}

const fn expires(datagram: &Incomplete) -> u64 {
    datagram.since.0 + FRAGMENT_TIMEOUT_MS
}
