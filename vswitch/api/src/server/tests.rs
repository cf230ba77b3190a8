//! The server from outside: a real socket, a real client, a double of the switch behind it.

mod antrea;
mod clients;
mod conntrack;
mod pipeline;
mod rights;
mod tunnel;

use super::serve::{HEALTH_NAMES, REQUEST_LEN_MAX, SHUTDOWN_GRACE, serve_api};
use super::{ServeError, bind};
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1 as reflection;
use tonic_types::StatusExt;
use vswitch_control::config::ObserveConfig;
use vswitch_control::{SwitchConfig, running};
use vswitch_proto::v1;
use vswitch_proto::v1::bridge_service_client::BridgeServiceClient;
use vswitch_proto::v1::capabilities_service_client::CapabilitiesServiceClient;
use vswitch_proto::v1::fdb_service_client::FdbServiceClient;
use vswitch_proto::v1::port_service_client::PortServiceClient;
use vswitch_proto::v1::statistics_service_client::StatisticsServiceClient;
use vswitch_proto::v1::worker_service_client::WorkerServiceClient;
use vswitch_testkit::double::Double;

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.unwrap_or_else(|_| panic!("{what}: not within 60 s"))
}

/// What clients export and change, of a switch without a file. Nothing is observed without a
/// client: tests count who reads.
fn without_file(switch: &Arc<Double>) -> Arc<running::Running> {
    observing(switch, ObserveConfig { ring: 0, ..ObserveConfig::default() })
}

/// Likewise, of one that observes.
fn observing(switch: &Arc<Double>, observe: ObserveConfig) -> Arc<running::Running> {
    let config = SwitchConfig { observe, ..SwitchConfig::with_defaults(&[0, 1]) };
    running::Running::new(Arc::<Double>::clone(switch), running::Started::without_file(config, vec![0, 1]))
}

struct Running {
    switch: Arc<Double>,
    path: PathBuf,
    channel: Channel,
    shutdown: oneshot::Sender<()>,
    server: JoinHandle<Result<(), ServeError>>,
    _directory: tempfile::TempDir,
}

impl Running {
    async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    /// Starts with a switch that was prepared.
    async fn start_with(prepare: impl FnOnce(&Double)) -> Self {
        Self::start_over(None, prepare).await
    }

    /// Likewise, with a directory that outlives it.
    async fn start_over(state_dir: Option<PathBuf>, prepare: impl FnOnce(&Double)) -> Self {
        let switch = Arc::new(Double::default());
        prepare(&switch);
        Self::of(switch, state_dir).await
    }

    /// A function of its own, so that the server is compiled once and not for each test's
    /// `prepare`.
    async fn of(switch: Arc<Double>, state_dir: Option<PathBuf>) -> Self {
        let running = without_file(&switch);
        Self::with(switch, state_dir, running).await
    }

    async fn with(switch: Arc<Double>, state_dir: Option<PathBuf>, running: Arc<running::Running>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("vswitch.sock");
        let listener = bind(&path).expect("a free path");
        let (shutdown, told) = oneshot::channel();
        let server = serve_api(Arc::<Double>::clone(&switch), listener.into(), state_dir, running, None, async {
            let _ = told.await;
        });
        let server = tokio::spawn(server);
        let channel = Self::connect(&path).await;
        Self { switch, path, channel, shutdown, server, _directory: directory }
    }

    async fn connect(path: &std::path::Path) -> Channel {
        let endpoint = Endpoint::from_shared(format!("unix://{}", path.display())).expect("an address");
        soon("connecting", endpoint.connect()).await.expect("a connection")
    }

    /// Stops the server; says how long that took.
    async fn stop(self) -> Duration {
        let begin = Instant::now();
        self.shutdown.send(()).expect("a server that listens");
        soon("the server stops", self.server).await.expect("no panic").expect("no error");
        assert!(!self.path.exists(), "the socket was left behind");
        begin.elapsed()
    }

    async fn health(&self, name: &str) -> Result<ServingStatus, Status> {
        let request = HealthCheckRequest { service: name.to_owned() };
        Ok(HealthClient::new(self.channel.clone()).check(request).await?.into_inner().status())
    }

    async fn add_bridge(&self, name: &str) -> Result<(), Status> {
        let bridge = Some(v1::BridgeConfig { name: name.to_owned(), ..Default::default() });
        BridgeServiceClient::new(self.channel.clone()).add_bridge(v1::AddBridgeRequest { bridge }).await.map(|_| ())
    }

