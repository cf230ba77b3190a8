//! Letting go: of what has expired, and under pressure of what nobody answered.
//!
//! Places are swept in turn, and there is no timing wheel: a packet that moves its expiry writes
//! one word that it has in its hands anyway, and a connection has no links and no memory for a
//! timer. What that costs was measured: 7.5 ns for each place, so of a million places 60 us in
//! every 5 ms, 1.2 % of the core of the control side.

use super::arena::{DISOWNED_MAX, Spot};
use super::life::Life;
use super::ports::Slot;
use super::sync::Patience;
use super::{Count, Left, Tracker};
use std::sync::atomic::Ordering::Relaxed;

/// Parts of the table of which a sweep looks at one: called every 5 ms, one turn takes 0.64 s.
const PARTS: usize = 128;

/// Entries that a sweep looks at, at least.
const SWEEP_MIN: usize = 256;

/// Entries that a worker looks at for one that may be dropped early: some microseconds.
const SEARCH: usize = 128;

/// Likewise, for one of a port.
const SEARCH_OWN: usize = 256;

/// Unanswered connections of a port of which the oldest one goes.
const SAMPLE: usize = 8;

/// Looks at places whose workers are inside of sections, for all of a batch: some ten milliseconds.
const LOOKS: u32 = 1000;

/// The same of a worker: it does not sleep for long.
const LOOKS_OF_A_WORKER: u32 = 130;

impl Tracker {
    /// Lets go of what has expired, looking at a bounded number of entries (1/128 of the table);
    /// call it often (every few milliseconds, on the control side). Returns how many went. Nobody
    /// depends on it being on time: an expired connection is not found, whether it is gone or not.
    pub fn expire(&self, now: u64) -> usize {
        self.expectations.expire(now);
        let len = self.arena.places().len();
        let sweep = (len / PARTS + 1).max(SWEEP_MIN).min(len);
        let begin = self.hand.fetch_add(sweep, Relaxed);
        let mut due = Vec::with_capacity(DISOWNED_MAX);
        let mut gone = 0;
        for (i, place) in (0..sweep).map(|i| (begin + i) % len).enumerate() {
            if has_expired(self.arena.places()[place].life(), now) {
                due.extend(u32::try_from(place));
            }
            // Nobody is to wait for long for what is free already.
            if due.len() == DISOWNED_MAX || i % Freed::SOON == 0 || i == sweep - 1 {
                gone += self.let_all_go(&mut due, now);
            }
        }
        gone
    }

    /// Lets go of those of some places ([`DISOWNED_MAX`] at most) that have expired, and says how
    /// many that were.
    fn let_all_go(&self, due: &mut Vec<u32>, now: u64) -> usize {
        let (mut gone, mut freed, mut patience) = (0, Freed::default(), Patience::looks(LOOKS));
        self.arena.disown(due, &mut patience);
        for place in due.drain(..) {
            if let Some((left, _)) = self.let_go(place, now, &mut patience, |spot| has_expired(spot.life(), now)) {
                gone += 1;
                freed.add(self, place, left);
            }
        }
        freed.give(self);
        gone
    }

    /// Lets go of one connection that nobody ever answered, or that has expired, if there is one
    /// among the next few entries.
    pub(super) fn drop_early(&self, now: u64) -> bool {
        let len = self.arena.places().len();
        if len == 0 {
            return false;
        }
        let search = SEARCH.min(len);
        let begin = self.drop_hand.fetch_add(search, Relaxed);
        let may = |spot: &Spot<'_>| may_be_dropped(spot.life(), now);
        let mut patience = Patience::looks(LOOKS_OF_A_WORKER);
        for i in 0..search {
            let Ok(place) = u32::try_from((begin + i) % len) else { continue };
            if let Some((left, why)) = self.let_go(place, now, &mut patience, may) {
                self.let_one_go(place, left, why);
                // The others of this search are for the next one.
                self.drop_hand.fetch_sub(search - i - 1, Relaxed);
                return true;
            }
        }
        false
    }

