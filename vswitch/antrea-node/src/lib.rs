//! The desired state that an agent of Antrea's kind writes, and the bridge that has what it comes
//! to.
//!
//! **Where in the walk**: nowhere; a client of [`vswitch_control::Switch`] like any service.
//!
//! **Design**: `docs/architecture/antrea-compiler.md`. The crate `vswitch_antrea` plans: what
//! agents say becomes typed objects, numbers, flows, and the difference to
//! what was there. Here a plan is carried out: one transaction of the bridge, then connections that
//! rest on what went are ended, then the plan is settled. If the bridge refuses, the plan is
//! reverted. Until the gate opens nothing is written at all, so that no packet passes before its
//! policies are there.
//!
//! **Limits**: those of a transaction ([`vswitch_dataplane::limits::TRANSACTION_UPDATES_MAX`]) and
//! of tables.
//!
//! **Threads**: one writer at a time, under the lock of [`Antrea`], which is taken before the
//! switch's. Calls block; the services run them on blocking threads.
#![forbid(unsafe_code)]

mod answers;
mod carry;
mod changes;
mod counted;
mod drops;
mod events;
mod flush;
mod gate;
mod gateway;
mod held;
mod host;
mod lifecycle;
mod limit;
mod moved;
mod multicast;
mod names;
mod owned;
mod packets;
mod persist;
mod records;
mod restart;
mod show;
mod topic;
mod traceflow;
mod underlay;

use parking_lot::Mutex;
use persist::Disk;
use restart::Pending;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Instant;
use vswitch_antrea::{Code, Desired, Key, NodeState, ObjectKind, Ports, Problem, Problems};
use vswitch_control::switch::pipeline::WriteError;
use vswitch_control::{SwitchApi, SwitchError};
use vswitch_dataplane::pipeline::state::Applied;
use vswitch_flow::spec::Update;
use vswitch_proto::antrea::v1;

pub use changes::watch_links;
pub use counted::{RuleCount, Wanted};
pub use events::{KINDS, Watch};
pub use lifecycle::Sync;
pub use multicast::read as read_igmp;
pub use names::read as read_names;
pub use persist::{PERIOD, RETRY};
pub use records::Only;
pub use show::{OwnedFlow, Shown};
pub use topic::{Delivery, Reader, Tell};
pub use traceflow::{Running, TraceflowError};
pub use underlay::maintain_wire;

/// What became of a transaction. One that a worker has not adopted in time is there: workers that
/// forward packets have it, and that one adopts it before its next packets. What is planned on it
/// holds.
fn written(result: Result<Applied, WriteError>) -> Result<(), WriteError> {
    match result {
        Err(WriteError::Switch(SwitchError::Late(reason))) => {
            tracing::warn!(reason, "flows of Antrea's are written, and not in force everywhere yet");
            Ok(())
        }
        result => result.map(|_| ()),
    }
}

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum AntreaError {
    /// `NodeService.Initialize` was not called.
    #[error("the Node is not initialised; call antrea.v1.NodeService.Initialize first")]
    NotInitialised,
    /// An agent that was replaced.
    #[error("round {given} is older than round {current}: another agent has begun since; begin a new round with Sync")]
    OldRound {
        /// The caller's.
        given: u64,
        /// The last one that was committed.
        current: u64,
    },
    /// The Node's configuration is wrong.
    #[error("the Node's configuration is wrong")]
    Node(Problems),
    /// The request is wrong.
    #[error("{field}: {reason}")]
    Request {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The bridge is not as it must be.
    #[error("{0}")]
    Precondition(String),
    /// The switch refused.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The bridge refused what was planned: a mistake of ours.
    #[error("the pipeline refused a flow of ours: {0}; report it")]
    Write(#[from] WriteError),
}

/// How objects are to be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Good objects are applied though others are refused.
    pub valid_only: bool,
    /// The agent's round; 0: not checked.
    pub round: u64,
    /// Only judge.
    pub dry_run: bool,
}

/// What is guarded by the lock.
#[derive(Debug)]
struct State {
    node_state: NodeState,
    /// Flows are in the bridge.
    gate_open: bool,
    /// Last round that was committed.
    round: u64,
    committed_unix_ms: u64,
    /// Kinds that were in the scope of a sync since the start.
    synced: BTreeSet<ObjectKind>,
    igmp: multicast::Igmp,
    /// What rules counted by flows that have gone.
    moved: moved::Moved,
    /// What is in the bridge behind the uplink.
    under: underlay::Written,
    /// Packets pass by what was on the disk, and no agent has synced since.
    restored: bool,
    /// What was on the disk is not in force yet.
    pending: Option<Pending>,
    /// Connections that began before this do not have these numbers; none: all have.
    numbers_since: Option<u64>,
    /// The disk does not know of something.
    dirty: bool,
    /// And says so.
    marked: bool,
    /// What is on the disk is being put in force: that says nothing new.
    resuming: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            node_state: NodeState::default(),
            gate_open: false,
            round: 0,
            committed_unix_ms: 0,
            synced: BTreeSet::new(),
            restored: false,
            pending: None,
            // Of this process: whoever was there before it is from another one.
            numbers_since: Some(0),
            dirty: false,
            marked: false,
            resuming: false,
            igmp: multicast::Igmp::default(),
            moved: moved::Moved::default(),
            under: underlay::Written::default(),
        }
    }
}

