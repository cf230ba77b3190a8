//! One user of the socket takes all it can get. Another user, root and probes are served all the
//! while.

use crate::common::{Switch, wait_for};
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use prost::Message;
use std::fs;
use std::process::Output;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use vswitch_proto::v1;

/// Any wait of this test: a hang, not a delay, is what fails it.
const LIMIT: Duration = Duration::from_secs(60);

/// A user that has nothing to do with the attacker, who is root.
const OTHER: u32 = 64_321;

const CONFIG: &str = "[[bridge]]\nname = \"br0\"\nfail_mode = \"secure\"\n";

/// Bytes that the switch may grow by: the limit of the issue's attack is 128 streams of 16 MiB
/// each.
const GROWTH_MAX: u64 = 128 << 20;

/// A switch, and an attacker.
struct Attack {
    runtime: Runtime,
    switch: Switch,
}

/// Runs `vsctl` as a user.
type Vsctl = dyn Fn(u32, &[&str]) -> Output;

impl Attack {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Self { runtime: runtime.expect("a runtime"), switch: Switch::start(CONFIG) }
    }

    /// A connection that answers pings, and does nothing by itself.
    fn connect(&self) -> SendRequest<Bytes> {
        self.runtime.block_on(async {
            let stream = loop {
                match UnixStream::connect(self.switch.socket()).await {
                    // More wait to be accepted than the kernel keeps.
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                    connected => break connected.expect("the socket is there"),
                }
            };
            let shaken = tokio::time::timeout(LIMIT, h2::client::handshake(stream)).await;
            let (client, connection) = shaken.expect("in time").expect("HTTP/2");
            tokio::spawn(async {
                let _ = connection.await; // the switch may close it
            });
            client
        })
    }

    /// A call to which more can be sent.
    fn call(&self, client: &SendRequest<Bytes>, path: &str) -> (h2::client::ResponseFuture, h2::SendStream<Bytes>) {
        let request = http::Request::post(format!("http://localhost/{path}"));
        let request = request.header("content-type", "application/grpc").header("te", "trailers");
        self.runtime.block_on(async {
            let ready = tokio::time::timeout(LIMIT, client.clone().ready()).await.expect("in time");
            ready.expect("room").send_request(request.body(()).expect("a request"), false).expect("a call")
        })
    }

    /// Bytes of memory that the switch uses.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.switch.pid())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
        1024 * line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).expect("a number")
    }
}

/// A message with its prefix.
fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::with_capacity(5 + message.encoded_len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).expect("a short one"));
    message.encode(&mut bytes).expect("room");
    bytes.freeze()
}

fn works(vsctl: &Vsctl, uid: u32, args: &[&str]) {
    let output = vsctl(uid, args);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "vsctl {args:?} as {uid}: {} {text}", output.status);
}

#[test]
fn idle_connections_lock_nobody_out() {
    let attack = Attack::new();
    let vsctl = attack.switch.open_to_all();
    let _many: Vec<_> = (0..400).map(|_| attack.connect()).collect();
    for uid in [0, OTHER] {
        works(&vsctl, uid, &["health"]);
        works(&vsctl, uid, &["list-br"]);
    }
}

#[test]
fn connections_with_calls_leave_room_for_others_and_for_probes() {
    let attack = Attack::new();
    let vsctl = attack.switch.open_to_all();
    let watch = framed(&v1::WatchPortsRequest::default());
    let mut calls = Vec::new();
    for number in 0..100 {
        let client = attack.connect();
        let (response, mut stream) = attack.call(&client, "vswitch.v1.PortService/WatchPorts");
        stream.send_data(watch.clone(), true).expect("a connection");
        // As many as may be watch; the others wait.
        let begun = if number < 40 { Some(attack.runtime.block_on(response).expect("an answer")) } else { None };
        calls.push((client, begun));
    }
    works(&vsctl, 0, &["health"]);
    works(&vsctl, OTHER, &["health"]);
    works(&vsctl, OTHER, &["list-br"]);
    // One of the attacker's own that ends is enough for its next one.
    drop(calls);
    works(&vsctl, 0, &["list-br"]);
}

