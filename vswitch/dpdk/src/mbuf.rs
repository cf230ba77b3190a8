//! An owned packet buffer (`struct rte_mbuf`, one or more segments).

use super::part::Part;
use super::{Csum, TxOffload};
use dpdk_sys as sys;
use std::ptr::NonNull;
use sys::rte_mbuf;

/// An owned packet: the chain of segments goes back to its pool on drop. One pointer wide, never
/// null.
///
/// Invariant: this value holds the only reference to every segment (`refcnt` 1), and each segment's
/// `data_off + data_len` lies in its buffer. Buffers are memory that EAL or librte_vhost zeroed or
/// wrote, hence initialised. Those of segments behind the first may be a guest's, which may change
/// what is there: such bytes are copied, and decide nothing ([`Mbuf::is_borrowed`]). The first
/// segment is always our own.
#[repr(transparent)]
pub struct Mbuf(NonNull<rte_mbuf>);

// SAFETY: an mbuf has one owner; pools take buffers back from any thread.
unsafe impl Send for Mbuf {}

impl Drop for Mbuf {
    fn drop(&mut self) {
        // SAFETY: we own the chain.
        unsafe { sys::vs_mbuf_free(self.0.as_ptr()) }
    }
}

impl std::fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mbuf")
            .field("len", &self.len())
            .field("segments", &self.nb_segs())
            .field("csum", &self.csum())
            .finish()
    }
}

const PARTIAL: u64 = sys::RTE_MBUF_F_RX_L4_CKSUM_NONE;
const TX_FLAGS: u64 = sys::RTE_MBUF_F_TX_TCP_SEG
    | sys::RTE_MBUF_F_TX_L4_MASK
    | sys::RTE_MBUF_F_TX_IP_CKSUM
    | sys::RTE_MBUF_F_TX_IPV4
    | sys::RTE_MBUF_F_TX_IPV6;

impl Mbuf {
    /// Takes ownership of a chain that a device or pool gave.
    ///
    /// # Safety
    /// `raw` is a valid chain, referenced by nobody else.
    pub(super) const unsafe fn from_raw(raw: NonNull<rte_mbuf>) -> Self {
        Self(raw)
    }

    /// Frees the mbufs of `slots` in bulk and empties the slots.
    pub(super) fn free_all(slots: &mut [Option<Self>]) {
        // SAFETY: Option<Mbuf> is a nullable pointer; rte_pktmbuf_free_bulk skips null ones. The
        // slots are overwritten without dropping, since the mbufs are gone.
        unsafe {
            let n = u32::try_from(slots.len()).unwrap_or(u32::MAX);
            sys::rte_pktmbuf_free_bulk(slots.as_mut_ptr().cast(), n);
            std::ptr::write_bytes(slots.as_mut_ptr().cast::<*mut rte_mbuf>(), 0, slots.len());
        }
    }

    #[inline]
    fn raw(&self) -> &rte_mbuf {
        // SAFETY: valid and ours, see the invariant.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn raw_mut(&mut self) -> &mut rte_mbuf {
        // SAFETY: valid and ours, see the invariant.
        unsafe { self.0.as_mut() }
    }

    fn last_mut(&mut self) -> &mut rte_mbuf {
        let mut at = self.0.as_ptr();
        // SAFETY: the chain is ours and ends with null.
        unsafe {
            while !(*at).next.is_null() {
                at = (*at).next;
            }
            &mut *at
        }
    }