impl State {
    fn check_round(&self, given: u64) -> Result<(), AntreaError> {
        if given != 0 && given < self.round {
            return Err(AntreaError::OldRound { given, current: self.round });
        }
        Ok(())
    }

    /// Everything is in the bridge.
    fn open(&mut self, bridge: &str) {
        self.gate_open = true;
        tracing::info!(bridge, objects = self.node_state.desired().len(), "Antrea's gate is open");
    }

    /// Whether a bridge is another one than the Node's.
    fn not_the_nodes(&self, bridge: &str) -> Result<(), SwitchError> {
        if self.node_state.node().is_some_and(|(_, node)| node.bridge == bridge) {
            let reason = format!("bridge {bridge:?} is the Node's; reset the Node (antrea.v1.NodeService.Reset) first");
            return Err(SwitchError::Precondition(reason));
        }
        Ok(())
    }

    /// The Node's bridge.
    fn bridge(&self) -> Result<String, AntreaError> {
        self.node_state.node().map(|(_, node)| node.bridge.clone()).ok_or(AntreaError::NotInitialised)
    }
}

/// The owner of the desired state.
pub struct Antrea {
    switch: Arc<dyn SwitchApi>,
    state: Mutex<State>,
    published: held::Published,
    traceflows: traceflow::Traceflows,
    names: names::Names,
    /// How the host is, as its agent reported it last.
    host: Mutex<Option<v1::HostState>>,
    /// Where all of it is over a restart.
    disk: Option<Disk>,
    events: events::Events,
    answers: answers::Answers,
    records: records::Records,
    /// Who reads packets. Taken behind the lock of the state.
    packets: packets::Packets,
    /// For the tasks, which keep nobody alive.
    me: Weak<Self>,
}

impl std::fmt::Debug for Antrea {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Antrea").finish_non_exhaustive()
    }
}

