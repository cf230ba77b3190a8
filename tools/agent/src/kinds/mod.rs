//! Kinds of documents, one file each, as Kubernetes and Antrea write them. Fields that mean nothing to a Node's network are named here and left out;
//! fields that nobody knows are errors.

pub mod antrea_policy;
pub mod cluster_group;
pub mod egress;
pub mod endpoint_slice;
pub mod k8s_policy;
pub mod node;
pub mod node_config;
pub mod pod;
pub mod selector;
pub mod service;
pub mod tier;
pub mod traffic_control;

use crate::problem::{Fields, Origin, Problem};
use crate::source::{FieldError, Tree, Value, typed};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Labels or annotations.
pub type Labels = BTreeMap<String, String>;

/// What every object has.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Meta {
    /// Its name.
    pub name: String,
    /// Its namespace; empty where the kind has none.
    #[serde(default)]
    pub namespace: String,
    /// Labels.
    #[serde(default)]
    pub labels: Labels,
    /// Annotations.
    #[serde(default)]
    pub annotations: Labels,
    /// UID.
    #[serde(default)]
    pub uid: String,
    /// It is about to go.
    pub deletion_timestamp: Option<String>,
}

/// Metadata of no meaning here.
const META_IGNORED: [&str; 8] = [
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "generateName",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "deletionGracePeriodSeconds",
];

impl Meta {
    /// "namespace/name", or the name of what has no namespace.
    pub fn full_name(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }

    /// An annotation of ours: `vswitch/NAME`.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(&format!("vswitch/{name}")).map(String::as_str)
    }
}

/// What a document says, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Namespace: its labels are all of it.
    Namespace,
    /// Node.
    Node(node::Body),
    /// The agent's own.
    NodeConfig(Box<node_config::Body>),
    /// Pod.
    Pod(Box<pod::Body>),
    /// Service.
    Service(Box<service::Body>),
    /// EndpointSlice.
    EndpointSlice(Box<endpoint_slice::Body>),
    /// NetworkPolicy of networking.k8s.io.
    K8sPolicy(Box<k8s_policy::Body>),
    /// NetworkPolicy of crd.antrea.io.
    AntreaPolicy(Box<antrea_policy::Body>),
    /// ClusterNetworkPolicy.
    ClusterPolicy(Box<antrea_policy::Body>),
    /// Tier.
    Tier(tier::Body),
    /// ClusterGroup.
    ClusterGroup(Box<cluster_group::Body>),
    /// Egress.
    Egress(Box<egress::Body>),
    /// TrafficControl.
    TrafficControl(Box<traffic_control::Body>),
}

/// A document that is understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Where it is from.
    pub origin: Origin,
    /// Its metadata.
    pub meta: Meta,
    /// What it says.
    pub body: Body,
}

const KINDS: &str = "Namespace, Node, NodeConfig, Pod, Service, EndpointSlice, NetworkPolicy, ClusterNetworkPolicy, Tier, ClusterGroup, Egress, TrafficControl";

/// Kinds that mean nothing to a Node's network, by group.
const IGNORED_GROUPS: [&str; 9] = [
    "apps",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

const IGNORED_CORE: [&str; 12] = [
    "ConfigMap",
    "Endpoints",
    "Event",
    "LimitRange",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodTemplate",
    "ReplicationController",
    "ResourceQuota",
    "Secret",
    "ServiceAccount",
    "ComponentStatus",
];

/// Kinds of which there are too many, and which say too little, to keep the line of each field.
const MANY: [&str; 2] = ["EndpointSlice", "Pod"];

/// Understands the trees of one file. A `List` is as many documents as it has items; documents of kinds that do not matter are left out.
pub fn understand(file: &str, trees: Vec<Tree>) -> (Vec<Document>, Vec<Problem>) {
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for tree in trees.into_iter().flat_map(unrolled) {
        match document(file, tree) {
            Ok(Some(document)) => documents.push(document),
            Ok(None) => {}
            Err(problem) => problems.push(*problem),
        }
    }
    (documents, problems)
}

fn unrolled(tree: Tree) -> Vec<Tree> {
    let is_list = tree.get("kind").and_then(Tree::text).is_some_and(|kind| kind.ends_with("List"));
    match tree.get("items").map(|items| &items.value) {
        Some(Value::List(items)) if is_list => items.clone(),
        _ => vec![tree],
    }
}

fn document(file: &str, mut tree: Tree) -> Result<Option<Document>, Box<Problem>> {
    let word = |path: &[&str]| tree.at(path).and_then(Tree::text).unwrap_or_default().to_owned();
    let (api, kind) = (word(&["apiVersion"]), word(&["kind"]));
    let (namespace, name) = (word(&["metadata", "namespace"]), word(&["metadata", "name"]));
    let what = match (namespace.is_empty(), kind.is_empty()) {
        (_, true) => String::new(),
        (true, _) => format!("{kind} {name}"),
        _ => format!("{kind} {namespace}/{name}"),
    };
    let origin = Origin::new(file, tree.line, what.trim());
    let wrong = |field: &str, reason: String| Err(Box::new(origin.error(field, reason)));
    if !matches!(tree.value, Value::Map(_)) {
        return wrong("", "not a mapping".to_owned());
    }
    for (field, value) in [("apiVersion", &api), ("kind", &kind)] {
        if value.is_empty() {
            return wrong(field, "is required, a string".to_owned());
        }
    }
    let group = api.split_once('/').map_or("", |(group, _)| group);
    if IGNORED_GROUPS.contains(&group) || (group.is_empty() && IGNORED_CORE.contains(&kind.as_str())) {
        return Ok(None);
    }
    let Some((scope, parse)) = parser(&api, &kind) else {
        let problem = origin.error("kind", format!("{api} {kind} is not known"));
        return Err(Box::new(problem.hint(format!("known kinds: {KINDS}"))));
    };
    let told =
        |error: FieldError| Box::new(origin.error(error.path, error.reason).hint(error.hint).at_line(error.line));
    let fields = if MANY.contains(&kind.as_str()) { Fields::default() } else { Fields::new(tree.lines()) };
    let meta = meta(&mut tree, scope).map_err(told)?;
    let what = format!("{kind} {}", meta.full_name());
    let origin = Origin::new(file, tree.line, &what).with_fields(fields);
    tree.strip(&[], &["apiVersion", "kind", "metadata"]);
    let body = parse(&mut tree)
        .map_err(|error| Box::new(origin.error(error.path, error.reason).hint(error.hint).at_line(error.line)))?;
    Ok(Some(Document { origin, meta, body }))
}

/// Whether names of a kind are of a namespace.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Cluster,
    Namespaced,
}

