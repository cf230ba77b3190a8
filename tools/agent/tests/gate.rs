//! One wrong document never stops a Node: the gate opens, the rest is told, and what is wrong is held.

#![allow(dead_code)] // of the modules below

mod common;
mod double;

use common::{NODE, files, lines, pod};
use double::{Switch, kinds_and_names};
use std::time::Duration;
use tempfile::TempDir;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::{Driver, Options, Report};
use vswitch_proto::antrea::v1::{GateChange, Kind};

const K8S: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: odd}\nspec: ";
const CLUSTER: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: odd}\nspec: ";

struct Scene {
    manifests: TempDir,
    switch: Switch,
    agent: Agent,
    driver: Driver,
}

impl Scene {
    /// A Node that starts, with the document's cluster and one more file.
    async fn new(more: &str) -> Self {
        let manifests = tempfile::tempdir().expect("a directory");
        for (name, text) in files() {
            std::fs::write(manifests.path().join(name), text).expect("written");
        }
        std::fs::write(manifests.path().join("more.yaml"), more).expect("written");
        let switch = Switch::start().await;
        let agent = Agent::new(manifests.path(), &[], NODE, Options::default());
        let driver = Driver::new(switch.socket(), Options::default());
        let mut scene = Self { manifests, switch, agent, driver };
        assert!(scene.agent.scan() | scene.agent.scan());
        scene
    }

    fn write(&mut self, text: &str) {
        std::fs::write(self.manifests.path().join("more.yaml"), text).expect("written");
        assert!(self.agent.scan() | self.agent.scan());
    }

    async fn step(&mut self) -> Option<Report> {
        self.driver.step(self.agent.projection(), self.agent.standing()).await.expect("the switch answers")
    }
}

#[tokio::test]
async fn a_node_starts_whatever_single_documents_say() {
    let right = Scene::new("apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n").await;
    let no_port =
        pod("default", "lost", "app: web", NODE, "10.10.0.90", "").replace("vswitch/port: default-lost, ", "");
    for (more, held) in [
        (no_port, None),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: odd}\nspec: {containers: 5}\n".to_owned(), None),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: odd}\nspec: {clusterIP: 10.96.7.7, ports: [{port: 80000}]}\n".to_owned(), None),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: odd}\nspec: {type: Sometimes}\n".to_owned(), None),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: odd}\nspec: [\n".to_owned(), None),
        ("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: odd}\n".to_owned(), None),
        ("apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {name: odd}\nspec: {appliedTo: {}}\n".to_owned(), None),
        ("apiVersion: crd.antrea.io/v1alpha2\nkind: TrafficControl\nmetadata: {name: odd}\nspec: {}\n".to_owned(), None),
        ("apiVersion: crd.antrea.io/v1beta1\nkind: Tier\nmetadata: {name: odd}\nspec: {priority: x}\n".to_owned(), None),
        ("apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: odd}\nspec: {x: y}\n".to_owned(), None),
        ("5\n".to_owned(), None),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: odd}\n---\nnobody: knows\n".to_owned(), None),
        (format!("{K8S}{{podSelector: {{}}, ingress: [{{x: y}}]}}\n"), Some("np:default/odd")),
        (format!("{K8S}{{podSelector: {{}}, x: y}}\n"), Some("np:default/odd (held)")),
        (format!("{K8S}[\n"), Some("np:-/odd (held)")),
        (format!("{CLUSTER}{{priority: 1, appliedTo: [{{podSelector: {{}}}}], ingress: [{{action: Deny}}]}}\n"), Some("acnp:odd")),
        (format!("{CLUSTER}{{priority: 0, appliedTo: [{{podSelector: {{}}}}], ingress: [{{action: Drop}}]}}\n"), Some("acnp:odd (held)")),
    ] {
        let mut scene = Scene::new(&more).await;
        let report = scene.step().await.expect("everything is told");
        assert!(report.was_sync && report.applied && report.gate_open, "{more}: {report:?}");
        let state = scene.switch.state();
        let (begin, objects) = &state.syncs[0];
        assert_eq!(begin.gate(), GateChange::Open, "{more}");
        let told = kinds_and_names(objects);
        for (kind, name) in right.agent.projection().objects.keys() {
            let kind = Kind::try_from(*kind).expect("a kind");
            assert!(told.contains(&format!("{kind:?} {name}")), "{name} is missing beside {more}");
        }
        let odd: Vec<_> = told.iter().filter(|told| told.starts_with("NetworkPolicy") && told.contains("odd")).collect();
        assert_eq!(odd, held.map(|held| format!("NetworkPolicy {held}")).iter().collect::<Vec<_>>(), "{more}");
        let wrong = lines(scene.agent.problems());
        assert!(wrong.iter().all(|line| line.contains("more.yaml:") && !line.contains(":0 ")), "{wrong:?}");
        assert!(!wrong.is_empty(), "it is told: {more}");
    }
}

#[tokio::test]
async fn what_frees_an_address_causes_the_next_attempt_at_once() {
    let both = [pod("default", "old", "", NODE, "10.10.0.90", ""), pod("default", "new", "", NODE, "10.10.0.90", "")];
    let mut scene = Scene::new(&both.concat()).await;
    scene.switch.state().refused.insert((Kind::Pod as i32, "default/new".to_owned()));
    assert!(scene.step().await.expect("everything is told").is_refused());
    scene.switch.state().gate_open = true;
    assert!(scene.step().await.is_none(), "not each second");
    // Something else changes: it is not tried again for that.
    scene.switch.state().refused.clear();
    scene.driver = scene.driver.retrying(Duration::from_secs(600));
    scene.write(&both[1]);
    let report = scene.step().await.expect("the old one goes, the new one comes");
    assert!(report.applied && !report.is_refused(), "{report:?}");
    let state = scene.switch.state();
    let told = match state.increments.last() {
        Some(last) => kinds_and_names(&last.objects),
        None => kinds_and_names(&state.syncs.last().expect("one").1),
    };
    assert!(told.contains(&"Pod default/new".to_owned()), "{told:?}");
}
