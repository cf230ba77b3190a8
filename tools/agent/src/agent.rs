//! From files to what the switch has to know: what `run` does each second.

use crate::drive::Standing;
use crate::model::Model;
use crate::problem::Problem;
use crate::project::{Key, Projection, project};
use crate::source::Directory;
use std::path::{Path, PathBuf};

/// Files, and what they come to.
#[derive(Debug)]
pub struct Agent {
    directory: Directory,
    node: String,
    is_strict: bool,
    projection: Projection,
    problems: Vec<Problem>,
}

impl Agent {
    /// Of the manifests in `dir` and of those beside it, this Node's view.
    pub fn new(dir: &Path, beside: &[PathBuf], node: &str, is_strict: bool) -> Self {
        let directory = Directory::new(dir, beside);
        let (projection, problems) = (Projection::default(), Vec::new());
        Self { directory, node: node.to_owned(), is_strict, projection, problems }
    }

    /// Looks for changes of files; whether there are any, and what they come to is new.
    pub fn scan(&mut self) -> bool {
        if !self.directory.scan() {
            return false;
        }
        let mut problems = self.directory.problems();
        let (model, more) = Model::new(self.directory.documents());
        problems.extend(more);
        let (mut projection, more) = project(&model, &self.node);
        problems.extend(more);
        problems.sort();
        problems.dedup();
        self.problems = problems;
        if self.is_strict && self.is_wrong() {
            return true; // what was before stays
        }
        projection.keep_failed(&self.projection);
        if projection.node.is_none() {
            projection.node = self.projection.node.take();
        }
        self.projection = projection;
        true
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
