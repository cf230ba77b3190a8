//! Receive queues of memif devices (DPDK's `net_memif`), whose peer is another process that shares
//! memory with us.
//!
//! **Design**: DPDK 22.11's driver believes the descriptors of its peer. A chain that does not end
//! takes mbufs until there are none, and what it took then is lost. So the driver has a pool of its
//! own ([`MBUFS`]), and what it receives is copied at once into mbufs of the switch. Between two
//! calls nothing of that pool is in use, unless it is lost: [`Memif::lost`] tells, and the control
//! side takes the port down. With the port the pool goes, and with it all that was lost.
//!
//! **Limits**: a packet longer than [`FRAME_MAX`] is dropped as oversize.
//!
//! **Not here**: a peer that takes away the memory that both use. A peer whose descriptors have
//! flags of earlier packets (DPDK's own driver leaves them, if it sent chains before) makes the
//! driver receive packets that nobody sent; nobody can tell.

use crate::limits::FRAME_MAX;
use crate::observe::{DropReason, PortCounters, Remains};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use vswitch_dpdk::ethdev::EthRxQueue;
use vswitch_dpdk::{Burst, Mempool};

/// Mbufs of the driver's pool: some bursts of packets of the largest MTU.
const MBUFS: usize = 1023;

/// More of them are never in use for longer than a burst takes.
const LOST: usize = MBUFS / 2;

/// The pool of a memif device, for the control side. Dropped behind the device.
#[derive(Debug)]
pub struct Memif {
    pool: Mempool,
    /// Looks in a row that found too many mbufs in use.
    looks: AtomicU32,
}

impl Memif {
    /// Looks in a row after which what is in use is lost: a worker may be in the middle of a burst
    /// at one.
    const LOOKS: u32 = 3;

    /// A pool for a device.
    ///
    /// # Errors
    /// In words: there is not enough memory.
    pub fn new() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("memif{}", NEXT.fetch_add(1, Relaxed));
        let pool = Mempool::create(&name, MBUFS).map_err(|error| error.to_string())?;
        Ok(Self { pool, looks: AtomicU32::new(0) })
    }

    /// The pool that the driver is to receive into.
    #[must_use]
    pub const fn pool(&self) -> &Mempool {
        &self.pool
    }

    /// Why the port is to be taken down: its peer made the driver lose mbufs. To be asked again and
    /// again.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        let in_use = self.pool.in_use();
        if in_use < LOST {
            self.looks.store(0, Relaxed);
            return None;
        }
        (self.looks.fetch_add(1, Relaxed) + 1 >= Self::LOOKS).then(|| {
            format!(
                "its memif peer gave descriptors that are no packets, and {in_use} of the port's {MBUFS} mbufs are lost; the \
                 port is closed: mend or restart the peer, then set the port up (vsctl mod-port BRIDGE PORT up)"
            )
        })
    }
}

/// A receive queue whose packets are copied.
#[derive(Debug)]
pub struct MemifRxQueue {
    queue: EthRxQueue,
    /// Of the switch.
    pool: Mempool,
    /// Scratch space, empty between calls.
    theirs: Burst,
}

impl MemifRxQueue {
    /// Receives from a device's queue into mbufs of `pool`.
    #[must_use]
    pub const fn new(queue: EthRxQueue, pool: Mempool) -> Self {
        Self { queue, pool, theirs: Burst::new() }
    }

    /// Puts what came in into the burst, if it is empty.
    pub fn receive(&mut self, burst: &mut Burst, counters: &PortCounters) {
        if !burst.is_empty() {
            return;
        }
        self.queue.receive(&mut self.theirs);
        for mbuf in self.theirs.drain() {
            if mbuf.len() > FRAME_MAX {
                counters.refuse(DropReason::Oversize, Remains::Packet(&mbuf));
                continue;
            }
            match mbuf.copy(&self.pool) {
                Some(copy) => drop(burst.push(copy)), // never full: as many as the scratch space
                None => counters.refuse(DropReason::NoMbuf, Remains::Packet(&mbuf)),
            }
        }
    }
}