impl Antrea {
    /// Nothing is said yet. `state_dir`: where it is to be over a restart.
    pub fn new(switch: Arc<dyn SwitchApi>, state_dir: Option<PathBuf>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            switch,
            state: Mutex::default(),
            published: held::Published::default(),
            traceflows: traceflow::Traceflows::default(),
            names: names::Names::default(),
            host: Mutex::default(),
            disk: state_dir.map(Disk::new),
            events: events::Events::default(),
            answers: answers::Answers::default(),
            records: records::Records::default(),
            packets: packets::Packets::default(),
            me: Weak::clone(me),
        })
    }

    /// There is a Node.
    pub fn is_initialized(&self) -> bool {
        self.state.lock().node_state.node().is_some()
    }

    /// Writes a transaction. One that a worker adopts late is written.
    fn write_flows(&self, bridge: &str, updates: &[Update]) -> Result<(), WriteError> {
        written(self.switch.write_pipeline(bridge, updates))
    }

    /// Ports of a bridge as they are now.
    fn ports(&self, bridge: &str) -> Result<Ports, AntreaError> {
        let names = self.switch.names(bridge)?;
        Ok(names.ports.into_iter().collect::<Ports>().with_guests(names.guests))
    }

    /// Calls `delete` unless an object has the port: then nobody else may take its number.
    ///
    /// # Errors
    /// When an object has it, or as `delete`.
    pub fn unless_held(
        &self,
        bridge: &str,
        port: &str,
        delete: impl FnOnce() -> Result<(), SwitchError>,
    ) -> Result<(), SwitchError> {
        let state = self.state.lock();
        if state.under.needs(bridge, Some(port)) {
            let reason = format!(
                "port {port:?} is the Node's way to the wire: NodeConfig.uplink needs it; initialise the Node without it, or reset it, first"
            );
            return Err(SwitchError::Precondition(reason));
        }
        let ours = state.node_state.node().is_some_and(|(_, node)| node.bridge == bridge);
        let holder = if ours { state.node_state.held_ports().remove(port) } else { None };
        match holder {
            None => delete(),
            Some(Key { kind: ObjectKind::Node, .. }) => Err(SwitchError::Precondition(format!(
                "port {port:?} is the Node's: NodeConfig names it; initialise the Node without it, or reset it, first"
            ))),
            Some(holder) => {
                Err(SwitchError::Precondition(format!("port {port:?} is in use by {holder}; delete that first")))
            }
        }
    }

    /// Calls `change` unless the bridge is the Node's: it is not to be deleted, nor to forward by
    /// itself.
    ///
    /// # Errors
    /// When it is, or as `change`.
    pub fn unless_the_nodes(
        &self,
        bridge: &str,
        change: impl FnOnce() -> Result<(), SwitchError>,
    ) -> Result<(), SwitchError> {
        let state = self.state.lock();
        state.not_the_nodes(bridge)?;
        change()
    }

    /// Writes objects, and deletes some.
    ///
    /// # Errors
    /// When there is no Node, or the caller's round is over. What is wrong with single objects is
    /// in the result.
    pub fn write(
        &self,
        objects: Vec<v1::object::Object>,
        remove: Vec<Key>,
        how: How,
    ) -> Result<v1::WriteResult, AntreaError> {
        let began = Instant::now();
        let mut state = self.hold_for(objects.len().saturating_add(remove.len()));
        self.write_locked(&mut state, began, objects, remove, how)
    }

    /// Writes objects that are made of those that are there: an error names one that is not.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_made(
        &self,
        how: How,
        make: impl FnOnce(&Desired) -> Vec<Result<v1::object::Object, Key>>,
    ) -> Result<v1::WriteResult, AntreaError> {
        let began = Instant::now();
        let mut state = self.state.lock();
        let made = make(state.node_state.desired());
        let missing: Vec<Key> = made.iter().filter_map(|made| made.as_ref().err()).cloned().collect();
        let objects = made.into_iter().flatten().collect();
        let mut result = if missing.is_empty() || how.valid_only {
            self.write_locked(&mut state, began, objects, Vec::new(), how)?
        } else {
            self.write_locked(&mut state, began, objects, Vec::new(), How { dry_run: true, ..how })?
        };
        if !missing.is_empty() && !how.valid_only {
            carry::withdraw(&mut result);
        }
        for key in missing {
            let problem = Problem::new(Code::Reference, "name", format!("{key} is not there"));
            carry::add_refusal(&mut result, &key, &problem);
        }
        Ok(result)
    }

    fn write_locked(
        &self,
        state: &mut State,
        began: Instant,
        objects: Vec<v1::object::Object>,
        remove: Vec<Key>,
        how: How,
    ) -> Result<v1::WriteResult, AntreaError> {
        state.check_round(how.round)?;
        let ports = self.ports(&state.bridge()?)?;
        state.node_state.set_ports(ports);
        let valid_only = how.valid_only;
        let write = vswitch_antrea::Write { objects, remove, valid_only, ..vswitch_antrea::Write::default() };
        let plan = state.node_state.plan(write);
        self.carry_out(state, plan, carry::Carry { began, dry_run: how.dry_run, opens: false, said: true })
    }
}
