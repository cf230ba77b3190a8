//! What the control side and a cache have between them: counters, switches, ends.

pub(in crate::cache) mod credit;
pub(in crate::cache) mod shared;
