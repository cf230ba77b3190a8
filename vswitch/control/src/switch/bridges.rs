//! Bridges: add, remove, list, change.

use super::Switch;
use super::change::Step;
use super::port_state::PortState;
use super::state::BridgeState;
use super::view::BridgeView;
use crate::info::{BridgeChange, BridgeConfig, BridgeInfo, FailMode, SwitchError};
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
        self.change(|state| {
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
            let snapshot = state.snapshot();
            Ok(Step::publish(snapshot, move |_, state| state.adopted(&name)))
        })
    }

    /// Removes a bridge with all its ports.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn delete_bridge(&self, name: &str) -> Result<(), SwitchError> {
        self.change(|state| {
            state.bridge(name)?;
            let (mut gone, mut numbers): (Vec<Arc<PortState>>, Vec<u16>) = (Vec::new(), Vec::new());
            for i in 0..state.ports.len() {
                if state.ports[i].as_ref().is_some_and(|port| port.bridge == name) {
                    gone.extend(state.ports[i].take());
                    numbers.extend(u16::try_from(i));
                    state.forget_routes(i);
                }
            }
            let bridge = state.bridges.remove(name);
            let snapshot = state.snapshot();
            Ok(Step::publish(snapshot, move |switch, state| {
                // Now that no worker asks for them any more.
                numbers.iter().for_each(|number| switch.publisher.conntrack.tracker().remove_port(*number));
                if let Some(bridge) = bridge {
                    state.neighbours.flush(Some(bridge.id));
                }
                for port in gone {
                    switch.removed(state, &port);
                }
            }))
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
        self.change(|state| {
            state.bridge(name)?;
            let world = state.next_world();
            if let Some(bridge) = state.bridges.get_mut(name) {
                bridge.config.strict = change.strict.unwrap_or(bridge.config.strict);
                if let Some(fail_mode) = change.fail_mode {
                    bridge.config.fail_mode = fail_mode;
                    default_flow(bridge, world);
                }
            }
            let (snapshot, name) = (state.snapshot(), name.to_owned());
            Ok(Step::publish(snapshot, move |_, state| {
                state.adopted(&name);
                if let (Some(bridge), Some(_)) = (state.bridges.get(&name), change.fail_mode) {
                    bridge.fdb.flush(|entry| entry.seen_s.is_some());
                }
            }))
        })
    }

    /// All bridges, by name.
    #[must_use]
    pub fn bridges(&self) -> Vec<BridgeInfo> {
        let view = self.shown.view();
        let info = |(name, bridge): (&String, &BridgeView)| BridgeInfo {
            config: bridge.config.clone(),
            ports: view.ports.infos(name),
            fdb: bridge.fdb.stats(),
        };
        view.bridges.iter().map(info).collect()
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
