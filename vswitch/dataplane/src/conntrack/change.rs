//! What changed under a checksum.

use crate::packet::checksum::Sum;

/// Bytes that were replaced, as one difference (RFC 1624): a checksum that was wrong stays wrong by
/// the same amount.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    sum: Sum,
    any: bool,
}

impl Change {
    /// Bytes at an even offset become others, as many.
    pub(super) fn swap(&mut self, old: &[u8], new: &[u8]) {
        if old != new {
            self.sum = self.sum.minus_word(Sum::of(old).folded()).bytes(new);
            self.any = true;
        }
    }

    /// The checksum as it is now.
    pub(super) fn apply(&self, checksum: u16) -> u16 {
        if self.any { self.sum.word(!checksum).checksum() } else { checksum }
    }

    /// The partial checksum as it is now: the sum itself, not its complement.
    pub(super) fn apply_partial(&self, sum: u16) -> u16 {
        !self.apply(!sum)
    }
}
