//! Which workers have panicked, and who watches that the others move.
//!
//! **Threads**: any. A worker is lost once.

use std::sync::OnceLock;

/// How a worker was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What the panic said.
    pub reason: String,
    /// The thread was inside of a library when it panicked, and may hold locks of that library for
    /// ever. The switch is to stop soon.
    pub in_library: bool,
}

/// Tells why the others do not move any more; None: they do.
pub type Guard = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// The workers that are lost.
pub struct Losses {
    by_worker: Box<[OnceLock<Loss>]>,
    guard: OnceLock<Guard>,
}

impl std::fmt::Debug for Losses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Losses").field("by_worker", &self.by_worker).finish_non_exhaustive()
    }
}

impl Losses {
    /// None, of so many workers.
    pub(in crate::worker) fn new(workers: usize) -> Self {
        Self { by_worker: (0..workers).map(|_| OnceLock::new()).collect(), guard: OnceLock::new() }
    }

    /// How a worker was lost, if it was.
    #[must_use]
    pub fn of(&self, worker: usize) -> Option<&Loss> {
        self.by_worker.get(worker)?.get()
    }

    /// All that are lost, by worker.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Loss)> {
        self.by_worker.iter().enumerate().filter_map(|(worker, loss)| Some((worker, loss.get()?)))
    }

    /// Whether no worker is left.
    #[must_use]
    pub fn are_total(&self) -> bool {
        self.by_worker.iter().all(|loss| loss.get().is_some())
    }

    /// What the guard asks. The first one counts. Without one, the guard finds nothing.
    pub fn guard_by(&self, guard: Guard) {
        let _ = self.guard.set(guard);
    }

    /// A worker is lost.
    pub(in crate::worker) fn note(&self, worker: usize, loss: Loss) {
        let _ = self.by_worker[worker].set(loss);
    }

    pub(in crate::worker) fn trouble(&self) -> Option<String> {
        self.guard.get().and_then(|guard| guard())
    }
}
