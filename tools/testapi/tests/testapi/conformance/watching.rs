//! Watches.

use serde_json::{Value, json};
use vswitch_testapi::WatchLines;

use super::on::{On, map};

/// Type, name and version of the next event that is no bookmark.
async fn next(watch: &mut WatchLines) -> (String, String, u64) {
    loop {
        let event = watch.next().await.unwrap().unwrap();
        let meta = &event["object"]["metadata"];
        let kind = event["type"].as_str().unwrap().to_owned();
        assert_ne!(kind, "ERROR", "{event}");
        if kind != "BOOKMARK" {
            let version = meta["resourceVersion"].as_str().unwrap().parse().unwrap();
            return (kind, meta["name"].as_str().unwrap().to_owned(), version);
        }
    }
}

fn is(event: &(String, String, u64), kind: &str, name: &str) {
    assert_eq!((event.0.as_str(), event.1.as_str()), (kind, name));
}

pub(crate) async fn changes(on: &On) {
    let maps = format!("{}/configmaps", on.namespace("changes").await);
    let mine = format!("{maps}?labelSelector=w");
    let labels = || json!({ "w": "1" });
    on.is(&on.post(&maps, &map("old", labels())).await, 201, "");
    let from = on.get(&mine).await.version();
    let mut watch = on.watch(&format!("{mine}&watch=true&resourceVersion={from}&allowWatchBookmarks=true")).await;
    on.is(&on.post(&maps, &map("a", labels())).await, 201, "");
    on.is(&on.merge(&format!("{maps}/a"), &json!({ "data": { "b": "2" } })).await, 200, "");
    on.is(&on.merge(&format!("{maps}/a"), &json!({ "data": { "b": "2" } })).await, 200, "");
    on.is(&on.delete(&format!("{maps}/a")).await, 200, "");
    on.is(&on.post(&maps, &map("b", labels())).await, 201, "");
    let mut last = from.parse().unwrap();
    for (kind, name) in [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b")] {
        let event = next(&mut watch).await;
        is(&event, kind, name);
        assert!(event.2 > last, "{} > {last}", event.2);
        last = event.2;
    }
    // The version of a list is one that a watch goes on from.
    let mut watch = on.watch(&format!("{mine}&watch=true&resourceVersion={from}")).await;
    is(&next(&mut watch).await, "ADDED", "a");
    for start in ["", "&resourceVersion=0"] {
        let mut watch = on.watch(&format!("{mine}&watch=true{start}")).await;
        let mut first = [next(&mut watch).await.1, next(&mut watch).await.1];
        first.sort();
        assert_eq!(first, ["b", "old"], "a watch from any version begins with what there is");
    }
    let mut watch = on.watch(&format!("{mine}&watch=true&resourceVersion={last}&timeoutSeconds=1")).await;
    while let Some(event) = watch.next().await.unwrap() {
        assert_eq!(event["type"], "BOOKMARK");
    }
}

pub(crate) async fn selectors(on: &On) {
    let maps = format!("{}/configmaps", on.namespace("watch-selectors").await);
    let from = on.get(&maps).await.version();
    let mut watch = on.watch(&format!("{maps}?watch=1&labelSelector=in&resourceVersion={from}")).await;
    let mut one = on.watch(&format!("{maps}?watch=1&fieldSelector=metadata.name%3Db&resourceVersion={from}")).await;
    on.is(&on.post(&maps, &map("a", json!({}))).await, 201, "");
    let label = |value: Value| json!({ "metadata": { "labels": { "in": value } } });
    let path = format!("{maps}/a");
    on.is(&on.merge(&path, &label(json!("1"))).await, 200, "");
    on.is(&on.merge(&path, &label(json!("2"))).await, 200, "");
    let left = on.merge(&path, &label(Value::Null)).await;
    on.is(&on.merge(&path, &json!({ "data": { "c": "3" } })).await, 200, "");
    on.is(&on.post(&maps, &map("b", json!({ "in": "1" }))).await, 201, "");
    for (kind, name) in [("ADDED", "a"), ("MODIFIED", "a")] {
        is(&next(&mut watch).await, kind, name);
    }
    let gone = next(&mut watch).await;
    is(&gone, "DELETED", "a");
    assert_eq!(gone.2.to_string(), left.version(), "leaving the selection has the version of the change");
    is(&next(&mut watch).await, "ADDED", "b");
    is(&next(&mut one).await, "ADDED", "b");
}

pub(crate) async fn versions(on: &On) {
    let path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=1";
    let mut watch = on.watch(path).await;
    if on.server.is_real() {
        // Its history reaches back to the first version: nothing is too old yet.
        return;
    }
    let event = watch.next().await.unwrap().unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(event["object"]["reason"], "Expired");
    assert_eq!(watch.next().await.unwrap(), None);
}
