//! Threads that poll: pinned to a core and known to DPDK as an lcore (mempool caches, per-lcore
//! state).

use std::cell::Cell;
use std::io;

thread_local! {
    static IN_LIBRARY: Cell<bool> = const { Cell::new(false) };
}

/// Whether a library has called this thread's code, and holds a lock of its own until that returns.
#[must_use]
pub fn is_in_library() -> bool {
    IN_LIBRARY.get()
}

/// Code that a library calls begins, or has ended.
#[inline]
pub fn set_in_library(is: bool) {
    IN_LIBRARY.set(is);
}

/// Proof that the current thread is pinned and registered. Dropping it (on the same thread)
/// unregisters.
#[derive(Debug)]
pub struct Lcore {
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Lcore {
    /// Pins the current thread to `core` and registers it as an lcore.
    ///
    /// # Errors
    /// When the core does not exist or DPDK has no lcore left.
    pub fn enter(core: u32) -> io::Result<Self> {
        pin(core)?;
        register()?;
        Ok(Self { _not_send: std::marker::PhantomData })
    }
}

impl Drop for Lcore {
    fn drop(&mut self) {
        #[cfg(feature = "dpdk")]
        // SAFETY: this thread registered itself in `enter`.
        unsafe {
            dpdk_sys::rte_thread_unregister();
        }
    }
}

/// Pins the current thread to one core.
///
/// # Errors
/// When the core does not exist or is not ours.
pub fn pin(core: u32) -> io::Result<()> {
    // SAFETY: cpu_set_t is plain data; CPU_SET bounds-checks by the assertion before it.
    let rc = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if core as usize >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        libc::CPU_SET(core as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Cores that this process may run on.
#[must_use]
pub fn available_cores() -> Vec<u32> {
    // SAFETY: cpu_set_t is plain data and large enough for its own size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return Vec::new();
        }
        #[allow(clippy::cast_sign_loss)] // a positive constant
        let cores = libc::CPU_SETSIZE as u32;
        (0..cores).filter(|core| libc::CPU_ISSET(*core as usize, &set)).collect()
    }
}

#[cfg(feature = "dpdk")]
fn register() -> io::Result<()> {
    // SAFETY: EAL is up (a worker exists only after it).
    if unsafe { dpdk_sys::rte_thread_register() } == 0 {
        Ok(())
    } else {
        Err(io::Error::other(format!("DPDK has no lcore left: {}", super::eal::last_error())))
    }
}

#[cfg(not(feature = "dpdk"))]
fn register() -> io::Result<()> {
    Ok(())
}

/// The time stamp counter, in cycles.
#[inline]
#[must_use]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// TSC cycles per second.
#[must_use]
pub fn tsc_hz() -> u64 {
    #[cfg(feature = "dpdk")]
    // SAFETY: EAL measured it when it started; a constant.
    let hz = unsafe { dpdk_sys::rte_get_tsc_hz() };
    #[cfg(not(feature = "dpdk"))]
    let hz = 0;
    if hz == 0 { measured_tsc_hz() } else { hz }
}

fn measured_tsc_hz() -> u64 {
    static HZ: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *HZ.get_or_init(|| {
        let (start, from) = (std::time::Instant::now(), cycles());
        std::thread::sleep(std::time::Duration::from_millis(10));
        let elapsed = start.elapsed().as_nanos().max(1);
        u64::try_from(u128::from(cycles() - from) * 1_000_000_000 / elapsed).unwrap_or(1_000_000_000)
    })
}
