//! A server under test, with short calls.

use kube::Client;
use serde_json::{Value, json};
use vswitch_testapi::{AnyServer, Reply, WatchLines};

pub(crate) struct On {
    pub(crate) server: AnyServer,
    pub(crate) client: Client,
}

pub(crate) fn servers() -> Vec<AnyServer> {
    AnyServer::both(&[("admin", "root", &["system:masters"]), ("bob", "bob", &["team"])]).unwrap()
}

impl On {
    pub(crate) async fn new(server: AnyServer) -> Self {
        let client = server.client(Some("admin")).await.unwrap();
        Self { server, client }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> Reply {
        self.server.call(&self.client, method, path, media, body).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", &Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, "application/json", body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, "application/json", body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, "", &Value::Null).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> Reply {
        self.send("PATCH", path, "application/merge-patch+json", body).await
    }

    pub(crate) async fn watch(&self, path: &str) -> WatchLines {
        self.server.watch(&self.client, path).await.unwrap()
    }

    /// A new Namespace for one part of the suite.
    pub(crate) async fn namespace(&self, name: &str) -> String {
        let reply = self.post("/api/v1/namespaces", &json!({ "metadata": { "name": name } })).await;
        self.is(&reply, 201, "");
        format!("/api/v1/namespaces/{name}")
    }

    /// Code and reason of an answer; a Status says both in its body, too.
    #[track_caller]
    pub(crate) fn is(&self, reply: &Reply, code: u16, reason: &str) {
        let real = self.server.is_real();
        assert_eq!(reply.code, code, "real {real}: {}", reply.text);
        if !reason.is_empty() {
            assert_eq!(reply.body["kind"], "Status", "real {real}: {}", reply.text);
            assert_eq!(reply.body["reason"], reason, "real {real}: {}", reply.text);
            assert_eq!(reply.body["code"], code, "real {real}: {}", reply.text);
        }
    }

    /// A message of Kubernetes holds these words.
    #[track_caller]
    pub(crate) fn says(&self, reply: &Reply, words: &str) {
        let message = reply.body["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "real {}: {message:?} has not {words:?}", self.server.is_real());
    }
}

pub(crate) fn map(name: &str, labels: Value) -> Value {
    json!({ "metadata": { "name": name, "labels": labels }, "data": { "a": "1" } })
}

/// A Pod that a real server takes.
pub(crate) fn pod(name: &str, node: &str) -> Value {
    let container = json!({ "name": "c", "image": "example.invalid/none" });
    let spec = json!({ "nodeName": node, "containers": [container], "automountServiceAccountToken": false });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
}

pub(crate) fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}
