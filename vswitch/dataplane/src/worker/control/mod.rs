//! What the control side and a worker have between them: snapshots, injections, waiting.

pub(in crate::worker) mod inject;
pub(in crate::worker) mod losses;
pub(in crate::worker) mod snapshot;
pub(in crate::worker) mod worker_wait;
