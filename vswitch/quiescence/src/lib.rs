//! How a new state reaches every worker, and when the old one may go.
//!
//! **Where in the walk**: between two bursts. A worker looks whether there is a newer state
//! ([`Published::newer`]), and says that it holds nothing of an older one
//! ([`Quiescence::quiescent`]).
//!
//! **Design**: quiescent-state reclamation. A worker pays two loads and a store to a line of its
//! own per turn of its loop, and nothing per packet; whoever unpublishes waits until all workers
//! have been between two bursts since.
//!
//! **Threads**: each worker has a number, and calls with that; one thread at a time is that worker.
//! Any other thread may publish and wait.
//!
//! `tests/models.rs` explores all interleavings of this code, and says which ordering is needed for
//! what.
#![forbid(unsafe_code)]

mod published;
mod quiescence;
mod sync;

pub use published::Published;
pub use quiescence::Quiescence;
