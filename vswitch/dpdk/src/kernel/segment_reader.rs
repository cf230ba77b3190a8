//! Reads packets of unknown length into mbuf segments with one `readv` each.

use super::{VNET_LEN, check};
use crate::limits::FRAME_MAX;
use crate::{Mbuf, Mempool};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A packet as the kernel gave it.
#[derive(Debug)]
pub struct TapPacket {
    /// Its virtio-net header, in host byte order.
    pub header: [u8; VNET_LEN],
    /// Its bytes; nothing of the header has been applied yet.
    pub mbuf: Mbuf,
}

/// Why a packet was taken from the kernel and lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The pool had too few mbufs for it.
    NoMbuf,
    /// It is longer than [`FRAME_MAX`].
    Oversize,
    /// It is shorter than its virtio-net header.
    VnetHeader,
}

/// Empty segments at hand for the next packet, whose length only the kernel knows.
///
/// `iov[0]` is the header's, `iov[1 + i]` covers the whole tailroom of `spares[i]`. A packet of one
/// segment touches the first spare only and replaces it; the iovecs of the others stay as they are.
pub struct SegmentReader {
    pool: Mempool,
    spares: Vec<Mbuf>,
    iov: Vec<libc::iovec>,
    /// The header, and one byte behind the segments that shows that a packet did not fit.
    edges: Box<[u8; VNET_LEN + 1]>,
}

// SAFETY: the pointers in `iov` lead to buffers that `spares` owns and to the heap memory of
// `edges`, which move with it.
unsafe impl Send for SegmentReader {}

impl std::fmt::Debug for SegmentReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentReader").field("spares", &self.spares.len()).finish()
    }
}

impl SegmentReader {
    /// Segments that hold the largest packet; a reader keeps as many mbufs out of the pool.
    pub const SPARES: usize = FRAME_MAX.div_ceil(2048);

    /// A reader that takes its segments from `pool`.
    #[must_use]
    pub fn new(pool: &Mempool) -> Self {
        let mut this = Self {
            pool: pool.clone(),
            spares: Vec::with_capacity(Self::SPARES),
            iov: Vec::with_capacity(Self::SPARES + 2),
            edges: Box::new([0; VNET_LEN + 1]),
        };
        this.iov.push(iovec(&mut []));
        this.top_up();
        this
    }

    fn top_up(&mut self) {
        while self.spares.len() < Self::SPARES {
            let Some(mut segment) = self.pool.alloc() else { return };
            self.iov.push(iovec(segment.tailroom_mut()));
            self.spares.push(segment);
        }
    }

