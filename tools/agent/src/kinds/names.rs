//! Names of objects, and their labels, as Kubernetes takes them. No object has another name: a
//! document with one may be about any of its kind.

use super::Labels;
use super::wellformed::{error, is_domain, is_domain_label, is_key, is_value};
use crate::source::FieldError;

/// Kinds whose objects are selected by their labels.
pub(super) const LABELLED: [&str; 4] = ["EndpointSlice", "Namespace", "Node", "Pod"];

/// Whether an object of a kind may have this name. Nobody refers to policies by their names: any
/// that fits into a line is one.
pub(super) fn is_name(kind: &str, name: &str) -> bool {
    match kind {
        "NetworkPolicy" | "ClusterNetworkPolicy" | "AdminNetworkPolicy" | "BaselineAdminNetworkPolicy" => {
            !name.is_empty() && !name.contains('/') && !name.chars().any(char::is_control) && name.len() <= 253
        }
        "Namespace" | "Service" => is_domain_label(name),
        _ => is_domain(name),
    }
}

/// Labels of an object of a kind that no object can have.
pub(super) fn wrong_labels(kind: &str, labels: &Labels) -> Vec<FieldError> {
    if LABELLED.contains(&kind) { wrong_pairs("metadata.labels", labels) } else { Vec::new() }
}

/// Pairs of a map that are no labels.
pub(super) fn wrong_pairs(path: &str, labels: &Labels) -> Vec<FieldError> {
    let wrong = |(key, value): (&String, &String)| {
        let path = format!("{path}.{key}");
        if !is_key(key) {
            Some(error(&path, key, "key of a label"))
        } else if !is_value(value) {
            Some(error(&path, value, "value of a label"))
        } else {
            None
        }
    };
    labels.iter().filter_map(wrong).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_kinds() {
        let long = |len: usize| "a".repeat(len);
        for (name, of_label, of_domain, of_policy) in [
            ("a", true, true, true),
            ("a-1", true, true, true),
            ("1a", true, true, true),
            ("a.b", false, true, true),
            (&long(63), true, true, true),
            (&long(64), false, true, true),
            (&long(254), false, false, false),
            ("A", false, false, true),
            ("a_b", false, false, true),
            ("a ", false, false, true),
            ("-a", false, false, true),
            ("a-", false, false, true),
            ("a..b", false, false, true),
            ("\u{e7}", false, false, true),
            ("a\n", false, false, false),
            ("a/b", false, false, false),
            ("", false, false, false),
        ] {
            for (kind, expected) in
                [("Namespace", of_label), ("Service", of_label), ("ClusterGroup", of_domain), ("Pod", of_domain)]
            {
                assert_eq!(is_name(kind, name), expected, "{kind} {name:?}");
            }
            assert_eq!(is_name("ClusterNetworkPolicy", name), of_policy, "{name:?}");
        }
    }

    #[test]
    fn labels_that_no_object_can_have() {
        for (key, value, is_right) in [
            ("a", "c", true),
            ("a", "", true),
            ("x.y/a_b", "A.b-c_d", true),
            ("a", "c ", false),
            ("a", "c\0", false),
            ("a", "c-", false),
            ("a", "\u{feff}c", false),
            ("a ", "c", false),
            ("a/b/c", "c", false),
            ("", "c", false),
        ] {
            let labels = Labels::from([(key.to_owned(), value.to_owned())]);
            assert_eq!(wrong_labels("Pod", &labels).is_empty(), is_right, "{key:?} {value:?}");
            assert!(wrong_labels("Service", &labels).is_empty(), "nobody selects it");
        }
    }
}
