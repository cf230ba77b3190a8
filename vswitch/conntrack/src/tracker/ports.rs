//! Ports: how many connections each port has opened that are there still, and how many it may have.
//!
//! **Where in the walk**: a connection counts for the port by which its first packet came in, from
//! its opening to its end. An answer makes it answered. Packets of answered
//! connections touch nothing here.
//!
//! **Share rule**: an eighth of the table is a reserve, and the rest is the pool. Each port that is
//! there may always have its part of the reserve, the **guarantee**. Beyond that a port may have a
//! part of what it has and what is free in the pool together ([`Share`]). So its limit falls while
//! others fill the pool, and rises when they leave (the dynamic threshold of Choudhury and Hahne,
//! 1998). One Pod's port alone gets three quarters of the table. Established connections may stay
//! for a day: so the pool may be empty for as long, and the guarantee is what others have then. Of
//! connections that nobody answered a port may have less, by the same rule.
//!
//! **At the limit** a port loses an old unanswered connection of its own ([`Tracker::drop_own`]).
//! If none is found, its new connection is refused ([`crate::Refusal::PortFull`]). Answered
//! connections, and those of other ports, stay.
//!
//! **Design**: a port has a **slot** for as long as connections of its name are there. The number
//! of a port is free for another port at once, and its slot is not. A port that comes back by its
//! name, also after a restart of the switch, has its slot again. Slot 0 is that of no port: packets
//! of controllers, and what came back from a file that names no port. It has no limit of its own.
//!
//! **Cost**: opening and ending write one cache line, the port's. What is free is known about
//! ([`super::free::Free::room`]), so that opening reads no line of other workers.
//!
//! **Limits**: [`PORTS`] ports, [`SLOTS`] slots; a port without a slot counts as no port.
//!
//! **Threads**: workers count, the control side adds and removes. A number is given again only
//! when every worker has forgotten the port that had it.

use super::sync::size;
use crate::Ingress;
use parking_lot::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Numbers that ports may have, from 0.
pub const PORTS: usize = size(1 << 10, 2);

/// Slots: ports that are there, and ports that have gone while connections of theirs are there.
pub(super) const SLOTS: usize = size(1 << 12, 3);

/// The part of the table that is the reserve: one in so many.
const RESERVE: u32 = 8;

/// Where a port is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u16);

impl Slot {
    /// Of no port.
    pub(super) const NONE: Self = Self(0);
}

/// Which part of the table a port may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// One peer is behind it: three quarters of the table if it is alone, and seven sixteenths for
    /// unanswered connections.
    #[default]
    One,
    /// Many peers are behind it, as behind a tunnel or a network card: thirteen sixteenths, and
    /// twenty-one of thirty-two.
    Many,
}

impl Share {
    /// Parts that a port may have for each part of the pool that stays free: of all connections,
    /// and of unanswered ones.
    const fn weights(self) -> [u64; 2] {
        match self {
            Self::One => [6, 1],
            Self::Many => [13, 3],
        }
    }
}

/// What a port has and may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCount {
    /// Its name; empty: connections of no port.
    pub name: String,
    /// Its number; none: it has gone, and connections of it are there still.
    pub number: Option<u16>,
    /// Connections that it opened.
    pub connections: u32,
    /// Those of them that nobody answered.
    pub unanswered: u32,
    /// Connections that it may have, as much as is free now; it may have more from before. None: no
    /// limit of its own.
    pub limit: Option<u32>,
    /// Likewise, of unanswered ones.
    pub unanswered_limit: Option<u32>,
    /// Most connections that it ever had at a time.
    pub peak: u32,
    /// Connections that were refused at its limit.
    pub refused: u64,
    /// Unanswered connections that it lost at its limit.
    pub evicted: u64,
}

/// One connection in [`Cell::held`], and one unanswered one.
const CONNECTION: u64 = 1 << 32;
const UNANSWERED: u64 = 1;

/// Counters of a slot: a line of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Cell {
    /// Connections, above those of them that nobody answered.
    held: AtomicU64,
    refused: AtomicU64,
    evicted: AtomicU64,
    peak: AtomicU32,
    /// Where the next search for an unanswered connection of the port begins.
    hand: AtomicU32,
    /// [`Share::Many`].
    many: AtomicU32,
}

impl Cell {
    fn share(&self) -> Share {
        if self.many.load(Relaxed) == 0 { Share::One } else { Share::Many }
    }
}

/// The guarantee, where ports have no shares.
const UNSHARED: u32 = u32::MAX;

/// Whose a slot is.
#[derive(Clone, Debug, Default)]
struct Owner {
    name: String,
    number: Option<u16>,
}

