//! What the agent writes to the API server: Events, the Node's condition, the Lease.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use vswitch_agent::feedback::{Feedback, News, Refusal, TAINT};
use vswitch_agent::lease::Lease;
use vswitch_agent::source::cluster::{ObjectRef, connect};
use vswitch_testapi::{Answer, Options, Server};

/// How long a state is waited for at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and a client for the agent of a Node.
async fn scene() -> (Server, kube::Client) {
    let server = Server::start(Options::default()).expect("a server");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("kubeconfig");
    server.kubeconfig(&file).expect("a kubeconfig");
    let client = connect(Some(&file)).await.expect("a client");
    for (kind, name) in [("Namespace", "default"), ("Namespace", "a")] {
        server.apply(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})).expect("applied");
    }
    (server, client)
}

fn policy(name: &str) -> ObjectRef {
    ObjectRef {
        api_version: "networking.k8s.io/v1".to_owned(),
        kind: "NetworkPolicy".to_owned(),
        namespace: "a".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
    }
}

fn news(names: &[&str], is_ready: bool) -> News {
    let refusal = Refusal { reason: "Invalid".to_owned(), note: "spec.ingress[0]: what is that?".to_owned() };
    let refusals: BTreeMap<_, _> = names.iter().map(|name| (policy(name), BTreeSet::from([refusal.clone()]))).collect();
    News { refusals, is_ready }
}

fn events(server: &Server) -> Vec<(String, Value)> {
    let events = server.list("v1", "Event");
    let about = |event: &Value| event["involvedObject"]["name"].as_str().unwrap_or_default().to_owned();
    let mut found: Vec<_> = events.iter().map(|event| (about(event), event["count"].clone())).collect();
    found.sort_by(|one, two| one.0.cmp(&two.0));
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_all_nodes_share_the_event_of_a_refusal() {
    let (server, client) = scene().await;
    let [first, second] = ["n1", "n2"].map(|node| Feedback::start(client.clone(), node));
    first.tell(news(&["p"], false));
    assert!(server.until(|server| !events(server).is_empty()).await);
    // The second agent finds the first one's Event, and writes one about what it alone refuses.
    second.tell(news(&["p", "q"], false));
    assert!(server.until(|server| events(server).len() == 2).await);
    assert_eq!(events(&server), [("p".to_owned(), json!(1)), ("q".to_owned(), json!(1))]);
    let event = &server.list("v1", "Event")[0];
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("Invalid")));
    assert_eq!(
        (&event["metadata"]["namespace"], &event["source"]["component"]),
        (&json!("a"), &json!("vswitch-agent"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_was_away_hears_of_refusals_later() {
    let (server, client) = scene().await;
    server.hurt().away();
    let feedback = Feedback::start(client, "n1");
    feedback.tell(news(&["p"], false));
    server.hurt().back();
    assert!(server.until(|server| events(server).len() == 1).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_takes_no_events_holds_up_no_other_one() {
    let (server, client) = scene().await;
    let (verb, resource) = ("create".to_owned(), "events".to_owned());
    server.hurt().answer(Answer { times: 3, code: 403, retry_after: None, verb, resource });
    let feedback = Feedback::start(client, "n1");
    feedback.tell(news(&["p", "q", "r", "s", "t"], false));
    assert!(server.until(|server| events(server).len() == 2).await);
    assert_eq!(events(&server), [("s".to_owned(), json!(1)), ("t".to_owned(), json!(1))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_a_network_when_its_switch_forwards_and_keeps_foreign_taints() {
    let (server, client) = scene().await;
    let taints = json!([{"key": TAINT, "effect": "NoSchedule"}, {"key": "other", "effect": "NoExecute"}]);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": taints}});
    server.apply(node).expect("applied");
    let feedback = Feedback::start(client, "n1");
    feedback.tell(news(&["p"], false));
    assert!(server.until(|server| !events(server).is_empty()).await);
    let node = || server.get("v1", "Node", "", "n1").expect("a Node");
    assert_eq!(node()["spec"]["taints"], taints, "nothing forwards yet");
    feedback.tell(news(&["p"], true));
    let condition = |node: &Value| node.pointer("/status/conditions/0").cloned().unwrap_or_default();
    let has_network =
        |server: &Server| condition(&server.get("v1", "Node", "", "n1").unwrap_or_default())["status"] == "False";
    assert!(server.until(has_network).await);
    assert_eq!(condition(&node())["type"], "NetworkUnavailable");
    assert_eq!(node()["spec"]["taints"], json!([{"key": "other", "effect": "NoExecute"}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_agent_holds_the_lease_and_another_takes_it_when_the_holder_is_gone() {
    let (_server, client) = scene().await;
    let short = (Duration::from_millis(400), Duration::from_millis(50));
    let [mut first, mut second] = ["n1", "n2"].map(|node| Lease::new(client.clone(), node).lasting(short));
    first.follow().await.expect("followed");
    let begin = Instant::now();
    while !second.is_held() {
        assert!(begin.elapsed() < PATIENCE, "nobody holds it");
        second.follow().await.expect("followed");
        assert!(!(first.is_held() && second.is_held()), "both hold it");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.follow().await.expect("followed");
    assert!(!first.is_held(), "it is the other one's by now");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_agents_that_take_a_lease_at_once_one_gets_it() {
    let (_server, client) = scene().await;
    let [mut first, mut second] = ["n1", "n2"].map(|node| Lease::new(client.clone(), node));
    let (one, two) = tokio::join!(first.follow(), second.follow());
    one.expect("followed");
    two.expect("followed");
    assert!(first.is_held() != second.is_held());
}
