//! Coming back: what was on the disk is in force again, as far as that can be; and what is in force
//! goes to the disk.

use super::persist::Disk;
use super::underlay::When;
use super::{Antrea, AntreaError, State};
use std::collections::BTreeSet;
use vswitch_antrea::{Kept, Node, NodeState, Snapshot};
use vswitch_dataplane::time::Millis;
use vswitch_proto::antrea::v1;

/// A Node of before that is not in force yet.
#[derive(Debug)]
pub(super) struct Pending {
    config: v1::NodeConfig,
    /// Packets are to pass as soon as it is.
    opens: bool,
    /// Why it is not, as the log has it.
    told: String,
}

impl Antrea {
    /// Takes over what is on the disk, before the first call. A clean stop: everything is in force
    /// again at once. After a kill with calls that were not written: numbers and objects are there,
    /// and the gate stays shut. What cannot be used is logged and put aside; the switch waits for
    /// an agent then.
    pub fn restore(&self) {
        let Some(disk) = &self.disk else { return };
        let mut state = self.state.lock();
        let behind = disk.is_marked();
        match disk.read() {
            Ok(None) => tracing::info!(dir = %disk.path().display(), "no Node of before: there is no such file"),
            Ok(Some(kept)) => self.take_over(&mut state, kept, behind),
            Err(error) => {
                let aside = disk.put_aside().map_or_else(String::new, |path| path.display().to_string());
                tracing::error!(
                    file = %disk.state().display(), %error, aside,
                    "nothing of what agents declared before the stop is known: the gate is shut until one has synced"
                );
            }
        }
    }

    fn take_over(&self, state: &mut State, mut kept: Kept, behind: bool) {
        let Some(config) = kept.node.take() else { return };
        if behind {
            kept.is_behind();
        } else {
            state.numbers_since = None;
        }
        (state.round, state.committed_unix_ms) = (kept.round, kept.committed_unix_ms);
        let (objects, was_open) = (kept.len(), kept.gate_open);
        let refused = state.node_state.put_back(kept);
        for (key, problems) in &refused {
            tracing::error!(%key, ?problems, "an object of before is refused by this version");
        }
        // What is wrong is replaced by what isolates; only what may deny and has no name is not.
        let is_lost = refused.iter().any(|(key, _)| super::gate::DENYING.contains(&key.kind));
        let opens = was_open && !behind && !is_lost;
        tracing::info!(objects, round = state.round, opens, "what agents declared before the stop is known");
        if behind {
            tracing::warn!(
                "the switch was killed before all answered calls were on the disk: the gate is shut until an agent has synced"
            );
        }
        state.pending = Some(Pending { config, opens, told: String::new() });
        self.resume(state);
    }

    /// Puts the Node of before in force, if its bridge and ports are there. A port may have another
    /// MAC address at first: the host gives its port the Node's. So this is tried each second, too.
    pub(super) fn resume(&self, state: &mut State) {
        let Some(Pending { config, opens, told }) = state.pending.take() else { return };
        let bridge = config.bridge.clone();
        state.resuming = true;
        let done = self.check_bridge(state, &bridge).and_then(|()| self.change_node(state, &config));
        state.resuming = false;
        if let Err(error) = done {
            let problems = match &error {
                AntreaError::Node(problems) => format!("{problems:?}"),
                _ => String::new(),
            };
            let text = format!("{error} {problems}");
            if text != told {
                tracing::warn!(bridge, %error, problems, "the Node of before waits for its bridge and ports, or an agent");
            }
            state.pending = Some(Pending { config, opens, told: text });
            return;
        }
        let there = self.switch.names(&bridge).map(|names| names.ports).unwrap_or_default();
        let missing: Vec<String> =
            state.node_state.held_ports().into_keys().filter(|port| !there.contains_key(port)).collect();
        if !missing.is_empty() {
            tracing::warn!(ports = ?missing, "objects wait for ports of theirs to be added again");
        }
        if opens {
            match self.write_flows(&bridge, &state.node_state.store().everything()) {
                Ok(_) => {
                    state.open(&bridge);
                    state.restored = true;
                    self.follow_wire(state, When::Come);
                    self.tell_round(state.round, true);
                }
                Err(error) => {
                    tracing::error!(%error, "what agents declared before cannot be written; the gate is shut");
                }
            }
        }
        // Somebody may watch already.
        self.read_packets(state);
        self.tell_objects(state, &state.node_state.degraded().keys().cloned().collect());
    }

