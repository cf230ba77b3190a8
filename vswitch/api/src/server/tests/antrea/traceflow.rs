//! Traceflows through a real socket: what is told, what is refused, and that nothing is left.

use super::{Running, node, object, pod, round, soon};
use tonic::{Code, Status, Streaming};
use vswitch_antrea::Table;
use vswitch_antrea::traceflow::CONTROLLER;
use vswitch_dataplane::pipeline::PacketIn;
use vswitch_flow::action::Reason;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::run_traceflow_response::Update;
use vswitch_proto::antrea::v1::traceflow_end::End;
use vswitch_proto::antrea::v1::traceflow_service_client::TraceflowServiceClient;

fn end(end: End) -> Option<v1::TraceflowEnd> {
    Some(v1::TraceflowEnd { end: Some(end) })
}

fn asked(name: &str) -> v1::Traceflow {
    let to = |name: &str| end(End::Pod(format!("default/{name}")));
    v1::Traceflow { name: name.to_owned(), source: to("web"), destination: to("db"), ..Default::default() }
}

fn live(name: &str) -> v1::Traceflow {
    v1::Traceflow { live: true, ..asked(name) }
}

impl Running {
    async fn with_pods() -> Self {
        let running = Self::with_node().await;
        running.initialize(node()).await.expect("a Node");
        running.sync(round(1), vec![object(pod("web", 24)), object(pod("db", 25))]).await.expect("a sync");
        running
    }

    async fn trace(&self, asked: v1::Traceflow) -> Result<Streaming<v1::RunTraceflowResponse>, Status> {
        let mut client = TraceflowServiceClient::new(self.channel.clone());
        let request = v1::RunTraceflowRequest { traceflow: Some(asked) };
        Ok(soon("a Traceflow", client.run_traceflow(request)).await?.into_inner())
    }

    /// Tags of those that run.
    async fn tags(&self) -> Vec<u32> {
        let mut client = TraceflowServiceClient::new(self.channel.clone());
        let listed = client.list_traceflows(v1::ListTraceflowsRequest {}).await.expect("a list").into_inner();
        listed.traceflows.iter().map(|traceflow| traceflow.tag).collect()
    }

    /// The controller of Traceflows gets a packet of this tag, which leaves by a port.
    fn told(&self, tag: u128, port: u128) {
        let mut metadata = FlowKey::default();
        for (field, value) in
            [(Field::Metadata, tag), (Field::InPort, 3), (Field::Reg0, 0x20_0000), (Field::Reg1, port)]
        {
            metadata.set(field, value);
        }
        let packet = PacketIn {
            table: Table::Output.number(),
            cookie: 0,
            reason: Reason::NoMatch,
            controller: CONTROLLER,
            userdata: [0].into(),
            metadata,
            packet: vec![2; 60],
            received: None,
            continuation: None,
            token: Vec::new(),
        };
        let subscribers = self.switch.packet_ins.lock();
        let (_, sender, _) = subscribers.iter().rev().find(|(of, ..)| *of == CONTROLLER).expect("a subscriber");
        sender.try_send(packet).expect("room");
    }

    /// Until nothing runs, and the flows are as many as before.
    async fn until_none_is_left(&self, flows: u64) {
        let none = async {
            while !self.tags().await.is_empty() || self.flow_count().await != flows {
                tokio::task::yield_now().await;
            }
        };
        soon("the end of it", none).await;
    }
}

async fn next(stream: &mut Streaming<v1::RunTraceflowResponse>) -> Option<Update> {
    soon("a message", stream.message()).await.expect("no error").map(|message| message.update.expect("an update"))
}

#[tokio::test]
async fn a_packet_is_sent_and_what_it_tells_is_told() {
    let running = Running::with_pods().await;
    let flows = running.flow_count().await;
    let mut stream = running.trace(asked("t")).await.expect("a stream");
    assert_eq!(next(&mut stream).await, Some(Update::Started(v1::TraceflowStarted { tag: 1 })));
    assert!(matches!(next(&mut stream).await, Some(Update::Packet(packet)) if packet.len() == 42), "an ICMP echo");
    assert_eq!(running.tags().await, [1]);
    assert!(running.flow_count().await > flows);
    running.told(1, 4);
    let mut told = Vec::new();
    while let Some(Update::Observation(observation)) = next(&mut stream).await {
        told.push((observation.component(), observation.action(), observation.pod));
    }
    use v1::{TraceflowAction as Action, TraceflowComponent as Component};
    let want = [
        (Component::SpoofGuard, Action::Forwarded, "default/web".to_owned()),
        (Component::Forwarding, Action::Delivered, "default/db".to_owned()),
    ];
    assert_eq!(told, want, "and then its end");
    assert_eq!(next(&mut stream).await, None);
    running.until_none_is_left(flows).await;
    let calls = running.switch.calls.lock().clone();
    assert!(calls.iter().any(|call| call.starts_with("packet-out ")), "{calls:?}");
    running.stop().await;
}

