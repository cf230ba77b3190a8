//! To the guest.

use super::{Mtu, caps};
use crate::observe::{DropReason, PortCounters, Remains};
use crate::packet::{TxCaps, offload};
use vswitch_dpdk::vhost::{Rings, Unsent};
use vswitch_dpdk::{Burst, Mbuf};

/// A transmit queue: one of the guest's enabled queue pairs.
#[derive(Debug)]
pub struct VhostTxQueue {
    rings: Rings,
    mtu: Mtu,
    index: u32,
}

impl VhostTxQueue {
    pub(super) fn new(rings: Rings, mtu: Mtu, index: u16) -> Self {
        Self { rings, mtu, index: index.into() }
    }

    /// Whether the guest takes the packets of a burst in order and refuses the rest. Otherwise
    /// some may be refused in the middle: an offload that the guest does not take, or a buffer that
    /// is too short.
    pub(in crate::port) fn takes_in_order(&self, burst: &Burst) -> bool {
        let frame_max = self.mtu.frame_max();
        self.rings.is_mergeable() && burst.iter().all(|mbuf| !mbuf.needs_offload() && mbuf.len() <= frame_max)
    }

    /// What the connected guest takes unfinished; nothing without a guest.
    #[inline]
    #[must_use]
    pub fn tx_caps(&self) -> TxCaps {
        caps(self.rings.negotiated())
    }

    /// Copies the burst into the guest's ring and leaves it empty. What does not fit is dropped as
    /// `TxFull` (as `Oversize` if only a longer buffer is missing), everything as `LinkDown` while
    /// no guest takes packets.
    pub fn send(&mut self, burst: &mut Burst, counters: &PortCounters) {
        let dies = |reason: DropReason, mbuf: &Mbuf| counters.tx_drops.count(reason, Remains::Packet(mbuf));
        let pairs = self.rings.send_pairs();
        if pairs == 0 {
            burst.iter().for_each(|mbuf| dies(DropReason::LinkDown, mbuf));
            burst.clear();
            return;
        }
        let frame_max = self.mtu.frame_max();
        let plain = |mbuf: &Mbuf| !mbuf.needs_offload() && mbuf.len() <= frame_max;
        if !burst.iter().all(plain) {
            let caps = self.tx_caps();
            let mut all = std::mem::take(burst);
            for mut mbuf in all.drain() {
                match prepare(&mut mbuf, frame_max, caps) {
                    Ok(()) => drop(burst.push(mbuf)), // never full: as many as before
                    Err(reason) => dies(reason, &mbuf),
                }
            }
        }
        let sent = self.rings.send(nth_set(pairs, self.index), burst, &mut |why, mbuf| dies(reason(why), mbuf));
        counters.tx_packets.add(sent.packets);
        counters.tx_bytes.add(sent.bytes);
    }
}

/// By which reason a packet dies that the guest's ring did not take.
const fn reason(why: Unsent) -> DropReason {
    match why {
        Unsent::Full => DropReason::TxFull,
        Unsent::Oversize => DropReason::Oversize,
        Unsent::Malformed => DropReason::VnetHeader,
        Unsent::Down => DropReason::LinkDown,
    }
}

/// Describes to the library what the guest is to finish.
fn prepare(mbuf: &mut Mbuf, frame_max: usize, caps: TxCaps) -> Result<(), DropReason> {
    let gso = mbuf.gso_size() != 0;
    if !gso && mbuf.len() > frame_max {
        return Err(DropReason::Oversize);
    }
    if !mbuf.needs_offload() {
        return Ok(());
    }
    let tx = offload::describe(mbuf)?;
    let whole = tx.segment_size == 0 || if tx.ipv4 { caps.tso4 } else { caps.tso6 };
    // A guest that was restarted may take less than the one for which the packet was prepared.
    if caps.csum && whole { Ok(()) } else { Err(DropReason::VnetHeader) }
}

/// The number of the `n`-th set bit, counted around; `mask` is not 0.
fn nth_set(mask: u64, n: u32) -> u16 {
    let mut left = mask;
    for _ in 0..n % mask.count_ones() {
        left &= left - 1;
    }
    #[allow(clippy::cast_possible_truncation)] // below 64
    {
        left.trailing_zeros() as u16
    }
}

#[cfg(test)]
mod tests {
    use super::nth_set;

    #[test]
    fn queues_go_around_the_enabled_pairs() {
        let queues = |mask: u64| (0..6).map(|i| nth_set(mask, i)).collect::<Vec<_>>();
        assert_eq!(queues(0b1), [0; 6]);
        assert_eq!(queues(0b11), [0, 1, 0, 1, 0, 1]);
        assert_eq!(queues(0b1011_0000), [4, 5, 7, 4, 5, 7]);
        assert_eq!(queues(1 << 63), [63; 6]);
        assert_eq!(nth_set(u64::MAX, 63), 63);
    }
}
