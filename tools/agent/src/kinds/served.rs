//! Objects of an API server: newer servers have fields that are not known here.
//!
//! Files are written by people, so a field that is not known is misspelt. An API server says only
//! fields that its version has. So a field that is not known is left out, and the rest is read.
//!
//! **What is not left out** is a field without which something would mean all. It stays, and is an
//! error as in a file: its rule, or its policy, is wrong and held. These are
//! - the only field of its mapping: a peer of a new kind would else be any peer;
//! - a field of a port that says no number or name: it would else be all ports;
//! - a field of a rule that allows or passes, and says no peers, or no ports: it would else allow
//!   all of them;
//! - a field of the `spec` of a NetworkPolicy of Kubernetes without `podSelector`.
//!
//! Values that are not known (an action, a protocol, an operator, a type) are errors as in a file.

use super::Document;
use super::partial::{below, find, first_place, parent, remove};
use super::read::{UNKNOWN_FIELD, understand};
use crate::problem::{Problem, Severity};
use crate::source::{Entry, Tree, Value};
use std::collections::BTreeSet;

/// Times that an object is read again.
const PASSES_MAX: usize = 50;

/// Kinds that newer servers know more of each year, and of which nobody here is the author.
const SILENT: [&str; 5] = ["Namespace", "Node", "Pod", "Service", "EndpointSlice"];

/// Understands an object of an API server. What is left out of a policy or a group is told.
pub fn understand_served(file: &str, mut tree: Tree) -> (Vec<Document>, Vec<Problem>) {
    let kind = tree.get("kind").and_then(Tree::text).unwrap_or_default().to_owned();
    let (mut kept, mut told) = (BTreeSet::new(), Vec::new());
    for _ in 0..PASSES_MAX {
        let (documents, mut problems) = understand(file, vec![tree.clone()]);
        let mut is_cut = false;
        for problem in problems.iter().filter(|problem| problem.is_error() && problem.reason == UNKNOWN_FIELD) {
            let path = &problem.field;
            if kept.contains(path) {
                continue;
            }
            if weakens(&tree, path) {
                kept.insert(path.clone());
            } else {
                remove(&mut tree, path);
                is_cut = true;
                told.push(left_out(problem.clone()));
            }
        }
        if !is_cut {
            problems.retain(|problem| problem.severity != Severity::Tolerated || problem.reason == UNKNOWN_FIELD);
            problems.extend(told);
            let problems = problems.into_iter().map(|problem| match problem.severity {
                Severity::Tolerated => left_out(problem),
                _ => problem,
            });
            let is_told = |problem: &Problem| problem.is_error() || !SILENT.contains(&kind.as_str());
            return (documents, problems.filter(is_told).collect());
        }
    }
    understand(file, vec![tree])
}

/// It is in force without the field, and not an error of the object's author.
fn left_out(problem: Problem) -> Problem {
    let hint = "it is of a newer version, and has no effect here".to_owned();
    Problem { severity: Severity::Warning, hint, ..problem }
}

/// Fields that have a path. A key with a dot in it may make one path that of two fields.
fn count(tree: &Tree, path: &str) -> usize {
    if path.is_empty() {
        return 1;
    }
    match &tree.value {
        Value::Map(entries) => {
            entries.iter().filter_map(|entry| Some(count(&entry.value, below(path, &entry.key)?))).sum()
        }
        Value::List(list) => {
            let item = first_place(path).and_then(|(place, rest)| Some((list.get(place)?, rest)));
            item.map_or(0, |(item, rest)| count(item, rest))
        }
        _ => 0,
    }
}

