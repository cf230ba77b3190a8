//! For tests of vhost-user: messages with descriptors, and descriptors.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};

pub use super::send_fds::{FDS_MAX, send_with_fds};

/// For guests that a thread of its own calls.
pub const CALL_DELAY_US: u32 = 20;

/// An eventfd whose counter is 0, and which blocks.
pub fn eventfd() -> File {
    // SAFETY: a new descriptor, and nobody else's.
    unsafe { File::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) }
}

/// Memory of hugepages of 2 MiB, sealed by nobody; none if not so many are free.
pub fn huge_memory(len: u64) -> Option<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_HUGETLB | libc::MFD_HUGE_2MB;
    // SAFETY: NUL-terminated.
    let fd = unsafe { libc::memfd_create(c"vhost-test".as_ptr(), flags) };
    // SAFETY: a new descriptor, and nobody else's.
    let file = (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })?;
    file.set_len(len).ok()?;
    let size = usize::try_from(len).ok()?;
    // SAFETY: a new mapping, at an address of the kernel's choice; it reserves the pages, as that
    // of the port will.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: mapped above.
    unsafe { libc::munmap(at, size) };
    Some(file)
}

/// Takes some of a file's pages away; its length stays.
pub fn punch(file: &File, at: i64, len: i64) -> io::Result<()> {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: takes numbers.
    let rc = unsafe { libc::fallocate(file.as_raw_fd(), how, at, len) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits until calls made so far have been passed on: a call made after them has come, and they are
/// passed on in their order.
pub fn await_calls() {
    let last = eventfd();
    if let Some(_route) = super::caller::Route::open(last.as_fd()).expect("descriptors") {
        io::Read::read_exact(&mut &last, &mut [0; 8]).expect("a route begins with a call");
    }
}

/// How many descriptors the process may have from now on; returns how many it could.
pub fn limit_fds(soft: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: one limit is written, one read.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        let before = std::mem::replace(&mut limit.rlim_cur, soft);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        before
    }
}

/// Makes a descriptor block, for everybody who has it.
pub fn make_blocking(file: &File) {
    // SAFETY: takes and gives numbers.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) };
}
