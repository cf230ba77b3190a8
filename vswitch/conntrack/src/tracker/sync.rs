//! Atomics and locks of the table: the real ones, or those with which `tests/models.rs` explores
//! it, and how large it is then.
//!
//! What only counts (zones, counters, events) has the real ones always: nothing depends on its
//! order.

#[cfg(not(loom))]
pub(super) use spin::mutex::SpinMutexGuard;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, fence};
#[cfg(loom)]
pub(super) use vswitch_models::{AtomicU32, AtomicU64, MutexGuard as SpinMutexGuard, fence};

/// A word that is only written behind a lock of the table, which orders it. It is the real one
/// always: the models explore the lock.
pub(super) use std::sync::atomic::AtomicU64 as Word;

/// Who has to wait for it lets others run.
#[cfg(not(loom))]
pub(super) type SpinMutex<T> = spin::mutex::SpinMutex<T, spin::Yield>;
#[cfg(loom)]
pub(super) type SpinMutex<T> = vswitch_models::Mutex<T>;

/// The real size of something, or the one that it has in models: what they do not need takes time
/// in each of their executions.
pub(super) const fn size(real: usize, model: usize) -> usize {
    if cfg!(loom) { model } else { real }
}

/// How often somebody who waits looks again at once, then lets others run, and then sleeps: what is
/// waited for takes a microsecond or two, unless whoever has it has lost its core.
#[cfg(not(loom))]
const LOOKS: u32 = 64;
#[cfg(not(loom))]
const YIELDS: u32 = 64;
#[cfg(not(loom))]
const NAP: std::time::Duration = std::time::Duration::from_micros(20);

/// Between two looks of somebody who waits.
#[cfg(not(loom))]
pub(super) fn relax(times: &mut u32) {
    *times = times.saturating_add(1);
    if *times < LOOKS {
        std::hint::spin_loop();
    } else if *times < LOOKS + YIELDS {
        std::thread::yield_now();
    } else {
        std::thread::sleep(NAP);
    }
}
#[cfg(loom)]
pub(super) fn relax(_: &mut u32) {
    vswitch_models::thread::yield_now();
}

/// How long somebody waits in all who can do without: a worker may have lost its core in the middle
/// of a section, for long.
#[derive(Debug)]
pub(super) struct Patience {
    times: u32,
    most: u32,
}

impl Patience {
    /// For so many looks. In models it has no end: nobody loses a core there.
    pub(super) const fn looks(most: u32) -> Self {
        Self { times: 0, most: if cfg!(loom) { u32::MAX } else { most } }
    }

    /// As long as it takes.
    pub(super) const fn is_endless(&self) -> bool {
        self.most == u32::MAX
    }

    /// Waits a little. False: it has been long enough.
    pub(super) fn look_again(&mut self) -> bool {
        if self.times >= self.most {
            return false;
        }
        relax(&mut self.times);
        #[cfg(loom)]
        let _ = self.times;
        true
    }
}

/// In front of a lock that is waited for by looking again and again: in models, where each look
/// would be one more step to explore, nobody has to, as whoever has the lock has passed; else there
/// is none.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(super) struct Gate;
#[cfg(loom)]
#[derive(Debug, Default)]
pub(super) struct Gate(vswitch_models::Mutex<()>);

/// Held by whoever has passed.
#[cfg(not(loom))]
pub(super) type Pass<'a> = std::marker::PhantomData<&'a Gate>;
#[cfg(loom)]
pub(super) type Pass<'a> = vswitch_models::MutexGuard<'a, ()>;

#[cfg(not(loom))]
impl Gate {
    #[inline]
    pub(super) const fn pass(&self) -> Pass<'_> {
        std::marker::PhantomData
    }

    #[inline]
    pub(super) const fn try_pass(&self) -> Option<Pass<'_>> {
        Some(std::marker::PhantomData)
    }
}
#[cfg(loom)]
impl Gate {
    pub(super) fn pass(&self) -> Pass<'_> {
        self.0.lock()
    }

    pub(super) fn try_pass(&self) -> Option<Pass<'_>> {
        self.0.try_lock()
    }
}
