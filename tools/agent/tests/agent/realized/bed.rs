//! A server with the project's own definitions, and agents of Nodes that report.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use vswitch_agent::lease::Lease;
use vswitch_agent::realized::{News, Realized, Report, Timing};
use vswitch_agent::source::Source;
use vswitch_agent::source::cluster::{Cluster, Handle, ObjectStatus, Standing, connect};
use vswitch_testapi::AnyServer;

/// A state that does not come is waited for as long.
const PATIENCE: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(10);

/// The Lease of the tests: one whose agent is gone is taken soon.
const LASTING: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(1));

pub const TIMING: Timing = Timing {
    gap: Duration::from_millis(20),
    renew: Duration::from_millis(500),
    silent: Duration::from_secs(3600),
    turn: Duration::from_millis(20),
    burst: 1000,
    of_object: Duration::from_millis(20),
    again: Duration::from_millis(300),
};

/// Definitions of a file of the project.
pub fn definitions(file: &str) -> Vec<Value> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../deploy/crds", file].iter().collect();
    let text = std::fs::read_to_string(path).expect("it is there");
    vswitch_testapi::yaml::documents(&text).expect("it is YAML")
}

/// One agent, as far as it reports.
pub struct Agent {
    lease: Lease,
    followed: Option<Instant>,
    pub realized: Realized,
    /// What it refuses, by names of objects, and of which generation.
    pub refuses: BTreeMap<String, i64>,
    /// It says nothing new.
    pub is_stuck: bool,
    /// It follows the Lease of the agents.
    pub leads: bool,
    told: News,
}

/// A server, and what there is.
pub struct Bed<'a> {
    pub server: &'a AnyServer,
    pub client: kube::Client,
    cluster: Cluster,
    handle: Handle,
    pub agents: BTreeMap<String, Agent>,
    pub timing: Timing,
}

impl<'a> Bed<'a> {
    pub async fn new(server: &'a AnyServer, dir: &Path, timing: Timing) -> Self {
        let file = dir.join("kubeconfig");
        server.kubeconfig(&file, Some("admin")).expect("written");
        let client = connect(Some(&file)).await.expect("a client");
        let cluster = Cluster::follow(client.clone(), false, Arc::new(Notify::new()));
        let handle = cluster.handle();
        let bed = Self { server, client, cluster, handle, agents: BTreeMap::new(), timing };
        for file in ["crd.antrea.io.yaml", "policy.networking.k8s.io.yaml"] {
            for definition in definitions(file) {
                bed.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
            }
        }
        for kinds in ["crd.antrea.io/v1beta1", "policy.networking.k8s.io/v1alpha2", "policy.networking.k8s.io/v1alpha1"]
        {
            let begin = Instant::now();
            while bed.call("GET", &format!("/apis/{kinds}"), &Value::Null).await.0 != 200 {
                assert!(begin.elapsed() < PATIENCE, "{kinds} is not served");
            }
        }
        bed
    }

