//! Events and records, from packet-ins and connections that the tests hand in.

use super::super::{Running, SHUTDOWN_GRACE, soon};
use super::{node, object, pod, round};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tonic::{Code, Streaming};
use vswitch_dataplane::pipeline::PacketIn;
use vswitch_flow::action::Reason;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::event_service_client::EventServiceClient;
use vswitch_proto::antrea::v1::flow_record_service_client::FlowRecordServiceClient;
use vswitch_proto::antrea::v1::watch_events_response::Event;
use vswitch_testkit::double::connect;

pub(super) type Events = Streaming<v1::WatchEventsResponse>;
type Records = Streaming<v1::WatchFlowRecordsResponse>;

/// Controllers of policies and of Services.
const CONTROLLERS: [u16; 2] = [62373, 62377];

impl Running {
    pub(super) async fn events(&self, kinds: &[v1::EventKind]) -> Events {
        let kinds = kinds.iter().map(|kind| (*kind).into()).collect();
        let mut client = EventServiceClient::new(self.channel.clone());
        client.watch_events(v1::WatchEventsRequest { kinds }).await.expect("a stream").into_inner()
    }

    async fn records(&self, request: v1::WatchFlowRecordsRequest) -> Records {
        let mut client = FlowRecordServiceClient::new(self.channel.clone());
        client.watch_flow_records(request).await.expect("a stream").into_inner()
    }

    /// Controllers that somebody reads packets of.
    fn read(&self) -> Vec<u16> {
        let packet_ins = self.switch.packet_ins.lock();
        let open = packet_ins.iter().filter(|(_, queue, _)| !queue.is_closed()).map(|(controller, ..)| *controller);
        open.filter(|controller| CONTROLLERS.contains(controller)).collect()
    }

    /// Hands a packet to those who read a controller's.
    pub(super) fn hand_in(&self, controller: u16, metadata: &[(Field, u128)], packet: &[u8]) {
        let mut key = FlowKey::default();
        metadata.iter().for_each(|(field, value)| key.set(*field, *value));
        let packet_in = PacketIn {
            table: 148,
            cookie: 0,
            reason: Reason::NoMatch,
            controller,
            userdata: [1, 1].into(),
            metadata: key,
            packet: packet.to_vec(),
            received: None,
            continuation: None,
            token: Vec::new(),
        };
        for (of, queue, _) in self.switch.packet_ins.lock().iter() {
            if *of == controller {
                let _ = queue.try_send(packet_in.clone()); // full or gone: as in a switch
            }
        }
    }

    pub(super) fn distribute(&self) {
        self.switch.connection_events.distribute(self.switch.conntrack.tracker());
    }
}

pub(super) async fn event(events: &mut Events) -> Event {
    let message = soon("an event", events.message()).await.expect("no error").expect("a message");
    message.event.expect("an event")
}

pub(super) async fn started(events: &mut Events) -> v1::EventsStarted {
    match event(events).await {
        Event::Started(started) => started,
        other => panic!("{other:?} came first"),
    }
}

/// The next message with a record or a loss.
async fn records(stream: &mut Records) -> v1::WatchFlowRecordsResponse {
    soon("a record", stream.message()).await.expect("no error").expect("a message")
}

/// UDP from 10.10.0.24 to a port of 10.10.0.25.
fn packet(port: u8) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 25, 2, 0, 0, 0, 0, 24, 8, 0];
    packet.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 10, 0, 24, 10, 10, 0, 25]);
    packet.extend([3, 232, 0, port, 0, 8, 0, 0]);
    packet
}

/// Registers of a packet that isolation of egress denied: logged and recorded.
pub(super) fn denied() -> Vec<(Field, u128)> {
    let table = vswitch_antrea::Table::EgressDefaultRule.number();
    vec![(Field::Reg0, 5_u128 << 25 | 1 << 11 | 3), (Field::Reg2, table.into())]
}

