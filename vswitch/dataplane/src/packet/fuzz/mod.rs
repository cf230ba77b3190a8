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

/// Whether an IP packet is a fragment behind the first one, whose bytes are no headers.
fn is_later_fragment(frame: &[u8], parts: &Parts) -> bool {
    if !parts.v6 {
        return be(frame, parts.l3 + 6) & 0x1fff != 0;
    }
    let (mut kind, mut at) = (frame.get(parts.l3 + 6).copied().unwrap_or_default(), parts.l3 + 40);
    while at < parts.l4 {
        if kind == 44 {
            return be(frame, at + 2) & 0xfff8 != 0;
        }
        let units = usize::from(frame.get(at + 1).copied().unwrap_or_default());
        kind = frame.get(at).copied().unwrap_or_default();
        at += if kind == 51 { units * 4 + 8 } else { units * 8 + 8 };
    }
    false
}
