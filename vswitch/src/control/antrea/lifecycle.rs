//! The Node, the gate, syncs.

use super::{Antrea, AntreaError, State};
use crate::control::BridgeInfo;
use crate::pipeline::FailMode;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};
use vswitch_antrea::{Features, Kind, Room, Table, Write};
use vswitch_proto::antrea::v1;

/// How an initialisation went.
#[derive(Debug)]
pub(in crate::control) struct Initialized {
    /// Tables in pipeline order.
    pub(in crate::control) tables: Vec<v1::TableState>,
    /// Nothing was different.
    pub(in crate::control) unchanged: bool,
    /// Objects without effect.
    pub(in crate::control) degraded: Vec<v1::ObjectStatus>,
}

/// A whole sync, received.
#[derive(Debug)]
pub(in crate::control) struct Sync {
    /// How.
    pub(in crate::control) begin: v1::SyncBegin,
    /// What.
    pub(in crate::control) objects: Vec<v1::object::Object>,
}

/// Kinds without which policies cannot be in force.
const GATED: [Kind; 4] = [Kind::Pod, Kind::AddressGroup, Kind::AppliedToGroup, Kind::NetworkPolicy];

fn existing(features: &Features) -> BTreeMap<u8, &'static str> {
    let exists = Table::ALL.iter().filter(|table| table.exists(features));
    exists.map(|table| (table.number(), table.name())).collect()
}

impl Antrea {
    /// Says what the Node is; again, or for the first time.
    ///
    /// # Errors
    /// When the configuration is wrong, or the bridge is not as it must be. Then nothing has changed.
    pub(in crate::control) fn initialize(&self, node: &v1::NodeConfig, round: u64) -> Result<Initialized, AntreaError> {
        let mut state = self.state.lock();
        state.check_round(round)?;
        if state.room.node().is_some_and(|(known, _)| known == node) {
            return Ok(Initialized { tables: self.table_states(&state)?, unchanged: true, degraded: degraded(&state) });
        }
        let old = match state.room.node() {
            Some((_, old)) if old.bridge != node.bridge && !state.room.desired().is_empty() => {
                let reason =
                    format!("the Node's bridge is {:?}, and there are objects; reset the Node first", old.bridge);
                return Err(AntreaError::Precondition(reason));
            }
            Some((_, old)) if old.bridge != node.bridge => {
                self.reset_locked(&mut state)?;
                BTreeMap::new()
            }
            Some((_, old)) => existing(&old.features),
            None => BTreeMap::new(),
        };
        if node.bridge.is_empty() {
            // Found with everything else that is wrong.
            return state.room.plan_node(node).map_err(AntreaError::Node).and_then(|plan| {
                state.room.revert(plan);
                Err(AntreaError::NotInitialised)
            });
        }
        self.check_bridge(&node.bridge)?;
        let ports = self.ports(&node.bridge)?;
        state.room.set_ports(ports);
        let plan = state.room.plan_node(node).map_err(AntreaError::Node)?;
        let new = state.room.node().map(|(_, node)| existing(&node.features)).unwrap_or_default();
        if let Err(error) = self.name_tables(&node.bridge, &old, &new) {
            state.room.revert(plan);
            return Err(error);
        }
        if state.gate_open
            && let Err(error) = self.switch.write_pipeline(&node.bridge, &plan.updates)
        {
            state.room.revert(plan);
            self.name_tables(&node.bridge, &new, &old)?;
            return Err(error.into());
        }
        state.room.settle(plan);
        self.track_strictly(&state, true);
        for (number, name) in &old {
            if !new.contains_key(number) {
                self.switch.delete_table(&node.bridge, name)?;
            }
        }
        Ok(Initialized { tables: self.table_states(&state)?, unchanged: false, degraded: degraded(&state) })
    }

    /// In our zones a connection is established when the other end has answered: the pipeline lets established ones pass all policies, and commits
    /// connections of Services before policies have judged them.
    fn track_strictly(&self, state: &State, on: bool) {
        let Some((_, node)) = state.room.node() else { return };
        let conntrack = self.switch.conntrack();
        for zone in [node.zones.main, node.zones.snat, node.zones.egress].concat() {
            conntrack.tracker().set_established_after_answer(zone, on);
        }
    }

    /// The bridge is there, drops what no flow matches, and nobody else's flows are in our tables.
    fn check_bridge(&self, bridge: &str) -> Result<(), AntreaError> {
        let bridges = self.switch.bridges();
        let Some(BridgeInfo { config, .. }) = bridges.iter().find(|info| info.config.name == bridge) else {
            self.switch.names(bridge)?;
            return Ok(());
        };
        if config.fail_mode != FailMode::Secure {
            return Err(AntreaError::Precondition(format!(
                "bridge {bridge:?} is standalone: it would forward without any policy; set its fail mode to secure"
            )));
        }
        Ok(())
    }

    /// Gives the new tables their names. Tables that are named already must be ours, and without flows of others.
    fn name_tables(
        &self,
        bridge: &str,
        old: &BTreeMap<u8, &str>,
        new: &BTreeMap<u8, &'static str>,
    ) -> Result<(), AntreaError> {
        let tables = self.switch.tables(bridge)?;
        let fresh: Vec<(u8, &str)> =
            new.iter().filter(|(n, _)| !old.contains_key(n)).map(|(n, name)| (*n, *name)).collect();
        for (number, name) in &fresh {
            let Some(there) = tables.iter().find(|table| table.id == *number) else { continue };
            if there.name.as_deref().is_some_and(|other| other != *name) {
                return Err(AntreaError::Precondition(format!(
                    "table {number} of bridge {bridge:?} is named {:?}, and must be {name:?}; take the name away first",
                    there.name.as_deref().unwrap_or_default()
                )));
            }
            if there.flows > 0 {
                return Err(AntreaError::Precondition(format!(
                    "table {number} ({name}) of bridge {bridge:?} has {} flows that are not ours; delete them first",
                    there.flows
                )));
            }
        }
        for (number, name) in fresh {
            if tables.iter().all(|table| table.name.as_deref() != Some(name)) {
                self.switch.add_table(bridge, Some(number), name)?;
            }
        }
        Ok(())
    }

