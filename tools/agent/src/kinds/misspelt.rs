//! Kinds and fields that are misspelt: which ones are meant.

use super::names::LABELLED;
use super::{Document, DocumentBody, unserved};
use crate::source::FieldError;

/// A kind of a group that is read, but for policies.
pub(super) type Meant = (&'static str, &'static str);

/// Kinds that are read, but for policies, with their groups.
const READ: [Meant; 12] = [
    ("", "Namespace"),
    ("", "Node"),
    ("", "Pod"),
    ("", "Service"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("vswitch.io", "NodeConfig"),
    ("crd.antrea.io", "Tier"),
    ("crd.antrea.io", "ClusterGroup"),
    ("crd.antrea.io", "Group"),
    ("crd.antrea.io", "Egress"),
    ("crd.antrea.io", "ExternalIPPool"),
    ("crd.antrea.io", "TrafficControl"),
];

/// The kind that is meant by one that is not read; None: none is. Kinds of other people have the
/// names of ours, so the group has to be near, or one of Kubernetes' own.
pub(super) fn meant(group: &str, kind: &str) -> Option<Meant> {
    if READ.contains(&(group, kind)) || unserved::is_known(group, kind) {
        return None;
    }
    let is_group = |of: &str| group == of || unserved::is_kubernetes(group) || is_group_near(group, of);
    let near = READ.into_iter().filter(|(of, known)| is_near(kind, known) && is_group(of));
    near.min_by_key(|(of, known)| (distance(kind, known), *of != group))
}

/// `crd.antrea`, `antrea.io`, `crd.antrea.oi`.
fn is_group_near(group: &str, of: &str) -> bool {
    !group.is_empty() && !of.is_empty() && (distance(group, of) <= 4 || of.starts_with(group) || of.ends_with(group))
}

/// Whether a kind, of whatever group, may be written for one that is read.
pub(super) fn is_like_ours(kind: &str) -> bool {
    READ.into_iter().any(|(_, known)| is_akin(kind, known))
}

/// Whether a kind may be written for another one: misspelt, or that of the cluster for that of a
/// namespace.
pub(super) fn is_akin(kind: &str, other: &str) -> bool {
    let plain = |kind: &str| {
        let kind = kind.to_ascii_lowercase();
        kind.strip_prefix("cluster").unwrap_or(&kind).to_owned()
    };
    is_near(&plain(kind), &plain(other))
}

/// Whether a kind, of whatever group, may be written for that of a policy.
pub(super) fn is_policy_like(kind: &str) -> bool {
    ["NetworkPolicy", "AdminNetworkPolicy", "BaselineAdminNetworkPolicy"].iter().any(|known| is_akin(kind, known))
}

/// Whether an unknown field may be the labels of an object of this kind.
fn is_labels(kind: &str, path: &str) -> bool {
    let (above, field) = path.rsplit_once('.').unwrap_or(("", path));
    LABELLED.contains(&kind) && ["", "metadata", "spec"].contains(&above) && is_near(field, "labels")
}

/// Fields that are not left out if they are misspelt, by kinds and what they are in: `containers[]`
/// is each item of a list. Rules may deny by what they say.
const NEEDED: [(&str, &str, &[&str]); 9] = [
    ("Pod", "", &["spec", "status"]),
    ("Pod", "spec", &["containers", "hostNetwork", "initContainers", "nodeName", "serviceAccountName"]),
    ("Pod", "spec.containers[]", &["ports"]),
    ("Pod", "spec.containers[].ports[]", &PORT),
    ("Pod", "spec.initContainers[]", &["ports", "restartPolicy"]),
    ("Pod", "spec.initContainers[].ports[]", &PORT),
    ("Node", "", &["spec", "status"]),
    ("Service", "", &["spec"]),
    ("Service", "spec", &["selector", "labels"]),
];

/// Fields of a container's port.
const PORT: [&str; 3] = ["containerPort", "name", "protocol"];

/// The field that is meant by an unknown one, if rules may deny by it.
fn needed(kind: &str, path: &str) -> Option<&'static str> {
    let (above, field) = path.rsplit_once('.').unwrap_or(("", path));
    let mut parts = above.split('[');
    let mut pattern = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        pattern = format!("{pattern}[]{}", part.split_once(']').map_or("", |(_, rest)| rest));
    }
    let fields = NEEDED.into_iter().filter(|(of, within, _)| *of == kind && *within == pattern);
    let found = fields.flat_map(|(.., fields)| fields).find(|known| is_near(field, known)).copied();
    // A Service selects by no labels of its spec.
    found.map(|known| if known == "labels" { "selector" } else { known })
}

/// Takes those out of the unknown fields that may be one by which rules deny; returns the error of
/// the first one. A Service that has a selector has it.
pub(super) fn needed_of(kind: &str, document: &Document, unknown: &mut Vec<FieldError>) -> Option<FieldError> {
    if matches!(&document.body, DocumentBody::Service(body) if !body.spec.selector.is_empty()) {
        return None;
    }
    let (found, rest): (Vec<_>, Vec<_>) = unknown.drain(..).partition(|error| needed(kind, &error.path).is_some());
    *unknown = rest;
    let error = found.into_iter().next()?;
    let hint = needed(kind, &error.path).map(|known| format!("is it {known}?")).unwrap_or_default();
    Some(FieldError { hint, ..error })
}

