//! For the fuzz targets `segment`, `refusals`, `strict_check`, and the tests that feed the same:
//! properties that hold whatever the bytes are.

pub(crate) mod oracle;
mod refusals;
mod segment;
mod strict;

pub use refusals::refusals;
pub use segment::segment;
pub use strict::strict;

use oracle::Parts;
use std::sync::OnceLock;
use vswitch_dpdk::{Mbuf, Mempool};

/// Mbufs of all packets here: real pools are not made by the thousand.
pub(crate) fn pool() -> &'static Mempool {
    static POOL: OnceLock<Mempool> = OnceLock::new();
    POOL.get_or_init(|| Mempool::for_tests(8192))
}

/// The first segment has the headers, as those of the walk; the others are as long as `control`
/// says.
pub(crate) fn cut(bytes: &[u8], control: usize) -> Option<Mbuf> {
    let front = (96 + control).min(bytes.len());
    let mut mbuf = pool().mbuf_from(&bytes[..front])?;
    for piece in bytes[front..].chunks(1 + bytes.len() / 3) {
        mbuf.chain(pool().mbuf_from(piece)?);
    }
    Some(mbuf)
}

/// A number of two bytes.
fn be(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 2).map_or(0, |pair| usize::from(pair[0]) << 8 | usize::from(pair[1]))
}

/// Whether an IPv4 packet is a fragment behind the first one, whose bytes are no headers.
fn is_later_fragment(frame: &[u8], parts: &Parts) -> bool {
    !parts.v6 && be(frame, parts.l3 + 6) & 0x1fff != 0
}
