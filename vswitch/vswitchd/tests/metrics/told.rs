//! What calls of gRPC tell, read by an ordinary client.

use tonic::transport::Channel;
use vswitch_proto::antrea::v1 as antrea;
use vswitch_proto::antrea::v1::network_policy_service_client::NetworkPolicyServiceClient;
use vswitch_proto::antrea::v1::sync_service_client::SyncServiceClient;
use vswitch_proto::v1;
use vswitch_proto::v1::bridge_service_client::BridgeServiceClient;
use vswitch_proto::v1::capabilities_service_client::CapabilitiesServiceClient;
use vswitch_proto::v1::conntrack_service_client::ConntrackServiceClient;
use vswitch_proto::v1::control_service_client::ControlServiceClient;
use vswitch_proto::v1::fdb_service_client::FdbServiceClient;
use vswitch_proto::v1::group_service_client::GroupServiceClient;
use vswitch_proto::v1::meter_service_client::MeterServiceClient;
use vswitch_proto::v1::packet_service_client::PacketServiceClient;
use vswitch_proto::v1::port_service_client::PortServiceClient;
use vswitch_proto::v1::statistics_service_client::StatisticsServiceClient;
use vswitch_proto::v1::table_service_client::TableServiceClient;
use vswitch_proto::v1::worker_service_client::WorkerServiceClient;

/// Answers of one moment, about.
pub(crate) struct Told {
    pub(crate) version: v1::Version,
    pub(crate) health: v1::GetHealthResponse,
    pub(crate) mempool: v1::Mempool,
    pub(crate) log: v1::LogState,
    pub(crate) calls: v1::GetCallsResponse,
    pub(crate) bridges: Vec<ToldBridge>,
    pub(crate) workers: Vec<v1::Worker>,
    pub(crate) rxqs: Vec<v1::Rxq>,
    pub(crate) conntrack: v1::GetConntrackStatsResponse,
    pub(crate) zones: Vec<v1::ZoneLimit>,
    pub(crate) listeners: v1::ListListenersResponse,
    pub(crate) antrea: antrea::GetStateResponse,
    pub(crate) rules: Vec<antrea::RuleStatistics>,
}

/// Of a bridge.
pub(crate) struct ToldBridge {
    pub(crate) name: String,
    pub(crate) fdb: v1::FdbStats,
    pub(crate) statistics: Vec<v1::PortStatistics>,
    pub(crate) ports: Vec<v1::Port>,
    pub(crate) tables: Vec<v1::Table>,
    pub(crate) groups: Vec<v1::GroupEntry>,
    pub(crate) meters: Vec<v1::MeterEntry>,
    pub(crate) controllers: Vec<v1::ControllerState>,
}

/// Makes a call and takes its answer.
macro_rules! ask {
    ($client:ident, $channel:expr, $method:ident, $request:expr) => {
        $client::new($channel.clone()).$method($request).await.expect(stringify!($method)).into_inner()
    };
}

impl Told {
    /// Makes all calls.
    pub(crate) async fn read(channel: Channel) -> Self {
        let list = ask!(BridgeServiceClient, channel, list_bridges, v1::ListBridgesRequest {});
        let mut bridges = Vec::new();
        for bridge in list.bridges {
            bridges.push(ToldBridge::read(&channel, bridge.config.unwrap_or_default().name).await);
        }
        let capabilities =
            ask!(CapabilitiesServiceClient, channel, get_capabilities, v1::GetCapabilitiesRequest::default());
        let limits = v1::GetConntrackLimitsRequest::default();
        let mut rules = Vec::new();
        let request = antrea::ListNetworkPoliciesRequest::default();
        let mut parts = ask!(NetworkPolicyServiceClient, channel, list_network_policies, request);
        while let Some(part) = parts.message().await.expect("policies") {
            rules.extend(part.policies.into_iter().flat_map(|policy| policy.rules).filter_map(|rule| rule.statistics));
        }
        let stats = v1::GetConntrackStatsRequest::default();
        Self {
            version: capabilities.version.unwrap_or_default(),
            health: ask!(StatisticsServiceClient, channel, get_health, v1::GetHealthRequest {}),
            mempool: ask!(StatisticsServiceClient, channel, get_mempool, v1::GetMempoolRequest {})
                .mempool
                .unwrap_or_default(),
            log: ask!(StatisticsServiceClient, channel, get_log, v1::GetLogRequest {}).log.unwrap_or_default(),
            bridges,
            workers: ask!(WorkerServiceClient, channel, list_workers, v1::ListWorkersRequest {}).workers,
            rxqs: ask!(WorkerServiceClient, channel, list_rxqs, v1::ListRxqsRequest {}).rxqs,
            conntrack: ask!(ConntrackServiceClient, channel, get_conntrack_stats, stats),
            zones: ask!(ConntrackServiceClient, channel, get_conntrack_limits, limits).zones,
            listeners: ask!(ControlServiceClient, channel, list_listeners, v1::ListListenersRequest {}),
            rules,
            antrea: ask!(SyncServiceClient, channel, get_state, antrea::GetStateRequest {}),
            // The last one: the others are calls, too.
            calls: ask!(StatisticsServiceClient, channel, get_calls, v1::GetCallsRequest {}),
        }
    }
}

impl ToldBridge {
    async fn read(channel: &Channel, name: String) -> Self {
        let bridge = || name.clone();
        let mut groups = Vec::new();
        let request = v1::ListGroupsRequest { bridge: bridge(), ..Default::default() };
        let mut parts = ask!(GroupServiceClient, channel, list_groups, request);
        while let Some(part) = parts.message().await.expect("groups") {
            groups.extend(part.groups);
        }
        let mut meters = Vec::new();
        let request = v1::ListMetersRequest { bridge: bridge(), ..Default::default() };
        let mut parts = ask!(MeterServiceClient, channel, list_meters, request);
        while let Some(part) = parts.message().await.expect("meters") {
            meters.extend(part.meters);
        }
        let statistics = v1::GetPortStatisticsRequest { bridge: bridge(), port: None };
        let controllers = v1::ListControllersRequest { bridge: bridge() };
        Self {
            fdb: ask!(FdbServiceClient, channel, get_fdb_stats, v1::GetFdbStatsRequest { bridge: bridge() })
                .stats
                .unwrap_or_default(),
            statistics: ask!(StatisticsServiceClient, channel, get_port_statistics, statistics).ports,
            ports: ask!(PortServiceClient, channel, list_ports, v1::ListPortsRequest { bridge: bridge() }).ports,
            tables: ask!(TableServiceClient, channel, list_tables, v1::ListTablesRequest { bridge: bridge() }).tables,
            groups,
            meters,
            controllers: ask!(PacketServiceClient, channel, list_controllers, controllers).controllers,
            name,
        }
    }
}
