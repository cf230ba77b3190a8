//! Connections to collectors.

use super::flow::unix_ms;
use super::target::{Protocol, Target, Tls};
use super::tls::Connector;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket, lookup_host};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use vswitch_flow_export::Flow;
use vswitch_flow_export::aggregator::proto::flow_export_service_client::FlowExportServiceClient;
use vswitch_flow_export::aggregator::proto::{ExportRequest, ExportResponse};
use vswitch_flow_export::aggregator::{FLOWS_MAX, message};
use vswitch_flow_export::ipfix::{DATAGRAM_LEN_MAX, Encoder, STREAM_LEN_MAX};

/// A connection, or a message, that takes longer has failed.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Templates on UDP are sent again after this time: a collector that begins anew has none.
const TEMPLATES_AGAIN: Duration = Duration::from_secs(60);

/// Messages that wait for the stream of gRPC.
const REQUESTS_MAX: usize = 16;

/// An idle connection of gRPC is asked this often whether it stands.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// A connection to a collector.
pub(super) enum Sink {
    Udp { socket: UdpSocket, encoder: Encoder, templates: Instant },
    Tcp { stream: TcpStream, encoder: Encoder },
    Grpc { requests: mpsc::Sender<ExportRequest>, domain: u32, call: JoinHandle<String> },
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Self::Grpc { call, .. } = self {
            call.abort();
        }
    }
}

impl Sink {
    /// Connects. `domain` is the number of this Node.
    pub(super) async fn connect(target: &Target, domain: u32, tls: &Tls) -> Result<Self, String> {
        let connect = async {
            match target.protocol {
                Protocol::IpfixUdp => Self::udp(target, domain).await,
                Protocol::IpfixTcp => Self::tcp(target, domain).await,
                Protocol::Grpc => Self::grpc(target, domain, tls).await,
            }
        };
        let timeout = |_| Err(format!("no connection within {} s", ANSWER_MAX.as_secs()));
        tokio::time::timeout(ANSWER_MAX, connect).await.unwrap_or_else(timeout)
    }

    async fn udp(target: &Target, domain: u32) -> Result<Self, String> {
        let address = lookup_host(target.authority()).await.map_err(|error| error.to_string())?.next();
        let address = address.ok_or("the name has no address")?;
        let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await.map_err(|error| error.to_string())?;
        socket.connect(address).await.map_err(|error| error.to_string())?;
        let encoder = Encoder::new(domain, DATAGRAM_LEN_MAX);
        socket.send(&encoder.templates(unix_seconds())).await.map_err(|error| error.to_string())?;
        Ok(Self::Udp { socket, encoder, templates: Instant::now() })
    }

    async fn tcp(target: &Target, domain: u32) -> Result<Self, String> {
        let mut stream = TcpStream::connect(target.authority()).await.map_err(|error| error.to_string())?;
        let encoder = Encoder::new(domain, STREAM_LEN_MAX);
        stream.write_all(&encoder.templates(unix_seconds())).await.map_err(|error| error.to_string())?;
        Ok(Self::Tcp { stream, encoder })
    }

    async fn grpc(target: &Target, domain: u32, tls: &Tls) -> Result<Self, String> {
        let authority = target.authority();
        let endpoint = Endpoint::from_shared(format!("http://{authority}")).map_err(|error| reasons(&error))?;
        let endpoint = endpoint.http2_keep_alive_interval(KEEPALIVE).keep_alive_while_idle(true);
        let channel = match Connector::new(tls, &target.host, authority)? {
            // The connector has TLS. The channel knows nothing of it.
            Some(connector) => endpoint.connect_with_connector(connector).await,
            None => endpoint.connect().await,
        };
        let channel = channel.map_err(|error| reasons(&error))?;
        let (requests, stream) = mpsc::channel(REQUESTS_MAX);
        let call = tokio::spawn(async move {
            match FlowExportServiceClient::new(channel).export(ReceiverStream::new(stream)).await {
                Ok(answer) => {
                    let ExportResponse {} = answer.into_inner();
                    "the collector has ended the stream".to_owned()
                }
                Err(status) => format!("{:?}: {}", status.code(), status.message()),
            }
        });
        Ok(Self::Grpc { requests, domain, call })
    }

    /// Sends flows.
    pub(super) async fn send(&mut self, flows: &[Flow]) -> Result<(), String> {
        let timeout = |_| Err(format!("nothing is taken for {} s", ANSWER_MAX.as_secs()));
        tokio::time::timeout(ANSWER_MAX, self.write(flows)).await.unwrap_or_else(timeout)
    }

    async fn write(&mut self, flows: &[Flow]) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        match self {
            Self::Udp { socket, encoder, templates } => {
                if templates.elapsed() >= TEMPLATES_AGAIN {
                    socket.send(&encoder.templates(unix_seconds())).await.map_err(failed)?;
                    *templates = Instant::now();
                }
                let mut rest = flows;
                while !rest.is_empty() {
                    let (message, count) = encoder.records(rest, unix_seconds());
                    socket.send(&message).await.map_err(failed)?;
                    rest = &rest[count..];
                }
            }
            Self::Tcp { stream, encoder } => {
                // A collector says nothing. An end that has come says that it is gone.
                if let Ok(0) = stream.try_read(&mut [0; 64]) {
                    return Err("the collector has ended the connection".to_owned());
                }
                let mut rest = flows;
                while !rest.is_empty() {
                    let (message, count) = encoder.records(rest, unix_seconds());
                    stream.write_all(&message).await.map_err(failed)?;
                    rest = &rest[count..];
                }
            }
            Self::Grpc { requests, domain, call } => {
                for part in flows.chunks(FLOWS_MAX) {
                    let now = unix_ms();
                    let flows = part.iter().map(|flow| message(flow, *domain, now)).collect();
                    if requests.send(ExportRequest { flows }).await.is_err() || call.is_finished() {
                        return Err(call.await.unwrap_or_else(|error| error.to_string()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until the collector ends the connection. Others than gRPC tell nothing.
    pub(super) async fn ended(&mut self) -> String {
        match self {
            Self::Grpc { call, .. } => call.await.unwrap_or_else(|error| error.to_string()),
            _ => std::future::pending().await,
        }
    }
}

/// The reason behind reasons.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn unix_seconds() -> u32 {
    u32::try_from(unix_ms() / 1000).unwrap_or(u32::MAX)
}
