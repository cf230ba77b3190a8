//! A switch without ports and packets, for the tests of the services and the server.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tokio::sync::{broadcast, mpsc};
use vswitch_conntrack::{End, Family, L4, Request, Seen, Tuple, protocol};
use vswitch_control::SwitchApi;
use vswitch_control::drops::{DropCount, DropStream, Watchers};
use vswitch_control::health::{Condition, Health, Part};
use vswitch_control::switch::capture::{Capture, CaptureSpec};
use vswitch_control::switch::conntrack::{ConnectionEvents, ConnectionStream};
use vswitch_control::switch::pipeline::{
    MegaflowInfo, NameMap, PacketStream, TraceHow, TraceInput, TraceReport, WriteError, filter_refused,
};
use vswitch_control::underlay;
use vswitch_control::{
    Asker, BridgeChange, BridgeConfig, BridgeInfo, CachesInfo, FdbFilter, FdbInfo, FdbStats, MempoolInfo, PortChange,
    PortEvent, PortEventKind, PortInfo, RxqInfo, SwitchError, WorkerInfo,
};
use vswitch_control::{NeighbourInfo, RouteConfig, RouteInfo};
use vswitch_dataplane::capture::{Interface, Point, Session, SessionSpec};
use vswitch_dataplane::conntrack::Conntrack;
use vswitch_dataplane::meter::Rates;
use vswitch_dataplane::observe::{DropSampler, PortTotals};
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::pipeline::state::{
    Applied, FlowCount, FlowInfo, FlowRemoved, GroupInfo, MeterInfo, PipelineState, TableInfo,
};
use vswitch_dataplane::pipeline::{Changes, ControllerInfo, Fate, Interest, PacketIn, RuleStats};
use vswitch_dataplane::port::dummy::Sent;
use vswitch_dataplane::port::{Cidr, PortConfig, PortId, PortKind};
use vswitch_dataplane::time::Millis;
use vswitch_flow::spec::{FlowFilter, Update};
use vswitch_flow::text::PacketOut;
use vswitch_overlay::neighbours::Stats;
use vswitch_overlay::options::Mapping;

/// A port as a switch would show it.
pub fn port(bridge: &str, name: &str, number: u32) -> PortInfo {
    described(bridge, PortConfig::new(name, PortKind::Internal { queues: 1 }), number)
}

fn described(bridge: &str, config: PortConfig, number: u32) -> PortInfo {
    PortInfo {
        bridge: bridge.to_owned(),
        mac: config.mac.unwrap_or(Mac([2, 0, 0, 0, 0, 1])),
        config,
        number,
        link_up: true,
        link_speed_mbps: 0,
        interface_mtu: None,
        opening: false,
        error: None,
        rx_queues: 1,
        tx_queues: 1,
        offloads: vec!["rx-csum"],
        capabilities: Vec::new(),
        totals: PortTotals::default(),
    }
}

/// A bridge as a switch would show it.
pub fn bridge(name: &str, ports: Vec<PortInfo>) -> BridgeInfo {
    BridgeInfo { config: BridgeConfig::new(name), ports, fdb: FdbStats::default() }
}

/// Commits a UDP connection from 10.0.0.1 with this source port to port 53 of 10.0.0.2, now.
pub fn connect(conntrack: &Conntrack, zone: u16, port: u16, mark: u32) {
    let end = |addr, port| End { addr, port };
    let (src, dst) = (end(0x0a00_0001, port), end(0x0a00_0002, 53));
    let tuple = Tuple { src, dst, family: Family::V4, protocol: protocol::UDP, zone };
    let request = Request { zone, commit: true, mark: (mark, u32::MAX), ..Request::default() };
    conntrack.tracker().track(&Seen { tuple, l4: L4::Udp, len: 100, ..Seen::default() }, &request, 0, Millis::now().0);
}

/// Packet-ins that a stream of the double holds.
const PACKET_INS_QUEUED: usize = 4;

