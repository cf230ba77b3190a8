//! What may be a policy, and cannot be read as one.

use super::read::{KINDS, Named, Read, kind, without_meta};
use super::ruled::WrongPolicy;
use super::said::Said;
use super::{Document, DocumentBody, DocumentKey, Meta, unserved};
use crate::problem::{Origin, Problem};
use crate::source::{Tree, Unread, Value};

/// What names of lists end with of which rules that deny may be, or go by.
const DENYING: [&str; 3] = ["PolicyList", "GroupList", "NamespaceList"];

/// A document that is no YAML, as far as its text says what it is, and a policy that it may be;
/// none: that is not known.
pub fn understand_unread(file: &str, unread: &Unread) -> Vec<Document> {
    let (mut named, line) = (Named::of(&unread.words), unread.error.line);
    // What ends with its name may be cut in it. (A policy is held whatever its name is.)
    if named.class.is_none() && unread.text.trim_end().ends_with(&unread.words.name) {
        named.words.name.clear();
    }
    let origin = Origin::new(file, line, &named.what());
    let mut documents = Vec::new();
    if !unread.words.kind.is_empty() && !unread.words.kind.ends_with("List") {
        documents.push(named.wrong(origin.clone(), None));
    }
    if named.class.is_none() {
        documents.extend(suspect(&origin, Said::of(&unread.text), &unread.words.kind));
    }
    documents
}

/// A policy of which no more is known than that it may be one.
fn suspect(origin: &Origin, said: Said, kind: &str) -> Option<Document> {
    let body = DocumentBody::WrongPolicy(Box::new(WrongPolicy::unknown(said.class(kind)?)));
    let (key, origin) = (DocumentKey::default(), origin.clone());
    Some(Document { key, origin, meta: Meta::default(), says_namespace: false, body, left: None })
}

impl Read<'_> {
    pub(super) fn nameless(&mut self, origin: Origin, may_be_any: bool) {
        let key = (if may_be_any { "" } else { "." }.to_owned(), String::new());
        let body = DocumentBody::Wrong { has_meta: false, pod: None };
        self.documents.push(Document { key, origin, meta: Meta::default(), says_namespace: false, body, left: None });
    }

    /// A `List` without a list of items; whether it is one. Without items it is a file that is not
    /// filled yet.
    pub(super) fn list(&mut self, tree: &Tree) -> bool {
        let origin = Origin::new(self.file, tree.line, "");
        let kind = tree.get("kind").and_then(Tree::text).unwrap_or_default();
        let is_empty = tree.get("items").is_some_and(|items| items.value == Value::Null);
        let is_list = kind == "List" || DENYING.iter().any(|end| kind.ends_with(end));
        if kind.ends_with("List") && is_empty {
            if is_list {
                let reason = "is not filled: what the file said before stays";
                self.problems.push(origin.warning("items", reason).hint("write [] for none"));
                self.nameless(origin, false);
            }
            return true;
        }
        if is_list {
            self.problems.push(origin.error("items", "expected a sequence"));
            self.suspects(tree, &origin);
            self.nameless(origin, true);
        }
        is_list
    }

    /// Policies in what is no document, each by itself. What only speaks of one may be any.
    pub(super) fn suspects(&mut self, tree: &Tree, origin: &Origin) {
        let mut said = Said::default();
        self.look(tree, &mut said);
        self.documents.extend(suspect(origin, said, ""));
    }

    fn look(&mut self, tree: &Tree, said: &mut Said) {
        match &tree.value {
            Value::Map(entries) => {
                let named = Named::of_tree(tree);
                if named.class.is_some() {
                    let origin = Origin::new(self.file, tree.line, &named.what());
                    self.documents.push(without_meta(&named, origin, &mut tree.clone()));
                    return;
                }
                // Another document, which says what it is, is no policy.
                let is_other = named.kind.is_some() || unserved::is_silent(&named.group, &named.words.kind);
                for entry in entries.iter().filter(|_| !is_other) {
                    said.add(&entry.key);
                    self.look(&entry.value, said);
                }
            }
            Value::List(list) => list.iter().for_each(|item| self.look(item, said)),
            Value::Wrong(wrong) => {
                said.add(&wrong.text);
                wrong.values.iter().for_each(|value| self.look(value, said));
            }
            Value::Text(text) => said.add(text),
            _ => {}
        }
    }
}

impl Named {
    /// What is wrong with what a document says of what it is.
    pub(super) fn unnamed(&self, origin: &Origin, tree: &Tree) -> Option<Problem> {
        let kind = self.words.kind.as_str();
        let said = tree.get("kind").and_then(Tree::text).unwrap_or_default();
        if self.is_guessed && !said.is_empty() {
            let (field, reason) = if said == kind {
                let api = &self.words.api;
                (
                    "apiVersion",
                    format!(
                        "{api:?} has no {kind}; write networking.k8s.io/v1, crd.antrea.io/v1beta1 or policy.networking.k8s.io/v1alpha2"
                    ),
                )
            } else {
                ("kind", format!("{said:?} is no kind; write {kind}"))
            };
            return Some(origin.error(field, reason));
        }
        let mut fields = [("apiVersion", self.words.api.as_str()), ("kind", said)].into_iter();
        fields.find_map(|(field, value)| {
            let wrong = tree.get(field).and_then(Tree::wrong);
            let reason = wrong.or_else(|| value.is_empty().then_some("is required, a string"));
            reason.map(|reason| origin.error(field, reason))
        })
    }

    /// What seems to be the begin of a document of a kind that is not known: it takes nothing away.
    /// With the begin of the name of a kind it may be any.
    pub(super) fn cut(&self, origin: Origin, tree: &Tree) -> Option<Document> {
        let (group, word) = (self.group.as_str(), self.words.kind.as_str());
        let is_begin = |known: &str| known.starts_with(word) && (known == "List" || kind(group, known).is_some());
        let may_be_any = KINDS.split(", ").chain(["List"]).any(is_begin);
        let is_cut = tree.get("spec").is_none() && (self.words.name.is_empty() || may_be_any);
        let key = (if may_be_any { "" } else { "." }.to_owned(), String::new());
        is_cut.then(|| Document { key, ..self.wrong(origin, None) })
    }
}
