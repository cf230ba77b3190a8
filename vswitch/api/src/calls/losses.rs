//! What streams lost.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_proto::v1;

/// Kinds of streams that may lose something because their reader is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// `WatchPorts`.
    Ports,
    /// `WatchFlows`.
    Flows,
    /// `WatchPacketIns`.
    Packets,
    /// `WatchConnections`.
    Connections,
    /// `WatchEvents` of Antrea's kind.
    Events,
    /// `WatchFlowRecords`.
    Records,
    /// `WatchObservations`.
    Observations,
}

/// Names, by [`StreamKind`].
const NAMES: [&str; 7] = ["ports", "flows", "packets", "connections", "events", "records", "observations"];

static LOST: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

/// Notes that a stream lost so many.
pub(crate) fn lose(kind: StreamKind, count: u64) {
    LOST[kind as usize].fetch_add(count, Relaxed);
}

pub(super) fn read() -> Vec<v1::StreamLosses> {
    let losses = NAMES.iter().zip(&LOST);
    losses.map(|(kind, lost)| v1::StreamLosses { kind: (*kind).to_owned(), lost: lost.load(Relaxed) }).collect()
}
