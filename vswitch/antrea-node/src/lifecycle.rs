//! The Node, the gate, syncs.

use super::carry::Carry;
use super::gate::{holders, lost_kinds};
use super::underlay::When;
use super::{Antrea, AntreaError, State};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use vswitch_antrea::{Features, Key, Node, NodeState, ObjectKind, PacketCategory, Plan, Table, Wire, Write, Zones};
use vswitch_control::BridgeInfo;
use vswitch_dataplane::pipeline::FailMode;
use vswitch_dataplane::time::Millis;
use vswitch_proto::antrea::v1;

/// How an initialisation went.
#[derive(Debug)]
pub struct Initialized {
    /// Tables in pipeline order.
    pub tables: Vec<v1::TableState>,
    /// Nothing was different.
    pub unchanged: bool,
    /// Objects without effect.
    pub degraded: Vec<v1::ObjectStatus>,
}

/// A whole sync, received.
#[derive(Debug)]
pub struct Sync {
    /// How.
    pub begin: v1::SyncBegin,
    /// What.
    pub objects: Vec<v1::object::Object>,
}

fn existing(features: &Features) -> BTreeMap<u8, &'static str> {
    let exists = Table::ALL.iter().filter(|table| table.exists(features));
    exists.map(|table| (table.number(), table.name())).collect()
}

/// The highest number of the first round there is.
const FIRST_ROUND_MAX: u64 = 1 << 63;

/// How far a round may be ahead of the one before it.
const ROUND_STEP_MAX: u64 = 1 << 32;

impl Antrea {
    /// Says what the Node is; again, or for the first time.
    ///
    /// # Errors
    /// When the configuration is wrong, or the bridge is not as it must be. Then nothing has
    /// changed.
    pub fn initialize(&self, node: &v1::NodeConfig, round: u64) -> Result<Initialized, AntreaError> {
        let mut state = self.hold();
        state.check_round(round)?;
        if state.node_state.node().is_some_and(|(known, _)| known == node) {
            self.check_bridge(&state, &node.bridge)?;
            // They may have ended, or found no place.
            self.read_packets(&state);
            return Ok(Initialized { tables: self.table_states(&state)?, unchanged: true, degraded: degraded(&state) });
        }
        // Everything that is wrong with it is told, the bridge's name among it.
        let mut trial = NodeState::default();
        if !node.bridge.is_empty() {
            trial.set_ports(self.ports(&node.bridge)?);
        }
        trial.plan_node(node).map(|plan| trial.revert(plan)).map_err(AntreaError::Node)?;
        self.check_wire(node)?;
        self.no_foreign_flows(node)?;
        self.check_bridge(&state, &node.bridge)?;
        if let Some(old) = state.node_state.node().map(|(_, old)| old.bridge.clone()).filter(|old| *old != node.bridge)
        {
            if !state.node_state.desired().is_empty() {
                let reason = format!("the Node's bridge is {old:?}, and there are objects; reset the Node first");
                return Err(AntreaError::Precondition(reason));
            }
            self.reset_locked(&mut state)?;
        }
        self.change_node(&mut state, node)?;
        self.read_packets(&state);
        Ok(Initialized { tables: self.table_states(&state)?, unchanged: false, degraded: degraded(&state) })
    }

