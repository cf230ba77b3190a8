//! The fast path: packets whose connection, first-packet template or decap entry is known.

pub(in crate::worker) mod batch;
pub(in crate::worker) mod decap;
pub(in crate::worker) mod first_packet;
pub(in crate::worker) mod replay;
