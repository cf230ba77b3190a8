//! The lock of a place, which a worker may keep.
//!
//! Nearly all packets of a connection come to one worker, and a locked instruction is the dearest
//! one of such a packet (13 TSC cycles of 120). So a place is free, locked for some nanoseconds, or
//! **owned**: then its owner, and nobody else, touches it without any lock, inside of a section
//! ([`Sections`]), which is a burst at most.
//!
//! - The owner says that it is inside, then looks at the word: if it is its own, the place is. It
//!   looks again for each packet.
//! - Whoever else wants the place swaps `OWNED` for `LOCKED`, then looks at the owner's section. If
//!   the owner is outside it will see that; if it is inside, it is waited for until that section is
//!   over. One of both sees what the other one did, since each writes first and reads then, with a
//!   fence between (as in Dekker's algorithm).
//! - Nobody waits for anything inside of a section: who has to wait for a lock leaves first. So two
//!   never wait for each other.
//!
//! A packet makes its worker the owner of a free place, [`CLAIMS_MAX`] times for each connection:
//! one whose directions come to two workers is owned by neither after that, and costs a lock. One
//! more time is given with each [`RENEWAL`]th packet of a direction, so that a connection whose
//! queues were moved has an owner again some time after. The control side gives a place back to its
//! owner. Where nobody is, nobody owns.

use super::owner::{Sections, assert_outside};
use super::sync::{AtomicU32, Gate, Pass, Patience, fence, relax};
use super::who::{OWNED, Who};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// How often a connection may get an owner.
const CLAIMS_MAX: u32 = 3;

/// Packets of a direction with each of which a connection that has used that up may get an owner
/// once more. To take a place from an owner costs some microseconds: so little per packet.
const RENEWAL: u32 = 4096;

/// The low half of the word: its state, below [`OWNED`], or its owner.
const FREE: u16 = 0;
const LOCKED: u16 = 1;
const STATE: u32 = 0xffff;

/// Above: how often the connection got an owner; and how often the place was locked while it had
/// one, modulo 2^13.
const CLAIM: u32 = 1 << 16;
const CLAIMS: u32 = 0x7 * CLAIM;
const TIME: u32 = 1 << 19;

/// What a word says, and is to say when the lock is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said(u32);

impl Said {
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    const fn state(self) -> u16 {
        self.0 as u16
    }

    const fn with(self, state: u16) -> Self {
        Self(self.0 & !STATE | state as u32)
    }

    /// Whose it is.
    pub(super) const fn owner(self) -> Who {
        if self.state() < OWNED { Who::NOBODY } else { Who(self.state()) }
    }

    /// Nobody's, as for the first time.
    pub(super) const fn anew(self) -> Self {
        Self(self.with(FREE).0 & !CLAIMS)
    }

    /// Nobody's, as if it had owners too often.
    pub(super) const fn spent(self) -> Self {
        Self(self.anew().0 + CLAIMS_MAX * CLAIM)
    }

    /// With the packet after so many of its direction, a connection that had owners too often may
    /// have one again.
    #[inline]
    pub(super) const fn renewed(self, packets: u32) -> Self {
        let may = self.0 & CLAIMS == CLAIMS_MAX * CLAIM && packets % RENEWAL == RENEWAL - 1;
        if may { Self(self.0 - CLAIM) } else { self }
    }

    /// A worker has come for a packet: it is nobody else's.
    #[inline]
    pub(super) fn left_to(self, who: Who) -> Self {
        let owner = self.owner();
        if owner == Who::NOBODY || owner == who { self } else { self.with(FREE) }
    }

    /// A worker has found it free when it came for a packet: it is its own, unless it had owners
    /// too often.
    #[inline]
    pub(super) fn claimed(self, who: Who) -> Self {
        let may = who != Who::NOBODY && self.state() == FREE && self.0 & CLAIMS < CLAIMS_MAX * CLAIM;
        if may { Self(self.0 + CLAIM).with(who.0) } else { self }
    }
}

/// The lock of one place: a word that is free, locked or names its owner, and a gate for those that
/// wait.
#[derive(Debug, Default)]
pub(super) struct Lock {
    word: AtomicU32,
    gate: Gate,
}

/// A lock that is held, until it is let go with what it is to say.
#[derive(Debug)]
#[must_use]
pub(super) struct Held<'a> {
    /// As it was before, but for the time.
    pub(super) said: Said,
    #[allow(dead_code, reason = "held, where it is anything")]
    pass: Pass<'a>,
}

impl Lock {
    /// Whether the place is somebody's, who is inside of a section: until the end of that nobody
    /// else touches it.
    #[inline]
    pub(super) fn is_of(&self, who: Who) -> bool {
        self.read().state() == who.0
    }

    /// What it says now.
    #[inline]
    pub(super) fn read(&self) -> Said {
        Said(self.word.load(Acquire))
    }

