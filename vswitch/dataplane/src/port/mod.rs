//! Ports: one type per way in or out of the switch.
//!
//! **Where in the walk**: its two ends. A worker calls `receive` on a receive queue and `send` on a
//! transmit queue, once per burst.
//!
//! **Design**: a port is a [`PortConfig`] made real: receive queues (each owned by the one worker
//! that polls it), transmit queues (shared, one lock per burst) and a device for the control side.
//! Enums, not traits: one `match` per burst, no generics in the walk. Every kind has three types
//! with these methods:
//!
//! - receive queue: `receive(&mut self, burst: &mut Burst, counters: &PortCounters)` appends what
//!   came in, never blocks, counts `rx_drops` of what it had to refuse. The caller counts packets
//!   and bytes.
//! - transmit queue: `send(&mut self, burst: &mut Burst, counters: &PortCounters)` leaves the burst
//!   empty: every mbuf was taken (counted in `tx_packets`, `tx_bytes`) or dropped (counted in
//!   `tx_drops`). Never blocks.
//! - device: `link()`, `mac()`, `set_mtu()`, `set_admin()`, `tx_caps()`, `offloads()`,
//!   `counters()`. Dropping it closes it; by then no worker uses its queues.
//!
//! **Checksums and GSO** travel as the mbuf's own words ([`vswitch_dpdk::Csum`], `gso_size`). What
//! a way out cannot take is finished or segmented before `send`, by
//! [`crate::packet::offload::finish`] with the device's `tx_caps`.
//!
//! **Limits**: [`crate::limits::PORTS_MAX`], [`crate::limits::QUEUES_MAX`].

pub mod af_packet;
mod caps;
mod config;
mod device;
pub mod dummy;
#[cfg(feature = "dpdk")]
mod ethdev;
mod fates;
mod id;
#[cfg(test)]
mod kernel_queue_tests;
#[cfg(test)]
mod kernel_testbed;
#[cfg(test)]
mod kernel_tests;
#[cfg(test)]
mod kernel_traffic_tests;
#[cfg(feature = "dpdk")]
mod memif;
mod open;
mod queue;
#[cfg(any(test, fuzzing))]
pub(crate) mod sim;
pub mod tap;
mod tunnel;
pub mod vhost;

pub use caps::Capability;
pub use config::{FieldError, PortConfig, PortKind, VhostConfig, VhostMode, cidr_text, is_name};
pub use device::{DeviceCounters, Link, Quiesce};
pub use fates::Fates;
pub use id::PortId;
pub use open::{Device, OpenContext, OpenPort, open};
pub use queue::{RxQueue, Sum, TxQueue};
pub use tunnel::{End, Key, Outer, TunnelConfig, tunnel_kind, tunnel_word};
pub use vswitch_overlay::routes::{Cidr, CidrError};

/// What ports on the kernel's interfaces do: checksums and GSO unfinished both ways, packets in
/// several segments.
const KERNEL_OFFLOADS: &[&str] = &["rx-csum", "tx-csum", "rx-gso", "tx-gso", "multi-segment"];
