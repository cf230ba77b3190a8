//! The switch itself: the one writer of its state.

use super::config::SwitchConfig;
use super::info::*;
use crate::packet::Mac;
use crate::port::PortConfig;
use std::sync::Arc;
use tokio::sync::broadcast;

/// The running switch. Every method may be called from any thread; changes are serialised. Methods block (a device may take
/// 100 ms to open): call them from a blocking context.
#[derive(Debug)]
pub struct Switch {
    events: broadcast::Sender<PortEvent>,
}

#[allow(
    unused_variables,
    clippy::needless_pass_by_value,
    clippy::unimplemented,
    missing_docs,
    clippy::missing_errors_doc
)]
impl Switch {
    /// Starts EAL and the workers and applies the configuration. A port that fails to open is logged and kept with its error.
    pub fn start(config: &SwitchConfig) -> anyhow::Result<Arc<Self>> {
        unimplemented!()
    }
    /// Stops the workers, closes all devices, cleans EAL up. Idempotent; afterwards changes are refused.
    pub fn stop(&self) {
        unimplemented!()
    }
    pub fn add_bridge(&self, config: BridgeConfig) -> Result<(), SwitchError> {
        unimplemented!()
    }
    /// Removes a bridge with all its ports.
    pub fn delete_bridge(&self, name: &str) -> Result<(), SwitchError> {
        unimplemented!()
    }
    /// Changes the fail mode (and FDB ageing) of a bridge.
    pub fn set_fail_mode(&self, name: &str, fail_mode: FailMode) -> Result<(), SwitchError> {
        unimplemented!()
    }
    /// All bridges, by name.
    pub fn bridges(&self) -> Vec<BridgeInfo> {
        unimplemented!()
    }
    pub fn add_port(&self, bridge: &str, config: PortConfig) -> Result<PortInfo, SwitchError> {
        unimplemented!()
    }
    pub fn delete_port(&self, bridge: &str, name: &str) -> Result<(), SwitchError> {
        unimplemented!()
    }
    pub fn modify_port(&self, bridge: &str, name: &str, change: &PortChange) -> Result<PortInfo, SwitchError> {
        unimplemented!()
    }
    /// Ports of one bridge, by number.
    pub fn ports(&self, bridge: &str) -> Result<Vec<PortInfo>, SwitchError> {
        unimplemented!()
    }
    /// Events from now on. A subscriber that falls behind is told how many it lost (`RecvError::Lagged`).
    pub fn subscribe(&self) -> broadcast::Receiver<PortEvent> {
        self.events.subscribe()
    }
    pub fn workers(&self) -> Vec<WorkerInfo> {
        unimplemented!()
    }
    /// Starts the workers' cycle counts over.
    pub fn clear_worker_stats(&self) {
        unimplemented!()
    }
    pub fn rxqs(&self) -> Vec<RxqInfo> {
        unimplemented!()
    }
    /// Pins a receive queue to the worker on a core, or (none) lets it be placed by load again.
    pub fn pin_rxq(&self, port: &str, queue: u16, core: Option<u32>) -> Result<(), SwitchError> {
        unimplemented!()
    }
    /// Places all unpinned receive queues anew by measured load; returns how many moved.
    pub fn rebalance(&self) -> usize {
        unimplemented!()
    }
    /// Addresses of a bridge, by port number, then VLAN, then address.
    pub fn fdb(&self, bridge: &str) -> Result<Vec<FdbInfo>, SwitchError> {
        unimplemented!()
    }
    pub fn fdb_stats(&self, bridge: &str) -> Result<FdbStats, SwitchError> {
        unimplemented!()
    }
    /// Adds a static address.
    pub fn fdb_add(&self, bridge: &str, port: &str, vlan: u16, mac: Mac) -> Result<(), SwitchError> {
        unimplemented!()
    }
    /// Removes one address, static or learned.
    pub fn fdb_delete(&self, bridge: &str, vlan: u16, mac: Mac) -> Result<(), SwitchError> {
        unimplemented!()
    }
    /// Removes addresses; returns how many.
    pub fn fdb_flush(&self, bridge: &str, filter: &FdbFilter) -> Result<u64, SwitchError> {
        unimplemented!()
    }
    pub fn mempool(&self) -> MempoolInfo {
        unimplemented!()
    }
    /// Whether every worker's heart beat within the last second (gRPC health).
    pub fn healthy(&self) -> bool {
        unimplemented!()
    }
}
