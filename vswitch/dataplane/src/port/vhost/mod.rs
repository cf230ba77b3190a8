//! vhost-user ports: guests in QEMU, and virtio-user processes.
//!
//! **Where in the walk**: both ends. Rings, sockets and threads are those of
//! [`vswitch_dpdk::vhost`]; read there what runs when. Here is what a port adds: which ring a queue
//! uses, and what of a guest's packets is believed.
//!
//! **Queues**: receive queue `i` of `n` polls the guest's queue pairs `i`, `i + n`, `i + 2n`, ...
//! that are enabled, so that a guest with more pairs than the port is heard, too (the library
//! offers guests 128 pairs, whatever the port has; 64 are served). Transmit queue `i` uses the
//! `i`-th enabled pair, counted around.
//!
//! **Trust**: a guest's word on checksum and segmentation must be one that it negotiated, and must
//! describe its bytes; else the packet is dropped as [`DropReason::VnetHeader`]. Nothing else is
//! believed.

mod rx;
mod tx;

#[cfg(all(test, feature = "dpdk"))]
mod tests;

pub use rx::VhostRxQueue;
pub use tx::VhostTxQueue;

use super::{DeviceCounters, Link, Quiesce, VhostConfig, VhostMode};
use crate::limits::L2_OVERHEAD;
use crate::packet::{Mac, TxCaps};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use vswitch_dpdk::Mempool;
use vswitch_dpdk::vhost::{Negotiated, Offer, Rings, Vhost, VhostError};

#[cfg(doc)]
use crate::observe::DropReason;

/// Largest L3 packet, shared by queues and device.
#[derive(Clone, Debug)]
struct Mtu(Arc<AtomicU16>);

impl Mtu {
    /// Bytes of the longest frame that is not a GSO packet.
    fn frame_max(&self) -> usize {
        usize::from(self.0.load(Relaxed)) + L2_OVERHEAD
    }
}

/// Control side of a vhost-user port. Dropping it disconnects the guest and closes the socket; by
/// then no worker uses the queues. Must not be dropped with a lock held that `quiesce` needs.
#[derive(Debug)]
pub struct VhostDevice {
    vhost: Vhost,
    rings: Rings,
    mtu: Mtu,
}

/// Opens a vhost-user port with `config.queues` queue pairs.
///
/// `quiesce` is called from librte_vhost's threads whenever a guest leaves, and from the thread
/// that drops the device.
///
/// # Errors
/// See [`VhostError`]; [`VhostError::NoDpdk`] in a build without DPDK.
pub fn open(
    config: &VhostConfig,
    mtu: u16,
    quiesce: Quiesce,
    pool: &Mempool,
) -> Result<(Vec<VhostRxQueue>, Vec<VhostTxQueue>, VhostDevice), VhostError> {
    let offer = Offer {
        client: config.mode == VhostMode::Client,
        multiqueue: config.queues > 1,
        csum: config.csum,
        tso: config.tso,
        mergeable: config.mergeable,
        indirect: config.indirect,
        packed: config.packed,
    };
    let vhost = Vhost::open(&config.path, offer, quiesce)?;
    let rings = vhost.rings();
    let mtu = Mtu(Arc::new(AtomicU16::new(mtu)));
    let queues = config.queues.max(1);
    let rx = (0..queues).map(|i| VhostRxQueue::new(rings.clone(), pool.clone(), mtu.clone(), i, queues)).collect();
    let tx = (0..queues).map(|i| VhostTxQueue::new(rings.clone(), mtu.clone(), i)).collect();
    Ok((rx, tx, VhostDevice { vhost, rings, mtu }))
}

const fn caps(negotiated: Negotiated) -> TxCaps {
    TxCaps { csum: negotiated.tx_csum, tso4: negotiated.tx_tso4, tso6: negotiated.tx_tso6, uso: false }
}

impl VhostDevice {
    /// Up while a guest's driver runs with at least one queue pair enabled both ways.
    #[must_use]
    pub fn link(&self) -> Link {
        Link { up: self.rings.receive_pairs() & self.rings.send_pairs() != 0, speed_mbps: 0 }
    }

    /// None: the guest's address is the guest's affair.
    #[must_use]
    pub const fn mac(&self) -> Option<Mac> {
        None
    }

    /// Sets the largest L3 packet; longer frames are dropped both ways. The guest is not told: its
    /// front end is, when it starts (QEMU: `host_mtu`).
    ///
    /// # Errors
    /// Never.
    #[allow(clippy::unnecessary_wraps)] // same form for all devices
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        self.mtu.0.store(mtu, Relaxed);
        Ok(())
    }

    /// A guest is there to take packets.
    #[inline]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.rings.send_pairs() != 0
    }

    /// What the connected guest takes unfinished; nothing without a guest.
    #[must_use]
    pub fn tx_caps(&self) -> TxCaps {
        caps(self.rings.negotiated())
    }

    /// Virtio features that the connected guest negotiated.
    #[must_use]
    pub fn offloads(&self) -> Vec<&'static str> {
        self.vhost.offloads()
    }

    /// Zeros: everything is counted by the queues.
    #[must_use]
    pub fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
}

#[cfg(all(test, not(feature = "dpdk")))]
mod tests_without_dpdk {
    use super::*;

    #[test]
    fn without_dpdk_opening_names_the_feature() {
        let config = VhostConfig::new("/run/none".into(), VhostMode::Server);
        let error = open(&config, 1500, Arc::new(|| ()), &Mempool::for_tests(1)).expect_err("no DPDK").to_string();
        assert!(error.contains("/run/none") && error.contains("feature dpdk"), "{error}");
    }
}
