//! A cluster in which the agent needs each of its rights, and the agent.

use crate::cluster::objects::NODE_CONFIG;
use crate::common::NODE;
use crate::double::Switch;
use crate::realized::bed::definitions;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vswitch_agent::feedback::TAINT;
use vswitch_testapi::AnyServer;

pub const AGENT: &str = "system:serviceaccount:kube-system:vswitch-agent";

pub const TOKENS: [(&str, &str, &[&str]); 2] = [("admin", "admin", &["system:masters"]), ("agent", AGENT, &[])];

/// A state that does not come is waited for as long.
pub const PATIENCE: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(20);

/// A right: verb, and resource as `plural.group/subresource`.
pub type Right = (String, String);

fn manifest(path: &str) -> Vec<Value> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../deploy/kustomize/base", path].iter().collect();
    let text = std::fs::read_to_string(path).expect("it is there");
    vswitch_testapi::yaml::documents(&text).expect("it is YAML")
}

/// What the manifests grant the agent.
pub fn granted() -> BTreeSet<Right> {
    let words = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = BTreeSet::new();
    for role in manifest("rbac.yaml").iter().filter(|object| object["rules"].is_array()) {
        for rule in role["rules"].as_array().into_iter().flatten() {
            assert!(rule["resourceNames"].is_null(), "{rule}");
            for (group, resource) in words(&rule["apiGroups"])
                .iter()
                .flat_map(|group| words(&rule["resources"]).into_iter().map(move |resource| (group.clone(), resource)))
            {
                let (plural, below) = resource.split_once('/').unwrap_or((&resource, ""));
                let group = if group.is_empty() { String::new() } else { format!(".{group}") };
                let below = if below.is_empty() { String::new() } else { format!("/{below}") };
                let named = format!("{plural}{group}{below}");
                rights.extend(words(&rule["verbs"]).into_iter().map(|verb| (verb, named.clone())));
            }
        }
    }
    rights
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

fn path(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api = text(&object["apiVersion"]);
    let root = if api.contains('/') { "apis" } else { "api" };
    let space = object["metadata"]["namespace"].as_str();
    let space = space.map(|space| format!("namespaces/{space}/")).unwrap_or_default();
    format!("/{root}/{api}/{space}{}", plural(&text(&object["kind"])))
}

/// What there is: of each kind whose status the agent writes an object, a policy that it refuses,
/// Egresses without an address and without a Node, a Traceflow to another Node, a PacketCapture.
fn objects() -> Vec<Value> {
    let of = |api: &str, kind: &str, name: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec});
    let antrea = |kind: &str, name: &str, spec: Value| of("crd.antrea.io/v1beta1", kind, name, spec);
    let spaced = |mut object: Value| {
        object["metadata"]["namespace"] = json!("default");
        object
    };
    let node = |name: &str, net: u8, taints: Value| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"podCIDR": format!("10.10.{net}.0/24"), "podCIDRs": [format!("10.10.{net}.0/24")], "taints": taints},
            "status": {"addresses": [{"type": "InternalIP", "address": format!("192.168.77.10{}", net + 2)}],
                "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let pod = |name: &str, node: &str, address: &str| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default",
                "annotations": {"vswitch/port": name, "vswitch/mac": "02:00:00:00:00:01"}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}]},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}})
    };
    let applied = json!([{"podSelector": {}}]);
    let policy = json!({"priority": 5, "appliedTo": applied, "ingress": [{"action": "Drop"}]});
    let wrong =
        json!({"priority": 5, "appliedTo": applied, "ingress": [{"action": "Drop", "from": [{"newPeer": {}}]}]});
    let subject = json!({"namespaces": {}});
    let api = "policy.networking.k8s.io";
    let end = |pod: &str| json!({"namespace": "default", "pod": pod});
    vec![
        node(NODE, 0, json!([{"key": TAINT, "effect": "NoSchedule"}])),
        node("n2", 1, json!([])),
        pod("here", NODE, "10.10.0.9"),
        pod("there", "n2", "10.10.1.9"),
        antrea("ClusterNetworkPolicy", "right", policy.clone()),
        antrea("ClusterNetworkPolicy", "wrong", wrong),
        spaced(antrea("NetworkPolicy", "right", policy)),
        of(
            &format!("{api}/v1alpha2"),
            "ClusterNetworkPolicy",
            "right",
            json!({"tier": "Admin", "priority": 1, "subject": subject}),
        ),
        of(&format!("{api}/v1alpha1"), "AdminNetworkPolicy", "right", json!({"priority": 1, "subject": subject})),
        of(&format!("{api}/v1alpha1"), "BaselineAdminNetworkPolicy", "default", json!({"subject": subject})),
        antrea("ClusterGroup", "g", json!({"podSelector": {}})),
        spaced(antrea("Group", "g", json!({"podSelector": {}}))),
        antrea("ExternalIPPool", "pool", json!({"ipRanges": [{"cidr": "192.168.77.64/28"}], "nodeSelector": {}})),
        antrea("Egress", "without-address", json!({"appliedTo": {"podSelector": {}}, "externalIPPool": "pool"})),
        antrea(
            "Egress",
            "without-node",
            json!({"appliedTo": {"namespaceSelector": {}}, "externalIPPool": "pool", "egressIP": "192.168.77.70"}),
        ),
        antrea("Traceflow", "t", json!({"source": end("here"), "destination": end("there"), "timeout": 60})),
        of(
            "crd.antrea.io/v1alpha1",
            "PacketCapture",
            "c",
            json!({"source": {"pod": {"name": "here"}}, "captureConfig": {"firstN": {"number": 1}}}),
        ),
    ]
}

