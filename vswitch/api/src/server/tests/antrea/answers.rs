//! Packets that the agent answers: handed over, answered, lost.

use super::super::{Running, soon};
use super::names::{answer, paused};
use super::telling::{Events, event, started};
use super::{node, object, pod, round};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tonic::{Code, Status};
use vswitch_dataplane::pipeline::{PacketIn, Received};
use vswitch_flow::action::Reason;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::event_service_client::EventServiceClient;
use vswitch_proto::antrea::v1::watch_events_response::Event;
use vswitch_proto::antrea::v1::{EventKind, PacketCategory, PacketVerdict};

pub(super) const DNS: u16 = 62375;
const POLICY: u16 = 62373;
const SERVICE: u16 = 62377;
const IGMP: u16 = 62376;

/// A Node whose agent answers these. A DNS answer waits longer than a test takes.
pub(super) fn taking_over(categories: &[PacketCategory]) -> v1::NodeConfig {
    taking_over_for(5000, categories)
}

/// DNS answers wait for so many milliseconds.
fn taking_over_for(wait_ms_max: u32, categories: &[PacketCategory]) -> v1::NodeConfig {
    let taken_over = categories.iter().map(|category| (*category).into()).collect();
    v1::NodeConfig { taken_over, fqdn: Some(v1::FqdnConfig { wait_ms_max, ..Default::default() }), ..node() }
}

impl Running {
    async fn with_agent(categories: &[PacketCategory]) -> Self {
        let running = Self::with_node().await;
        running.initialize(taking_over(categories)).await.expect("a Node");
        running.sync(round(1), vec![object(pod("web", 24)), object(pod("db", 25))]).await.expect("a sync");
        running
    }

    /// Controllers that somebody reads packets of.
    pub(super) fn controllers(&self) -> Vec<u16> {
        let packet_ins = self.switch.packet_ins.lock();
        packet_ins.iter().filter(|(_, queue, _)| !queue.is_closed()).map(|(controller, ..)| *controller).collect()
    }

    pub(super) fn give(&self, packet_in: &PacketIn) {
        for (controller, queue, _) in self.switch.packet_ins.lock().iter() {
            if *controller == packet_in.controller {
                let _ = queue.try_send(packet_in.clone()); // full or gone: as in a switch
            }
        }
    }

    async fn says(&self, token: &[u8], verdict: PacketVerdict) -> Result<(), Status> {
        let mut client = EventServiceClient::new(self.channel.clone());
        let request = v1::AnswerPacketRequest { token: token.to_vec(), verdict: verdict.into() };
        soon("an answer", client.answer_packet(request)).await.map(|_| ())
    }

    /// What was sent out or went on.
    fn done(&self) -> Vec<String> {
        let calls = self.switch.calls.lock();
        let is_done = |call: &&String| call.starts_with("resume ") || call.starts_with("packet-out ");
        calls.iter().filter(is_done).cloned().collect()
    }
}

pub(super) async fn to_answer(events: &mut Events) -> v1::PacketToAnswer {
    match event(events).await {
        Event::PacketToAnswer(packet) => packet,
        other => panic!("{other:?}"),
    }
}

/// UDP from 10.10.0.24, by port 3, to port 80 of an address that was translated on its way.
fn refused(controller: u16, userdata: &[u8], reg0: u128) -> PacketIn {
    let packet = |last: u8| {
        let mut packet = vec![2, 0, 0, 0, 0, 25, 2, 0, 0, 0, 0, 24, 8, 0];
        packet.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 10, 0, 24, 10, 10, 0, last]);
        packet.extend([3, 232, 0, 80, 0, 8, 0, 0]);
        packet
    };
    let mut metadata = FlowKey::default();
    for (field, value) in [(Field::InPort, 3), (Field::Reg0, reg0), (Field::Reg3, 7)] {
        metadata.set(field, value);
    }
    let before = packet(99);
    PacketIn {
        table: vswitch_antrea::Table::Output.number(),
        cookie: 0,
        reason: Reason::NoMatch,
        controller,
        userdata: userdata.into(),
        metadata,
        packet: packet(25),
        received: Some(Received { len: before.len(), front: before.into() }),
        continuation: None,
        token: Vec::new(),
    }
}

