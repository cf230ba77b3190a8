//! Policies that go wrong: they stay as they were, and whom they do not bind is held.

use crate::common::{CLUSTER, K8S, NODE, applied, files, lines, pod, pods, policies};
use std::fs;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::{Options, Standing};
use vswitch_agent::project::text;
use vswitch_proto::antrea::v1::Kind;

fn held(lines: &[String]) -> Vec<&str> {
    let held = lines.iter().filter_map(|line| line.split_once(": until it is right, "));
    held.map(|(_, held)| held).collect()
}

/// An agent, and the files that it reads.
struct Scene(tempfile::TempDir, Agent);

impl Scene {
    fn new(more: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files() {
            fs::write(dir.path().join(name), text).expect("written");
        }
        fs::write(dir.path().join("pods-of-tests.yaml"), pods()).expect("written");
        let agent = Agent::new(dir.path(), &[], NODE, Options::default());
        let mut scene = Self(dir, agent);
        scene.write("more.yaml", more);
        scene
    }

    fn write(&mut self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("written");
        assert!(self.1.scan() | self.1.scan());
    }

    fn held(&self) -> Vec<String> {
        held(&lines(self.1.problems())).into_iter().map(str::to_owned).collect()
    }
}

#[test]
fn a_policy_that_was_right_stays_and_only_those_are_held_whom_it_does_not_bind() {
    let spec = |selector: &str, more: &str| {
        format!("{K8S}spec: {{podSelector: {{matchLabels: {selector}}}, ingress: [{{ports: [{{port: 1}}]}}{more}]}}\n")
    };
    let mut scene = Scene::new(&spec("{app: web}", ""));
    let before = text(scene.1.projection(), false);
    // A wrong rule, an unknown field: it stays.
    for bad in [spec("{app: web}", ", {x: y}"), spec("{app: web}", "").replace("spec: {", "spec: {x: y, ")] {
        scene.write("more.yaml", &bad);
        assert!(scene.1.is_wrong() && scene.1.standing() == Standing::Known, "{bad}");
        assert_eq!((text(scene.1.projection(), false), scene.held()), (before.clone(), vec![]), "{bad}");
    }
    // A new Pod that it binds is bound.
    scene.write("new.yaml", &pod("a", "web3", "app: web", NODE, "10.10.0.77", ""));
    assert!(applied(scene.1.projection(), "pods app=web of namespace a").contains(&"a/web3".to_owned()));
    assert_eq!(scene.held(), [""; 0]);
    // What the new form may bind besides is held; nobody else.
    scene.write("new.yaml", &pod("a", "other", "app: other", NODE, "10.10.0.78", ""));
    scene.write("more.yaml", &spec("{}", ", {x: y}"));
    assert_eq!(scene.held(), ["what comes in is dropped for a/other"]);
    assert_eq!(policies(scene.1.projection()).iter().filter(|name| name.contains("a/p")).count(), 2);
    // No YAML at all: all stays as it was, and those to come wait.
    scene.write("more.yaml", &spec("{}", ", {").replace("]}\n", ""));
    let expected = vec!["what comes in is dropped for a/other".to_owned()];
    assert_eq!((scene.held(), scene.1.standing()), (expected, Standing::Known));
    assert!(text(scene.1.projection(), false).contains("port: 1,"));
    scene.write("new2.yaml", &pod("a", "late", "app: late", NODE, "10.10.0.79", ""));
    let late = (Kind::Pod as i32, "a/late".to_owned());
    assert!(!scene.1.projection().objects.contains_key(&late), "it may be bound");
    scene.write("more.yaml", &spec("{app: web}", ""));
    assert!(scene.1.projection().objects.contains_key(&late) && scene.1.problems().iter().all(|p| !p.is_error()));
    fs::remove_file(scene.0.path().join("more.yaml")).expect("removed");
    scene.1.scan();
    scene.1.scan();
    assert!(!policies(scene.1.projection()).iter().any(|name| name.contains("a/p")), "it is gone with its file");
}

#[test]
fn a_policy_whose_text_is_no_yaml_and_never_was_holds_its_namespace() {
    for (bad, expected) in [
        (format!("{K8S}spec: ["), "everything is dropped for a/web1, a/web2"),
        (
            "kind: NetworkPolicy\nmetadata:\n  namespace: a\nspec: [".to_owned(),
            "everything is dropped for a/web1, a/web2",
        ),
    ] {
        let scene = Scene::new(&bad);
        assert_eq!((scene.held(), scene.1.standing()), (vec![expected.to_owned()], Standing::Known), "{bad}");
    }
    let scene = Scene::new("kind: [");
    assert_eq!((scene.held(), scene.1.standing()), (vec![], Standing::Blind), "nothing of it can be read");
}

#[test]
fn a_tier_that_is_gone_leaves_its_policies_where_they_were() {
    let tier = "apiVersion: crd.antrea.io/v1beta1\nkind: Tier\nmetadata: {name: gold}\nspec: {priority: 7}\n";
    let mut scene = Scene::new(tier);
    let policy = "spec: {priority: 1, tier: gold, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]}\n";
    scene.write("policy.yaml", &format!("{CLUSTER}{policy}"));
    let before = text(scene.1.projection(), false);
    assert!(before.contains("tier: 7,"));
    scene.write("more.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {env: prod}}\n");
    assert_eq!(text(scene.1.projection(), false), before);
    assert!(lines(scene.1.problems()).iter().any(|line| line.contains("there is no Tier \"gold\" any more")));
}
