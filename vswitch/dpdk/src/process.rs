//! The process itself: its end, and its standard output and error.

use std::ffi::CString;
use std::io::{self, PipeReader};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// Ends the process at once: no destructors, no `atexit` handlers, which could wait for workers
/// that still run.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: takes a number and does not return; leaves nothing that another thread could observe.
    unsafe { libc::_exit(code) }
}

/// Puts a pipe in place of standard output and standard error, and returns its other end. Whatever
/// writes there (DPDK, the C library, libraries of drivers) waits for no reader. What does not fit
/// into the pipe is lost.
///
/// # Errors
/// When the process has no descriptor left.
pub fn capture_output() -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    let fd = writer.as_raw_fd();
    // SAFETY: takes and gives numbers, of a descriptor that is open.
    if unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for standard in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: replaces descriptors that nobody owns.
        if unsafe { libc::dup2(fd, standard) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(reader)
}

/// Milliseconds since the machine's boot, with those that it slept (`CLOCK_BOOTTIME`). Nothing
/// steps this clock.
#[must_use]
pub fn boottime_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: one struct is written. The clock is there since Linux 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let [seconds, nanoseconds] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or_default());
    seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
}

/// Bytes that are free for this process on the file system of a path.
///
/// # Errors
/// Those of `statvfs(3)`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: plain data.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: reads a string that ends with NUL, and writes one struct.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes that wait in a pipe.
#[must_use]
pub fn bytes_waiting(pipe: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: one number is written.
    let rc = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if rc == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Waits until bytes wait in a pipe, or it has ended.
pub fn wait_for_bytes(pipe: BorrowedFd<'_>) {
    let mut poll = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one struct is read and written. After a signal or an error, the caller reads.
    unsafe { libc::poll(&raw mut poll, 1, -1) };
}

/// Pauses of [`on_abort`], and how many: 1 s.
const PAUSE_NS: i64 = 10_000_000;
const PAUSES: u32 = 100;

static WAITING: OnceLock<fn() -> bool> = OnceLock::new();

/// Before the process aborts (SIGABRT), waits until `waiting` is false, for at most 1 s: other
/// threads may still have its last words. `waiting` must not take a lock or allocate. The first
/// call counts.
pub fn before_abort(waiting: fn() -> bool) {
    WAITING.get_or_init(|| {
        set_abort_action(on_abort as *const () as usize);
        waiting
    });
}

fn set_abort_action(action: usize) {
    // SAFETY: plain data.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = action;
    new.sa_flags = libc::SA_ONSTACK;
    // SAFETY: the action is SIG_DFL, or a function of the kind that is asked for without
    // SA_SIGINFO.
    unsafe { libc::sigaction(libc::SIGABRT, &raw const new, std::ptr::null_mut()) };
}

extern "C" fn on_abort(_signal: libc::c_int) {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE_NS };
    for _ in 0..PAUSES {
        if !WAITING.get().is_some_and(|waiting| waiting()) {
            break;
        }
        // SAFETY: reads a time; a handler may call it.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
    set_abort_action(libc::SIG_DFL);
    // SAFETY: takes a number. The signal is blocked in its handler, and ends the process behind it.
    unsafe { libc::raise(libc::SIGABRT) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_file_system_tells_what_is_free() {
        assert!(free_bytes(Path::new("/")).expect("a file system") > 0);
        assert_eq!(free_bytes(Path::new("/proc")).expect("a file system"), 0);
        assert!(free_bytes(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn a_pipe_tells_how_many_bytes_wait() {
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        assert_eq!(bytes_waiting(reader.as_fd()), 0);
        writer.write_all(b"seven b").expect("room");
        assert_eq!(bytes_waiting(reader.as_fd()), 7);
        reader.read_exact(&mut [0; 3]).expect("bytes");
        assert_eq!(bytes_waiting(reader.as_fd()), 4);
    }
}
