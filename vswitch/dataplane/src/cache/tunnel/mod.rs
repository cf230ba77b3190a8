//! What is kept of tunnels: decap entries, outer headers.

pub(in crate::cache) mod decap;
pub(in crate::cache) mod outer_template;
pub(in crate::cache) mod tunnels;