pub struct Scene<'a> {
    pub server: &'a AnyServer,
    admin: kube::Client,
    dir: tempfile::TempDir,
    pub switch: Switch,
}

/// The program. It ends with this value.
pub struct Running(Child, PathBuf);

impl Running {
    /// What it has told.
    pub fn lines(&self) -> String {
        std::fs::read_to_string(&self.1).expect("there")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl<'a> Scene<'a> {
    pub async fn new(server: &'a AnyServer) -> Self {
        let admin = server.client(Some("admin")).await.expect("a client");
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("kubeconfig");
        server.kubeconfig(&file, Some("agent")).expect("written");
        let mut config: Value = serde_json::from_slice(&std::fs::read(&file).expect("there")).expect("JSON");
        config["contexts"][0]["context"]["namespace"] = json!("kube-system");
        std::fs::write(&file, config.to_string()).expect("written");
        std::fs::write(dir.path().join("node-config.yaml"), NODE_CONFIG).expect("written");
        let scene = Self { server, admin, dir, switch: Switch::start().await };
        for object in manifest("rbac.yaml") {
            scene.create(&object).await;
        }
        for file in ["crd.antrea.io.yaml", "policy.networking.k8s.io.yaml", "vswitch.io.yaml"] {
            for definition in definitions(file) {
                scene.create(&definition).await;
            }
        }
        for object in objects() {
            scene.create(&object).await;
        }
        scene
    }

    pub async fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let reply = self.server.call(&self.admin, method, path, media, body).await.expect("it answers");
        (reply.code, reply.body)
    }

    /// Creates an object with its status. A kind that is about to be served is waited for.
    async fn create(&self, object: &Value) {
        let begin = Instant::now();
        let body = loop {
            let (code, body) = self.call("POST", &path(object), object).await;
            if code < 300 {
                break body;
            }
            assert!(code == 404 && begin.elapsed() < PATIENCE, "{object}: {body}");
            tokio::time::sleep(LOOK).await;
        };
        if object["status"].is_object() {
            let mut object = object.clone();
            object["metadata"]["resourceVersion"] = body["metadata"]["resourceVersion"].clone();
            let path = format!("{}/{}/status", path(&object), body["metadata"]["name"].as_str().unwrap_or_default());
            let (code, body) = self.call("PUT", &path, &object).await;
            assert!(code < 300, "{object}: {body}");
        }
    }

    /// Starts the agent.
    pub fn agent(&self) -> Running {
        let log = self.dir.path().join("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_vswitch-agent"));
        command.args(["--cluster", "--no-state", "--no-health-checks", "--period-ms", "50", "--node", NODE]);
        command.arg("--kubeconfig").arg(self.dir.path().join("kubeconfig"));
        command.arg("--node-config").arg(self.dir.path().join("node-config.yaml"));
        command.arg("--packet-captures").arg(self.dir.path().join("captures"));
        command.arg("--socket").arg(self.switch.socket());
        command.env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log).expect("made"));
        Running(command.spawn().expect("it runs"), log)
    }

    /// What the agent of the other Node would do: it says that the packet has come.
    async fn answer_traceflow(&self) {
        let path = "/apis/crd.antrea.io/v1beta1/traceflows/t";
        let status = self.call("GET", path, &Value::Null).await.1["status"].clone();
        let is_answered = status["results"].as_array().is_some_and(|results| !results.is_empty());
        if status["phase"] == "Running" && !is_answered {
            let result =
                json!({"node": "n2", "role": "receiver", "timestamp": 1, "observations": [{"action": "Delivered"}]});
            // The next look tries again.
            self.call("PATCH", &format!("{path}/status"), &json!({"status": {"results": [result]}})).await;
        }
    }

    /// Lets the Events look as if they were of yesterday.
    pub async fn age_events(&self) {
        let events = "/api/v1/namespaces/default/events";
        let list = self.call("GET", events, &Value::Null).await.1;
        for event in list["items"].as_array().into_iter().flatten() {
            let name = event["metadata"]["name"].as_str().unwrap_or_default();
            let (code, body) = self
                .call("PATCH", &format!("{events}/{name}"), &json!({"lastTimestamp": "2020-01-01T00:00:00Z"}))
                .await;
            assert_eq!(code, 200, "{body}");
        }
    }

    /// Waits until something holds; what there is of it otherwise.
    pub async fn until<T: std::fmt::Debug + PartialEq>(&self, found: impl AsyncFn() -> T, wanted: T, why: &str) {
        let begin = Instant::now();
        loop {
            self.answer_traceflow().await;
            let found = found().await;
            if found == wanted {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{why}: {found:#?} in place of {wanted:#?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Rights that the agent has used.
    pub fn used(&self) -> BTreeSet<Right> {
        let all = self.server.requests();
        let own = all.into_iter().filter(|entry| entry.user == AGENT && !entry.resource.starts_with('/'));
        own.filter(|entry| entry.status < 400).map(|entry| (entry.verb, entry.resource)).collect()
    }
}
