//! Bridges: add, remove, list, change.

use super::Switch;
use super::state::BridgeState;
use crate::control::info::{BridgeConfig, BridgeInfo, FailMode, PortEventKind, SwitchError};
use crate::limits;
use crate::pipeline::Fdb;
use std::sync::Arc;

impl Switch {
    /// Adds a bridge without ports.
    ///
    /// # Errors
    /// When the name is taken or wrong, or there are too many bridges.
    pub fn add_bridge(&self, config: BridgeConfig) -> Result<(), SwitchError> {
        let errors = config.errors();
        if !errors.is_empty() {
            return Err(SwitchError::Invalid(errors));
        }
        self.with(|state| {
            if state.bridges.contains_key(&config.name) {
                let hint = "choose another name, or delete it first".to_owned();
                return Err(SwitchError::Exists { what: "bridge", name: config.name, hint });
            }
            if state.bridges.len() >= limits::BRIDGES_MAX {
                return Err(SwitchError::Exhausted { what: "bridges", limit: limits::BRIDGES_MAX });
            }
            let fdb = Arc::new(Fdb::new(config.fdb_entries, config.fdb_ageing_s));
            state.bridges.insert(config.name.clone(), BridgeState { config, fdb, packet_ins: Arc::default() });
            self.publisher.publish(state.snapshot());
            Ok(())
        })
    }

    /// Removes a bridge with all its ports.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn delete_bridge(&self, name: &str) -> Result<(), SwitchError> {
        self.with(|state| {
            state.bridge(name)?;
            let mut gone = Vec::new();
            for slot in &mut state.ports {
                if slot.as_ref().is_some_and(|port| port.bridge == name) {
                    gone.extend(slot.take());
                }
            }
            state.bridges.remove(name);
            self.publisher.publish(state.snapshot());
            for port in gone {
                self.event(state, PortEventKind::Removed, &port);
                port.close();
            }
            Ok(())
        })
    }

    /// Changes the fail mode of a bridge. What it has learned is forgotten.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn set_fail_mode(&self, name: &str, fail_mode: FailMode) -> Result<(), SwitchError> {
        self.with(|state| {
            state.bridge(name)?;
            if let Some(bridge) = state.bridges.get_mut(name) {
                bridge.config.fail_mode = fail_mode;
            }
            self.publisher.publish(state.snapshot());
            let bridge = state.bridge(name)?;
            bridge.fdb.flush(|entry| entry.seen_s.is_some());
            Ok(())
        })
    }

    /// All bridges, by name.
    #[must_use]
    pub fn bridges(&self) -> Vec<BridgeInfo> {
        self.with(|state| {
            let info = |(name, bridge): (&String, &BridgeState)| {
                let here = state.all_ports().filter(|(_, port)| port.bridge == *name);
                let mut ports: Vec<_> = here.map(|(_, port)| state.info(port)).collect();
                ports.sort_by_key(|port| port.number);
                BridgeInfo { config: bridge.config.clone(), ports, fdb: bridge.fdb.stats() }
            };
            Ok(state.bridges.iter().map(info).collect())
        })
        .unwrap_or_default()
    }
}
