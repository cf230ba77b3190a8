//! The two ends of the walk: one `match` per burst.

use super::af_packet::{AfPacketRxQueue, AfPacketTxQueue};
use super::dummy::{DummyRxQueue, DummyTxQueue};
use super::tap::{TapRxQueue, TapTxQueue};
use super::vhost::{VhostRxQueue, VhostTxQueue};
use crate::observe::PortCounters;
use vswitch_dpdk::Burst;

#[cfg(feature = "dpdk")]
use super::ethdev::EthdevTxQueue;
#[cfg(feature = "dpdk")]
use super::memif::MemifRxQueue;
#[cfg(feature = "dpdk")]
use vswitch_dpdk::ethdev::EthRxQueue;

/// What the gatherer of a burst knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Bytes of all packets.
    pub bytes: u64,
    /// Some packet is not plain ([`vswitch_dpdk::Mbuf::is_plain`]).
    pub special: bool,
}

/// A receive queue, owned by the worker that polls it.
#[derive(Debug)]
pub enum RxQueue {
    /// Of an Ethernet device of DPDK.
    #[cfg(feature = "dpdk")]
    Ethdev(EthRxQueue),
    /// Of a memif device.
    #[cfg(feature = "dpdk")]
    Memif(MemifRxQueue),
    /// Of a TAP interface.
    Tap(TapRxQueue),
    /// Of a packet socket.
    AfPacket(AfPacketRxQueue),
    /// Of a guest.
    Vhost(VhostRxQueue),
    /// Of a dummy port.
    Dummy(DummyRxQueue),
    /// Of a test.
    #[cfg(any(test, fuzzing))]
    Sim(super::sim::SimRxQueue),
}

/// A transmit queue, shared behind one lock per burst.
#[derive(Debug)]
pub enum TxQueue {
    /// Of an Ethernet device of DPDK.
    #[cfg(feature = "dpdk")]
    Ethdev(EthdevTxQueue),
    /// Of a TAP interface.
    Tap(TapTxQueue),
    /// Of a packet socket.
    AfPacket(AfPacketTxQueue),
    /// Of a guest.
    Vhost(VhostTxQueue),
    /// Of a dummy port.
    Dummy(DummyTxQueue),
    /// Of a test.
    #[cfg(any(test, fuzzing))]
    Sim(super::sim::SimTxQueue),
}

impl RxQueue {
    /// Appends what came in, up to the burst's free slots. Never blocks. What had to be refused is
    /// counted in `rx_drops`.
    ///
    /// Packets that are borrowed from a guest come through `forward` instead: it takes them all
    /// their way, and may not send to this port meanwhile.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst, counters: &PortCounters, forward: &mut dyn FnMut(&mut Burst)) {
        match self {
            #[cfg(feature = "dpdk")]
            Self::Ethdev(queue) => queue.receive(burst),
            #[cfg(feature = "dpdk")]
            Self::Memif(queue) => queue.receive(burst, counters),
            Self::Tap(queue) => queue.receive(burst, counters),
            Self::AfPacket(queue) => queue.receive(burst, counters),
            Self::Vhost(queue) => queue.receive(burst, counters, forward),
            Self::Dummy(queue) => queue.receive(burst, counters),
            #[cfg(any(test, fuzzing))]
            Self::Sim(queue) => queue.receive(burst),
        }
    }
}

impl RxQueue {
    /// Time has passed without polls: whatever backs off by counting polls starts over.
    pub fn wake(&mut self) {
        if let Self::Tap(queue) = self {
            queue.wake();
        }
    }
}

impl TxQueue {
    /// Sends or drops every mbuf of the burst, counts both, and leaves the burst empty. Never
    /// blocks.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst, sum: Sum, counters: &PortCounters) {
        let _ = sum; // of use to some

        match self {
            #[cfg(feature = "dpdk")]
            Self::Ethdev(queue) => queue.send(burst, sum, counters),
            Self::Tap(queue) => queue.send(burst, counters),
            Self::AfPacket(queue) => queue.send(burst, counters),
            Self::Vhost(queue) => queue.send(burst, counters),
            Self::Dummy(queue) => queue.send(burst, counters),
            #[cfg(any(test, fuzzing))]
            Self::Sim(queue) => queue.send(burst, counters),
        }
    }
}
