//! A bridge with tables, ports of vectors, and a control side: for tests and fuzz targets of what
//! goes through tables and caches.

use crate::cache::{CacheShared, Collector};
use crate::capture::Captures;
use crate::conntrack::Conntrack;
use crate::meter::Rates;
use crate::observe::{DropPlace, DropSampler, PortCounters, PortTotals};
use crate::pipeline::state::{PipelineState, Refused};
use crate::pipeline::{Bridge, Changes, FailMode, Fdb, PacketIns, PortFacts, Stages, World};
use crate::port::sim::{SimRxQueue, SimTxQueue, SimWire};
use crate::port::{Device, PortId, RxQueue, TxQueue};
use crate::time::Millis;
use crate::tunnel::Tunnels;
use crate::worker::{PortShared, PortView, Snapshot, Walk};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use vswitch_conntrack::{Connection, Filter};
use vswitch_dpdk::{Burst, Mempool};
use vswitch_flow::spec::{FlowFilter, FlowFlags, FlowSpec, Update};
use vswitch_flow::text::{NoNames, parse_match};
use vswitch_flow::{Action, SparseMatch};

/// Ports 1 to `ports` of one bridge, with index = number - 1.
pub(super) struct Bed {
    pub(super) pool: Mempool,
    pub(super) wires: Vec<Arc<SimWire>>,
    pub(super) walk: Walk,
    pub(super) state: PipelineState,
    pub(super) changes: Arc<Changes>,
    stages: Arc<Stages>,
    pub(super) fdb: Arc<Fdb>,
    pub(super) packet_ins: Arc<PacketIns>,
    pub(super) shared: Arc<CacheShared>,
    pub(super) collector: Collector,
    pub(super) facts: Vec<PortFacts>,
    pub(super) now: Millis,
    pub(super) views: Vec<PortView>,
    /// Of all ports.
    pub(super) sampler: Arc<DropSampler>,
    world: u64,
    pub(super) tunnels: Arc<Tunnels>,
    pub(super) captures: Option<Arc<Captures>>,
}

impl Bed {
    pub(super) fn new(ports: usize) -> Self {
        Self::limited(ports, Rates::NONE)
    }

    /// Likewise, with limits on what one port may cause.
    pub(super) fn limited(ports: usize, rates: Rates) -> Self {
        let pool = Mempool::for_tests(2048);
        let wires: Vec<Arc<SimWire>> = (0..ports).map(|_| Arc::default()).collect();
        let sampler = Arc::new(DropSampler::new(0));
        let name = |port: usize| format!("p{}", port + 1);
        let place = |port| Arc::new(DropPlace { port, name: name(port), ..DropPlace::default() });
        let view = |port: usize| PortView {
            bridge: 0,
            admin_up: true,
            frame_max: 1522,
            peer: None,
            shared: Arc::new(PortShared {
                id: id(port),
                name: format!("p{}", port + 1),
                tx: Box::new([Mutex::new(TxQueue::Sim(SimTxQueue(Arc::clone(&wires[port]))))]),
                counters: Box::new([PortCounters::watched(&place(port), &sampler)]),
                device: Device::Sim,
                sequence: std::sync::atomic::AtomicU32::new(0),
                held: Default::default(),
            }),
        };
        let facts = |port: usize| PortFacts {
            bridge: 0,
            number: u32::try_from(port).expect("small") + 1,
            name: format!("p{}", port + 1).into(),
            admin_up: true,
            link_up: Arc::new(AtomicBool::new(true)),
            no_flood: false,
            no_forward: false,
            no_receive: false,
            peer: None,
            patch: false,
            tunnel: None,
            vtep: None,
            strict: false,
            underlay: true,
        };
        let changes: Arc<Changes> = Arc::default();
        let shared: Arc<CacheShared> = Arc::default();
        let mut bed = Self {
            walk: Walk::new(0, pool.clone(), Arc::clone(&shared), conntrack(), rates),
            state: PipelineState::new(&changes),
            fdb: Arc::new(Fdb::with_changes(1024, 300, Arc::clone(&changes))),
            packet_ins: Arc::default(),
            collector: Collector::new(std::iter::once(Arc::clone(&shared))),
            facts: (0..ports).map(facts).collect(),
            views: (0..ports).map(view).collect(),
            sampler: Arc::clone(&sampler),
            now: Millis(1000),
            world: 0,
            pool,
            wires,
            changes,
            stages: Arc::default(),
            shared,
            tunnels: Arc::default(),
            captures: None,
        };
        bed.publish();
        bed
    }

