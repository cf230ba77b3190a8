//! Sends a message of vhost-user with its descriptors.

#![cfg_attr(not(any(test, feature = "testing")), allow(unreachable_pub))]

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Descriptors that one message can carry (`SCM_MAX_FD`).
pub const FDS_MAX: usize = 253;

/// Sends bytes and descriptors with one sendmsg(2). Gives the number of bytes that were sent.
///
/// # Errors
/// Those of sendmsg(2).
///
/// # Panics
/// With more than [`FDS_MAX`] descriptors.
pub fn send_with_fds(socket: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    assert!(fds.len() <= FDS_MAX, "more than the kernel takes");
    let raw: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let payload = u32::try_from(size_of_val(raw.as_slice())).expect("small");
    let mut control = [0_u64; 256];
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: plain data; the control buffer is aligned, zeroed and large enough for FDS_MAX
    // descriptors; everything lives until the call returns.
    let n = unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        if !raw.is_empty() {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(payload) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload) as usize;
            std::ptr::copy_nonoverlapping(raw.as_ptr().cast(), libc::CMSG_DATA(header), payload as usize);
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}
