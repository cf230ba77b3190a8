//! Flow priorities of rules of Antrea's policies.

/// Priorities by rank.
#[derive(Clone, Debug, Default)]
pub struct Priorities {}
