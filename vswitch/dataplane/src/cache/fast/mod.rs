//! What the fast path looks up: compact keys, programs of connections, templates.

pub(in crate::cache) mod compact;
pub(in crate::cache) mod directory;
pub(in crate::cache) mod exact;
pub(in crate::cache) mod first_packet;
pub(in crate::cache) mod lookup;
pub(in crate::cache) mod path;
pub(in crate::cache) mod prefetch;
pub(in crate::cache) mod program;
pub(in crate::cache) mod recorder;
pub(in crate::cache) mod same_flow;
pub(in crate::cache) mod shapes;
