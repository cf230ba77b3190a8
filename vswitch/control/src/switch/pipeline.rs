//! Tables, groups, meters, packets: what the API asks of a bridge's pipeline.

// The real DPDK starts once per process, not once per test.
#[cfg(all(test, not(feature = "dpdk")))]
mod tests;

use super::Switch;
use super::change::Step;
use super::state::{BridgeState, State};
use super::view::View;
use crate::info::{SwitchError, is_table_name};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::broadcast;
use vswitch_dataplane::limits;
use vswitch_dataplane::pipeline::state::{
    Applied, FlowCount, FlowInfo, FlowRemoved, GroupInfo, MeterInfo, PipelineState, Refused, TableInfo, check_filter,
};
use vswitch_dataplane::pipeline::{self, Program, RuleStats, TABLES, Trace, Tracing};
use vswitch_dataplane::port::FieldError;
use vswitch_dataplane::time::Millis;
use vswitch_flow::extract::extract;
use vswitch_flow::spec::{FlowFilter, Update};
use vswitch_flow::text::{Names, compose, parse_key};
use vswitch_flow::{FIRST_PACKET_WORD, Field, FlowKey, LAST_PACKET_WORD};

pub use super::packets::MegaflowInfo;
pub use vswitch_dataplane::pipeline::Subscription as PacketStream;

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
    /// Ports of guests: the other end chooses what it sends.
    pub guests: HashSet<String>,
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
    fn ports(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.ports.keys().map(String::as_str))
    }
    fn tables(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.tables.keys().map(String::as_str))
    }
}

/// What trace is asked: a flow in match syntax, or a packet's bytes with its ingress port.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum TraceInput {
    Flow(String),
    Packet { in_port: u32, bytes: Vec<u8> },
}

