//! Ports on DPDK's Ethernet devices: kinds `dpdk` and `pcap`.

use super::device::{DeviceCounters, Link};
use super::memif::Memif;
use super::queue::Sum;
use crate::observe::{DropReason, PortCounters, Remains};
use crate::packet::{Mac, TxCaps, offload};
use vswitch_dpdk::Burst;
use vswitch_dpdk::ethdev::{EthTxQueue, Ethdev};

/// Transmit queue of an Ethernet device.
#[derive(Debug)]
pub struct EthdevTxQueue {
    queue: EthTxQueue,
    multi_segment: bool,
    fills_ip_checksums: bool,
}

impl EthdevTxQueue {
    /// Wraps a queue of a device that can, or cannot, send several segments and compute checksums
    /// of IPv4 headers.
    #[must_use]
    pub const fn new(queue: EthTxQueue, multi_segment: bool, fills_ip_checksums: bool) -> Self {
        Self { queue, multi_segment, fills_ip_checksums }
    }

    /// Sends or drops every mbuf of the burst, and counts.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst, sum: Sum, counters: &PortCounters) {
        let mut bytes = sum.bytes;
        if sum.special {
            bytes = self.prepare(burst, counters);
        }
        let offered = burst.len();
        self.queue.send(burst);
        let left = burst.len();
        if left > 0 {
            for mbuf in burst.iter() {
                bytes -= mbuf.len() as u64;
                counters.tx_drops.count(DropReason::TxFull, Remains::Packet(mbuf));
            }
            burst.clear();
        }
        counters.tx_packets.add((offered - left) as u64);
        counters.tx_bytes.add(bytes);
    }

    /// Describes offloads to the device and drops what it cannot send; returns the bytes that are
    /// left.
    #[cold]
    fn prepare(&mut self, burst: &mut Burst, counters: &PortCounters) -> u64 {
        let mut fit = Burst::new();
        for mut mbuf in burst.drain() {
            let described = if mbuf.needs_offload() { offload::describe(&mut mbuf).map(drop) } else { Ok(()) };
            if !self.fills_ip_checksums {
                mbuf.keep_ip_checksum();
            }
            let reason = match described {
                Ok(()) if mbuf.nb_segs() == 1 || self.multi_segment => {
                    let _ = fit.push(mbuf); // as large as the burst it comes from
                    continue;
                }
                Ok(()) => DropReason::TxError,
                Err(reason) => reason,
            };
            counters.tx_drops.count(reason, Remains::Packet(&mbuf));
        }
        std::mem::swap(burst, &mut fit);
        // The driver stops at the first packet that it cannot send: take that one out and go on
        // behind it.
        let mut from = 0;
        while from < burst.len() {
            from = self.queue.prepare(burst).max(from);
            if from < burst.len() {
                let remains =
                    burst.slots().get(from).and_then(Option::as_ref).map_or(Remains::Nothing, Remains::Packet);
                counters.tx_drops.count(DropReason::TxError, remains);
                burst.remove(from);
            }
        }
        burst.iter().map(|mbuf| mbuf.len() as u64).sum()
    }
}

/// Control side of an Ethernet device.
#[derive(Debug)]
pub struct EthdevPort {
    /// The device.
    pub device: Ethdev,
    /// What it receives into, if its peer is not to be believed. Behind the device: it is dropped
    /// after it.
    pub memif: Option<Memif>,
}

impl EthdevPort {
    /// Carrier and speed.
    #[must_use]
    pub fn link(&self) -> Link {
        let (up, speed_mbps) = self.device.link();
        Link { up, speed_mbps }
    }

    /// The device's address.
    #[must_use]
    pub fn mac(&self) -> Mac {
        self.device.mac()
    }

    /// Changes the MTU.
    ///
    /// # Errors
    /// When the driver refuses, in words.
    pub fn set_mtu(&self, mtu: u16) -> Result<(), String> {
        self.device.set_mtu(mtu).map_err(|error| error.to_string())
    }

    /// What it takes unfinished.
    #[must_use]
    pub fn tx_caps(&self) -> TxCaps {
        TxCaps {
            csum: self.device.has_tx_csum(),
            tso4: self.device.has_tso4(),
            tso6: self.device.has_tso6(),
            uso: false,
        }
    }

    /// What it is asked to do, could do and does: (name of the capability, asked, offered, used).
    #[must_use]
    pub fn abilities(&self) -> Vec<(&'static str, bool, bool, bool)> {
        self.device.abilities()
    }

    /// Offloads in use.
    #[must_use]
    pub fn offloads(&self) -> Vec<&'static str> {
        let device = &self.device;
        [
            (device.has_rx_csum(), "rx-csum"),
            (device.has_tx_csum(), "tx-csum"),
            (device.has_tso6(), "tx-gso"),
            (device.has_multi_segment(), "multi-segment"),
        ]
        .into_iter()
        .filter_map(|(has, name)| has.then_some(name))
        .collect()
    }

    /// What the device counts.
    #[must_use]
    pub fn counters(&self) -> DeviceCounters {
        let (rx_missed, rx_errors, tx_errors) = self.device.errors();
        DeviceCounters { rx_missed, rx_errors, tx_errors }
    }
}
