//! An agent on a Node of both families.

use crate::common::{NODE, files, lines, object};
use std::fs;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::Options;
use vswitch_agent::project::Projection;
use vswitch_proto::antrea::v1::object::Object;
use vswitch_proto::antrea::v1::{self, Kind};

/// An agent on a Node of both families, and the files that it reads.
pub struct Scene(tempfile::TempDir, pub Agent);

impl Scene {
    /// With `nodes.yaml` changed from the first text to the second.
    pub fn of(from: &str, to: &str, documents: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files() {
            let text = if name == "nodes.yaml" { dual(&text) } else { text };
            assert!(name != "nodes.yaml" || text.contains(from), "{from:?} is in it");
            let text = if name == "nodes.yaml" { text.replacen(from, to, 1) } else { text };
            fs::write(dir.path().join(name), text).expect("written");
        }
        let agent = Agent::new(dir.path(), &[], NODE, Options::default());
        let mut scene = Self(dir, agent);
        for (i, text) in documents.iter().enumerate() {
            fs::write(scene.0.path().join(format!("{i}.yaml")), text).expect("written");
        }
        scene.1.scan();
        scene.1.scan();
        scene
    }

    pub fn new(documents: &[&str]) -> Self {
        Self::of("", "", documents)
    }

    pub fn write(&mut self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("written");
        assert!(self.1.scan() | self.1.scan());
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).expect("readable")
    }

    pub fn projection(&self) -> &Projection {
        self.1.projection()
    }

    /// Errors that name a text.
    pub fn errors(&self, of: &str) -> Vec<String> {
        let errors: Vec<_> = self.1.problems().iter().filter(|problem| problem.is_error()).cloned().collect();
        lines(&errors).into_iter().filter(|line| line.contains(of)).collect()
    }

    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.projection().objects.contains_key(&(kind as i32, name.to_owned()))
    }

    pub fn service(&self) -> v1::Service {
        let Object::Service(service) = object(self.projection(), Kind::Service, "prod/s") else { panic!("a Service") };
        service.clone()
    }

    pub fn pod(&self, name: &str) -> v1::Pod {
        let Object::Pod(pod) = object(self.projection(), Kind::Pod, name) else { panic!("a Pod") };
        pod.clone()
    }

    pub fn node(&self) -> &v1::NodeConfig {
        &self.projection().node.as_ref().unwrap_or_else(|| panic!("a Node: {:#?}", lines(self.1.problems()))).0
    }
}

/// The Node with IPv6, too.
fn dual(nodes: &str) -> String {
    let nodes = nodes.replacen("    - 10.10.0.0/24\n", "    - 10.10.0.0/24\n    - fd00:10:10::/64\n", 1);
    nodes.replacen("      - 10.10.0.1\n", "      - 10.10.0.1\n      - fd00:10:10::1\n", 1)
}
