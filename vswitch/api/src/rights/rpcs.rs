//! The role that each RPC needs.
//!
//! **read**: List, Get, Watch, health, reflection. **operate**: what changes neither configuration
//! nor policy, and what only computes. **admin**: the rest, and each RPC that is not here.

use vswitch_control::config::Role;
use vswitch_control::config::Role::{Admin, Operate, Read};

/// Each service with its methods.
pub(crate) const RPCS: &[(&str, &[(&str, Role)])] = &[
    ("grpc.health.v1.Health", &[("Check", Read), ("Watch", Read)]),
    ("grpc.reflection.v1.ServerReflection", &[("ServerReflectionInfo", Read)]),
    ("grpc.reflection.v1alpha.ServerReflection", &[("ServerReflectionInfo", Read)]),
    (
        "vswitch.v1.BridgeService",
        &[("AddBridge", Admin), ("DeleteBridge", Admin), ("ListBridges", Read), ("SetBridge", Admin)],
    ),
    ("vswitch.v1.CapabilitiesService", &[("GetCapabilities", Read)]),
    // Whole packets of Pods.
    ("vswitch.v1.CaptureService", &[("Capture", Operate)]),
    (
        "vswitch.v1.ConfigService",
        &[("GetConfig", Read), ("ApplyConfig", Admin), ("ConfirmConfig", Admin), ("GetConfigState", Read)],
    ),
    (
        "vswitch.v1.ConntrackService",
        &[
            ("ListConnections", Read),
            // A connection that goes on is judged anew, by the policies in force.
            ("FlushConnections", Operate),
            ("GetConntrackStats", Read),
            ("GetConntrackLimits", Read),
            ("SetConntrackLimits", Admin),
            ("DeleteConntrackLimits", Admin),
            ("ListZoneTimeoutPolicies", Read),
            ("SetZoneTimeoutPolicy", Admin),
            ("DeleteZoneTimeoutPolicy", Admin),
            ("GetZoneOptions", Read),
            ("SetZoneOptions", Admin),
            ("GetTcpSeqCheck", Read),
            ("SetTcpSeqCheck", Admin),
            ("WatchConnections", Read),
        ],
    ),
    ("vswitch.v1.ControlService", &[("ListListeners", Read)]),
    ("vswitch.v1.DropService", &[("ListDrops", Read), ("WatchDrops", Read), ("GetDropExplanation", Read)]),
    (
        "vswitch.v1.DummyService",
        &[
            ("Receive", Admin),
            ("SetLink", Admin),
            ("StopTime", Admin),
            ("WarpTime", Admin),
            ("SetCache", Admin),
            ("Panic", Admin),
        ],
    ),
    (
        "vswitch.v1.FdbService",
        &[
            ("ListFdb", Read),
            // Static addresses are configuration.
            ("AddFdbEntry", Admin),
            ("DeleteFdbEntry", Admin),
            ("FlushFdb", Operate),
            ("GetFdbStats", Read),
        ],
    ),
    (
        "vswitch.v1.FlowService",
        &[("ListFlows", Read), ("AggregateFlows", Operate), ("WatchFlows", Read), ("ListMegaflows", Read)],
    ),
    ("vswitch.v1.GroupService", &[("ListGroups", Read)]),
    ("vswitch.v1.LogService", &[("GetLogFilter", Read), ("SetLogFilter", Operate)]),
    ("vswitch.v1.MeterService", &[("ListMeters", Read)]),
    (
        "vswitch.v1.PacketService",
        &[
            ("WatchPacketIns", Read),
            // A packet of any content, by any port, past the spoof guard.
            ("SendPacket", Admin),
            ("ResumePacket", Admin),
            ("ListControllers", Read),
        ],
    ),
    ("vswitch.v1.PipelineService", &[("Write", Admin), ("NormalizeFlows", Operate)]),
    (
        "vswitch.v1.PortService",
        &[
            ("AddPort", Admin),
            ("DeletePort", Admin),
            ("ListPorts", Read),
            // Also its admin state: a port that is down, or up again, is configuration.
            ("ModifyPort", Admin),
            ("WatchPorts", Read),
        ],
    ),
    (
        "vswitch.v1.StatisticsService",
        &[
            ("GetPortStatistics", Read),
            ("GetMempool", Read),
            ("GetLimits", Read),
            ("GetLog", Read),
            ("GetHealth", Read),
            ("GetCalls", Read),
        ],
    ),
    ("vswitch.v1.TableService", &[("AddTable", Admin), ("DeleteTable", Admin), ("ListTables", Read)]),
    ("vswitch.v1.TraceService", &[("Trace", Operate)]),
    (
        "vswitch.v1.TunnelService",
        &[
            ("ListRoutes", Read),
            ("AddRoute", Admin),
            ("DeleteRoute", Admin),
            ("LookupRoute", Operate),
            ("ListNeighbours", Read),
            ("SetNeighbour", Admin),
            ("FlushNeighbours", Operate),
            ("ListTunnelListeners", Read),
            ("ListOptions", Read),
            ("AddOptions", Admin),
            ("DeleteOptions", Admin),
        ],
    ),
    (
        "vswitch.v1.WorkerService",
        &[
            ("ListWorkers", Read),
            ("ListRxqs", Read),
            ("PinRxq", Operate),
            ("Rebalance", Operate),
            ("ClearStatistics", Operate),
        ],
    ),
    ("antrea.v1.EgressService", &[("ApplyEgresses", Admin), ("DeleteEgresses", Admin), ("ListEgresses", Read)]),
    ("antrea.v1.EventService", &[("WatchEvents", Read), ("AnswerPacket", Admin)]),
    ("antrea.v1.FlowRecordService", &[("WatchFlowRecords", Read), ("ListFlowRecords", Read)]),
    (
        "antrea.v1.MulticastService",
        &[
            ("SetMulticastConfig", Admin),
            ("ApplyMulticastGroups", Admin),
            ("DeleteMulticastGroups", Admin),
            ("ListMulticastGroups", Read),
            ("ListMulticastStatistics", Read),
        ],
    ),
    ("antrea.v1.NameService", &[("ApplyNames", Admin), ("DeleteNames", Admin), ("ListNames", Read)]),
    (
        "antrea.v1.NetworkPolicyService",
        &[
            ("ApplyNetworkPolicies", Admin),
            ("DeleteNetworkPolicies", Admin),
            ("UpdateAddressGroups", Admin),
            ("ListNetworkPolicies", Read),
            ("ListGroups", Read),
            ("WatchRuleStatistics", Read),
            ("ListFqdns", Read),
        ],
    ),
    (
        "antrea.v1.NodeService",
        &[("Initialize", Admin), ("GetNode", Read), ("Reset", Admin), ("GetHostPlan", Read), ("ReportHost", Admin)],
    ),
    ("antrea.v1.ObserveService", &[("WatchObservations", Read)]),
    ("antrea.v1.PeerNodeService", &[("ApplyPeerNodes", Admin), ("DeletePeerNodes", Admin), ("ListPeerNodes", Read)]),
    ("antrea.v1.PodService", &[("ApplyPods", Admin), ("DeletePods", Admin), ("ListPods", Read)]),
    (
        "antrea.v1.ProxyService",
        &[
            ("ApplyServices", Admin),
            ("DeleteServices", Admin),
            ("ListServices", Read),
            ("ApplyEndpoints", Admin),
            ("DeleteEndpoints", Admin),
        ],
    ),
    (
        "antrea.v1.SyncService",
        &[
            ("Sync", Admin),
            ("ApplyObjects", Admin),
            ("OpenGate", Admin),
            ("GetState", Read),
            ("ListObjectFlows", Read),
            ("FindObjects", Operate),
        ],
    ),
    ("antrea.v1.TraceflowService", &[("RunTraceflow", Operate), ("ListTraceflows", Read)]),
    (
        "antrea.v1.TrafficControlService",
        &[("ApplyTrafficControls", Admin), ("DeleteTrafficControls", Admin), ("ListTrafficControls", Read)],
    ),
];

