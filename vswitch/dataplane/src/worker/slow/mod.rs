//! The slow path: caches of single decisions, translation, and the ops that carry it out.

pub(in crate::worker) mod ct;
pub(in crate::worker) mod execute;
pub(in crate::worker) mod forget;
pub(in crate::worker) mod found;
pub(in crate::worker) mod reject;
pub(in crate::worker) mod tables;
