//! How the switch is reached.

use crate::cli::{Cli, Tls};
use crate::error::{Error, innermost};
use clap::error::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Response, Status};
use tonic_health::pb::health_client::HealthClient;
use vswitch_proto::antrea::v1::egress_service_client::EgressServiceClient;
use vswitch_proto::antrea::v1::event_service_client::EventServiceClient;
use vswitch_proto::antrea::v1::flow_record_service_client::FlowRecordServiceClient;
use vswitch_proto::antrea::v1::multicast_service_client::MulticastServiceClient;
use vswitch_proto::antrea::v1::name_service_client::NameServiceClient;
use vswitch_proto::antrea::v1::network_policy_service_client::NetworkPolicyServiceClient;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
use vswitch_proto::antrea::v1::observe_service_client::ObserveServiceClient;
use vswitch_proto::antrea::v1::peer_node_service_client::PeerNodeServiceClient;
use vswitch_proto::antrea::v1::pod_service_client::PodServiceClient;
use vswitch_proto::antrea::v1::proxy_service_client::ProxyServiceClient;
use vswitch_proto::antrea::v1::sync_service_client::SyncServiceClient;
use vswitch_proto::antrea::v1::traceflow_service_client::TraceflowServiceClient;
use vswitch_proto::antrea::v1::traffic_control_service_client::TrafficControlServiceClient;
use vswitch_proto::v1::bridge_service_client::BridgeServiceClient;
use vswitch_proto::v1::capabilities_service_client::CapabilitiesServiceClient;
use vswitch_proto::v1::capture_service_client::CaptureServiceClient;
use vswitch_proto::v1::config_service_client::ConfigServiceClient;
use vswitch_proto::v1::conntrack_service_client::ConntrackServiceClient;
use vswitch_proto::v1::control_service_client::ControlServiceClient;
use vswitch_proto::v1::drop_service_client::DropServiceClient;
use vswitch_proto::v1::dummy_service_client::DummyServiceClient;
use vswitch_proto::v1::fdb_service_client::FdbServiceClient;
use vswitch_proto::v1::flow_service_client::FlowServiceClient;
use vswitch_proto::v1::group_service_client::GroupServiceClient;
use vswitch_proto::v1::log_service_client::LogServiceClient;
use vswitch_proto::v1::meter_service_client::MeterServiceClient;
use vswitch_proto::v1::packet_service_client::PacketServiceClient;
use vswitch_proto::v1::pipeline_service_client::PipelineServiceClient;
use vswitch_proto::v1::port_service_client::PortServiceClient;
use vswitch_proto::v1::statistics_service_client::StatisticsServiceClient;
use vswitch_proto::v1::table_service_client::TableServiceClient;
use vswitch_proto::v1::trace_service_client::TraceServiceClient;
use vswitch_proto::v1::tunnel_service_client::TunnelServiceClient;
use vswitch_proto::v1::worker_service_client::WorkerServiceClient;

/// Bytes of an answer: 1024 ports with all the external ids that they may have are half of it.
const ANSWER_LEN_MAX: usize = 64 << 20;

/// A long stream finds out that the switch is gone without a word (a stopped process).
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// The way to the switch. It connects when a service is asked for, so that wrong usage is told
/// without a switch.
pub(crate) struct Client {
    /// What the switch is called in errors: the path of its socket, or its address.
    place: PathBuf,
    /// None: a unix socket.
    tls: Option<ClientTlsConfig>,
}

macro_rules! services {
    ($($name:ident: $client:ident,)*) => {
        $(pub(crate) async fn $name(&self) -> Result<$client<Channel>, Error> {
            Ok($client::new(self.connect().await?).max_decoding_message_size(ANSWER_LEN_MAX))
        })*
    };
}