#[test]
fn messages_that_never_end_take_little_memory() {
    let attack = Attack::new();
    let vsctl = attack.switch.open_to_all();
    let before = attack.memory();
    let len = 16 << 20;
    let mut prefix = BytesMut::new();
    prefix.put_u8(0);
    prefix.put_u32(len);
    let part = Bytes::from(vec![b'x'; 1 << 20]);
    let mut streams = Vec::new();
    let mut begin = |client: &SendRequest<Bytes>| {
        let (response, mut stream) = attack.call(client, "antrea.v1.SyncService/ApplyObjects");
        stream.send_data(prefix.clone().freeze(), false).expect("a connection");
        for _ in 0..15 {
            stream.send_data(part.clone(), false).expect("a connection");
        }
        streams.push((response, stream));
    };
    // One call for a connection; then as many as may be on each.
    let clients: Vec<_> = (0..30).map(|_| attack.connect()).collect();
    clients.iter().for_each(&mut begin);
    wait_for("two messages are there", LIMIT, || attack.memory() >= before + (28 << 20));
    clients.iter().for_each(|client| (1..64).for_each(|_| begin(client)));
    for _ in 0..20 {
        let growth = attack.memory().saturating_sub(before);
        assert!(growth < GROWTH_MAX, "the switch grew by {} MiB", growth >> 20);
        works(&vsctl, OTHER, &["add-flow", "br0", "priority=1,actions=drop"]);
        works(&vsctl, 0, &["health"]);
    }
}

#[test]
fn a_transaction_that_is_never_committed_leaves_room_for_others() {
    let attack = Attack::new();
    let vsctl = attack.switch.open_to_all();
    let client = attack.connect();
    let (response, mut stream) = attack.call(&client, "vswitch.v1.PipelineService/Write");
    let text = "x".repeat(1 << 20);
    let updates = (0..12).map(|tag| v1::Update {
        tag,
        update: Some(v1::update::Update::Line(v1::LineUpdate {
            kind: v1::LineKind::AddFlow.into(),
            line: text.clone(),
        })),
    });
    let message =
        framed(&v1::WriteRequest { bridge: "br0".to_owned(), updates: updates.collect(), ..Default::default() });
    // Each takes some 100 MB; all of them more than there is.
    for _ in 0..25 {
        if stream.send_data(message.clone(), false).is_err() {
            break; // it has been refused
        }
    }
    let response = attack.runtime.block_on(async { tokio::time::timeout(LIMIT, response).await });
    let response = response.expect("in time").expect("an answer");
    let status = response.headers().get("grpc-status").map(|status| status.to_str().expect("text").to_owned());
    assert_eq!(status.as_deref(), Some("8"), "RESOURCE_EXHAUSTED: {response:?}");
    // Less than that stays, and nobody ends it.
    let (_open, mut stream) = attack.call(&client, "vswitch.v1.PipelineService/Write");
    for _ in 0..17 {
        stream.send_data(message.clone(), false).expect("a connection");
    }
    for uid in [OTHER, 0] {
        works(&vsctl, uid, &["add-flow", "br0", "priority=1,actions=drop"]);
    }
}

#[test]
fn costly_calls_of_one_user_do_not_keep_another_waiting() {
    let attack = Attack::new();
    let vsctl = attack.switch.open_to_all();
    let line = "priority=1,tcp,nw_src=10.0.0.0/8,nw_dst=10.1.0.0/16,tp_dst=80,actions=ct(commit,zone=5),output:1";
    let lines = (0..65_536).map(|tag| v1::Line { text: line.to_owned(), tag });
    let request = framed(&v1::NormalizeFlowsRequest { lines: lines.collect(), ..Default::default() });
    let clients: Vec<_> = (0..16).map(|_| attack.connect()).collect();
    let mut calls: Vec<_> = clients
        .iter()
        .map(|client| {
            let (response, mut stream) = attack.call(client, "vswitch.v1.PipelineService/NormalizeFlows");
            stream.send_data(request.clone(), true).expect("a connection");
            attack.runtime.spawn(async { response.await.map(|response| response.status()) })
        })
        .collect();
    for uid in [OTHER, 0] {
        works(&vsctl, uid, &["list-br"]);
    }
    let left = calls.iter().filter(|call| !call.is_finished()).count();
    assert!(left > 8, "{left} of 16 calls go on: others did not wait for them");
    for call in &mut calls {
        let status = attack.runtime.block_on(call).expect("no panic").expect("an answer");
        assert_eq!(status, 200);
    }
}
