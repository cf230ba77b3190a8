//! Atomics and locks of the table: the real ones, or those with which `tests/models.rs` explores it, and how large it is then.
//!
//! What only counts (zones, counters, events) has the real ones always: nothing depends on its order.

#[cfg(not(loom))]
pub(super) use spin::mutex::SpinMutexGuard;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::AtomicU64;
#[cfg(loom)]
pub(super) use vswitch_models::{AtomicU64, MutexGuard as SpinMutexGuard};

/// A word that is only touched behind a lock of the table, which orders it. It is the real one always: the models explore the lock.
pub(super) use std::sync::atomic::AtomicU64 as Word;

/// Who has to wait for it lets others run.
#[cfg(not(loom))]
pub(super) type SpinMutex<T> = spin::mutex::SpinMutex<T, spin::Yield>;
#[cfg(loom)]
pub(super) type SpinMutex<T> = vswitch_models::Mutex<T>;

/// The real size of something, or the one that it has in models: what they do not need takes time in each of their executions.
pub(super) const fn size(real: usize, model: usize) -> usize {
    if cfg!(loom) { model } else { real }
}
