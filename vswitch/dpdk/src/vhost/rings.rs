//! The data path: bursts out of and into a guest's rings.

use super::borrowed::{Taking, take};
use super::shared::{NONE, Shared};
use super::{Lost, Negotiated, Received, Sent, Unsent, ZeroCopy, features};
use crate::limits::BURST;
use crate::{Burst, Mbuf, Mempool};
use dpdk_sys as sys;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use sys::rte_mbuf;

/// Everything that asks the library for work at transmission.
const TX_FLAGS: u64 = sys::RTE_MBUF_F_TX_TCP_SEG
    | sys::RTE_MBUF_F_TX_L4_MASK
    | sys::RTE_MBUF_F_TX_IP_CKSUM
    | sys::RTE_MBUF_F_TX_IPV4
    | sys::RTE_MBUF_F_TX_IPV6;

/// The rings of one socket's guest. All methods are calls of one burst: they neither block nor
/// allocate, apart from the library's own lock per ring, and a list of regions whenever the guest's
/// memory has changed.
#[derive(Clone, Debug)]
pub struct Rings {
    shared: Arc<Shared>,
}

impl Rings {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// What the connected guest negotiated.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        features::meaning(self.shared.features())
    }

    /// Whether the guest takes packets that are longer than one of its buffers.
    #[must_use]
    pub fn is_mergeable(&self) -> bool {
        features::is_mergeable(self.shared.features())
    }

    /// Queue pairs from which the guest may send, one bit each; 0 without a guest.
    #[inline]
    #[must_use]
    pub fn receive_pairs(&self) -> u64 {
        self.shared.receive_pairs()
    }

    /// Queue pairs into which the guest takes packets, one bit each; 0 without a guest.
    #[inline]
    #[must_use]
    pub fn send_pairs(&self) -> u64 {
        self.shared.send_pairs()
    }

    /// Appends what the guest sent on a queue pair, as far as `budget` mbufs suffice, which is
    /// lessened by what was taken. What packets say of themselves (`csum`, `gso_size`) is the
    /// guest's word. With `zero_copy`, long packets may go through that instead.
    pub fn receive(
        &self,
        pair: u16,
        pool: &Mempool,
        burst: &mut Burst,
        budget: &mut u32,
        zero_copy: Option<ZeroCopy<'_>>,
    ) -> Received {
        let vid = self.shared.vid();
        if vid == NONE || burst.is_full() || self.shared.is_remapping() {
            return Received::default();
        }
        if self.shared.take_kicking(pair) {
            self.shared.bad_chains.forget(pair);
            greet(vid, pair);
        }
        let at = burst.len();
        let free = &mut burst.slots_mut()[at..];
        let room = free.len();
        let slots = free.as_mut_ptr().cast::<*mut rte_mbuf>();
        let (queue, mut lost) = (2 * pair + 1, sys::VS_LOST_NONE);
        let (mut zero_copy, mut borrowed) = (zero_copy, 0);
        let mut taking = zero_copy.as_mut().map(|zero_copy| Taking {
            vid,
            ring: queue,
            shared: &self.shared,
            pool,
            budget: *budget,
            zero_copy,
            taken: 0,
        });
        let (call, context): (sys::vs_take, *mut c_void) = match &mut taking {
            Some(taking) => (Some(take), std::ptr::from_mut(taking).cast()),
            None => (None, std::ptr::null_mut()),
        };
        #[allow(clippy::cast_possible_truncation)] // at most BURST
        // SAFETY: Option<Mbuf> is a nullable pointer, and all `room` slots are None. The device is
        // not destroyed while we are here (`destroy_device` waits). The slots behind those that it
        // gives us stay empty: what the library leaves there the shim clears. The shim was prepared
        // when the socket was opened. `context` is what `take` needs, and ours until the call ends.
        let n = unsafe {
            let (room, budget, lost) = (room as u16, &raw mut *budget, &raw mut lost);
            sys::vs_vhost_dequeue_burst(vid, queue, pool.as_ptr(), slots, room, budget, lost, call, context)
        };
        if let Some(taking) = taking.filter(|taking| taking.taken > 0) {
            *budget = taking.budget;
            borrowed = taking.taken.into();
            if self.shared.is_remapping() {
                self.shared.call_later(pair); // waiting for the lock could take long
            } else {
                // SAFETY: as above. The lock was given back.
                unsafe { sys::rte_vhost_vring_call(vid, queue) };
            }
        }
        let n = usize::from(n).min(room);
        burst.set_len(at + n);
        let lost = match lost {
            sys::VS_LOST_TOO_LONG => Some(Lost::TooLong),
            sys::VS_LOST_NO_MBUF => Some(Lost::NoMbuf),
            sys::VS_LOST_CHAIN if self.is_another_chain(vid, pair, n) => Some(Lost::BadChain),
            _ => None,
        };
        Received { packets: n, borrowed, lost }
    }

    /// Whether the chain behind so many packets, of which the library made none, has not been told
    /// yet. Of packed rings the library does not say how many chains there are.
    #[cold]
    fn is_another_chain(&self, vid: c_int, pair: u16, packets: usize) -> bool {
        if features::is_packed(self.shared.features()) {
            return false;
        }
        let (mut next, mut used) = (0, 0);
        // SAFETY: two numbers are written. The device is not destroyed while we are here. Without
        // the ring's lock, as somebody may move it meanwhile: then one more is counted, or one
        // less.
        let rc = unsafe { sys::rte_vhost_get_vring_base(vid, 2 * pair + 1, &raw mut next, &raw mut used) };
        rc == 0 && self.shared.bad_chains.is_another(pair, packets, next)
    }

    /// Copies a burst into a queue pair of the guest and leaves the burst empty. `unsent` sees each
    /// packet that the ring did not take.
    pub fn send(&self, pair: u16, burst: &mut Burst, unsent: &mut dyn FnMut(Unsent, &Mbuf)) -> Sent {
        let mut sent = Sent::default();
        let vid = self.shared.vid();
        let len = burst.len();
        let slots = burst.slots_mut().as_mut_ptr().cast::<*mut rte_mbuf>();
        let mut mbufs = [std::ptr::null_mut(); BURST];
        // By slot: why its packet was not sent. By mbuf: its slot.
        let mut fates = [None; BURST];
        let mut places = [0; BURST];
        let mut n = 0;
        for (i, fate) in fates.iter_mut().enumerate().take(len) {
            // SAFETY: Option<Mbuf> is a nullable pointer; `i` is a slot.
            let raw = unsafe { *slots.add(i) };
            // SAFETY: null, or an mbuf that the burst owns.
            let Some(mbuf) = (unsafe { raw.as_mut() }) else { continue };
            if !settle_offload(mbuf) {
                *fate = Some(Unsent::Malformed);
                continue;
            }
            (mbufs[n], places[n]) = (raw, i);
            n += 1;
        }
        let mut all = |why: Unsent| places[..n].iter().for_each(|place| fates[*place] = Some(why));
        if vid == NONE {
            all(Unsent::Down);
        } else if self.shared.is_remapping() {
            all(Unsent::Full); // waiting for the library could take long
        } else {
            self.enqueue(vid, 2 * pair, &mut mbufs[..n], &mut sent, |i, why| fates[places[i]] = Some(why));
        }
        for (mbuf, fate) in burst.slots().iter().zip(fates) {
            if let (Some(mbuf), Some(why)) = (mbuf, fate) {
                unsent(why, mbuf);
            }
        }
        burst.clear();
        sent
    }

    /// Copies mbufs into a ring. They are the burst's, and stay there. `unsent`: by index.
    fn enqueue(
        &self,
        vid: c_int,
        ring: u16,
        mbufs: &mut [*mut rte_mbuf],
        sent: &mut Sent,
        mut unsent: impl FnMut(usize, Unsent),
    ) {
        let mut copy = |mbufs: &mut [*mut rte_mbuf]| {
            #[allow(clippy::cast_possible_truncation)] // at most BURST
            // SAFETY: mbufs that the burst owns and keeps: the library copies them. Offload
            // requests lie inside their first segments. The device is not destroyed while we are
            // here.
            let taken = unsafe { sys::rte_vhost_enqueue_burst(vid, ring, mbufs.as_mut_ptr(), mbufs.len() as u16) };
            let taken = usize::from(taken).min(mbufs.len());
            // SAFETY: as above; the mbufs are still ours.
            sent.bytes += mbufs[..taken].iter().map(|mbuf| u64::from(unsafe { (**mbuf).pkt_len })).sum::<u64>();
            sent.packets += taken as u64;
            taken
        };
        let taken = copy(mbufs);
        let Some((_, rest)) = mbufs[taken..].split_first_mut() else { return };
        // Without mergeable buffers the library stops at a packet that is longer than the next
        // buffer, as if the ring were full. If it takes what is behind, the ring was not.
        let skipped = if rest.is_empty() || features::is_mergeable(self.shared.features()) { 0 } else { copy(rest) };
        unsent(taken, if skipped > 0 { Unsent::Oversize } else { Unsent::Full });
        (taken + 1 + skipped..mbufs.len()).for_each(|i| unsent(i, Unsent::Full));
    }
}

