//! One reading of all that metrics show, in the messages of the calls that tell the same.
//!
//! **Design**: what calls answer is made by the same functions, so that a metric and its call
//! cannot differ. The parts are read one after the other: they are not of one moment.
//!
//! **Threads**: one that may block.

use super::{capabilities, conntrack, listeners, packet, present, table};
use crate::calls::Calls;
use crate::rights::ServerState;
use vswitch_antrea_node::Antrea;
use vswitch_control::SwitchApi;
use vswitch_control::log_state::LOG;
use vswitch_dataplane::pipeline::state::MeterInfo;
use vswitch_flow::spec::BandKind;
use vswitch_messages::connection;
use vswitch_proto::antrea::v1 as antrea_v1;
use vswitch_proto::v1;

/// What calls tell of the switch.
#[derive(Debug)]
pub(crate) struct Reading {
    /// `CapabilitiesService.GetCapabilities`.
    pub(crate) version: v1::Version,
    /// `StatisticsService.GetHealth`.
    pub(crate) health: v1::GetHealthResponse,
    /// `StatisticsService.GetMempool`.
    pub(crate) mempool: v1::Mempool,
    /// `StatisticsService.GetLog`.
    pub(crate) log: v1::LogState,
    /// `StatisticsService.GetCalls`.
    pub(crate) calls: v1::GetCallsResponse,
    /// Of each bridge.
    pub(crate) bridges: Vec<BridgeReading>,
    /// `WorkerService.ListWorkers`.
    pub(crate) workers: Vec<v1::Worker>,
    /// `WorkerService.ListRxqs`.
    pub(crate) rxqs: Vec<v1::Rxq>,
    /// `ConntrackService.GetConntrackStats`.
    pub(crate) conntrack: v1::GetConntrackStatsResponse,
    /// `ConntrackService.GetConntrackLimits`.
    pub(crate) zones: Vec<v1::ZoneLimit>,
    /// `ControlService.ListListeners`.
    pub(crate) listeners: v1::ListListenersResponse,
    /// `SyncService.GetState`.
    pub(crate) antrea: antrea_v1::GetStateResponse,
    /// `NetworkPolicyService.ListNetworkPolicies` rules.statistics, if they are wanted.
    pub(crate) rules: Vec<antrea_v1::RuleStatistics>,
}

/// What calls tell of a bridge.
#[derive(Debug)]
pub(crate) struct BridgeReading {
    /// Its name.
    pub(crate) name: String,
    /// `FdbService.GetFdbStats`.
    pub(crate) fdb: v1::FdbStats,
    /// `StatisticsService.GetPortStatistics`.
    pub(crate) ports: Vec<v1::PortStatistics>,
    /// `TableService.ListTables`.
    pub(crate) tables: Vec<v1::Table>,
    /// How many `GroupService.ListGroups` tells.
    pub(crate) groups: u64,
    /// Ids of those that `MeterService.ListMeters` tells, with packets that bands dropped.
    pub(crate) meters: Vec<(u32, u64)>,
    /// `PacketService.ListControllers`.
    pub(crate) controllers: Vec<v1::ControllerState>,
}

impl Reading {
    /// Reads all of it.
    pub(crate) fn take(switch: &dyn SwitchApi, antrea: &Antrea, calls: &Calls, server: &ServerState) -> Self {
        let infos = switch.bridges();
        let bridge = |info: &vswitch_control::BridgeInfo| {
            let name = &info.config.name;
            // A bridge that was deleted meanwhile has none.
            let mut tables = switch.tables(name).unwrap_or_default();
            tables.sort_by_key(|table| table.id);
            BridgeReading {
                fdb: present::fdb_stats(info.fdb),
                ports: info.ports.iter().map(present::port_statistics).collect(),
                tables: tables.into_iter().map(table::table).collect(),
                groups: switch.groups(name, None).map_or(0, |groups| groups.len() as u64),
                meters: switch.meters(name, None).unwrap_or_default().iter().map(dropped).collect(),
                controllers: switch.controllers(name).unwrap_or_default().iter().map(packet::controller).collect(),
                name: name.clone(),
            }
        };
        let tracker = switch.conntrack();
        let tracker = tracker.tracker();
        Self {
            version: capabilities::version(),
            health: present::health(server.health(switch.health())),
            mempool: present::mempool(switch.mempool()),
            log: present::log(&LOG.info()),
            calls: calls.read(),
            bridges: infos.iter().map(bridge).collect(),
            workers: switch.workers().iter().map(present::worker).collect(),
            rxqs: switch.rxqs().into_iter().map(present::rxq).collect(),
            conntrack: connection::stats(tracker.counts(), Vec::new()),
            zones: conntrack::limits(tracker, &[]).zones,
            listeners: listeners::listeners(server),
            antrea: antrea.state(),
            rules: Vec::new(),
        }
    }

    /// Reads what rules of policies have counted; nothing without a Node. It takes a walk through
    /// their flows.
    pub(crate) fn take_rules(&mut self, antrea: &Antrea) {
        self.rules = super::antrea::rule_statistics(antrea);
    }

    /// Ports of all bridges, with what is told of them.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (&v1::PortStatistics, &v1::Port)> {
        let ports = self.bridges.iter().flat_map(|bridge| &bridge.ports);
        ports.filter_map(|statistics| Some((statistics, statistics.port.as_ref()?)))
    }
}

/// Packets that a meter's bands dropped.
fn dropped(info: &MeterInfo) -> (u32, u64) {
    let bands = info.meter.bands.iter().zip(&info.bands);
    let drops = bands.filter(|(band, _)| band.kind == BandKind::Drop).map(|(_, (packets, _))| packets);
    (info.meter.id, drops.sum())
}
