//! Names in rules, and the answers that wait for them.
#![allow(clippy::cast_possible_truncation)] // lengths of messages that are made here

use super::{Running, node, object, pod, round};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use vswitch_control::SwitchApi;
use vswitch_dataplane::pipeline::{Continuation, PacketIn};
use vswitch_flow::action::Reason;
use vswitch_flow::spec::FlowFilter;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::network_policy_service_client::NetworkPolicyServiceClient;
use vswitch_proto::antrea::v1::object::Object;

const CONTROLLER: u16 = 62375;

/// web may speak to `*.example.com`, and to nobody else.
pub(super) fn objects() -> Vec<v1::Object> {
    let rule = |id: &str, action: v1::RuleAction, fqdns: &[&str]| v1::Rule {
        id: id.to_owned(),
        direction: v1::Direction::Egress.into(),
        action: action.into(),
        peer: Some(v1::RulePeer { fqdns: fqdns.iter().map(|&name| name.to_owned()).collect(), ..Default::default() }),
        ..Default::default()
    };
    let policy = v1::NetworkPolicy {
        name: "acnp:names".to_owned(),
        kind: v1::PolicyKind::AntreaCluster.into(),
        tier: 250,
        priority: 5.0,
        applied_to: vec!["web".to_owned()],
        rules: vec![rule("names", v1::RuleAction::Allow, &["*.example.com"]), rule("rest", v1::RuleAction::Drop, &[])],
        ..Default::default()
    };
    let group = v1::AppliedToGroup { name: "web".to_owned(), pods: vec!["default/web".to_owned()], services: vec![] };
    let other = |object| v1::Object { object: Some(object) };
    vec![object(pod("web", 24)), other(Object::AppliedToGroup(group)), other(Object::NetworkPolicy(policy))]
}

/// A datagram with an answer: `name` has 192.0.2.`last`.
pub(super) fn answer(name: &str, last: u8, ttl: u32) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    let mut message = vec![0, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    message.extend(labels.chain([0, 0, 1, 0, 1, 0xc0, 12, 0, 1, 0, 1]));
    message.extend(ttl.to_be_bytes());
    message.extend([0, 4, 192, 0, 2, last]);
    let udp = [&[0, 53, 0x30, 0x39][..], &((message.len() + 8) as u16).to_be_bytes(), &[0, 0], &message].concat();
    let total = ((udp.len() + 20) as u16).to_be_bytes();
    let head = [&[0; 12][..], &[8, 0, 0x45, 0], &total, &[0, 0, 0, 0, 64, 17, 0, 0, 10, 96, 0, 10, 10, 10, 0, 24]];
    [head.concat(), udp].concat()
}

pub(super) fn paused(token: u8, packet: Vec<u8>) -> PacketIn {
    PacketIn {
        table: 100,
        cookie: 1,
        reason: Reason::NoMatch,
        controller: CONTROLLER,
        userdata: [2].into(),
        metadata: FlowKey::default(),
        packet,
        received: None,
        continuation: Some(Arc::new(Continuation::default())),
        token: vec![token],
    }
}

impl Running {
    /// With the rule in force; `wait_ms`: how long answers wait at most.
    pub(super) async fn with_names(wait_ms: u32) -> (Self, mpsc::Sender<PacketIn>) {
        let running = Self::with_node().await;
        let fqdn = Some(v1::FqdnConfig { wait_ms_max: wait_ms, ..Default::default() });
        running.initialize(v1::NodeConfig { fqdn, ..node() }).await.expect("a Node");
        let synced = running.sync(round(1), objects()).await.expect("a sync");
        assert!(synced.gate_open, "{synced:?}");
        let feeds: Vec<_> =
            running.switch.packet_ins.lock().iter().filter(|feed| feed.0 == CONTROLLER).cloned().collect();
        let [(_, sender, _)] = feeds.as_slice() else { panic!("{} subscriptions", feeds.len()) };
        (running, sender.clone())
    }

    /// Last numbers of addresses that rules lead to.
    fn led_to(&self) -> Vec<u8> {
        let flows = self.switch.flows("br-int", &FlowFilter::default()).expect("flows");
        let to = flows.iter().map(|info| info.flow.matching.get(Field::NwDst)).filter(|(_, mask)| *mask == 0xffff_ffff);
        let mut last: Vec<u8> = to.filter(|(ip, _)| ip >> 8 == 0xc0_0002).map(|(ip, _)| (ip & 0xff) as u8).collect();
        last.sort_unstable();
        last
    }

