//! Eventfds of guests that are full: who writes to one would wait.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Empties those of these eventfds that are full. Returns whether any was. Never blocks.
pub(super) fn relieve<'a>(fds: impl Iterator<Item = BorrowedFd<'a>>) -> bool {
    let poll = |fd: BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    let mut polled: Vec<libc::pollfd> = fds.map(poll).collect();
    let n = libc::nfds_t::try_from(polled.len()).unwrap_or(0);
    // SAFETY: `n` pollfds; no waiting.
    if unsafe { libc::poll(polled.as_mut_ptr(), n, 0) } < 0 {
        return false;
    }
    let full = polled.iter().filter(|polled| polled.revents & libc::POLLOUT == 0);
    full.map(|polled| empty(polled.fd)).count() > 0
}

/// Reads the counter, if there is anything to read.
fn empty(fd: i32) {
    let mut counter = 0_u64;
    let part = libc::iovec { iov_base: (&raw mut counter).cast(), iov_len: size_of_val(&counter) };
    // SAFETY: one part, of 8 bytes. RWF_NOWAIT: whatever its owner has made of its flags.
    unsafe { libc::preadv2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) };
}
