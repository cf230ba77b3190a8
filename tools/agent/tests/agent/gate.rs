//! One wrong document never stops a Node: the gate opens, the rest is told, and what is wrong is
//! held.

use crate::common::{NODE, lines, pod};
use crate::double::kinds_and_names;
use crate::scene::Scene;
use std::time::Duration;
use vswitch_agent::drive::{Options, Report};
use vswitch_proto::antrea::v1::{GateChange, Kind};

const MORE: &str = "more.yaml";
const K8S: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: odd}\nspec: ";
const CLUSTER: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: odd}\nspec: ";

/// A Node that starts, with the document's cluster and one more file.
async fn start(more: &str) -> Scene {
    Scene::new(Options::default(), &[(MORE, more)]).await
}

async fn step(scene: &mut Scene) -> Option<Report> {
    scene.step().await.expect("the switch answers")
}

#[tokio::test]
async fn a_node_starts_whatever_single_documents_say() {
    let right = start("apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n").await;
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
        let mut scene = start(&more).await;
        let report = step(&mut scene).await.expect("everything is told");
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
    let [old, new] = ["old", "new"].map(|name| pod("default", name, "", NODE, "10.10.0.90", ""));
    let mut scene = start(&old).await;
    scene.driver = scene.driver.retrying(Duration::from_secs(600));
    assert!(step(&mut scene).await.expect("everything is told").applied);
    scene.switch.state().gate_open = true;
    scene.switch.state().refused.insert((Kind::Pod as i32, "default/new".to_owned()));
    scene.write(MORE, &[old, new.clone()].concat());
    assert!(step(&mut scene).await.expect("the new one is told").is_refused());
    assert!(step(&mut scene).await.is_none(), "not each second");
    // Its address is free, and only then.
    scene.switch.state().refused.clear();
    scene.write(MORE, &new);
    let report = step(&mut scene).await.expect("the old one goes, the new one comes");
    assert!(report.applied && !report.is_refused(), "{report:?}");
    let state = scene.switch.state();
    let told = match state.increments.last() {
        Some(last) => kinds_and_names(&last.objects),
        None => kinds_and_names(&state.syncs.last().expect("one").1),
    };
    assert!(told.contains(&"Pod default/new".to_owned()), "{told:?}");
}
