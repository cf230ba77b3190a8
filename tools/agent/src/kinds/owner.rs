//! The owner of a Pod: it names the Pod's workload in what is told of the Pod. It decides nothing.

use crate::source::{Tree, Value};
use serde::{Deserialize, Serialize};

/// References of an object that are looked at.
const REFERENCES_MAX: usize = 64;

/// Bytes of a kind or name.
const NAME_LEN_MAX: usize = 253;

/// The controller of a Pod.
///
/// All owners are equal. Two documents of a Pod that differ only in the owner say the same: the
/// owner has no part in policies.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Its kind. Empty: the Pod has no controller.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl PartialEq for Owner {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Owner {
    /// The controller among the references of a document. What cannot be read is no owner.
    pub(super) fn of(document: &Tree) -> Self {
        let Some(Value::List(owners)) = document.at(&["metadata", "ownerReferences"]).map(|tree| &tree.value) else {
            return Self::default();
        };
        let is_controller =
            |owner: &&Tree| owner.get("controller").is_some_and(|given| given.value == Value::Bool(true));
        let text = |owner: &Tree, field: &str| {
            let text = owner.get(field).and_then(Tree::text).filter(|text| text.len() <= NAME_LEN_MAX);
            text.map(str::to_owned)
        };
        let found = owners.iter().take(REFERENCES_MAX).find(is_controller);
        let owner = found.and_then(|owner| Some(Self { kind: text(owner, "kind")?, name: text(owner, "name")? }));
        owner.unwrap_or_default()
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.kind.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::understand;
    use crate::source::documents;

    fn owner(references: &str) -> (String, String) {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  ownerReferences: {references}\nspec: {{containers: [{{name: c}}]}}\n"
        );
        let (documents, problems) = understand("p.yaml", documents(&text).expect("YAML"));
        assert!(problems.is_empty(), "{problems:?}");
        let owner = documents[0].meta.owner.clone();
        (owner.kind, owner.name)
    }

    #[test]
    fn the_controller_of_a_pod_is_its_owner() {
        let own = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
        assert_eq!(
            owner("[{kind: A, name: a}, {kind: ReplicaSet, name: r, controller: true}]"),
            own("ReplicaSet", "r")
        );
        // An owner that cannot be read makes nothing wrong.
        for odd in ["[]", "5", "[5]", "[{controller: true}]", "[{kind: A, name: 7, controller: true}]", "{}"] {
            assert_eq!(owner(odd), own("", ""), "{odd}");
        }
    }

    #[test]
    fn documents_that_differ_in_the_owner_are_equal() {
        let owner = |name: &str| super::Owner { kind: "Job".to_owned(), name: name.to_owned() };
        assert_eq!(owner("a"), owner("b"));
    }
}
