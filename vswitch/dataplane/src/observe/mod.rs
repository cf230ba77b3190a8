//! What the switch says about itself: why packets died, and how many lived.
//!
//! **Where in the walk**: everywhere. **Design**: counters are words with a single writer (a
//! worker), relaxed loads and stores, summed by readers; nothing here stops a worker. Drop reasons
//! are one enum, stable numbers, one sentence each. **Threads**: a [`PortCounters`] block belongs
//! to one worker; any thread may read it.

mod counters;
mod drop_reason;
mod fallback;

pub use counters::{Counter, PortCounters, PortTotals, Software};
pub use drop_reason::DropReason;
pub use fallback::Fallback;