    async fn delete_bridge(&self, name: &str) -> Result<(), Status> {
        let mut client = BridgeServiceClient::new(self.channel.clone());
        client.delete_bridge(v1::DeleteBridgeRequest { name: name.to_owned() }).await.map(|_| ())
    }

    async fn delete_port(&self, bridge: &str, name: &str) -> Result<(), Status> {
        let mut client = PortServiceClient::new(self.channel.clone());
        let request = v1::DeletePortRequest { bridge: bridge.to_owned(), name: name.to_owned() };
        client.delete_port(request).await.map(|_| ())
    }

    async fn add_port(&self, bridge: &str, port: v1::PortConfig) -> Result<v1::Port, Status> {
        let request = v1::AddPortRequest { bridge: bridge.to_owned(), port: Some(port) };
        let response = PortServiceClient::new(self.channel.clone()).add_port(request).await?;
        Ok(response.into_inner().port.expect("a port"))
    }
}

fn internal(name: &str) -> v1::PortConfig {
    let kind = Some(v1::port_config::Kind::Internal(v1::InternalPort { queues: None }));
    v1::PortConfig { name: name.to_owned(), kind, ..Default::default() }
}

#[tokio::test]
async fn health_follows_the_switch() {
    let running = Running::start().await;
    for name in HEALTH_NAMES {
        assert_eq!(running.health(name).await.expect("known"), ServingStatus::Serving, "{name:?}");
    }
    assert_eq!(running.health("vswitch.v1.NoService").await.expect_err("unknown").code(), Code::NotFound);
    for (healthy, want) in [(false, ServingStatus::NotServing), (true, ServingStatus::Serving)] {
        running.switch.healthy.store(healthy, Relaxed);
        for name in HEALTH_NAMES {
            soon("health", async {
                while running.health(name).await.expect("known") != want {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn reflection_lists_all_services() {
    let running = Running::start().await;
    let request = reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(reflection::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut client = reflection::server_reflection_client::ServerReflectionClient::new(running.channel.clone());
    let mut answers =
        client.server_reflection_info(tokio_stream::iter([request])).await.expect("an answer").into_inner();
    let answer = answers.message().await.expect("no error").expect("a message").message_response;
    let Some(reflection::server_reflection_response::MessageResponse::ListServicesResponse(services)) = answer else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = services.service.into_iter().map(|service| service.name).collect();
    for name in HEALTH_NAMES.into_iter().filter(|name| !name.is_empty()).chain(["grpc.health.v1.Health"]) {
        assert!(names.iter().any(|known| known == name), "{name} is not in {names:?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn bridges_and_ports_come_and_go() {
    let running = Running::start().await;
    let mut bridges = BridgeServiceClient::new(running.channel.clone());
    let mut ports = PortServiceClient::new(running.channel.clone());
    running.add_bridge("br0").await.expect("a new bridge");
    assert_eq!(running.add_bridge("br0").await.expect_err("twice").code(), Code::AlreadyExists);
    let fail_mode = v1::FailMode::Standalone.into();
    let request = v1::SetBridgeRequest { name: "br0".to_owned(), fail_mode, strict: Some(true) };
    bridges.set_bridge(request).await.expect("a known bridge");
    let port = running.add_port("br0", internal("p0")).await.expect("a new port");
    assert_eq!((port.bridge.as_str(), port.number, port.r#type.as_str()), ("br0", 1, "internal"));
    let request = v1::ModifyPortRequest {
        bridge: "br0".to_owned(),
        name: "p0".to_owned(),
        admin_up: Some(false),
        mtu: Some(9000),
        strict: Some(true),
        ..Default::default()
    };
    let config = ports.modify_port(request).await.expect("a known port").into_inner().port.and_then(|port| port.config);
    let config = config.map(|config| (config.admin_up, config.mtu, config.strict));
    assert_eq!(config, Some((Some(false), Some(9000), true)));
    let listed = bridges.list_bridges(v1::ListBridgesRequest {}).await.expect("a list").into_inner().bridges;
    let config = listed[0].config.as_ref().expect("a configuration");
    assert_eq!((listed.len(), config.fail_mode(), listed[0].ports.len()), (1, v1::FailMode::Standalone, 1));
    assert!(config.strict, "the bridge is strict");
    let request = v1::DeletePortRequest { bridge: "br0".to_owned(), name: "p0".to_owned() };
    ports.delete_port(request.clone()).await.expect("a known port");
    assert_eq!(ports.delete_port(request).await.expect_err("gone").code(), Code::NotFound);
    let list = v1::ListPortsRequest { bridge: "br0".to_owned() };
    assert_eq!(ports.list_ports(list.clone()).await.expect("a list").into_inner().ports, []);
    bridges.delete_bridge(v1::DeleteBridgeRequest { name: "br0".to_owned() }).await.expect("a known bridge");
    let status = ports.list_ports(list).await.expect_err("gone");
    assert_eq!((status.code(), status.message()), (Code::NotFound, "bridge \"br0\" does not exist; look again"));
    running.stop().await;
}

#[tokio::test]
async fn addresses_workers_and_numbers() {
    let running = Running::start().await;
    running.add_bridge("br0").await.expect("a new bridge");
    running.add_port("br0", internal("p0")).await.expect("a new port");
    let (bridge, port) = ("br0".to_owned(), "p0".to_owned());

    let mut fdb = FdbServiceClient::new(running.channel.clone());
    let mac = Some(v1::MacAddress { octets: vec![2, 0, 0, 0, 0, 9] });
    let request = v1::AddFdbEntryRequest { bridge: bridge.clone(), port, vlan: 5, mac: mac.clone() };
    fdb.add_fdb_entry(request).await.expect("room");
    let mut chunks = fdb.list_fdb(v1::ListFdbRequest { bridge: bridge.clone() }).await.expect("a table").into_inner();
    let entries = chunks.message().await.expect("no error").expect("a message").entries;
    assert_eq!(
        entries.iter().map(|e| (e.vlan, e.mac.clone(), e.age_seconds)).collect::<Vec<_>>(),
        [(5, mac.clone(), None)]
    );
    let request = v1::DeleteFdbEntryRequest { bridge: bridge.clone(), vlan: 4, mac };
    assert_eq!(fdb.delete_fdb_entry(request).await.expect_err("another VLAN").code(), Code::NotFound);
    let flush = v1::FlushFdbRequest { bridge: bridge.clone(), vlan: Some(5), statics: true, ..Default::default() };
    assert_eq!(fdb.flush_fdb(flush).await.expect("a table").into_inner().flushed, 1);
    let stats =
        fdb.get_fdb_stats(v1::GetFdbStatsRequest { bridge: bridge.clone() }).await.expect("a table").into_inner();
    assert_eq!(stats.stats.map(|stats| (stats.limit, stats.learned)), Some((8192, 11)));

    let mut workers = WorkerServiceClient::new(running.channel.clone());
    let rxqs = workers.list_rxqs(v1::ListRxqsRequest {}).await.expect("queues").into_inner().rxqs;
    let order: Vec<_> = rxqs.iter().map(|rxq| (rxq.core, rxq.port.as_str(), rxq.queue)).collect();
    assert_eq!(order, [(2, "p1", 1), (3, "p0", 0), (3, "p0", 1), (3, "p1", 0)]);
    let pin = |core| v1::PinRxqRequest { port: "p0".to_owned(), queue: 1, core };
    workers.pin_rxq(pin(Some(3))).await.expect("a queue");
    workers.pin_rxq(pin(None)).await.expect("a queue");
    assert_eq!(workers.rebalance(v1::RebalanceRequest {}).await.expect("moved").into_inner().moved, 5);
    workers.clear_statistics(v1::ClearStatisticsRequest {}).await.expect("cleared");
    let listed = workers.list_workers(v1::ListWorkersRequest {}).await.expect("workers").into_inner().workers;
    assert_eq!(listed.iter().map(|worker| (worker.core, worker.busy_cycles)).collect::<Vec<_>>(), [(3, 7)]);
    let caches = listed[0].caches.clone().expect("caches");
    assert_eq!((caches.program_hits, caches.masks, caches.misses), (9, 3, 0));
    let fallbacks: Vec<_> =
        caches.fallbacks.iter().map(|fallback| (fallback.reason.as_str(), fallback.packets)).collect();
    assert_eq!((fallbacks.len(), fallbacks[0], fallbacks[6]), (8, ("untracked", 1), ("checksum", 7)));
    let calls = running.switch.calls.lock().join("\n");
    let flush = "flush FdbFilter { port: None, vlan: Some(5), mac: None, statics: true }";
    assert_eq!(calls, format!("{flush}\npin p0 1 Some(3)\npin p0 1 None\nclear"));

    let mut statistics = StatisticsServiceClient::new(running.channel.clone());
    let request = v1::GetPortStatisticsRequest { bridge, port: Some("p1".to_owned()) };
    assert_eq!(statistics.get_port_statistics(request.clone()).await.expect_err("no p1").code(), Code::NotFound);
    let request = v1::GetPortStatisticsRequest { port: None, ..request };
    assert_eq!(statistics.get_port_statistics(request).await.expect("ports").into_inner().ports.len(), 1);
    let mempool = statistics.get_mempool(v1::GetMempoolRequest {}).await.expect("a pool").into_inner().mempool;
    assert_eq!(mempool, Some(v1::Mempool { size: 1000, in_use: 10, heap_bytes: 1 << 20 }));
    let log = statistics.get_log(v1::GetLogRequest {}).await.expect("a log").into_inner().log;
    assert_eq!(log, Some(v1::LogState::default()), "no log is started in this process");
    running.switch.disk.lock().insert("state", "full".to_owned());
    let health = statistics.get_health(v1::GetHealthRequest {}).await.expect("an answer").into_inner();
    let up_ms = health.up_ms;
    let part = |name: &str, condition: v1::HealthCondition, reason: &str| v1::HealthPart {
        name: name.to_owned(),
        condition: condition.into(),
        reason: reason.to_owned(),
    };
    let [workers, certificates, audit] =
        ["workers", "certificates", "audit"].map(|name| part(name, v1::HealthCondition::Good, ""));
    let parts = vec![workers, part("disk", v1::HealthCondition::Degraded, "state: full"), certificates, audit];
    assert_eq!(health, v1::GetHealthResponse { serving: true, parts, up_ms });
    running.stop().await;
}

#[tokio::test]
async fn limits_tell_what_is_shared_and_what_ports_have() {
    let running = Running::start().await;
    running.switch.conntrack.tracker().add_port(3, "hog", vswitch_conntrack::Share::One);
    let mut statistics = StatisticsServiceClient::new(running.channel.clone());
    let all = statistics.get_limits(v1::GetLimitsRequest::default()).await.expect("limits").into_inner();
    let of =
        |resource: &str| all.shared.iter().find(|row| row.resource == resource).unwrap_or_else(|| panic!("{resource}"));
    assert_eq!((of("connections").limit, of("connections").counter.as_str()), (Some(1 << 12), "ct_port_full"));
    assert_eq!((of("mbufs").limit, of("mbufs").used), (Some(1000), Some(10)));
    assert_eq!(
        (of("megaflows").scope.as_str(), of("megaflows").per_port.as_str()),
        ("worker-3", "7 a second and worker")
    );
    let hog = |answer: v1::GetLimitsResponse| answer.ports.into_iter().find(|port| port.port == "hog");
    assert_eq!(hog(all.clone()).and_then(|port| port.connections_limit), Some(3072));
    let one = |name: &str| v1::GetLimitsRequest { port: Some(name.to_owned()) };
    let hog = hog(statistics.get_limits(one("hog")).await.expect("a port").into_inner()).expect("hog");
    assert!(!hog.gone && hog.mac_addresses_limit.is_none());
    assert_eq!(statistics.get_limits(one("nobody")).await.expect_err("no such port").code(), Code::NotFound);
    running.stop().await;
}

#[tokio::test]
async fn capabilities_are_those_of_this_build() {
    let running = Running::start().await;
    let mut client = CapabilitiesServiceClient::new(running.channel.clone());
    let answer = client.get_capabilities(v1::GetCapabilitiesRequest {}).await.expect("an answer").into_inner();
    assert_eq!(answer.version.expect("versions").package, env!("CARGO_PKG_VERSION"));
    let limits = answer.limits.expect("limits");
    assert_eq!(limits.ports_max as usize, vswitch_dataplane::limits::PORTS_MAX);
    assert_eq!((limits.misses_per_second, limits.packet_ins_per_second, limits.learns_per_second), (7, 8, 9));
    assert_eq!(answer.port_types, vswitch_dataplane::port::PortKind::NAMES);
    let numbers: Vec<_> = answer.drop_reasons.iter().map(|reason| reason.number as usize).collect();
    assert_eq!(numbers, (0..vswitch_dataplane::observe::DropReason::COUNT).collect::<Vec<_>>());
    running.stop().await;
}

#[tokio::test]
async fn errors_reach_the_client_whole() {
    let running = Running::start().await;
    running.add_bridge("br0").await.expect("a new bridge");
    let status =
        running.add_port("br0", v1::PortConfig { mtu: Some(9), ..internal("no name") }).await.expect_err("invalid");
    assert_eq!(status.code(), Code::InvalidArgument);
    let violations = status.get_details_bad_request().expect("details").field_violations;
    assert_eq!(violations.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(), ["name", "mtu"]);
    // 64 pairs with keys too long: the text would be 30 KiB.
    let external_ids = (0..64).map(|i| (format!("{i:0400}"), String::new())).collect();
    let status = running.add_port("br0", v1::PortConfig { external_ids, ..internal("p0") }).await.expect_err("invalid");
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let status = running.add_bridge(&"\u{e9}".repeat(1 << 20)).await;
    assert!(status.is_ok(), "the double takes any name: {status:?}");
    let status = running.add_bridge(&"\u{e9}".repeat(1 << 20)).await.expect_err("twice");
    assert_eq!(status.code(), Code::AlreadyExists, "{status:?}");
    let devargs = "net_null0".to_owned();
    let kind = Some(v1::port_config::Kind::Dpdk(v1::DpdkPort { devargs, queues: None }));
    let status = running.add_port("br0", v1::PortConfig { kind, ..internal("p0") }).await.expect_err("no device");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "port \"p0\": no such device"));
    running.stop().await;
}

#[tokio::test]
async fn requests_over_16_mib_are_refused_and_the_connection_lives_on() {
    let running = Running::start().await;
    let status = running.add_bridge(&"x".repeat(REQUEST_LEN_MAX)).await.expect_err("too long");
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    running.add_bridge("br0").await.expect("a new bridge");
    running.stop().await;
}

#[tokio::test]
async fn watching_tells_what_exists_and_what_happens_and_ends_with_the_server() {
    let running = Running::start().await;
    running.add_bridge("br0").await.expect("a new bridge");
    running.add_port("br0", internal("p0")).await.expect("a new port");
    let mut client = PortServiceClient::new(running.channel.clone());
    let mut stream =
        client.watch_ports(v1::WatchPortsRequest { include_existing: true }).await.expect("a stream").into_inner();
    running.add_port("br0", internal("p1")).await.expect("a new port");
    for (sequence, name) in [(0, "p0"), (2, "p1")] {
        let message = soon("an event", stream.message()).await.expect("no error").expect("a message");
        let Some(v1::watch_ports_response::Update::Event(event)) = message.update else { panic!("{message:?}") };
        assert_eq!((event.sequence, event.kind()), (sequence, v1::PortEventKind::Added));
        assert_eq!(event.port.and_then(|port| port.config).map(|config| config.name).as_deref(), Some(name));
    }
    let mut health = HealthClient::new(running.channel.clone());
    let mut healths = health.watch(HealthCheckRequest { service: String::new() }).await.expect("a stream").into_inner();
    let first = soon("health", healths.message()).await.expect("no error").expect("a message");
    assert_eq!(first.status(), ServingStatus::Serving);
    let took = running.stop().await;
    assert!(took < SHUTDOWN_GRACE, "open streams held the server up for {took:?}");
    let status = soon("the end", stream.message()).await.expect_err("a status");
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let last = soon("health", healths.message()).await.expect("no error").expect("a message");
    assert_eq!(last.status(), ServingStatus::NotServing);
}

#[tokio::test]
async fn calls_that_never_end_are_cut_off_when_the_server_stops() {
    let running = Running::start().await;
    // Reflection is a conversation: it lasts for as long as the client keeps its side open.
    let (_kept_open, requests) = mpsc::channel::<reflection::ServerReflectionRequest>(1);
    let mut client = reflection::server_reflection_client::ServerReflectionClient::new(running.channel.clone());
    let mut answers =
        client.server_reflection_info(ReceiverStream::new(requests)).await.expect("a stream").into_inner();
    // And a connection that says nothing at all.
    let _silent = tokio::net::UnixStream::connect(&running.path).await.expect("a connection");
    let took = running.stop().await;
    assert!(took >= SHUTDOWN_GRACE, "it took {took:?}");
    assert!(soon("the end", answers.message()).await.is_err());
}

#[tokio::test]
async fn the_socket_is_private_and_a_second_server_is_refused() {
    let running = Running::start().await;
    let mode = std::fs::metadata(&running.path).expect("a socket").permissions().mode() & 0o777;
    assert_eq!(mode, 0o660, "mode {mode:o}");
    let error = bind(&running.path).expect_err("taken").to_string();
    assert!(error.contains(&std::process::id().to_string()), "{error}");
    running.add_bridge("br0").await.expect("the first server still answers");
    running.stop().await;
}
