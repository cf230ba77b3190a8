//! For the fuzz targets `segment`, `refusals`, `strict_check`, and the tests that feed the same:
//! properties that hold whatever the bytes are.

mod refusals;
mod segment;
mod strict;

pub use refusals::refusals;
pub use segment::segment;
pub use strict::strict;

use crate::conntrack::fuzz::oracle::Parts;

/// A number of two bytes.
fn be(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 2).map_or(0, |pair| usize::from(pair[0]) << 8 | usize::from(pair[1]))
}

/// Whether an IPv4 packet is a fragment behind the first one, whose bytes are no headers.
fn is_later_fragment(frame: &[u8], parts: &Parts) -> bool {
    !parts.v6 && be(frame, parts.l3 + 6) & 0x1fff != 0
}
