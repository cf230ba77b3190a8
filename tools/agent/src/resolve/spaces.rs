//! Namespaces as selectors see them: what is known of their labels, and what is not.

use super::selector::matches;
use crate::kinds::Labels;
use crate::kinds::selector::Selector;
use crate::model::Model;
use std::collections::BTreeMap;

/// The label that is known of each Namespace.
const NAME: &str = "kubernetes.io/metadata.name";

/// Which namespaces.
#[derive(Clone, Debug, PartialEq)]
pub enum Spaces {
    /// One.
    One(String),
    /// Those with these labels.
    Matching(Selector),
    /// Those whose labels have these values; empty: there is none.
    Same(BTreeMap<String, String>),
    /// Those with labels that are not known.
    Unknown,
    /// All.
    All,
}

/// Whether something is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    No,
    /// That is not known.
    Maybe,
    Yes,
}

impl From<bool> for Meant {
    fn from(is_meant: bool) -> Self {
        if is_meant { Self::Yes } else { Self::No }
    }
}

/// A namespace that has Pods.
#[derive(Debug)]
pub(super) struct Space {
    /// Its labels as far as they are known.
    pub(super) labels: Labels,
    /// What documents that do not count say, while none was in force.
    others: Vec<Labels>,
    /// It has a document.
    pub(super) is_there: bool,
    /// A document of it is not understood, or says other labels.
    is_wrong: bool,
    /// All labels of the document that counts are known.
    knows_labels: bool,
}

impl Space {
    pub(super) fn new(model: &Model, name: &str) -> Self {
        let is_name = |labels: &Labels| {
            let mut labels = labels.clone();
            labels.insert(NAME.to_owned(), name.to_owned());
            labels
        };
        Self {
            labels: model.namespace_labels(name),
            others: model.other_labels.get(name).into_iter().flatten().map(is_name).collect(),
            is_there: model.namespaces.contains_key(name),
            is_wrong: model.is_wrong("Namespace.", name),
            knows_labels: !model.has_unknown_labels("Namespace.", name),
        }
    }

    /// Whether not all of its labels are known, or may be others.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_wrong || !self.is_there
    }

    /// Whether it has no document at all, not even a wrong one.
    pub(super) fn is_missing(&self) -> bool {
        !self.is_there && !self.is_wrong
    }

    /// Whether it is among namespaces. Its name is known whatever else is not.
    pub(super) fn is_among(&self, spaces: &Spaces, name: &str) -> Meant {
        match spaces {
            Spaces::One(one) => (one == name).into(),
            Spaces::Matching(selector) => self.meets(selector),
            Spaces::Same(wanted) if wanted.is_empty() => Meant::No,
            Spaces::Same(wanted) => self.meets(&Selector { match_labels: wanted.clone(), ..Selector::default() }),
            Spaces::Unknown => Meant::Maybe,
            Spaces::All => Meant::Yes,
        }
    }

    fn meets(&self, selector: &Selector) -> Meant {
        if !self.is_in_doubt() && self.knows_labels {
            return matches(selector, &self.labels).into();
        }
        let (mut by_name, mut rest) = (selector.clone(), selector.clone());
        by_name.match_labels.retain(|key, _| key == NAME);
        by_name.match_expressions.retain(|expression| expression.key == NAME);
        rest.match_labels.retain(|key, _| key != NAME);
        rest.match_expressions.retain(|expression| expression.key != NAME);
        let all_say = || std::iter::once(&self.labels).chain(&self.others).all(|of| matches(&rest, of));
        let is_met = || self.is_there && self.knows_labels && all_say();
        if !matches(&by_name, &self.labels) {
            Meant::No
        } else if rest == Selector::default() || is_met() {
            Meant::Yes
        } else {
            Meant::Maybe
        }
    }
}
