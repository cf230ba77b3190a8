//! Serving until told to stop.

use super::http2::HEADERS_LEN_MAX;
use super::incoming::Gate;
use super::listeners::Listeners;
use super::saving::save_behind;
use crate::calls::{Calls, CountLayer};
use crate::metrics::{self, MetricsListener, Page};
use crate::rights::{GuardLayer, SERVER_PARTS, ServerState};
use crate::services::{
    AddressNames, AntreaServices, Bridges, Capabilities, Captures, Configs, Conntracks, Control, Drops, Dummies, Fdbs,
    Flows, Groups, Listening, Logs, Meters, Observations, Observer, Packets, Pipelines, Ports, Statistics, Tables,
    Traces, TunnelSupport, Workers,
};
use crate::shares::{CONNECTIONS_MAX, Connections, ShareLayer, Shares};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::{HealthReporter, health_reporter};
use tonic_reflection::server::Builder;
use vswitch_antrea_node::{Antrea, PERIOD, RETRY, maintain_wire, read_igmp, read_names, watch_links};
use vswitch_control::health::{Condition, PARTS, Part};
use vswitch_control::running::Running;
use vswitch_control::{Health as Parts, Switch, SwitchApi};
use vswitch_proto::Services;
use vswitch_proto::antrea::v1::egress_service_server as antrea_egress;
use vswitch_proto::antrea::v1::event_service_server as antrea_event;
use vswitch_proto::antrea::v1::flow_record_service_server as antrea_record;
use vswitch_proto::antrea::v1::multicast_service_server as antrea_multicast;
use vswitch_proto::antrea::v1::name_service_server as antrea_name;
use vswitch_proto::antrea::v1::network_policy_service_server as antrea_policy;
use vswitch_proto::antrea::v1::node_service_server as antrea_node;
use vswitch_proto::antrea::v1::observe_service_server as antrea_observe;
use vswitch_proto::antrea::v1::peer_node_service_server as antrea_peer;
use vswitch_proto::antrea::v1::pod_service_server as antrea_pod;
use vswitch_proto::antrea::v1::proxy_service_server as antrea_proxy;
use vswitch_proto::antrea::v1::sync_service_server as antrea_sync;
use vswitch_proto::antrea::v1::traceflow_service_server as antrea_traceflow;
use vswitch_proto::antrea::v1::traffic_control_service_server as antrea_traffic_control;
use vswitch_proto::v1::bridge_service_server as bridge;
use vswitch_proto::v1::capabilities_service_server as capabilities;
use vswitch_proto::v1::capture_service_server as capture;
use vswitch_proto::v1::config_service_server as config;
use vswitch_proto::v1::conntrack_service_server as conntrack;
use vswitch_proto::v1::control_service_server as control_service;
use vswitch_proto::v1::drop_service_server as drops;
use vswitch_proto::v1::dummy_service_server as dummy;
use vswitch_proto::v1::fdb_service_server as fdb;
use vswitch_proto::v1::flow_service_server as flow;
use vswitch_proto::v1::group_service_server as group;
use vswitch_proto::v1::log_service_server as log;
use vswitch_proto::v1::meter_service_server as meter;
use vswitch_proto::v1::packet_service_server as packet;
use vswitch_proto::v1::pipeline_service_server as pipeline;
use vswitch_proto::v1::port_service_server as port;
use vswitch_proto::v1::statistics_service_server as statistics;
use vswitch_proto::v1::table_service_server as table;
use vswitch_proto::v1::trace_service_server as trace;
use vswitch_proto::v1::tunnel_service_server as tunnel;
use vswitch_proto::v1::worker_service_server as worker;

/// Calls at a time on one connection.
const STREAMS_MAX: u32 = 128;

/// Bytes that a client may send on one call, and on one connection, before they are read. A call
/// whose message waits for its share holds that much of the connection's.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 512 << 10;

/// Bytes of one message of a request.
pub(super) const REQUEST_LEN_MAX: usize = 16 << 20;

/// Bytes of one message of a request of health.
const HEALTH_LEN_MAX: usize = 64 << 10;

/// Time for a new connection to speak HTTP/2.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that was silent for so long is pinged.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// A client that does not answer a ping for so long is dropped.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often health is looked at.
const HEALTH_INTERVAL: Duration = Duration::from_millis(500);

