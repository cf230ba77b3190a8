//! Atomics and locks for models: code that uses them instead of the real ones is run in every
//! interleaving, and with every value that a load may return.
//!
//! **Where**: nowhere in the switch. A crate whose code is to be explored has them in place of the
//! real ones when it is compiled with `--cfg loom` (its `sync.rs` says so), and calls [`explore`]
//! in `tests/models.rs`. Without `--cfg loom` this crate is empty.
//!
//! **Design**: [loom](https://docs.rs/loom), with one repair. Loom tries an access earlier than
//! another one if they conflict, but remembers only the last access to each atomic: of a thread
//! that looks at a word before it swaps it, as lock-free code does, it remembers the look, which
//! the swap follows anyway, and forgets that another thread had looked before. So here every access
//! is one that conflicts: it begins with a relaxed store to a word beside, which orders nothing but
//! the attempts.
#![forbid(unsafe_code)]
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use loom::sync::MutexGuard;
pub use loom::sync::atomic::fence;
pub use loom::{skip_branch, thread};

/// Runs a model in every interleaving that takes so many preemptions at most (loom's
/// `LOOM_MAX_PREEMPTIONS` overrides it).
///
/// # Panics
/// When the model does, in any of them; when there are so few that the model's threads do not share
/// anything.
pub fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 10_000;
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    assert!(executions >= 10, "only {executions} executions: what do the threads share?");
}

/// Atomics like those of `std`.
macro_rules! atomic {
    ($name:ident, $value:ty) => {
        /// Like the one of `std`.
        #[derive(Debug, Default)]
        pub struct $name {
            word: loom::sync::atomic::$name,
            beside: loom::sync::atomic::AtomicU64,
        }

        #[allow(missing_docs, reason = "they are those of std")]
        impl $name {
            #[must_use]
            pub fn new(value: $value) -> Self {
                Self { word: loom::sync::atomic::$name::new(value), ..Self::default() }
            }

            fn conflicting(&self) -> &loom::sync::atomic::$name {
                self.beside.store(0, Ordering::Relaxed);
                &self.word
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.conflicting().load(order)
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.conflicting().store(value, order);
            }

            pub fn fetch_add(&self, more: $value, order: Ordering) -> $value {
                self.conflicting().fetch_add(more, order)
            }

            /// # Errors
            /// The present value, if it is not the expected one.
            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.conflicting().compare_exchange(old, new, success, failure)
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);

/// Like the one of `parking_lot`.
#[derive(Debug, Default)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Unlocked.
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    /// Locks it.
    ///
    /// # Panics
    /// When a thread panicked with it locked.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no model goes on after a panic")
    }

    /// Locks it if nobody has it.
    ///
    /// # Panics
    /// Never: who would have panicked with it locked still has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}
