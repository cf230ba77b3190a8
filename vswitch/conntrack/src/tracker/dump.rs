//! Showing and flushing: one connection's lock at a time, and copied out before anything else is done with it.

use super::arena::Locked;
use super::life::Life;
use super::{Connection, Count, Filter, Tracker};
use std::ops::ControlFlow;

impl Tracker {
    /// Shows each connection that a filter means, in no particular order; one that lives from before the dump until after it is shown once. Takes no lock that a worker
    /// waits for longer than for one connection.
    pub fn dump(&self, filter: &Filter, now: u64, mut show: impl FnMut(&Connection) -> ControlFlow<()>) {
        for place in self.places() {
            let Some(connection) = self.meant(place, filter, now).map(|(_, connection)| connection) else { continue };
            if show(&connection).is_break() {
                return;
            }
        }
    }

    /// Removes what a filter means; returns how many went.
    pub fn flush(&self, filter: &Filter, now: u64) -> usize {
        let mut flushed = 0;
        for place in self.places() {
            let Some((locked, _)) = self.meant(place, filter, now) else { continue };
            self.kill(locked, Count::Flushed, now);
            flushed += 1;
        }
        flushed
    }

    fn places(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).zip(self.arena.places()).filter(|(_, slot)| slot.life().has(Life::ALIVE)).map(|(place, _)| place)
    }

    fn meant(&self, place: u32, filter: &Filter, now: u64) -> Option<(Locked<'_>, Connection)> {
        let locked = self.arena.lock(place);
        if !locked.life().has(Life::ALIVE) || locked.life().expiry() <= now {
            return None;
        }
        let connection = Connection::of(&locked, now);
        filter.matches(&connection).then_some((locked, connection))
    }
}
