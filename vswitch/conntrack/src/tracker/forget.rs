//! Forgetting single connections: those that a packet met as new, when it turns out that it may not
//! go where it was to.

use super::arena::Locked;
use super::life::Life;
use super::{Count, Tracker};

/// A connection that a packet met as new: its place, and how many were there before it. It means no
/// other one that comes there later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    place: u32,
    generation: u32,
}

impl Handle {
    #[inline]
    pub(super) fn of(locked: &Locked<'_>) -> Self {
        Self { place: locked.place, generation: locked.hot.generation() }
    }
}

impl Tracker {
    /// The connection goes, whether it was answered meanwhile or not. False: it has gone already.
    #[cold]
    pub fn forget(&self, handle: Handle, now: u64) -> bool {
        self.forget_if(handle, now, |_| true)
    }

    /// Likewise, but only if it is of a zone where established means answered
    /// ([`Self::set_established_after_answer`]), and was not answered.
    #[cold]
    pub fn forget_waiting(&self, handle: Handle, now: u64) -> bool {
        self.forget_if(handle, now, |locked| {
            !locked.life().has(Life::REPLIED) && self.zones.waits_for_answer(locked.tuples()[0].zone())
        })
    }

    fn forget_if(&self, handle: Handle, now: u64, may: impl FnOnce(&Locked<'_>) -> bool) -> bool {
        if handle.place as usize >= self.arena.places().len() {
            return false;
        }
        let locked = self.arena.lock(handle.place);
        let life = locked.life();
        if !life.has(Life::ALIVE) || Handle::of(&locked) != handle || !may(&locked) {
            return false;
        }
        let why = if life.expiry() <= now { Count::Expired } else { Count::Forgotten };
        self.kill(locked, why, now);
        true
    }
}
