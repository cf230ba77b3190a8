//! Showing and flushing: one connection at a time is looked at, without keeping its owner off it,
//! and copied out before anything else is done with it.

use super::arena::{DISOWNED_MAX, Spot};
use super::life::Life;
use super::sync::Patience;
use super::{Connection, Count, Filter, Tracker};
use crate::Tuple;
use std::ops::ControlFlow;

impl Tracker {
    /// Shows each connection that a filter means, in no particular order; one that lives from
    /// before the dump until after it is shown once. Workers do not wait for it, but for one
    /// connection where that has no owner, and it waits for none but where one changes a connection
    /// all the time.
    pub fn dump(&self, filter: &Filter, now: u64, mut show: impl FnMut(&Connection) -> ControlFlow<()>) {
        for place in self.living() {
            let alive = self.arena.look(place, |spot| alive(spot, now));
            let Some(connection) = alive.filter(|connection| filter.matches(connection)) else { continue };
            if show(&connection).is_break() {
                return;
            }
        }
    }

    /// The connection of a tuple, of whichever direction.
    #[must_use]
    pub fn connection(&self, tuple: &Tuple, now: u64) -> Option<Connection> {
        self.look_for(tuple, now, |spot| Connection::of(spot, now))
    }

    /// Removes what a filter means; returns how many went.
    pub fn flush(&self, filter: &Filter, now: u64) -> usize {
        self.flush_where(now, |connection| filter.matches(connection))
    }

    /// Removes those that somebody means, in one pass; returns how many went. They are asked for
    /// again, when they are locked.
    pub fn flush_where(&self, now: u64, means: impl Fn(&Connection) -> bool) -> usize {
        let mut flushed = 0;
        let mut meant = Vec::with_capacity(DISOWNED_MAX);
        let mut living = self.living();
        loop {
            let asked = living.by_ref().filter(|place| {
                self.arena.look(*place, |spot| alive(spot, now)).is_some_and(|connection| means(&connection))
            });
            meant.extend(asked.take(DISOWNED_MAX));
            if meant.is_empty() {
                return flushed;
            }
            self.arena.disown(&meant, &mut Patience::looks(u32::MAX));
            for place in meant.drain(..) {
                let locked = self.arena.lock(place);
                if alive(&locked, now).is_some_and(|connection| means(&connection)) {
                    self.kill(locked, Count::Flushed, now);
                    flushed += 1;
                }
            }
        }
    }

    pub(super) fn living(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).zip(self.arena.places()).filter(|(_, slot)| slot.life().has(Life::ALIVE)).map(|(place, _)| place)
    }
}

/// The connection of a place, if there is one.
fn alive(spot: &Spot<'_>, now: u64) -> Option<Connection> {
    spot.is_alive(now).then(|| Connection::of(spot, now))
}