/// How trace is to tell it.
#[derive(Clone, Debug, Default)]
pub struct TraceHow {
    /// Ports and tables by name.
    pub names: bool,
    /// `ct_state` behind each `ct()`, in order.
    pub ct_next: Vec<u32>,
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
        names(&self.shown.view(), bridge)
    }

    /// Applies a transaction and waits until all workers see it.
    ///
    /// # Errors
    /// When the bridge does not exist or an update is refused; then nothing has changed.
    pub fn write_pipeline(&self, bridge: &str, updates: &[Update]) -> Result<Applied, WriteError> {
        // For the counters of flows that go.
        self.collect();
        self.change(|state| {
            state.bridge(bridge)?;
            let world = state.next_world();
            let Some(view) = state.bridges.get_mut(bridge) else { return Ok(Step::Done(Applied::default())) };
            let applied = view.pipeline.apply(updates, world, Millis::now())?;
            Ok(self.program_step(state, bridge, move || applied))
        })
    }

    /// Makes the program of a bridge's pipeline the one that workers use. When all do, those who
    /// want to know are told of flows that went.
    pub(super) fn program_step<R>(
        &self,
        state: &mut State,
        bridge: &str,
        value: impl FnOnce() -> R + Send + 'static,
    ) -> Step<R> {
        let (snapshot, bridge) = (state.reprogrammed(&self.publisher.current(), bridge), bridge.to_owned());
        Step::publish(snapshot, move |switch, state| {
            state.adopted(&bridge);
            // After it is so: an agent that hears of it may rely on it, and on the counters.
            switch.collect();
            state.bridges.get_mut(&bridge).into_iter().for_each(BridgeState::tell_removed);
            value()
        })
    }

    /// Names a table (None: the lowest number without name and flows), and returns its number.
    ///
    /// # Errors
    /// When the bridge does not exist, name or number are taken or wrong.
    pub fn add_table(&self, bridge: &str, number: Option<u8>, name: &str) -> Result<u8, SwitchError> {
        self.edit(|state| {
            state.bridge(bridge)?;
            let number = match state.bridges.get_mut(bridge) {
                Some(bridge) => add_table(&mut bridge.pipeline, number, name)?,
                None => 0,
            };
            self.show(state);
            Ok(number)
        })
    }

    /// Takes the name of a table away, and returns the table's number. Its flows stay: they know
    /// tables by number.
    ///
    /// # Errors
    /// When the bridge does not exist or has no table of this name.
    pub fn delete_table(&self, bridge: &str, name: &str) -> Result<u8, SwitchError> {
        self.edit(|state| {
            state.bridge(bridge)?;
            let number = state.bridges.get_mut(bridge).and_then(|bridge| bridge.pipeline.unname_table(name));
            self.show(state);
            number.ok_or_else(|| SwitchError::NotFound {
                what: "table",
                name: name.to_owned(),
                hint: format!("`vsctl dump-tables {bridge}` shows the tables of bridge {bridge:?}"),
            })
        })
    }

    /// Tables that have a name or a flow.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn tables(&self, bridge: &str) -> Result<Vec<TableInfo>, SwitchError> {
        self.collect();
        let view = self.shown.view();
        let bridge = view.bridge(bridge)?;
        Ok(bridge.program.table_infos(&bridge.tables))
    }

    /// Flows that a filter selects.
    ///
    /// # Errors
    /// When the bridge does not exist, or the filter uses a field that no option of Geneve is
    /// mapped to.
    pub fn flows(&self, bridge: &str, filter: &FlowFilter) -> Result<Vec<FlowInfo>, SwitchError> {
        self.collect();
        let view = self.shown.view();
        let bridge = view.bridge(bridge)?;
        check_filter(&bridge.options, filter).map_err(filter_refused)?;
        Ok(bridge.program.flows(filter, Millis::now()))
    }

    /// Shows what the flows of some tables have counted, in no order.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn count_flows(
        &self,
        bridge: &str,
        tables: &[u8],
        visit: &mut dyn FnMut(FlowCount<'_>),
    ) -> Result<(), SwitchError> {
        self.program(bridge)?.count_flows(tables, Millis::now(), visit);
        Ok(())
    }

    /// Counters of flows, each named by its table, match and priority (the rest of a filter does
    /// not count); None: there is none, or it was learned. They go on when the flow goes, as long
    /// as decisions credit them.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn rule_stats(&self, bridge: &str, flows: &[&FlowFilter]) -> Result<Vec<Option<Arc<RuleStats>>>, SwitchError> {
        let view = self.shown.view();
        let program = &view.bridge(bridge)?.program;
        Ok(flows.iter().map(|flow| program.rule_stats(flow.table?, flow.strict?, &flow.matching)).collect())
    }

    /// Groups.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn groups(&self, bridge: &str, id: Option<u32>) -> Result<Vec<GroupInfo>, SwitchError> {
        Ok(self.program(bridge)?.group_infos(id, Millis::now()))
    }

    /// Meters.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn meters(&self, bridge: &str, id: Option<u32>) -> Result<Vec<MeterInfo>, SwitchError> {
        Ok(self.program(bridge)?.meter_infos(id, Millis::now()))
    }

    /// Tables, groups and meters of a bridge as they are now.
    pub(super) fn program(&self, bridge: &str) -> Result<Arc<Program>, SwitchError> {
        self.collect();
        Ok(Arc::clone(&self.shown.view().bridge(bridge)?.program))
    }

    /// Flow-removed events of a bridge from now on.
    ///
    /// # Errors
    /// When the bridge does not exist.
    pub fn subscribe_flows(&self, bridge: &str) -> Result<broadcast::Receiver<Arc<FlowRemoved>>, SwitchError> {
        Ok(self.shown.view().bridge(bridge)?.flow_events.subscribe())
    }

    /// What would happen to a packet, step by step, with the names of ports and tables or their
    /// numbers. No side effect.
    ///
    /// # Errors
    /// When the bridge does not exist or the input is wrong.
    pub fn trace(&self, bridge: &str, input: &TraceInput, how: &TraceHow) -> Result<TraceReport, SwitchError> {
        let view = self.shown.view();
        let world = &view.world;
        let all: Vec<NameMap> =
            world.bridges.iter().map(|bridge| names(&view, &bridge.name).unwrap_or_default()).collect();
        let Some(index) = world.bridges.iter().position(|known| &*known.name == bridge) else {
            return view.bridge(bridge).map(|_| TraceReport::default());
        };
        let key = trace_key(input, &all[index])?;
        let names: Vec<&dyn Names> = all.iter().filter(|_| how.names).map(|names| names as &dyn Names).collect();
        let tracing = Tracing { bridge: index, key: &key, now: Millis::now(), names: &names, ct_next: &how.ct_next };
        let Trace { text, final_flow, megaflow, actions, drop_reason } = pipeline::trace(world, &tracing);
        Ok(TraceReport { text, final_flow, megaflow, actions, drop_reason })
    }
}

