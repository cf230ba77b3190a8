//! What there is: bridges, ports, receive queues; and the snapshot made of it.

use super::numbers::Numbers;
use crate::info::{BridgeConfig, PortInfo, SwitchError};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::broadcast;
use vswitch_dataplane::limits::{self, L2_OVERHEAD};
use vswitch_dataplane::observe::PortTotals;
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::pipeline::state::{FlowRemoved, PipelineState};
use vswitch_dataplane::pipeline::{Bridge, Changes, Fdb, PacketIns, PortFacts, Stages, World};
use vswitch_dataplane::port::{FieldError, Link, OpenContext, PortConfig, PortId, PortKind};
use vswitch_dataplane::tunnel::LocalEndpoint;
use vswitch_dataplane::worker::{PortShared, PortView, RxqSlot, Snapshot};
use vswitch_overlay::{Neighbours, Routes};

/// A worker lets go of a port within a burst, or one sleep. After this long it is reported.
const RELEASE_SOON: Duration = Duration::from_secs(1);

pub(super) struct State {
    pub(super) context: OpenContext,
    /// Core of each worker.
    pub(super) cores: Vec<u32>,
    pub(super) bridges: BTreeMap<String, BridgeState>,
    /// By [`PortId`].
    pub(super) ports: Vec<Option<PortState>>,
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

#[derive(Debug)]
pub(super) struct PortState {
    pub(super) bridge: String,
    pub(super) config: PortConfig,
    /// Its kind as it is opened: with paths behind links.
    pub(super) kind: PortKind,
    pub(super) number: u32,
    /// Used where the device has none.
    pub(super) mac: Mac,
    pub(super) opened: Result<Opened, String>,
    /// As last reported.
    pub(super) link: Link,
    /// The same for workers.
    pub(super) link_up: Arc<AtomicBool>,
    /// MTU of its interface, as last seen.
    pub(super) seen_mtu: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) rxqs: Vec<Rxq>,
    pub(super) shared: Arc<PortShared>,
}

#[derive(Debug)]
pub(super) struct Rxq {
    pub(super) slot: Arc<RxqSlot>,
    /// Index of the worker that polls it.
    pub(super) worker: usize,
    pub(super) pinned: bool,
    /// Part of its worker's time, 0 to 1, smoothed over seconds.
    pub(super) usage: f64,
    /// Cycles at the last sample.
    pub(super) sampled: u64,
}

impl State {
    pub(super) fn new(context: OpenContext, cores: Vec<u32>) -> Self {
        let changes = Arc::<Changes>::default();
        let told = Arc::clone(&changes);
        let neighbours = Arc::new(Neighbours::new(move || {
            told.advance();
        }));
        Self {
            context,
            cores,
            bridges: BTreeMap::new(),
            ports: Vec::new(),
            sequence: 0,
            changes,
            stages: Arc::default(),
            world: 0,
            routes: Routes::default(),
            neighbours,
            bridge_id: 0,
        }
    }

    /// All ports that there are.
    pub(super) fn all_ports(&self) -> impl Iterator<Item = (PortId, &PortState)> {
        self.ports.iter().enumerate().filter_map(|(i, port)| Some((PortId(u16::try_from(i).ok()?), port.as_ref()?)))
    }

    /// All receive queues.
    pub(super) fn rxqs(&self) -> impl Iterator<Item = &Rxq> {
        self.ports.iter().flatten().filter_map(|port| port.opened.as_ref().ok()).flat_map(|opened| &opened.rxqs)
    }

    /// All receive queues, to change.
    pub(super) fn rxqs_mut(&mut self) -> impl Iterator<Item = &mut Rxq> {
        self.ports.iter_mut().flatten().filter_map(|port| port.opened.as_mut().ok()).flat_map(|opened| &mut opened.rxqs)
    }

