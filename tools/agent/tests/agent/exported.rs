//! The export of flows: records of a switch in, messages of collectors out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream, UnixListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use vswitch_agent::export::{Config, Export, Target, Tls};
use vswitch_agent::status;
use vswitch_flow_export::aggregator::proto;
use vswitch_flow_export::aggregator::proto::flow_export_service_server::{FlowExportService, FlowExportServiceServer};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::FlowRecordKind;
use vswitch_proto::antrea::v1::flow_record_service_server::{FlowRecordService, FlowRecordServiceServer};
use vswitch_proto::vswitch::v1::{ConnectionTuple, Count};

/// How long a state is waited for at most.
const PATIENCE: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(5);

type Message = Result<v1::WatchFlowRecordsResponse, Status>;

/// A switch that tells what a test says.
#[derive(Clone)]
struct Switch {
    /// Streams that begin: where their messages are to be left.
    streams: mpsc::Sender<mpsc::Sender<Message>>,
}

#[tonic::async_trait]
impl FlowRecordService for Switch {
    type WatchFlowRecordsStream = ReceiverStream<Message>;
    type ListFlowRecordsStream = ReceiverStream<Result<v1::ListFlowRecordsResponse, Status>>;

    async fn watch_flow_records(
        &self,
        request: Request<v1::WatchFlowRecordsRequest>,
    ) -> Result<Response<Self::WatchFlowRecordsStream>, Status> {
        assert!(request.get_ref().include_existing && request.get_ref().active_seconds == 1);
        let (sender, stream) = mpsc::channel(16);
        self.streams.send(sender).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn list_flow_records(
        &self,
        _: Request<v1::ListFlowRecordsRequest>,
    ) -> Result<Response<Self::ListFlowRecordsStream>, Status> {
        Err(Status::unimplemented("not asked for"))
    }
}

/// A Flow Aggregator that keeps what comes.
#[derive(Clone)]
struct Aggregator {
    flows: mpsc::UnboundedSender<proto::Flow>,
}

#[tonic::async_trait]
impl FlowExportService for Aggregator {
    async fn export(
        &self,
        request: Request<Streaming<proto::ExportRequest>>,
    ) -> Result<Response<proto::ExportResponse>, Status> {
        let mut requests = request.into_inner();
        while let Some(request) = requests.next().await {
            for flow in request?.flows {
                let _ = self.flows.send(flow);
            }
        }
        Ok(Response::new(proto::ExportResponse {}))
    }
}

struct Bed {
    _dir: TempDir,
    socket: PathBuf,
    streams: mpsc::Receiver<mpsc::Sender<Message>>,
    status: Arc<status::Status>,
}

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("switch.sock");
        let (sender, streams) = mpsc::channel(4);
        let listener = UnixListenerStream::new(UnixListener::bind(&socket).expect("bound"));
        let service = FlowRecordServiceServer::new(Switch { streams: sender });
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(listener));
        Self { _dir: dir, socket, streams, status: Arc::default() }
    }

    fn export(&self, target: &str, tls: Tls) -> Export {
        let targets = vec![target.parse::<Target>().expect("a target")];
        let config = Config { targets, active_seconds: 1, idle_seconds: 3, tls };
        Export::start(&config, "n1", self.socket.clone(), &self.status)
    }

    async fn stream(&mut self) -> mpsc::Sender<Message> {
        tokio::time::timeout(PATIENCE, self.streams.recv()).await.expect("in time").expect("a stream")
    }
}

/// A connection between two Pods of this Node.
fn record(kind: FlowRecordKind, id: u64, packets: u64) -> v1::FlowRecord {
    let tuple = |src: u8, dst: u8, src_port, dst_port| {
        let address = |last| vec![10, 0, 0, last];
        Some(ConnectionTuple { src: address(src), dst: address(dst), protocol: 6, src_port, dst_port, icmp: None })
    };
    v1::FlowRecord {
        kind: kind.into(),
        connection_id: id,
        original: tuple(5, 6, 4000, 80),
        reply: tuple(6, 5, 80, 4000),
        original_count: Some(Count { packets, bytes: packets * 100 }),
        source_pod: "a/p".to_owned(),
        destination_pod: "a/q".to_owned(),
        start_unix_ms: 1_700_000_000_000,
        ..v1::FlowRecord::default()
    }
}