/// Keeps bridges, ports and static addresses in lists, has real pipelines that no packet passes,
/// and notes the other calls.
#[derive(Debug)]
pub struct Double {
    bridges: Mutex<Vec<BridgeInfo>>,
    pipelines: Mutex<HashMap<String, PipelineState>>,
    flow_events: broadcast::Sender<Arc<FlowRemoved>>,
    /// Streams of packet-ins with their controller ids and counts of losses.
    #[allow(clippy::type_complexity)] // said in the line above
    pub packet_ins: Mutex<Vec<(u16, mpsc::Sender<PacketIn>, Arc<AtomicU64>)>>,
    fdb: Mutex<Vec<FdbInfo>>,
    routes: Mutex<Vec<RouteInfo>>,
    neighbours: Mutex<Vec<NeighbourInfo>>,
    events: broadcast::Sender<PortEvent>,
    sequence: AtomicU64,
    /// Real, and no packet comes to it but by hand.
    pub conntrack: Arc<Conntrack>,
    /// What `drops` says.
    pub drops: Mutex<Vec<DropCount>>,
    /// Counts and samples drops for the watchers.
    pub drop_sampler: Arc<DropSampler>,
    /// Who watches drops.
    pub drop_watchers: Arc<Watchers>,
    /// What happened to connections.
    pub connection_events: ConnectionEvents,
    /// Milliseconds that a transaction takes.
    pub write_ms: AtomicU64,
    /// Transactions so far.
    pub writes: AtomicU64,
    /// Transactions are refused.
    pub refuses_writes: AtomicBool,
    /// There is no place for one more who reads packets.
    pub refuses_readers: AtomicBool,
    /// What `dummies_enabled` says.
    pub dummies: AtomicBool,
    /// Whether the workers' hearts beat.
    pub healthy: AtomicBool,
    /// What is not on the disk, and why.
    pub disk: Mutex<BTreeMap<&'static str, String>>,
    /// Calls that change nothing that could be asked for.
    pub calls: Mutex<Vec<String>>,
}

impl Default for Double {
    fn default() -> Self {
        let drop_sampler = Arc::new(DropSampler::new(0));
        Self {
            bridges: Mutex::default(),
            pipelines: Mutex::default(),
            flow_events: broadcast::channel(16).0,
            packet_ins: Mutex::default(),
            fdb: Mutex::default(),
            routes: Mutex::default(),
            neighbours: Mutex::default(),
            events: broadcast::channel(16).0,
            sequence: AtomicU64::new(0),
            drops: Mutex::default(),
            drop_watchers: Watchers::new([Arc::clone(&drop_sampler)].into()),
            drop_sampler,
            conntrack: Arc::new(Conntrack::new(vswitch_conntrack::Config { connections_max: 1 << 12 })),
            connection_events: ConnectionEvents::default(),
            write_ms: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            refuses_writes: AtomicBool::new(false),
            refuses_readers: AtomicBool::new(false),
            dummies: AtomicBool::new(false),
            healthy: AtomicBool::new(true),
            disk: Mutex::default(),
            calls: Mutex::default(),
        }
    }
}

fn missing(what: &'static str, name: &str) -> SwitchError {
    SwitchError::NotFound { what, name: name.to_owned(), hint: "look again".to_owned() }
}

impl Double {
    fn tell(&self, kind: PortEventKind, port: PortInfo) {
        let sequence = self.sequence.fetch_add(1, Relaxed) + 1;
        let _ = self.events.send(PortEvent { sequence, kind, port }); // nobody may listen
    }

    /// A port's link goes up or down.
    pub fn link(&self, bridge: &str, name: &str, up: bool) {
        let port = self.with_bridge(bridge, |info| {
            let port =
                info.ports.iter_mut().find(|port| port.config.name == name).ok_or_else(|| missing("port", name))?;
            port.link_up = up;
            Ok(port.clone())
        });
        self.tell(if up { PortEventKind::LinkUp } else { PortEventKind::LinkDown }, port.expect("a port"));
    }

    fn with_bridge<R>(
        &self,
        name: &str,
        f: impl FnOnce(&mut BridgeInfo) -> Result<R, SwitchError>,
    ) -> Result<R, SwitchError> {
        let mut bridges = self.bridges.lock();
        f(bridges.iter_mut().find(|bridge| bridge.config.name == name).ok_or_else(|| missing("bridge", name))?)
    }