/// Whether something would mean all without the field at a path.
fn weakens(tree: &Tree, path: &str) -> bool {
    // What is taken out has to be that field.
    if count(tree, path) != 1 {
        return true;
    }
    // Metadata and the object itself say nothing of what is allowed.
    if !path.starts_with("spec.") {
        return false;
    }
    let above = parent(path);
    let Some(mapping) = find(tree, above) else { return true };
    let Value::Map(entries) = &mapping.value else { return true };
    let field = path[above.len()..].trim_start_matches('.');
    let rest: Vec<&Entry> = entries.iter().filter(|entry| entry.key != field && is_said(entry)).collect();
    let says = |keys: &[&str]| rest.iter().any(|entry| keys.contains(&entry.key.as_str()));
    let rule = rule_of(path).filter(|_| !denies(tree, path));
    if rest.is_empty() {
        return true;
    }
    if above == "spec" {
        let is_of_kubernetes =
            tree.get("apiVersion").and_then(Tree::text).is_some_and(|api| api.starts_with("networking."));
        return is_of_kubernetes && mapping.get("podSelector").is_none();
    }
    let Some(rule) = rule else { return false };
    if above == rule {
        return !says(&["from", "to", "toServices"]) || !says(&["ports", "protocols"]);
    }
    let is_port = parent(above) == format!("{rule}.ports");
    is_port && !says(&["port", "portNumber", "portRange", "namedPort"])
}

/// Whether a field says something. An empty selector does, and so does an empty `matchLabels`
/// beside nothing: as little as none.
fn is_said(entry: &Entry) -> bool {
    match &entry.value.value {
        Value::Null => false,
        Value::List(list) => !list.is_empty(),
        Value::Map(entries) => !entries.is_empty() || entry.key != "matchLabels",
        _ => true,
    }
}

/// The rule that a path is in: `spec.ingress[3]`.
fn rule_of(path: &str) -> Option<&str> {
    let list = ["spec.ingress[", "spec.egress["].into_iter().find(|list| path.starts_with(list))?;
    let end = path[list.len()..].find(']')?;
    Some(&path[..=list.len() + end])
}

