//! Atomics and locks: the real ones, or those with which `tests/models.rs` explores this code.

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, fence};
#[cfg(loom)]
pub(crate) use vswitch_models::{AtomicU64, Mutex, fence};
