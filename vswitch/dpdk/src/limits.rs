//! Sizes of bursts and packets; limits that the kernel sets on the process.

use std::io;

/// Packets that one poll of a receive queue returns at most. 32 keeps a burst's headers in L1 (32 x
/// 64 B = 2 KiB). No more: librte_vhost puts at most 32 at a time into a ring (MAX_PKT_BURST), and
/// what it leaves counts as a full ring.
pub const BURST: usize = 32;

/// Bytes that a frame may have besides its MTU: an Ethernet header and two VLAN tags.
pub const L2_OVERHEAD: usize = 14 + 8;

/// Bytes of the largest packet that may enter: a GSO packet of 64 KiB with its Ethernet header and
/// two VLAN tags.
pub const FRAME_MAX: usize = 65535 + L2_OVERHEAD;

/// Raises the soft limit of open files to the hard one and returns it. Every vhost-user port needs
/// up to three descriptors and one per memory region and ring of its guest, and librte_vhost
/// misbehaves when they run out.
///
/// # Errors
/// When the kernel refuses (it does not for the own process, setrlimit(2)).
pub fn raise_fd_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: one rlimit is written.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: one rlimit is read.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    #[test]
    fn soft_limit_becomes_the_hard_one() {
        let limit = super::raise_fd_limit().expect("allowed");
        assert_eq!(super::raise_fd_limit().expect("allowed"), limit, "raising twice changes nothing");
        let text = std::fs::read_to_string("/proc/self/limits").expect("procfs");
        let line = text.lines().find(|line| line.starts_with("Max open files")).expect("a line");
        assert_eq!(line.split_whitespace().nth(3), Some(limit.to_string().as_str()), "{line}");
    }
}
