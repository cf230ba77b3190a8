//! From files to what the switch has to know: what `run` does each period.

use crate::drive::{Options, Standing};
use crate::model::Model;
use crate::problem::Problem;
use crate::project::{Key, Projection, project};
use crate::source::Directory;
use std::path::{Path, PathBuf};
use vswitch_proto::antrea::v1::Kind;

/// Files, and what they come to.
#[derive(Debug)]
pub struct Agent {
    directory: Directory,
    node: String,
    options: Options,
    projection: Projection,
    problems: Vec<Problem>,
}

impl Agent {
    /// Of the manifests in `dir` and of those beside it, this Node's view.
    pub fn new(dir: &Path, beside: &[PathBuf], node: &str, options: Options) -> Self {
        let directory = Directory::new(dir, beside);
        let (projection, problems) = (Projection::default(), Vec::new());
        Self { directory, node: node.to_owned(), options, projection, problems }
    }

    /// Looks for changes of files; whether there are any, and what they come to is new.
    pub fn scan(&mut self) -> bool {
        if !self.directory.scan() {
            return false;
        }
        let mut problems = self.directory.problems();
        let (mut model, more) = Model::new(self.directory.documents());
        problems.extend(more);
        let (mut projection, more) = project(&model, &self.node);
        problems.extend(more);
        if self.hold_back(&mut model, &projection, &mut problems) {
            projection = Projection { failed: projection.failed, ..project(&model, &self.node).0 };
        }
        problems.sort();
        problems.dedup();
        self.problems = problems;
        if self.options.is_strict && self.is_wrong() {
            return true; // what was before stays
        }
        projection.keep_failed(&self.projection);
        if projection.node.is_none() {
            projection.node = self.projection.node.take();
        }
        self.projection = projection;
        true
    }

    /// Takes Pods that are new out of the model while what may bind them is frozen as it was; whether there are any.
    fn hold_back(&self, model: &mut Model, projection: &Projection, problems: &mut Vec<Problem>) -> bool {
        let binding = [Kind::NetworkPolicy, Kind::Egress, Kind::TrafficControl].map(|kind| kind as i32);
        let is_frozen = projection.failed.iter().any(|(kind, _)| binding.contains(kind));
        if !is_frozen || self.options.opens_anyway || self.projection.node.is_none() {
            return false; // (At the start there is nothing that is frozen: the gate is shut, or nothing is told.)
        }
        let pods = projection.objects.keys().filter(|(kind, _)| *kind == Kind::Pod as i32);
        let new: Vec<&Key> = pods.filter(|key| !self.projection.objects.contains_key(*key)).collect();
        for (_, name) in &new {
            if let Some(pod) = model.pods.remove(name) {
                let reason =
                    "is new, and held back until what is wrong with policies, Egresses and TrafficControls is right";
                problems.push(pod.origin.warning("", reason));
            }
        }
        !new.is_empty()
    }

    /// Files that may be being written: what they say is not known yet.
    pub fn unsettled(&self) -> Vec<&Path> {
        self.directory.unsettled()
    }

    /// What the switch has to know.
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// What is wrong or odd.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// How far the documents can be trusted.
    pub fn standing(&self) -> Standing {
        let is_lost = |key: &Key| !self.projection.objects.contains_key(key);
        if self.directory.is_blind() || self.projection.failed.iter().any(is_lost) {
            Standing::Blind
        } else if self.is_wrong() {
            Standing::Wrong
        } else {
            Standing::Right
        }
    }

    /// Whether anything is wrong.
    pub fn is_wrong(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }
}
