//! Events about what no write did.

use super::super::Running;
use super::multicast::{joins, multicast_node, worker};
use super::names::{answer, paused};
use super::telling::{Events, event, started};
use super::{internal, node, object, pod, round};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::EventKind;
use vswitch_proto::antrea::v1::watch_events_response::Event;

/// The next so many, names and memberships before objects.
async fn next(events: &mut Events, count: usize) -> Vec<Event> {
    let mut told = Vec::new();
    for _ in 0..count {
        told.push(event(events).await);
    }
    told.sort_by_key(|event| matches!(event, Event::ObjectChanged(_)));
    told
}

fn changed(event: &Event) -> (String, v1::ObjectOutcome, Vec<String>) {
    let Event::ObjectChanged(v1::ObjectChanged { status: Some(status) }) = event else { panic!("{event:?}") };
    let name = status.object.clone().unwrap_or_default().name;
    (name, status.outcome(), status.problems.iter().map(|problem| problem.code.clone()).collect())
}

#[tokio::test]
async fn names_that_are_learned_are_told_and_the_policies_that_they_change() {
    let (running, answers) = Running::with_names(0).await;
    let mut events = running.events(&[EventKind::FqdnLearned, EventKind::ObjectChanged]).await;
    started(&mut events).await;
    let learned = |last: u8, ttl_seconds| {
        Event::FqdnLearned(v1::FqdnLearned {
            name: "www.example.com".to_owned(),
            addresses: vec![format!("192.0.2.{last}")],
            ttl_seconds,
            pod: "default/web".to_owned(),
        })
    };
    answers.send(paused(1, answer("www.example.com", 1, 300))).await.expect("room");
    let told = next(&mut events, 2).await;
    assert_eq!(told[0], learned(1, 300));
    assert_eq!(changed(&told[1]), ("acnp:names".to_owned(), v1::ObjectOutcome::Applied, vec![]));
    // A name that no rule means, and what is not new: the rules stay as they are.
    answers.send(paused(2, answer("www.example.org", 9, 300))).await.expect("room");
    answers.send(paused(3, answer("www.example.com", 1, 0))).await.expect("room");
    assert_eq!(event(&mut events).await, learned(1, 1), "of 0 seconds one is left to connect");
    answers.send(paused(4, answer("www.example.com", 2, 60))).await.expect("room");
    let told = next(&mut events, 2).await;
    assert_eq!((&told[0], changed(&told[1]).0), (&learned(2, 60), "acnp:names".to_owned()));
    running.stop().await;
}

#[tokio::test]
async fn who_comes_to_a_group_and_who_leaves_is_told() {
    let running = Running::with_node().await;
    running.initialize(multicast_node()).await.expect("a Node with multicast");
    let peer = worker();
    running.sync(round(1), vec![object(pod("web", 24)), object(pod("db", 25)), peer.clone()]).await.expect("a sync");
    let mut events = running.events(&[EventKind::MembershipChanged]).await;
    started(&mut events).await;
    let moved = |pod: &str, node: &str, joined| {
        let (group, pod, node) = ("239.1.1.1".to_owned(), pod.to_owned(), node.to_owned());
        Event::MembershipChanged(v1::MembershipChanged { group, pod, node, joined })
    };
    let reader = running.reader().await;
    reader.send(joins(3, [0; 4], [239, 1, 1, 1])).await.expect("room");
    assert_eq!(event(&mut events).await, moved("default/web", "", true));
    // Once more is no change.
    reader.send(joins(3, [0; 4], [239, 1, 1, 1])).await.expect("room");
    reader.send(joins(2, [192, 168, 77, 103], [239, 1, 1, 1])).await.expect("room");
    assert_eq!(event(&mut events).await, moved("", "worker-1", true));
    running.sync(round(2), vec![object(pod("db", 25)), peer]).await.expect("a sync");
    assert_eq!(event(&mut events).await, moved("default/web", "", false));
    running.initialize(node()).await.expect("a Node without multicast");
    assert_eq!(event(&mut events).await, moved("", "worker-1", false));
    running.stop().await;
}

#[tokio::test]
async fn a_link_that_is_lost_is_told_of_whoever_has_the_port() {
    let running = Running::with_node().await;
    running.initialize(node()).await.expect("a Node");
    running.sync(round(1), vec![object(pod("web", 24))]).await.expect("a sync");
    running.add_port("br-int", internal("spare")).await.expect("a new port");
    let mut events = running.events(&[EventKind::ObjectChanged]).await;
    started(&mut events).await;
    // Ports of nobody tell nothing. Links that change at once may be told at once: each is waited
    // for.
    running.switch.link("br-int", "spare", false);
    running.switch.link("br-int", "db", false);
    running.switch.link("br-int", "web", false);
    let (down, up) = (v1::ObjectOutcome::Degraded, v1::ObjectOutcome::Applied);
    let port = |count| vec!["PORT".to_owned(); count];
    assert_eq!(changed(&event(&mut events).await), ("default/web".to_owned(), down, port(1)));
    running.switch.link("br-int", "web", true);
    assert_eq!(changed(&event(&mut events).await), ("default/web".to_owned(), up, vec![]));
    // One port of the Node comes back while another one is down still.
    for (port_name, is_up, outcome, problems) in
        [("gw0", false, down, 1), ("tun0", false, down, 2), ("tun0", true, down, 1), ("gw0", true, up, 0)]
    {
        running.switch.link("br-int", port_name, is_up);
        let told = changed(&event(&mut events).await);
        assert_eq!((told.1, told.2), (outcome, port(problems)), "{port_name} {is_up}");
    }
    running.stop().await;
}
