//! A value that one side replaces and workers look at.

use crate::Quiescence;
use crate::sync::{AtomicU64, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A state that is replaced as a whole: any number of workers look at it, those who replace it take
/// turns.
#[derive(Debug)]
pub struct Published<T> {
    version: AtomicU64,
    current: Mutex<Arc<T>>,
    /// When workers have let go.
    pub quiescence: Quiescence,
}

impl<T> Published<T> {
    /// Starts with this state, for this many workers.
    #[must_use]
    pub fn new(workers: usize, first: T) -> Self {
        Self { version: AtomicU64::new(1), current: Mutex::new(Arc::new(first)), quiescence: Quiescence::new(workers) }
    }

    /// Replaces the state, and waits until every worker has looked since (or is offline). What was
    /// there before is returned so that it is the caller who drops it. `pause`: see
    /// [`Quiescence::wait`].
    pub fn publish(&self, next: T, mut pause: impl FnMut(usize, u32)) -> Arc<T> {
        let (old, target) = self.replace(next);
        let _ = self.quiescence.wait_while(target, |worker, turn| {
            pause(worker, turn);
            true
        });
        old
    }

    /// Replaces the state, and begins the wait that [`Published::publish`] ends with. What was
    /// there before is to be kept until no worker is behind.
    pub fn replace(&self, next: T) -> (Arc<T>, u64) {
        let old = std::mem::replace(&mut *self.current.lock(), Arc::new(next));
        // After the state: who sees the number must find the state, or a newer one. The lock orders
        // that; that workers see the number in time, the epoch does.
        self.version.fetch_add(1, Relaxed);
        (old, self.quiescence.begin())
    }

    /// The state, if it is newer than the one of that number (0: than none); the number is then its
    /// own.
    #[inline]
    pub fn newer(&self, version: &mut u64) -> Option<Arc<T>> {
        let present = self.version.load(Relaxed);
        if present == *version {
            return None;
        }
        // The number first: if another state comes in between, it is looked at twice rather than
        // never.
        *version = present;
        Some(self.current())
    }

    /// The present state.
    #[must_use]
    #[cold]
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.lock())
    }
}
