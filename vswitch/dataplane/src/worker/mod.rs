//! Workers: pinned threads that poll receive queues and take every packet through the whole walk.
//!
//! **Where in the walk**: all of it. [`Walk::burst`] is the walk, top to bottom:
//! `receive -> parse -> decide -> output -> send`.
//!
//! **Design**: run to completion, bursts of 32, nothing shared that is written per packet. A worker
//! sees the world through one [`Snapshot`]; the control side publishes a new one, and the worker
//! adopts it at its quiescent point, between two bursts. A receive queue is a value that one worker
//! owns at a time; it changes hands through its [`RxqSlot`]. [`vswitch_quiescence`] tells the
//! control side when every worker has let go of what was unpublished.
//!
//! **Limits**: [`crate::limits::WORKERS_MAX`], [`crate::limits::BURST`],
//! [`crate::limits::DEPTH_MAX`] patch ports per packet.
//!
//! **Threads**: one per core of `[dpdk] worker_cores`. A sleeping worker is offline: nobody waits
//! for it.

#[cfg(any(test, fuzzing))]
#[cfg_attr(not(test), allow(dead_code))] // more than the fuzz target has a use for
mod bed;
mod control;
mod fast;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod poll;
mod slow;
mod step;
#[cfg(test)]
mod tests;
mod tunnel;

pub use control::inject::{Begin, Inbox, InjectError, Injection};
pub use control::losses::{Guard, Loss, Losses};
pub use control::snapshot::{PortShared, PortView, Publisher, RxqSlot, Snapshot, Stuck};
pub use poll::lost::lose;
pub use poll::run::{Worker, WorkerStats};
pub use poll::walk::{Walk, needs_tables};
