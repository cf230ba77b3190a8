//! Showing and flushing: one connection's lock at a time, and copied out before anything else is done with it.

use super::arena::Locked;
use super::life::Life;
use super::words::Words;
use super::{Connection, Count, Filter, Tracker};
use crate::Tuple;
use std::ops::ControlFlow;

impl Tracker {
    /// Shows each connection that a filter means, in no particular order; one that lives from before the dump until after it is shown once. Takes no lock that a worker
    /// waits for longer than for one connection.
    pub fn dump(&self, filter: &Filter, now: u64, mut show: impl FnMut(&Connection) -> ControlFlow<()>) {
        for place in self.living() {
            let alive = self.alive(place, now).map(|(_, connection)| connection);
            let Some(connection) = alive.filter(|connection| filter.matches(connection)) else { continue };
            if show(&connection).is_break() {
                return;
            }
        }
    }

    /// The connection of a tuple, of whichever direction.
    #[must_use]
    pub fn connection(&self, tuple: &Tuple, now: u64) -> Option<Connection> {
        let words = Words::from(tuple);
        let found = self.find(&words, self.hasher.hash(&words), now)?;
        Some(Connection::of(&found.locked, now))
    }

    /// Removes what a filter means; returns how many went.
    pub fn flush(&self, filter: &Filter, now: u64) -> usize {
        self.flush_where(now, |connection| filter.matches(connection))
    }

    /// Removes those that somebody means, in one pass; returns how many went.
    pub fn flush_where(&self, now: u64, mut means: impl FnMut(&Connection) -> bool) -> usize {
        let mut flushed = 0;
        for place in self.living() {
            let Some((locked, connection)) = self.alive(place, now) else { continue };
            if means(&connection) {
                self.kill(locked, Count::Flushed, now);
                flushed += 1;
            }
        }
        flushed
    }

    pub(super) fn living(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).zip(self.arena.places()).filter(|(_, slot)| slot.life().has(Life::ALIVE)).map(|(place, _)| place)
    }

    fn alive(&self, place: u32, now: u64) -> Option<(Locked<'_>, Connection)> {
        let locked = self.arena.lock(place);
        if !locked.life().has(Life::ALIVE) || locked.life().expiry() <= now {
            return None;
        }
        let connection = Connection::of(&locked, now);
        Some((locked, connection))
    }
}