/// reg0 of a packet that a rule denied and refuses (operation 2).
const BY_RULE: u128 = 2 << 25 | 2 << 11 | 0x400;

#[tokio::test]
async fn a_dns_answer_goes_on_when_the_agent_says_so_and_once() {
    let running = Running::with_agent(&[PacketCategory::Dns]).await;
    assert!(running.controllers().is_empty(), "nobody watches");
    let mut all = running.events(&[]).await;
    started(&mut all).await;
    let mut events = running.events(&[EventKind::PacketToAnswer]).await;
    let mut other = running.events(&[EventKind::PacketToAnswer]).await;
    started(&mut events).await;
    started(&mut other).await;
    assert_eq!(running.controllers().iter().filter(|controller| **controller == DNS).count(), 1, "once for all");
    // A copy of somebody else's flow is no packet of ours.
    running.give(&PacketIn { token: Vec::new(), ..paused(9, answer("www.example.com", 1, 300)) });
    running.give(&paused(1, answer("www.example.com", 1, 300)));
    let told = to_answer(&mut events).await;
    assert_eq!((told.category(), told.expires_in_ms, told.table.as_str()), (PacketCategory::Dns, 5000, "L3DecTTL"));
    assert_eq!((&told.packet, told.rule, told.received.len()), (&answer("www.example.com", 1, 300), None, 0));
    assert_eq!(to_answer(&mut other).await.token, told.token, "all who watch are told");
    for (verdict, code) in
        [(PacketVerdict::Reject, Code::InvalidArgument), (PacketVerdict::Unspecified, Code::InvalidArgument)]
    {
        let status = running.says(&told.token, verdict).await.expect_err("not of DNS");
        assert_eq!(status.code(), code, "{status}");
    }
    running.says(&told.token, PacketVerdict::Resume).await.expect("it waits still");
    assert_eq!(running.done(), ["resume [1] []"]);
    for token in [&told.token[..], &[0; 8], &[], &[1]] {
        let status = running.says(token, PacketVerdict::Resume).await.expect_err("no such packet");
        assert_eq!(status.code(), Code::NotFound, "{status}");
    }
    running.give(&paused(2, answer("www.example.com", 1, 300)));
    running.says(&to_answer(&mut events).await.token, PacketVerdict::Drop).await.expect("it waits");
    // One waits too long.
    running.initialize(taking_over_for(100, &[PacketCategory::Dns])).await.expect("a Node");
    running.give(&paused(3, answer("www.example.com", 1, 300)));
    let late = to_answer(&mut events).await;
    assert_eq!(late.expires_in_ms, 100);
    tokio::time::sleep(Duration::from_millis(150)).await;
    let status = running.says(&late.token, PacketVerdict::Resume).await.expect_err("too late");
    assert_eq!((status.code(), running.done().len()), (Code::NotFound, 1), "{status}");
    // Who asks for no kind is handed no packets.
    running.sync(round(2), Vec::new()).await.expect("a sync");
    let told = Event::RoundCommitted(v1::RoundCommitted { round: 2, gate_open: true });
    assert_eq!(event(&mut all).await, told);
    running.stop().await;
}

