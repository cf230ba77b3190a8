//! From the guest.

use super::Mtu;
use crate::limits::{BURST, FRAME_MAX};
use crate::observe::{DropReason, PortCounters, Remains};
use crate::packet::VnetHdr;
use vswitch_dpdk::vhost::{GuestMemory, Lost, Negotiated, PAIRS_MAX, Rings, ZeroCopy};
use vswitch_dpdk::{Burst, Csum, Mbuf, Mempool};

/// Rings that one poll looks into at most: a guest with 64 empty queue pairs does not slow its
/// worker down.
const POLL_MAX: usize = 8;

/// `VIRTIO_NET_HDR_GSO_TCPV4` and `..._TCPV6`, without the ECN bit (virtio 1.1, 5.1.6).
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

/// Mbufs that one poll may take: a burst of the longest packets. The pool is everybody's, and a
/// guest decides how long a packet is.
pub(super) fn budget(pool: &Mempool) -> u32 {
    u32::try_from(BURST * FRAME_MAX.div_ceil(pool.segment_len())).unwrap_or(u32::MAX)
}

/// A receive queue: its share of the guest's queue pairs.
#[derive(Debug)]
pub struct VhostRxQueue {
    rings: Rings,
    pool: Mempool,
    mtu: Mtu,
    budget: u32,
    /// Queue pairs that are ours, one bit each.
    share: u64,
    /// Queue pair to look into first.
    next: u32,
    /// Where the guest's memory is.
    memory: GuestMemory,
    /// For packets that are borrowed from it; empty in between.
    borrowed: Box<Burst>,
}

impl VhostRxQueue {
    pub(super) fn new(rings: Rings, pool: Mempool, mtu: Mtu, index: u16, of: u16) -> Self {
        let share = (index..PAIRS_MAX).step_by(of.into()).fold(0, |share, pair| share | 1 << pair);
        Self {
            rings,
            budget: budget(&pool),
            pool,
            mtu,
            share,
            next: 0,
            memory: GuestMemory::default(),
            borrowed: Box::default(),
        }
    }

    /// Appends what the guest sent, or takes it through `forward`. Drops what is too long and what
    /// lies about its checksum or segmentation.
    pub fn receive(&mut self, burst: &mut Burst, counters: &PortCounters, forward: &mut dyn FnMut(&mut Burst)) {
        let enabled = self.rings.receive_pairs() & self.share;
        if enabled == 0 {
            return;
        }
        let start = burst.iter().count();
        let first = self.next;
        let mut budget = self.budget;
        let mut left = enabled.rotate_right(first);
        let (mtu, rings, pool) = (&self.mtu, &self.rings, &self.pool);
        let mut forward = |borrowed: &mut Burst| {
            keep_good(borrowed, 0, mtu, rings, counters);
            own_short(borrowed, pool, counters);
            if !borrowed.is_empty() {
                forward(borrowed);
            }
        };
        for _ in 0..POLL_MAX {
            if left == 0 || burst.is_full() {
                break;
            }
            let pair = (first + left.trailing_zeros()) % u32::from(PAIRS_MAX);
            left &= left - 1;
            #[allow(clippy::cast_possible_truncation)] // below PAIRS_MAX
            let pair16 = pair as u16;
            let zero_copy = ZeroCopy { memory: &mut self.memory, burst: &mut self.borrowed, forward: &mut forward };
            let received = rings.receive(pair16, &self.pool, burst, &mut budget, Some(zero_copy));
            match received.lost {
                None => {}
                // Nobody knows how long
                Some(Lost::TooLong) => counters.refuse(DropReason::Oversize, Remains::Nothing),
                Some(Lost::NoMbuf) => counters.refuse(DropReason::NoMbuf, Remains::Nothing),
                Some(Lost::BadChain) => counters.refuse(DropReason::VhostDesc, Remains::Nothing),
            }
            self.next = (pair + 1) % u32::from(PAIRS_MAX);
            if received.borrowed > 0 {
                break; // they were a burst of their own
            }
        }
        keep_good(burst, start, mtu, rings, counters);
    }
}

/// Copies what is borrowed and turned out not to be for segmentation: what is borrowed any further
/// is TCP, in no tunnel and no fragment, so that nothing behind its head decides anything.
fn own_short(borrowed: &mut Burst, pool: &Mempool, counters: &PortCounters) {
    if borrowed.iter().all(|mbuf| mbuf.gso_size() != 0) {
        return;
    }
    let mut all = std::mem::take(borrowed);
    for mbuf in all.drain() {
        if mbuf.gso_size() != 0 {
            drop(borrowed.push(mbuf)); // never full: as many as before
            continue;
        }
        match mbuf.copy(pool) {
            Some(copy) => drop(borrowed.push(copy)), // as above
            None => counters.refuse(DropReason::NoMbuf, Remains::Packet(&mbuf)),
        }
    }
}

/// Drops what a guest may not send. What came before `start` was checked by whoever put it there.
fn keep_good(burst: &mut Burst, start: usize, mtu: &Mtu, rings: &Rings, counters: &PortCounters) {
    let frame_max = mtu.frame_max();
    let plain = |mbuf: &Mbuf| !mbuf.needs_offload() && mbuf.len() <= frame_max;
    if burst.iter().skip(start).all(plain) {
        return;
    }
    let negotiated = rings.negotiated();
    let mut all = std::mem::take(burst);
    for (i, mut mbuf) in all.drain().enumerate() {
        match if i < start { Ok(()) } else { check(&mut mbuf, frame_max, negotiated) } {
            Ok(()) => drop(burst.push(mbuf)), // never full: as many as before
            Err(reason) => counters.refuse(reason, Remains::Packet(&mbuf)),
        }
    }
}

/// Whether a guest may send this packet. Segmentation of what is one segment anyway is forgotten.
fn check(mbuf: &mut Mbuf, frame_max: usize, negotiated: Negotiated) -> Result<(), DropReason> {
    if mbuf.needs_offload() {
        let gso = mbuf.gso_size() != 0;
        let may_gso = negotiated.rx_tso4 || negotiated.rx_tso6;
        if mbuf.csum() != Csum::Partial || !negotiated.rx_csum || (gso && !may_gso) {
            return Err(DropReason::VnetHeader);
        }
        let header = VnetHdr::describe(mbuf)?;
        match header.gso_type & !GSO_ECN {
            0 => mbuf.set_gso_size(0),
            GSO_TCPV4 if negotiated.rx_tso4 => {}
            GSO_TCPV6 if negotiated.rx_tso6 => {}
            // The library also takes UFO, which nobody negotiated
            _ => return Err(DropReason::VnetHeader),
        }
    }
    let len_max = if mbuf.gso_size() == 0 { frame_max } else { FRAME_MAX };
    if mbuf.len() > len_max { Err(DropReason::Oversize) } else { Ok(()) }
}
