//! Tiers that Antrea refuses: they stay as they were, and what one tier denies, no other one opens.

use crate::common::{NODE, files, lines, pods};
use std::fs;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::Options;
use vswitch_agent::project::text;

fn tier(name: &str, priority: u32) -> String {
    format!(
        "apiVersion: crd.antrea.io/v1beta1\nkind: Tier\nmetadata: {{name: {name}}}\nspec: {{priority: {priority}}}\n"
    )
}

fn policy(name: &str, tier: &str, action: &str) -> String {
    format!(
        "---\napiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {{name: {name}}}\n\
         spec: {{priority: 1, tier: {tier}, appliedTo: [{{podSelector: {{}}}}], ingress: [{{action: {action}}}]}}\n"
    )
}

/// An agent, and the files that it reads.
struct Scene(tempfile::TempDir, Agent);

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in files() {
            fs::write(dir.path().join(name), text).expect("written");
        }
        let policies =
            [policy("deny", "t1", "Drop"), policy("allow", "t2", "Allow"), policy("app", "application", "Allow")];
        fs::write(dir.path().join("pods-of-tests.yaml"), pods()).expect("written");
        fs::write(dir.path().join("policies-of-tests.yaml"), policies.concat()).expect("written");
        let agent = Agent::new(dir.path(), &[], NODE, Options::default());
        Self(dir, agent)
    }

    fn write(&mut self, tiers: &[(&str, u32)]) {
        let all: Vec<String> = tiers.iter().map(|(name, priority)| tier(name, *priority)).collect();
        fs::write(self.0.path().join("tiers-of-tests.yaml"), all.join("---\n")).expect("written");
        assert!(self.1.scan() | self.1.scan());
    }

    fn begin_anew(&mut self) {
        self.1 = Agent::new(self.0.path(), &[], NODE, Options::default());
        self.1.scan();
        self.1.scan();
    }

    fn text(&self) -> String {
        text(self.1.projection(), false)
    }
}

const RIGHT: [(&str, u32); 2] = [("t1", 20), ("t2", 30)];

#[test]
fn a_tier_that_is_refused_stays_as_it_was_and_is_told() {
    let mut scene = Scene::new();
    scene.write(&RIGHT);
    let before = scene.text();
    assert!(before.contains("tier: 20,") && before.contains("tier: 30,") && !scene.1.is_wrong());
    for wrong in [
        vec![("t1", 251), ("t1", 20), ("t2", 30)],
        vec![("t1", 20), ("t1", 251), ("t2", 30)],
        vec![("t1", 20), ("t2", 30), ("application", 10)],
        vec![("t1", 20), ("t2", 30), ("baseline", 1)],
        vec![("t1", 250), ("t2", 30)],
        vec![("t1", 253), ("t2", 30)],
        vec![("t1", 50), ("t2", 30)],
        vec![("t1", 30), ("t2", 30)],
        vec![("t1", 20), ("t2", 20)],
        vec![("t0", 20), ("t1", 30), ("t2", 250)],
        vec![("t1", 30), ("t2", 50)],
    ] {
        scene.write(&wrong);
        assert!(scene.1.is_wrong(), "{wrong:?}");
        assert_eq!(scene.text(), before, "{wrong:?} {:#?}", lines(scene.1.problems()));
        scene.write(&RIGHT);
        assert!(!scene.1.is_wrong(), "{:#?}", lines(scene.1.problems()));
        assert_eq!(scene.text(), before);
    }
    // What is right changes: a swap, a built-in tier as it is, a place that a Tier has left that no
    // policy names.
    scene.write(&[("t1", 30), ("t2", 20), ("application", 250), ("t3", 40)]);
    assert!(!scene.1.is_wrong(), "{:#?}", lines(scene.1.problems()));
    assert_ne!(scene.text(), before);
    scene.write(&[("t1", 40), ("t2", 20)]);
    assert!(!scene.1.is_wrong() && scene.text().contains("tier: 40,"), "{:#?}", lines(scene.1.problems()));
}

#[test]
fn a_tier_that_never_was_right_has_no_place_and_its_policies_are_held() {
    for wrong in
        [vec![("t1", 251), ("t1", 20), ("t2", 30)], vec![("t1", 250), ("t2", 30)], vec![("t2", 30), ("t1", 30)]]
    {
        let mut scene = Scene::new();
        scene.write(&wrong);
        scene.begin_anew();
        assert!(scene.1.is_wrong(), "{wrong:?}");
        assert!(scene.text().contains("acnp:deny (held)"), "{wrong:?} {:#?}", lines(scene.1.problems()));
        scene.write(&RIGHT);
        assert!(!scene.1.is_wrong() && !scene.text().contains("(held)"), "{:#?}", lines(scene.1.problems()));
    }
}
