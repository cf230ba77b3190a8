//! The server in a process: objects, log, hurting.

use serde_json::{Value, json};
use vswitch_testapi::{Answer, AnyServer, Cut, Options, Server, WatchLines};

fn pod(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name } })
}

async fn event(watch: &mut WatchLines) -> (String, Value) {
    let event = watch.next().await.unwrap().unwrap();
    (event["type"].as_str().unwrap().to_owned(), event["object"].clone())
}

fn fake(server: &AnyServer) -> &Server {
    match server {
        AnyServer::Fake(server) => server,
        AnyServer::Real(_) => panic!("it is not real"),
    }
}

const PODS: &str = "/api/v1/pods";

#[tokio::test]
async fn watches_are_cut_expired_paused_and_bookmarked() {
    let any = AnyServer::Fake(Server::start(Options::default()).unwrap());
    let (server, client) = (fake(&any), any.client(None).await.unwrap());
    let hurt = server.hurt();
    let path = format!("{PODS}?watch=1&allowWatchBookmarks=true");

    let mut watch = any.watch(&client, &path).await.unwrap();
    server.apply(pod("a")).unwrap();
    assert_eq!(event(&mut watch).await.0, "ADDED");
    hurt.skip_versions(7);
    hurt.bookmark();
    let (kind, object) = event(&mut watch).await;
    let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert_eq!(kind, "BOOKMARK");
    let list = any.call(&client, "GET", PODS, "", &Value::Null).await.unwrap();
    assert_eq!(list.version(), version.to_string());

    hurt.pause_watches();
    server.apply(pod("b")).unwrap();
    hurt.bookmark();
    hurt.resume_watches();
    // The bookmark comes behind what was kept back.
    assert_eq!(event(&mut watch).await.1["metadata"]["name"], "b");

    hurt.cut_watches(Cut::MidLine);
    assert!(
        loop {
            match watch.next().await {
                Ok(Some(event)) => assert_eq!(event["type"], "BOOKMARK"),
                ended => break ended,
            }
        }
        .is_err()
    );
    assert!(server.until(|server| server.watches().is_empty()).await);

    let mut watch = any.watch(&client, &format!("{path}&resourceVersion={version}")).await.unwrap();
    assert_eq!(event(&mut watch).await.1["metadata"]["name"], "b");
    hurt.cut_watches(Cut::Expired);
    let (kind, status) = event(&mut watch).await;
    assert_eq!(
        (kind.as_str(), status["code"].as_u64(), status["reason"].as_str()),
        ("ERROR", Some(410), Some("Expired"))
    );
    assert_eq!(watch.next().await.unwrap(), None);

    hurt.expire_watches(1, true);
    assert!(any.watch(&client, &path).await.unwrap_err().starts_with("410"));
    let mut watch = any.watch(&client, &path).await.unwrap();
    assert_eq!(event(&mut watch).await.1["metadata"]["name"], "a");
    hurt.compact();
    let mut watch = any.watch(&client, &format!("{path}&resourceVersion={version}")).await.unwrap();
    assert_eq!(event(&mut watch).await.0, "ERROR");
}

#[tokio::test]
async fn answers_are_wrong_as_often_as_asked() {
    let any = AnyServer::Fake(Server::start(Options::default()).unwrap());
    let (server, client) = (fake(&any), any.client(None).await.unwrap());
    let hurt = server.hurt();
    hurt.too_many(2, 3);
    for code in [429, 429, 200] {
        let reply = any.call(&client, "GET", PODS, "", &Value::Null).await.unwrap();
        assert_eq!(reply.code, code);
        assert_eq!(reply.body["details"]["retryAfterSeconds"] == 3, code == 429);
    }
    let (verb, resource) = ("list".to_owned(), "nodes".to_owned());
    hurt.answer(Answer { times: 1, code: 503, retry_after: None, verb, resource });
    assert_eq!(any.call(&client, "GET", PODS, "", &Value::Null).await.unwrap().code, 200);
    assert_eq!(any.call(&client, "GET", "/api/v1/nodes", "", &Value::Null).await.unwrap().code, 503);
    hurt.refuse("list", "pods");
    assert_eq!(any.call(&client, "GET", PODS, "", &Value::Null).await.unwrap().code, 403);
    let log: Vec<(String, u16)> =
        server.requests().into_iter().map(|one| (format!("{} {}", one.verb, one.resource), one.status)).collect();
    let codes: Vec<u16> = log.iter().map(|(_, code)| *code).collect();
    assert_eq!(codes, [429, 429, 200, 200, 503, 403]);
    assert_eq!(log[4].0, "list nodes");
}

