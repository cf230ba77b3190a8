//! What the slow path looks up: megaflows, and whether they still hold.

pub(in crate::cache) mod last_hit;
pub(in crate::cache) mod megaflow;
pub(in crate::cache) mod revalidate;
pub(in crate::cache) mod tuples;
pub(in crate::cache) mod validity;