    fn with_pipeline<R>(&self, bridge: &str, f: impl FnOnce(&mut PipelineState) -> R) -> Result<R, SwitchError> {
        self.pipelines.lock().get_mut(bridge).map(f).ok_or_else(|| missing("bridge", bridge))
    }

    fn note(&self, bridge: &str, call: String) -> Result<(), SwitchError> {
        self.with_pipeline(bridge, |_| self.calls.lock().push(call))
    }
}

impl SwitchApi for Double {
    fn add_bridge(&self, config: BridgeConfig) -> Result<(), SwitchError> {
        let mut bridges = self.bridges.lock();
        if bridges.iter().any(|bridge| bridge.config.name == config.name) {
            return Err(SwitchError::Exists { what: "bridge", name: config.name, hint: "use another".to_owned() });
        }
        let changes = Arc::new(Changes::default());
        self.pipelines.lock().insert(config.name.clone(), PipelineState::new(&changes));
        bridges.push(BridgeInfo { config, ports: Vec::new(), fdb: FdbStats::default() });
        Ok(())
    }

    fn delete_bridge(&self, name: &str) -> Result<(), SwitchError> {
        self.with_bridge(name, |_| Ok(()))?;
        self.bridges.lock().retain(|bridge| bridge.config.name != name);
        Ok(())
    }

    fn set_bridge(&self, name: &str, change: BridgeChange) -> Result<(), SwitchError> {
        self.with_bridge(name, |bridge| {
            bridge.config.fail_mode = change.fail_mode.unwrap_or(bridge.config.fail_mode);
            bridge.config.strict = change.strict.unwrap_or(bridge.config.strict);
            Ok(())
        })
    }

    fn bridges(&self) -> Vec<BridgeInfo> {
        self.bridges.lock().clone()
    }

    fn add_port_for(&self, bridge: &str, config: PortConfig, _: Asker) -> Result<PortInfo, SwitchError> {
        self.add_port(bridge, config)
    }

    fn add_port(&self, bridge: &str, config: PortConfig) -> Result<PortInfo, SwitchError> {
        if matches!(&config.kind, PortKind::Dpdk { .. }) {
            return Err(SwitchError::Device { name: config.name, reason: "no such device".to_owned() });
        }
        let port = self.with_bridge(bridge, |info| {
            let port = described(bridge, config, u32::try_from(info.ports.len()).unwrap_or(0) + 1);
            info.ports.push(port.clone());
            Ok(port)
        })?;
        self.tell(PortEventKind::Added, port.clone());
        Ok(port)
    }

    fn delete_port(&self, bridge: &str, name: &str) -> Result<(), SwitchError> {
        let port = self.with_bridge(bridge, |info| {
            let at = info.ports.iter().position(|port| port.config.name == name);
            Ok(info.ports.remove(at.ok_or_else(|| missing("port", name))?))
        })?;
        self.tell(PortEventKind::Removed, port);
        Ok(())
    }

    fn modify_port(&self, bridge: &str, name: &str, change: &PortChange) -> Result<PortInfo, SwitchError> {
        let port = self.with_bridge(bridge, |info| {
            let port = info.ports.iter_mut().find(|port| port.config.name == name);
            let port = port.ok_or_else(|| missing("port", name))?;
            port.config.admin_up = change.admin_up.unwrap_or(port.config.admin_up);
            port.config.no_flood = change.no_flood.unwrap_or(port.config.no_flood);
            port.config.no_receive = change.no_receive.unwrap_or(port.config.no_receive);
            port.config.no_forward = change.no_forward.unwrap_or(port.config.no_forward);
            port.config.strict = change.strict.unwrap_or(port.config.strict);
            port.config.underlay = change.underlay.or(port.config.underlay);
            port.config.mtu = change.mtu.unwrap_or(port.config.mtu);
            port.config.addresses = change.addresses.clone().unwrap_or(port.config.addresses.clone());
            port.config.external_ids = change.external_ids.clone().unwrap_or(port.config.external_ids.clone());
            Ok(port.clone())
        })?;
        self.tell(PortEventKind::Modified, port.clone());
        Ok(port)
    }

    fn ports(&self, bridge: &str) -> Result<Vec<PortInfo>, SwitchError> {
        self.with_bridge(bridge, |info| Ok(info.ports.clone()))
    }

