//! What everybody wants to know of a place without locking it: is somebody there, until when, did
//! anybody answer.

use crate::{Helper, NatSide};

/// When a connection expires, in milliseconds, over eight flags; 0: nobody is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Life(u64);

/// The latest expiry that there is room for.
const EXPIRY_MAX: u64 = u64::MAX >> Life::FLAGS;

impl Life {
    pub(super) const ALIVE: u64 = 1;
    /// A packet of the other direction was seen.
    pub(super) const REPLIED: u64 = 1 << 1;
    /// It has what few connections have ([`super::rare`]).
    pub(super) const RARE: u64 = 1 << 2;
    const SRC: u64 = 1 << 3;
    const DST: u64 = 1 << 4;
    const FTP: u64 = 1 << 5;
    const TFTP: u64 = 1 << 6;
    /// Nobody asked for its translation: see [`Self::translates`].
    pub(super) const UNASKED: u64 = 1 << 7;
    const FLAGS: u32 = 8;

    pub(super) fn new(side: Option<NatSide>, helper: Option<Helper>) -> Self {
        let side = match side {
            None => 0,
            Some(NatSide::Src) => Self::SRC,
            Some(NatSide::Dst) => Self::DST,
        };
        let helper = match helper {
            None => 0,
            Some(Helper::Ftp) => Self::FTP,
            Some(Helper::Tftp) => Self::TFTP,
        };
        Self(Self::ALIVE | side | helper)
    }

    pub(super) const fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    #[must_use]
    pub(super) const fn with(self, flag: u64) -> Self {
        Self(self.0 | flag)
    }

    pub(super) const fn word(self) -> u64 {
        self.0
    }

    pub(super) const fn of_word(word: u64) -> Self {
        Self(word)
    }

    /// Milliseconds of the clock.
    pub(super) const fn expiry(self) -> u64 {
        self.0 >> Self::FLAGS
    }

    #[must_use]
    pub(super) const fn until(self, expiry: u64) -> Self {
        self.with_expiry(if expiry > EXPIRY_MAX { EXPIRY_MAX } else { expiry })
    }

    /// [`Self::until`] so many milliseconds from now, which both have room to spare
    /// ([`super::limits::TIMEOUT_MAX`]).
    #[must_use]
    #[inline]
    pub(super) const fn until_soon(self, now: u64, timeout: u64) -> Self {
        let expiry = now.wrapping_add(timeout);
        debug_assert!(expiry >= now && expiry <= EXPIRY_MAX);
        self.with_expiry(expiry)
    }

    /// Of [`EXPIRY_MAX`] at most.
    #[inline]
    const fn with_expiry(self, expiry: u64) -> Self {
        Self(expiry << Self::FLAGS | self.0 & ((1 << Self::FLAGS) - 1))
    }

    /// What is translated.
    pub(super) const fn side(self) -> Option<NatSide> {
        if self.has(Self::SRC) {
            Some(NatSide::Src)
        } else if self.has(Self::DST) {
            Some(NatSide::Dst)
        } else {
            None
        }
    }

    /// What a `ct()` of its zone translates. One that nobody asked for is part of the connection:
    /// with or without `nat`, as no pipeline says `nat` where none is meant.
    #[inline]
    pub(super) const fn translates(self, nat: bool) -> Option<NatSide> {
        if nat || self.has(Self::UNASKED) { self.side() } else { None }
    }

    pub(super) const fn helper(self) -> Option<Helper> {
        if self.has(Self::FTP) {
            Some(Helper::Ftp)
        } else if self.has(Self::TFTP) {
            Some(Helper::Tftp)
        } else {
            None
        }
    }
}
