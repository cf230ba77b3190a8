//! Workers as owners of places, and the sections inside of which they touch what is theirs without
//! a lock ([`super::lock`] says why that is right).

use super::Tracker;
use super::sync::{AtomicU64, Patience, fence, relax};
use super::who::{OWNERS, Who};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Of one owner.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Section {
    /// Odd inside of a section; it only rises.
    count: AtomicU64,
    /// Somebody is this owner.
    taken: AtomicBool,
}

/// Where all owners are.
#[derive(Debug)]
pub(super) struct Sections([Section; OWNERS]);

impl Default for Sections {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Section::default()))
    }
}

impl Sections {
    /// Waits until an owner is not in the section any more in which it is now, if it is in one.
    /// What it has touched there happened before.
    pub(super) fn wait(&self, owner: Who) {
        let Some(section) = owner.number().and_then(|number| self.0.get(number)) else { return };
        fence(SeqCst);
        let now = section.count.load(Acquire);
        let mut times = 0;
        while now % 2 == 1 && section.count.load(Acquire) == now {
            relax(&mut times);
        }
    }

    /// Ends the section of an owner, if it is in one. For the thread that is this owner, or where
    /// that does not run any more.
    fn leave_for(&self, owner: usize) {
        let Some(section) = self.0.get(owner) else { return };
        let now = section.count.load(Acquire);
        if now % 2 == 1 {
            section.count.store(now + 1, Release);
        }
    }

    /// [`Self::wait`], with patience. False: the owner is still in that section.
    pub(super) fn wait_with(&self, owner: Who, patience: &mut Patience) -> bool {
        let Some(section) = owner.number().and_then(|number| self.0.get(number)) else { return true };
        fence(SeqCst);
        let now = section.count.load(Acquire);
        while now % 2 == 1 && section.count.load(Acquire) == now {
            if !patience.look_again() {
                return false;
            }
        }
        true
    }

    /// [`Self::wait_with`], for several: their bits ([`bit`]), of those that are outside.
    pub(super) fn wait_for_all(&self, owners: impl Iterator<Item = Who>, patience: &mut Patience) -> u64 {
        let (mut seen, mut outside) = (0_u64, 0);
        for owner in owners {
            let bit = bit(owner);
            if seen & bit == 0 && self.wait_with(owner, patience) {
                outside |= bit;
            }
            seen |= bit;
        }
        outside
    }
}

/// The bit of an owner; none, of nobody.
pub(super) fn bit(owner: Who) -> u64 {
    owner.number().map_or(0, |number| 1 << number)
}

const _: () = assert!(OWNERS <= u64::BITS as usize);

/// A worker, for its packets on the fast path ([`Tracker::pass`]): it may own the places of their
/// connections.
///
/// [`Tracker::pass`] enters a section; [`Self::leave`] is to be called before this thread does
/// anything else with the tracker (but [`Tracker::may_pass`] and [`Tracker::settle`], which leave),
/// or anything that takes long or waits: others wait for the end of the section. One thread has it
/// at a time.
#[derive(Debug)]
pub struct Owner {
    sections: Arc<Sections>,
    who: Who,
    /// Who this is inside of a section, and nobody outside.
    present: Cell<Who>,
    count: Cell<u64>,
}

impl Tracker {
    /// The worker of a number, which is the one that it names itself by elsewhere. If there is one
    /// already, or the number is too large, it never owns anything, which costs it a lock per
    /// packet and is no difference otherwise.
    #[must_use]
    pub fn owner(&self, worker: usize) -> Owner {
        let sections = Arc::clone(self.arena.sections());
        let free = |section: &Section| !section.taken.swap(true, Acquire);
        let who = if sections.0.get(worker).is_some_and(free) { Who::of(worker) } else { Who::NOBODY };
        let count = who.number().map_or(0, |number| sections.0[number].count.load(Relaxed));
        Owner { sections, who, present: Cell::new(Who::NOBODY), count: Cell::new(count) }
    }

    /// Ends the section of a worker that panics, on its own thread, which runs no further. What it
    /// wrote of a place are whole words: a connection may lack the last packet, and no more.
    pub fn leave_for(&self, worker: usize) {
        self.arena.sections().leave_for(worker);
    }
}

impl Owner {
    /// Numbers are below: others own nothing.
    pub const MAX: usize = OWNERS;

    /// Whether it is outside of sections.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        self.present.get() == Who::NOBODY
    }

    /// Whether it is an owner of places of this table.
    pub(super) fn is_of(&self, tracker: &Tracker) -> bool {
        Arc::ptr_eq(&self.sections, tracker.arena.sections())
    }

    /// Who this is, inside or outside.
    pub(super) const fn who(&self) -> Who {
        self.who
    }

    /// Who this is inside of a section, and nobody outside.
    #[inline]
    pub(super) fn present(&self) -> Who {
        self.present.get()
    }

    fn section(&self) -> Option<&Section> {
        self.sections.0.get(self.who.number()?)
    }

    /// From here on its places are its own; false: they have been before.
    #[inline]
    pub(super) fn enters(&self) -> bool {
        if self.present.get() != Who::NOBODY {
            return false;
        }
        if let Some(section) = self.section() {
            self.count.set(self.count.get() + 1);
            section.count.store(self.count.get(), Release);
            fence(SeqCst);
            self.present.set(self.who);
            count_inside(1);
        }
        true
    }

    /// Others may have its places.
    #[inline]
    pub fn leave(&self) {
        if self.present.get() != Who::NOBODY
            && let Some(section) = self.section()
        {
            self.present.set(Who::NOBODY);
            self.count.set(self.count.get() + 1);
            section.count.store(self.count.get(), Release);
            count_inside(-1);
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.leave();
        if let Some(section) = self.section() {
            section.taken.store(false, Release);
        }
    }
}

// Where it costs nothing it is checked that nobody waits inside of a section. (Threads of models
// have their thread's locals in common.)
#[cfg(all(debug_assertions, not(loom)))]
thread_local! {
    static INSIDE: Cell<i32> = const { Cell::new(0) };
}

#[inline]
fn count_inside(more: i32) {
    #[cfg(all(debug_assertions, not(loom)))]
    INSIDE.set(INSIDE.get() + more);
    let _ = more;
}

/// Who waits may wait for somebody who waits for this thread.
#[inline]
pub(super) fn assert_outside() {
    #[cfg(all(debug_assertions, not(loom)))]
    assert!(INSIDE.get() == 0, "a lock is waited for inside of a section");
}
