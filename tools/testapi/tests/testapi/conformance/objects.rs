//! Objects of kinds built in: create, get, update, patch, delete, lists.

use serde_json::{Value, json};

use super::on::{On, map, names, pod};

pub(crate) async fn create_get_delete(on: &On) {
    let maps = format!("{}/configmaps", on.namespace("create").await);
    let made = on.post(&maps, &map("a", json!({}))).await;
    on.is(&made, 201, "");
    let meta = &made.body["metadata"];
    for field in ["uid", "creationTimestamp", "resourceVersion"] {
        assert!(!meta[field].as_str().unwrap().is_empty(), "{field}");
    }
    assert_eq!((&made.body["kind"], &made.body["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(meta["namespace"], "create");
    let got = on.get(&format!("{maps}/a")).await;
    on.is(&got, 200, "");
    assert_eq!(got.version(), made.version());
    let again = on.post(&maps, &map("a", json!({}))).await;
    on.is(&again, 409, "AlreadyExists");
    assert_eq!(again.body["details"]["name"], "a");
    assert_eq!(again.body["message"], "configmaps \"a\" already exists");
    let generated = on.post(&maps, &json!({ "metadata": { "generateName": "gen-" } })).await;
    on.is(&generated, 201, "");
    let name = generated.body["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("gen-") && name.len() == 9, "{name}");
    let gone = on.delete(&format!("{maps}/a")).await;
    on.is(&gone, 200, "");
    assert_eq!((&gone.body["kind"], &gone.body["status"]), (&json!("Status"), &json!("Success")));
    let none = on.get(&format!("{maps}/a")).await;
    on.is(&none, 404, "NotFound");
    assert_eq!(none.body["message"], "configmaps \"a\" not found");
    on.is(&on.delete(&format!("{maps}/a")).await, 404, "NotFound");
    on.is(&on.put(&format!("{maps}/a"), &map("a", json!({}))).await, 404, "NotFound");
    on.is(&on.post(&format!("{maps}?dryRun=All"), &map("dry", json!({}))).await, 201, "");
    on.is(&on.get(&format!("{maps}/dry")).await, 404, "NotFound");
    on.is(&on.delete(&maps).await, 200, "");
    let left = names(&on.get(&maps).await.body);
    assert!(!left.iter().any(|name| name.starts_with("gen-")), "{left:?}");
}

pub(crate) async fn conflicts(on: &On) {
    let maps = format!("{}/configmaps", on.namespace("conflicts").await);
    let first = on.post(&maps, &map("a", json!({}))).await.body;
    let path = format!("{maps}/a");
    let mut second = first.clone();
    second["data"]["a"] = json!("2");
    let updated = on.put(&path, &second).await;
    on.is(&updated, 200, "");
    let number = |version: &Value| version.as_str().unwrap().parse::<u64>().unwrap();
    let versions = (&first["metadata"]["resourceVersion"], &updated.body["metadata"]["resourceVersion"]);
    assert!(number(versions.0) < number(versions.1));
    let stale = on.put(&path, &second).await;
    on.is(&stale, 409, "Conflict");
    on.says(&stale, "the object has been modified; please apply your changes to the latest version");
    let version = json!({ "metadata": { "resourceVersion": versions.0 }, "data": { "a": "3" } });
    on.is(&on.merge(&path, &version).await, 409, "Conflict");
    let same = on.put(&path, &updated.body).await;
    assert_eq!(same.version(), updated.version(), "nothing changed");
    let free = on.put(&path, &map("a", json!({ "l": "v" }))).await;
    on.is(&free, 200, "");
    assert_eq!(free.body["metadata"]["uid"], first["metadata"]["uid"]);
    let mut foreign = map("a", json!({}));
    foreign["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    on.is(&on.put(&path, &foreign).await, 409, "Conflict");
    let only = json!({ "preconditions": { "uid": "00000000-0000-4000-8000-000000000000" } });
    on.is(&on.send("DELETE", &path, "application/json", &only).await, 409, "Conflict");
}

pub(crate) async fn refusals(on: &On) {
    let maps = format!("{}/configmaps", on.namespace("refusals").await);
    on.is(&on.post(&maps, &map("Wrong_Name", json!({}))).await, 422, "Invalid");
    on.is(&on.post(&maps, &map("a", json!({ "l": "wrong value" }))).await, 422, "Invalid");
    on.is(&on.post(&maps, &json!({ "metadata": {} })).await, 422, "Invalid");
    let missing = on.post("/api/v1/namespaces/nowhere/configmaps", &map("a", json!({}))).await;
    on.is(&missing, 404, "NotFound");
    assert_eq!(missing.body["message"], "namespaces \"nowhere\" not found");
    let mut other = map("a", json!({}));
    other["metadata"]["namespace"] = json!("default");
    on.is(&on.post(&maps, &other).await, 400, "BadRequest");
    let mut kind = map("a", json!({}));
    (kind["kind"], kind["apiVersion"]) = (json!("Secret"), json!("v1"));
    on.is(&on.post(&maps, &kind).await, 400, "BadRequest");
    on.is(&on.post(&maps, &map("a", json!({}))).await, 201, "");
    on.is(&on.put(&format!("{maps}/a"), &map("b", json!({}))).await, 400, "BadRequest");
    let path = format!("{maps}/a");
    on.is(&on.send("PATCH", &path, "application/json", &json!({})).await, 415, "UnsupportedMediaType");
    on.is(&on.send("POST", &maps, "text/plain", &json!({})).await, 415, "UnsupportedMediaType");
    on.is(&on.send("POST", &path, "application/json", &map("a", json!({}))).await, 405, "MethodNotAllowed");
    on.is(&on.get(&format!("{maps}?fieldSelector=spec.none%3D1")).await, 400, "BadRequest");
    on.is(&on.get(&format!("{maps}?labelSelector=a%20b")).await, 400, "BadRequest");
    for path in ["/apis/none.example.com/v1/things", "/api/v1/nothings"] {
        assert_eq!(on.get(path).await.code, 404);
    }
    let ahead = on.get(&format!("{maps}?resourceVersion=999999999")).await;
    on.is(&ahead, 504, "Timeout");
    let code = on.get(&format!("{maps}?resourceVersion=x")).await.code;
    assert!(matches!(code, 400 | 500), "older servers call it their own fault: {code}");
}

pub(crate) async fn pages(on: &On) {
    let maps = format!("{}/configmaps", on.namespace("pages").await);
    for i in 0..5 {
        on.is(&on.post(&maps, &map(&format!("m{i}"), json!({ "set": "pages" }))).await, 201, "");
    }
    let mine = format!("{maps}?labelSelector=set%3Dpages&limit=2");
    let first = on.get(&mine).await;
    assert_eq!(names(&first.body), ["m0", "m1"]);
    assert_eq!(first.body["kind"], "ConfigMapList");
    assert!(first.body["items"][0].get("kind").is_none(), "items of kinds built in have no kind");
    on.is(&on.delete(&format!("{maps}/m2")).await, 200, "");
    on.is(&on.post(&maps, &map("m5", json!({ "set": "pages" }))).await, 201, "");
    let mut all = Vec::new();
    let mut token = first.body["metadata"]["continue"].as_str().unwrap().to_owned();
    while !token.is_empty() {
        let encoded: String = token.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let page = on.get(&format!("{mine}&continue={encoded}")).await;
        on.is(&page, 200, "");
        assert_eq!(page.version(), first.version());
        all.extend(names(&page.body));
        token = page.body["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(all, ["m2", "m3", "m4"], "pages are of one version");
    let rest = on.get(&format!("{maps}?limit=1")).await;
    assert!(rest.body["metadata"]["remainingItemCount"].as_u64().unwrap() >= 4);
    on.is(&on.get(&format!("{maps}?continue=x")).await, 400, "BadRequest");
    assert!(names(&on.get(&format!("{maps}?resourceVersion=0")).await.body).contains(&"m5".to_owned()));
}

pub(crate) async fn selectors(on: &On) {
    let space = on.namespace("selectors").await;
    let pods = format!("{space}/pods");
    for (name, node, labels) in
        [("a", "n1", json!({ "app": "web", "tier": "1" })), ("b", "n2", json!({ "app": "db" })), ("c", "n1", json!({}))]
    {
        let mut pod = pod(name, node);
        pod["metadata"]["labels"] = labels;
        on.is(&on.post(&pods, &pod).await, 201, "");
    }
    for (query, wanted) in [
        ("labelSelector=app%3Dweb", vec!["a"]),
        ("labelSelector=app", vec!["a", "b"]),
        ("labelSelector=!app", vec!["c"]),
        ("labelSelector=app!%3Dweb", vec!["b", "c"]),
        ("labelSelector=app%20in%20(web,db),tier%20notin%20(1)", vec!["b"]),
        ("fieldSelector=spec.nodeName%3Dn1", vec!["a", "c"]),
        ("fieldSelector=spec.nodeName!%3Dn1", vec!["b"]),
        ("fieldSelector=metadata.name%3Dc", vec!["c"]),
        ("fieldSelector=spec.nodeName%3Dn1&labelSelector=app", vec!["a"]),
    ] {
        let list = on.get(&format!("{pods}?{query}")).await;
        assert_eq!(names(&list.body), wanted, "{query}");
    }
    let of_all = on.get("/api/v1/pods?fieldSelector=metadata.namespace%3Dselectors,metadata.name%3Da").await;
    assert_eq!(names(&of_all.body), ["a"]);
}

pub(crate) async fn patches(on: &On) {
    let space = on.namespace("patches").await;
    let path = format!("{space}/configmaps/a");
    on.is(&on.post(&format!("{space}/configmaps"), &map("a", json!({ "l": "1" }))).await, 201, "");
    let merged =
        on.merge(&path, &json!({ "metadata": { "labels": { "l": null, "m": "2" } }, "data": { "b": "2" } })).await;
    on.is(&merged, 200, "");
    assert_eq!(merged.body["metadata"]["labels"], json!({ "m": "2" }));
    assert_eq!(merged.body["data"], json!({ "a": "1", "b": "2" }));
    let operations = json!([{ "op": "test", "path": "/data/a", "value": "1" }, { "op": "remove", "path": "/data/a" }]);
    let patched = on.send("PATCH", &path, "application/json-patch+json", &operations).await;
    assert_eq!(patched.body["data"], json!({ "b": "2" }));
    let again = on.send("PATCH", &path, "application/json-patch+json", &operations).await;
    on.is(&again, 422, "Invalid");
    let strategic = "application/strategic-merge-patch+json";
    on.is(&on.post(&format!("{space}/pods"), &pod("p", "n1")).await, 201, "");
    let image = json!({ "spec": { "containers": [{ "name": "c", "image": "example.invalid/other" }] } });
    let changed = on.send("PATCH", &format!("{space}/pods/p"), strategic, &image).await;
    on.is(&changed, 200, "");
    assert_eq!(changed.body["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(changed.body["spec"]["containers"][0]["image"], "example.invalid/other");
    let condition =
        |kind: &str, status: &str| json!({ "status": { "conditions": [{ "type": kind, "status": status }] } });
    for (kind, status, count) in [("A", "True", 1), ("B", "True", 2), ("A", "False", 2)] {
        let path = format!("{space}/pods/p/status");
        let patched = on.send("PATCH", &path, strategic, &condition(kind, status)).await;
        assert_eq!(patched.body["status"]["conditions"].as_array().unwrap().len(), count, "{}", patched.text);
    }
    apply(on, &space).await;
}

async fn apply(on: &On, space: &str) {
    let path = format!("{space}/configmaps/applied?fieldManager=test&force=true");
    let media = "application/apply-patch+yaml";
    let object = |data: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "applied" }, "data": data });
    let made = on.send("PATCH", &path, media, &object(json!({ "a": "1", "b": "2" }))).await;
    on.is(&made, 201, "");
    let again = on.send("PATCH", &path, media, &object(json!({ "a": "3" }))).await;
    on.is(&again, 200, "");
    assert_eq!(again.body["data"], json!({ "a": "3" }));
    let nobody = format!("{space}/configmaps/applied");
    assert!(matches!(on.send("PATCH", &nobody, media, &object(json!({}))).await.code, 400 | 422));
}

pub(crate) async fn status(on: &On) {
    let node = json!({ "metadata": { "name": "n1" }, "spec": { "podCIDR": "10.0.1.0/24" } });
    let made = on.post("/api/v1/nodes", &node).await;
    on.is(&made, 201, "");
    let mut object = made.body.clone();
    object["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    object["spec"]["unschedulable"] = json!(true);
    let spec = on.put("/api/v1/nodes/n1", &object).await;
    assert_eq!(spec.body["spec"]["unschedulable"], true);
    assert!(spec.body["status"]["conditions"].is_null(), "{}", spec.text);
    object = spec.body.clone();
    object["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    object["spec"]["unschedulable"] = json!(false);
    let status = on.put("/api/v1/nodes/n1/status", &object).await;
    on.is(&status, 200, "");
    assert_eq!(status.body["spec"]["unschedulable"], true);
    assert_eq!(status.body["status"]["conditions"][0]["type"], "Ready");
    let got = on.get("/api/v1/nodes/n1/status").await;
    assert_eq!(got.version(), status.version());
    assert_eq!(on.get("/api/v1/namespaces/default/configmaps/x/status").await.code, 404);
}

pub(crate) async fn finalizers(on: &On) {
    let maps = format!("{}/configmaps", on.namespace("finalizers").await);
    let mut object = map("a", json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    on.is(&on.post(&maps, &object).await, 201, "");
    let path = format!("{maps}/a");
    let marked = on.delete(&path).await;
    on.is(&marked, 200, "");
    assert!(on.get(&path).await.body["metadata"]["deletionTimestamp"].is_string());
    on.is(&on.merge(&path, &json!({ "metadata": { "finalizers": null } })).await, 200, "");
    on.is(&on.get(&path).await, 404, "NotFound");
}

pub(crate) async fn events(on: &On) {
    let space = on.namespace("events").await;
    let event = json!({
        "metadata": { "name": "e1" }, "eventTime": "2026-01-02T03:04:05.000000Z", "action": "Refuse",
        "reason": "PolicyRefused", "note": "why", "type": "Warning", "reportingController": "example.com/agent",
        "reportingInstance": "n1",
        "regarding": { "kind": "ConfigMap", "name": "a", "namespace": "events", "apiVersion": "v1" },
    });
    let made = on.post("/apis/events.k8s.io/v1/namespaces/events/events", &event).await;
    on.is(&made, 201, "");
    let core = on.get(&format!("{space}/events?fieldSelector=involvedObject.name%3Da")).await;
    assert_eq!(names(&core.body), ["e1"]);
    let item = &core.body["items"][0];
    assert_eq!((&item["message"], &item["reportingComponent"]), (&json!("why"), &json!("example.com/agent")));
    let place = "/apis/events.k8s.io/v1/namespaces/events/events";
    for field in ["reportingController", "reportingInstance", "action", "reason"] {
        let mut lacking = event.clone();
        lacking["metadata"]["name"] = json!("e2");
        lacking.as_object_mut().unwrap().remove(field);
        on.is(&on.post(place, &lacking).await, 422, "Invalid");
    }
    // Events of objects that are in no Namespace are in kube-system.
    let mut of_node = event.clone();
    of_node["metadata"]["name"] = json!("e3");
    of_node["regarding"] = json!({ "kind": "Node", "name": "n1", "apiVersion": "v1" });
    on.is(&on.post(place, &of_node).await, 422, "Invalid");
    on.is(&on.post("/apis/events.k8s.io/v1/namespaces/kube-system/events", &of_node).await, 201, "");
    let mut old = json!({ "metadata": { "name": "e4" }, "reason": "R", "message": "m", "type": "Normal" });
    old["involvedObject"] = json!({ "kind": "ConfigMap", "name": "a", "namespace": "default" });
    on.is(&on.post(&format!("{space}/events"), &old).await, 422, "Invalid");
    old["involvedObject"]["namespace"] = json!("events");
    on.is(&on.post(&format!("{space}/events"), &old).await, 201, "");
}
