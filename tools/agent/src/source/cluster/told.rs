//! What objects say: their documents. All else of them is dropped at once.

use super::WEIGHT_MAX;
use super::object::Object;
use super::refs::Said;
use super::table::Kind;
use crate::attach::{NETWORK_STATUS, NETWORK_STATUS_LEN_MAX};
use crate::kinds::{Document, DocumentBody, understand_served};
use crate::problem::{Origin, Problem};
use crate::source::{Entry, Tree, Value};

/// Bytes of an annotation without meaning here; longer ones are dropped.
const ANNOTATION_LEN_MAX: usize = 256;

/// Annotations of a Pod that only a CNI server or an administrator of the Node may say, and what
/// counts in their place. Everyone who may create a Pod could take another Pod's port, or leave the
/// addresses that a policy means. The first ones never count, the others do without a CNI server.
const CLAIMS: [(&str, bool, &str); 4] = [
    ("vswitch/addresses", true, "status.podIPs counts"),
    ("vswitch/port", false, "the CNI server gives ports"),
    ("vswitch/mac", false, "the CNI server gives MAC addresses"),
    ("vswitch/vlan", false, "the CNI server gives ports"),
];

/// What an object says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    /// Its UID.
    pub(super) uid: String,
    /// The version of its kind as which it is served.
    pub(super) version: &'static str,
    /// Generation and status.
    pub(super) said: Said,
    /// Its documents.
    pub(super) documents: Vec<Document>,
    /// What is wrong with it.
    pub(super) problems: Vec<Problem>,
}

impl Told {
    /// What an object of a kind says, which was served as a version of it. `gives_ports`: a CNI
    /// server gives Pods their ports.
    pub(super) fn of(kind: &Kind, version: &'static str, object: Object, gives_ports: bool) -> Self {
        let (uid, name) = (object.uid().to_owned(), object.full_name());
        let said = Said::of(kind, &object.tree);
        let mut tree = object.tree;
        set(&mut tree, "apiVersion", &kind.best_api());
        set(&mut tree, "kind", kind.kind);
        if kind.kind == "EndpointSlice" && version == "v1beta1" {
            modernise(&mut tree);
        }
        let (place, weight) = (kind.place(), weight(&tree));
        let what = format!("{} {name}", kind.kind);
        let mut problems = Vec::new();
        if kind.kind == "Pod" {
            let origin = Origin::new(&place, 0, &what);
            problems.extend(drop_claims(&mut tree, gives_ports).into_iter().map(|claim| claim.problem(&origin)));
        }
        if weight > WEIGHT_MAX {
            // What is left says which object it is: a policy is held as one that is wrong.
            let reason = format!("takes {weight} bytes; an object has at most {WEIGHT_MAX}");
            problems.push(Origin::new(&place, 0, &what).error("", reason));
            tree.strip(&[], &["spec", "status"]);
        }
        shorten(&mut tree);
        let (mut documents, more) = understand_served(&place, tree);
        documents.retain(|document| !matches!(document.body, DocumentBody::LeftOut));
        problems.extend(more);
        Self { uid, version, said, documents, problems }
    }
}

/// Sets a field of an object: items of lists do not say their kind.
fn set(tree: &mut Tree, key: &str, text: &str) {
    tree.strip(&[], &[key]);
    let value = Tree { line: 0, value: Value::Text(text.to_owned()) };
    match &mut tree.value {
        Value::Map(entries) => entries.push(Entry { key: key.to_owned(), line: 0, value }),
        other => *other = Value::Map(vec![Entry { key: key.to_owned(), line: 0, value }]),
    }
}

/// An annotation of a Pod that does not count, and what does.
struct Claim(&'static str, &'static str);

impl Claim {
    fn problem(&self, origin: &Origin) -> Problem {
        let Self(name, counts) = self;
        origin.warning(format!("metadata.annotations[{name}]"), format!("has no effect in a cluster: {counts}"))
    }
}

/// Takes [`CLAIMS`] out of a Pod.
fn drop_claims(tree: &mut Tree, gives_ports: bool) -> Vec<Claim> {
    let path = ["metadata", "annotations"];
    let said = tree.at(&path).into_iter().flat_map(|said| CLAIMS.iter().filter(|(name, ..)| said.get(name).is_some()));
    let dropped: Vec<Claim> =
        said.filter(|(_, always, _)| *always || gives_ports).map(|(name, _, counts)| Claim(name, counts)).collect();
    tree.strip(&path, &dropped.iter().map(|claim| claim.0).collect::<Vec<_>>());
    dropped
}

/// Drops long annotations that say nothing here, such as the last configuration that kubectl
/// applied.
fn shorten(tree: &mut Tree) {
    let annotations = tree.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(Value::Map(entries)) = annotations.map(|annotations| &mut annotations.value) {
        let is_short = |value: &Tree| value.text().is_none_or(|text| text.len() <= ANNOTATION_LEN_MAX);
        let is_ours = |key: &str| key.contains("vswitch") || key.contains("antrea");
        let is_read = |entry: &Entry| {
            let text = entry.value.text().filter(|_| entry.key == NETWORK_STATUS);
            text.is_some_and(|text| text.len() <= NETWORK_STATUS_LEN_MAX)
        };
        entries.retain(|entry| is_ours(&entry.key) || is_short(&entry.value) || is_read(entry));
    }
}