/// Whether the rule that a path is in denies: what is left out of it makes it deny more.
fn denies(tree: &Tree, path: &str) -> bool {
    let action = rule_of(path).and_then(|rule| find(tree, rule)?.get("action")?.text());
    action.is_some_and(|action| ["Drop", "Reject", "Deny"].contains(&action))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::DocumentBody;
    use crate::kinds::ruled::Ruled;
    use crate::source::documents;

    const K8S: &str =
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: n}\nspec: ";
    const ANTREA: &str = "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {name: p}\nspec: ";

    /// Whether all of a policy is right, and how many lines tell of it.
    fn read(text: &str) -> (bool, usize) {
        let tree = documents(text).expect("it is YAML").remove(0);
        let (documents, problems) = understand_served("cluster", tree);
        let is_right = match &documents[0].body {
            DocumentBody::K8sPolicy(body) => !body.spec.has_wrong_rules(),
            DocumentBody::AntreaPolicy(body) | DocumentBody::ClusterPolicy(body) => !body.spec.has_wrong_rules(),
            _ => documents[0].is_understood(),
        };
        assert_eq!(is_right, !problems.iter().any(Problem::is_error), "{text}: {problems:?}");
        (is_right, problems.len())
    }

    #[test]
    fn fields_of_newer_servers_are_left_out() {
        let rule = |rule: &str| format!("{K8S}{{podSelector: {{}}, ingress: [{rule}]}}\n");
        for text in [
            format!("{K8S}{{podSelector: {{}}, newField: 1}}\n"),
            format!("{K8S}{{podSelector: {{matchLabels: {{a: b}}, newTerms: [c]}}}}\n"),
            format!("{K8S}{{podSelector: {{matchExpressions: [{{key: a, operator: Exists, weight: 3}}]}}}}\n"),
            format!("{K8S}{{podSelector: {{}}}}\nnewTop: 1\n"),
            format!("{K8S}{{podSelector: {{}}}}\n").replace("namespace: n", "namespace: n, newMeta: {a: b}"),
            rule("{from: [{podSelector: {}}], ports: [{port: 80}], newField: {a: [1]}}"),
            rule("{from: [{podSelector: {}, newPeer: {}}]}"),
            rule("{from: [{namespaceSelector: {}, newPeer: {}}]}"),
            rule("{from: [{ipBlock: {cidr: 10.0.0.0/8, newField: 1}}]}"),
            rule("{ports: [{protocol: TCP, port: 80, newField: 1}]}"),
            format!("{ANTREA}{{priority: 1, appliedTo: [{{podSelector: {{}}, newField: 1}}], newField: 2}}\n"),
            format!(
                "{ANTREA}{{priority: 1, appliedTo: [{{podSelector: {{}}}}], egress: [{{action: Drop, newField: 2}}]}}\n"
            ),
        ] {
            let (is_right, lines) = read(&text);
            assert!(is_right && lines > 0, "{text}");
        }
    }

    #[test]
    fn what_would_mean_all_without_an_unknown_field_is_wrong() {
        let rule =
            |rule: &str| format!("{K8S}{{podSelector: {{}}, ingress: [{{from: [{{podSelector: {{}}}}]}}, {rule}]}}\n");
        let antrea =
            |rule: &str| format!("{ANTREA}{{priority: 1, appliedTo: [{{podSelector: {{}}}}], ingress: [{rule}]}}\n");
        for text in [
            rule("{from: [{newPeer: {}}]}"),
            rule("{from: [{newPeer: {}, otherPeer: {}}]}"),
            rule("{from: [{podSelector: {}}, {newPeer: {}}]}"),
            rule("{from: [{podSelector: {newTerms: []}}]}"),
            rule("{from: [{podSelector: {matchLabels: {}, newTerms: [a]}}]}"),
            rule("{newField: 1}"),
            rule("{newField: 1, ports: [{port: 80}]}"),
            rule("{newField: 1, from: [{podSelector: {}}]}"),
            rule("{newField: 1, from: [], ports: [{port: 80}]}"),
            rule("{from: [{podSelector: {}}], ports: [{newRange: 1}]}"),
            rule("{from: [{podSelector: {}}], ports: [{protocol: TCP, newRange: 1}]}"),
            rule("{from: [{ipBlock: {newBlock: 1}}]}"),
            rule("{from: [{podSelector: {matchExpressions: [{key: a, operator: Maybe}]}}]}"),
            format!("{K8S}{{newSelector: {{}}, ingress: [{{}}]}}\n"),
            format!("{K8S}{{podSelector: {{newTerms: []}}}}\n"),
            format!("{K8S}{{podSelector: {{}}, policyTypes: [Sideways]}}\n"),
            rule("{from: [{podSelector: {}, namespaceSelector: {}}], ports: [{port: 1}], 'from[0].podSelector': {}}"),
            antrea("{action: Maybe}"),
            antrea("{action: Allow, newField: 1, from: [{podSelector: {}}]}"),
            antrea("{action: Pass, newField: 1}"),
            antrea("{action: Drop, from: [{newPeer: {}}]}"),
            antrea("{action: Allow, from: [{podSelector: {}}], ports: [{protocol: TCP, newRange: 1}]}"),
            antrea("{action: Allow, l7Protocols: [{newProtocol: {}}]}"),
            antrea("{action: Allow, l7Protocols: [{http: {newMatch: 1}}]}"),
            antrea("{action: Allow, protocols: [{icmp: {newType: 1}}]}"),
            format!("{ANTREA}{{priority: 1, appliedTo: [{{newTarget: {{}}}}], ingress: [{{action: Drop}}]}}\n"),
            "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g}\nspec: {newMembers: {}}\n".to_owned(),
            "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterGroup\nmetadata: {name: g}\nspec: {ipBlocks: [{newBlock: 1}]}\n"
                .to_owned(),
        ] {
            assert!(!read(&text).0, "{text}");
        }
    }

    #[test]
    fn a_wrong_rule_takes_no_other_one_with_it_and_an_object_of_kubernetes_is_read_silently() {
        let text = format!(
            "{K8S}{{podSelector: {{}}, egress: [{{to: [{{newPeer: {{}}}}]}}, {{to: [{{podSelector: {{}}, newPeer: 1}}]}}]}}\n"
        );
        let (read, problems) = understand_served("cluster", documents(&text).expect("it is YAML").remove(0));
        let DocumentBody::K8sPolicy(body) = &read[0].body else { panic!("a policy") };
        assert!(matches!(&body.spec.egress[..], [Ruled::Wrong(_), Ruled::Right(_)]));
        assert_eq!(problems.len(), 2, "{problems:?}");
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, newMeta: 1}\nspec: {containers: [{name: c, newField: 1}], \
                   container: [], newField: {}}\nstatus: {newField: 1}\n";
        let (read, problems) = understand_served("cluster", documents(pod).expect("it is YAML").remove(0));
        assert!(read[0].is_understood() && problems.is_empty(), "{problems:?}");
    }
}
