//! What there is: bridges, ports, receive queues; and the snapshot made of it.

use super::Switch;
use super::capture::list::CaptureList;
use super::closing::Closing;
use super::numbers::Numbers;
use super::port_state::{PortState, Ports, Rxq};
use super::view::{BridgeView, View, hint, no_bridge};
use crate::info::{BridgeConfig, SwitchError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::sync::broadcast;
use vswitch_dataplane::limits::{self, L2_OVERHEAD};
use vswitch_dataplane::observe::DropSampler;
use vswitch_dataplane::pipeline::state::{FlowRemoved, PipelineState};
use vswitch_dataplane::pipeline::{Bridge, Changes, Fdb, PacketIns, PortFacts, Stages, World};
use vswitch_dataplane::port::{FieldError, OpenContext, PortConfig, PortId, PortKind};
use vswitch_dataplane::worker::{PortView, Snapshot};
use vswitch_overlay::{Neighbours, Routes};

/// What is to be done with the state when all workers have adopted a snapshot.
pub(super) type After<R> = Box<dyn FnOnce(&Switch, &mut State) -> R + Send>;

pub(super) struct State {
    pub(super) context: OpenContext,
    /// Core of each worker.
    pub(super) cores: Arc<[u32]>,
    /// By worker: samples of what died.
    pub(super) samplers: Arc<[Arc<DropSampler>]>,
    pub(super) bridges: BTreeMap<String, BridgeState>,
    /// By [`PortId`].
    pub(super) ports: Ports,
    /// What is gone, and not closed yet.
    pub(super) closing: Vec<Closing>,
    /// What is gone, and stays open as long as the process lives: a lost worker has it.
    pub(super) kept: Vec<Closing>,
    /// Workers that have panicked.
    pub(super) lost: BTreeSet<usize>,
    /// What is left to be done when all workers have adopted the present snapshot.
    pub(super) left: Vec<After<()>>,
    /// Of the last port event.
    pub(super) sequence: u64,
    /// What workers' cached decisions are checked against.
    pub(super) changes: Arc<Changes>,
    /// Where packets go on behind `ct()`.
    pub(super) stages: Arc<Stages>,
    /// Number of the last world.
    pub(super) world: u64,
    /// Ways to the other ends of tunnels. Ports are numbered by [`PortId`].
    pub(super) routes: Routes,
    /// Next hops of tunnels.
    pub(super) neighbours: Arc<Neighbours>,
    /// Number of the last bridge that was added.
    pub(super) bridge_id: u32,
    /// What is captured.
    pub(super) captures: CaptureList,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("bridges", &self.bridges).field("ports", &self.ports).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct BridgeState {
    pub(super) config: BridgeConfig,
    pub(super) fdb: Arc<Fdb>,
    /// Tables, groups and meters.
    pub(super) pipeline: PipelineState,
    /// Who gets packet-ins.
    pub(super) packet_ins: Arc<PacketIns>,
    /// Who is told about flows that went.
    pub(super) flow_events: broadcast::Sender<Arc<FlowRemoved>>,
    /// A number of its own.
    pub(super) id: u32,
    /// Of its ports.
    pub(super) numbers: Numbers,
}

impl BridgeState {
    /// A bridge without ports and flows.
    pub(super) fn new(config: BridgeConfig, id: u32, changes: &Arc<Changes>) -> Self {
        let fdb = Arc::new(Fdb::with_changes(config.fdb_entries, config.fdb_ageing_s, Arc::clone(changes)));
        let pipeline = PipelineState::new(changes);
        let (flow_events, _) = broadcast::channel(limits::FLOW_EVENTS_QUEUED);
        Self { config, fdb, pipeline, packet_ins: Arc::default(), flow_events, id, numbers: Numbers::default() }
    }

    /// As readers see it.
    pub(super) fn shown(&self) -> BridgeView {
        BridgeView {
            config: self.config.clone(),
            id: self.id,
            fdb: Arc::clone(&self.fdb),
            program: self.pipeline.program(),
            tables: self.pipeline.shared_names(),
            options: self.pipeline.options().clone(),
            packet_ins: Arc::clone(&self.packet_ins),
            flow_events: self.flow_events.clone(),
        }
    }

    /// As workers see it, without its ports.
    fn view(&self) -> Bridge {
        Bridge {
            program: self.pipeline.program(),
            packet_ins: Arc::clone(&self.packet_ins),
            strict: self.config.strict,
            id: self.id,
            options: self.pipeline.options().clone(),
            ..Bridge::new(&self.config.name, self.config.fail_mode, Arc::clone(&self.fdb))
        }
    }

    /// Tells subscribers about flows that went.
    pub(super) fn tell_removed(&mut self) {
        for removed in self.pipeline.take_removed() {
            // Nobody may listen.
            let _ = self.flow_events.send(Arc::new(removed));
        }
    }
}

impl State {
    pub(super) fn new(context: OpenContext, cores: Vec<u32>, samplers: Arc<[Arc<DropSampler>]>) -> Self {
        let changes = Arc::<Changes>::default();
        let told = Arc::clone(&changes);
        let neighbours = Arc::new(Neighbours::new(move || {
            told.advance();
        }));
        Self {
            context,
            cores: cores.into(),
            samplers,
            bridges: BTreeMap::new(),
            ports: Ports::default(),
            closing: Vec::new(),
            kept: Vec::new(),
            lost: BTreeSet::new(),
            left: Vec::new(),
            sequence: 0,
            changes,
            stages: Arc::default(),
            world: 0,
            routes: Routes::default(),
            neighbours,
            bridge_id: 0,
            captures: CaptureList::default(),
        }
    }

    /// All ports that there are.
    pub(super) fn all_ports(&self) -> impl Iterator<Item = (PortId, &PortState)> {
        self.ports.all()
    }

    /// All receive queues.
    pub(super) fn rxqs(&self) -> impl Iterator<Item = &Rxq> {
        self.ports.iter().flatten().filter_map(|port| port.opened.as_ref().ok()).flat_map(|opened| &opened.rxqs)
    }

    /// All receive queues, to change. Readers keep them as they were.
    pub(super) fn rxqs_mut(&mut self) -> impl Iterator<Item = &mut Rxq> {
        let ports = self.ports.iter_mut().flatten().map(Arc::make_mut);
        ports.filter_map(|port| port.opened.as_mut().ok()).flat_map(|opened| &mut opened.rxqs)
    }

    /// A bridge by name.
    pub(super) fn bridge(&self, name: &str) -> Result<&BridgeState, SwitchError> {
        self.bridges.get(name).ok_or_else(|| no_bridge(name, self.bridges.keys().map(String::as_str)))
    }

    /// A port of a bridge by name.
    pub(super) fn port(&self, bridge: &str, name: &str) -> Result<PortId, SwitchError> {
        self.bridge(bridge)?;
        let mut here = self.all_ports().filter(|(_, port)| port.bridge == bridge);
        here.find(|(_, port)| port.config.name == name).map(|(id, _)| id).ok_or_else(|| SwitchError::NotFound {
            what: "port",
            name: name.to_owned(),
            hint: match self.all_ports().find(|(_, port)| port.config.name == name) {
                Some((_, port)) => format!("it is a port of bridge {:?}", port.bridge),
                None => hint(
                    "ports",
                    self.all_ports().filter(|(_, p)| p.bridge == bridge).map(|(_, p)| p.config.name.as_str()),
                ),
            },
        })
    }

    /// A port whose device is not being opened.
    pub(super) fn usable_port(&self, bridge: &str, name: &str) -> Result<PortId, SwitchError> {
        self.opened_or_failed(self.port(bridge, name)?)
    }

    /// The port, unless its device is being opened: it may go, without having been there.
    pub(super) fn opened_or_failed(&self, id: PortId) -> Result<PortId, SwitchError> {
        let port = self.ports.get(id.index()).and_then(Option::as_ref);
        match port.and_then(|port| Some((&port.config.name, port.opening.as_ref()?))) {
            None => Ok(id),
            Some((name, opening)) => Err(SwitchError::Busy(format!("port {name:?} is {}", opening.text()))),
        }
    }

    /// All workers have adopted the program of a bridge.
    pub(super) fn adopted(&self, bridge: &str) {
        self.bridges.get(bridge).into_iter().for_each(|bridge| bridge.pipeline.adopted());
    }

    /// Removes all ports from the state, to be closed after publication.
    pub(super) fn take_all_ports(&mut self) -> Vec<Arc<PortState>> {
        std::mem::take(&mut self.ports).iter_mut().filter_map(Option::take).collect()
    }

    /// What readers are to see, with this world.
    pub(super) fn view(&self, world: Arc<World>) -> View {
        View {
            number: 0,
            world,
            cores: Arc::clone(&self.cores),
            bridges: self.bridges.iter().map(|(name, bridge)| (name.clone(), bridge.shown())).collect(),
            ports: self.ports.clone(),
            routes: self.routes.clone(),
            neighbours: Some(Arc::clone(&self.neighbours)),
        }
    }

    /// Number of the next world.
    pub(super) fn next_world(&self) -> u64 {
        self.world + 1
    }

    /// The state as workers see it, after tables, groups or meters of a bridge have changed and
    /// nothing else: all but its program is that of the last snapshot.
    pub(super) fn reprogrammed(&mut self, last: &Snapshot, bridge: &str) -> Snapshot {
        self.world = self.next_world();
        let mut bridges = last.world.bridges.clone();
        if let Some((view, state)) = bridges.iter_mut().find(|b| *b.name == *bridge).zip(self.bridges.get(bridge)) {
            view.program = state.pipeline.program();
        }
        let (ports, changes) = (last.world.ports.clone(), Arc::clone(&self.changes));
        let ports_changed = last.world.ports_changed;
        let stages = Arc::clone(&self.stages);
        let tunnels = Arc::clone(&last.world.tunnels);
        let world = Arc::new(World { number: self.world, ports_changed, bridges, ports, changes, stages, tunnels });
        Snapshot { world, ports: last.ports.clone(), rxqs: last.rxqs.clone(), captures: last.captures.clone() }
    }

    /// The state as workers see it, after bridges or ports have changed.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        self.world = self.next_world();
        let index: BTreeMap<&str, usize> =
            self.bridges.keys().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
        let mut bridges: Vec<Bridge> = self.bridges.values().map(BridgeState::view).collect();
        let mut numbers = vec![HashMap::new(); bridges.len()];
        let mut facts: Vec<Option<PortFacts>> = vec![None; self.ports.len()];
        let mut ports: Vec<Option<PortView>> = vec![None; self.ports.len()];
        let mut rxqs = vec![Vec::new(); self.cores.len()];
        let mut by_number: Vec<_> = self.all_ports().collect();
        by_number.sort_by_key(|(_, port)| port.number);
        for (id, port) in by_number {
            let Ok(opened) = &port.opened else { continue };
            let bridge = index[port.bridge.as_str()];
            if port.config.admin_up && !port.config.no_flood {
                bridges[bridge].flood.push(id);
            }
            numbers[bridge].insert(port.number, id);
            facts[id.index()] = Some(port.facts(bridge, self.ports.peer_of(port)));
            for rxq in &opened.rxqs {
                rxqs[rxq.worker].push(Arc::clone(&rxq.slot));
            }
            ports[id.index()] = Some(PortView {
                bridge,
                admin_up: port.config.admin_up,
                frame_max: usize::from(port.config.mtu) + L2_OVERHEAD,
                peer: self.ports.peer_of(port),
                shared: Arc::clone(&opened.shared),
            });
        }
        for (bridge, numbers) in bridges.iter_mut().zip(numbers) {
            bridge.numbers = Arc::new(numbers);
        }
        let changes = Arc::clone(&self.changes);
        let (number, ports_changed) = (self.world, self.world);
        let stages = Arc::clone(&self.stages);
        let tunnels = Arc::new(self.tunnels());
        let world = Arc::new(World { number, ports_changed, bridges, ports: facts, changes, stages, tunnels });
        Snapshot { world, ports, rxqs, captures: self.captures() }
    }

    /// A patch port joins two bridges: its other end is another port, elsewhere.
    pub(super) fn check_patch(&self, bridge: &str, config: &PortConfig) -> Result<(), SwitchError> {
        let PortKind::Patch { peer } = &config.kind else { return Ok(()) };
        let here = self.all_ports().any(|(_, port)| port.config.name == *peer && port.bridge == bridge);
        if *peer != config.name && !here {
            return Ok(());
        }
        let problem = format!("{peer:?} is in the same bridge");
        Err(FieldError::new("peer", problem, "name a patch port of another bridge").into())
    }
}