#[tokio::test]
async fn what_is_refused_is_answered_as_it_came_in() {
    let running = Running::with_agent(&[PacketCategory::PolicyReject, PacketCategory::ServiceReject]).await;
    let mut events = running.events(&[EventKind::PacketToAnswer]).await;
    started(&mut events).await;
    // Logged and recorded only: nobody has to answer it.
    running.give(&refused(POLICY, &[1, 5], 5 << 25 | 1 << 11));
    let cases = [(POLICY, &[1, 2][..], BY_RULE, 10), (SERVICE, &[4], 0x4003, 3)];
    for (at, (controller, userdata, reg0, code)) in cases.into_iter().enumerate() {
        running.give(&refused(controller, userdata, reg0));
        let told = to_answer(&mut events).await;
        assert_eq!((told.in_port, told.in_port_name.as_str(), told.table.as_str()), (3, "web", "Output"));
        assert_eq!(told.rule.map(|rule| rule.number), (controller == POLICY).then_some(7), "a rule that went");
        assert_eq!((told.packet[33], told.received[33]), (25, 99), "as it is, and as it came in");
        assert!(told.metadata.iter().any(|value| value.field == "reg3"), "{:?}", told.metadata);
        let status = running.says(&told.token, PacketVerdict::Resume).await.expect_err("it has gone");
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        running.says(&told.token, PacketVerdict::Reject).await.expect("it waits");
        let done = running.done();
        assert_eq!(done.len(), at + 1, "{done:?}");
        // ICMP, unreachable, from the address that the sender has named, to the sender.
        let ends = "10, 10, 0, 99, 10, 10, 0, 24, ";
        assert!(done[at].contains(&format!("{ends}3, {code}, ")) && done[at].contains("Output"), "{}", done[at]);
    }
    // One from a tunnel goes back to where it came from; of one that nobody knows as it came in
    // there is no answer.
    running.give(&refused(POLICY, &[1, 2], BY_RULE | 1));
    running.says(&to_answer(&mut events).await.token, PacketVerdict::Reject).await.expect("it waits");
    assert!(running.done()[2].contains("Move"), "{:?}", running.done());
    running.give(&PacketIn { received: None, ..refused(POLICY, &[1, 2], BY_RULE) });
    running.says(&to_answer(&mut events).await.token, PacketVerdict::Reject).await.expect("it waits");
    assert_eq!(running.done().len(), 3);
    running.stop().await;
}

