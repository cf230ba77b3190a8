//! What became of each packet of a burst that was sent.
//!
//! **Where in the walk**: at its end, for ports whose sent packets are captured. Other ports count
//! only how many packets they took.
//!
//! **Design**: the counters of the port say what it took and refused. An Ethernet device and a
//! guest's ring take the packets of an ordinary burst in order and refuse the rest, so a count
//! says which. Kernel ports, bursts with offloads and guests without mergeable buffers may refuse
//! a packet in the middle: there each packet is sent as a burst of its own.
//!
//! **Limits**: a captured packet socket costs one system call per packet.
//!
//! **Threads**: those of [`TxQueue`].

use super::queue::{Sum, TxQueue};
use crate::limits::BURST;
use crate::observe::{DropReason, PortCounters};
use vswitch_dpdk::Burst;

/// By place in the burst: why the port refused the packet, or none if it took it.
pub type Fates = [Option<DropReason>; BURST];

/// Counters of a worker at a port before something is sent.
struct Before {
    packets: u64,
    drops: [u64; DropReason::COUNT],
}

impl Before {
    fn of(counters: &PortCounters) -> Self {
        let drops = std::array::from_fn(|i| counters.tx_drops.get(DropReason::ALL[i]));
        Self { packets: counters.tx_packets.get(), drops }
    }

    fn taken(&self, counters: &PortCounters) -> usize {
        usize::try_from(counters.tx_packets.get() - self.packets).unwrap_or(BURST)
    }

    /// The first reason that was counted since.
    fn reason(&self, counters: &PortCounters) -> DropReason {
        let counted = |reason: &DropReason| counters.tx_drops.get(*reason) != self.drops[reason.index()];
        DropReason::ALL.iter().copied().find(counted).unwrap_or(DropReason::TxError)
    }
}

impl TxQueue {
    /// As [`TxQueue::send`], and says what became of each packet.
    pub fn send_told(&mut self, burst: &mut Burst, sum: Sum, counters: &PortCounters) -> Fates {
        match self {
            #[cfg(feature = "dpdk")]
            Self::Ethdev(_) if !sum.special => self.send_whole(burst, sum, counters),
            Self::Vhost(queue) if queue.takes_in_order(burst) => self.send_whole(burst, sum, counters),
            Self::Dummy(_) => self.send_whole(burst, sum, counters),
            _ => self.send_singly(burst, counters),
        }
    }

    /// A burst of which the port takes a first part.
    fn send_whole(&mut self, burst: &mut Burst, sum: Sum, counters: &PortCounters) -> Fates {
        let (before, offered) = (Before::of(counters), burst.len());
        self.send(burst, sum, counters);
        let taken = before.taken(counters).min(offered);
        let mut fates = [None; BURST];
        if taken < offered {
            fates[taken..offered].fill(Some(before.reason(counters)));
        }
        fates
    }

    /// Each packet as a burst of its own.
    fn send_singly(&mut self, burst: &mut Burst, counters: &PortCounters) -> Fates {
        let mut fates = [None; BURST];
        let mut one = Burst::new();
        for (mbuf, fate) in std::mem::take(burst).drain().zip(&mut fates) {
            let before = Before::of(counters);
            let sum = Sum { bytes: mbuf.len() as u64, special: !mbuf.is_plain() };
            let _ = one.push(mbuf); // it is empty
            self.send(&mut one, sum, counters);
            *fate = (before.taken(counters) == 0).then(|| before.reason(counters));
        }
        fates
    }
}