    /// Ports or program have changed.
    pub(super) fn publish(&mut self) {
        self.world += 1;
        self.publish_since(self.world);
    }

    /// The program has changed, ports have not since that world.
    fn publish_since(&mut self, ports_changed: u64) {
        let bridge = Bridge {
            flood: (0..self.facts.len()).filter(|i| !self.facts[*i].no_flood).map(id).collect(),
            numbers: Arc::new(self.facts.iter().enumerate().map(|(i, facts)| (facts.number, id(i))).collect()),
            program: self.state.program(),
            packet_ins: Arc::clone(&self.packet_ins),
            ..Bridge::new("br", FailMode::Secure, Arc::clone(&self.fdb))
        };
        let ports = self.facts.iter().cloned().map(Some).collect();
        let changes = Arc::clone(&self.changes);
        let world = Arc::new(World {
            number: self.world,
            ports_changed,
            bridges: vec![bridge],
            ports,
            changes,
            stages: Arc::clone(&self.stages),
            tunnels: Arc::clone(&self.tunnels),
        });
        let views = self.views.iter().cloned().map(Some).collect();
        self.walk.adopt(Arc::new(Snapshot {
            world,
            ports: views,
            rxqs: vec![Vec::new()],
            captures: self.captures.clone(),
        }));
    }

    /// Ports have an MTU of 9,100: one of 9,000 in a tunnel.
    pub(super) fn big_frames(&mut self) {
        self.views.iter_mut().for_each(|view| view.frame_max = 9100 + crate::limits::L2_OVERHEAD);
        self.publish();
    }

    /// A transaction.
    pub(super) fn write(&mut self, updates: &[Update]) {
        self.try_write(updates).expect("a good transaction");
    }

    /// A transaction, which may be refused.
    pub(super) fn try_write(&mut self, updates: &[Update]) -> Result<(), Refused> {
        self.collector.collect();
        self.state.apply(updates, self.world + 1, self.now)?;
        self.reprogrammed();
        Ok(())
    }

    /// What is due goes.
    pub(super) fn expire(&mut self) {
        self.collector.collect();
        if self.state.expire(self.world + 1, self.now) {
            self.reprogrammed();
        }
    }

    fn reprogrammed(&mut self) {
        self.world += 1;
        let ports_changed = self.walk.snapshot().world.ports_changed;
        self.publish_since(ports_changed);
    }

    /// Adds a flow: table, priority, match, actions.
    pub(super) fn add(&mut self, table: u8, priority: u16, matching: &str, actions: Vec<Action>) {
        self.write(&[add(table, priority, matching, actions)]);
    }

    /// Receives frames by one port, in bursts of `size`, and flushes.
    pub(super) fn receive_in(&mut self, port: usize, frames: &[Vec<u8>], size: usize) {
        let mut queue = RxQueue::Sim(SimRxQueue(Arc::clone(&self.wires[port - 1])));
        let counters = PortCounters::default();
        for chunk in frames.chunks(size) {
            chunk.iter().for_each(|frame| self.wires[port - 1].put(&self.pool, frame));
            let mut burst = Burst::new();
            queue.receive(&mut burst, &counters, &mut |_| unreachable!("nothing is borrowed"));
            self.walk.burst(&mut burst, id(port - 1), self.now);
            self.walk.flush();
        }
    }

    /// Receives one frame.
    pub(super) fn receive(&mut self, port: usize, frame: &[u8]) {
        self.receive_in(port, &[frame.to_vec()], 1);
    }

    /// What every port sent since the last call, by port number.
    pub(super) fn sent(&self) -> Vec<(usize, Vec<u8>)> {
        let of = |(i, wire): (usize, &Arc<SimWire>)| wire.take().into_iter().map(move |frame| (i + 1, frame));
        self.wires.iter().enumerate().flat_map(of).collect()
    }

    /// Numbers of the ports that sent something since the last call, once per frame.
    pub(super) fn ports(&self) -> Vec<usize> {
        self.sent().into_iter().map(|(port, _)| port).collect()
    }

