//! Which chains of descriptors that are no packets were told, so that each counts once.
//!
//! The library steps over some (shorter than the virtio-net header) and comes back to others at
//! every look (outside the memory, a loop): there the ring stays until its driver starts it again.
//! It tells neither, only where the ring goes on.

use super::PAIRS_MAX;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// No entry of a ring: they have 16 bits.
const NOWHERE: u32 = u32::MAX;

/// Of each queue pair: where the guest's transmit ring went on after its last bad chain. Each has
/// one writer, the worker that has the pair.
#[derive(Debug)]
pub(super) struct BadChains(Box<[AtomicU32; PAIRS_MAX as usize]>);

impl Default for BadChains {
    fn default() -> Self {
        Self(Box::new([const { AtomicU32::new(NOWHERE) }; PAIRS_MAX as usize]))
    }
}

impl BadChains {
    /// A look at a ring gave so many packets, then came a bad chain, and `next` is where the ring
    /// goes on: true if that chain was not told yet. A chain where the ring stays right behind one
    /// that was stepped over is taken for that one.
    pub(super) fn is_another(&self, pair: u16, packets: usize, next: u16) -> bool {
        self.0[usize::from(pair)].swap(next.into(), Relaxed) != u32::from(next) || packets > 0
    }

    /// A ring begins: its first bad chain may be where its predecessor's last one was.
    pub(super) fn forget(&self, pair: u16) {
        self.0[usize::from(pair)].store(NOWHERE, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chain_is_another_one_once() {
        let chains = BadChains::default();
        let looks =
            [(0, 0, true), (0, 0, false), (0, 1, true), (0, 2, true), (5, 2, true), (0, 2, false), (0, 0xffff, true)];
        for (i, (packets, next, expected)) in looks.into_iter().enumerate() {
            assert_eq!(chains.is_another(3, packets, next), expected, "look {i}");
        }
        assert!(chains.is_another(63, 0, 0xffff), "another pair");
        chains.forget(3);
        assert!(chains.is_another(3, 0, 0xffff) && !chains.is_another(3, 0, 0xffff), "another start of the ring");
    }
}
