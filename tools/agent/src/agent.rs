//! From documents to what the switch has to know: what `run` does each period.

mod saved;

use crate::attach::{Attachments, attach};
use crate::drive::{Options, Standing};
use crate::kinds::DocumentKey;
use crate::model::Model;
use crate::problem::{NOWHERE, Problem};
use crate::project::{Key, Memory, Projection, project_after};
use crate::source::{Directory, Source};
use saved::Saved;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use vswitch_proto::antrea::v1::Kind;

/// Documents, and what they come to.
#[derive(Debug)]
pub struct Agent {
    sources: Vec<Box<dyn Source>>,
    node: String,
    options: Options,
    /// Where the documents are from, as it is told.
    place: String,
    /// Pods that the CNI server has attached; None: nobody serves the plug-in.
    attachments: Option<Attachments>,
    memory: Memory,
    /// What counted at the last look.
    model: Model,
    projection: Projection,
    problems: Vec<Problem>,
    /// Pods that are held back.
    held: BTreeSet<String>,
    /// Pods of this Node, by name and UID, that were there when nothing could hold a policy that is
    /// not known.
    settled: BTreeSet<(String, String)>,
    /// What documents say counts. (With `--strict` it may not.)
    counts: bool,
    /// Grows with each change of what counts.
    changes: u64,
    /// Where what is known is saved for the next run.
    saved: Option<Saved>,
}

impl Agent {
    /// Of the manifests in `dir` and of those beside it, this Node's view.
    pub fn new(dir: &Path, beside: &[PathBuf], node: &str, options: Options) -> Self {
        // `m`, `m/` and `./m` are one: what was saved of it is found again.
        let dir = &plain(dir);
        let directory = Box::new(Directory::new(dir, beside));
        Self::of(vec![directory], &dir.to_string_lossy(), node, options)
    }

    /// Of documents from sources, this Node's view. `place` names the sources in problems, and
    /// finds what was saved of them.
    pub fn of(sources: Vec<Box<dyn Source>>, place: &str, node: &str, options: Options) -> Self {
        Self {
            sources,
            node: node.to_owned(),
            options,
            place: place.to_owned(),
            attachments: None,
            memory: Memory::default(),
            model: Model::default(),
            projection: Projection::default(),
            problems: Vec::new(),
            held: BTreeSet::new(),
            settled: BTreeSet::new(),
            counts: true,
            changes: 0,
            saved: None,
        }
    }

    /// The same, beside a CNI server that has attached these Pods at an earlier run.
    #[must_use]
    pub fn attaching(self, attachments: Attachments) -> Self {
        Self { attachments: Some(attachments), ..self }
    }

    /// Takes over which Pods the CNI server has attached; whether that is new.
    pub fn attach(&mut self, attachments: Attachments) -> bool {
        let is_changed = self.attachments.as_ref() != Some(&attachments);
        if is_changed {
            self.attachments = Some(attachments);
            self.retake();
        }
        is_changed
    }

    /// Names of Pods that the CNI server has attached.
    pub fn attachments(&self) -> impl Iterator<Item = &String> {
        self.attachments.iter().flat_map(|attachments| attachments.keys())
    }

    /// Looks for changes of documents; whether there are any, and what they come to is new.
    pub fn scan(&mut self) -> bool {
        // (Each source looks, whatever the others have found.)
        let mut is_changed = false;
        for source in &mut self.sources {
            is_changed |= source.scan();
        }
        if is_changed {
            self.retake();
        } else {
            self.save();
        }
        is_changed
    }

    fn retake(&mut self) {
        self.counts = self.take(false);
        self.saved.iter_mut().for_each(|saved| saved.is_written = false);
        self.save();
    }

