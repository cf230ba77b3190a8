//! What workers count of a port, and the sums over workers.

use super::{Counter, Direction, DropPlace, DropReason, DropSampler, Drops, Remains};
use std::sync::Arc;

/// What one worker counted for one port.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct PortCounters {
    /// Packets received, dropped ones included.
    pub rx_packets: Counter,
    /// Bytes received, without FCS.
    pub rx_bytes: Counter,
    /// Packets that the port took.
    pub tx_packets: Counter,
    /// Bytes that the port took, without FCS.
    pub tx_bytes: Counter,
    /// Drops of packets that came in by this port, by reason.
    pub rx_drops: Drops,
    /// Drops of packets that were to leave by this port, by reason.
    pub tx_drops: Drops,
    /// Packets that left by this port after the switch had done for them what a device could have,
    /// by [`Software`].
    pub software: [Counter; Software::COUNT],
}

/// What the switch does for a packet on its way out where the device does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Software {
    /// Finishes its checksum.
    Checksum,
    /// Segments TCP over IPv4.
    Tso4,
    /// Segments TCP over IPv6.
    Tso6,
    /// Cuts a train of UDP datagrams.
    Uso,
}

impl Software {
    /// How many there are.
    pub const COUNT: usize = 4;

    /// Its place in arrays.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// By the name of the capability that a device would have.
    #[must_use]
    pub fn of(capability: &str) -> Option<Self> {
        Some(match capability {
            "tx-csum" => Self::Checksum,
            "tx-tso4" => Self::Tso4,
            "tx-tso6" => Self::Tso6,
            "tx-uso" => Self::Uso,
            _ => return None,
        })
    }
}

impl PortCounters {
    /// Of a port, for the worker of a sampler: its drops can be watched.
    #[must_use]
    pub fn watched(place: &Arc<DropPlace>, sampler: &Arc<DropSampler>) -> Self {
        Self {
            rx_drops: Drops::new(place, Direction::In, sampler),
            tx_drops: Drops::new(place, Direction::Out, sampler),
            ..Self::default()
        }
    }

    /// Counts a packet that a receive queue could not give to the walk: it came in and died.
    pub fn refuse(&self, reason: DropReason, remains: Remains<'_>) {
        self.rx_packets.add(1);
        self.rx_bytes.add(remains.len() as u64);
        self.rx_drops.count(reason, remains);
    }
}

/// A port's counters, summed over workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortTotals {
    /// Packets received, dropped ones included.
    pub rx_packets: u64,
    /// Bytes received, without FCS.
    pub rx_bytes: u64,
    /// Packets that the port took.
    pub tx_packets: u64,
    /// Bytes that the port took, without FCS.
    pub tx_bytes: u64,
    /// Packets that the device lost or refused before the switch saw them (ethdev `imissed`, kernel
    /// drops).
    pub rx_missed: u64,
    /// Errors that the device reports.
    pub rx_errors: u64,
    /// Errors that the device reports.
    pub tx_errors: u64,
    /// Drops of packets that came in by this port, by reason.
    pub rx_drops: [u64; DropReason::COUNT],
    /// Drops of packets that were to leave by this port, by reason.
    pub tx_drops: [u64; DropReason::COUNT],
    /// Packets for which the switch did itself what a device could have done, by [`Software`].
    pub software: [u64; Software::COUNT],
}

impl Default for PortTotals {
    fn default() -> Self {
        Self {
            rx_packets: 0,
            rx_bytes: 0,
            tx_packets: 0,
            tx_bytes: 0,
            rx_missed: 0,
            rx_errors: 0,
            tx_errors: 0,
            rx_drops: [0; DropReason::COUNT],
            tx_drops: [0; DropReason::COUNT],
            software: [0; Software::COUNT],
        }
    }
}

impl PortTotals {
    /// Adds what one worker counted.
    pub fn add(&mut self, counters: &PortCounters) {
        self.rx_packets += counters.rx_packets.get();
        self.rx_bytes += counters.rx_bytes.get();
        self.tx_packets += counters.tx_packets.get();
        self.tx_bytes += counters.tx_bytes.get();
        for (sum, drops) in self.rx_drops.iter_mut().zip(counters.rx_drops.all()) {
            *sum += drops;
        }
        for (sum, drops) in self.tx_drops.iter_mut().zip(counters.tx_drops.all()) {
            *sum += drops;
        }
        for (sum, counter) in self.software.iter_mut().zip(&counters.software) {
            *sum += counter.get();
        }
    }

    /// All packets that came in by this port and were dropped.
    #[must_use]
    pub fn rx_dropped(&self) -> u64 {
        self.rx_drops.iter().sum::<u64>() + self.rx_missed
    }

    /// All packets that were to leave by this port and were dropped.
    #[must_use]
    pub fn tx_dropped(&self) -> u64 {
        self.tx_drops.iter().sum()
    }
}
