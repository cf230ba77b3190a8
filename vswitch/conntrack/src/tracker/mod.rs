//! The tracker: the table of connections, and what packets do to it.
//!
//! `track` and `open` are the walk of a packet, `link` the short one of the next packet like it,
//! `related` that of an error; `index` and `arena` the table, with `life`, `hot`, `cold`, `wide`
//! and `rare` for what a place holds, `lock` and `owner` for who may touch it, `free` for those
//! that hold nothing; `expire` and `dump` what the control side does; `forget` what a packet takes
//! back; `saved` how all of it outlives the process; `prefetch` what a packet will read of it;
//! `limits`, `ports`, `events`, `counters`, `helper` and `helper_control` one small thing each.

mod arena;
mod cold;
mod config;
mod connection;
mod counters;
mod dump;
mod events;
mod expire;
mod forget;
mod free;
mod helper;
mod helper_control;
mod hot;
mod index;
mod life;
mod limits;
mod link;
mod lock;
mod open;
mod owner;
mod ports;
mod prefetch;
mod rare;
mod related;
mod saved;
mod sync;
mod track;
mod v6_addrs;
mod who;
mod words;

pub use config::Config;
pub use connection::{Connection, Filter};
pub use counters::Counts;
pub use events::{Event, EventKind};
pub use forget::Handle;
pub use helper::Expected;
pub use helper_control::Control;
pub use limits::{Limits, ZoneCount};
pub use link::Link;
pub use owner::Owner;
pub use ports::{PORTS, PortCount, Share};

#[cfg(test)]
pub(crate) use hot::slid;
pub use saved::{Moment, RestoreError, Restored, Saved};

use crate::{Direction, Memory, Ordinary, Policy, Tuple};
use arena::{Arena, Locked, Spot};
use counters::{Count, Counters};
use events::Events;
use helper::Expectations;
use index::{Hit, Index};
use life::Life;
use limits::Zones;
use ports::{Ports, Slot};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use words::{Hasher, Words};

/// Tracks connections, for all workers. `now` is always milliseconds of one monotonic clock.
#[derive(Debug)]
pub struct Tracker {
    hasher: Hasher,
    index: Index,
    arena: Arena,
    zones: Zones,
    ports: Ports,
    counters: Counters,
    events: Events,
    expectations: Expectations,
    check_windows: AtomicBool,
    /// Where the next sweep for expired connections begins.
    hand: AtomicUsize,
    /// Where the next search for unreplied connections begins.
    drop_hand: AtomicUsize,
}

/// What a connection that was taken out counts in still.
#[derive(Clone, Copy, Debug)]
struct Left {
    zone: u16,
    port: Slot,
    unanswered: bool,
}

/// A living connection, locked, and which of its directions was asked for.
#[derive(Debug)]
struct Found<'a> {
    locked: Locked<'a>,
    direction: Direction,
}