    pub async fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let reply = self.server.call(&self.client, method, path, media, body).await.expect("it answers");
        (reply.code, reply.body)
    }

    /// Creates an object; a kind that is about to be served is waited for.
    pub async fn create(&self, path: &str, object: Value) {
        let begin = Instant::now();
        loop {
            let (code, body) = self.call("POST", path, &object).await;
            if code < 300 {
                return;
            }
            assert!(code == 404 && begin.elapsed() < PATIENCE, "{object}: {body}");
        }
    }

    pub async fn node(&self, name: &str) {
        self.create("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
    }

    /// Starts the agent of a Node.
    pub fn agent(&mut self, node: &str) {
        let lease = Lease::new(self.client.clone(), node).lasting(LASTING);
        let realized = Realized::start(self.client.clone(), node, lease.term(), self.timing);
        let agent = Agent {
            lease,
            followed: None,
            realized,
            refuses: BTreeMap::new(),
            is_stuck: false,
            leads: true,
            told: News::default(),
        };
        self.agents.insert(node.to_owned(), agent);
    }

    /// What agents do each period: all know the same, and have all in force but what they refuse.
    pub async fn turn(&mut self) {
        self.cluster.scan();
        let (number, standings) = match self.handle.standings(None) {
            Some(found) if self.handle.knows_all() => found,
            _ => return,
        };
        let standings = Arc::new(standings);
        let nodes = self.call("GET", "/api/v1/nodes", &Value::Null).await.1;
        let names = nodes["items"].as_array().into_iter().flatten();
        let nodes: BTreeMap<String, String> = names
            .map(|node| ["name", "uid"].map(|field| node["metadata"][field].as_str().unwrap_or_default().to_owned()))
            .map(|[name, uid]| (name, uid))
            .collect();
        for (name, agent) in &mut self.agents {
            let is_due = agent.leads && agent.followed.is_none_or(|at| at.elapsed() >= LASTING.1);
            if is_due && agent.lease.follow().await.is_ok() {
                agent.followed = Some(Instant::now());
            }
            let mut report = Report::new();
            for standing in standings.iter().filter(|standing| standing.object.kind.contains("Policy")) {
                match agent.refuses.get(&standing.object.name) {
                    Some(generation) if *generation == standing.generation => {
                        report.refuse(&standing.object.uid, standing.generation, "spec.x: what is that?");
                    }
                    _ => report.tell(&standing.object.uid, standing.generation, true),
                }
            }
            let report = if agent.is_stuck { agent.told.report.clone() } else { Some(report) };
            let news = News {
                report,
                node_uid: nodes.get(name).cloned().unwrap_or_default(),
                number: number + 1,
                standings: Arc::clone(&standings),
                nodes: nodes.keys().cloned().collect(),
                usage: [("pool".to_owned(), [9, 2])].into(),
                ..News::default()
            };
            agent.told = news.clone();
            agent.realized.tell(news);
        }
    }

    /// Turns until something holds.
    pub async fn turned(&mut self, holds: impl Fn(&mut Self) -> bool) {
        let begin = Instant::now();
        while !holds(self) {
            assert!(begin.elapsed() < PATIENCE, "it does not come");
            self.turn().await;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Turns until something holds of a status.
    pub async fn until(&mut self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            self.turn().await;
            let status = self.call("GET", path, &Value::Null).await.1["status"].clone();
            if holds(&status) {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "{path}: {status}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Turns until a policy of Antrea is so: `phase current/desired generation`.
    pub async fn is(&mut self, path: &str, wanted: &str) -> Value {
        let text = |status: &Value| {
            let [current, desired] = ["currentNodesRealized", "desiredNodesRealized"].map(|field| &status[field]);
            let phase = status["phase"].as_str().unwrap_or_default();
            format!("{phase} {current}/{desired} {}", status["observedGeneration"])
        };
        self.until(path, |status| text(status) == wanted).await
    }

    /// What the agents know of objects.
    pub fn standings(&mut self) -> Vec<Standing> {
        self.cluster.scan();
        self.handle.standings(None).map(|(_, standings)| standings).unwrap_or_default()
    }
}

pub const POLICIES: &str = "/apis/crd.antrea.io/v1beta1/clusternetworkpolicies";

pub fn policy(name: &str) -> Value {
    json!({
        "apiVersion": "crd.antrea.io/v1beta1", "kind": "ClusterNetworkPolicy", "metadata": {"name": name},
        "spec": {"priority": 5, "appliedTo": [{"podSelector": {}}], "ingress": [{"action": "Drop"}]},
    })
}

/// Condition of a type.
pub fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

/// Of a status that says Realized on so many Nodes.
pub fn realized(nodes: i64) -> Value {
    json!({"phase": "Realized", "observedGeneration": 1, "currentNodesRealized": nodes, "desiredNodesRealized": nodes,
        "conditions": [{"type": "Realizable", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
}

pub fn is_realized(status: &ObjectStatus) -> bool {
    status.phase == "Realized"
}
