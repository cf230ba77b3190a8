//! What a capture keeps of packets that died: of some ports all, as far as there is room.
//!
//! **Where in the walk**: behind the one counter of a drop, as [`super::DropSampler`], which calls
//! it.
//!
//! **Design**: one worker puts samples into a bounded queue, and the reader of the capture empties
//! it. What found the queue full, or had no bytes left, is counted as missed.
//!
//! **Limits**: [`DROP_TAP_QUEUED`] samples, and as many bytes of a packet as a sample has.
//!
//! **Threads**: one worker, one reader.

use super::sampler::{Died, DropSample};
use super::{Counter, Remains};
use crate::limits::DROP_TAP_QUEUED;
use crossbeam_queue::ArrayQueue;

/// What one worker counted at one port.
#[derive(Debug, Default)]
struct Counts {
    passed: Counter,
    missed: Counter,
}

/// The drops of one worker, for one capture.
#[derive(Debug)]
pub struct DropTap {
    /// By port, if it is captured.
    ports: Box<[Option<Counts>]>,
    queue: ArrayQueue<DropSample>,
}

impl DropTap {
    /// For ports with these indexes. Allocates all that it will ever have.
    #[must_use]
    pub fn new(ports: &[usize]) -> Self {
        let len = ports.iter().max().map_or(0, |last| last + 1);
        let mut counts: Vec<Option<Counts>> = (0..len).map(|_| None).collect();
        ports.iter().for_each(|port| counts[*port] = Some(Counts::default()));
        Self { ports: counts.into(), queue: ArrayQueue::new(DROP_TAP_QUEUED) }
    }

    /// Packets died at a port. The worker.
    pub(super) fn take(&self, port: usize, died: &Died<'_>, sample: impl FnOnce() -> DropSample) {
        let Some(Some(counts)) = self.ports.get(port) else { return };
        counts.passed.add(died.packets);
        let at_hand = !matches!(died.remains, Remains::Nothing);
        // The name in a sample that comes back has an owner at the port: nothing is freed here.
        let kept = u64::from(at_hand && self.queue.push(sample()).is_ok());
        counts.missed.add(died.packets - kept);
    }

    /// The oldest sample. The reader.
    #[must_use]
    pub fn pop(&self) -> Option<DropSample> {
        self.queue.pop()
    }

    /// Packets that died at a port, and those of them that no sample was kept of.
    #[must_use]
    pub fn counted(&self, port: usize) -> (u64, u64) {
        let counts = self.ports.get(port).and_then(Option::as_ref);
        counts.map_or((0, 0), |counts| (counts.passed.get(), counts.missed.get()))
    }
}
