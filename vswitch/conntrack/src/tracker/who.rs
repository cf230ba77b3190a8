//! Workers by the numbers that the word of a place ([`super::lock`]) has for them.

use super::sync::size;

/// Workers that may own anything.
pub(super) const OWNERS: usize = size(64, 2);

/// The first number of an owner in a place's word; what is below says that there is none.
pub(super) const OWNED: u16 = 2;

/// A worker as the owner of places, or nobody: of whom no place ever is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Who(pub(super) u16);

impl Who {
    pub(super) const NOBODY: Self = Self(u16::MAX);

    /// Nobody, beyond [`OWNERS`].
    pub(super) fn of(worker: usize) -> Self {
        let number = u16::try_from(worker).ok().filter(|_| worker < OWNERS);
        number.map_or(Self::NOBODY, |number| Self(OWNED + number))
    }

    /// Its number, if it is an owner.
    pub(super) fn number(self) -> Option<usize> {
        (self != Self::NOBODY).then(|| usize::from(self.0 - OWNED))
    }
}