impl Tracker {
    /// Takes all memory that it will ever need (but for a zone's first policy, for connections that
    /// a helper expected, and that addresses of IPv6 take it when they come).
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::in_memory::<Ordinary>(config)
    }

    /// [`Self::new`], in memory of some kind.
    #[must_use]
    pub fn in_memory<M: Memory>(config: Config) -> Self {
        let places = config.places();
        Self {
            hasher: Hasher::random(),
            index: Index::new::<M>(places as usize),
            arena: Arena::new::<M>(places),
            zones: Zones::new(),
            ports: Ports::new(places),
            counters: Counters::default(),
            events: Events::default(),
            expectations: Expectations::default(),
            check_windows: AtomicBool::new(true),
            hand: AtomicUsize::new(0),
            drop_hand: AtomicUsize::new(0),
        }
    }

    /// A port is there: what packets of [`crate::Ingress::port`] of this number open counts for its
    /// name. The number is below [`PORTS`], and no port has it; else nothing happens.
    pub fn add_port(&self, number: u16, name: &str, share: Share) {
        self.ports.add(number, name, share);
    }

    /// A port is there no more, and no worker has packets of it. Its connections stay, and count
    /// for its name.
    pub fn remove_port(&self, number: u16) {
        self.ports.remove(number);
    }

    /// Whether the table is shared out among ports ([`Share`]); it is at start. If not, one port
    /// may have all of it.
    pub fn share_among_ports(&self, on: bool) {
        self.ports.set_shares(on);
    }

    /// What each port has and may have: ports that are there, ports that have gone and have
    /// connections still, and connections of no port.
    #[must_use]
    pub fn port_counts(&self) -> Vec<PortCount> {
        self.ports.counts(self.arena.room_now())
    }

    /// Limits for zones without one of their own; 0: none may be.
    pub fn set_default_limit(&self, limit: Option<u32>) {
        self.zones.set_default_limit(limit);
    }

    /// A zone's own limit; none: the default. What is there already stays.
    pub fn set_limit(&self, zone: u16, limit: Option<u32>) {
        self.zones.set_limit(zone, limit);
    }

    /// The default limit, and every zone that has a limit or connections.
    #[must_use]
    pub fn limits(&self) -> (Limits, Vec<ZoneCount>) {
        self.zones.limits()
    }

    /// Timeouts of a zone; none: the default ones. They hold from each connection's next packet on.
    pub fn set_policy(&self, zone: u16, policy: Option<Policy>) {
        self.zones.set_policy(zone, policy);
    }

    /// Timeouts of zones that have their own.
    #[must_use]
    pub fn policies(&self) -> Vec<(u16, Policy)> {
        self.zones.policies()
    }

    /// Whether established means answered in a zone: a packet of the original direction is `+est`
    /// only when the other end has answered, else `+new`, and a SYN that crosses the opener's is no
    /// answer, nor is any segment that no stack sends to a first one. Off at start, as in Open
    /// vSwitch, which does so of all protocols but TCP. From each connection's next packet on.
    pub fn set_established_after_answer(&self, zone: u16, on: bool) {
        self.zones.set_waits_for_answer(zone, on);
    }

    /// Whether established means answered in a zone.
    #[must_use]
    pub fn established_after_answer(&self, zone: u16) -> bool {
        self.zones.waits_for_answer(zone)
    }

    /// The zones in which it is so.
    #[must_use]
    pub fn zones_established_after_answer(&self) -> Vec<u16> {
        self.zones.that_wait()
    }

    /// Whether TCP windows are checked (`ct-enable-tcp-seq-chk`); on at start.
    pub fn check_windows(&self, on: bool) {
        self.check_windows.store(on, Relaxed);
    }

    /// Whether TCP windows are checked.
    #[must_use]
    pub fn checks_windows(&self) -> bool {
        self.check_windows.load(Relaxed)
    }

    /// Events from now on are kept for [`Self::take_events`], this many at most; 0: none (the
    /// default: they cost nothing then).
    pub fn keep_events(&self, max: usize) {
        self.events.keep(max);
    }

    /// The next events, oldest first.
    pub fn take_events(&self, max: usize) -> Vec<Event> {
        self.events.take(max)
    }

    /// What is counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            connections_max: self.arena.places().len() as u64,
            memory: (size_of::<Self>()
                + self.arena.memory()
                + self.index.memory()
                + self.zones.memory()
                + self.ports.memory()) as u64,
            events_lost: self.events.lost(),
            ..self.counters.collect(|| self.arena.taken())
        }
    }

    /// The connection of a tuple. One that has expired is not there; it goes now, so that nobody
    /// whose clock is a little behind keeps it alive.
    #[inline]
    fn find(&self, tuple: &Words, hash: u64, now: u64) -> Option<Found<'_>> {
        self.index.find(hash, |Hit { place, direction }| {
            let locked = self.arena.lock(place);
            if !locked.life().has(Life::ALIVE) || !locked.is(tuple, direction) {
                return None;
            }
            if locked.life().expiry() <= now {
                self.kill(locked, Count::Expired, now);
                return None;
            }
            Some(Found { locked, direction })
        })
    }

    /// Whether a tuple belongs to no connection, in either direction, for now.
    fn is_free(&self, tuple: &Tuple, now: u64) -> bool {
        self.look_for(tuple, now, |_| ()).is_none()
    }

    /// Reads the connection of a tuple, of whichever direction, without keeping its owner off it
    /// ([`Arena::look`]).
    fn look_for<T: PartialEq>(&self, tuple: &Tuple, now: u64, read: impl Fn(&Spot<'_>) -> T) -> Option<T> {
        let words = Words::from(tuple);
        self.index.find(self.hasher.hash(&words), |Hit { place, direction }| {
            self.arena.look(place, |spot| (spot.is_alive(now) && spot.is(&words, direction)).then(|| read(spot)))
        })
    }

    /// Takes a connection out of the table; its place is free then.
    fn kill(&self, locked: Locked<'_>, why: Count, now: u64) {
        let place = locked.place;
        let left = self.take_out(locked, now);
        self.let_one_go(place, left, why);
    }

    /// Takes a connection out of the table. Nobody gets its place before that is [`Self::gone`].
    /// Returns what it counts in still.
    fn take_out(&self, mut locked: Locked<'_>, now: u64) -> Left {
        self.tell(EventKind::End, &locked, now);
        let (port, unanswered) = (locked.cold().port(), !locked.life().has(Life::REPLIED));
        let [original, reply] = locked.end();
        let place = locked.place;
        // Nobody else can find the place from here on, and nobody gets it, before both of its words
        // are gone.
        self.index.remove(self.hasher.hash(&original), Hit { place, direction: Direction::Original });
        if reply != original {
            self.index.remove(self.hasher.hash(&reply), Hit { place, direction: Direction::Reply });
        }
        Left { zone: original.zone(), port, unanswered }
    }

    /// Connections of a zone that were taken out of these places, and that no port counts any more:
    /// the zone counts them no more, and the places are free.
    fn gone(&self, places: &[u32], zone: u16, why: Count) {
        let Some(first) = places.first() else { return };
        self.zones.leave(zone, places.len());
        self.counters.add_many(*first as usize, why, places.len() as u64);
        self.arena.give(places);
    }

    /// Tells those who want to know.
    #[inline]
    fn tell(&self, kind: EventKind, locked: &Locked<'_>, now: u64) {
        if self.events.on() {
            self.events.push(Event { kind, connection: Connection::of(locked, now) });
        }
    }
}

#[cfg(test)]
mod tests;