    /// Takes everything of ours out of the bridge, and closes the gate.
    ///
    /// # Errors
    /// When the caller's round is over, or the bridge refuses.
    pub(in crate::control) fn reset(&self, round: u64) -> Result<(), AntreaError> {
        let mut state = self.state.lock();
        state.check_round(round)?;
        self.reset_locked(&mut state)
    }

    fn reset_locked(&self, state: &mut State) -> Result<(), AntreaError> {
        let Some((_, node)) = state.room.node() else { return Ok(()) };
        let (bridge, tables) = (node.bridge.clone(), existing(&node.features));
        if state.gate_open {
            self.switch.write_pipeline(&bridge, &state.room.store().nothing())?;
        }
        for name in tables.values() {
            self.switch.delete_table(&bridge, name)?;
        }
        self.track_strictly(state, false);
        state.room = Room::default();
        state.gate_open = false;
        state.synced.clear();
        Ok(())
    }

    /// Writes everything, if it is not there yet.
    fn open(&self, state: &mut State) -> Result<(), AntreaError> {
        if !state.gate_open {
            let bridge = state.bridge()?;
            self.switch.write_pipeline(&bridge, &state.room.store().everything())?;
            state.gate_open = true;
            tracing::info!(bridge, objects = state.room.desired().len(), "Antrea's gate is open");
        }
        Ok(())
    }

    /// Opens the gate for agents that write increments only.
    ///
    /// # Errors
    /// When there is no Node, the caller's round is over, or the bridge refuses.
    pub(in crate::control) fn open_gate(&self, round: u64) -> Result<(), AntreaError> {
        let mut state = self.state.lock();
        state.check_round(round)?;
        self.open(&mut state)
    }

    /// Makes objects of some kinds the whole of what there is of them.
    ///
    /// # Errors
    /// When there is no Node, the round is not above the last one, the request is wrong, or the bridge refuses to open.
    pub(in crate::control) fn sync(&self, sync: Sync) -> Result<v1::SyncResponse, AntreaError> {
        let Sync { begin, objects } = sync;
        let mut state = self.state.lock();
        let bridge = state.bridge()?;
        if begin.round == 0 {
            return Err(AntreaError::Request {
                field: "begin.round",
                reason: "0 is no round; use 1 or more".to_owned(),
            });
        }
        if begin.round <= state.round {
            return Err(AntreaError::OldRound { given: begin.round, current: state.round });
        }
        let scope = scope(&begin)?;
        let outside = objects.iter().map(vswitch_antrea::Object::key_of).find(|key| !scope.contains(&key.kind));
        if let Some(key) = outside {
            return Err(AntreaError::Request { field: "objects", reason: format!("{key} is not in the scope") });
        }
        let ports = self.ports(&bridge)?;
        state.room.set_ports(ports);
        let valid_only = begin.mode() == v1::WriteMode::ValidOnly;
        let write = Write { objects, remove: Vec::new(), sweep: scope.clone(), valid_only, only_odd: true };
        let plan = state.room.plan(write);
        let result = self.carry_out(&mut state, plan, begin.dry_run)?;
        if result.applied && !begin.dry_run {
            state.round = begin.round;
            state.committed_unix_ms = unix_ms();
            state.synced.extend(scope);
            let refused = result.counts.get("REFUSED").is_some_and(|refused| *refused > 0);
            let complete = GATED.iter().all(|kind| state.synced.contains(kind));
            let opens = match begin.gate() {
                v1::GateChange::Unspecified | v1::GateChange::Open => complete && !refused,
                v1::GateChange::OpenAnyway => true,
                v1::GateChange::Keep => false,
            };
            if opens {
                self.open(&mut state)?;
            }
        }
        let repaired = if begin.verify_tables && result.applied && !begin.dry_run { self.repair(&state)? } else { 0 };
        Ok(v1::SyncResponse { result: Some(result), gate_open: state.gate_open, repaired })
    }
}

/// Kinds that are sent whole.
fn scope(begin: &v1::SyncBegin) -> Result<BTreeSet<Kind>, AntreaError> {
    if begin.scope.is_empty() {
        return Ok(Kind::WRITTEN.into());
    }
    let read = begin.scope.iter().map(|told| v1::Kind::try_from(*told).ok().and_then(Kind::read).ok_or(*told));
    read.collect::<Result<_, _>>().map_err(|told| AntreaError::Request {
        field: "begin.scope",
        reason: format!("{told} is no kind of object that is written"),
    })
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Objects of which something has no effect, at most 1000.
pub(super) fn degraded(state: &State) -> Vec<v1::ObjectStatus> {
    let status = |(key, problems): (&vswitch_antrea::Key, &vswitch_antrea::Problems)| v1::ObjectStatus {
        object: Some(key.told()),
        outcome: v1::ObjectOutcome::Degraded.into(),
        problems: problems.all().iter().map(vswitch_antrea::Problem::told).collect(),
        warnings: Vec::new(),
    };
    state.room.degraded().iter().take(vswitch_antrea::limits::TOLD_MAX).map(status).collect()
}
