//! NodePortLocal in a cluster: annotations of Pods, on each server that there is.

use super::scene::{Place, Running};
use crate::common::NODE;
use serde_json::{Value, json};
use std::fs;
use vswitch_agent::annotate::Annotator;
use vswitch_agent::project::node_port_local::{ANNOTATION, ENABLED};
use vswitch_proto::antrea::v1::object::Object;
use vswitch_testapi::{AnyServer, Reply};

const TOKENS: [(&str, &str, &[&str]); 1] = [("admin", "admin", &["system:masters"])];
const MERGE: &str = "application/merge-patch+json";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

struct Cluster<'a> {
    server: &'a AnyServer,
    client: kube::Client,
    place: Place,
    annotator: Annotator,
}

impl<'a> Cluster<'a> {
    async fn of(server: &'a AnyServer) -> Self {
        let place = Place::new();
        let config = fs::read_to_string(place.node_config()).expect("readable");
        fs::write(place.node_config(), format!("{config}  nodePortLocal: {{enable: true, portRange: 61000-61099}}\n"))
            .expect("written");
        server.kubeconfig(&place.kubeconfig(), Some("admin")).expect("written");
        let client = server.client(Some("admin")).await.expect("a client");
        let annotator = Annotator::start(client.clone());
        let cluster = Self { server, client, place, annotator };
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": {"podCIDR": "10.10.0.0/24", "podCIDRs": ["10.10.0.0/24"]}});
        cluster.post("/api/v1/nodes", node).await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
        cluster.post("/api/v1/namespaces", namespace).await;
        cluster
    }

    async fn call(&self, method: &str, path: &str, kind: &str, body: &Value) -> Reply {
        self.server.call(&self.client, method, path, kind, body).await.expect("it answers")
    }

    async fn post(&self, path: &str, object: Value) {
        let reply = self.call("POST", path, "application/json", &object).await;
        assert!(reply.code < 300 || reply.code == 409, "{object}: {}", reply.text);
    }

    async fn patch(&self, path: &str, patch: Value) {
        let reply = self.call("PATCH", path, MERGE, &patch).await;
        assert!(reply.code < 300, "{patch}: {}", reply.text);
    }

    /// A Pod of the Node with an address.
    async fn pod(&self, name: &str, address: &str, annotations: Value) {
        let mut own =
            json!({"vswitch/port": format!("port-{name}"), "vswitch/mac": format!("02:00:00:00:00:{}", &address[8..])});
        own.as_object_mut().expect("a mapping").extend(annotations.as_object().expect("a mapping").clone());
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}, "annotations": own},
            "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "registry.example/c"}]},
        });
        self.post(PODS, pod).await;
        let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
        self.patch(&format!("{PODS}/{name}/status"), status).await;
    }

    async fn annotation(&self, pod: &str) -> Option<String> {
        let found = self.call("GET", &format!("{PODS}/{pod}"), "application/json", &Value::Null).await.body;
        found["metadata"]["annotations"][ANNOTATION].as_str().map(str::to_owned)
    }

    /// Looks, and has the Pods annotated, until nothing lacks and this holds.
    async fn until(&self, running: &mut Running, holds: impl Fn(&Running) -> bool) {
        let is_there = running
            .until(|running| {
                self.annotator.tell(&running.agent.projection().annotations);
                running.is_known() && running.agent.projection().annotations.is_empty() && holds(running)
            })
            .await;
        assert!(is_there, "{:?}\n{:#?}", running.lines(), running.agent.projection().annotations);
    }
}

/// Which port of the Node leads to port 8080 of a Pod, by what the switch is told.
fn told(running: &Running, pod: &str) -> Option<u32> {
    let name = format!("default/{pod}@nodeportlocal");
    let objects = &running.agent.projection().objects;
    objects.values().find_map(|projected| match &projected.object.object {
        Some(Object::Service(service)) if service.name == name => Some(service.ports[0].node_port),
        _ => None,
    })
}

fn text(pod_port: u32, node_port: u32) -> String {
    format!(
        r#"[{{"podPort":{pod_port},"nodeIP":"192.168.77.102","nodePort":{node_port},"protocol":"tcp","ipFamily":"IPv4"}}]"#
    )
}

async fn follow(server: &AnyServer) {
    let cluster = Cluster::of(server).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "annotations": {ENABLED: "true"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    cluster.post(SERVICES, service).await;
    cluster.pod("one", "10.10.0.61", json!({})).await;
    let mut running = cluster.place.agent(false).await;
    cluster.until(&mut running, |running| told(running, "one").is_some()).await;
    let first = told(&running, "one").expect("it has one");
    assert_eq!(cluster.annotation("one").await, Some(text(8080, first)));
    // A forged annotation gets no port that is another Pod's, nor one outside the range.
    for (name, address, claimed) in [("two", "10.10.0.62", first), ("three", "10.10.0.63", 22)] {
        cluster.pod(name, address, json!({ANNOTATION: text(8080, claimed)})).await;
        cluster.until(&mut running, |running| told(running, name).is_some()).await;
        let has = told(&running, name).expect("it has one");
        assert!(has != claimed && (61000..=61099).contains(&has), "{has}");
        assert_eq!(cluster.annotation(name).await, Some(text(8080, has)));
    }
    // An agent that knows nothing finds what is there.
    let before = ["one", "two", "three"].map(|name| told(&running, name));
    drop(running);
    let mut running = cluster.place.agent(false).await;
    cluster.until(&mut running, |running| told(running, "three").is_some()).await;
    assert_eq!(["one", "two", "three"].map(|name| told(&running, name)), before);
    // Nobody asks any more: ports and annotations go.
    cluster.patch(&format!("{SERVICES}/web"), json!({"metadata": {"annotations": {ENABLED: null}}})).await;
    cluster
        .until(&mut running, |running| ["one", "two", "three"].iter().all(|name| told(running, name).is_none()))
        .await;
    for name in ["one", "two", "three"] {
        assert_eq!(cluster.annotation(name).await, None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_annotated_and_keep_their_ports() {
    for server in AnyServer::both(&TOKENS).expect("they start") {
        follow(&server).await;
    }
}