/// Counters of all ports.
#[derive(Debug)]
pub(super) struct Ports {
    cells: Box<[Cell]>,
    /// By the number of a port, its slot.
    slots: Box<[AtomicU16]>,
    /// By slot.
    owners: Mutex<Vec<Owner>>,
    /// Places that are not in the pool.
    reserve: u32,
    /// What each port that is there may always have; [`UNSHARED`]: as much as there is.
    guarantee: AtomicU32,
}

impl Ports {
    /// In a table of so many places.
    pub(super) fn new(places: u32) -> Self {
        Self {
            cells: std::iter::repeat_with(Cell::default).take(SLOTS).collect(),
            slots: std::iter::repeat_with(AtomicU16::default).take(PORTS).collect(),
            owners: Mutex::new(vec![Owner::default(); SLOTS]),
            reserve: places / RESERVE,
            guarantee: AtomicU32::new(0),
        }
    }

    /// Bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.cells) + size_of_val(&*self.slots) + SLOTS * size_of::<Owner>()
    }

    /// Where a packet's port is counted.
    #[inline]
    pub(super) fn slot(&self, port: Ingress) -> Slot {
        let number = port.number().map(usize::from);
        Slot(number.and_then(|number| self.slots.get(number)).map_or(0, |slot| slot.load(Acquire)))
    }

    /// Counts one more unanswered connection, unless the port has its share. `room`: how many
    /// places are free.
    #[inline]
    #[must_use]
    pub(super) fn enter(&self, slot: Slot, room: impl FnOnce() -> u32) -> bool {
        let cell = self.cell(slot);
        let before = cell.held.fetch_add(CONNECTION | UNANSWERED, Relaxed);
        let (connections, unanswered) = parts(before);
        let guarantee = u64::from(self.guarantee.load(Relaxed));
        if slot != Slot::NONE && connections >= guarantee {
            let (weights, pool) = (cell.share().weights(), u64::from(room().saturating_sub(self.reserve)));
            let may = |held: u64, weight: u64| held < guarantee || held < weight * pool;
            if !may(connections, weights[0]) || !may(unanswered, weights[1]) {
                cell.held.fetch_sub(CONNECTION | UNANSWERED, Relaxed);
                return false;
            }
        }
        cell.rise(connections + 1);
        true
    }

    /// Counts a connection that was there before, whatever the limit is.
    pub(super) fn enter_anyway(&self, slot: Slot, unanswered: bool) {
        let cell = self.cell(slot);
        let before = cell.held.fetch_add(CONNECTION | u64::from(unanswered), Relaxed);
        cell.rise(parts(before).0 + 1);
    }

    /// One of its connections was answered.
    #[inline]
    pub(super) fn answered(&self, slot: Slot) {
        self.cell(slot).held.fetch_sub(UNANSWERED, Relaxed);
    }

    /// So many of its connections have ended, so many of them unanswered.
    #[inline]
    pub(super) fn leave(&self, slot: Slot, connections: u32, unanswered: u32) {
        self.cell(slot).held.fetch_sub(u64::from(connections) * CONNECTION + u64::from(unanswered), Relaxed);
    }

    /// One was refused at its limit.
    pub(super) fn refused(&self, slot: Slot) {
        self.cell(slot).refused.fetch_add(1, Relaxed);
    }

    /// An unanswered one went at its limit.
    pub(super) fn evicted(&self, slot: Slot) {
        self.cell(slot).evicted.fetch_add(1, Relaxed);
    }

    /// It has connections that nobody answered.
    pub(super) fn has_unanswered(&self, slot: Slot) -> bool {
        slot != Slot::NONE && parts(self.cell(slot).held.load(Relaxed)).1 > 0
    }

    /// Where a search for one begins.
    pub(super) fn hand(&self, slot: Slot) -> &AtomicU32 {
        &self.cell(slot).hand
    }

    fn cell(&self, slot: Slot) -> &Cell {
        &self.cells[usize::from(slot.0)]
    }

    /// A port is there. It has the slot of its name, if connections of that are there still.
    pub(super) fn add(&self, number: u16, name: &str, share: Share) {
        let Some(to) = self.slots.get(usize::from(number)) else { return };
        let mut owners = self.owners.lock();
        let slot = self.take(&mut owners, name);
        if slot != Slot::NONE {
            owners[usize::from(slot.0)].number = Some(number);
            self.cell(slot).many.store((share == Share::Many).into(), Relaxed);
        }
        self.share_reserve(&owners);
        to.store(slot.0, Release);
    }

    /// A port is there no more, and no worker knows it. Its connections stay, and count.
    pub(super) fn remove(&self, number: u16) {
        let Some(from) = self.slots.get(usize::from(number)) else { return };
        let mut owners = self.owners.lock();
        let slot = from.swap(Slot::NONE.0, Release);
        if slot != Slot::NONE.0 {
            owners[usize::from(slot)].number = None;
        }
        self.share_reserve(&owners);
    }

    /// Gives each port that is there its part of the reserve.
    fn share_reserve(&self, owners: &[Owner]) {
        if self.guarantee.load(Relaxed) == UNSHARED {
            return;
        }
        let ports = owners.iter().filter(|owner| owner.number.is_some()).count();
        let ports = u32::try_from(ports).unwrap_or(u32::MAX).max(1);
        self.guarantee.store((self.reserve / ports).max(1), Relaxed);
    }

    /// Whether ports have shares. If not, they are counted only.
    pub(super) fn set_shares(&self, on: bool) {
        let owners = self.owners.lock();
        self.guarantee.store(if on { 0 } else { UNSHARED }, Relaxed);
        self.share_reserve(&owners);
    }

    /// The slot of a name, for connections from a file: the next call of [`Self::enter_anyway`]
    /// makes it last.
    pub(super) fn named(&self, name: &str) -> Slot {
        self.take(&mut self.owners.lock(), name)
    }

    /// The slot of a name, or one that is free, or none.
    fn take(&self, owners: &mut [Owner], name: &str) -> Slot {
        let mut slots = (0_u16..).map(Slot).zip(owners.iter()).skip(1);
        if let Some((slot, _)) = slots.clone().find(|(slot, owner)| owner.name == name && !self.is_free(*slot, owner)) {
            return slot;
        }
        let Some((slot, _)) = slots.find(|(slot, owner)| self.is_free(*slot, owner)) else { return Slot::NONE };
        owners[usize::from(slot.0)] = Owner { name: name.to_owned(), number: None };
        let cell = self.cell(slot);
        cell.many.store(0, Relaxed);
        cell.peak.store(0, Relaxed);
        cell.refused.store(0, Relaxed);
        cell.evicted.store(0, Relaxed);
        slot
    }

    /// Nobody has the slot, and nothing counts there.
    fn is_free(&self, slot: Slot, owner: &Owner) -> bool {
        owner.number.is_none() && self.cell(slot).held.load(Acquire) == 0
    }

    /// Slots that have connections, and the names of their ports.
    pub(super) fn names(&self) -> Vec<(Slot, String)> {
        let owners = self.owners.lock();
        let slots = (0_u16..).map(Slot).zip(owners.iter()).skip(1);
        let held = slots.filter(|(slot, _)| self.cell(*slot).held.load(Acquire) > 0);
        held.map(|(slot, owner)| (slot, owner.name.clone())).collect()
    }

    /// Ports that are there or have connections, and connections of no port if there are some.
    /// `room`: how many places are free.
    pub(super) fn counts(&self, room: u32) -> Vec<PortCount> {
        let owners = self.owners.lock();
        let slots = (0_u16..).map(Slot).zip(owners.iter());
        slots
            .filter(|(slot, owner)| !self.is_free(*slot, owner))
            .map(|(slot, owner)| self.count(slot, owner, room))
            .collect()
    }

    fn count(&self, slot: Slot, owner: &Owner, room: u32) -> PortCount {
        let cell = self.cell(slot);
        let (connections, unanswered) = parts(cell.held.load(Acquire));
        let weights = cell.share().weights();
        let (guarantee, pool) = (self.guarantee.load(Relaxed), u64::from(room.saturating_sub(self.reserve)));
        let limit = |held: u64, weight: u64| {
            (slot != Slot::NONE && guarantee != UNSHARED)
                .then(|| narrow((held + pool) * weight / (weight + 1)).max(guarantee))
        };
        PortCount {
            name: owner.name.clone(),
            number: owner.number,
            connections: narrow(connections),
            unanswered: narrow(unanswered),
            limit: limit(connections, weights[0]),
            unanswered_limit: limit(unanswered, weights[1]),
            peak: cell.peak.load(Relaxed),
            refused: cell.refused.load(Relaxed),
            evicted: cell.evicted.load(Relaxed),
        }
    }
}

impl Cell {
    /// It has so many connections now.
    #[inline]
    fn rise(&self, connections: u64) {
        let connections = narrow(connections);
        if connections > self.peak.load(Relaxed) {
            self.peak.fetch_max(connections, Relaxed);
        }
    }
}

/// Connections, and those of them that nobody answered.
const fn parts(held: u64) -> (u64, u64) {
    (held >> 32, held & (CONNECTION - 1))
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