/// What the path of a request asks for: the method, and the role that it needs. The name of one
/// that is not in the table is not told on: a client chose it.
pub(crate) fn needed(path: &str) -> (&'static str, Role) {
    let known = || {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        let (_, methods) = RPCS.iter().find(|(name, _)| *name == service)?;
        methods.iter().find(|(name, _)| *name == method)
    };
    known().map_or(("unknown", Admin), |(method, role)| (method, *role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use prost_types::FileDescriptorSet;
    use std::collections::BTreeSet;

    /// All RPCs that a server may serve, as SERVICE/METHOD.
    fn described() -> BTreeSet<String> {
        let sets = [
            vswitch_proto::FILE_DESCRIPTOR_SET,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let files = sets.into_iter().flat_map(|set| FileDescriptorSet::decode(set).expect("a set").file);
        // What the agent serves is in the set, too.
        let served = files.filter(|file| !["agent.v1", "v1beta1"].contains(&file.package()));
        let mut all = BTreeSet::new();
        for file in served {
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                all.extend(service.method.iter().map(|method| format!("{name}/{}", method.name())));
            }
        }
        all
    }

    #[test]
    fn each_rpc_that_is_served_has_the_role_that_it_needs() {
        let listed: Vec<String> = RPCS
            .iter()
            .flat_map(|(service, methods)| methods.iter().map(move |(method, _)| format!("{service}/{method}")))
            .collect();
        let unique: BTreeSet<String> = listed.iter().cloned().collect();
        assert_eq!(listed.len(), unique.len(), "an RPC is listed twice");
        assert_eq!(unique, described(), "left: the table; right: the protos");
    }

    #[test]
    fn readers_may_list_get_and_watch_and_nothing_else() {
        for (service, methods) in RPCS.iter().filter(|(service, _)| !service.starts_with("grpc.")) {
            for (method, role) in *methods {
                let looks = ["List", "Get", "Watch"].iter().any(|verb| method.starts_with(verb));
                assert_eq!(*role == Read, looks, "{service}/{method}");
            }
        }
    }

    #[test]
    fn what_is_not_in_the_table_needs_the_highest_role() {
        for path in [
            "",
            "/",
            "/vswitch.v1.BridgeService",
            "/vswitch.v1.BridgeService/",
            "/vswitch.v1.BridgeService/ListBridges/",
            "/vswitch.v1.BridgeService/listBridges",
            "//vswitch.v1.BridgeService/ListBridges",
            "vswitch.v1.BridgeService/ListBridges",
            "/x/ListBridges",
        ] {
            assert_eq!(needed(path), ("unknown", Admin), "{path}");
        }
        assert_eq!(needed("/vswitch.v1.BridgeService/ListBridges"), ("ListBridges", Read));
    }
}
