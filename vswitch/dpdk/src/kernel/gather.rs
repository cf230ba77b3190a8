//! Scratch space for gathering calls: header and segments of a packet as `struct iovec`s.

use super::{VNET_LEN, check};
use crate::Mbuf;
use crate::limits::BURST;
use crate::part::Part;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A packet with the virtio-net header to send in front of it.
#[derive(Debug)]
pub struct Outgoing {
    /// In host byte order.
    pub header: [u8; VNET_LEN],
    /// The packet.
    pub mbuf: Mbuf,
}

/// `UIO_MAXIOV` of the kernel: more iovecs of one message are refused.
const PER_PACKET_MAX: usize = 1024;

/// Room for a burst of the largest GSO packets (34 iovecs each); a burst that needs more goes in
/// several calls.
const CAPACITY: usize = 2048;

/// Scratch space of one transmit queue. Empty between calls; never grows.
pub struct Gather {
    iov: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the vectors are empty whenever nobody is in a call, so that no pointer travels to another
// thread.
unsafe impl Send for Gather {}

impl Default for Gather {
    fn default() -> Self {
        Self { iov: Vec::with_capacity(CAPACITY), messages: Vec::with_capacity(BURST) }
    }
}

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gather").field("capacity", &self.iov.capacity()).finish()
    }
}

/// The message does not fit: too many segments.
fn too_long() -> io::Error {
    io::Error::from_raw_os_error(libc::EMSGSIZE)
}

impl Gather {
    /// Appends a packet's iovecs and returns how many; none (and nothing appended) when there is no
    /// room.
    fn push(&mut self, packet: &Outgoing) -> Option<usize> {
        let count = 1 + packet.mbuf.nb_segs();
        if count > PER_PACKET_MAX || self.iov.len() + count > CAPACITY {
            return None;
        }
        self.iov.push(iovec(Part::own(&packet.header)));
        self.iov.extend(packet.mbuf.parts().map(iovec));
        Some(count)
    }

    /// Writes one packet with one `writev`.
    ///
    /// # Errors
    /// The kernel's; `EMSGSIZE` for more segments than a call takes.
    pub(super) fn write(&mut self, fd: BorrowedFd<'_>, packet: &Outgoing) -> io::Result<()> {
        let count = self.push(packet).ok_or_else(too_long)?;
        let count = libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX);
        // SAFETY: `count` iovecs were just made from slices of `packet`, which is borrowed through
        // the call.
        let rc = unsafe { libc::writev(fd.as_raw_fd(), self.iov.as_ptr(), count) };
        let result = check(rc as i64);
        self.iov.clear();
        result.map(drop)
    }

    /// Sends as many packets as one `sendmmsg` takes, never blocking, and returns how many went (at
    /// least 1 of a non-empty slice).
    ///
    /// # Errors
    /// What the kernel said of the first packet; none has been sent then.
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>, packets: &[Outgoing]) -> io::Result<usize> {
        for packet in packets.iter().take(BURST) {
            let start = self.iov.len();
            let Some(count) = self.push(packet) else { break };
            // SAFETY: plain data; zero means no name, no control data.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_iov = self.iov[start..].as_mut_ptr();
            message.msg_hdr.msg_iovlen = count;
            self.messages.push(message);
        }
        let result = match libc::c_uint::try_from(self.messages.len()) {
            Ok(0) | Err(_) => Err(too_long()),
            // SAFETY: the messages point to iovecs in `self.iov`, which has not grown past its
            // capacity and so has not moved; those point into `packets`, which is borrowed through
            // the call.
            Ok(n) => check(i64::from(unsafe {
                libc::sendmmsg(fd.as_raw_fd(), self.messages.as_mut_ptr(), n, libc::MSG_DONTWAIT)
            })),
        };
        self.messages.clear();
        self.iov.clear();
        result
    }
}

/// Points at bytes that the kernel only reads.
fn iovec(part: Part<'_>) -> libc::iovec {
    libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mempool;
    use crate::kernel::testing::filler;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_leave_in_order_and_too_many_segments_are_refused() {
        let pool = Mempool::for_tests(4096);
        let (mut reader, writer) = UnixStream::pair().expect("a socket pair");
        let bytes = filler(5000);
        let packet = Outgoing { header: *b"0123456789", mbuf: pool.mbuf_from(&bytes).expect("mbuf") };
        let mut gather = Gather::default();
        gather.write(writer.as_fd(), &packet).expect("written");
        assert_eq!(gather.send(writer.as_fd(), std::slice::from_ref(&packet)).expect("sent"), 1);
        drop(writer);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("read");
        let once = [&packet.header[..], &bytes].concat();
        assert_eq!(read, [once.clone(), once].concat());

        let mut long = pool.alloc().expect("mbuf");
        for _ in 0..PER_PACKET_MAX {
            long.chain(pool.mbuf_from(&[0]).expect("mbuf"));
        }
        let long = Outgoing { header: [0; VNET_LEN], mbuf: long };
        let (_reader, writer) = UnixStream::pair().expect("a socket pair");
        let error = gather.write(writer.as_fd(), &long).expect_err("1025 segments");
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        let packets = [packet, long];
        assert_eq!(gather.send(writer.as_fd(), &packets).expect("the first goes"), 1);
        assert_eq!(gather.send(writer.as_fd(), &packets[1..]).expect_err("1025").raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!((gather.iov.len(), gather.messages.len()), (0, 0), "left behind");
    }
}