    /// Tokens of packets that went on.
    fn resumed(&self) -> Vec<String> {
        self.switch.calls.lock().iter().filter_map(|call| call.strip_prefix("resume ").map(str::to_owned)).collect()
    }

    pub(super) async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{what}: not within 60 s; {:?}", self.resumed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn names(&self) -> v1::NameState {
        self.state().await.names.expect("names")
    }

    async fn fqdns(&self, pattern: &str) -> Vec<v1::Fqdn> {
        let mut client = NetworkPolicyServiceClient::new(self.channel.clone());
        let request = v1::ListFqdnsRequest { pattern: pattern.to_owned() };
        let mut parts = client.list_fqdns(request).await.expect("names").into_inner();
        let mut fqdns = Vec::new();
        while let Some(part) = parts.message().await.expect("a part") {
            fqdns.extend(part.fqdns);
        }
        fqdns
    }
}

#[tokio::test]
async fn an_answer_goes_on_when_the_rules_have_what_it_says() {
    let (running, answers) = Running::with_names(0).await;
    answers.send(paused(1, answer("www.example.com", 1, 300))).await.expect("room");
    running.until("it goes on", |running| running.resumed().len() == 1).await;
    assert_eq!(running.led_to(), [1]);
    let writes = running.switch.writes.load(Relaxed);
    // Nothing new, nobody's name, no DNS, a copy.
    answers.send(paused(2, answer("www.EXAMPLE.com", 1, 300))).await.expect("room");
    answers.send(paused(3, answer("www.example.org", 9, 300))).await.expect("room");
    answers.send(paused(4, vec![7; 60])).await.expect("room");
    answers.send(PacketIn { token: vec![], ..paused(0, answer("copy.example.com", 9, 300)) }).await.expect("room");
    running.until("they go on", |running| running.resumed().len() == 4).await;
    assert_eq!((running.led_to(), running.switch.writes.load(Relaxed)), (vec![1], writes), "nothing was written");
    let fqdns = running.fqdns("*.example.com").await;
    assert_eq!((fqdns.len(), &*fqdns[0].name, &*fqdns[0].rules[0].rule), (1, "www.example.com", "names"));
    assert_eq!(fqdns[0].addresses[0].address, "192.0.2.1");
    assert!((290_000..=300_000).contains(&fqdns[0].addresses[0].expires_in_ms), "{fqdns:?}");
    assert!(running.fqdns("*.example.org").await.is_empty());
    let names = running.names().await;
    assert_eq!(
        (names.names, names.addresses, names.answers, names.answers_waited, names.answers_unread),
        (1, 1, 4, 1, 1)
    );
    // An address of a second.
    answers.send(paused(5, answer("short.example.com", 2, 1))).await.expect("room");
    running.until("it goes on", |running| running.resumed().len() == 5).await;
    assert_eq!(running.led_to(), [1, 2]);
    running.until("it is over", |running| running.led_to() == [1]).await;
    // The rule goes, and with it what was known.
    let without = objects().into_iter().take(2).collect();
    running.sync(round(2), without).await.expect("a sync");
    running.until("names are gone", |running| running.led_to().is_empty()).await;
    assert!(running.fqdns("").await.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn answers_that_wait_share_a_transaction_and_do_not_wait_for_ever() {
    let (running, answers) = Running::with_names(1500).await;
    running.switch.write_ms.store(250, Relaxed);
    let writes = running.switch.writes.load(Relaxed);
    for (token, last) in [(1, 1), (2, 2), (3, 3), (4, 1)] {
        answers.send(paused(token, answer(&format!("n{last}.example.com"), last, 300))).await.expect("room");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.until("all go on", |running| running.resumed().len() == 4).await;
    assert_eq!(running.led_to(), [1, 2, 3]);
    assert!(running.switch.writes.load(Relaxed) - writes <= 2, "one for the first, one for those that came meanwhile");
    // Now they are late.
    running.switch.write_ms.store(2200, Relaxed);
    answers.send(paused(5, answer("late.example.com", 4, 300))).await.expect("room");
    running.until("it is written", |running| running.led_to() == [1, 2, 3, 4]).await;
    running.switch.write_ms.store(0, Relaxed);
    answers.send(paused(6, answer("late.example.com", 4, 300))).await.expect("room");
    running.until("asked again", |running| running.resumed().len() == 5).await;
    assert!(!running.resumed().iter().any(|call| call.starts_with("[5]")), "{:?}", running.resumed());
    assert_eq!(running.names().await.answers_dropped, 1);
    running.stop().await;
}

#[tokio::test]
async fn an_agent_that_takes_answers_over_gets_them_alone() {
    let running = Running::with_node().await;
    let taken_over = vec![v1::PacketCategory::Dns.into()];
    running.initialize(v1::NodeConfig { taken_over, ..node() }).await.expect("a Node");
    let synced = running.sync(round(1), objects()).await.expect("a sync");
    assert!(synced.result.is_some_and(|result| result.statuses.is_empty()), "the rule is as good as any other");
    assert!(running.switch.packet_ins.lock().is_empty(), "nobody else answers");
    // Not any more.
    running.initialize(node()).await.expect("a Node");
    assert_eq!(running.switch.packet_ins.lock().len(), 1);
    running.stop().await;
}

/// An answer with these addresses of 192.0.2.0/24.
fn long_answer(name: &str, last: std::ops::Range<u8>) -> Vec<u8> {
    let frame = answer(name, 0, 300);
    let mut message = frame[42..frame.len() - 16].to_vec();
    message[7] = last.len() as u8;
    for last in last {
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, last]);
    }
    message
}

/// Packets with parts of a datagram (17), or of a stream (6), each with these bytes of it.
fn parts(protocol: u8, bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let ends = [&[0], cuts, &[bytes.len()]].concat();
    let part = |pair: &[usize]| {
        let (from, data) = (pair[0] as u16, &bytes[pair[0]..pair[1]]);
        let more = u16::from(pair[1] < bytes.len()) << 13;
        let word = if protocol == 17 { (from / 8) | more } else { 0 };
        let tcp =
            [&[0, 53, 0x30, 0x39, 0, 0][..], &from.to_be_bytes(), &[0, 0, 0, 0, 0x50, 16, 1, 0, 0, 0, 0, 0]].concat();
        let payload = if protocol == 17 { data.to_vec() } else { [tcp.as_slice(), data].concat() };
        let total = ((payload.len() + 20) as u16).to_be_bytes();
        let head = [
            &[0; 12][..],
            &[8, 0, 0x45, 0],
            &total,
            &[0, 9],
            &word.to_be_bytes(),
            &[64, protocol, 0, 0, 10, 96, 0, 10, 10, 10, 0, 24],
        ];
        [head.concat(), payload].concat()
    };
    ends.windows(2).map(part).collect()
}

#[tokio::test]
async fn an_answer_in_fragments_goes_on_with_all_its_addresses() {
    let (running, answers) = Running::with_names(0).await;
    let message = long_answer("www.example.com", 1..101);
    let udp = [&[0, 53, 0x30, 0x39][..], &((message.len() + 8) as u16).to_be_bytes(), &[0, 0], &message].concat();
    let fragments = parts(17, &udp, &[800]);
    running.switch.write_ms.store(100, Relaxed);
    answers.send(paused(1, fragments[0].clone())).await.expect("room");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(running.resumed().is_empty(), "the first one waits");
    answers.send(paused(2, fragments[1].clone())).await.expect("room");
    running.until("both go on", |running| running.resumed().len() == 2).await;
    assert_eq!(running.led_to(), (1..101).collect::<Vec<u8>>());
    // One of which the other part never comes.
    answers.send(paused(3, fragments[0].clone())).await.expect("room");
    let begin = Instant::now();
    while running.names().await.answers_dropped == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "it is given up");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(running.resumed().len(), 2);
    running.stop().await;
}

#[tokio::test]
async fn an_answer_in_segments_ends_with_the_rules_that_have_it() {
    let (running, answers) = Running::with_names(0).await;
    let message = long_answer("www.example.com", 1..101);
    let stream = [&(message.len() as u16).to_be_bytes()[..], &message].concat();
    let segments = parts(6, &stream, &[2, 700]);
    running.switch.write_ms.store(300, Relaxed);
    for (token, segment) in (1..).zip(&segments) {
        answers.send(paused(token, segment.clone())).await.expect("room");
    }
    running.until("the first two go on", |running| running.resumed().len() == 2).await;
    assert!(running.led_to().is_empty(), "they say nothing");
    // The last one again, while it waits.
    answers.send(paused(4, segments[2].clone())).await.expect("room");
    running.until("the last one goes on, twice", |running| running.resumed().len() == 4).await;
    assert_eq!(running.led_to(), (1..101).collect::<Vec<u8>>());
    running.stop().await;
}
