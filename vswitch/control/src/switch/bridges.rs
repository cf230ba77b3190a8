//! Bridges: add, remove, list, change.

use super::Switch;
use super::state::BridgeState;
use crate::info::{BridgeChange, BridgeConfig, BridgeInfo, FailMode, PortEventKind, SwitchError};
use std::sync::Arc;
use vswitch_dataplane::limits;
use vswitch_dataplane::time::Millis;
use vswitch_flow::Action;
use vswitch_flow::action::port::NORMAL;
use vswitch_flow::spec::{FlowFilter, FlowFlags, FlowSpec, Update};

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
            state.bridge_id += 1;
            let mut bridge = BridgeState::new(config, state.bridge_id, &state.changes);
            default_flow(&mut bridge, state.next_world());
            let name = bridge.config.name.clone();
            state.bridges.insert(name.clone(), bridge);
            self.publisher.publish(state.snapshot());
            state.bridge(&name)?.pipeline.adopted();
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
            let (mut gone, mut numbers) = (Vec::new(), Vec::new());
            for i in 0..state.ports.len() {
                if state.ports[i].as_ref().is_some_and(|port| port.bridge == name) {
                    gone.extend(state.ports[i].take());
                    numbers.extend(u16::try_from(i));
                    state.forget_routes(i);
                }
            }
            let bridge = state.bridges.remove(name);
            self.publisher.publish(state.snapshot());
            // Now that no worker asks for them any more.
            numbers.iter().for_each(|number| self.publisher.conntrack.tracker().remove_port(*number));
            if let Some(bridge) = bridge {
                state.neighbours.flush(Some(bridge.id));
            }
            for port in gone {
                self.event(state, PortEventKind::Removed, &port);
                port.close();
            }
            Ok(())
        })
    }

    /// Changes some of a bridge's attributes. With another fail mode, what it has learned is
    /// forgotten. A bridge that becomes standalone gets the flow that makes it a learning switch,
    /// unless it has flows; one that becomes secure loses that flow, if it is as it was made. (Open
    /// vSwitch removes all flows in both cases; an agent's flows are not ours to remove.)
    ///
    /// # Errors
    /// When it does not exist.
    pub fn set_bridge(&self, name: &str, change: BridgeChange) -> Result<(), SwitchError> {
        self.with(|state| {
            state.bridge(name)?;
            let world = state.next_world();
            if let Some(bridge) = state.bridges.get_mut(name) {
                bridge.config.strict = change.strict.unwrap_or(bridge.config.strict);
                if let Some(fail_mode) = change.fail_mode {
                    bridge.config.fail_mode = fail_mode;
                    default_flow(bridge, world);
                }
            }
            self.publisher.publish(state.snapshot());
            let bridge = state.bridge(name)?;
            bridge.pipeline.adopted();
            if change.fail_mode.is_some() {
                bridge.fdb.flush(|entry| entry.seen_s.is_some());
            }
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

/// A standalone bridge without flows gets `priority=0,actions=NORMAL` in table 0; a secure bridge
/// whose only flow it is loses it.
fn default_flow(bridge: &mut BridgeState, world: u64) {
    let normal = FlowSpec {
        table: 0,
        priority: 0,
        matching: Arc::default(),
        cookie: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags::default(),
        actions: [Action::Output { port: NORMAL, max_len: None }].into(),
    };
    let flows = bridge.pipeline.flows(&FlowFilter::default(), Millis::now());
    let update = match bridge.config.fail_mode {
        FailMode::Standalone if flows.is_empty() => Update::AddFlow(normal),
        FailMode::Secure if flows.len() == 1 && flows[0].flow == normal => Update::DeleteFlows(FlowFilter::default()),
        _ => return,
    };
    if let Err(refused) = bridge.pipeline.apply(&[update], world, Millis::now()) {
        tracing::error!(bridge = bridge.config.name, %refused, "the flow of the fail mode");
    }
}
