//! Heap-backed doubles of [`Mbuf`] and [`Mempool`] for builds without DPDK: same names, same
//! contracts, bounded the same way.

use super::part::Part;
use super::{Csum, TxOffload};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const HEADROOM: usize = 128;
const DATA_ROOM: usize = 2048;

#[derive(Debug)]
struct Segment {
    bytes: Box<[u8; HEADROOM + DATA_ROOM]>,
    start: usize,
    len: usize,
}

impl Segment {
    fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

/// An owned packet buffer of one or more segments.
#[derive(Debug)]
pub struct Mbuf {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    segments: Vec<Segment>,
    csum: Csum,
    gso_size: u16,
    inner_len: u16,
    tag: u64,
    tx: Option<TxOffload>,
    used: Arc<AtomicUsize>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.used.fetch_sub(self.segments.len(), Relaxed);
    }
}

/// A bounded supply of segments.
#[derive(Debug, Clone)]
pub struct Mempool {
    size: usize,
    used: Arc<AtomicUsize>,
}

impl Mempool {
    /// A pool of `size` segments for a test.
    #[must_use]
    pub fn for_tests(size: usize) -> Self {
        Self { size, used: Arc::default() }
    }

    /// A pool of `size` segments, from the heap.
    ///
    /// # Errors
    /// None: the heap is asked when a segment is.
    pub fn create(_name: &str, size: usize) -> Result<Self, std::convert::Infallible> {
        Ok(Self::for_tests(size))
    }

    /// Segments in the pool.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Segments that somebody holds.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Bytes that one segment holds.
    #[must_use]
    pub fn segment_len(&self) -> usize {
        DATA_ROOM
    }

    /// An empty mbuf of one segment; none when the pool is empty.
    #[must_use]
    pub fn alloc(&self) -> Option<Mbuf> {
        if self.used.fetch_add(1, Relaxed) >= self.size {
            self.used.fetch_sub(1, Relaxed);
            return None;
        }
        let segment = Segment { bytes: Box::new([0; HEADROOM + DATA_ROOM]), start: HEADROOM, len: 0 };
        let used = Arc::clone(&self.used);
        Some(Mbuf {
            inner: Box::new(Inner {
                segments: vec![segment],
                csum: Csum::Unknown,
                gso_size: 0,
                inner_len: 0,
                tag: 0,
                tx: None,
                used,
            }),
        })
    }
}

impl Mbuf {
    pub(super) fn free_all(slots: &mut [Option<Self>]) {
        slots.fill_with(|| None);
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.segments.iter().map(|segment| segment.len).sum()
    }

    /// Number of segments, at least 1.
    #[must_use]
    pub fn nb_segs(&self) -> usize {
        self.inner.segments.len()
    }

    /// Whether bytes of it are in the memory of a guest, borrowed for the time of a burst; none
    /// are.
    #[must_use]
    pub const fn is_borrowed(&self) -> bool {
        false
    }

    /// Bytes of the first segment.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        self.inner.segments[0].data()
    }

    /// Bytes of the first segment, to write.
    pub fn head_mut(&mut self) -> &mut [u8] {
        let segment = &mut self.inner.segments[0];
        &mut segment.bytes[segment.start..segment.start + segment.len]
    }

    /// Bytes of every segment, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.inner.segments.iter().map(|segment| Part::own(segment.data()))
    }

    /// Runs `f` on the length of every segment and its bytes, in order, to write.
    pub(crate) fn for_each_segment_mut(&mut self, mut f: impl FnMut(usize, Option<&mut [u8]>)) {
        for segment in &mut self.inner.segments {
            f(segment.len, Some(&mut segment.bytes[segment.start..segment.start + segment.len]));
        }
    }

    /// Free bytes behind the data of the last segment.
    pub fn tailroom_mut(&mut self) -> &mut [u8] {
        let segment = self.inner.segments.last_mut().expect("at least one segment");
        &mut segment.bytes[segment.start + segment.len..]
    }

    /// Lets the last segment grow by `n` bytes of its tailroom; false when there are fewer.
    pub fn grow(&mut self, n: usize) -> bool {
        if self.tailroom_mut().len() < n {
            return false;
        }
        self.inner.segments.last_mut().expect("at least one segment").len += n;
        true
    }

    /// Adds `n` bytes in front and returns them; none when the headroom is shorter.
    pub fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        let segment = &mut self.inner.segments[0];
        segment.start = segment.start.checked_sub(n)?;
        segment.len += n;
        Some(&mut segment.bytes[segment.start..segment.start + n])
    }

    /// Removes `n` bytes in front; false when the first segment is shorter.
    pub fn trim_front(&mut self, n: usize) -> bool {
        let segment = &mut self.inner.segments[0];
        if segment.len < n {
            return false;
        }
        segment.start += n;
        segment.len -= n;
        true
    }

    /// Appends the segments of another mbuf; its meta data is lost.
    pub fn chain(&mut self, mut tail: Self) {
        self.inner.segments.append(&mut tail.inner.segments);
    }

    /// What is known of the L4 checksum.
    #[must_use]
    pub fn csum(&self) -> Csum {
        self.inner.csum
    }

    /// Says what is known of the L4 checksum.
    pub fn set_csum(&mut self, csum: Csum) {
        self.inner.csum = csum;
    }

    /// What [`Mbuf::set_tag`] wrote; 0: nothing.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.inner.tag
    }

    /// Marks the packet: the tag stays with it until it is freed, and its copies have it, too. 0
    /// takes the mark off.
    pub fn set_tag(&mut self, tag: u64) {
        self.inner.tag = tag;
    }

    /// Nothing is known of the L4 checksum, and it is no GSO packet: whoever wants to know sums.
    #[must_use]
    pub fn is_unchecked(&self) -> bool {
        self.inner.csum == Csum::Unknown && self.inner.gso_size == 0
    }

    /// Payload bytes per segment of a GSO packet; 0: an ordinary packet.
    #[must_use]
    pub fn gso_size(&self) -> u16 {
        self.inner.gso_size
    }

    /// Makes it a GSO packet (or an ordinary one, with 0).
    pub fn set_gso_size(&mut self, size: u16) {
        (self.inner.gso_size, self.inner.inner_len) = (size, 0);
    }

    /// Bytes from the L4 header that is segmented to the end of a GSO packet, where that header is
    /// not the outermost one (a packet in a tunnel of its sender); 0: it is the outermost one, or
    /// this is no GSO packet.
    #[must_use]
    pub fn inner_len(&self) -> u16 {
        self.inner.inner_len
    }

    /// Makes it a GSO packet whose segments are those of an L4 header inside of a tunnel: that
    /// header and what follows it are the last `inner_len` bytes. Counted from the end, since
    /// headers in front may change on the way.
    pub fn set_inner_gso(&mut self, size: u16, inner_len: u16) {
        (self.inner.gso_size, self.inner.inner_len) = (size, if size == 0 { 0 } else { inner_len });
    }

    /// Whether a transmit queue must look at the packet: partial checksum or GSO.
    #[must_use]
    pub fn needs_offload(&self) -> bool {
        self.inner.csum == Csum::Partial || self.inner.gso_size != 0
    }

    /// One segment, and nothing for a transmit queue to do but send it.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !self.needs_offload() && self.nb_segs() == 1
    }

    /// Asks the device for work at transmission.
    pub fn set_tx_offload(&mut self, tx: TxOffload) {
        self.inner.tx = Some(tx);
    }

    /// Asks the device for nothing.
    pub fn clear_tx_offload(&mut self) {
        self.inner.tx = None;
    }
}
