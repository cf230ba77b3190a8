//! What a document says of itself.

use super::tree::{Entry, Tree, Value};
use std::collections::BTreeSet;

/// What the text of a document says of itself at the places where people write it; a guess.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// `apiVersion`.
    pub api: String,
    /// `kind`.
    pub kind: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Two of them are written, or two `metadata`: the object may be of another namespace.
    pub has_other_namespace: bool,
}

impl Words {
    /// Of a tree. A policy whose namespace is there twice, or not in each of its metadata, may be
    /// of another one.
    pub(crate) fn of_tree(tree: &Tree) -> Self {
        let first = |path: &[&str]| tree.all(path).into_iter().find_map(Tree::text).unwrap_or_default().to_owned();
        let namespaces = tree.all(&["metadata", "namespace"]);
        let texts: BTreeSet<&str> = namespaces.iter().filter_map(|namespace| namespace.text()).collect();
        Self {
            api: first(&["apiVersion"]),
            kind: first(&["kind"]),
            namespace: first(&["metadata", "namespace"]),
            name: first(&["metadata", "name"]),
            has_other_namespace: texts.len() > 1
                || namespaces.len() < tree.all(&["metadata"]).len() && !texts.is_empty(),
        }
    }

    /// Of the text of a document that is no YAML, and of what could be read of it before its error.
    pub(super) fn of_part(text: &str, heads: Vec<Entry>) -> Self {
        let mut tree = Tree { line: 0, value: Value::Map(Vec::new()) };
        for head in heads {
            let Value::Map(entries) = &mut tree.value else { continue };
            match entries.iter_mut().find(|entry| entry.key == head.key) {
                Some(entry) => _ = entry.value.or(head.value),
                None => entries.push(head),
            }
        }
        let (lines, mut words) = (Self::of(text), Self::of_tree(&tree));
        if words.kind.is_empty() {
            return lines;
        }
        // Its metadata may be behind the error; and behind it there may be another document.
        let has_metadata = tree.get("metadata").is_some();
        let is_other = !lines.namespace.is_empty() && lines.namespace != words.namespace;
        let is_flow = text.trim_start().starts_with(['{', '[']);
        words.has_other_namespace |= lines.has_other_namespace
            || (has_metadata && is_other)
            || (is_flow && text.matches("NetworkPolicy").count() > 1);
        if !has_metadata {
            (words.namespace, words.name) = (lines.namespace, lines.name);
        }
        words
    }

    pub(super) fn of(text: &str) -> Self {
        let mut words = Self::default();
        let (mut in_metadata, mut has_metadata) = (false, false);
        for line in text.lines() {
            let is_top = !line.starts_with([' ', '\t', '-', '#', '}', ']']) && !line.is_empty();
            let begins = is_top && line.starts_with("metadata:");
            words.has_other_namespace |= begins && has_metadata;
            has_metadata |= begins;
            if is_top {
                in_metadata = begins;
            }
            let top = |key: &str| if is_top { word(line, key) } else { None };
            let below = |key: &str| if in_metadata { word(line, key) } else { None };
            for namespace in words_of(line, "namespace").filter(|_| in_metadata) {
                words.has_other_namespace |= !words.namespace.is_empty() && words.namespace != namespace;
                if words.namespace.is_empty() {
                    namespace.clone_into(&mut words.namespace);
                }
            }
            let found = [top("apiVersion"), top("kind"), below("name")];
            let fields = [&mut words.api, &mut words.kind, &mut words.name];
            for (field, found) in fields.into_iter().zip(found) {
                if let (true, Some(found)) = (field.is_empty(), found) {
                    found.clone_into(field);
                }
            }
        }
        words
    }
}

/// The word behind the first `key:` in a line.
fn word<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    words_of(line, key).next()
}

/// The words behind each `key:` in a line.
fn words_of<'a>(line: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    let colon = format!("{key}:");
    let places: Vec<usize> = line.match_indices(&colon).map(|(at, _)| at).collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_key = move |at: &usize| !line[..*at].chars().next_back().is_some_and(is_part);
    let behind = places.into_iter().filter(is_key).map(move |at| {
        let rest = line[at + colon.len()..].trim_start().trim_start_matches(['\'', '"']);
        &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]
    });
    behind.filter(|word| !word.is_empty())
}