/// Tells the guest not to kick for the rings of a pair: they are polled. And calls it once: a
/// predecessor may have been killed after it used the last of a ring's buffers and before it
/// called, and without a buffer nothing would ever happen in that ring again. Rings that are not
/// ready are left alone; the pair is marked again when they are.
#[cold]
fn greet(vid: c_int, pair: u16) {
    for ring in [2 * pair, 2 * pair + 1] {
        // SAFETY: the device is not destroyed while a worker is in `receive`; the library checks
        // the ring, under its lock.
        unsafe {
            sys::rte_vhost_enable_guest_notification(vid, ring, 0);
            sys::rte_vhost_vring_call(vid, ring);
        }
    }
}

/// Whether the library may act on the mbuf's transmit offload: it writes checksums where the
/// lengths say, without a look at the packet's length. Requests left over from another way out, on
/// a packet that needs nothing, are removed.
fn settle_offload(mbuf: &mut rte_mbuf) -> bool {
    let partial = mbuf.ol_flags & sys::RTE_MBUF_F_RX_L4_CKSUM_MASK == sys::RTE_MBUF_F_RX_L4_CKSUM_NONE;
    if !partial && mbuf.ol_flags & sys::RTE_MBUF_F_RX_LRO == 0 {
        mbuf.ol_flags &= !TX_FLAGS;
        return true;
    }
    let flags = mbuf.ol_flags & TX_FLAGS;
    let ipv4 = flags & sys::RTE_MBUF_F_TX_IPV4 != 0;
    let l2 = (mbuf.tx_offload & 0x7f) as usize;
    let l3 = (mbuf.tx_offload >> 7 & 0x1ff) as usize;
    let l4 = (mbuf.tx_offload >> 16 & 0xff) as usize;
    let l4_min = match flags & sys::RTE_MBUF_F_TX_L4_MASK {
        sys::RTE_MBUF_F_TX_TCP_CKSUM => 20,
        sys::RTE_MBUF_F_TX_UDP_CKSUM => 8,
        _ => return false, // nothing was described
    };
    let l3_min = if ipv4 { 20 } else { 40 };
    if l3 < l3_min || l2 + l3 + l4.max(l4_min) > usize::from(mbuf.data_len) {
        return false;
    }
    // SAFETY: the byte lies in the first segment, as just checked.
    let first = unsafe { *mbuf.buf_addr.cast::<u8>().add(usize::from(mbuf.data_off) + l2) };
    // The IPv4 checksum covers as many bytes as the header itself says.
    !ipv4 || usize::from(first & 0xf) * 4 <= l3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Csum, Mbuf, TxOffload};

    fn settle(mbuf: Mbuf) -> (bool, Mbuf) {
        let mut burst = Burst::new();
        burst.push(mbuf).expect("room");
        // SAFETY: slot 0 holds an mbuf that the burst owns.
        let ok = settle_offload(unsafe { &mut **burst.slots_mut().as_mut_ptr().cast::<*mut rte_mbuf>() });
        (ok, burst.take(0).expect("still there"))
    }

    #[test]
    fn offload_outside_the_first_segment_is_refused() {
        let pool = Mempool::for_tests(8);
        let tcp4 = TxOffload { l2_len: 14, l3_len: 20, l4_len: 20, ipv4: true, tcp: true, segment_size: 0 };
        let mut bytes = [0; 54];
        bytes[14] = 0x45;
        let partial = |bytes: &[u8], tx: TxOffload| {
            let mut mbuf = pool.mbuf_from(bytes).expect("mbuf");
            mbuf.set_csum(Csum::Partial);
            mbuf.set_tx_offload(tx);
            settle(mbuf).0
        };
        assert!(partial(&bytes, tcp4));
        assert!(!partial(&bytes[..53], tcp4), "one byte short");
        assert!(!partial(&bytes, TxOffload { l3_len: 19, ..tcp4 }), "shorter than an IPv4 header");
        assert!(!partial(&bytes, TxOffload { l3_len: 511, l2_len: 127, ..tcp4 }));
        assert!(!partial(&bytes, TxOffload { ipv4: false, ..tcp4 }), "shorter than an IPv6 header");
        assert!(partial(&[&bytes[..], &[0; 20]].concat(), TxOffload { ipv4: false, l3_len: 40, ..tcp4 }));
        bytes[14] = 0x4f;
        assert!(!partial(&bytes, tcp4), "the header says 60 bytes");
    }

    #[test]
    fn requests_left_over_are_removed_and_missing_ones_refused() {
        let pool = Mempool::for_tests(8);
        let mut mbuf = pool.mbuf_from(&[0; 60]).expect("mbuf");
        mbuf.set_tx_offload(TxOffload { l2_len: 127, l3_len: 511, ipv4: true, tcp: true, ..Default::default() });
        let (ok, mut mbuf) = settle(mbuf);
        assert!(ok);
        mbuf.set_csum(Csum::Partial);
        assert!(!settle(mbuf).0, "the request was removed, and nothing describes the partial checksum");
    }
}