impl Client {
    /// By the socket, or by the address if there is one.
    ///
    /// # Errors
    /// A file of TLS is not named, or cannot be read.
    pub(crate) fn new(cli: &Cli) -> Result<Self, Error> {
        let Some(address) = &cli.tls.connect else { return Ok(Self::by_socket(cli.socket.clone())) };
        let read = |option: &str, file: Option<&PathBuf>| {
            let missing = || usage(&format!("--connect needs {option} FILE\n"));
            let file = file.ok_or_else(missing)?;
            std::fs::read(file).map_err(|error| Error::Input { name: file.display().to_string(), error })
        };
        let Tls { cert, key, ca, .. } = &cli.tls;
        let (cert, key) = (read("--cert", cert.as_ref())?, read("--key", key.as_ref())?);
        let ca = read("--ca", ca.as_ref())?;
        let host = address.rsplit_once(':').map(|(host, _)| host.trim_matches(['[', ']']));
        let host = host.ok_or_else(|| usage(&format!("--connect {address}: write HOST:PORT\n")))?;
        let tls = ClientTlsConfig::new().domain_name(host);
        let tls = tls.ca_certificate(Certificate::from_pem(ca)).identity(Identity::from_pem(cert, key));
        Ok(Self { place: address.into(), tls: Some(tls) })
    }

    /// By a unix socket.
    pub(crate) fn by_socket(socket: PathBuf) -> Self {
        Self { place: socket, tls: None }
    }

    services! {
        bridges: BridgeServiceClient,
        ports: PortServiceClient,
        workers: WorkerServiceClient,
        fdb: FdbServiceClient,
        statistics: StatisticsServiceClient,
        logs: LogServiceClient,
        configs: ConfigServiceClient,
        capabilities: CapabilitiesServiceClient,
        pipeline: PipelineServiceClient,
        tables: TableServiceClient,
        flows: FlowServiceClient,
        groups: GroupServiceClient,
        meters: MeterServiceClient,
        packets: PacketServiceClient,
        traces: TraceServiceClient,
        conntrack: ConntrackServiceClient,
        drops: DropServiceClient,
        dummy: DummyServiceClient,
        tunnels: TunnelServiceClient,
        captures: CaptureServiceClient,
        listeners: ControlServiceClient,
        health: HealthClient,
        antrea_node: NodeServiceClient,
        antrea_sync: SyncServiceClient,
        antrea_pods: PodServiceClient,
        antrea_peers: PeerNodeServiceClient,
        antrea_services: ProxyServiceClient,
        antrea_policies: NetworkPolicyServiceClient,
        antrea_egresses: EgressServiceClient,
        antrea_traffic_controls: TrafficControlServiceClient,
        antrea_multicast: MulticastServiceClient,
        antrea_traceflows: TraceflowServiceClient,
        antrea_events: EventServiceClient,
        antrea_records: FlowRecordServiceClient,
        observations: ObserveServiceClient,
        names: NameServiceClient,
    }

    async fn connect(&self) -> Result<Channel, Error> {
        let place = self.place.to_str().ok_or_else(|| self.unreachable("the path is not UTF-8"))?;
        let scheme = if self.tls.is_some() { "https" } else { "unix" };
        let unreachable = |error| self.unreachable(innermost(&error));
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{place}")).map_err(unreachable)?;
        if let Some(tls) = &self.tls {
            endpoint = endpoint.tls_config(tls.clone()).map_err(unreachable)?;
        }
        let endpoint = endpoint.http2_keep_alive_interval(KEEPALIVE_INTERVAL).keep_alive_while_idle(true);
        endpoint.connect().await.map_err(|error| self.unreachable(innermost(&error)))
    }

    /// The answer of a call.
    pub(crate) fn answer<T>(&self, result: Result<Response<T>, Status>) -> Result<T, Error> {
        result.map(Response::into_inner).map_err(|status| self.error(status))
    }

    /// The error of a call.
    pub(crate) fn error(&self, status: Status) -> Error {
        Error::from_status(status, &self.place)
    }

    pub(crate) fn unreachable(&self, reason: impl Into<String>) -> Error {
        Error::Unreachable { socket: self.place.clone(), reason: reason.into() }
    }
}

fn usage(text: &str) -> Error {
    Error::Usage(clap::Error::raw(ErrorKind::MissingRequiredArgument, text))
}