    /// A port was added: whatever waited for it is in force now.
    pub fn port_added(&self, bridge: &str, port: &str) {
        let mut state = self.state.lock();
        let waits_for = |config: &v1::NodeConfig| {
            config.bridge == bridge || config.uplink.as_ref().is_some_and(|uplink| uplink.underlay_bridge == bridge)
        };
        if state.pending.as_ref().is_some_and(|pending| waits_for(&pending.config)) {
            self.resume(&mut state);
            return;
        }
        let ours = state.node_state.node().is_some_and(|(_, node)| node.bridge == bridge);
        if !ours || state.node_state.holders(&BTreeSet::from([port.to_owned()])).is_empty() {
            return;
        }
        let Ok(ports) = self.ports(bridge) else { return };
        let plan = match state.node_state.plan_ports(ports) {
            Ok(plan) => plan,
            Err(refused) => {
                tracing::error!(port, ?refused, "objects cannot have their port again");
                return;
            }
        };
        if state.gate_open
            && let Err(error) = self.write_flows(bridge, &plan.updates)
        {
            tracing::error!(port, %error, "the pipeline refused what objects with this port came to; report it");
            state.node_state.revert(plan);
            return;
        }
        let turned = state.node_state.turned(&plan);
        state.node_state.settle(plan);
        self.follow_wire(&mut state, When::Come);
        self.tell_objects(&state, &turned);
    }

    /// Connections whose labels are of numbers that nobody knows any more end: the next rule with
    /// such a number is another one.
    pub(super) fn end_unnumbered(&self, state: &mut State, node: &Node) {
        let Some(since) = state.numbers_since.take() else { return };
        let now = Millis::now().0;
        let conntrack = self.switch.conntrack();
        let ended = conntrack.tracker().flush_where(now, |connection| {
            node.zones.contains(connection.original.zone) && connection.age_ms(now) > now.saturating_sub(since)
        });
        if ended > 0 {
            tracing::warn!(ended, "connections ended: what their labels say is not known any more");
        }
    }

    /// Something is going to change that the disk does not know. The mark is there when this
    /// returns, or the state is gone, or nothing can be done about it. What comes from the disk
    /// needs no mark: a switch that is killed meanwhile finds the same there.
    pub(super) fn mark(&self, state: &mut State) {
        let Some(disk) = &self.disk else { return };
        state.dirty = true;
        disk.wake.notify_one();
        if state.marked || state.resuming {
            return;
        }
        match disk.mark() {
            Ok(()) => state.marked = true,
            Err(error) => {
                self.report_disk(Some(error.to_string()));
                // Rather nothing than what may lack a deny.
                let aside = disk.put_aside().map_or_else(String::new, |path| path.display().to_string());
                tracing::error!(dir = %disk.path().display(), %error, aside, "the state on the disk cannot be marked as old");
            }
        }
    }

    /// Writes what the disk does not know yet. Not under the lock, but for a moment. False: it is
    /// to be tried again.
    pub fn write_behind(&self) -> bool {
        let Some(disk) = &self.disk else { return true };
        let _one = disk.writing.lock();
        let snapshot = {
            let mut state = self.state.lock();
            if !std::mem::take(&mut state.dirty) {
                return true;
            }
            state.snapshot()
        };
        if let Err(error) = disk.write(&snapshot) {
            tracing::error!(file = %disk.state().display(), %error, "what agents declared cannot be written");
            self.report_disk(Some(error.to_string()));
            self.state.lock().dirty = true;
            return false;
        }
        self.report_disk(None);
        let mut state = self.state.lock();
        // Nobody has changed anything meanwhile: who does marks it again, under this lock. There
        // may be a mark that could not be made for good.
        if !state.dirty {
            // If this fails the mark may be gone, or not: the next change makes it anew.
            state.marked = false;
            if let Err(error) = disk.unmark() {
                tracing::error!(dir = %disk.path().display(), %error, "a mark cannot be removed");
                state.dirty = true;
                drop(state);
                self.report_disk(Some(error.to_string()));
                return false;
            }
        }
        true
    }

    /// What agents declared cannot be brought to the disk, or can again: for `GetState` and health.
    fn report_disk(&self, problem: Option<String>) {
        let Some(disk) = &self.disk else { return };
        disk.problem.lock().clone_from(&problem);
        self.switch.report_disk("state of the Node", problem);
    }

    /// Until there is something to write; for ever, if there is no disk.
    pub async fn changed(&self) {
        match &self.disk {
            Some(Disk { wake, .. }) => wake.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl State {
    fn snapshot(&self) -> Snapshot {
        let node_state: &NodeState = &self.node_state;
        // A Node that still waits for its ports is kept as it was.
        let pending = self.pending.as_ref();
        let mut snapshot = node_state.snapshot();
        if let Some(pending) = pending {
            snapshot.node.get_or_insert_with(|| pending.config.clone());
        }
        snapshot.gate_open = self.gate_open || pending.is_some_and(|pending| pending.opens);
        (snapshot.round, snapshot.committed_unix_ms) = (self.round, self.committed_unix_ms);
        snapshot
    }
}