/// Time for calls in flight to end when the server stops; then their connections are cut.
pub(super) const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// Names under which health is told as a whole: the server's, and each service's. Parts of the
/// switch have names of their own ([`PARTS`]).
pub(super) const HEALTH_NAMES: [&str; 35] = [
    "",
    bridge::SERVICE_NAME,
    port::SERVICE_NAME,
    worker::SERVICE_NAME,
    fdb::SERVICE_NAME,
    statistics::SERVICE_NAME,
    log::SERVICE_NAME,
    capabilities::SERVICE_NAME,
    config::SERVICE_NAME,
    pipeline::SERVICE_NAME,
    table::SERVICE_NAME,
    flow::SERVICE_NAME,
    group::SERVICE_NAME,
    meter::SERVICE_NAME,
    packet::SERVICE_NAME,
    conntrack::SERVICE_NAME,
    trace::SERVICE_NAME,
    tunnel::SERVICE_NAME,
    capture::SERVICE_NAME,
    drops::SERVICE_NAME,
    control_service::SERVICE_NAME,
    antrea_node::SERVICE_NAME,
    antrea_sync::SERVICE_NAME,
    antrea_pod::SERVICE_NAME,
    antrea_peer::SERVICE_NAME,
    antrea_proxy::SERVICE_NAME,
    antrea_policy::SERVICE_NAME,
    antrea_egress::SERVICE_NAME,
    antrea_traffic_control::SERVICE_NAME,
    antrea_multicast::SERVICE_NAME,
    antrea_traceflow::SERVICE_NAME,
    antrea_event::SERVICE_NAME,
    antrea_record::SERVICE_NAME,
    antrea_observe::SERVICE_NAME,
    antrea_name::SERVICE_NAME,
];

/// The service that tells health.
const HEALTH_SERVICE: &str = "grpc.health.v1.Health";