/// An EndpointSlice of v1beta1 as one of v1: Node and zone are labels of its endpoints' topology
/// there (Kubernetes' API of discovery.k8s.io/v1beta1).
fn modernise(tree: &mut Tree) {
    let Some(Value::List(endpoints)) = tree.get_mut("endpoints").map(|endpoints| &mut endpoints.value) else { return };
    for endpoint in endpoints {
        let Some(topology) = endpoint.take("topology") else { continue };
        for (label, field) in [("kubernetes.io/hostname", "nodeName"), ("topology.kubernetes.io/zone", "zone")] {
            let text = topology.get(label).and_then(Tree::text);
            if let Some(text) = text.filter(|_| endpoint.get(field).is_none()) {
                set(endpoint, field, text);
            }
        }
    }
}

/// About as many bytes as an object takes.
fn weight(tree: &Tree) -> usize {
    const NODE: usize = size_of::<Tree>();
    NODE + match &tree.value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.iter().map(weight).sum(),
        Value::Map(entries) => entries.iter().map(|entry| entry.key.len() + NODE + weight(&entry.value)).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::kinds;
    use super::*;

    fn told(kind: &str, version: &'static str, json: &str) -> Told {
        told_beside(kind, version, json, false)
    }

    fn told_beside(kind: &str, version: &'static str, json: &str, gives_ports: bool) -> Told {
        let kind = kinds().find(|of| of.kind == kind).expect("it is followed");
        Told::of(kind, version, serde_json::from_str(json).expect("it is JSON"), gives_ports)
    }

    #[test]
    fn whoever_creates_a_pod_says_neither_its_addresses_nor_its_port() {
        let pod = r#"{"metadata": {"name": "p", "namespace": "n", "annotations": {"vswitch/addresses": "10.0.0.9",
            "vswitch/port": "other", "vswitch/mac": "02:00:00:00:00:01", "vswitch/vlan": "5", "other": "x"}},
            "spec": {"containers": [{"name": "c"}], "nodeName": "a"}}"#;
        for (gives_ports, left) in
            [(false, &["other", "vswitch/mac", "vswitch/port", "vswitch/vlan"][..]), (true, &["other"])]
        {
            let said = told_beside("Pod", "v1", pod, gives_ports);
            assert!(said.documents[0].is_understood());
            assert_eq!(said.documents[0].meta.annotations.keys().collect::<Vec<_>>(), left);
            let warned: Vec<&str> = said.problems.iter().map(|problem| problem.field.as_str()).collect();
            assert_eq!((warned.len(), warned[0]), (5 - left.len(), "metadata.annotations[vswitch/addresses]"));
            assert!(!said.problems.iter().any(Problem::is_error));
        }
    }

    #[test]
    fn an_object_is_a_document_of_its_kind() {
        let said = told(
            "Pod",
            "v1",
            r#"{"metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"containers": [{"name": "c"}], "nodeName": "a"}}"#,
        );
        assert_eq!((said.uid.as_str(), said.version, said.problems.len()), ("u", "v1", 0));
        assert_eq!(&*said.documents[0].origin.what, "Pod n/p");
        assert_eq!((&*said.documents[0].origin.file, said.documents[0].origin.line), ("cluster", 0));
        assert!(said.documents[0].is_understood());
        let odd = told("Pod", "v1", "[]");
        assert!(odd.documents.iter().all(|document| !document.is_understood()) && !odd.problems.is_empty());
    }

    #[test]
    fn slices_of_v1beta1_are_those_of_v1() {
        let said = told(
            "EndpointSlice",
            "v1beta1",
            r#"{"metadata": {"name": "s", "namespace": "n"}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"],
            "topology": {"kubernetes.io/hostname": "a", "topology.kubernetes.io/zone": "z"}}]}"#,
        );
        let DocumentBody::EndpointSlice(slice) = &said.documents[0].body else { panic!("{said:?}") };
        assert_eq!(
            (slice.endpoints[0].node_name.as_deref(), slice.endpoints[0].zone.as_deref()),
            (Some("a"), Some("z"))
        );
        assert_eq!((said.version, said.problems.len()), ("v1beta1", 0));
    }

    #[test]
    fn an_object_that_is_too_large_is_a_wrong_one() {
        let labels: Vec<String> = (0..40_000).map(|i| format!(r#""l{i}": "{}""#, "x".repeat(200))).collect();
        let json = format!(
            r#"{{"metadata": {{"name": "p", "namespace": "n"}}, "spec": {{"podSelector": {{"matchLabels": {{{}}}}}}}}}"#,
            labels.join(",")
        );
        let said = told("NetworkPolicy", "v1", &json);
        assert!(matches!(said.documents[0].body, DocumentBody::WrongPolicy(_)));
        assert!(said.problems[0].reason.contains("an object has at most"), "{:?}", said.problems[0]);
        let long = format!(
            r#"{{"metadata": {{"name": "n", "annotations": {{"last": "{}", "vswitch/x": "{}"}}}}}}"#,
            "x".repeat(300),
            "y".repeat(300)
        );
        let said = told("Namespace", "v1", &long);
        assert_eq!(said.documents[0].meta.annotations.keys().collect::<Vec<_>>(), ["vswitch/x"]);
        for (len, is_kept) in [(NETWORK_STATUS_LEN_MAX, true), (NETWORK_STATUS_LEN_MAX + 1, false)] {
            let text = long.replace("last", NETWORK_STATUS).replace(&"x".repeat(300), &"x".repeat(len));
            let said = told("Namespace", "v1", &text);
            assert_eq!(said.documents[0].meta.annotations.contains_key(NETWORK_STATUS), is_kept, "{len}");
        }
    }
}