    /// Takes over what documents say; whether it counts. At the begin of a run they say what they
    /// said at the end of the one before.
    fn take(&mut self, is_begin: bool) -> bool {
        let mut problems: Vec<Problem> = self.sources.iter().flat_map(|source| source.problems()).collect();
        problems.extend(self.saved.iter().flat_map(|saved| saved.store.problems()).cloned());
        let is_disputed = |key: &DocumentKey| self.model.is_disputed(key);
        let documents = self.sources.iter().flat_map(|source| source.documents_after(&is_disputed)).collect();
        let documents = match &self.attachments {
            Some(attachments) => attach(documents, attachments, &self.node),
            None => documents,
        };
        let (mut model, more) = Model::after(documents, &self.model);
        model.gives_ports = self.attachments.is_some();
        problems.extend(more);
        let (mut projection, more) = project_after(&model, &self.node, &mut self.memory);
        problems.extend(more);
        self.settle(&model);
        if !is_begin {
            self.held = self.new_pods(&projection);
        }
        if self.hold_back(&mut model, &mut problems) {
            let failed = projection.failed;
            projection = Projection { failed, ..project_after(&model, &self.node, &mut self.memory).0 };
        }
        for problem in problems.iter_mut().filter(|problem| &*problem.origin.file == NOWHERE) {
            problem.origin.file = self.place.as_str().into();
        }
        if self.options.is_strict {
            problems = problems.into_iter().map(Problem::strictly).collect();
        }
        problems.sort();
        problems.dedup();
        self.problems = problems;
        if !is_begin && self.options.is_strict && self.is_wrong() {
            return false; // what was before stays
        }
        self.model = model;
        self.changes += 1;
        projection.keep_failed(&self.projection);
        if projection.node.is_none() {
            projection.node = self.projection.node.take();
        }
        self.projection = projection;
        true
    }

    /// Pods that are new while something that cannot be read may hold a policy that binds them.
    fn new_pods(&self, projection: &Projection) -> BTreeSet<String> {
        if !self.sources.iter().any(|source| source.may_hold_more())
            || self.options.opens_anyway
            || self.projection.node.is_none()
        {
            return BTreeSet::new(); // (At the start the gate is shut, or nothing is told.)
        }
        // The CNI server attaches a Pod again when its sandbox is made anew: that is no new Pod.
        let returns = |name: &String| {
            self.attachments.is_some()
                && self.settled.range((name.clone(), String::new())..).next().is_some_and(|(of, _)| of == name)
        };
        let pods = projection.objects.keys().filter(|(kind, _)| *kind == Kind::Pod as i32);
        let is_new = |key: &&Key| !self.projection.objects.contains_key(*key) && !returns(&key.1);
        pods.filter(is_new).map(|(_, name)| name.clone()).collect()
    }

    /// Takes note of the Pods that are there. What cannot be read may bind those that come.
    fn settle(&mut self, model: &Model) {
        let pods = model.pods.iter().filter(|(_, pod)| pod.body.spec.node_name == self.node);
        let mut here: BTreeSet<_> = pods.map(|(name, pod)| (name.clone(), pod.meta.uid.clone())).collect();
        if self.sources.iter().any(|source| source.may_hold_more()) {
            here.retain(|pod| self.settled.contains(pod));
        }
        self.settled = here;
    }

    /// Takes Pods that are held back out of the model; whether there are any.
    fn hold_back(&self, model: &mut Model, problems: &mut Vec<Problem>) -> bool {
        for name in &self.held {
            if let Some(pod) = model.pods.remove(name) {
                let reason = "is new, and held back until what cannot be read is right: a policy may be in it";
                problems.push(pod.origin.warning("", reason));
            }
        }
        !self.held.is_empty()
    }

    /// Files that may be being written: what they say is not known yet.
    pub fn unsettled(&self) -> Vec<PathBuf> {
        self.sources.iter().flat_map(|source| source.unsettled()).collect()
    }

    /// Whether the next scan decides what becomes of files that are not there any more.
    pub fn is_forgetting(&self) -> bool {
        self.sources.iter().any(|source| source.is_forgetting())
    }

    /// What the switch has to know.
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// What Egresses lack that name a pool.
    #[cfg(feature = "cluster")]
    pub fn lacking(&self) -> crate::assign::Lacking {
        crate::assign::lacking(&self.model)
    }

    /// Grows with each change of the model and the projection.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What all documents declare.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Whether the projection is of the documents as they are. (With `--strict` it may not be.)
    #[cfg(feature = "cluster")]
    pub(crate) fn counts(&self) -> bool {
        self.counts
    }

    /// What is wrong or odd.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// How far the documents can be trusted.
    pub fn standing(&self) -> Standing {
        let is_blind = self.sources.iter().any(|source| source.is_blind());
        if is_blind { Standing::Blind } else { Standing::Known }
    }

    /// Whether anything is wrong.
    pub fn is_wrong(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }
}

/// A path without what means nothing in it. `.` alone stays.
fn plain(path: &Path) -> PathBuf {
    let plain: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    if plain.as_os_str().is_empty() { path.to_owned() } else { plain }
}
