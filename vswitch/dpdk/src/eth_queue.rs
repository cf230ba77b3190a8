//! Queues of Ethernet devices: bursts in and out.

use super::Burst;
use dpdk_sys as sys;

/// A receive queue. Its one owner polls it.
#[derive(Debug)]
pub struct EthRxQueue {
    pub(super) port: u16,
    pub(super) queue: u16,
}

/// A transmit queue. One thread at a time (`&mut`).
#[derive(Debug)]
pub struct EthTxQueue {
    pub(super) port: u16,
    pub(super) queue: u16,
}

impl EthRxQueue {
    /// Appends what the device has, up to the burst's free slots.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) {
        let have = burst.len();
        let slots = &mut burst.slots_mut()[have..];
        #[allow(clippy::cast_possible_truncation)] // at most BURST
        let free = slots.len() as u16;
        let slots = slots.as_mut_ptr().cast::<*mut sys::rte_mbuf>();
        // SAFETY: Option<Mbuf> is a nullable pointer and the slots are None; the driver gives us
        // the first `n` chains. Vector drivers also write pointers behind them, to mbufs that stay
        // theirs: those are overwritten. The queue exists until its Ethdev is dropped, which the
        // port room does after the last use.
        let n = unsafe {
            let n = sys::vs_eth_rx_burst(self.port, self.queue, slots, free).min(free);
            if n < free {
                std::ptr::write_bytes(slots.add(n.into()), 0, (free - n).into());
            }
            n
        };
        burst.set_len(have + usize::from(n));
    }
}

impl EthTxQueue {
    /// Gives the device the front of the burst, as much as it takes; the rest stays, in order.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) {
        let have = burst.len();
        let slots = burst.slots_mut().as_mut_ptr().cast::<*mut sys::rte_mbuf>();
        // SAFETY: the first `have` slots hold owned chains; those that the driver took are
        // overwritten with null, without drop. See `receive` for the queue's life.
        let n = unsafe {
            #[allow(clippy::cast_possible_truncation)] // at most BURST
            let n = sys::vs_eth_tx_burst(self.port, self.queue, slots, have as u16);
            std::ptr::write_bytes(slots, 0, n.into());
            n
        };
        burst.consume_front(n.into());
    }

    /// Lets the driver check and complete packets that ask for offloads; returns how many at the
    /// front are fit to send.
    pub fn prepare(&mut self, burst: &mut Burst) -> usize {
        let have = burst.len();
        let slots = burst.slots_mut().as_mut_ptr().cast();
        #[allow(clippy::cast_possible_truncation)] // at most BURST
        let have = have as u16;
        // SAFETY: the first `have` slots hold owned chains, which the driver may write but does not
        // take.
        usize::from(unsafe { sys::vs_eth_tx_prepare(self.port, self.queue, slots, have) })
    }
}