    /// Reads one packet; none when a read of no bytes says that there is nothing.
    ///
    /// A packet that does not fit the spares is gone after the read: [`Unreadable::NoMbuf`] where
    /// the pool could not fill them up, else [`Unreadable::Oversize`].
    ///
    /// # Errors
    /// The kernel's: `EAGAIN` when there is nothing.
    pub fn read(&mut self, fd: BorrowedFd<'_>) -> io::Result<Option<Result<TapPacket, Unreadable>>> {
        self.top_up();
        let (header, sentinel) = self.edges.split_at_mut(VNET_LEN);
        self.iov[0] = iovec(header);
        self.iov.push(iovec(sentinel));
        let count = libc::c_int::try_from(self.iov.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: every iovec covers memory that self owns and that nobody else borrows: `edges`,
        // and the tailrooms of `spares`, which have not been touched since their iovec was made.
        let rc = unsafe { libc::readv(fd.as_raw_fd(), self.iov.as_ptr(), count) };
        self.iov.pop();
        match check(rc as i64)? {
            0 => Ok(None),
            n => Ok(Some(self.packet(n))),
        }
    }

    /// Makes a packet of the first `n` bytes that the iovecs cover.
    fn packet(&mut self, n: usize) -> Result<TapPacket, Unreadable> {
        let mut left = n.checked_sub(VNET_LEN).ok_or(Unreadable::VnetHeader)?;
        let short = if self.spares.len() < Self::SPARES { Unreadable::NoMbuf } else { Unreadable::Oversize };
        let mut last = 0;
        loop {
            let room = self.iov.get(1 + last).ok_or(short)?.iov_len;
            if left <= room {
                break;
            }
            left -= room;
            last += 1;
        }
        // From the back, so that each step of the chain is one link.
        let mut mbuf = self.take(last);
        mbuf.grow(left);
        for i in (0..last).rev() {
            let room = self.iov[1 + i].iov_len;
            let mut segment = self.take(i);
            segment.grow(room);
            segment.chain(mbuf);
            mbuf = segment;
        }
        let header = std::array::from_fn(|i| self.edges[i]);
        Ok(TapPacket { header, mbuf })
    }

    /// Takes spare `i` out: a fresh one takes its place, or the last one when the pool is empty.
    fn take(&mut self, i: usize) -> Mbuf {
        match self.pool.alloc() {
            Some(mut fresh) => {
                self.iov[1 + i] = iovec(fresh.tailroom_mut());
                std::mem::replace(&mut self.spares[i], fresh)
            }
            None => {
                self.iov.swap_remove(1 + i);
                self.spares.swap_remove(i)
            }
        }
    }
}

/// Points at bytes for the kernel to write.
fn iovec(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::testing::filler;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    /// A datagram socket pair keeps packet boundaries like a TAP.
    fn pair() -> (UnixDatagram, UnixDatagram) {
        let (ours, peer) = UnixDatagram::pair().expect("a socket pair");
        ours.set_nonblocking(true).expect("non-blocking");
        (ours, peer)
    }

    fn send(peer: &UnixDatagram, len: usize) {
        peer.send(&[b"0123456789".to_vec(), filler(len)].concat()).expect("sent");
    }

    #[test]
    fn every_length_comes_back_in_the_fewest_segments() {
        let pool = Mempool::for_tests(256);
        let (ours, peer) = pair();
        let mut reader = SegmentReader::new(&pool);
        for len in [0, 1, 13, 14, 60, 2047, 2048, 2049, 4096, 9014, 65_549, FRAME_MAX, 33 * 2048] {
            send(&peer, len);
            let packet = reader.read(ours.as_fd()).expect("read").expect("a packet").expect("fits");
            assert_eq!(packet.header, *b"0123456789", "{len}");
            assert_eq!(packet.mbuf.to_vec(), filler(len), "{len}");
            assert_eq!(packet.mbuf.nb_segs(), len.div_ceil(2048).max(1), "{len}");
            assert_eq!(pool.in_use(), SegmentReader::SPARES + packet.mbuf.nb_segs(), "{len}");
        }
        assert_eq!(reader.read(ours.as_fd()).expect_err("empty").kind(), io::ErrorKind::WouldBlock);
        drop(reader);
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn too_long_or_too_short_packets_are_refused_by_name_and_the_next_one_is_whole() {
        let pool = Mempool::for_tests(64);
        let (ours, peer) = pair();
        let mut reader = SegmentReader::new(&pool);
        send(&peer, 33 * 2048 + 1);
        peer.send(&[0; 9]).expect("sent");
        peer.send(&[]).expect("sent");
        send(&peer, 60);
        let mut read = || reader.read(ours.as_fd()).expect("read").map(|packet| packet.map(|p| p.mbuf.to_vec()));
        assert_eq!(read(), Some(Err(Unreadable::Oversize)));
        assert_eq!(read(), Some(Err(Unreadable::VnetHeader)));
        assert_eq!(read(), None);
        assert_eq!(read(), Some(Ok(filler(60))));
    }

    #[test]
    fn an_empty_pool_drops_what_does_not_fit_and_recovers() {
        let pool = Mempool::for_tests(40);
        let (ours, peer) = pair();
        let mut reader = SegmentReader::new(&pool);
        let held: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).collect();
        let mut got = Vec::new();
        // 33 spares: two packets of 16 segments fit, then one segment is left.
        for len in [16 * 2048, 16 * 2048, 4096, 2048, 60, 60] {
            send(&peer, len);
            let read = reader.read(ours.as_fd()).expect("read").expect("a packet");
            got.push(read.map(|packet| (packet.mbuf.to_vec() == filler(len), packet.mbuf)));
        }
        let summary: Vec<_> = got.iter().map(|r| r.as_ref().map(|(equal, _)| *equal).map_err(|e| *e)).collect();
        let full = Err(Unreadable::NoMbuf);
        assert_eq!(summary, [Ok(true), Ok(true), full, Ok(true), full, full]);
        drop((held, got));
        send(&peer, FRAME_MAX);
        let packet = reader.read(ours.as_fd()).expect("read").expect("a packet").expect("room again");
        assert_eq!(packet.mbuf.to_vec(), filler(FRAME_MAX));
        drop((packet, reader));
        assert_eq!(pool.in_use(), 0);
    }
}