/// Why the server stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be used.
    #[error("the control socket cannot be polled: {0}")]
    Listener(#[from] io::Error),
    /// The API's own description is broken.
    #[error("gRPC reflection cannot describe the API: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// HTTP/2 failed.
    #[error("the gRPC server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Serves the API until `shutdown` is ready: then no connection is accepted any more, streams are
/// ended, calls in flight have 2 s to end, and the sockets and their lock files are removed.
/// `metrics`: where metrics are shown, and under which names.
/// `state_dir`: where what agents of Antrea's kind said is over a restart; it is in force before
/// the first call. `running`: the configuration, which clients may export and change. Streams that
/// have no reader do not hold it up.
///
/// # Errors
/// [`ServeError`]: the server could not be started. Nothing that a client does ends it.
pub async fn serve(
    switch: Arc<Switch>,
    listeners: Listeners,
    state_dir: Option<PathBuf>,
    running: Arc<Running>,
    metrics: Option<MetricsListener>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    serve_api(switch, listeners, state_dir, running, metrics, shutdown).await
}

/// [`serve`], for any switch.
pub(super) async fn serve_api(
    switch: Arc<dyn SwitchApi>,
    listeners: Listeners,
    state_dir: Option<PathBuf>,
    running: Arc<Running>,
    metrics: Option<MetricsListener>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let (stop, mut stopping) = watch::channel(false);
    let (abort, aborted) = watch::channel(false);

    let (reporter, health) = health_reporter();
    let server = listeners.state();
    let first = health_of(&switch, &server).await;
    set_health(&reporter, None, &first).await;
    let watching_health =
        tokio::spawn(watch_health(Arc::clone(&switch), Arc::clone(&server), reporter, first, stopping.clone()));
    let dummies = switch.dummies_enabled();
    let antrea = Antrea::new(Arc::clone(&switch), state_dir);
    on(&antrea, Antrea::restore).await;
    let writing = tokio::spawn(write_behind(Arc::clone(&antrea)));
    let reading_names = tokio::spawn(read_names(Arc::clone(&antrea), stopping.clone()));
    let watching_links = tokio::spawn(watch_links(Arc::clone(&antrea), stopping.clone()));
    let shares = Arc::new(Shares::default());
    running.owned_by(antrea.clone());
    let saving = tokio::spawn(save_behind(Arc::clone(&running), stopping.clone()));
    let control =
        Control::new(switch, Arc::clone(&shares), Arc::clone(&running), Arc::clone(&server), stopping.clone());
    let calls = Arc::new(Calls::new());
    let observer = Observer::new(control.clone(), Arc::clone(&antrea), running.observing());
    let observing = tokio::spawn(Arc::clone(&observer).run());
    let router = router(&control, &antrea, &observer, running, &calls, health, dummies)?;
    let router = http2()
        .layer(CountLayer(Arc::clone(&calls)))
        .layer(GuardLayer::new(Arc::clone(&server.audit)))
        .layer(ShareLayer(shares))
        .add_routes(router);
    let reading_igmp = tokio::spawn(read_igmp(Arc::clone(&antrea), stopping.clone()));
    let showing = metrics.map(|listener| {
        let page = Page::new(control.clone(), Arc::clone(&antrea), calls, &listener);
        tokio::spawn(metrics::serve(listener, page, stopping.clone()))
    });
    let tending_wire = tokio::spawn(maintain_wire(Arc::clone(&antrea), stopping.clone()));

    let (sender, connections) = mpsc::channel(1);
    let admitting = Arc::new(Connections::new(CONNECTIONS_MAX));
    let gate = Arc::new(Gate::new(admitting, PREFACE_TIMEOUT, aborted, sender));
    let accepting = listeners.run(&gate)?;
    drop(gate);

    let shutdown = async {
        shutdown.await;
        stop.send_replace(true);
    };
    let deadline = async {
        let _ = stopping.wait_for(|stopping| *stopping).await; // its sender lives in this function
        tokio::time::sleep(SHUTDOWN_GRACE).await;
        tracing::warn!("control connections are cut: calls did not end in time");
        abort.send_replace(true);
        // What does not even notice that does not hold up the exit.
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    };
    let result = tokio::select! {
        result = router.serve_with_incoming_shutdown(ReceiverStream::new(connections), shutdown) => result,
        () = deadline => Ok(()),
    };
    stop.send_replace(true);
    abort.send_replace(true);
    let tasks = [watching_health, watching_links, writing, reading_igmp, reading_names, tending_wire, observing];
    for task in tasks.into_iter().chain(showing) {
        task.abort();
        let _ = task.await;
    }
    accepting.stop().await;
    // It ends with the others, when the last change is saved.
    if tokio::time::timeout(SHUTDOWN_GRACE, saving).await.is_err() {
        tracing::warn!("the last changes are not saved for the next start: the switch did not answer in time");
    }
    on(&antrea, Antrea::write_behind).await;
    Ok(result?)
}

/// The server, with its limits.
fn http2() -> Server {
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(HEADERS_LEN_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

/// All services with their limits; that for tests only if it was asked for.
fn router(
    control: &Control,
    antrea: &Arc<Antrea>,
    observer: &Arc<Observer>,
    running: Arc<Running>,
    calls: &Arc<Calls>,
    health: HealthServer<impl Health>,
    dummies: bool,
) -> Result<Routes, ServeError> {
    let agents = Arc::new(AntreaServices::new(control.clone(), Arc::clone(antrea)));
    let mut services = Services::new(REQUEST_LEN_MAX)
        .bridge_service(Arc::new(Bridges::new(control.clone(), Arc::clone(antrea))))
        .port_service(Arc::new(Ports::new(control.clone(), Arc::clone(antrea))))
        .worker_service(Arc::new(Workers(control.clone())))
        .fdb_service(Arc::new(Fdbs(control.clone())))
        .statistics_service(Arc::new(Statistics::new(control.clone(), Arc::clone(calls))))
        .log_service(Arc::new(Logs))
        .config_service(Arc::new(Configs::new(control.clone(), running)))
        .pipeline_service(Arc::new(Pipelines::new(control.clone())))
        .table_service(Arc::new(Tables(control.clone())))
        .flow_service(Arc::new(Flows(control.clone())))
        .group_service(Arc::new(Groups(control.clone())))
        .meter_service(Arc::new(Meters(control.clone())))
        .packet_service(Arc::new(Packets(control.clone())))
        .conntrack_service(Arc::new(Conntracks::new(control.clone())))
        .trace_service(Arc::new(Traces(control.clone())))
        .tunnel_service(Arc::new(TunnelSupport(control.clone())))
        .capture_service(Arc::new(Captures(control.clone())))
        .drop_service(Arc::new(Drops::new(control.clone(), Arc::clone(antrea))))
        .control_service(Arc::new(Listening(control.clone())))
        .capabilities_service(Arc::new(Capabilities(control.slow_path())))
        .node_service(agents.clone())
        .sync_service(agents.clone())
        .pod_service(agents.clone())
        .peer_node_service(agents.clone())
        .multicast_service(agents.clone())
        .proxy_service(agents.clone())
        .network_policy_service(agents.clone())
        .egress_service(agents.clone())
        .event_service(agents.clone())
        .flow_record_service(agents.clone())
        .observe_service(Arc::new(Observations(Arc::clone(observer))))
        .name_service(Arc::new(AddressNames(Arc::clone(observer))))
        .traffic_control_service(agents.clone())
        .traceflow_service(agents);
    if dummies {
        services = services.dummy_service(Arc::new(Dummies(control.clone())));
    }
    Ok(services
        .routes()
        .add_service(health.max_decoding_message_size(HEALTH_LEN_MAX))
        .add_service(reflection(dummies).build_v1()?)
        .add_service(reflection(dummies).build_v1alpha()?))
}

/// What describes the API to clients without its .proto files. Older ones ask by the name that ends
/// in v1alpha.
fn reflection(dummies: bool) -> Builder<'static> {
    let names = HEALTH_NAMES.iter().filter(|name| !name.is_empty()).copied();
    let names = names.chain(dummies.then_some(dummy::SERVICE_NAME)).chain([HEALTH_SERVICE]);
    names
        .fold(Builder::configure(), Builder::with_service_name)
        .register_encoded_file_descriptor_set(vswitch_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Does something that blocks with what agents declared.
async fn on<R: Send + 'static>(antrea: &Arc<Antrea>, call: impl FnOnce(&Antrea) -> R + Send + 'static) -> Option<R> {
    let antrea = Arc::clone(antrea);
    tokio::task::spawn_blocking(move || call(&antrea)).await.ok()
}

/// Writes what agents declared to the disk, behind their calls.
async fn write_behind(antrea: Arc<Antrea>) {
    loop {
        antrea.changed().await;
        while on(&antrea, Antrea::write_behind).await != Some(true) {
            tokio::time::sleep(RETRY).await;
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Asks the switch on a blocking thread, past the queue of calls: health must not wait for them.
async fn health_of(switch: &Arc<dyn SwitchApi>, server: &ServerState) -> Parts {
    let switch = Arc::clone(switch);
    let failed =
        || Parts { parts: vec![Part::new("workers", Some((Condition::Failing, "it cannot be asked".to_owned())))] };
    server.health(tokio::task::spawn_blocking(move || switch.health()).await.unwrap_or_else(|_| failed()))
}

const fn status(good: bool) -> ServingStatus {
    if good { ServingStatus::Serving } else { ServingStatus::NotServing }
}

/// How a part was, if it was told.
fn condition_of(health: Option<&Parts>, name: &str) -> Option<Condition> {
    health?.parts.iter().find(|part| part.name == name).map(|part| part.condition)
}

/// Tells the health of the switch as a whole, and of each part, where it is another than before: a
/// client that watches gets a message each time. A part that is degraded is not served well, and
/// the whole is.
async fn set_health(reporter: &HealthReporter, before: Option<&Parts>, now: &Parts) {
    if before.map(Parts::is_serving) != Some(now.is_serving()) {
        for name in HEALTH_NAMES {
            reporter.set_service_status(name, status(now.is_serving())).await;
        }
    }
    for part in now.parts.iter().filter(|part| condition_of(before, part.name) != Some(part.condition)) {
        reporter.set_service_status(part.name, status(part.condition == Condition::Good)).await;
    }
}

/// One line for each part that is another than before.
fn log_health(before: Option<&Parts>, now: &Parts) {
    for part in &now.parts {
        let (name, reason, was) = (part.name, &part.reason, condition_of(before, part.name).unwrap_or_default());
        match part.condition {
            condition if condition == was => {}
            Condition::Good => tracing::info!(part = name, "healthy again"),
            Condition::Degraded => tracing::error!(part = name, reason, "degraded: the switch forwards and obeys"),
            Condition::Failing => tracing::error!(part = name, reason, "not healthy"),
        }
    }
}

/// Tells changes of health; at the end tells that the server is gone, and ends the streams of those
/// who watch.
async fn watch_health(
    switch: Arc<dyn SwitchApi>,
    server: Arc<ServerState>,
    mut reporter: HealthReporter,
    mut told: Parts,
    mut stopping: watch::Receiver<bool>,
) {
    log_health(None, &told);
    loop {
        tokio::select! {
            () = tokio::time::sleep(HEALTH_INTERVAL) => {}
            _ = stopping.wait_for(|stopping| *stopping) => break,
        }
        let health = health_of(&switch, &server).await;
        set_health(&reporter, Some(&told), &health).await;
        log_health(Some(&told), &health);
        told = health;
    }
    for name in HEALTH_NAMES.into_iter().chain(PARTS).chain(SERVER_PARTS) {
        reporter.set_service_status(name, ServingStatus::NotServing).await;
        reporter.clear_service_status(name).await;
    }
}
