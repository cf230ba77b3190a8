//! CustomResourceDefinitions and their objects.

use std::time::Duration;

use serde_json::{Value, json};

use super::on::{On, names};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "/apis/test.example.com/v1";

fn definition() -> Value {
    let spec = json!({
        "type": "object",
        "required": ["mode"],
        "properties": {
            "mode": { "type": "string", "enum": ["a", "b"] },
            "count": { "type": "integer", "minimum": 1, "maximum": 5 },
            "name": { "type": "string", "pattern": "^x" },
            "given": { "type": "boolean", "default": true },
            "port": { "x-kubernetes-int-or-string": true },
        },
    });
    let status = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "type": "object", "properties": { "spec": spec, "status": status } });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
        "subresources": { "status": {} },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.test.example.com" },
        "spec": {
            "group": "test.example.com", "scope": "Namespaced", "versions": [version],
            "names": { "plural": "things", "singular": "thing", "kind": "Thing", "shortNames": ["th"] },
        },
    })
}

fn thing(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "test.example.com/v1", "kind": "Thing", "metadata": { "name": name }, "spec": spec })
}

pub(crate) async fn definitions(on: &On) {
    on.namespace("custom").await;
    let mut wrong = definition();
    wrong["metadata"]["name"] = json!("others.test.example.com");
    on.is(&on.post(CRDS, &wrong).await, 422, "Invalid");
    on.is(&on.post(CRDS, &definition()).await, 201, "");
    let path = format!("{CRDS}/things.test.example.com");
    served(on, true).await;
    let conditions = on.get(&path).await.body["status"]["conditions"].clone();
    let established = conditions.as_array().unwrap().iter().any(|one| one["type"] == "Established");
    assert!(established, "{conditions}");
    let resources = on.get(GROUP).await.body["resources"].clone();
    let listed: Vec<&str> = resources.as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(listed, ["things", "things/status"]);
    let things = format!("{GROUP}/namespaces/custom/things");
    validation(on, &things).await;
    subresource(on, &things).await;
    let list = on.get(&format!("{GROUP}/things")).await;
    assert_eq!((&list.body["kind"], &list.body["items"][0]["kind"]), (&json!("ThingList"), &json!("Thing")));
    let mut watch = on.watch(&format!("{GROUP}/things?watch=1&resourceVersion={}", list.version())).await;
    on.is(&on.delete(&path).await, 200, "");
    let event = watch.next().await.unwrap().unwrap();
    assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("DELETED"), &json!("Thing")));
    served(on, false).await;
    assert_eq!(on.get(&things).await.code, 404);
}

/// Waits until the server serves the kind, or does no more.
async fn served(on: &On, wanted: bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    while (on.get(&format!("{GROUP}/things")).await.code == 200) != wanted
        || (on.get(GROUP).await.code == 200) != wanted
    {
        assert!(tokio::time::Instant::now() < end, "the kind's discovery does not change");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn validation(on: &On, things: &str) {
    for (spec, field) in [
        (json!({}), "spec.mode"),
        (json!({ "mode": "c" }), "spec.mode"),
        (json!({ "mode": 1 }), "spec.mode"),
        (json!({ "mode": "a", "count": 0 }), "spec.count"),
        (json!({ "mode": "a", "count": 6 }), "spec.count"),
        (json!({ "mode": "a", "count": 1.5 }), "spec.count"),
        (json!({ "mode": "a", "name": "y" }), "spec.name"),
        (json!({ "mode": "a", "port": true }), "spec.port"),
        (json!([]), "spec"),
    ] {
        let refused = on.post(things, &thing("wrong", spec.clone())).await;
        on.is(&refused, 422, "Invalid");
        let causes = refused.body["details"]["causes"].as_array().unwrap();
        assert!(causes.iter().any(|cause| cause["field"] == field), "{spec}: {}", refused.text);
        on.says(&refused, "Thing.test.example.com \"wrong\" is invalid: ");
    }
    let mut untyped = thing("untyped", json!({ "mode": "a" }));
    untyped.as_object_mut().unwrap().remove("kind");
    on.is(&on.post(things, &untyped).await, 400, "BadRequest");
    let made = on.post(things, &thing("a", json!({ "mode": "a", "unknown": 1, "port": "http" }))).await;
    on.is(&made, 201, "");
    assert_eq!(made.body["spec"], json!({ "mode": "a", "given": true, "port": "http" }));
    assert_eq!(made.body["metadata"]["generation"], 1);
    let strategic = "application/strategic-merge-patch+json";
    let path = format!("{things}/a");
    on.is(&on.send("PATCH", &path, strategic, &json!({})).await, 415, "UnsupportedMediaType");
    on.is(&on.put(&path, &thing("a", json!({ "mode": "b" }))).await, 422, "Invalid");
    on.is(&on.merge(&path, &json!({ "spec": { "mode": "c" } })).await, 422, "Invalid");
    assert_eq!(names(&on.get(&format!("{things}?fieldSelector=metadata.name%3Da")).await.body), ["a"]);
}

async fn subresource(on: &On, things: &str) {
    let path = format!("{things}/a");
    let ignored = on.merge(&path, &json!({ "spec": { "count": 2 }, "status": { "n": 1 } })).await;
    on.is(&ignored, 200, "");
    assert!(ignored.body["status"].is_null());
    assert_eq!(ignored.body["metadata"]["generation"], 2);
    let change = json!({ "metadata": { "labels": { "l": "1" } }, "spec": { "count": 3 }, "status": { "n": 1 } });
    let told = on.merge(&format!("{path}/status"), &change).await;
    on.is(&told, 200, "");
    assert_eq!((&told.body["spec"]["count"], &told.body["status"]), (&json!(2), &json!({ "n": 1 })));
    assert_eq!(told.body["metadata"]["generation"], 2);
    assert!(told.body["metadata"]["labels"].is_null(), "{}", told.text);
    let labelled = on.merge(&path, &json!({ "metadata": { "labels": { "l": "1" } } })).await;
    assert_eq!(labelled.body["metadata"]["generation"], 2);
    let applied = json!({ "apiVersion": "test.example.com/v1", "kind": "Thing", "status": { "m": 2 } });
    let media = "application/apply-patch+yaml";
    let applied = on.send("PATCH", &format!("{path}/status?fieldManager=t&force=true"), media, &applied).await;
    on.is(&applied, 200, "");
    assert_eq!(applied.body["status"], json!({ "n": 1, "m": 2 }));
}
