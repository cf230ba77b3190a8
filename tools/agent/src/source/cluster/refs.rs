//! What is known of objects of the API server beside what they declare: UID, generation, status.

use super::table::{Kind, kinds};
use crate::source::{Tree, Value};
use std::collections::{BTreeMap, HashMap};

/// Conditions that are kept of a status; ours are among the first ones.
const CONDITIONS_MAX: usize = 32;

/// Bytes that are kept of a text of a status. Ours are shorter.
const TEXT_LEN_MAX: usize = 1024;

/// The object of the API server that a document comes from.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// Its `apiVersion`, as it is served.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty where the kind has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// A condition of a status, without its time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// True, False or Unknown.
    pub status: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The generation that it is about; 0: it does not say.
    pub observed_generation: i64,
}

/// A status, as far as agents write it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectStatus {
    /// `phase`.
    pub phase: String,
    /// `observedGeneration`.
    pub observed_generation: i64,
    /// `currentNodesRealized`.
    pub current_nodes: i64,
    /// `desiredNodesRealized`.
    pub desired_nodes: i64,
    /// `conditions` by their types.
    pub conditions: BTreeMap<String, Condition>,
    /// `usage`: total and used.
    pub usage: Option<[i64; 2]>,
}

/// An object of a kind whose status agents write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which one.
    pub object: ObjectRef,
    /// Its name in paths.
    pub plural: &'static str,
    /// Its generation.
    pub generation: i64,
    /// Its status.
    pub status: ObjectStatus,
}

/// What an object says of itself beside its documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    generation: i64,
    /// Of kinds whose status agents write.
    status: Option<Box<ObjectStatus>>,
}

fn int(tree: Option<&Tree>) -> i64 {
    match tree.map(|tree| &tree.value) {
        Some(Value::Int(number)) => *number,
        _ => 0,
    }
}

fn text(tree: &Tree, field: &str) -> String {
    let text = tree.get(field).and_then(Tree::text).unwrap_or_default();
    text[..text.floor_char_boundary(TEXT_LEN_MAX)].to_owned()
}

impl ObjectStatus {
    fn of(tree: &Tree) -> Self {
        let list = tree.get("conditions").map(|conditions| &conditions.value);
        let list = if let Some(Value::List(list)) = list { list.as_slice() } else { &[] };
        let condition = |of: &Tree| {
            let [status, reason, message] = ["status", "reason", "message"].map(|field| text(of, field));
            let condition =
                Condition { status, reason, message, observed_generation: int(of.get("observedGeneration")) };
            (text(of, "type"), condition)
        };
        let usage = |usage: &Tree| ["total", "used"].map(|field| int(usage.get(field)));
        Self {
            phase: text(tree, "phase"),
            observed_generation: int(tree.get("observedGeneration")),
            current_nodes: int(tree.get("currentNodesRealized")),
            desired_nodes: int(tree.get("desiredNodesRealized")),
            conditions: list.iter().take(CONDITIONS_MAX).map(condition).collect(),
            usage: tree.get("usage").map(usage),
        }
    }
}

impl Said {
    pub(super) fn of(kind: &Kind, tree: &Tree) -> Self {
        let status = || tree.get("status").map(ObjectStatus::of).unwrap_or_default();
        Self {
            generation: int(tree.at(&["metadata", "generation"])),
            status: kind.has_our_status.then(|| Box::new(status())),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Known {
    group: &'static str,
    version: &'static str,
    uid: String,
    said: Said,
}

/// Objects by their kinds and names as [`crate::problem::Origin`] says them. Two groups may have a
/// kind of one name.
#[derive(Debug, Default)]
pub(super) struct Refs {
    known: HashMap<String, Vec<Known>>,
    /// Changes so far.
    changes: u64,
}

impl Refs {
    pub(super) fn put(&mut self, kind: &Kind, object: &str, version: &'static str, (uid, said): (&str, Said)) {
        let of_what = self.known.entry(format!("{} {object}", kind.kind)).or_default();
        let known = Known { group: kind.group, version, uid: uid.to_owned(), said };
        match of_what.iter_mut().find(|old| old.group == kind.group) {
            Some(found) if *found == known => return,
            Some(found) => *found = known,
            None => of_what.push(known),
        }
        self.changes += u64::from(kind.has_our_status);
    }

    pub(super) fn remove(&mut self, kind: &Kind, object: &str) {
        let what = format!("{} {object}", kind.kind);
        if let Some(of_what) = self.known.get_mut(&what) {
            of_what.retain(|known| known.group != kind.group);
            if of_what.is_empty() {
                self.known.remove(&what);
            }
            self.changes += u64::from(kind.has_our_status);
        }
    }

    /// The object of a group that documents call so.
    pub(super) fn get(&self, what: &str, group: &str) -> Option<ObjectRef> {
        self.known.get(what)?.iter().find(|known| known.group == group)?.object(what)
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Objects of kinds whose status agents write.
    pub(super) fn standings(&self) -> Vec<Standing> {
        let all = self.known.iter().flat_map(|(what, of_what)| of_what.iter().map(move |known| (what, known)));
        let standing = |(what, known): (&String, &Known)| {
            let status = known.said.status.as_deref()?.clone();
            let object = known.object(what)?;
            let kind = kinds().find(|kind| kind.group == known.group && kind.kind == object.kind)?;
            let generation = known.said.generation;
            (!known.uid.is_empty()).then_some(Standing { object, plural: kind.plural, generation, status })
        };
        let mut all: Vec<Standing> = all.filter_map(standing).collect();
        all.sort_by(|one, other| one.object.cmp(&other.object));
        all
    }
}

impl Known {
    fn object(&self, what: &str) -> Option<ObjectRef> {
        let (kind, full_name) = what.split_once(' ')?;
        let (namespace, name) = full_name.split_once('/').unwrap_or(("", full_name));
        let (group, version) = (self.group, self.version);
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let [kind, namespace, name] = [kind, namespace, name].map(str::to_owned);
        Some(ObjectRef { api_version, kind, namespace, name, uid: self.uid.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::Object;
    use super::*;

    #[test]
    fn a_status_is_read_as_far_as_it_is_right() {
        let kind = kinds().find(|kind| kind.kind == "ClusterGroup").expect("it is followed");
        let said = |json: &str| {
            let object: Object = serde_json::from_str(json).expect("it is JSON");
            Said::of(kind, &object.tree)
        };
        let long = "x".repeat(5000);
        let right = said(&format!(
            r#"{{"metadata": {{"generation": 7}}, "status": {{"phase": "Realized", "observedGeneration": 6,
            "conditions": [{{"type": "A", "status": "True", "message": "{long}"}}, 5], "usage": {{"total": 9}}}}}}"#
        ));
        let status = right.status.expect("it has one");
        assert_eq!((right.generation, status.phase.as_str(), status.observed_generation), (7, "Realized", 6));
        assert_eq!((status.usage, status.conditions["A"].message.len()), (Some([9, 0]), TEXT_LEN_MAX));
        for odd in
            ["{}", "5", r#"{"metadata": {"generation": "7"}, "status": []}"#, r#"{"status": {"conditions": {}}}"#]
        {
            assert_eq!(said(odd), Said { generation: 0, status: Some(Box::default()) }, "{odd}");
        }
    }
}