    fn subscribe(&self) -> broadcast::Receiver<PortEvent> {
        self.events.subscribe()
    }

    fn workers(&self) -> Vec<WorkerInfo> {
        let caches =
            CachesInfo { program_hits: 9, fallbacks: [1, 2, 3, 4, 5, 6, 7, 8], masks: 3, ..CachesInfo::default() };
        vec![WorkerInfo { core: 3, tsc_hz: 2_000_000_000, busy_cycles: 7, caches, ..WorkerInfo::default() }]
    }

    fn clear_worker_stats(&self) {
        self.calls.lock().push("clear".to_owned());
    }

    fn rxqs(&self) -> Vec<RxqInfo> {
        let rxq = |core, port: &str, queue| RxqInfo {
            bridge: "br0".to_owned(),
            port: port.to_owned(),
            queue,
            core,
            pinned: false,
            usage_percent: 12.5,
            packets: 9,
        };
        vec![rxq(3, "p1", 0), rxq(2, "p1", 1), rxq(3, "p0", 1), rxq(3, "p0", 0)]
    }

    fn pin_rxq(&self, port: &str, queue: u16, core: Option<u32>) -> Result<(), SwitchError> {
        self.calls.lock().push(format!("pin {port} {queue} {core:?}"));
        Ok(())
    }

    fn rebalance(&self) -> usize {
        5
    }

    fn fdb(&self, bridge: &str) -> Result<Vec<FdbInfo>, SwitchError> {
        self.with_bridge(bridge, |_| Ok(self.fdb.lock().clone()))
    }

    fn fdb_stats(&self, bridge: &str) -> Result<FdbStats, SwitchError> {
        self.with_bridge(bridge, |_| Ok(FdbStats { limit: 8192, learned: 11, ..FdbStats::default() }))
    }

    fn fdb_add(&self, bridge: &str, port: &str, vlan: u16, mac: Mac) -> Result<(), SwitchError> {
        self.with_bridge(bridge, |_| {
            self.fdb.lock().push(FdbInfo { port_number: 1, port: port.to_owned(), vlan, mac, age_s: None });
            Ok(())
        })
    }

    fn fdb_delete(&self, bridge: &str, vlan: u16, mac: Mac) -> Result<(), SwitchError> {
        self.with_bridge(bridge, |_| {
            let mut fdb = self.fdb.lock();
            let at = fdb.iter().position(|entry| entry.vlan == vlan && entry.mac == mac);
            fdb.remove(at.ok_or_else(|| missing("address", &mac.to_string()))?);
            Ok(())
        })
    }

    fn fdb_flush(&self, bridge: &str, filter: &FdbFilter) -> Result<u64, SwitchError> {
        self.with_bridge(bridge, |_| {
            self.calls.lock().push(format!("flush {filter:?}"));
            Ok(std::mem::take(&mut *self.fdb.lock()).len() as u64)
        })
    }

    fn mempool(&self) -> MempoolInfo {
        MempoolInfo { size: 1000, in_use: 10, heap_bytes: 1 << 20 }
    }

    fn slow_path(&self) -> Rates {
        Rates { misses: 7, packet_ins: 8, learns: 9, waiting: 10 }
    }

    fn health(&self) -> Health {
        let stuck = || (Condition::Failing, "worker-1 has no heartbeat".to_owned());
        let disk = self.disk.lock().iter().next().map(|(what, why)| (Condition::Degraded, format!("{what}: {why}")));
        let workers = (!self.healthy.load(Relaxed)).then(stuck);
        Health { parts: vec![Part::new("workers", workers), Part::new("disk", disk)] }
    }

    fn report_disk(&self, what: &'static str, problem: Option<String>) {
        let mut disk = self.disk.lock();
        match problem {
            Some(problem) => drop(disk.insert(what, problem)),
            None => drop(disk.remove(what)),
        }
    }

