//! Letting go: of what has expired, and under pressure of what nobody answered.
//!
//! Places are swept in turn, and there is no timing wheel: a packet that moves its expiry writes one word that it has in its hands anyway, and a connection has no links and no memory for a timer. What
//! that costs was measured: 7.5 ns for each place, so of a million places 60 us in every 5 ms, 1.2 % of the core of the control side.

use super::life::Life;
use super::{Count, Tracker};
use std::sync::atomic::Ordering::Relaxed;

/// Parts of the table of which a sweep looks at one: called every 5 ms, one turn takes 0.64 s.
const PARTS: usize = 128;

/// Entries that a sweep looks at, at least.
const SWEEP_MIN: usize = 256;

/// Entries that a worker looks at for one that may be dropped early: some microseconds.
const SEARCH: usize = 128;

impl Tracker {
    /// Lets go of what has expired, looking at a bounded number of entries (1/128 of the table); call it often (every few milliseconds, on the control side). Returns how
    /// many went. Nobody depends on it being on time: an expired connection is not found, whether it is gone or not.
    pub fn expire(&self, now: u64) -> usize {
        self.expectations.expire(now);
        let len = self.arena.places().len();
        let sweep = (len / PARTS + 1).max(SWEEP_MIN).min(len);
        let begin = self.hand.fetch_add(sweep, Relaxed);
        let expired = |life: Life| life.has(Life::ALIVE) && life.expiry() <= now;
        let (mut gone, mut freed) = (0, Freed::default());
        for i in 0..sweep {
            if let Some((place, zone, _)) = self.let_go((begin + i) % len, now, expired) {
                gone += 1;
                freed.add(self, place, zone);
            }
            // Nobody is to wait for long for what is free already.
            if i % Freed::SOON == 0 {
                freed.give(self);
            }
        }
        freed.give(self);
        gone
    }

    /// Lets go of one connection that nobody ever answered, or that has expired, if there is one among the next few entries.
    pub(super) fn drop_early(&self, now: u64) -> bool {
        let len = self.arena.places().len();
        if len == 0 {
            return false;
        }
        let search = SEARCH.min(len);
        let begin = self.drop_hand.fetch_add(search, Relaxed);
        let unreplied = |life: Life| life.has(Life::ALIVE) && (!life.has(Life::REPLIED) || life.expiry() <= now);
        for i in 0..search {
            if let Some((place, zone, why)) = self.let_go((begin + i) % len, now, unreplied) {
                self.gone(&[place], zone, why);
                // The others of this search are for the next one.
                self.drop_hand.fetch_sub(search - i - 1, Relaxed);
                return true;
            }
        }
        false
    }

    /// Takes out the connection at a place, if it may go, and says its place, its zone, and as what it counts. Looks before it locks, and again when it has.
    fn let_go(&self, place: usize, now: u64, may: impl Fn(Life) -> bool) -> Option<(u32, u16, Count)> {
        if !may(self.arena.places()[place].life()) {
            return None;
        }
        let place = u32::try_from(place).ok()?;
        let locked = self.arena.lock(place);
        let life = locked.life();
        let why = if life.expiry() <= now { Count::Expired } else { Count::DroppedEarly };
        may(life).then(|| (place, self.take_out(locked, now), why))
    }
}

/// Places of connections of one zone that have expired, to be given back together: what workers write for each new connection is touched less often then.
#[derive(Default)]
struct Freed {
    zone: u16,
    places: [u32; Self::MAX],
    len: usize,
}

impl Freed {
    const MAX: usize = 32;

    /// They are given back when so many places were looked at: a microsecond or two.
    const SOON: usize = 256;

    fn add(&mut self, tracker: &Tracker, place: u32, zone: u16) {
        if zone != self.zone || self.len == Self::MAX {
            self.give(tracker);
        }
        (self.zone, self.places[self.len]) = (zone, place);
        self.len += 1;
    }

    fn give(&mut self, tracker: &Tracker) {
        tracker.gone(&self.places[..std::mem::take(&mut self.len)], self.zone, Count::Expired);
    }
}
