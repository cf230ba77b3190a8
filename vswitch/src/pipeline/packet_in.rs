//! Packet-ins: bounded queues from workers to controllers.

use std::sync::Arc;
use vswitch_flow::FlowKey;
use vswitch_flow::action::Reason;

/// A packet for controllers.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct PacketIn {
    pub table: u8,
    pub cookie: u64,
    pub reason: Reason,
    pub controller: u16,
    pub userdata: Arc<[u8]>,
    /// Metadata words.
    pub metadata: FlowKey,
    /// The whole packet.
    pub packet: Vec<u8>,
    pub continuation: Option<Arc<Continuation>>,
}

/// Where a paused packet goes on.
#[derive(Clone, Debug, Default)]
pub struct Continuation {}

/// Those who want packet-ins of a bridge.
#[derive(Debug, Default)]
pub struct PacketIns {}