    fn names(&self, bridge: &str) -> Result<NameMap, SwitchError> {
        let ports = self.ports(bridge)?;
        let guests =
            ports.iter().filter(|port| port.config.kind.is_guest()).map(|port| port.config.name.clone()).collect();
        let ports: Vec<_> = ports.into_iter().map(|port| (port.config.name, port.number)).collect();
        let tables = self.with_pipeline(bridge, |pipeline| pipeline.names().clone())?;
        Ok(NameMap {
            guests,
            port_names: ports.iter().map(|(name, number)| (*number, name.clone())).collect(),
            ports: ports.into_iter().collect(),
            tables: tables.iter().map(|(number, name)| (name.clone(), *number)).collect(),
            table_names: tables.into_iter().collect(),
        })
    }

    fn write_pipeline(&self, bridge: &str, updates: &[Update]) -> Result<Applied, WriteError> {
        std::thread::sleep(std::time::Duration::from_millis(self.write_ms.load(Relaxed)));
        self.writes.fetch_add(1, Relaxed);
        if self.refuses_writes.load(Relaxed) {
            return Err(SwitchError::Device { name: bridge.to_owned(), reason: "it refuses".to_owned() }.into());
        }
        let (applied, removed) =
            self.with_pipeline(bridge, |pipeline| (pipeline.apply(updates, 1, Millis(1000)), pipeline.take_removed()))?;
        for removed in removed {
            let _ = self.flow_events.send(Arc::new(removed)); // nobody may listen
        }
        Ok(applied?)
    }

    fn add_table(&self, bridge: &str, number: Option<u8>, name: &str) -> Result<u8, SwitchError> {
        self.with_pipeline(bridge, |pipeline| {
            let number = number.unwrap_or(pipeline.names().len().try_into().unwrap_or(0));
            pipeline.name_table(number, name);
            number
        })
    }

    fn delete_table(&self, bridge: &str, name: &str) -> Result<u8, SwitchError> {
        self.with_pipeline(bridge, |pipeline| pipeline.unname_table(name))?.ok_or_else(|| missing("table", name))
    }

    fn tables(&self, bridge: &str) -> Result<Vec<TableInfo>, SwitchError> {
        self.with_pipeline(bridge, |pipeline| pipeline.tables())
    }

    fn flows(&self, bridge: &str, filter: &FlowFilter) -> Result<Vec<FlowInfo>, SwitchError> {
        let flows = self.with_pipeline(bridge, |pipeline| {
            pipeline.check_filter(filter).map(|()| pipeline.flows(filter, Millis(3500)))
        })?;
        Ok(flows.map_err(filter_refused)?)
    }

