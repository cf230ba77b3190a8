//! Meters: token buckets with Open vSwitch's arithmetic (`dpif-netdev.c`, `dp_netdev_run_meter`):
//! milliseconds, a full bucket at the start.
//!
//! **Where in the walk**: execute; a meter is asked per packet and shared by all workers.
//!
//! **Design**: every band has a bucket. `pktps`: in thousandths of a packet, so that a millisecond
//! at a rate of n packets per second brings n of them. `kbps`: in bits; a millisecond at n kbit/s
//! brings n bits. A packet takes what it needs from every band's bucket that has enough; of the
//! bands that have not, the one with the highest rate acts. Bands do not know of each other: a
//! packet that one of them drops has taken from the others.
//!
//! What a port may cost a worker is metered likewise, by the packets of the slow path
//! (`budget.rs`): not configured by agents, and per worker.
//!
//! **Limits**: [`crate::limits::BANDS_MAX`]. Arithmetic saturates.
//!
//! **Threads**: no lock; atomics, relaxed. Between workers the order of packets is undefined
//! anyway; no token is given twice, since the worker that moves the clock forward is the one that
//! fills the buckets.

mod budget;
mod remark;

use crate::time::Millis;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::spec::{Band, BandKind, MeterSpec};

pub use budget::{Allowance, Budget, Budgets, Rates};
pub use remark::remark;

/// A meter in use. Its state is atomics: shared by workers, never locked.
#[derive(Debug)]
pub struct Meter {
    /// As configured.
    pub spec: MeterSpec,
    created_ms: u64,
    /// Milliseconds when the buckets were last filled.
    used_ms: AtomicU64,
    /// Milliseconds that fill any bucket: more than these are not counted.
    delta_max_ms: u64,
    packets: AtomicU64,
    bytes: AtomicU64,
    bands: Box<[BandState]>,
}

#[derive(Debug)]
struct BandState {
    rate: u64,
    capacity: u64,
    bucket: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
}

/// What a meter says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterVerdict {
    /// Goes on.
    Pass,
    /// Drop it.
    Drop,
    /// Goes on with its drop precedence raised by this much ([`remark`]).
    Remark(u8),
}

/// Counters of a meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterStats {
    /// Packets that came to it.
    pub packets: u64,
    /// Bytes that came to it.
    pub bytes: u64,
    /// Packets and bytes that each band caught.
    pub bands: Vec<(u64, u64)>,
}

// What it counted and holds is its own: another one is another one, whatever its configuration.
impl PartialEq for Meter {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Meter {}

impl Meter {
    /// A meter with full buckets.
    #[must_use]
    pub fn new(spec: MeterSpec, now: Millis) -> Self {
        let bands: Box<[BandState]> = spec.bands.iter().map(|band| BandState::new(*band, spec.burst)).collect();
        let fills = bands.iter().map(|band| band.capacity.div_ceil(band.rate.max(1)));
        Self {
            created_ms: now.0,
            used_ms: AtomicU64::new(now.0),
            delta_max_ms: fills.max().unwrap_or(0),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bands,
            spec,
        }
    }

    /// The meter after a change: full buckets and zero counters; the duration goes on.
    #[must_use]
    pub fn modified(&self, spec: MeterSpec, now: Millis) -> Self {
        Self { created_ms: self.created_ms, ..Self::new(spec, now) }
    }

    /// What is too much is dropped, however much it is: of the bands that are exceeded the one with
    /// the highest rate acts.
    #[must_use]
    pub fn limits(&self) -> bool {
        // Of equal rates the first one.
        let highest = self.spec.bands.iter().rev().max_by_key(|band| band.rate);
        highest.is_some_and(|band| band.kind == BandKind::Drop)
    }

    /// Milliseconds when it was added.
    #[must_use]
    pub fn created_ms(&self) -> u64 {
        self.created_ms
    }

    /// Counts a packet of `len` bytes (L2, as received at this point) and judges it.
    pub fn run(&self, len: usize, now: Millis) -> MeterVerdict {
        self.fill(now);
        let bytes = len as u64;
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        let volume = if self.spec.pktps { 1000 } else { bytes.saturating_mul(8) };
        let mut exceeded: Option<usize> = None;
        for (i, band) in self.bands.iter().enumerate() {
            // Of equal rates the first band acts.
            if !band.take(volume) && exceeded.is_none_or(|highest| self.bands[highest].rate < band.rate) {
                exceeded = Some(i);
            }
        }
        let Some(i) = exceeded else { return MeterVerdict::Pass };
        self.bands[i].packets.fetch_add(1, Relaxed);
        self.bands[i].bytes.fetch_add(bytes, Relaxed);
        match self.spec.bands[i].kind {
            BandKind::Drop => MeterVerdict::Drop,
            BandKind::DscpRemark { precedence } => MeterVerdict::Remark(precedence),
        }
    }

    /// Brings what has run in since the last time. A worker whose clock is behind another's brings
    /// nothing.
    fn fill(&self, now: Millis) {
        let mut used = self.used_ms.load(Relaxed);
        while used < now.0 {
            match self.used_ms.compare_exchange_weak(used, now.0, Relaxed, Relaxed) {
                Ok(_) => {
                    let delta = (now.0 - used).min(self.delta_max_ms);
                    self.bands.iter().for_each(|band| band.give(delta.saturating_mul(band.rate)));
                    return;
                }
                Err(later) => used = later,
            }
        }
    }

    /// Counters since creation, or since the last change.
    #[must_use]
    pub fn stats(&self) -> MeterStats {
        let band = |band: &BandState| (band.packets.load(Relaxed), band.bytes.load(Relaxed));
        MeterStats {
            packets: self.packets.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            bands: self.bands.iter().map(band).collect(),
        }
    }
}

impl BandState {
    fn new(band: Band, bursts: bool) -> Self {
        let burst = if bursts && band.burst != 0 { band.burst } else { band.rate };
        let capacity = u64::from(burst) * 1000;
        Self {
            rate: u64::from(band.rate),
            capacity,
            bucket: AtomicU64::new(capacity),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn give(&self, volume: u64) {
        let full = |level: u64| Some(level.saturating_add(volume).min(self.capacity));
        let _ = self.bucket.fetch_update(Relaxed, Relaxed, full); // always Ok
    }

    /// Whether there was enough.
    fn take(&self, volume: u64) -> bool {
        self.bucket.fetch_update(Relaxed, Relaxed, |level| level.checked_sub(volume)).is_ok()
    }
}

#[cfg(test)]
mod tests;