    /// Lets go of a connection of a port that nobody ever answered, or that has expired: of the
    /// [`SAMPLE`] first ones among the next entries, the one that would expire first. A port has a
    /// hand of its own, so that its searches go through all of the table.
    pub(super) fn drop_own(&self, port: Slot, now: u64) -> bool {
        let len = self.arena.places().len();
        let search = SEARCH_OWN.min(len);
        if search == 0 || !self.ports.has_unanswered(port) {
            return false;
        }
        let hand = self.ports.hand(port);
        let begin = hand.fetch_add(u32::try_from(search).unwrap_or(u32::MAX), Relaxed) as usize;
        let may = |spot: &Spot<'_>| may_be_dropped(spot.life(), now) && spot.cold().port() == port;
        let mut looked = 0;
        let places = (0..search).filter_map(|i| u32::try_from((begin + i) % len).ok());
        let own = places.inspect(|_| looked += 1).filter(|place| may(&self.arena.spot(*place))).take(SAMPLE);
        let oldest = own.min_by_key(|place| self.arena.spot(*place).life().expiry());
        // The others of this search are for the next one.
        hand.fetch_sub(u32::try_from(search - looked).unwrap_or_default(), Relaxed);
        let Some(place) = oldest else { return false };
        let mut patience = Patience::looks(LOOKS_OF_A_WORKER);
        let Some((left, why)) = self.let_go(place, now, &mut patience, may) else { return false };
        if matches!(why, Count::DroppedEarly) {
            self.ports.evicted(port);
        }
        self.let_one_go(place, left, why);
        true
    }

    /// Takes out the connection at a place, if it may go, and says where it counts, and as what.
    /// Looks before it locks, and again when it has. One whose worker stays inside of a section
    /// stays for the next time.
    fn let_go(
        &self,
        place: u32,
        now: u64,
        patience: &mut Patience,
        may: impl Fn(&Spot<'_>) -> bool,
    ) -> Option<(Left, Count)> {
        if !may(&self.arena.spot(place)) {
            return None;
        }
        let locked = self.arena.lock_with(place, patience)?;
        let why = if locked.life().expiry() <= now { Count::Expired } else { Count::DroppedEarly };
        may(&locked).then(|| (self.take_out(locked, now), why))
    }

    /// What was taken out counts no more, and its place is free.
    pub(super) fn let_one_go(&self, place: u32, left: Left, why: Count) {
        self.ports.leave(left.port, 1, left.unanswered.into());
        self.gone(&[place], left.zone, why);
    }
}

/// Somebody is there whom nobody answered, or whose time is over.
const fn may_be_dropped(life: Life, now: u64) -> bool {
    life.has(Life::ALIVE) && (!life.has(Life::REPLIED) || life.expiry() <= now)
}

/// Somebody is there whose time is over.
const fn has_expired(life: Life, now: u64) -> bool {
    life.has(Life::ALIVE) && life.expiry() <= now
}

/// Places of connections of one zone that have expired, to be given back together: what workers
/// write for each new connection is touched less often then.
#[derive(Default)]
struct Freed {
    zone: u16,
    places: [u32; Self::MAX],
    len: usize,
    /// Ports, and how many connections of each, answered or not.
    ports: [(Slot, [u32; 2]); Self::MAX],
    ports_len: usize,
}

impl Freed {
    const MAX: usize = 32;

    /// They are given back when so many places were looked at: a microsecond or two.
    const SOON: usize = 256;

    fn add(&mut self, tracker: &Tracker, place: u32, left: Left) {
        if left.zone != self.zone || self.len == Self::MAX {
            self.give(tracker);
        }
        (self.zone, self.places[self.len]) = (left.zone, place);
        self.len += 1;
        let ports = &mut self.ports[..self.ports_len];
        if let Some((_, [connections, unanswered])) = ports.iter_mut().rfind(|(port, _)| *port == left.port) {
            *connections += 1;
            *unanswered += u32::from(left.unanswered);
        } else {
            self.ports[self.ports_len] = (left.port, [1, left.unanswered.into()]);
            self.ports_len += 1;
        }
    }

    fn give(&mut self, tracker: &Tracker) {
        for (port, [connections, unanswered]) in &self.ports[..std::mem::take(&mut self.ports_len)] {
            tracker.ports.leave(*port, *connections, *unanswered);
        }
        tracker.gone(&self.places[..std::mem::take(&mut self.len)], self.zone, Count::Expired);
    }
}