/// A K8s policy that isolates web, and the group that it is applied to.
pub(super) fn isolation() -> Vec<v1::Object> {
    use v1::object::Object;
    let group = v1::AppliedToGroup { name: "web".to_owned(), pods: vec!["default/web".to_owned()], services: vec![] };
    let policy = v1::NetworkPolicy {
        name: "np:default/web".to_owned(),
        kind: v1::PolicyKind::K8s.into(),
        applied_to: vec!["web".to_owned()],
        isolates_egress: true,
        log_isolation: true,
        ..v1::NetworkPolicy::default()
    };
    [Object::AppliedToGroup(group), Object::NetworkPolicy(policy)]
        .map(|object| v1::Object { object: Some(object) })
        .to_vec()
}

#[tokio::test]
async fn a_log_is_told_once_with_how_often_it_was() {
    let running = Running::with_node().await;
    let mut events = running.events(&[]).await;
    let first = started(&mut events).await;
    assert!(first.switch_start_unix_ms > 0 && !first.gate_open && first.round == 0, "{first:?}");
    assert!(running.read().is_empty(), "there is no Node");
    running.initialize(node()).await.expect("a Node");
    let mut objects = vec![object(pod("web", 24)), object(pod("db", 25))];
    objects.extend(isolation());
    running.sync(round(5), objects).await.expect("a sync");
    let round = Event::RoundCommitted(v1::RoundCommitted { round: 5, gate_open: true });
    assert_eq!(event(&mut events).await, round);
    assert_eq!(running.read(), CONTROLLERS, "once, for all who watch");

    let mut other = running.events(&[v1::EventKind::PolicyLog, v1::EventKind::PolicyLog]).await;
    assert_eq!(started(&mut other).await, v1::EventsStarted { round: 5, gate_open: true, ..first });
    assert_eq!(running.read(), CONTROLLERS);
    (0..3).for_each(|_| running.hand_in(62373, &denied(), &packet(80)));
    // What is no IP packet is told by nobody.
    running.hand_in(62373, &denied(), &[0; 9]);
    for events in [&mut events, &mut other] {
        let Event::PolicyLog(log) = event(events).await else { panic!("another event") };
        assert_eq!((log.packets, log.table.as_str(), log.disposition.as_str()), (3, "EgressDefaultRule", "Drop"));
        assert_eq!((log.applied_to.as_str(), log.direction.as_str()), ("default/web", "Egress"));
        let rule = log.rule.expect("a rule");
        assert_eq!((rule.policy.as_str(), rule.rule.as_str(), rule.number), ("np:default/web", "", 0));
        assert_eq!(log.tuple.map(|tuple| (tuple.src, tuple.dst_port)), Some((vec![10, 10, 0, 24], 80)));
    }
    running.switch.packet_ins.lock().iter().for_each(|(.., lost)| lost.store(7, Relaxed));
    let Event::Lost(lost) = event(&mut other).await else { panic!("another event") };
    assert_eq!((lost.kind(), lost.behind, lost.limited), (v1::EventKind::PolicyLog, 0, 7));
    drop((events, other));
    let nobody = async {
        while !running.read().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("nobody reads packets", nobody).await;
    running.stop().await;
}

#[tokio::test]
async fn a_reset_ends_reading_and_a_node_begins_it() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    let mut events = running.events(&[v1::EventKind::ServiceRefused]).await;
    started(&mut events).await;
    assert_eq!(running.read(), CONTROLLERS);
    let mut client = v1::node_service_client::NodeServiceClient::new(running.channel.clone());
    client.reset(v1::ResetRequest { round: 0 }).await.expect("a reset");
    let nobody = async {
        while !running.read().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("nobody reads packets", nobody).await;
    running.initialize(node()).await.expect("a Node");
    assert_eq!(running.read(), CONTROLLERS);
    // It is nobody's Service; its address is told.
    running.hand_in(62377, &[], &packet(53));
    running.hand_in(62377, &[], &packet(53));
    let Event::ServiceRefused(refused) = event(&mut events).await else { panic!("another event") };
    assert_eq!((refused.service.as_str(), refused.packets), ("", 2));
    assert_eq!(refused.tuple.map(|tuple| tuple.dst), Some(vec![10, 10, 0, 25]));
    let took = running.stop().await;
    assert!(took < SHUTDOWN_GRACE, "an open stream held the server up for {took:?}");
    let status = soon("the end", events.message()).await.expect_err("a status");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused() {
    let running = Running::with_node().await;
    let mut events = EventServiceClient::new(running.channel.clone());
    for (kind, code) in [(0, Code::InvalidArgument), (8, Code::InvalidArgument)] {
        let status = events.watch_events(v1::WatchEventsRequest { kinds: vec![kind] }).await.expect_err("no such kind");
        assert_eq!(status.code(), code, "{kind}: {status}");
    }
    let answer = v1::AnswerPacketRequest { token: vec![1], verdict: v1::PacketVerdict::Drop.into() };
    assert_eq!(events.answer_packet(answer).await.expect_err("no packet").code(), Code::NotFound);
    let mut records = FlowRecordServiceClient::new(running.channel.clone());
    let watch = v1::WatchFlowRecordsRequest::default();
    let status = records.watch_flow_records(watch.clone()).await.expect_err("no Node");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    let status = records.list_flow_records(v1::ListFlowRecordsRequest::default()).await.expect_err("no Node");
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    running.initialize(node()).await.expect("a Node");
    for wrong in [
        v1::WatchFlowRecordsRequest { kinds: vec![5], ..watch.clone() },
        v1::WatchFlowRecordsRequest { kinds: vec![0], ..watch.clone() },
        v1::WatchFlowRecordsRequest { active_seconds: 86_401, ..watch },
    ] {
        let status = records.watch_flow_records(wrong.clone()).await.expect_err("wrong");
        assert_eq!(status.code(), Code::InvalidArgument, "{wrong:?}: {status}");
    }
    running.stop().await;
}

/// A Node whose Pods have the addresses of [`connect`]: 10.0.0.1 is web's.
pub(super) fn near() -> v1::NodeConfig {
    let mut near = v1::NodeConfig { pod_cidrs: vec!["10.0.0.0/24".to_owned()], record_denied: true, ..node() };
    near.gateway.as_mut().expect("a gateway").addresses = vec!["10.0.0.254".to_owned()];
    near
}

pub(super) fn web() -> v1::Object {
    object(v1::Pod { addresses: vec!["10.0.0.1".to_owned()], ..pod("web", 24) })
}

#[tokio::test]
async fn records_tell_what_was_known_when_it_ends() {
    let running = Running::with_node().await;
    running.initialize(near()).await.expect("a Node");
    running.sync(round(1), vec![web()]).await.expect("a sync");
    connect(&running.switch.conntrack, 65520, 1, 3);
    let existing = v1::WatchFlowRecordsRequest { include_existing: true, ..Default::default() };
    let mut all = running.records(existing).await;
    assert!(records(&mut all).await.started.is_some());
    let told = records(&mut all).await.records;
    assert_eq!((told.len(), told[0].kind(), told[0].source()), (1, v1::FlowRecordKind::Update, v1::FlowSource::Pod));
    let ends = v1::WatchFlowRecordsRequest { kinds: vec![v1::FlowRecordKind::End.into()], ..Default::default() };
    let mut ends = running.records(ends).await;
    assert!(records(&mut ends).await.started.is_some());

    connect(&running.switch.conntrack, 65520, 2, 0x12);
    connect(&running.switch.conntrack, 7, 3, 0); // not ours
    running.distribute();
    let new = records(&mut all).await.records.remove(0);
    assert_eq!((new.kind(), new.source()), (v1::FlowRecordKind::New, v1::FlowSource::Gateway));
    assert_eq!((new.source_pod.as_str(), new.zone), ("default/web", 65520));
    assert_eq!(new.original.clone().map(|tuple| (tuple.src_port, tuple.dst_port)), Some((2, 53)));
    assert_eq!(new.original_count, Some(vswitch_proto::v1::Count { packets: 1, bytes: 100 }));
    assert!(new.start_unix_ms > 0 && new.end_unix_ms == 0 && new.connection_id != 0, "{new:?}");
    let mut client = FlowRecordServiceClient::new(running.channel.clone());
    let mut list = async |pod: &str| {
        let request = v1::ListFlowRecordsRequest { pod: pod.to_owned(), service: String::new() };
        let mut parts = client.list_flow_records(request).await.expect("a list").into_inner();
        let mut ports = Vec::new();
        while let Some(part) = soon("a part", parts.message()).await.expect("a part") {
            ports.extend(part.records.into_iter().filter_map(|record| record.original).map(|tuple| tuple.src_port));
        }
        ports.sort_unstable();
        ports
    };
    assert_eq!((list("").await, list("default/web").await, list("default/db").await), (vec![1, 2], vec![1, 2], vec![]));

    // The Pod goes, and its connections with it.
    running.sync(round(2), Vec::new()).await.expect("a sync");
    assert_eq!(list("").await, [0_u32; 0]);
    running.distribute();
    let mut gone = records(&mut ends).await.records;
    while gone.len() < 2 {
        gone.extend(records(&mut ends).await.records);
    }
    gone.sort_by_key(|record| record.original.as_ref().map(|tuple| tuple.src_port));
    assert!(gone.iter().all(|record| record.kind() == v1::FlowRecordKind::End && record.end_unix_ms > 0), "{gone:?}");
    assert_eq!(gone[1].source_pod, "default/web", "as it was told at first");
    running.stop().await;
}

#[tokio::test]
async fn denied_connections_are_records() {
    let running = Running::with_node().await;
    running.initialize(v1::NodeConfig { record_denied: true, ..node() }).await.expect("a Node");
    let mut objects = vec![object(pod("web", 24)), object(pod("db", 25))];
    objects.extend(isolation());
    running.sync(round(1), objects).await.expect("a sync");
    let mut stream = running.records(v1::WatchFlowRecordsRequest::default()).await;
    assert!(records(&mut stream).await.started.is_some());
    (0..2).for_each(|_| running.hand_in(62373, &denied(), &packet(80)));
    // What a deny took back at once is no other record.
    connect(&running.switch.conntrack, 65520, 1, 0);
    running
        .switch
        .conntrack
        .tracker()
        .flush(&vswitch_conntrack::Filter::default(), vswitch_dataplane::time::Millis::now().0);
    running.distribute();
    let told = records(&mut stream).await.records;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].kind(), told[0].connection_id), (v1::FlowRecordKind::Denied, 0));
    assert_eq!(told[0].original_count, Some(vswitch_proto::v1::Count { packets: 2, bytes: 84 }));
    assert_eq!((told[0].source_pod.as_str(), told[0].destination_pod.as_str()), ("default/web", "default/db"));
    let verdict = told[0].egress_verdict.clone().expect("a verdict");
    assert_eq!((verdict.action.as_str(), told[0].ingress_verdict.as_ref()), ("Drop", None));
    assert_eq!(verdict.rule.map(|rule| rule.policy), Some("np:default/web".to_owned()));
    running.stop().await;
}

#[tokio::test]
async fn active_connections_are_told_again() {
    let running = Running::with_node().await;
    running.initialize(near()).await.expect("a Node");
    [1, 2].into_iter().for_each(|port| connect(&running.switch.conntrack, 65520, port, 0));
    let request = v1::WatchFlowRecordsRequest {
        kinds: vec![v1::FlowRecordKind::Update.into()],
        active_seconds: 1,
        include_existing: false,
    };
    let mut stream = running.records(request).await;
    assert!(records(&mut stream).await.started.is_some());
    tokio::time::sleep(Duration::from_millis(200)).await; // what there is has been looked at
    connect(&running.switch.conntrack, 65520, 2, 0);
    let told = records(&mut stream).await.records;
    let ports: Vec<_> = told.iter().filter_map(|record| record.original.as_ref()).map(|tuple| tuple.src_port).collect();
    assert_eq!(ports, [2]);
    assert_eq!(told[0].original_count.map(|count| count.packets), Some(2));
    running.stop().await;
}