#[tokio::test]
async fn who_goes_takes_nothing_from_others() {
    let running = Running::with_agent(&[PacketCategory::Igmp, PacketCategory::Dns]).await;
    let mut one = running.events(&[EventKind::PacketToAnswer]).await;
    let mut other = running.events(&[EventKind::PacketToAnswer]).await;
    started(&mut one).await;
    started(&mut other).await;
    running.give(&PacketIn { controller: IGMP, userdata: [3].into(), ..refused(IGMP, &[3], 0) });
    let told = to_answer(&mut one).await;
    assert_eq!((told.category(), told.received.len()), (PacketCategory::Igmp, 0), "only of what is refused");
    drop(one);
    assert_eq!(to_answer(&mut other).await.token, told.token);
    running.says(&told.token, PacketVerdict::Drop).await.expect("it waits, whoever was told");
    running.give(&paused(1, answer("www.example.com", 1, 300)));
    let told = to_answer(&mut other).await;
    running.says(&told.token, PacketVerdict::Resume).await.expect("it waits");
    // Lost ones are told as such.
    running.switch.packet_ins.lock().iter().filter(|feed| feed.0 == DNS).for_each(|(.., lost)| lost.store(7, Relaxed));
    let Event::Lost(lost) = event(&mut other).await else { panic!("another event") };
    assert_eq!((lost.kind(), lost.behind, lost.limited), (EventKind::PacketToAnswer, 0, 7));
    // The agent takes nothing over any more: the switch reads by itself.
    running.initialize(node()).await.expect("a Node");
    let own_reader = async {
        while running.controllers() != [DNS] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("only the switch's own reader is left", own_reader).await;
    running.initialize(taking_over(&[PacketCategory::Igmp])).await.expect("a Node");
    assert!(running.controllers().contains(&IGMP));
    drop(other);
    let nobody = async {
        while running.controllers().contains(&IGMP) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("nobody reads", nobody).await;
    running.stop().await;
}

#[tokio::test]
async fn what_waits_is_forgotten_with_who_watches_and_with_the_node() {
    use v1::node_service_client::NodeServiceClient;
    let running = Running::with_agent(&[PacketCategory::ServiceReject, PacketCategory::Igmp]).await;
    for goes in ["who watches", "the Node"] {
        let mut events = running.events(&[EventKind::PacketToAnswer]).await;
        started(&mut events).await;
        running.give(&refused(SERVICE, &[4], 0x4003));
        let told = to_answer(&mut events).await;
        assert!(
            running.says(&told.token, PacketVerdict::Resume).await.is_err_and(|it| it.code() == Code::InvalidArgument)
        );
        if goes == "the Node" {
            let mut client = NodeServiceClient::new(running.channel.clone());
            client.reset(v1::ResetRequest { round: 0 }).await.expect("a reset");
        } else {
            drop(events);
            running.until("nobody reads", |running| running.controllers() == [DNS]).await;
        }
        let status = running.says(&told.token, PacketVerdict::Reject).await.expect_err("it is forgotten");
        assert_eq!(status.code(), Code::NotFound, "{goes}: {status}");
    }
    assert!(running.done().is_empty(), "nothing was answered: {:?}", running.done());
    running.stop().await;
}

#[tokio::test]
async fn a_reader_that_found_no_place_is_there_when_the_node_is_said_again() {
    let running = Running::with_node().await;
    let mut events = running.events(&[EventKind::PacketToAnswer]).await;
    started(&mut events).await;
    running.switch.refuses_readers.store(true, Relaxed);
    running.initialize(taking_over(&[PacketCategory::Dns])).await.expect("a Node, though nobody reads");
    assert_eq!(running.controllers(), [0_u16; 0]);
    // Who asks for nothing of packets needs no place.
    let mut rounds = running.events(&[EventKind::RoundCommitted, EventKind::ObjectChanged]).await;
    started(&mut rounds).await;
    for kind in [EventKind::PolicyLog, EventKind::PacketToAnswer] {
        let mut client = EventServiceClient::new(running.channel.clone());
        let request = v1::WatchEventsRequest { kinds: vec![kind.into()] };
        let status = client.watch_events(request).await.expect_err("no place");
        assert_eq!(status.code(), Code::ResourceExhausted, "{kind:?}: {status}");
    }
    running.switch.refuses_readers.store(false, Relaxed);
    assert!(running.initialize(taking_over(&[PacketCategory::Dns])).await.expect("a Node").unchanged);
    running.give(&paused(1, answer("www.example.com", 1, 300)));
    assert_eq!(to_answer(&mut events).await.category(), PacketCategory::Dns);
    running.stop().await;
}

/// With rules about names; answers for them are read by the switch.
async fn with_names_and_a_watcher() -> (Running, Events) {
    let (running, _) = Running::with_names(0).await;
    let mut events = running.events(&[EventKind::PacketToAnswer]).await;
    started(&mut events).await;
    assert_eq!(running.controllers(), [DNS]);
    (running, events)
}

#[tokio::test]
async fn answers_are_read_all_the_while_that_an_agent_takes_them_over() {
    let (running, mut events) = with_names_and_a_watcher().await;
    running.switch.write_ms.store(300, Relaxed);
    for node in [taking_over(&[PacketCategory::Dns]), node()] {
        let is_read = async {
            loop {
                assert!(running.controllers().contains(&DNS), "an answer that comes now is lost");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = is_read => {}
            done = running.initialize(node) => assert!(!done.expect("a Node").unchanged),
        }
        assert!(running.controllers().contains(&DNS));
    }
    running.switch.write_ms.store(0, Relaxed);
    running.initialize(taking_over(&[PacketCategory::Dns])).await.expect("a Node");
    running.give(&paused(1, answer("www.example.com", 1, 300)));
    assert_eq!(to_answer(&mut events).await.category(), PacketCategory::Dns);
    running.stop().await;
}

#[tokio::test]
async fn answers_are_read_as_before_if_the_bridge_refuses_who_takes_them_over() {
    let (running, _events) = with_names_and_a_watcher().await;
    running.switch.refuses_writes.store(true, Relaxed);
    running.initialize(taking_over(&[PacketCategory::Dns])).await.expect_err("the bridge refuses");
    running.switch.refuses_writes.store(false, Relaxed);
    let only_ours = async {
        while running.controllers() != [DNS] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the switch's own reader is left", only_ours).await;
    running.give(&paused(1, answer("www.example.com", 1, 300)));
    running.until("it goes on", |running| running.done() == ["resume [1] []"]).await;
    running.stop().await;
}
