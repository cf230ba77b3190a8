//! The same on a real API server, if `KUBEBUILDER_ASSETS` names a directory with one.
//!
//! `VSWITCH_REAL_HISTORIES` says how many histories each server has, `VSWITCH_SEED` where to begin.
//!
//! 1.20 serves EndpointSlices as v1beta1 only, and has no `endPort`: nothing here needs more.

use super::histories::number;
use super::objects::{CHANGING, Chance, KINDS, definitions, may_go, object, pinned};
use super::scene::{Place, from_files};
use serde_json::Value;
use std::fs;
use vswitch_testapi::{AnyServer, Reply};

const TOKENS: [(&str, &str, &[&str]); 1] = [("admin", "admin", &["system:masters"])];

/// Paths of kinds.
fn path(object: &Value, name: bool) -> String {
    let (api, kind) = (text(object, "apiVersion"), text(object, "kind"));
    let plural = match kind {
        "NetworkPolicy" => "networkpolicies".to_owned(),
        "ClusterNetworkPolicy" => "clusternetworkpolicies".to_owned(),
        "Egress" => "egresses".to_owned(),
        _ => format!("{}s", kind.to_lowercase()),
    };
    let root = if api.contains('/') { "apis" } else { "api" };
    let meta = &object["metadata"];
    let space = match meta["namespace"].as_str() {
        Some(space) => format!("namespaces/{space}/"),
        None => String::new(),
    };
    let name = if name { format!("/{}", text(meta, "name")) } else { String::new() };
    format!("/{root}/{api}/{space}{plural}{name}")
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

struct Real<'a> {
    server: &'a AnyServer,
    client: kube::Client,
    /// The server's version of EndpointSlices.
    slices: &'static str,
}

impl Real<'_> {
    async fn call(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.server.call(&self.client, method, path, "application/json", body).await.expect("it answers")
    }

    /// Makes an object what is given, with its status.
    async fn apply(&self, mut object: Value) {
        if object["kind"] == "EndpointSlice" {
            object["apiVersion"] = self.slices.into();
        }
        let found = self.call("GET", &path(&object, true), &Value::Null).await;
        let made = if found.code == 404 {
            self.call("POST", &path(&object, false), &object).await
        } else {
            object["metadata"]["resourceVersion"] = found.body["metadata"]["resourceVersion"].clone();
            // What may not change of a Pod stays.
            if object["kind"] == "Pod" {
                object["spec"] = found.body["spec"].clone();
            }
            self.call("PUT", &path(&object, true), &object).await
        };
        assert!(made.code < 300, "{object}: {}", made.text);
        if object["status"].is_object() && ["Pod", "Node"].contains(&text(&object, "kind")) {
            let found = self.call("GET", &path(&object, true), &Value::Null).await;
            object["metadata"]["resourceVersion"] = found.body["metadata"]["resourceVersion"].clone();
            let put = self.call("PUT", &format!("{}/status", path(&object, true)), &object).await;
            assert!(put.code < 300, "{object}: {}", put.text);
        }
    }

    async fn delete(&self, mut object: Value) {
        if object["kind"] == "EndpointSlice" {
            object["apiVersion"] = self.slices.into();
        }
        let options = serde_json::json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.call("DELETE", &path(&object, true), &options).await;
    }

    /// All objects of a kind, as files say them.
    async fn list(&self, api: &str, kind: &str) -> Vec<Value> {
        let served = if kind == "EndpointSlice" { self.slices } else { api };
        let of = serde_json::json!({"apiVersion": served, "kind": kind, "metadata": {}});
        let list = self.call("GET", &path(&of, false), &Value::Null).await;
        assert_eq!(list.code, 200, "{}", list.text);
        let mut items = list.body["items"].as_array().cloned().unwrap_or_default();
        for item in &mut items {
            item["apiVersion"] = api.into();
            item["kind"] = kind.into();
        }
        items
    }
}

async fn follow(server: &AnyServer, seed: u64) {
    let place = Place::new();
    server.kubeconfig(&place.kubeconfig(), Some("admin")).expect("written");
    let client = server.client(Some("admin")).await.expect("a client");
    let mut real = Real { server, client, slices: "discovery.k8s.io/v1" };
    if real.call("GET", "/apis/discovery.k8s.io/v1", &Value::Null).await.code == 404 {
        real.slices = "discovery.k8s.io/v1beta1";
    }
    for definition in definitions() {
        real.apply(definition).await;
    }
    let (mut served, kinds) = (false, "/apis/crd.antrea.io/v1beta1");
    while !served {
        let found = real.call("GET", kinds, &Value::Null).await.body;
        served = found["resources"].as_array().is_some_and(|kinds| kinds.len() >= definitions().len());
    }
    for object in pinned() {
        real.apply(object).await;
    }
    let mut running = place.agent(true).await;
    running.known().await;
    let mut chance = Chance::new(seed);
    for step in 0..60 {
        let number = chance.below(CHANGING);
        let object = object(number, &mut chance);
        if may_go(number) && chance.below(3) == 0 {
            real.delete(object).await;
        } else {
            real.apply(object).await;
        }
        running.agent.scan();
        if step == 30 {
            running = place.agent(true).await;
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    for (api, kind, _) in KINDS {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": real.list(api, kind).await});
        fs::write(dir.path().join(format!("{}-{kind}.json", api.replace('/', "-"))), list.to_string())
            .expect("written");
    }
    let expected = from_files(dir.path(), &place.node_config()).0;
    let is_there = running.until(|running| running.is_known() && running.told() == expected).await;
    assert!(is_there, "seed {seed}: {:#?}\n{:#?}\n{:?}", running.told(), expected, running.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_server_is_followed() {
    let (first, count) = (number("VSWITCH_SEED", 7), number("VSWITCH_REAL_HISTORIES", 1));
    for server in AnyServer::both(&TOKENS).expect("they start") {
        // What one history leaves is there for the next one.
        for seed in first..first + count {
            follow(&server, seed).await;
        }
    }
}
