//! What several tests need.

#![allow(dead_code, unreachable_pub, missing_docs)] // each test has its own part of this

use std::path::PathBuf;
use vswitch_agent::kinds::{Document, understand};
use vswitch_agent::model::Model;
use vswitch_agent::problem::Problem;
use vswitch_agent::project::{Projection, project};
use vswitch_agent::source::documents;

pub const NODE: &str = "k8s-node-control-plane";

/// The cluster of Antrea's pipeline document.
pub fn cluster() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data/antrea-cluster")
}

/// Its files, by name.
pub fn files() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(cluster()).expect("the cluster is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    paths.sort();
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).expect("readable"))).collect()
}

/// Documents and problems of a text.
pub fn read(name: &str, text: &str) -> (Vec<Document>, Vec<Problem>) {
    understand(name, documents(text).expect("YAML"))
}

/// All of a text and the Node of the document's cluster.
pub fn projected(text: &str) -> (Projection, Vec<Problem>) {
    let nodes = files().into_iter().find(|(name, _)| name == "nodes.yaml").expect("nodes").1;
    let (mut all, mut problems) = read("test.yaml", text);
    all.extend(read("nodes.yaml", &nodes).0);
    let (model, more) = Model::new(all);
    problems.extend(more);
    let (projection, more) = project(&model, NODE);
    problems.extend(more);
    (projection, problems)
}

/// Lines that people see.
pub fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