    /// A bridge by name.
    pub(super) fn bridge(&self, name: &str) -> Result<&BridgeState, SwitchError> {
        self.bridges.get(name).ok_or_else(|| SwitchError::NotFound {
            what: "bridge",
            name: name.to_owned(),
            hint: hint("bridges", self.bridges.keys().map(String::as_str)),
        })
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

    /// Removes all ports from the state, to be closed after publication.
    pub(super) fn take_all_ports(&mut self) -> Vec<PortState> {
        std::mem::take(&mut self.ports).into_iter().flatten().collect()
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
        Snapshot { world, ports: last.ports.clone(), rxqs: last.rxqs.clone() }
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
            facts[id.index()] = Some(port.facts(bridge, self.peer_of(port)));
            for rxq in &opened.rxqs {
                rxqs[rxq.worker].push(Arc::clone(&rxq.slot));
            }
            ports[id.index()] = Some(PortView {
                bridge,
                admin_up: port.config.admin_up,
                frame_max: usize::from(port.config.mtu) + L2_OVERHEAD,
                peer: self.peer_of(port),
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
        Snapshot { world, ports, rxqs }
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

    /// The other end of a patch port, if it is there and points back.
    pub(super) fn peer_of(&self, port: &PortState) -> Option<PortId> {
        let PortKind::Patch { peer } = &port.config.kind else { return None };
        let back = |other: &PortState| {
            other.config.name == *peer
                && matches!(&other.config.kind, PortKind::Patch { peer } if *peer == port.config.name)
        };
        self.all_ports().find(|(_, other)| back(other)).map(|(id, _)| id)
    }

    /// A port as the API shows it.
    pub(super) fn info(&self, port: &PortState) -> PortInfo {
        let opened = port.opened.as_ref().ok();
        let count = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let totals = opened.map_or_else(PortTotals::default, |opened| opened.shared.totals());
        PortInfo {
            bridge: port.bridge.clone(),
            config: port.config.clone(),
            number: port.number,
            mac: port.mac(),
            link_up: port.link.up,
            link_speed_mbps: port.link.speed_mbps,
            interface_mtu: opened.and(port.seen_mtu),
            error: match &port.opened {
                Ok(opened) => opened.shared.device.trouble(),
                Err(error) => Some(error.clone()),
            },
            rx_queues: opened.map_or(0, |opened| count(opened.rxqs.len())),
            tx_queues: opened.map_or(0, |opened| count(opened.shared.tx.len())),
            offloads: opened.map_or_else(Vec::new, |opened| opened.shared.device.offloads()),
            capabilities: opened
                .map_or_else(Vec::new, |opened| opened.shared.device.capabilities(&port.config.kind, &totals)),
            totals,
        }
    }

    /// Link of a port now.
    pub(super) fn link_of(&self, port: &PortState) -> Link {
        match (&port.opened, &port.config.kind) {
            (Err(_), _) => Link::default(),
            (Ok(_), PortKind::Patch { .. }) => Link { up: self.peer_of(port).is_some(), speed_mbps: 0 },
            (Ok(opened), _) => opened.shared.device.link(),
        }
    }
}

fn hint<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.take(8).collect();
    if names.is_empty() { format!("there are no {what}") } else { format!("{what} are: {}", names.join(", ")) }
}

impl PortState {
    /// Notes its link, for reports and for workers.
    pub(super) fn set_link(&mut self, link: Link) {
        self.link = link;
        self.link_up.store(link.up, Relaxed);
    }

    /// As translation sees it.
    fn facts(&self, bridge: usize, peer: Option<PortId>) -> PortFacts {
        PortFacts {
            bridge,
            number: self.number,
            name: self.config.name.as_str().into(),
            admin_up: self.config.admin_up,
            link_up: Arc::clone(&self.link_up),
            no_flood: self.config.no_flood,
            no_forward: self.config.no_forward,
            no_receive: self.config.no_receive,
            peer,
            patch: matches!(self.config.kind, PortKind::Patch { .. }),
            strict: self.config.strict,
            underlay: self.config.may_tunnel(),
            tunnel: match &self.config.kind {
                PortKind::Tunnel(tunnel) => Some(Arc::new(tunnel.clone())),
                _ => None,
            },
            vtep: self.vtep().map(Arc::new),
        }
    }

    /// Its address.
    pub(super) fn mac(&self) -> Mac {
        let own = self.opened.as_ref().ok().and_then(|opened| opened.shared.device.mac());
        own.unwrap_or(self.mac)
    }

    fn vtep(&self) -> Option<LocalEndpoint> {
        let addresses: Vec<_> = self.config.addresses.iter().map(|cidr| cidr.address).collect();
        (!addresses.is_empty()).then(|| LocalEndpoint { mac: self.mac(), addresses })
    }

    /// Closes the port. It is unpublished and every worker has adopted the newer snapshot or
    /// sleeps.
    pub(super) fn close(self) {
        if let Ok(opened) = self.opened {
            opened.close(&self.config.name);
        }
    }
}

impl Opened {
    /// Closes the device of a port of this name, as [`PortState::close`] does.
    pub(super) fn close(self, port: &str) {
        let Self { rxqs, shared } = self;
        let wait = |done: &dyn Fn() -> bool| {
            let (start, mut reported) = (Instant::now(), false);
            while !done() {
                if !reported && start.elapsed() > RELEASE_SOON {
                    reported = true;
                    tracing::error!(port, "a worker has not let go of the port for 1 s");
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        };
        for rxq in rxqs {
            wait(&|| rxq.slot.take().is_some());
        }
        // A sleeping worker still holds its old snapshot: the device is to be closed here, not
        // there.
        wait(&|| Arc::strong_count(&shared) == 1);
        drop(shared);
    }
}
