//! The cluster of Antrea's pipeline document: what its Node's switch is told, line by line.

use crate::common::{NODE, cluster, lines};
use std::path::PathBuf;
use vswitch_agent::agent::Agent;
use vswitch_agent::drive::Options;
use vswitch_agent::project::text;

/// What it is to be. Set UPDATE_GOLDEN to write it anew, and read the difference.
fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/document.txt")
}

#[test]
fn the_documents_cluster_is_projected_as_written_down() {
    let mut agent = Agent::new(&cluster(), &[], NODE, Options { is_strict: true, opens_anyway: false });
    assert!(agent.scan() | agent.scan(), "the second reads what is younger than two seconds");
    assert_eq!(lines(agent.problems()), [""; 0], "its YAML is right as it is");
    let projected = text(agent.projection(), false);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden(), &projected).expect("written");
    }
    let expected = std::fs::read_to_string(golden()).expect("tests/data/document.txt");
    for (i, (is, was)) in projected.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, was, "line {}", i + 1);
    }
    assert_eq!(projected, expected);
}

#[test]
fn the_other_node_sees_its_own_part() {
    let mut agent = Agent::new(&cluster(), &[], "k8s-node-worker-1", Options::default());
    assert!(agent.scan() | agent.scan());
    let problems = lines(agent.problems());
    let expected = "metadata.annotations[vswitch/port]: is required of a Pod of this Node; give the name of its port of the bridge";
    assert!(
        problems.iter().any(|line| line.ends_with(expected) && line.contains("pods.yaml:57 Pod default/web-worker")),
        "{problems:#?}"
    );
    let projected = text(agent.projection(), false);
    assert!(projected.contains("name: \"k8s-node-control-plane\"") && projected.contains("Egress {"), "{projected}");
    assert!(
        !projected.contains("Pod {") && !projected.contains("NetworkPolicy {"),
        "nothing of it is there: {projected}"
    );
}
