//! Quiescent-state reclamation: "nobody uses it any more", without a lock or a shared write per
//! packet.
//!
//! **Protocol**. Control side: unpublish (store), then [`Quiescence::wait`]: raise the epoch
//! (Release) and full fence ([`Quiescence::begin`]), then wait until every worker is offline or has
//! seen that epoch (Acquire). A wait that is given up may go on later, for the same epoch
//! ([`Quiescence::behind`]).
//!
//! Worker, between two bursts: load the epoch (Acquire), look at what is published, store the epoch
//! as seen (Release). Who has seen the epoch has therefore finished all bursts that began before
//! the unpublishing, and every later one starts from the new state. A worker that goes online
//! stores its epoch (Release: what it did before it went offline is over, too, for who sees it
//! online again), then a full fence, then looks at what is published: with the fence in `wait`
//! either the control side sees it online and waits, or it sees the new state (Dekker).
//!
//! Each of these orderings is needed, and no other: `tests/models.rs`.

use crate::sync::{AtomicU64, fence};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// `seen` of a worker that uses nothing.
const OFFLINE: u64 = u64::MAX;

#[derive(Debug)]
#[repr(align(64))]
struct Seen(AtomicU64);

/// The epochs of all workers.
#[derive(Debug)]
pub struct Quiescence {
    epoch: AtomicU64,
    workers: Box<[Seen]>,
}

impl Quiescence {
    /// For this many workers, all offline.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { epoch: AtomicU64::new(1), workers: (0..workers).map(|_| Seen(AtomicU64::new(OFFLINE))).collect() }
    }

    /// The epoch to hand to [`Quiescence::quiescent`] after looking at what is published.
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// The worker uses nothing from before `epoch`.
    #[inline]
    pub fn quiescent(&self, worker: usize, epoch: u64) {
        self.workers[worker].0.store(epoch, Release);
    }

    /// The worker uses nothing until [`Quiescence::online`].
    pub fn offline(&self, worker: usize) {
        self.workers[worker].0.store(OFFLINE, Release);
    }

    /// The worker is about to look at what is published.
    pub fn online(&self, worker: usize) {
        self.workers[worker].0.store(self.epoch.load(Relaxed), Release);
        fence(SeqCst);
    }

    /// Begins a wait: what was unpublished before is used by no worker that is not
    /// [`Quiescence::behind`] what this returns.
    pub fn begin(&self) -> u64 {
        let target = self.epoch.fetch_add(1, Release) + 1;
        fence(SeqCst);
        target
    }

    /// The first worker that may still use what was unpublished before that wait began. None: no
    /// worker does.
    #[must_use]
    pub fn behind(&self, target: u64) -> Option<usize> {
        (0..self.workers.len()).find(|worker| self.is_behind(*worker, target))
    }

    fn is_behind(&self, worker: usize, target: u64) -> bool {
        // OFFLINE is larger than every epoch.
        self.workers[worker].0.load(Acquire) < target
    }

    /// Waits until no worker uses what was unpublished before. Not for workers themselves.
    /// `pause(worker, turn)` is called each time that a worker is found behind: it says how to
    /// wait, and may complain. Turns are counted from 0 for each worker.
    pub fn wait(&self, mut pause: impl FnMut(usize, u32)) {
        let given_up = self.wait_while(self.begin(), |worker, turn| {
            pause(worker, turn);
            true
        });
        debug_assert_eq!(given_up, None, "only the pause gives a wait up");
    }

    /// Likewise, for a wait that has begun, as long as `pause` says so. Returns the worker that is
    /// behind if it does not.
    pub fn wait_while(&self, target: u64, mut pause: impl FnMut(usize, u32) -> bool) -> Option<usize> {
        for worker in 0..self.workers.len() {
            let mut turn = 0_u32;
            while self.is_behind(worker, target) {
                if !pause(worker, turn) {
                    return Some(worker);
                }
                turn = turn.saturating_add(1);
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A "device" is alive or closed; workers use it only while it is published. Using it closed is
    /// the bug.
    #[test]
    fn nobody_uses_what_was_unpublished() {
        const WORKERS: usize = 3;
        let quiescence = Quiescence::new(WORKERS);
        let devices: Vec<AtomicBool> = (0..2000).map(|_| AtomicBool::new(true)).collect();
        let (published, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (quiescence, devices, published, stop) = (&quiescence, &devices, &published, &stop);
                scope.spawn(move || {
                    let mut turn = 0_u32;
                    quiescence.online(worker);
                    while !stop.load(Relaxed) {
                        let epoch = quiescence.epoch();
                        let device = &devices[usize::try_from(published.load(Acquire)).expect("an index")];
                        quiescence.quiescent(worker, epoch);
                        for _ in 0..20 {
                            assert!(device.load(Relaxed), "worker {worker} used a closed device");
                        }
                        turn += 1;
                        if turn.is_multiple_of(64) {
                            quiescence.offline(worker);
                            std::thread::yield_now();
                            quiescence.online(worker);
                        }
                    }
                    quiescence.offline(worker);
                });
            }
            for (old, device) in devices.iter().enumerate().take(devices.len() - 1) {
                published.store(old as u64 + 1, Release);
                quiescence.wait(|_, _| std::thread::yield_now());
                device.store(false, Relaxed);
            }
            stop.store(true, Relaxed);
        });
    }
}