    /// Packets and bytes of all flows, by table and priority.
    pub(super) fn counts(&mut self) -> Vec<(u8, u16, u64, u64)> {
        self.collector.collect();
        let infos = self.state.program().flows(&FlowFilter::default(), self.now);
        let mut counts: Vec<_> = infos
            .iter()
            .map(|info| (info.flow.table, info.flow.priority, info.counters.packets, info.counters.bytes))
            .collect();
        counts.sort_unstable();
        counts
    }

    pub(super) fn totals(&self, port: usize) -> PortTotals {
        self.walk.snapshot().port(id(port - 1)).expect("a port").shared.totals()
    }

    /// All connections.
    pub(super) fn connections(&self) -> Vec<Connection> {
        let mut all = Vec::new();
        self.walk.conntrack.tracker().dump(&Filter::default(), self.now.0, |connection| {
            // Which place it has got is nobody's business.
            all.push(Connection { id: 0, ..*connection });
            ControlFlow::Continue(())
        });
        all.sort_by_key(|connection| connection.original);
        all
    }

    /// Megaflows that a change of what they used spared, those that were decided anew and stayed,
    /// and those that went.
    pub(super) fn asked(&self) -> (u64, u64, u64) {
        let stats = &self.shared.stats;
        (stats.spared.get(), stats.revalidated.get(), stats.retired.get())
    }

    /// Exact hits, megaflow hits, misses.
    pub(super) fn decided(&self) -> (u64, u64, u64) {
        let stats = &self.shared.stats;
        (stats.exact_hits.get(), stats.megaflow_hits.get(), stats.misses.get())
    }
}

pub(super) fn matching(text: &str) -> Arc<SparseMatch> {
    Arc::new(parse_match(text, &NoNames).expect("a good match").value)
}

pub(super) fn flow(table: u8, priority: u16, match_text: &str, actions: Vec<Action>) -> FlowSpec {
    FlowSpec {
        table,
        priority,
        matching: matching(match_text),
        cookie: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags::default(),
        actions: actions.into(),
    }
}

pub(super) fn add(table: u8, priority: u16, match_text: &str, actions: Vec<Action>) -> Update {
    Update::AddFlow(flow(table, priority, match_text, actions))
}

pub(super) fn output(port: u32) -> Action {
    Action::Output { port, max_len: None }
}

/// A TCP packet from 10.0.0.`source` to 10.0.0.`destination`.
pub(super) fn tcp(source: u8, destination: u8, dst_port: u16) -> Vec<u8> {
    frame_of(source, destination, 6, dst_port)
}

/// A UDP packet likewise.
pub(super) fn udp(source: u8, destination: u8, dst_port: u16) -> Vec<u8> {
    frame_of(source, destination, 17, dst_port)
}

/// A few connections.
pub(super) fn conntrack() -> Arc<Conntrack> {
    Arc::new(Conntrack::new(vswitch_conntrack::Config { connections_max: 1024 }))
}

pub(super) fn id(port: usize) -> PortId {
    PortId(u16::try_from(port).expect("a small number"))
}

/// A TCP or UDP packet with right checksums from 10.0.0.`source` to 10.0.0.`destination`, 58 bytes.
pub(super) fn frame_of(source: u8, destination: u8, protocol: u8, dst_port: u16) -> Vec<u8> {
    use crate::packet::checksum::{Sum, pseudo_v4};
    let mut frame = vec![2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, source, 8, 0];
    let (from, to) = ([10, 0, 0, source], [10, 0, 0, destination]);
    frame.extend_from_slice(&[0x45, 0, 0, 44, 0, 1, 0, 0, 64, protocol, 0, 0]);
    frame.extend_from_slice(&[from, to].concat());
    let sum = Sum::of(&frame[14..34]).checksum().to_be_bytes();
    frame[24..26].copy_from_slice(&sum);
    frame.extend_from_slice(&[0x9c, source]);
    frame.extend_from_slice(&dst_port.to_be_bytes());
    let checksum = if protocol == 6 {
        frame.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        50
    } else {
        frame.extend_from_slice(&[0, 24, 0, 0]);
        40
    };
    frame.resize(58, 0x61);
    let sum = pseudo_v4(from, to, protocol, 24).bytes(&frame[34..]).checksum().to_be_bytes();
    frame[checksum..checksum + 2].copy_from_slice(&sum);
    frame
}
