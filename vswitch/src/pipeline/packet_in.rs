//! Packet-ins: bounded queues from workers to controllers.

use std::sync::Arc;
use vswitch_flow::action::Reason;
use vswitch_flow::{Action, FlowKey};

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

/// Where a paused packet goes on. The packet itself and its metadata are with the packet-in: to resume, translate the packet (as the
/// controller returns it) with that metadata from [`super::Start::Resume`].
#[derive(Clone, Debug, Default)]
pub struct Continuation {
    /// Name of the bridge where it stopped: the index may be another one by then.
    pub bridge: Arc<str>,
    /// What is still to be done, the innermost list first.
    pub segments: Box<[Segment]>,
    /// The action set.
    pub set: Box<[Action]>,
    /// The packet's stack, the top last.
    pub stack: Box<[u128]>,
}

/// The rest of one action list.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Table of its rule.
    pub table: u8,
    /// Cookie of its rule.
    pub cookie: u64,
    /// The actions.
    pub actions: Box<[Action]>,
}

/// Those who want packet-ins of a bridge.
#[derive(Debug, Default)]
pub struct PacketIns {}