    fn count_flows(
        &self,
        bridge: &str,
        tables: &[u8],
        visit: &mut dyn FnMut(FlowCount<'_>),
    ) -> Result<(), SwitchError> {
        self.with_pipeline(bridge, |pipeline| pipeline.program().count_flows(tables, Millis(3500), visit))
    }

    fn rule_stats(&self, bridge: &str, flows: &[&FlowFilter]) -> Result<Vec<Option<Arc<RuleStats>>>, SwitchError> {
        let program = self.with_pipeline(bridge, |pipeline| pipeline.program())?;
        Ok(flows.iter().map(|flow| program.rule_stats(flow.table?, flow.strict?, &flow.matching)).collect())
    }

    fn groups(&self, bridge: &str, id: Option<u32>) -> Result<Vec<GroupInfo>, SwitchError> {
        self.with_pipeline(bridge, |pipeline| pipeline.groups(id, Millis(3500)))
    }

    fn meters(&self, bridge: &str, id: Option<u32>) -> Result<Vec<MeterInfo>, SwitchError> {
        self.with_pipeline(bridge, |pipeline| pipeline.meters(id, Millis(3500)))
    }

    fn packet_out(&self, bridge: &str, packet: &PacketOut) -> Result<(), WriteError> {
        Ok(self.note(bridge, format!("packet-out {:?} {:?}", packet.packet, packet.actions))?)
    }

    /// Who reads packets; none comes here but by the tests.
    fn controllers(&self, bridge: &str) -> Result<Vec<ControllerInfo>, SwitchError> {
        self.with_pipeline(bridge, |_| {
            let mut infos: BTreeMap<u16, ControllerInfo> = BTreeMap::new();
            for (controller, _, lost) in self.packet_ins.lock().iter() {
                let info = infos.entry(*controller).or_default();
                info.controller = *controller;
                info.subscribers += 1;
                info.packets[Fate::Lost as usize] += lost.load(Relaxed);
            }
            infos.into_values().collect()
        })
    }

    fn subscribe_packets(&self, bridge: &str, interest: Interest) -> Result<PacketStream, SwitchError> {
        if self.refuses_readers.load(Relaxed) {
            return Err(SwitchError::Exhausted { what: "subscribers to packet-ins", limit: 0 });
        }
        self.with_pipeline(bridge, |_| {
            let (sender, receiver) = mpsc::channel(PACKET_INS_QUEUED);
            let lost = Arc::<AtomicU64>::default();
            self.packet_ins.lock().push((interest.controller, sender, Arc::clone(&lost)));
            PacketStream { receiver, lost }
        })
    }

    fn resume_packet(&self, bridge: &str, token: &[u8], packet: &[u8]) -> Result<(), SwitchError> {
        self.note(bridge, format!("resume {token:?} {packet:?}"))
    }

    fn resume_packets(&self, bridge: &str, tokens: &[Vec<u8>]) -> Result<usize, SwitchError> {
        for token in tokens {
            self.resume_packet(bridge, token, &[])?;
        }
        Ok(tokens.len())
    }

    fn subscribe_flows(&self, bridge: &str) -> Result<broadcast::Receiver<Arc<FlowRemoved>>, SwitchError> {
        self.with_pipeline(bridge, |_| self.flow_events.subscribe())
    }

    fn trace(&self, bridge: &str, input: &TraceInput, how: &TraceHow) -> Result<TraceReport, SwitchError> {
        self.note(bridge, format!("trace {input:?} {} {:?}", how.names, how.ct_next))?;
        Ok(TraceReport { text: "a story".to_owned(), drop_reason: Some("table_miss"), ..TraceReport::default() })
    }

    fn megaflows(&self, bridge: Option<&str>) -> Vec<MegaflowInfo> {
        let bridge = bridge.unwrap_or("br0").to_owned();
        vec![MegaflowInfo { bridge, matching: "ip".to_owned(), actions: "drop".to_owned(), ..MegaflowInfo::default() }]
    }

    fn drops(&self) -> Vec<DropCount> {
        self.drops.lock().clone()
    }

    fn watch_drops(&self, rate: u32) -> Result<DropStream, SwitchError> {
        self.drop_watchers.watch(rate)
    }

    fn conntrack(&self) -> Arc<Conntrack> {
        Arc::clone(&self.conntrack)
    }

    fn subscribe_connections(&self) -> Result<ConnectionStream, SwitchError> {
        self.connection_events.subscribe(self.conntrack.tracker())
    }

    fn routes(&self) -> Vec<RouteInfo> {
        self.routes.lock().clone()
    }

    fn add_route(&self, route: &RouteConfig) -> Result<(), SwitchError> {
        let RouteConfig { port, gateway, source, .. } = route.clone();
        let prefix = vswitch_dataplane::port::cidr_text(&route.prefix);
        self.routes.lock().push(RouteInfo { prefix, port, gateway, source, user: true });
        Ok(())
    }

    fn delete_route(&self, prefix: Cidr) -> Result<(), SwitchError> {
        let prefix = vswitch_dataplane::port::cidr_text(&prefix);
        let mut routes = self.routes.lock();
        let at = routes.iter().position(|route| route.prefix == prefix);
        routes.remove(at.ok_or_else(|| missing("route", &prefix))?);
        Ok(())
    }

    fn lookup_route(&self, to: IpAddr) -> Result<RouteInfo, SwitchError> {
        self.routes.lock().first().cloned().ok_or_else(|| missing("route", &to.to_string()))
    }

    fn neighbours(&self) -> Vec<NeighbourInfo> {
        self.neighbours.lock().clone()
    }

    fn neighbour_stats(&self) -> Stats {
        Stats { entries: 1, pending: 2, changed: 3, held_off: 4, refused: 5, expired: 6, evicted: 7 }
    }

    fn set_neighbour(&self, bridge: &str, ip: IpAddr, mac: Mac) -> Result<(), SwitchError> {
        self.with_bridge(bridge, |_| {
            let info = NeighbourInfo { bridge: bridge.to_owned(), address: ip, mac: Some(mac), age_s: 0 };
            self.neighbours.lock().push(info);
            Ok(())
        })
    }

    fn ask_neighbour(&self, bridge: &str, ip: IpAddr) -> Result<Option<Mac>, SwitchError> {
        let known = |info: &&NeighbourInfo| info.bridge == bridge && info.address == ip;
        Ok(self.neighbours.lock().iter().rfind(known).and_then(|info| info.mac))
    }

    fn flush_neighbours(&self, _: Option<&str>) -> Result<u64, SwitchError> {
        Ok(std::mem::take(&mut *self.neighbours.lock()).len() as u64)
    }

    fn tunnel_listeners(&self) -> Vec<(String, u16)> {
        vec![("geneve_6081".to_owned(), 6081)]
    }

    fn option_map(&self, bridge: &str) -> Result<Vec<Mapping>, SwitchError> {
        self.with_pipeline(bridge, |pipeline| pipeline.options().iter().copied().collect())
    }

    fn add_options(&self, bridge: &str, mappings: &[Mapping]) -> Result<(), SwitchError> {
        Ok(self.with_pipeline(bridge, |pipeline| pipeline.add_options(mappings))?.map_err(|e| underlay::mapping(&e))?)
    }

    fn delete_options(&self, bridge: &str, mappings: &[Mapping]) -> Result<(), SwitchError> {
        Ok(self
            .with_pipeline(bridge, |pipeline| pipeline.delete_options(mappings))?
            .map_err(|e| underlay::mapping(&e))?)
    }

    fn dummies_enabled(&self) -> bool {
        self.dummies.load(Relaxed)
    }

    fn dummy_receive(&self, port: &str, packet: &[u8]) -> Result<Vec<Sent>, SwitchError> {
        match port {
            "p9" => Err(missing("port", port)),
            _ => Ok(vec![Sent { port: "p2".into(), packet: packet.to_vec() }; packet.len()]),
        }
    }

    fn dummy_panic(&self, port: &str, sending: bool) -> Result<(), SwitchError> {
        self.calls.lock().push(format!("panic {port} {sending}"));
        Ok(())
    }

    fn dummy_link(&self, port: &str, up: bool) -> Result<(), SwitchError> {
        self.calls.lock().push(format!("link {port} {up}"));
        Ok(())
    }

    fn time_stop(&self) -> Result<(), SwitchError> {
        self.calls.lock().push("stop".to_owned());
        Ok(())
    }

    fn time_warp(&self, ms: u64) -> Result<(), SwitchError> {
        self.calls.lock().push(format!("warp {ms}"));
        Ok(())
    }

    fn cache_enable(&self, on: bool) {
        self.calls.lock().push(format!("cache {on}"));
    }

    fn cache_flush(&self) {
        self.calls.lock().push("flush".to_owned());
    }

    fn start_capture(&self, spec: &CaptureSpec) -> Result<Capture, SwitchError> {
        let ports = self.ports(&spec.bridge)?;
        let interface = |(name, point): (&String, &Point)| {
            let at = ports.iter().position(|port| port.config.name == *name).ok_or_else(|| missing("port", name))?;
            let port = PortId(u16::try_from(at).unwrap_or(0));
            Ok::<_, SwitchError>(Interface { port, name: name.clone(), point: *point })
        };
        let wanted = spec.ports.iter().flat_map(|name| spec.points.iter().map(move |point| (name, point)));
        let interfaces = wanted.map(interface).collect::<Result<Vec<_>, _>>()?;
        let numbers = interfaces.iter().map(|interface| u32::from(interface.port.0) + 1).collect();
        let session = SessionSpec { interfaces, matching: spec.matching.clone(), snaplen: spec.snaplen };
        self.calls.lock().push(format!("capture {:?} snaplen {}", spec.points, spec.snaplen));
        Ok(Capture { id: 7, session: Arc::new(Session::new(session, 1, 0)), numbers })
    }

    fn stop_capture(&self, id: u64) -> Result<(), SwitchError> {
        self.calls.lock().push(format!("stop capture {id}"));
        Ok(())
    }
}