/// Takes those out of the unknown fields that may be who may come to a load balancer's addresses,
/// and returns the error of the first one. Nobody is known to be meant then: a list with nothing
/// right in it lets nobody in.
pub(super) fn sources_of(document: &mut Document, unknown: &mut Vec<FieldError>) -> Option<FieldError> {
    let DocumentBody::Service(body) = &mut document.body else { return None };
    let may_be = |error: &FieldError| {
        error.path.strip_prefix("spec.").is_some_and(|field| is_near(field, "loadBalancerSourceRanges"))
    };
    let (found, rest): (Vec<_>, Vec<_>) = unknown.drain(..).partition(may_be);
    *unknown = rest;
    let error = found.into_iter().next()?;
    body.spec.load_balancer_source_ranges = vec![String::new()];
    Some(FieldError {
        hint: "is it loadBalancerSourceRanges? Nobody may come to its load balancer till then".to_owned(),
        ..error
    })
}

/// Takes those out of the unknown fields that may be the labels of an object of this kind; returns
/// the error of the first one.
pub(super) fn labels_of(kind: &str, unknown: &mut Vec<FieldError>) -> Option<FieldError> {
    let (labels, rest): (Vec<_>, Vec<_>) = unknown.drain(..).partition(|error| is_labels(kind, &error.path));
    *unknown = rest;
    let error = labels.into_iter().next()?;
    Some(FieldError { hint: "is it labels? Write metadata.labels".to_owned(), ..error })
}

/// Whether a word is another one but for the case of letters and one or two of them, as it is long.
pub(super) fn is_near(word: &str, known: &str) -> bool {
    let most = (known.len() / 3).min(2);
    word.len().abs_diff(known.len()) <= most && distance(word, known) <= most
}

/// Letters that are more, less, others or swapped with the next one; their case does not matter.
fn distance(one: &str, other: &str) -> usize {
    let letters = |word: &str| word.chars().map(|c| c.to_ascii_lowercase()).collect::<Vec<char>>();
    let (one, other) = (letters(one), letters(other));
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let mut least = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            least = least.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_meant() {
        for (group, kind, expected) in [
            ("", "Namespaces", Some("Namespace")),
            ("", "namespace", Some("Namespace")),
            ("", "Namepsace", Some("Namespace")),
            ("apps", "Namespace", Some("Namespace")),
            ("", "Pods", Some("Pod")),
            ("", "Sevrice", Some("Service")),
            ("", "ClusterGroup", Some("ClusterGroup")),
            ("crd.antrea.io", "ClusterGroups", Some("ClusterGroup")),
            ("crd.antrea", "ClusterGroup", Some("ClusterGroup")),
            ("antrea.io", "clustergroup", Some("ClusterGroup")),
            ("crd.antrea.io", "group", Some("Group")),
            ("crd.antrea.io", "Namespace", None),
            ("", "Endpoints", None),
            ("", "ConfigMap", None),
            ("", "Secret", None),
            ("", "PodTemplate", None),
            ("", "", None),
            ("", "Namespace", None),
            ("serving.knative.dev", "Service", None),
            ("longhorn.io", "Node", None),
            ("user.openshift.io", "Group", None),
            ("crd.antrea.io", "IPPool", None),
            ("crd.antrea.io", "ExternalIPPools", Some("ExternalIPPool")),
            ("crd.antrea.io", "Traceflow", None),
            ("metrics.k8s.io", "PodMetrics", None),
        ] {
            assert_eq!(meant(group, kind).map(|(_, kind)| kind), expected, "{group} {kind}");
        }
    }

    #[test]
    fn fields_that_may_be_labels() {
        for (path, expected) in [
            ("metadata.Labels", true),
            ("metadata.label", true),
            ("metadata.lables", true),
            ("metadata.LABELS", true),
            ("labels", true),
            ("spec.labels", true),
            ("metadata.level", false),
            ("metadata.newField", false),
            ("spec.containers[0].labels", false),
            ("status.labels", false),
        ] {
            assert_eq!(is_labels("Pod", path), expected, "{path}");
            assert!(!is_labels("Service", path), "{path}");
        }
        for (kind, path, expected) in [
            ("Pod", "Status", Some("status")),
            ("Pod", "spec.container", Some("containers")),
            ("Pod", "spec.nodename", Some("nodeName")),
            ("Pod", "spec.containers[3].Ports", Some("ports")),
            ("Pod", "spec.containers[3].ports[12].nam", Some("name")),
            ("Pod", "spec.initContainers[0].ports[1].Protocol", Some("protocol")),
            ("Pod", "spec.initContainers[0].restartpolicy", Some("restartPolicy")),
            ("Pod", "spec.containers[0].restartpolicy", None),
            ("Pod", "spec.containers[0].newField", None),
            ("Pod", "spec.ports", None),
            ("Service", "spec.Selector", Some("selector")),
            ("Service", "spec.labels", Some("selector")),
            ("Node", "Status", Some("status")),
            ("Service", "Status", None),
        ] {
            assert_eq!(needed(kind, path), expected, "{kind} {path}");
        }
        assert!(is_akin("Group", "ClusterGroup") && is_akin("ClusterNetworkPolicy", "NetworkPolicy"));
        assert!(!is_akin("Node", "Pod") && !is_akin("Node", "NodeConfig") && !is_akin("Service", "Namespace"));
    }
}
