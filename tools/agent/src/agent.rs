//! From files to what the switch has to know: what `run` does each period.

use crate::drive::{Options, Standing};
use crate::model::Model;
use crate::problem::{NOWHERE, Problem};
use crate::project::{Key, Memory, Projection, project_after};
use crate::source::Directory;
use std::path::{Path, PathBuf};
use vswitch_proto::antrea::v1::Kind;

/// Files, and what they come to.
#[derive(Debug)]
pub struct Agent {
    directory: Directory,
    node: String,
    options: Options,
    /// The directory, as it is told.
    dir: String,
    memory: Memory,
    /// What counted at the last look.
    model: Model,
    projection: Projection,
    problems: Vec<Problem>,
}

impl Agent {
    /// Of the manifests in `dir` and of those beside it, this Node's view.
    pub fn new(dir: &Path, beside: &[PathBuf], node: &str, options: Options) -> Self {
        let directory = Directory::new(dir, beside);
        let (projection, problems, memory) = (Projection::default(), Vec::new(), Memory::default());
        let dir = dir.to_string_lossy().into_owned();
        let model = Model::default();
        Self { directory, node: node.to_owned(), options, dir, memory, model, projection, problems }
    }

    /// Looks for changes of files; whether there are any, and what they come to is new.
    pub fn scan(&mut self) -> bool {
        if !self.directory.scan() {
            return false;
        }
        let mut problems = self.directory.problems();
        let documents = self.directory.documents_after(&|key| self.model.is_disputed(key));
        let (mut model, more) = Model::after(documents, &self.model);
        problems.extend(more);
        let (mut projection, more) = project_after(&model, &self.node, &mut self.memory);
        problems.extend(more);
        if self.hold_back(&mut model, &projection, &mut problems) {
            let failed = projection.failed;
            projection = Projection { failed, ..project_after(&model, &self.node, &mut self.memory).0 };
        }
        for problem in problems.iter_mut().filter(|problem| &*problem.origin.file == NOWHERE) {
            problem.origin.file = self.dir.as_str().into();
        }
        if self.options.is_strict {
            problems = problems.into_iter().map(Problem::strictly).collect();
        }
        problems.sort();
        problems.dedup();
        self.problems = problems;
        if self.options.is_strict && self.is_wrong() {
            return true; // what was before stays
        }
        self.model = model;
        projection.keep_failed(&self.projection);
        if projection.node.is_none() {
            projection.node = self.projection.node.take();
        }
        self.projection = projection;
        true
    }

    /// Takes Pods that are new out of the model while something that cannot be read may hold a
    /// policy that binds them; whether there are any.
    fn hold_back(&self, model: &mut Model, projection: &Projection, problems: &mut Vec<Problem>) -> bool {
        if !self.directory.may_hold_more() || self.options.opens_anyway || self.projection.node.is_none() {
            return false; // (At the start the gate is shut, or nothing is told.)
        }
        let pods = projection.objects.keys().filter(|(kind, _)| *kind == Kind::Pod as i32);
        let new: Vec<&Key> = pods.filter(|key| !self.projection.objects.contains_key(*key)).collect();
        for (_, name) in &new {
            if let Some(pod) = model.pods.remove(name) {
                let reason = "is new, and held back until what cannot be read is right: a policy may be in it";
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
        if self.directory.is_blind() { Standing::Blind } else { Standing::Known }
    }

    /// Whether anything is wrong.
    pub fn is_wrong(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }
}