    /// Locks it if it is free, without waiting: this may be inside of a section.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<Held<'_>> {
        let pass = self.gate.try_pass()?;
        let now = self.read();
        let said = if now.state() == FREE { self.swap(now)? } else { return None };
        Some(Held { said, pass })
    }

    /// Locks it, outside of all sections.
    #[inline]
    pub(super) fn lock(&self, sections: &Sections) -> Held<'_> {
        assert_outside();
        match self.try_lock() {
            Some(held) => held,
            None => self.lock_slowly(sections),
        }
    }

    #[inline(never)]
    fn lock_slowly(&self, sections: &Sections) -> Held<'_> {
        let pass = self.gate.pass();
        let mut times = 0;
        let said = loop {
            let now = self.read();
            if now.state() != LOCKED
                && let Some(said) = self.swap(now)
            {
                break said;
            }
            relax(&mut times);
        };
        sections.wait(said.owner());
        Held { said, pass }
    }

    /// [`Self::lock`] with patience: not if it stays locked, or its owner stays inside of a
    /// section.
    pub(super) fn lock_with(&self, sections: &Sections, patience: &mut Patience) -> Option<Held<'_>> {
        assert_outside();
        if patience.is_endless() {
            return Some(self.lock(sections));
        }
        let pass = self.gate.try_pass()?;
        let said = loop {
            let now = self.read();
            if now.state() != LOCKED
                && let Some(said) = self.swap(now)
            {
                break said;
            }
            if !patience.look_again() {
                return None;
            }
        };
        if sections.wait_with(said.owner(), patience) {
            return Some(Held { said, pass });
        }
        // Nothing was touched: it is its owner's as before.
        self.unlock(said);
        None
    }

    /// Locks it if it is somebody's. That one is to be waited for before anything is touched.
    pub(super) fn take_from_owner(&self) -> Option<Held<'_>> {
        let pass = self.gate.try_pass()?;
        let now = self.read();
        let said = if now.owner() == Who::NOBODY { return None } else { self.swap(now)? };
        Some(Held { said, pass })
    }

    #[inline]
    fn swap(&self, now: Said) -> Option<Said> {
        // Who looks at an owned place sees that it was not its owner's meanwhile.
        let said = if now.state() < OWNED { now } else { Said(now.0.wrapping_add(TIME)) };
        self.word.compare_exchange(now.0, said.with(LOCKED).0, AcqRel, Relaxed).ok()?;
        // Who sees anything of what is written from here on sees that it was locked.
        fence(Release);
        Some(said)
    }

    /// Lets it go, as this.
    #[inline]
    pub(super) fn unlock(&self, said: Said) {
        debug_assert!(said.state() != LOCKED);
        self.word.store(said.0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::who::OWNERS;
    use super::*;

    /// A word that a place may have: of any claims and time.
    fn words() -> impl Iterator<Item = Said> {
        (0..=CLAIMS_MAX).flat_map(|claims| [0, 1, 0x1fff].map(|time| Said(claims * CLAIM + time * TIME)))
    }

    #[test]
    fn a_place_has_an_owner_so_often_and_begins_anew() {
        let [first, second] = [0, OWNERS - 1].map(Who::of);
        for word in words() {
            let (mut said, mut claims) = (word, word.0 >> 16 & 7);
            for who in [first, second, first, second] {
                let claimed = said.claimed(who);
                assert_eq!(claimed.owner() == who, claims < CLAIMS_MAX, "{said:?} by {who:?}");
                assert_eq!(claimed.claimed(second), claimed, "somebody's already, or it had owners too often");
                assert_eq!((claimed.left_to(who), claimed.left_to(Who::NOBODY).owner()), (claimed, Who::NOBODY));
                said = claimed.with(FREE);
                claims = (claims + 1).min(CLAIMS_MAX);
            }
            assert_eq!(said.anew().claimed(first).owner(), first);
            assert_eq!(word.spent().claimed(first).owner(), Who::NOBODY);
            assert_eq!(word.claimed(Who::NOBODY), word);
            assert_eq!(word.spent().renewed(RENEWAL - 1).claimed(first).owner(), first);
            assert_eq!(word.spent().renewed(RENEWAL), word.spent());
            assert_eq!(word.anew().renewed(RENEWAL - 1), word.anew(), "it had none");
            assert_eq!(said.anew().0 / TIME, word.0 / TIME, "the time goes on");
        }
        assert_eq!((Who::of(OWNERS), Who::of(usize::MAX)), (Who::NOBODY, Who::NOBODY));
    }

    #[test]
    fn whoever_has_locked_it_is_seen_to_have_been_there() {
        let (lock, sections) = (Lock::default(), Sections::default());
        lock.unlock(lock.read().claimed(Who::of(3)));
        assert!(lock.is_of(Who::of(3)) && lock.try_lock().is_none() && lock.read().owner() == Who::of(3));
        let before = lock.read();
        let held = lock.lock(&sections);
        assert!(held.said.owner() == Who::of(3) && !lock.is_of(Who::of(3)), "{held:?}");
        assert!(lock.take_from_owner().is_none() && lock.try_lock().is_none());
        lock.unlock(held.said);
        assert!(lock.is_of(Who::of(3)) && lock.read() != before);
    }
}
