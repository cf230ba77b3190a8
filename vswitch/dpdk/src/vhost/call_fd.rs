//! The descriptor that a guest wants to be called by, before the library sees it.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether a descriptor may be written to; makes it non-blocking.
pub(super) fn check(fd: BorrowedFd<'_>) -> Result<(), &'static str> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    if !name.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]") {
        return Err("a call descriptor that is no eventfd");
    }
    // SAFETY: takes and gives numbers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    // SAFETY: as above.
    let rc = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) };
    if flags >= 0 && rc == 0 { Ok(()) } else { Err("a call descriptor that cannot be made non-blocking") }
}
