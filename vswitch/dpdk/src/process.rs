//! Ends the process.

/// Ends the process at once: no destructors, no `atexit` handlers, which could wait for workers
/// that still run.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: takes a number and does not return; leaves nothing that another thread could observe.
    unsafe { libc::_exit(code) }
}
