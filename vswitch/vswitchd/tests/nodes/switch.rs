//! The switch: told by gRPC, fed by hand.

use crate::common::{Switch, client_runtime};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
use vswitch_proto::antrea::v1::sync_service_client::SyncServiceClient;
use vswitch_proto::v1::dummy_service_client::DummyServiceClient;
use vswitch_proto::v1::{ReceiveRequest, ReceiveResponse};

/// The Node's bridge.
pub(crate) const BRIDGE: &str = "br-int";
/// Its ports.
pub(crate) const PORTS: [&str; 12] =
    ["gw", "tun", "up", "a", "b", "d", "l7-out", "l7-in", "tc-out", "tc-in", "probe", "e"];

/// A running switch.
#[derive(Debug)]
pub(crate) struct Told {
    // Before the switch: clients go first.
    channel: Channel,
    packets: mpsc::Sender<ReceiveRequest>,
    sent: Streaming<ReceiveResponse>,
    runtime: Runtime,
    round: u64,
    // Dropping it ends it.
    _daemon: Switch,
}

impl Told {
    /// Starts it, with its bridge and nothing else. Its clock stands.
    pub(crate) fn start() -> Self {
        let mut config = "[worker]\nidle_sleep_us = 200\n\n[conntrack]\nconnections = 65536\n\n".to_owned();
        config += &format!("[[bridge]]\nname = {BRIDGE:?}\nfail_mode = \"secure\"\n\n");
        for (name, number) in PORTS.iter().zip(1..) {
            config += &format!("[[bridge.port]]\nname = {name:?}\nnumber = {number}\ntype = \"dummy\"\n\n");
        }
        let daemon = Switch::start_with(&config, &["--enable-dummy"]);
        let runtime = client_runtime();
        let socket = format!("unix://{}", daemon.socket().display());
        let (channel, packets, sent) = runtime.block_on(async {
            let channel = Endpoint::from_shared(socket).expect("an address").connect().await.expect("vswitchd listens");
            let mut dummy = DummyServiceClient::new(channel.clone());
            let (packets, requests) = mpsc::channel(1);
            let sent = dummy.receive(ReceiverStream::new(requests)).await.expect("a stream of packets").into_inner();
            (channel, packets, sent)
        });
        Self { channel, packets, sent, runtime, round: 0, _daemon: daemon }
    }

    /// Hands in a frame; what left because of it.
    pub(crate) fn receive(&mut self, port: &str, packet: Vec<u8>) -> Vec<(String, Vec<u8>)> {
        let request = ReceiveRequest { port: port.to_owned(), packet };
        let answer = self.runtime.block_on(async {
            self.packets.send(request).await.expect("a packet can be handed in");
            self.sent.message().await.expect("a packet is processed").expect("no end")
        });
        answer.sent.into_iter().map(|sent| (sent.port, sent.packet)).collect()
    }

    /// It becomes this Node, with these objects and nothing of before.
    ///
    /// # Panics
    /// When it refuses anything.
    pub(crate) fn become_node(&mut self, node: v1::NodeConfig, objects: Vec<v1::object::Object>) {
        let round = self.round + 1;
        self.round += 3;
        let mut nodes = NodeServiceClient::new(self.channel.clone());
        let shown = format!("{node:?}");
        self.runtime.block_on(async {
            nodes.reset(v1::ResetRequest { round }).await.expect("it forgets");
            let request = v1::InitializeRequest { node: Some(node), round: round + 1 };
            nodes.initialize(request).await.unwrap_or_else(|status| panic!("{shown}: {status}"));
            let objects: Vec<v1::Object> =
                objects.into_iter().map(|object| v1::Object { object: Some(object) }).collect();
            let begin = v1::SyncBegin { round: round + 2, ..v1::SyncBegin::default() };
            let commit = v1::SyncCommit { objects: objects.len() as u64 };
            let message = v1::SyncRequest { begin: Some(begin), objects, commit: Some(commit) };
            let mut sync = SyncServiceClient::new(self.channel.clone());
            let synced = sync.sync(tokio_stream::iter([message])).await.expect("a sync").into_inner();
            assert!(synced.gate_open, "{shown}: {synced:?}");
        });
    }

    /// Objects that are new, or others than before.
    ///
    /// # Panics
    /// When it refuses any.
    pub(crate) fn apply(&mut self, objects: Vec<v1::object::Object>) {
        let objects = objects.into_iter().map(|object| v1::Object { object: Some(object) }).collect();
        let request = v1::ApplyObjectsRequest { objects, ..v1::ApplyObjectsRequest::default() };
        let mut sync = SyncServiceClient::new(self.channel.clone());
        let answer = self.runtime.block_on(sync.apply_objects(request)).expect("an answer").into_inner();
        let result = answer.result.unwrap_or_default();
        assert!(result.applied, "{result:?}");
    }
}
