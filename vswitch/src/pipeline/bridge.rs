//! A bridge as workers see it.

use super::Fdb;
use crate::port::PortId;
use std::sync::Arc;

/// What a bridge does before anything is programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// Drop everything.
    #[default]
    Secure,
    /// Learn addresses and forward like an Ethernet switch.
    Standalone,
}

/// A bridge as one snapshot has it.
#[derive(Clone, Debug)]
pub struct Bridge {
    /// What it does before anything is programmed.
    pub fail_mode: FailMode,
    /// Its MAC table, shared with later snapshots.
    pub fdb: Arc<Fdb>,
    /// Ports that take flooded packets: up, and not no-flood.
    pub flood: Vec<PortId>,
}
