//! The counters of what died at a port in one direction, and the only way to count there.

use super::sampler::Died;
use super::{Counter, Decider, Direction, DropPlace, DropReason, DropSampler, Remains};
use std::sync::Arc;

/// Drops of one port in one direction, as one worker counts them. Each drop passes the worker's
/// [`DropSampler`]: there is no other way to count one.
#[derive(Debug)]
pub struct Drops {
    counters: [Counter; DropReason::COUNT],
    watched: Option<Watched>,
}

#[derive(Debug)]
struct Watched {
    place: Arc<DropPlace>,
    direction: Direction,
    sampler: Arc<DropSampler>,
}

impl Default for Drops {
    /// Counters that cannot be watched.
    fn default() -> Self {
        Self { counters: std::array::from_fn(|_| Counter::default()), watched: None }
    }
}

impl Drops {
    /// Of a port, for the worker of a sampler.
    #[must_use]
    pub fn new(place: &Arc<DropPlace>, direction: Direction, sampler: &Arc<DropSampler>) -> Self {
        let watched = Watched { place: Arc::clone(place), direction, sampler: Arc::clone(sampler) };
        Self { watched: Some(watched), ..Self::default() }
    }

    /// A packet died.
    #[inline]
    pub fn count(&self, reason: DropReason, remains: Remains<'_>) {
        self.died(&Died { reason, packets: 1, remains, decider: None });
    }

    /// A packet died by a decision.
    #[inline]
    pub fn count_decided(&self, reason: DropReason, remains: Remains<'_>, decider: Option<Decider>) {
        self.died(&Died { reason, packets: 1, remains, decider });
    }

    /// Packets died, of which nothing is at hand; 0: none did.
    #[inline]
    pub fn count_unseen(&self, reason: DropReason, packets: u64) {
        if packets > 0 {
            self.died(&Died { reason, packets, remains: Remains::Nothing, decider: None });
        }
    }

    #[inline]
    fn died(&self, died: &Died<'_>) {
        self.counters[died.reason.index()].add(died.packets);
        if let Some(Watched { place, direction, sampler }) = &self.watched
            && sampler.is_watched()
        {
            sampler.sample(place, *direction, died);
        }
    }

    /// Drops of one reason.
    #[must_use]
    pub fn get(&self, reason: DropReason) -> u64 {
        self.counters[reason.index()].get()
    }

    /// Drops of all reasons, by [`DropReason::index`].
    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.counters.iter().map(Counter::get)
    }
}
