//! What few connections have, those of helpers: by place, and the one thing that is allocated when
//! it comes. Only connections with [`super::life::Life::RARE`] ask.

use super::free::LISTS;
use super::helper_control::Skew;
use crate::Tuple;
use parking_lot::Mutex;
use std::collections::HashMap;

/// What connections of helpers have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rare {
    /// Original tuple of the connection that it was expected by.
    pub(super) master: Option<Tuple>,
    /// By [`crate::Direction`]: by how much what was sent is longer behind the switch.
    pub(super) skews: Option<[Skew; 2]>,
}

/// By place: so who asks meets those who open connections at the same time, as seldom as they meet
/// each other.
#[derive(Debug, Default)]
pub(super) struct Rares([Mutex<HashMap<u32, Rare>>; LISTS]);

impl Rares {
    fn of(&self, place: u32) -> &Mutex<HashMap<u32, Rare>> {
        &self.0[place as usize % LISTS]
    }

    #[cold]
    pub(super) fn get(&self, place: u32) -> Option<Rare> {
        self.of(place).lock().get(&place).copied()
    }

    #[cold]
    pub(super) fn set(&self, place: u32, rare: Rare) {
        self.of(place).lock().insert(place, rare);
    }

    #[cold]
    pub(super) fn remove(&self, place: u32) {
        self.of(place).lock().remove(&place);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|rares| rares.lock().len()).sum()
    }
}
