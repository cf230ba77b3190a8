//! An API server, and an agent that follows it.

use super::objects::{KINDS, NODE_CONFIG, definitions};
use crate::common::NODE;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::{Options, Standing};
use vswitch_agent::project::{Key, Projected, Projection};
use vswitch_agent::source::cluster::{Cluster, Handle, PLACE, connect};
use vswitch_agent::source::{Directory, Source};
use vswitch_proto::antrea::v1;
use vswitch_testapi::Server;

/// A state that does not come is waited for as long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at what is not there yet.
const LOOK: Duration = Duration::from_millis(2);

/// What a switch is told: objects, without where they are from.
pub type Told = (Option<v1::NodeConfig>, BTreeMap<Key, v1::Object>);

/// UIDs are of those objects only that a server has made.
pub fn told(projection: &Projection) -> Told {
    let node = projection.node.as_ref().map(|(node, _)| node.clone());
    let object = |projected: &Projected| {
        let mut object = projected.object.clone();
        if let Some(v1::object::Object::NetworkPolicy(policy)) = &mut object.object {
            policy.uid.clear();
        }
        object
    };
    (node, projection.objects.iter().map(|(key, of)| (key.clone(), object(of))).collect())
}

/// A directory with the Node's configuration and a kubeconfig.
pub struct Place {
    pub dir: tempfile::TempDir,
    pub state: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().expect("one"), state: tempfile::tempdir().expect("one") };
        fs::write(place.node_config(), NODE_CONFIG).expect("written");
        place
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    pub fn node_config(&self) -> PathBuf {
        self.dir.path().join("node-config.yaml")
    }

    /// An agent that follows the server of the kubeconfig.
    pub async fn agent(&self, is_remembering: bool) -> Running {
        let client = connect(Some(&self.kubeconfig())).await.expect("a client");
        let wake = Arc::new(Notify::new());
        let cluster = Cluster::follow(client, false, Arc::clone(&wake));
        let handle = cluster.handle();
        let files = Directory::files(&[self.node_config()]);
        let sources: Vec<Box<dyn Source>> = vec![Box::new(cluster), Box::new(files)];
        let mut agent = Agent::of(sources, PLACE, NODE, Options::default());
        if is_remembering {
            agent = agent.remembering(self.state.path());
        }
        Running { agent, handle, wake }
    }
}

/// An agent that runs.
pub struct Running {
    pub agent: Agent,
    pub handle: Handle,
    pub wake: Arc<Notify>,
}

impl Running {
    pub fn told(&self) -> Told {
        told(self.agent.projection())
    }

    pub fn is_known(&self) -> bool {
        self.agent.standing() == Standing::Known
    }

    /// Looks until something holds; whether it does.
    pub async fn until(&mut self, holds: impl Fn(&Self) -> bool) -> bool {
        let begin = Instant::now();
        loop {
            self.agent.scan();
            if holds(self) {
                return true;
            }
            if begin.elapsed() > PATIENCE {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub async fn known(&mut self) {
        let is_known = self.until(Self::is_known).await;
        assert!(is_known, "it stays blind: {:?}", self.lines());
    }

    pub fn lines(&self) -> Vec<String> {
        self.agent.problems().iter().map(ToString::to_string).collect()
    }

    /// Names of the objects that the switch is told.
    pub fn names(&self) -> Vec<String> {
        self.agent.projection().objects.keys().map(|(_, name)| name.clone()).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.names().iter().any(|of| of == name)
    }
}

/// The server of the tests, and where its clients find it.
pub struct Scene {
    pub server: Server,
    pub place: Place,
}

impl Scene {
    pub fn new() -> Self {
        Self::of(vswitch_testapi::Options::default())
    }

    pub fn of(options: vswitch_testapi::Options) -> Self {
        let (server, place) = (Server::start(options).expect("it starts"), Place::new());
        server.kubeconfig(&place.kubeconfig()).expect("written");
        for definition in definitions() {
            server.apply(definition).expect("it is a definition");
        }
        Self { server, place }
    }

    pub fn apply(&self, text: &str) {
        for object in vswitch_testapi::yaml::documents(text).expect("it is YAML") {
            self.server.apply(object.clone()).unwrap_or_else(|error| panic!("{object}: {error:?}"));
        }
    }

    /// What an agent tells that reads all objects of the server from files.
    pub fn as_files(&self) -> (Told, Vec<String>) {
        let dir = tempfile::tempdir().expect("a directory");
        for (api, kind, _) in KINDS {
            let objects = self.server.list(api, kind);
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
            fs::write(dir.path().join(format!("{}-{kind}.json", api.replace('/', "-"))), list.to_string())
                .expect("written");
        }
        from_files(dir.path(), &self.place.node_config())
    }
}

/// What an agent tells that reads these files.
pub fn from_files(dir: &Path, node_config: &Path) -> (Told, Vec<String>) {
    let mut agent = Agent::new(dir, &[node_config.to_owned()], NODE, Options::default());
    // What is young is read when it has been the same for a scan.
    agent.scan();
    agent.scan();
    assert!(agent.unsettled().is_empty());
    (told(agent.projection()), agent.problems().iter().map(ToString::to_string).collect())
}