fn records(records: Vec<v1::FlowRecord>) -> Message {
    Ok(v1::WatchFlowRecordsResponse { records, ..v1::WatchFlowRecordsResponse::default() })
}

/// An aggregator at a port, with certificates perhaps.
async fn aggregator(tls: Option<&Path>) -> (u16, mpsc::UnboundedReceiver<proto::Flow>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    let (flows, inbox) = mpsc::unbounded_channel();
    let router = Server::builder().add_service(FlowExportServiceServer::new(Aggregator { flows }));
    match tls {
        None => {
            tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        }
        Some(dir) => {
            let acceptor = tokio_rustls::TlsAcceptor::from(server_config(dir));
            let (sender, incoming) = mpsc::channel(4);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    // A client that is not trusted ends here.
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        let (mut near, far) = tokio::io::duplex(65_536);
                        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut stream, &mut near).await });
                        let _ = sender.send(Ok::<_, std::io::Error>(far)).await;
                    }
                }
            });
            tokio::spawn(router.serve_with_incoming(ReceiverStream::new(incoming)));
        }
    }
    (port, inbox)
}

fn openssl(dir: &Path, words: &str) {
    let output = std::process::Command::new("openssl").args(words.split(' ')).current_dir(dir).output();
    let output = output.expect("openssl is installed (tools/setup)");
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and certificates of it for `localhost` and for an agent.
fn certificates(dir: &Path) {
    let new = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(dir, &format!("{new} -x509 -keyout ca.key -out ca.pem -subj /CN=authority"));
    for (name, subject) in [("server", "localhost"), ("agent", "agent")] {
        openssl(dir, &format!("{new} -keyout {name}.key -out {name}.csr -subj /CN={subject}"));
        std::fs::write(dir.join("names"), format!("subjectAltName=DNS:{subject}")).expect("written");
        let sign = "x509 -req -days 2 -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names";
        openssl(dir, &format!("{sign} -in {name}.csr -out {name}.pem"));
    }
}

fn server_config(dir: &Path) -> Arc<rustls::ServerConfig> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificate = |name: &str| CertificateDer::from_pem_file(dir.join(name)).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate("ca.pem")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let verifier = verifier.build().expect("a verifier");
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_client_cert_verifier(verifier);
    let key = PrivateKeyDer::from_pem_file(dir.join("server.key")).expect("a key");
    let mut config = builder.with_single_cert(vec![certificate("server.pem")], key).expect("a pair");
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

async fn next(flows: &mut mpsc::UnboundedReceiver<proto::Flow>) -> proto::Flow {
    tokio::time::timeout(PATIENCE, flows.recv()).await.expect("in time").expect("a flow")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregator_gets_active_and_ended_connections() {
    let mut bed = Bed::new();
    let (port, mut flows) = aggregator(None).await;
    let _export = bed.export(&format!("grpc:127.0.0.1:{port}"), Tls::default());
    let stream = bed.stream().await;
    stream.send(records(vec![record(FlowRecordKind::New, 1, 1)])).await.expect("sent");
    stream.send(records(vec![record(FlowRecordKind::Update, 1, 5)])).await.expect("sent");
    let active = next(&mut flows).await;
    assert_eq!(active.end_reason(), proto::FlowEndReason::ActiveTimeout);
    let counts =
        |flow: &proto::Flow| flow.stats.as_ref().map(|stats| (stats.packet_total_count, stats.packet_delta_count));
    assert_eq!(counts(&active), Some((5, 5)));
    let k8s = active.k8s.as_ref().expect("names");
    assert_eq!(
        (&*k8s.source_pod_name, &*k8s.destination_pod_name, k8s.flow_type()),
        ("p", "q", proto::FlowType::IntraNode)
    );
    stream.send(records(vec![record(FlowRecordKind::End, 1, 7)])).await.expect("sent");
    let end = next(&mut flows).await;
    assert_eq!((end.end_reason(), counts(&end)), (proto::FlowEndReason::EndOfFlow, Some((7, 2))));
    // A switch that begins anew is read again. What it lost is told.
    drop(stream);
    let stream = bed.stream().await;
    let lost =
        v1::WatchFlowRecordsResponse { lost: 3, records: vec![record(FlowRecordKind::End, 9, 2)], started: None };
    stream.send(Ok(lost)).await.expect("sent");
    assert_eq!(counts(&next(&mut flows).await), Some((2, 2)));
    assert_eq!(bed.status.flows.lost.load(Ordering::Relaxed), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregator_with_tls_takes_flows_of_an_agent_that_it_trusts() {
    let dir = tempfile::tempdir().expect("a directory");
    certificates(dir.path());
    let (port, mut flows) = aggregator(Some(dir.path())).await;
    let file = |name: &str| Some(dir.path().join(name));
    let mut bed = Bed::new();
    let tls = Tls { ca: file("ca.pem"), certificate: file("agent.pem"), key: file("agent.key") };
    let _export = bed.export(&format!("grpc:localhost:{port}"), tls);
    let stream = bed.stream().await;
    stream.send(records(vec![record(FlowRecordKind::End, 1, 7)])).await.expect("sent");
    assert_eq!(next(&mut flows).await.end_reason(), proto::FlowEndReason::EndOfFlow);

    // Without a certificate of its own the agent is refused. Under another name the server is.
    for (host, certificate, key) in [("localhost", None, None), ("127.0.0.1", file("agent.pem"), file("agent.key"))] {
        let mut other = Bed::new();
        let _export = other.export(&format!("grpc:{host}:{port}"), Tls { ca: file("ca.pem"), certificate, key });
        let stream = other.stream().await;
        // The queue of a target that is away is full at some time.
        let begin = Instant::now();
        let has_lost = |bed: &Bed| {
            let metrics = bed.status.metrics();
            let line = metrics.lines().find(|line| line.starts_with("vswitch_agent_flow_export_lost_total"));
            line.and_then(|line| line.rsplit_once(' ')).is_some_and(|(_, lost)| lost != "0")
        };
        while !has_lost(&other) {
            assert!(begin.elapsed() < PATIENCE, "{}", other.status.metrics());
            stream.send(records(vec![record(FlowRecordKind::End, 2, 1)])).await.expect("sent");
            tokio::time::sleep(LOOK).await;
        }
    }
    assert!(flows.try_recv().is_err(), "nothing came of those");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_ipfix_has_whole_messages() {
    let mut bed = Bed::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    let _export = bed.export(&format!("ipfix:tcp:127.0.0.1:{port}"), Tls::default());
    let stream = bed.stream().await;
    let all = (0..300).map(|id| record(FlowRecordKind::End, id, 1)).collect();
    stream.send(records(all)).await.expect("sent");
    let (mut peer, _) = listener.accept().await.expect("a connection");
    let (mut seen, mut expected) = (0_u32, None);
    while seen < 300 {
        let mut header = [0; 16];
        tokio::time::timeout(PATIENCE, peer.read_exact(&mut header)).await.expect("in time").expect("a header");
        assert_eq!(header[..2], [0, 10]);
        let mut rest = vec![0; usize::from(u16::from_be_bytes([header[2], header[3]])) - header.len()];
        peer.read_exact(&mut rest).await.expect("the rest");
        let sequence = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        if rest[..2] == [0, 2] {
            assert_eq!((sequence, expected.replace(0)), (0, None), "templates come first");
            continue;
        }
        assert_eq!(Some(sequence), expected, "the header counts records");
        // Each record has the ports of the connection once.
        let count = rest.windows(4).filter(|bytes| bytes == b"\x0f\xa0\x00\x50").count();
        seen += u32::try_from(count).expect("few");
        expected = Some(seen);
    }
    assert_eq!(seen, 300);
}