    /// Makes the Node another one, on the same bridge if there was one before.
    pub(super) fn change_node(&self, state: &mut State, node: &v1::NodeConfig) -> Result<(), AntreaError> {
        self.mark(state);
        let old = state.node_state.node().map(|(_, old)| Arc::clone(old));
        let old_tables = old.as_ref().map(|old| existing(&old.features)).unwrap_or_default();
        let ports = self.ports(&node.bridge)?;
        state.node_state.set_ports(ports);
        let wire = self.know_wire(state, node)?;
        let plan = match state.node_state.plan_node(node) {
            Ok(plan) => plan,
            Err(problems) => {
                state.node_state.set_wire(wire);
                return Err(AntreaError::Node(problems));
            }
        };
        let new = state.node_state.node().map(|(_, node)| Arc::clone(node));
        let new_tables = new.as_ref().map(|node| existing(&node.features)).unwrap_or_default();
        let named = match self.name_tables(&node.bridge, &old_tables, &new_tables) {
            Ok(named) => named,
            Err(error) => {
                state.node_state.revert(plan);
                state.node_state.set_wire(wire);
                return Err(error);
            }
        };
        if let Err(error) = self.read_answers(state) {
            self.stay(state, plan, wire);
            self.forget_tables(&node.bridge, named);
            return Err(error);
        }
        // Before the flows that rely on it.
        self.track_strictly(new.as_deref());
        self.track_vlans_strictly(state, plan.compiled());
        if state.gate_open
            && let Err(error) = self.write_flows(&node.bridge, &plan.updates)
        {
            self.stay(state, plan, wire);
            self.forget_tables(&node.bridge, named);
            return Err(error.into());
        }
        state.node_state.settle(plan);
        state.pending = None;
        if let Some(new) = &new {
            self.end_unnumbered(state, new);
        }
        self.forget_tables(
            &node.bridge,
            old_tables.iter().filter(|(n, _)| !new_tables.contains_key(n)).map(|(_, name)| *name),
        );
        if let (Some(old), Some(new)) = (&old, &new) {
            self.track_as_before(&old.zones, |zone| new.zones.contains(zone));
        }
        self.follow_wire(state, When::Come);
        Ok(())
    }

    /// DNS answers are read by whom the Node says, before its flows are written: whoever reads from
    /// now on has begun when the other one ends, since what nobody reads is dropped. An agent that
    /// gives them back is left when the Node is settled ([`Self::read_packets`]).
    ///
    /// # Errors
    /// When the bridge has too many subscribers.
    fn read_answers(&self, state: &State) -> Result<(), AntreaError> {
        let Some((_, node)) = state.node_state.node() else { return Ok(()) };
        if node.taken_over.contains(&PacketCategory::Dns)
            && let Err(error) = self.read_to_answer(state)
        {
            tracing::warn!(%error, "DNS answers cannot be handed to the agent");
        }
        self.names.read_for(&*self.switch, node)
    }

    /// The Node stays what it was, and its answers are read by whom they were read before.
    fn stay(&self, state: &mut State, plan: Plan, wire: Wire) {
        state.node_state.revert(plan);
        state.node_state.set_wire(wire);
        if let Err(error) = self.read_answers(state) {
            tracing::error!(%error, "DNS answers are not read any more; those of Pods with rules about names are dropped");
        }
        self.read_packets(state);
    }

    /// In our zones a connection is established when the other end has answered: the pipeline lets
    /// established ones pass all policies, and commits connections of Services before policies have
    /// judged them.
    fn track_strictly(&self, node: Option<&Node>) {
        let conntrack = self.switch.conntrack();
        for zone in node.iter().flat_map(|node| node.zones.fixed()) {
            conntrack.tracker().set_established_after_answer(zone, true);
        }
    }

    /// Zones that were ours, and are not any more, are as they were.
    fn track_as_before(&self, zones: &Zones, is_ours: impl Fn(u16) -> bool) {
        let conntrack = self.switch.conntrack();
        let strict = conntrack.tracker().zones_established_after_answer();
        for zone in strict.into_iter().filter(|zone| zones.contains(*zone) && !is_ours(*zone)) {
            conntrack.tracker().set_established_after_answer(zone, false);
        }
    }

