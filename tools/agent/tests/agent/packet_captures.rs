//! PacketCaptures: an object of the API server becomes a capture of the switch, a file and a
//! status.

use crate::realized::bed::definitions;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Status};
use vswitch_agent::packetcapture::{LocalPod, PacketCaptures, Pods};
use vswitch_agent::source::cluster::connect;
use vswitch_proto::v1;
use vswitch_proto::v1::capture_response::Update;
use vswitch_proto::v1::capture_service_server::{CaptureService, CaptureServiceServer};
use vswitch_testapi::{Options, Server};

const API: &str = "crd.antrea.io/v1alpha1";

type Message = Result<v1::CaptureResponse, Status>;

/// A switch that has packets for each capture.
#[derive(Clone, Default)]
struct Switch {
    requests: Arc<Mutex<Vec<v1::CaptureRequest>>>,
    /// Captures that ask for more packets than these wait.
    packets: u64,
}

#[tonic::async_trait]
impl CaptureService for Switch {
    type CaptureStream = ReceiverStream<Message>;

    async fn capture(&self, request: Request<v1::CaptureRequest>) -> Result<Response<Self::CaptureStream>, Status> {
        let request = request.into_inner();
        self.requests.lock().expect("not poisoned").push(request.clone());
        if request.r#match.contains("udp") {
            return Err(Status::invalid_argument("refused by the test"));
        }
        let (sender, stream) = mpsc::channel(16);
        let packets = self.packets;
        tokio::spawn(async move {
            let message = |update| Ok(v1::CaptureResponse { update: Some(update) });
            let record = |n| v1::CaptureRecord { time: n, data: vec![0x42; 60], length: 60, ..Default::default() };
            let records = (0..packets.min(request.count)).map(record).collect();
            let _ = sender.send(message(Update::Started(v1::CaptureStarted::default()))).await;
            let _ = sender.send(message(Update::Records(v1::CaptureRecords { records }))).await;
            if packets < request.count {
                sender.closed().await;
            }
            let ended = v1::CaptureEnded { reason: v1::CaptureEnd::Count.into(), ..Default::default() };
            let _ = sender.send(message(Update::Ended(ended))).await;
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

struct Bed {
    server: Server,
    switch: Switch,
    dir: TempDir,
    captures: PacketCaptures,
}

impl Bed {
    /// Node `n1` with Pod `a/p`, whose switch has so many packets for a capture.
    async fn new(packets: u64) -> Self {
        let server = Server::start(Options::default()).expect("a server");
        for definition in definitions("crd.antrea.io.yaml") {
            server.apply(definition).expect("it is right");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let (kubeconfig, socket) = (dir.path().join("kubeconfig"), dir.path().join("switch.sock"));
        server.kubeconfig(&kubeconfig).expect("a kubeconfig");
        let switch = Switch { packets, ..Switch::default() };
        let listener = UnixListenerStream::new(UnixListener::bind(&socket).expect("bound"));
        let service = CaptureServiceServer::new(switch.clone());
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(listener));
        let client = connect(Some(&kubeconfig)).await.expect("a client");
        let files = dir.path().join("captures");
        std::fs::create_dir(&files).expect("made");
        std::fs::write(files.join("gone.pcapng"), "of a PacketCapture that is gone").expect("written");
        let captures = PacketCaptures::start(client, "n1", (socket, files), watch::channel(None).1);
        let pod = LocalPod { port: "p-1".to_owned(), addresses: vec![[10, 0, 0, 5].into()] };
        captures.local(Pods { bridge: "br-int".to_owned(), local: [("a/p".to_owned(), pod)].into() });
        Self { server, switch, dir, captures }
    }

    fn create(&self, name: &str, more: &Value) {
        let mut spec = json!({
            "source": {"pod": {"namespace": "a", "name": "p"}}, "destination": {"ip": "10.0.0.9"},
            "captureConfig": {"firstN": {"number": 5}},
        });
        spec.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        let object = json!({"apiVersion": API, "kind": "PacketCapture", "metadata": {"name": name}, "spec": spec});
        self.server.apply(object).expect("it is right");
    }

    fn status(server: &Server, name: &str) -> Value {
        server.get(API, "PacketCapture", "", name).map(|object| object["status"].clone()).unwrap_or_default()
    }

    /// Waits until a PacketCapture has a condition of this reason; its status.
    async fn until(&self, name: &str, reason: &str) -> Value {
        let has = |server: &Server| {
            let status = Self::status(server, name);
            status["conditions"].as_array().is_some_and(|all| all.iter().any(|each| each["reason"] == reason))
        };
        assert!(self.server.until(has).await, "{name} {reason}: {}", Self::status(&self.server, name));
        Self::status(&self.server, name)
    }

    fn files(&self) -> Vec<PathBuf> {
        let dir = std::fs::read_dir(self.dir.path().join("captures")).expect("there");
        dir.map(|entry| entry.expect("an entry").path()).collect()
    }

    fn requests(&self) -> Vec<v1::CaptureRequest> {
        self.switch.requests.lock().expect("not poisoned").clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_of_a_pod_are_in_a_file_until_the_object_goes() {
    let bed = Bed::new(5).await;
    bed.create("c", &json!({"packet": {"protocol": "TCP", "transportHeader": {"tcp": {"dstPort": 80}}}}));
    let status = bed.until("c", "Succeed").await;
    assert_eq!(status["numberCaptured"], 5);
    let file = bed.dir.path().join("captures/c.pcapng");
    assert_eq!(status["filePath"], json!(format!("n1:{}", file.display())));
    assert_eq!(bed.files(), std::slice::from_ref(&file), "the file of one that is gone went, too");
    let requests = bed.requests();
    let request = &requests[0];
    assert_eq!((&*request.bridge, &*request.ports[0], request.count, request.seconds), ("br-int", "p-1", 5, 60));
    assert_eq!(
        (request.points[0], &*request.r#match),
        (v1::CapturePoint::Rx.into(), "tcp,nw_src=10.0.0.5,nw_dst=10.0.0.9,tp_dst=80")
    );
    let mut command = std::process::Command::new("tshark");
    let output = command.args(["-r"]).arg(&file).args(["-T", "fields", "-e", "frame.len"]).output();
    let output = output.expect("tshark is installed (tools/setup)");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "60\n".repeat(5));
    bed.server.delete(API, "PacketCapture", "", "c").expect("deleted");
    while !bed.files().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    drop(bed.captures);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_capture_runs_and_others_wait() {
    let bed = Bed::new(3).await;
    bed.create("a", &json!({"direction": "Both", "captureConfig": {"firstN": {"number": 9}}}));
    let status = bed.until("a", "Progressing").await;
    assert_eq!(status["filePath"], "");
    bed.create("b", &json!({"captureConfig": {"firstN": {"number": 3}}}));
    bed.until("b", "Pending").await;
    assert_eq!(bed.requests().len(), 2, "one of each direction");
    bed.server.delete(API, "PacketCapture", "", "a").expect("deleted");
    bed.until("b", "Succeed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_captured_says_why() {
    let bed = Bed::new(3).await;
    bed.create("many", &json!({"captureConfig": {"firstN": {"number": 100_000}}}));
    let status = bed.until("many", "NotStarted").await;
    assert!(status["conditions"][0]["message"].as_str().is_some_and(|text| text.contains("1 to 1000")), "{status}");
    bed.create("refused", &json!({"packet": {"protocol": "UDP"}, "fileServer": {"url": "sftp://h/"}}));
    let status = bed.until("refused", "Failed").await;
    let message = status["conditions"][1]["message"].as_str().unwrap_or_default();
    assert!(message.contains("refused by the test") && message.contains("fileServer"), "{status}");
    bed.create("elsewhere", &json!({"source": {"pod": {"namespace": "a", "name": "other"}}}));
    bed.create("right", &json!({"captureConfig": {"firstN": {"number": 3}}}));
    bed.until("right", "Succeed").await;
    assert_eq!(Bed::status(&bed.server, "elsewhere"), Value::Null, "another Node's");
}