    /// Bytes of all segments.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw().pkt_len as usize
    }

    /// Number of segments, at least 1.
    #[inline]
    #[must_use]
    pub fn nb_segs(&self) -> usize {
        self.raw().nb_segs.into()
    }

    /// Whether bytes of it are in the memory of a guest, borrowed for the time of a burst: it may
    /// not be kept for longer, only copied.
    #[must_use]
    pub fn is_borrowed(&self) -> bool {
        let mut at = Some(self.raw());
        while let Some(segment) = at {
            if segment.ol_flags & sys::RTE_MBUF_F_EXTERNAL != 0 {
                return true;
            }
            // SAFETY: `next` is null or a segment of the chain that self owns.
            at = unsafe { segment.next.as_ref() };
        }
        false
    }

    /// Bytes of the first segment.
    #[inline]
    #[must_use]
    pub fn head(&self) -> &[u8] {
        data(self.raw())
    }

    /// Bytes of the first segment, to write.
    #[inline]
    pub fn head_mut(&mut self) -> &mut [u8] {
        data_mut(self.raw_mut())
    }

    /// Bytes of every segment, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let mut at = Some(self.raw());
        std::iter::from_fn(move || {
            let segment = at?;
            // SAFETY: `next` is null or a segment of the chain that self owns.
            at = unsafe { segment.next.as_ref() };
            Some(part(segment))
        })
    }

    /// Runs `f` on the length of every segment and its bytes, in order, to write. A segment in a
    /// guest's memory has no bytes for it: what is borrowed is not written to.
    pub(crate) fn for_each_segment_mut(&mut self, mut f: impl FnMut(usize, Option<&mut [u8]>)) {
        let mut at = self.0.as_ptr();
        // SAFETY: the chain is ours and ends with null; one segment is borrowed at a time.
        while let Some(segment) = unsafe { at.as_mut() } {
            at = segment.next;
            let is_borrowed = segment.ol_flags & sys::RTE_MBUF_F_EXTERNAL != 0;
            f(segment.data_len.into(), if is_borrowed { None } else { Some(data_mut(segment)) });
        }
    }

    /// Free bytes behind the data of the last segment.
    pub fn tailroom_mut(&mut self) -> &mut [u8] {
        let last = self.last_mut();
        let used = usize::from(last.data_off) + usize::from(last.data_len);
        let free = usize::from(last.buf_len) - used;
        // SAFETY: inside the segment's buffer, which is ours and initialised.
        unsafe { std::slice::from_raw_parts_mut(last.buf_addr.cast::<u8>().add(used), free) }
    }

    /// Lets the last segment grow by `n` bytes of its tailroom; false when there are fewer.
    pub fn grow(&mut self, n: usize) -> bool {
        if self.tailroom_mut().len() < n {
            return false;
        }
        #[allow(clippy::cast_possible_truncation)] // tailroom < 64 KiB
        {
            self.last_mut().data_len += n as u16;
            self.raw_mut().pkt_len += n as u32;
        }
        true
    }

    /// Adds `n` bytes in front and returns them; none when the headroom is shorter.
    pub fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        let raw = self.raw_mut();
        let n16 = u16::try_from(n).ok()?;
        raw.data_off = raw.data_off.checked_sub(n16)?;
        raw.data_len += n16;
        raw.pkt_len += u32::from(n16);
        Some(&mut self.head_mut()[..n])
    }

    /// Removes `n` bytes in front; false when the first segment is shorter.
    pub fn trim_front(&mut self, n: usize) -> bool {
        let raw = self.raw_mut();
        let Some(n16) = u16::try_from(n).ok().filter(|n| *n <= raw.data_len) else { return false };
        raw.data_off += n16;
        raw.data_len -= n16;
        raw.pkt_len -= u32::from(n16);
        true
    }

    /// Appends the segments of another mbuf; its meta data is lost.
    pub fn chain(&mut self, tail: Self) {
        let (len, segments) = (tail.raw().pkt_len, tail.raw().nb_segs);
        self.last_mut().next = tail.0.as_ptr();
        std::mem::forget(tail);
        let raw = self.raw_mut();
        raw.pkt_len += len;
        raw.nb_segs += segments;
    }

    /// What is known of the L4 checksum.
    #[inline]
    #[must_use]
    pub fn csum(&self) -> Csum {
        match self.raw().ol_flags & sys::RTE_MBUF_F_RX_L4_CKSUM_MASK {
            0 => Csum::Unknown,
            sys::RTE_MBUF_F_RX_L4_CKSUM_GOOD => Csum::Good,
            sys::RTE_MBUF_F_RX_L4_CKSUM_BAD => Csum::Bad,
            _ => Csum::Partial,
        }
    }

    /// Says what is known of the L4 checksum.
    #[inline]
    pub fn set_csum(&mut self, csum: Csum) {
        let known = match csum {
            Csum::Unknown => 0,
            Csum::Good => sys::RTE_MBUF_F_RX_L4_CKSUM_GOOD,
            Csum::Bad => sys::RTE_MBUF_F_RX_L4_CKSUM_BAD,
            Csum::Partial => PARTIAL,
        };
        self.set_flags(self.raw().ol_flags & !sys::RTE_MBUF_F_RX_L4_CKSUM_MASK | known);
    }

    /// What [`Mbuf::set_tag`] wrote since the packet came in; 0: nothing.
    ///
    /// The flag beside the tag is one that each receive queue and each allocation clears. So a
    /// buffer that is used again has no tag.
    #[inline]
    #[must_use]
    pub fn tag(&self) -> u64 {
        let raw = self.raw();
        if raw.ol_flags & sys::RTE_MBUF_F_RX_FDIR_ID == 0 {
            return 0;
        }
        u64::from(raw.hash_hi) << 32 | u64::from(raw.rss)
    }

    /// Marks the packet: the tag stays with it until it is freed, and its copies have it, too. 0
    /// takes the mark off.
    pub fn set_tag(&mut self, tag: u64) {
        let raw = self.raw_mut();
        #[allow(clippy::cast_possible_truncation)] // halves
        {
            (raw.rss, raw.hash_hi) = (tag as u32, (tag >> 32) as u32);
        }
        let others = raw.ol_flags & !sys::RTE_MBUF_F_RX_FDIR_ID;
        self.set_flags(if tag == 0 { others } else { others | sys::RTE_MBUF_F_RX_FDIR_ID });
    }

    /// Nothing is known of the L4 checksum, and it is no GSO packet: whoever wants to know sums.
    #[inline]
    #[must_use]
    pub fn is_unchecked(&self) -> bool {
        self.raw().ol_flags & (sys::RTE_MBUF_F_RX_L4_CKSUM_MASK | sys::RTE_MBUF_F_RX_LRO) == 0
    }

    /// Payload bytes per segment of a GSO packet; 0: an ordinary packet.
    #[inline]
    #[must_use]
    pub fn gso_size(&self) -> u16 {
        if self.raw().ol_flags & sys::RTE_MBUF_F_RX_LRO == 0 {
            return 0;
        }
        #[allow(clippy::cast_possible_truncation)] // a 16-bit field
        {
            (self.raw().tx_offload >> 24) as u16
        }
    }

    /// Makes it a GSO packet (or an ordinary one, with 0).
    pub fn set_gso_size(&mut self, size: u16) {
        let raw = self.raw_mut();
        raw.tx_offload = u64::from(size) << 24;
        let others = raw.ol_flags & !sys::RTE_MBUF_F_RX_LRO;
        self.set_flags(if size == 0 { others } else { others | sys::RTE_MBUF_F_RX_LRO });
    }

    /// Bytes from the L4 header that is segmented to the end of a GSO packet, where that header is
    /// not the outermost one (a packet in a tunnel of its sender); 0: it is the outermost one, or
    /// this is no GSO packet.
    #[inline]
    #[must_use]
    pub fn inner_len(&self) -> u16 {
        if self.raw().ol_flags & sys::RTE_MBUF_F_RX_LRO == 0 {
            return 0;
        }
        // The lowest 16 bits, where nothing else is before transmission
        #[allow(clippy::cast_possible_truncation)]
        {
            self.raw().tx_offload as u16
        }
    }

    /// Makes it a GSO packet whose segments are those of an L4 header inside of a tunnel: that
    /// header and what follows it are the last `inner_len` bytes. Counted from the end, since
    /// headers in front may change on the way.
    pub fn set_inner_gso(&mut self, size: u16, inner_len: u16) {
        self.set_gso_size(size);
        if size != 0 {
            self.raw_mut().tx_offload |= u64::from(inner_len);
        }
    }

    /// Writes all flags at once. Else the compiler writes the bytes that change, and whoever reads
    /// them all next waits until those have left the core's store buffer: some ten cycles.
    #[inline]
    fn set_flags(&mut self, flags: u64) {
        // SAFETY: a field that is ours to write.
        unsafe { (&raw mut self.raw_mut().ol_flags).write_volatile(flags) };
    }

    /// Whether a transmit queue must look at the packet: partial checksum or GSO.
    #[inline]
    #[must_use]
    pub fn needs_offload(&self) -> bool {
        const { assert!(PARTIAL < sys::RTE_MBUF_F_RX_LRO) };
        // Less than both bits of PARTIAL: neither both of them, nor the flag above them.
        self.raw().ol_flags & (PARTIAL | sys::RTE_MBUF_F_RX_LRO) >= PARTIAL
    }

    /// One segment, and nothing for a transmit queue to do but send it.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !self.needs_offload() && self.raw().nb_segs == 1
    }

    /// Asks the device for work at transmission.
    pub fn set_tx_offload(&mut self, tx: TxOffload) {
        let raw = self.raw_mut();
        raw.tx_offload = u64::from(tx.l2_len & 0x7f)
            | u64::from(tx.l3_len & 0x1ff) << 7
            | u64::from(tx.l4_len) << 16
            | u64::from(tx.segment_size) << 24;
        let ip = if tx.ipv4 { sys::RTE_MBUF_F_TX_IPV4 } else { sys::RTE_MBUF_F_TX_IPV6 };
        let l4 = if tx.tcp { sys::RTE_MBUF_F_TX_TCP_CKSUM } else { sys::RTE_MBUF_F_TX_UDP_CKSUM };
        let gso = match tx.segment_size {
            0 => 0,
            _ if tx.ipv4 => sys::RTE_MBUF_F_TX_TCP_SEG | sys::RTE_MBUF_F_TX_IP_CKSUM,
            _ => sys::RTE_MBUF_F_TX_TCP_SEG,
        };
        raw.ol_flags = (raw.ol_flags & !TX_FLAGS) | ip | l4 | gso;
    }

    /// Leaves the checksum of the IPv4 header as it is, whatever else is asked.
    pub fn keep_ip_checksum(&mut self) {
        self.raw_mut().ol_flags &= !sys::RTE_MBUF_F_TX_IP_CKSUM;
    }

    /// Asks the device for nothing.
    pub fn clear_tx_offload(&mut self) {
        self.raw_mut().ol_flags &= !TX_FLAGS;
    }
}

#[inline]
fn data(segment: &rte_mbuf) -> &[u8] {
    // SAFETY: data_off and data_len lie in the buffer, which is initialised; it lives as long as
    // the segment.
    unsafe {
        std::slice::from_raw_parts(segment.buf_addr.cast::<u8>().add(segment.data_off.into()), segment.data_len.into())
    }
}

#[inline]
fn part(segment: &rte_mbuf) -> Part<'_> {
    if segment.ol_flags & sys::RTE_MBUF_F_EXTERNAL == 0 {
        return Part::own(data(segment));
    }
    let at = segment.buf_addr.cast::<u8>().cast_const().wrapping_add(segment.data_off.into());
    // SAFETY: data_off and data_len lie in what is borrowed of the guest, which stays mapped
    // while an mbuf refers to it (`vhost::borrowed`).
    unsafe { Part::borrowed(at, segment.data_len.into()) }
}

#[inline]
fn data_mut(segment: &mut rte_mbuf) -> &mut [u8] {
    // SAFETY: as in `data`, and the segment is borrowed mutably.
    unsafe {
        std::slice::from_raw_parts_mut(
            segment.buf_addr.cast::<u8>().add(segment.data_off.into()),
            segment.data_len.into(),
        )
    }
}