#[tokio::test]
async fn several_run_at_once_and_each_gets_its_own() {
    let running = Running::with_pods().await;
    let flows = running.flow_count().await;
    let mut one = running.trace(live("one")).await.expect("a stream");
    // One that asks for the same packets is refused.
    let status = running.trace(live("two")).await.expect_err("both would mark them");
    assert!(status.message().contains("CONFLICT: Traceflow one wants"), "{status}");
    let back = live("two");
    let back = v1::Traceflow { source: back.destination, destination: back.source, ..back };
    let mut two = running.trace(back).await.expect("a stream");
    assert_eq!(next(&mut one).await, Some(Update::Started(v1::TraceflowStarted { tag: 1 })));
    assert_eq!(next(&mut two).await, Some(Update::Started(v1::TraceflowStarted { tag: 2 })));
    running.told(2, 4);
    assert!(matches!(next(&mut two).await, Some(Update::Observation(_))));
    while let Some(update) = next(&mut two).await {
        if let Update::Finished(finished) = update {
            assert!(!finished.timed_out);
        }
    }
    assert_eq!(running.tags().await, [1], "the other one waits still");
    drop(one);
    running.until_none_is_left(flows).await;
    running.stop().await;
}

#[tokio::test]
async fn time_and_resets_end_it() {
    let running = Running::with_pods().await;
    let flows = running.flow_count().await;
    let mut stream = running.trace(v1::Traceflow { timeout_seconds: 1, ..live("t") }).await.expect("a stream");
    assert!(matches!(next(&mut stream).await, Some(Update::Started(_))));
    let finished = Some(Update::Finished(v1::TraceflowFinished { timed_out: true }));
    assert_eq!(next(&mut stream).await, finished);
    running.until_none_is_left(flows).await;
    let mut stream = running.trace(live("t")).await.expect("a stream");
    assert!(matches!(next(&mut stream).await, Some(Update::Started(_))));
    let mut client = v1::node_service_client::NodeServiceClient::new(running.channel.clone());
    client.reset(v1::ResetRequest { round: 0 }).await.expect("a reset");
    let status = soon("its end", stream.message()).await.expect_err("the Node is gone");
    assert_eq!(status.code(), Code::Aborted, "{status}");
    assert_eq!(running.flow_count().await, 0);
    running.stop().await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_reasons() {
    let running = Running::with_node().await;
    let code =
        |result: Result<_, Status>| result.map(|_: Streaming<v1::RunTraceflowResponse>| ()).expect_err("refused");
    assert_eq!(code(running.trace(asked("t")).await).code(), Code::FailedPrecondition, "there is no Node");
    running.initialize(node()).await.expect("a Node");
    let status = code(running.trace(asked("t")).await);
    assert!(status.code() == Code::FailedPrecondition && status.message().contains("gate"), "{status}");
    running.sync(round(1), vec![object(pod("web", 24)), object(pod("db", 25))]).await.expect("a sync");
    let flows = running.flow_count().await;
    let nobody = v1::Traceflow { source: end(End::Pod("default/nobody".to_owned())), ..asked("t") };
    let status = code(running.trace(nobody.clone()).await);
    assert_eq!(status.code(), Code::NotFound, "{status}");
    assert!(status.message().contains("traceflow.source.pod: REFERENCE"), "{status}");
    let status = code(running.trace(v1::Traceflow { tag: 64, ..nobody }).await);
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("traceflow.tag: RANGE: 64"), "{status}");
    let mut stream = running.trace(v1::Traceflow { tag: 5, ..live("t") }).await.expect("a stream");
    assert!(matches!(next(&mut stream).await, Some(Update::Started(_))));
    for again in [v1::Traceflow { tag: 5, ..live("other") }, v1::Traceflow { tag: 6, ..live("t") }] {
        assert_eq!(code(running.trace(again).await).code(), Code::AlreadyExists);
    }
    drop(stream);
    running.until_none_is_left(flows).await;
    let mut client = TraceflowServiceClient::new(running.channel.clone());
    let nothing = client.run_traceflow(v1::RunTraceflowRequest::default()).await.expect_err("nothing is asked for");
    assert_eq!(nothing.code(), Code::InvalidArgument);
    running.stop().await;
}