/// Names of a bridge's ports and tables at one moment.
pub(super) fn names(view: &View, bridge: &str) -> Result<NameMap, SwitchError> {
    let tables = &view.bridge(bridge)?.tables;
    // Nobody is to rely on one that may never have been there.
    let ports = view.ports.of(bridge).filter(|(_, port)| !port.is_new());
    let ports: Vec<_> = ports.map(|(_, port)| (port.config.name.clone(), port.number, &port.config.kind)).collect();
    let guests = ports.iter().filter(|(_, _, kind)| kind.is_guest());
    Ok(NameMap {
        guests: guests.map(|(name, ..)| name.clone()).collect(),
        port_names: ports.iter().map(|(name, number, _)| (*number, name.clone())).collect(),
        ports: ports.into_iter().map(|(name, number, _)| (name, number)).collect(),
        tables: tables.iter().map(|(number, name)| (name.clone(), *number)).collect(),
        table_names: tables.iter().map(|(number, name)| (*number, name.clone())).collect(),
    })
}

/// The packet that is to be traced.
fn trace_key(input: &TraceInput, names: &NameMap) -> Result<FlowKey, SwitchError> {
    let mut key = FlowKey::default();
    let composed;
    let bytes = match input {
        TraceInput::Flow(flow) => {
            let described = parse_key(flow, names).map_err(|error| {
                let hint = if error.hint.is_empty() { "see ovs-fields(7)" } else { &error.hint };
                FieldError::new("flow", error.problem(), hint)
            })?;
            // What the switch would make of such a packet: fields that contradict each other are no
            // packet.
            composed = compose(&described);
            key = described;
            key.0[FIRST_PACKET_WORD..LAST_PACKET_WORD].fill(0);
            &composed
        }
        TraceInput::Packet { in_port, bytes } => {
            if !(limits::FRAME_MIN..=limits::FRAME_MAX).contains(&bytes.len()) {
                let problem = format!("{} bytes are no frame", bytes.len());
                let hint = format!("send {} to {}", limits::FRAME_MIN, limits::FRAME_MAX);
                return Err(FieldError::new("packet", problem, hint).into());
            }
            key.set(Field::InPort, u128::from(*in_port));
            bytes
        }
    };
    let _ = extract(bytes, bytes.len(), &mut key);
    Ok(key)
}

/// A filter that cannot be, as the services tell it.
pub fn filter_refused(refused: Refused) -> FieldError {
    FieldError::new("filter", format!("{}: {}", refused.code, refused.reason), refused.hint)
}

fn add_table(pipeline: &mut PipelineState, number: Option<u8>, name: &str) -> Result<u8, SwitchError> {
    if !is_table_name(name) {
        let hint = "use a letter or _, then letters, digits, _ . -: 31 characters at most, and not all";
        return Err(FieldError::new("name", format!("{name:?} is not a table's name"), hint).into());
    }
    if let Some((number, _)) = pipeline.names().iter().find(|(_, taken)| *taken == name) {
        let hint = format!("it is table {number}");
        return Err(SwitchError::Exists { what: "table", name: name.to_owned(), hint });
    }
    let last = u8::try_from(TABLES - 1).unwrap_or(u8::MAX);
    let number = match number {
        Some(number) if number > last => {
            return Err(FieldError::new("number", format!("{number} is no table"), "use 0 to 253").into());
        }
        Some(number) => match pipeline.names().get(&number) {
            Some(taken) => {
                let hint = format!("its name is {taken:?}");
                return Err(SwitchError::Exists { what: "table", name: number.to_string(), hint });
            }
            None => number,
        },
        None => {
            // What is listed has a name or a flow.
            let used: Vec<u8> = pipeline.tables().iter().map(|table| table.id).collect();
            let free = (0..=last).find(|number| !used.contains(number));
            free.ok_or(SwitchError::Exhausted { what: "tables", limit: TABLES })?
        }
    };
    pipeline.name_table(number, name);
    Ok(number)
}