#[tokio::test]
async fn lists_wait_at_a_gate_and_leave_out_what_is_held_back() {
    let any = AnyServer::Fake(Server::start(Options::default()).unwrap());
    let (server, client) = (fake(&any), any.client(None).await.unwrap());
    let hurt = server.hurt();
    for name in ["a", "b"] {
        server.apply(pod(name)).unwrap();
    }
    hurt.hold_back("pods", "default", "a");
    hurt.hold_lists("pods");
    let asked = any.call(&client, "GET", PODS, "", &Value::Null);
    tokio::pin!(asked);
    let nodes = any.call(&client, "GET", "/api/v1/nodes", "", &Value::Null);
    tokio::select! {
        _ = &mut asked => panic!("the gate is closed"),
        reply = nodes => assert_eq!(reply.unwrap().code, 200),
    }
    let held = server.until(|_| hurt.lists_held("pods") == 1);
    tokio::select! {
        _ = &mut asked => panic!("the gate is closed"),
        held = held => assert!(held),
    }
    hurt.release_lists("pods");
    let items = asked.await.unwrap().body["items"].as_array().unwrap().len();
    assert_eq!(items, 1);
    hurt.give_back("pods", "default", "a");
    let reply = any.call(&client, "GET", PODS, "", &Value::Null).await.unwrap();
    assert_eq!(reply.body["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn away_refuses_and_a_restart_keeps_objects() {
    let any = AnyServer::Fake(Server::start(Options::default()).unwrap());
    let (server, client) = (fake(&any), any.client(None).await.unwrap());
    let version = server.apply(pod("a")).unwrap()["metadata"]["resourceVersion"].clone();
    let path = format!("{PODS}?watch=1&resourceVersion={}", version.as_str().unwrap());
    let mut watch = any.watch(&client, &path).await.unwrap();
    for _ in 0..20 {
        server.hurt().away();
        assert!(any.call(&client, "GET", PODS, "", &Value::Null).await.is_err());
        server.hurt().back();
    }
    assert!(watch.next().await.is_err());
    assert_eq!(any.call(&client, "GET", PODS, "", &Value::Null).await.unwrap().code, 200);
    server.hurt().restart();
    let mut watch = loop {
        // A connection of the client's pool may have been cut.
        if let Ok(watch) = any.watch(&client, &path).await {
            break watch;
        }
    };
    assert_eq!(event(&mut watch).await.1["code"], 410);
    assert!(server.get("v1", "Pod", "default", "a").is_some());
}

#[tokio::test]
async fn another_process_hurts_by_the_endpoint() {
    let any = AnyServer::Fake(Server::start(Options::default()).unwrap());
    let client = any.client(None).await.unwrap();
    let hurt = |order: Value| {
        let (any, client) = (&any, &client);
        async move { any.call(client, "POST", "/testapi/hurt", "application/json", &order).await.unwrap().code }
    };
    assert_eq!(hurt(json!({ "hide": { "resource": "pods" } })).await, 200);
    assert_eq!(hurt(json!({ "none": {} })).await, 400);
    let core = any.call(&client, "GET", "/api/v1", "", &Value::Null).await.unwrap();
    assert!(core.text.contains("\"nodes\"") && !core.text.contains("\"pods\""), "{}", core.text);
    let log = any.call(&client, "GET", "/testapi/requests", "", &Value::Null).await.unwrap();
    assert_eq!(log.body[0]["resource"], "/api/v1");
}

#[tokio::test]
async fn initial_events_are_refused_or_served() {
    for streaming_lists in [false, true] {
        let any = AnyServer::Fake(Server::start(Options { streaming_lists, ..Options::default() }).unwrap());
        let client = any.client(None).await.unwrap();
        fake(&any).apply(pod("a")).unwrap();
        let more = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let watch = any.watch(&client, &format!("{PODS}?watch=1&{more}")).await;
        if streaming_lists {
            let mut watch = watch.unwrap();
            assert_eq!(event(&mut watch).await.0, "ADDED");
            let (kind, object) = event(&mut watch).await;
            assert_eq!(
                (kind.as_str(), &object["metadata"]["annotations"]["k8s.io/initial-events-end"]),
                ("BOOKMARK", &json!("true"))
            );
        } else {
            assert!(watch.unwrap_err().starts_with("422"));
        }
    }
}

#[tokio::test]
async fn many_watches_see_what_a_list_sees() {
    let any = AnyServer::Fake(Server::start(Options { history: 40, ..Options::default() }).unwrap());
    let (server, client) = (fake(&any), any.client(None).await.unwrap());
    let list = any.call(&client, "GET", PODS, "", &Value::Null).await.unwrap();
    let path = format!("{PODS}?watch=1&resourceVersion={}", list.version());
    let mut watches = Vec::new();
    for _ in 0..8 {
        watches.push(any.watch(&client, &path).await.unwrap());
    }
    assert!(server.until(|server| server.watches() == ["pods"; 8]).await);
    // No more changes than the history holds: no watch may miss one, however slowly it is read.
    for i in 0..20_u32 {
        server.apply(pod(&format!("p{}", i * 7 % 5))).unwrap();
        if i % 3 == 0 {
            server.delete("v1", "Pod", "default", &format!("p{}", i * 7 % 5)).unwrap();
        }
    }
    server.apply(pod("last")).unwrap();
    let there: Vec<String> =
        server.list("v1", "Pod").iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    for watch in &mut watches {
        let mut seen = std::collections::BTreeSet::new();
        while !seen.contains("last") {
            let (kind, object) = event(watch).await;
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            match kind.as_str() {
                "ADDED" => assert!(seen.insert(name)),
                "MODIFIED" => assert!(seen.contains(&name)),
                _ => assert!(seen.remove(&name)),
            }
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), there);
    }
    drop(watches);
    assert!(server.until(|server| server.watches().is_empty()).await);
}

#[test]
fn the_test_itself_applies_and_deletes() {
    let server = Server::start(Options::default()).unwrap();
    let mut one = pod("a");
    one["status"] = json!({ "phase": "Running", "podIP": "10.0.0.1" });
    let first = server.apply(one).unwrap();
    let mut two = pod("a");
    two["metadata"]["labels"] = json!({ "app": "web" });
    let second = server.apply(two).unwrap();
    assert_eq!((&second["status"], &second["metadata"]["uid"]), (&first["status"], &first["metadata"]["uid"]));
    assert_eq!(server.apply(second.clone()).unwrap(), second, "nothing changed");
    let space = |labels: Value| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "n", "labels": labels } });
    for labels in [json!({ "a": "1" }), json!({})] {
        let made = server.apply(space(labels)).unwrap();
        assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
        assert_eq!(made["status"]["phase"], "Active");
    }
    let missing = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x", "namespace": "none" } });
    assert_eq!(server.apply(missing).unwrap_err().code, 404);
    assert_eq!(server.apply(json!({ "apiVersion": "x/v1", "kind": "X" })).unwrap_err().code, 404);
    for wrong in
        [json!({ "metadata": { "name": "w", "labels": "x" } }), json!({ "metadata": { "name": "w" }, "spec": 1 })]
    {
        for (api_version, kind) in [("v1", "Namespace"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")] {
            let mut object = wrong.clone();
            (object["apiVersion"], object["kind"]) = (json!(api_version), json!(kind));
            assert_eq!(server.apply(object).unwrap_err().code, 400);
        }
    }
    let mut crd = json!({ "metadata": { "name": "w" }, "spec": { "names": "x", "versions": 1 } });
    (crd["apiVersion"], crd["kind"]) = (json!("apiextensions.k8s.io/v1"), json!("CustomResourceDefinition"));
    assert_eq!(server.apply(crd).unwrap_err().code, 422);
    let mut inside = pod("inside");
    inside["metadata"]["namespace"] = json!("n");
    server.apply(inside).unwrap();
    server.delete("v1", "Namespace", "", "n").unwrap();
    assert!(server.get("v1", "Pod", "n", "inside").is_none());
    assert_eq!(server.delete("v1", "Namespace", "", "n").unwrap_err().code, 404);
    assert_eq!(server.list("v1", "Pod").len(), 1);
}