    /// So it is in the zones of VLANs, with the first Pod there that is compiled; those without a
    /// Pod any more stay as they are, until the Node is another one.
    pub(super) fn track_vlans_strictly<'a>(&self, state: &State, compiled: impl Iterator<Item = &'a Key>) {
        let Some(facts) = state.node_state.facts() else { return };
        let conntrack = self.switch.conntrack();
        for zone in facts.vlan_zones_of(compiled) {
            conntrack.tracker().set_established_after_answer(zone, true);
        }
    }

    /// Takes names of tables away; one that somebody else took away already is no error.
    fn forget_tables<'a>(&self, bridge: &str, names: impl IntoIterator<Item = &'a str>) {
        for name in names {
            if let Err(error) = self.switch.delete_table(bridge, name) {
                tracing::debug!(bridge, name, %error, "a table has lost its name already");
            }
        }
    }

    /// The bridge is there, drops what no flow matches, and nobody else's flows are in our tables.
    pub(super) fn check_bridge(&self, state: &State, bridge: &str) -> Result<(), AntreaError> {
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
        let ours = state.gate_open && state.node_state.node().is_some_and(|(_, node)| node.bridge == bridge);
        if !ours && (!self.switch.groups(bridge, None)?.is_empty() || !self.switch.meters(bridge, None)?.is_empty()) {
            return Err(AntreaError::Precondition(format!(
                "bridge {bridge:?} has groups or meters that are not ours; delete them first"
            )));
        }
        Ok(())
    }

    /// Gives the new tables their names. Tables that are named already must be ours, and without
    /// flows of others.
    fn name_tables(
        &self,
        bridge: &str,
        old: &BTreeMap<u8, &str>,
        new: &BTreeMap<u8, &'static str>,
    ) -> Result<Vec<&'static str>, AntreaError> {
        let tables = self.switch.tables(bridge)?;
        let fresh: Vec<(u8, &'static str)> =
            new.iter().filter(|(n, _)| !old.contains_key(n)).map(|(n, name)| (*n, *name)).collect();
        for (number, name) in &fresh {
            if let Some(other) = tables.iter().find(|table| table.id != *number && table.name.as_deref() == Some(name))
            {
                return Err(AntreaError::Precondition(format!(
                    "table {} of bridge {bridge:?} is named {name:?}, which must be table {number}; take the name away first",
                    other.id
                )));
            }
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
        let mut named = Vec::new();
        for (number, name) in fresh {
            if tables.iter().any(|table| table.name.as_deref() == Some(name)) {
                continue;
            }
            if let Err(error) = self.switch.add_table(bridge, Some(number), name) {
                self.forget_tables(bridge, named);
                return Err(error.into());
            }
            named.push(name);
        }
        Ok(named)
    }

    /// Takes everything of ours out of the bridge, and closes the gate.
    ///
    /// # Errors
    /// When the caller's round is over, or the bridge refuses.
    pub fn reset(&self, round: u64) -> Result<(), AntreaError> {
        let mut state = self.hold();
        state.check_round(round)?;
        self.reset_locked(&mut state)
    }

    fn reset_locked(&self, state: &mut State) -> Result<(), AntreaError> {
        self.mark(state);
        let Some((_, node)) = state.node_state.node() else {
            // What waits for its bridge is given up, too.
            if state.pending.take().is_some() {
                state.node_state = NodeState::default();
                state.numbers_since = Some(Millis::now().0);
            }
            return Ok(());
        };
        let node = Arc::clone(node);
        self.leave_wire(state);
        if state.gate_open {
            self.write_flows(&node.bridge, &state.node_state.store().nothing())?;
        }
        state.node_state = NodeState::default();
        state.igmp = super::multicast::Igmp::default();
        state.moved.clear();
        self.traceflows.cut();
        self.names.reset();
        (state.gate_open, state.restored) = (false, false);
        state.synced.clear();
        state.numbers_since = Some(Millis::now().0);
        self.track_as_before(&node.zones, |_| false);
        self.forget_tables(&node.bridge, existing(&node.features).into_values());
        self.read_packets(state);
        Ok(())
    }

    /// Opens the gate for agents that write increments only.
    ///
    /// # Errors
    /// When there is no Node, the caller's round is over, or the bridge refuses.
    pub fn open_gate(&self, round: u64) -> Result<(), AntreaError> {
        let mut state = self.hold();
        state.check_round(round)?;
        if !state.gate_open {
            let bridge = state.bridge()?;
            self.mark(&mut state);
            self.write_flows(&bridge, &state.node_state.store().everything())?;
            state.open(&bridge);
            self.follow_wire(&mut state, When::Come);
            self.tell_round(state.round, true);
        }
        Ok(())
    }

    /// Makes objects of some kinds the whole of what there is of them.
    ///
    /// # Errors
    /// When there is no Node, the round is not above the last one, the request is wrong, or the
    /// bridge refuses to open.
    pub fn sync(&self, sync: Sync) -> Result<v1::SyncResponse, AntreaError> {
        let began = Instant::now();
        let Sync { begin, objects } = sync;
        let mut state = self.hold();
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
        // The last number there is would keep all later agents out.
        let last = if state.round == 0 { FIRST_ROUND_MAX } else { state.round.saturating_add(ROUND_STEP_MAX) };
        if begin.round > last {
            let reason = format!("{} is too far ahead of round {}; use {last} at most", begin.round, state.round);
            return Err(AntreaError::Request { field: "begin.round", reason });
        }
        let scope = scope(&begin)?;
        let outside = objects.iter().map(vswitch_antrea::Object::key_of).find(|key| !scope.contains(&key.kind));
        if let Some(key) = outside {
            return Err(AntreaError::Request { field: "objects", reason: format!("{key} is not in the scope") });
        }
        let ports = self.ports(&bridge)?;
        state.node_state.set_ports(ports);
        if begin.verify_tables && !begin.dry_run {
            state.under.again();
        }
        // Before anything is planned: a plan rests on what should be there.
        let repaired = if begin.verify_tables && !begin.dry_run { self.repair(&state)? } else { 0 };
        let valid_only = begin.mode() == v1::WriteMode::ValidOnly;
        let write = Write { objects, remove: Vec::new(), sweep: scope.clone(), valid_only, only_odd: true };
        let plan = state.node_state.plan(write);
        let mut synced = state.synced.clone();
        synced.extend(scope);
        for kind in lost_kinds(&state.node_state, &plan.result) {
            synced.remove(&kind);
        }
        let holders = holders(&state.node_state, &synced);
        let opens = match begin.gate() {
            v1::GateChange::Unspecified | v1::GateChange::Open => holders.is_empty(),
            v1::GateChange::OpenAnyway => true,
            v1::GateChange::Keep => false,
        };
        let result = self.carry_out(&mut state, plan, Carry { began, dry_run: begin.dry_run, opens, said: true })?;
        if result.applied && !begin.dry_run {
            state.round = begin.round;
            state.committed_unix_ms = vswitch_dataplane::time::unix_ms();
            state.synced = synced;
            state.restored = false;
            self.tell_round(state.round, state.gate_open);
        }
        let gate_held_by = if state.gate_open { Vec::new() } else { holders };
        Ok(v1::SyncResponse { result: Some(result), gate_open: state.gate_open, repaired, gate_held_by })
    }
}

/// Kinds that are sent whole.
fn scope(begin: &v1::SyncBegin) -> Result<BTreeSet<ObjectKind>, AntreaError> {
    if begin.scope.is_empty() {
        return Ok(ObjectKind::WRITTEN.into());
    }
    let read = begin.scope.iter().map(|told| v1::Kind::try_from(*told).ok().and_then(ObjectKind::read).ok_or(*told));
    read.collect::<Result<_, _>>().map_err(|told| AntreaError::Request {
        field: "begin.scope",
        reason: format!("{told} is no kind of object that is written"),
    })
}

/// Objects of which something has no effect, at most 1000.
pub(super) fn degraded(state: &State) -> Vec<v1::ObjectStatus> {
    let keys = state.node_state.degraded().keys().take(vswitch_antrea::limits::TOLD_MAX);
    let mut told = keys.map(|key| super::changes::status(state, key)).collect();
    super::gateway::tell(state, &mut told);
    told
}
