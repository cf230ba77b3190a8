//! Who is at the other end of a unix socket, as far as the standard library does not tell.
//!
//! **Where in the walk**: nowhere; the API asks once for each connection.
//!
//! **Threads**: any.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Groups that are asked for at first; more are asked for when the kernel says so.
const GROUPS_FIRST: usize = 64;

/// Groups of a process (`NGROUPS_MAX` of Linux).
const GROUPS_MAX: usize = 65_536;

/// Supplementary groups of the process that connected, at that time (`SO_PEERGROUPS`, Linux 4.13).
///
/// # Errors
/// Those of `getsockopt(2)`: no unix socket, or an older kernel.
pub fn groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; GROUPS_FIRST];
    loop {
        let bytes = size_of_val(groups.as_slice());
        let mut len = libc::socklen_t::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open; the kernel writes at most `len` bytes, which the vector
        // has, and then the number of bytes that there are.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        let count = len as usize / size_of::<libc::gid_t>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() || count > GROUPS_MAX {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_groups_are_those_of_the_peer() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let groups = groups(ours.as_fd()).expect("a unix socket");
        let status = std::fs::read_to_string("/proc/self/status").expect("readable");
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).expect("a line");
        let own: Vec<u32> = line.split_whitespace().map(|group| group.parse().expect("a number")).collect();
        assert_eq!(groups, own);
    }

    #[test]
    fn another_socket_is_an_error() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        assert!(groups(socket.as_fd()).is_err());
    }
}
