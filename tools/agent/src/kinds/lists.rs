//! Lists of documents: as many documents as they have items.

use super::misspelt::{is_like_ours, is_near, is_policy_like};
use super::unserved;
use crate::source::{Entry, Tree, Value};

/// What all lists end with.
const LIST: &str = "List";

/// Whether documents of a group and a kind are read.
type IsRead<'a> = &'a dyn Fn(&str, &str) -> bool;

/// The documents of a tree. Lists whose kind is misspelt come with their lines into `misspelt`:
/// what is in them counts, since a policy may be.
pub(super) fn unrolled(mut tree: Tree, is_read: IsRead<'_>, misspelt: &mut Vec<(usize, String)>) -> Vec<Tree> {
    let word = |field: &str| tree.get(field).and_then(Tree::text).unwrap_or_default().to_owned();
    let (api, said) = (word("apiVersion"), word("kind"));
    // What is no list stays as it is: `Read::list` tells of it.
    let has_items = tree.get("items").is_some_and(|items| matches!(items.value, Value::List(_)));
    let group = api.split_once('/').map_or("", |(group, _)| group);
    let inner = match said.strip_suffix(LIST) {
        Some(inner) => inner,
        None if has_items && !is_read(group, &said) && !unserved::is_silent(group, &said) => {
            let Some(inner) = misspelt_list(&said) else { return vec![tree] };
            misspelt.push((tree.line, said.clone()));
            inner
        }
        None => return vec![tree],
    };
    if !has_items {
        return vec![tree];
    }
    let Some(Value::List(mut items)) = tree.take("items").map(|items| items.value) else { return Vec::new() };
    // Items without a kind in a list of Kubernetes' own whose kind is not known may be anything.
    let is_given_on = is_read(group, inner) || !unserved::is_unknown(group, inner) || is_of_others(group);
    if is_given_on || is_like_ours(inner) || is_policy_like(inner) {
        items.iter_mut().for_each(|item| inherit(item, &api, inner));
    }
    items.into_iter().flat_map(|item| unrolled(item, is_read, misspelt)).collect()
}

/// Of `list`, `Lists`, `podlist`: what is in front of it. None: it is no list.
fn misspelt_list(said: &str) -> Option<&str> {
    if is_near(said, LIST) {
        return Some("");
    }
    let ends = [4, 5, 3].into_iter().filter_map(|len| said.split_at_checked(said.len().checked_sub(len)?));
    let mut found = ends.filter(|(inner, end)| is_near(end, LIST) && (is_like_ours(inner) || is_policy_like(inner)));
    found.next().map(|(inner, _)| inner)
}

/// Whether kinds of a group are other people's.
fn is_of_others(group: &str) -> bool {
    !unserved::is_kubernetes(group)
        && !group.ends_with("k8s.io")
        && !group.ends_with("kubernetes.io")
        && !group.ends_with("antrea.io")
}

/// An item that says neither version nor kind has those of its list, as `kubectl` reads it: API
/// servers print a `PodList` so.
fn inherit(item: &mut Tree, api: &str, kind: &str) {
    let is_given = |field: &str| item.get(field).is_some_and(|given| given.value != Value::Null);
    if kind.is_empty() || is_given("apiVersion") || is_given("kind") {
        return;
    }
    let line = item.line;
    let Value::Map(entries) = &mut item.value else { return };
    entries.retain(|entry| entry.key != "apiVersion" && entry.key != "kind");
    entries.extend([("apiVersion", api), ("kind", kind)].map(|(key, text)| Entry {
        key: key.to_owned(),
        line,
        value: Tree { line, value: Value::Text(text.to_owned()) },
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_are_misspelt() {
        for (said, expected) in [
            ("list", Some("")),
            ("LisT", Some("")),
            ("Lists", Some("")),
            ("Lst", Some("")),
            ("Lits", Some("")),
            ("podlist", Some("pod")),
            ("PodLists", Some("Pod")),
            ("NetworkPolicylist", Some("NetworkPolicy")),
            ("NetworkPolicyLst", Some("NetworkPolicy")),
            ("ClusterNetworkPolicylist", Some("ClusterNetworkPolicy")),
            ("Allowlist", None),
            ("Blocklist", None),
            ("Mist", Some("")),
            ("Wishlist", None),
            ("Template", None),
            ("", None),
            ("\u{e9}\u{e9}", None),
        ] {
            assert_eq!(misspelt_list(said), expected, "{said}");
        }
    }
}
