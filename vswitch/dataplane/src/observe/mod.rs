//! What the switch says about itself: why packets died, and how many lived.
//!
//! **Where in the walk**: everywhere. **Design**: counters are words with a single writer (a
//! worker), relaxed loads and stores, summed by readers; nothing here stops a worker. Drop reasons
//! are one enum, stable numbers, one sentence each. Who counts a drop passes the worker's sampler
//! ([`Drops`], [`DropSampler`]). **Threads**: a [`PortCounters`] block belongs
//! to one worker; any thread may read it.

mod counter;
mod counters;
mod drop_reason;
mod drops;
mod fallback;
mod sampler;
#[cfg(test)]
mod sampler_tests;

pub use counter::Counter;
pub use counters::{PortCounters, PortTotals, Software};
pub use drop_reason::{DropClass, DropReason};
pub use drops::Drops;
pub use fallback::Fallback;
pub use sampler::{Decider, Direction, DropPlace, DropSample, DropSampler, DropTap, Remains};