fn meta(tree: &mut Tree, scope: Scope) -> Result<Meta, FieldError> {
    tree.strip(&["metadata"], &META_IGNORED);
    let missing = || FieldError {
        line: tree.line,
        path: "metadata".to_owned(),
        reason: "is required".to_owned(),
        hint: String::new(),
    };
    let metadata = tree.get("metadata").ok_or_else(missing)?;
    let below = |error: FieldError| FieldError { path: format!("metadata.{}", error.path), ..error };
    let mut meta: Meta = typed(metadata).map_err(below)?;
    let wrong = |field: &str, reason: &str| FieldError {
        line: metadata.line,
        path: format!("metadata.{field}"),
        reason: reason.to_owned(),
        hint: String::new(),
    };
    let is_name = |name: &str| !name.contains('/') && !name.chars().any(char::is_control) && name.len() <= 253;
    if meta.name.is_empty() || !is_name(&meta.name) {
        return Err(wrong("name", &format!("{:?} is no name", meta.name)));
    }
    match scope {
        Scope::Cluster if !meta.namespace.is_empty() => return Err(wrong("namespace", "this kind has no namespace")),
        Scope::Namespaced if meta.namespace.is_empty() => "default".clone_into(&mut meta.namespace),
        _ if !is_name(&meta.namespace) => return Err(wrong("namespace", &format!("{:?} is no name", meta.namespace))),
        _ => {}
    }
    Ok(meta)
}

type Parse = fn(&mut Tree) -> Result<Body, FieldError>;

fn parser(api: &str, kind: &str) -> Option<(Scope, Parse)> {
    use Scope::{Cluster, Namespaced};
    let parser: (Scope, Parse) = match (api, kind) {
        ("v1", "Namespace") => (Cluster, |tree| {
            tree.strip(&[], &["spec", "status"]);
            typed::<Nothing>(tree).map(|_| Body::Namespace)
        }),
        ("v1", "Node") => (Cluster, |tree| node::parse(tree).map(Body::Node)),
        ("vswitch/v1", "NodeConfig") => (Cluster, |tree| boxed(tree).map(Body::NodeConfig)),
        ("v1", "Pod") => (Namespaced, |tree| pod::parse(tree).map(Body::Pod)),
        ("v1", "Service") => (Namespaced, |tree| service::parse(tree).map(Body::Service)),
        ("discovery.k8s.io/v1", "EndpointSlice") => (Namespaced, |tree| boxed(tree).map(Body::EndpointSlice)),
        ("networking.k8s.io/v1", "NetworkPolicy") => (Namespaced, |tree| without_status(tree).map(Body::K8sPolicy)),
        ("crd.antrea.io/v1beta1", "NetworkPolicy") => (Namespaced, |tree| without_status(tree).map(Body::AntreaPolicy)),
        ("crd.antrea.io/v1beta1", "ClusterNetworkPolicy") => {
            (Cluster, |tree| without_status(tree).map(Body::ClusterPolicy))
        }
        ("crd.antrea.io/v1beta1", "Tier") => (Cluster, |tree| typed(tree).map(Body::Tier)),
        ("crd.antrea.io/v1beta1", "ClusterGroup") => (Cluster, |tree| without_status(tree).map(Body::ClusterGroup)),
        ("crd.antrea.io/v1beta1", "Egress") => (Cluster, |tree| egress::parse(tree).map(Body::Egress)),
        ("crd.antrea.io/v1alpha2", "TrafficControl") => {
            (Cluster, |tree| without_status(tree).map(Body::TrafficControl))
        }
        _ => return None,
    };
    Some(parser)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn boxed<T: DeserializeOwned>(tree: &mut Tree) -> Result<Box<T>, FieldError> {
    typed(tree).map(Box::new)
}

fn without_status<T: DeserializeOwned>(tree: &mut Tree) -> Result<Box<T>, FieldError> {
    tree.strip(&[], &["status"]);
    boxed(tree)
}

/// A number or a name: `port: 80`, `port: http`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum NumberOrName {
    /// A number.
    Number(u16),
    /// A name.
    Name(String),
}
