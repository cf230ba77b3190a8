//! The poll loop: a burst from a receive queue to the transmit queues, and the learning switch.

pub(in crate::worker) mod learning;
pub(in crate::worker) mod lost;
pub(in crate::worker) mod output;
pub(in crate::worker) mod run;
pub(in crate::worker) mod strict;
pub(in crate::worker) mod walk;
