//! An agent that reads files, and a double of the switch.

use crate::common::{NODE, files};
use crate::double::Switch;
use std::path::PathBuf;
use tempfile::TempDir;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::{DriveError, Driver, Options, Report};

pub struct Scene {
    pub manifests: TempDir,
    pub switch: Switch,
    pub agent: Agent,
    pub driver: Driver,
}

impl Scene {
    /// A Node that starts, with the document's cluster and more files, by name.
    pub async fn new(options: Options, more: &[(&str, &str)]) -> Self {
        let manifests = tempfile::tempdir().expect("a directory");
        for (name, text) in files() {
            std::fs::write(manifests.path().join(name), text).expect("written");
        }
        for (name, text) in more {
            std::fs::write(manifests.path().join(name), text).expect("written");
        }
        let switch = Switch::start().await;
        let agent = Agent::new(manifests.path(), &[], NODE, options);
        let driver = Driver::new(switch.socket(), options);
        let mut scene = Self { manifests, switch, agent, driver };
        scene.scan();
        scene
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.manifests.path().join(name)
    }

    /// Writes a file, and looks at the files until that is seen.
    pub fn write(&mut self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
        self.scan();
    }

    /// Replaces text in a file, and looks at the files until that is seen.
    pub fn edit(&mut self, name: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(name)).expect("readable");
        assert!(text.contains(from), "{from:?} is in {name}");
        self.write(name, &text.replacen(from, to, 1));
    }

    /// Another agent that knows nothing of before.
    pub fn begin_anew(&mut self) {
        self.agent = Agent::new(self.manifests.path(), &[], NODE, Options::default());
        self.scan();
    }

    /// Looks twice: the second look reads what is new.
    pub fn scan(&mut self) {
        let seen = [self.agent.scan(), self.agent.scan()];
        assert!(seen.contains(&true), "the change is seen");
    }

    pub async fn step(&mut self) -> Result<Option<Report>, DriveError> {
        self.driver.step(self.agent.projection(), self.agent.standing()).await
    }

    pub async fn report(&mut self) -> Report {
        self.step().await.expect("the switch answers").expect("there is something to tell")
    }
}
