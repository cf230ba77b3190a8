//! From trees to documents.

use super::guess::guessed;
use super::lists::unrolled;
use super::misspelt::{labels_of, meant, needed_of, sources_of};
use super::names::{is_name, wrong_labels};
use super::owner::Owner;
use super::partial::{self, ParseBody, body, quoted};
use super::ruled::{self, ADMIN_GROUP, Class, WrongPolicy};
use super::wellformed::{is_domain, is_domain_label};
use super::{
    Document, DocumentBody, DocumentKey, Meta, admin_policy, egress, endpoint_slice, external_ip_pool, node, pod,
    service,
};
use crate::problem::{Fields, Origin, Problem};
use crate::source::{FieldError, Tree, Value, Words, typed, typed_without_unknown};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Metadata of no meaning here.
const META_IGNORED: [&str; 11] = [
    "clusterName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "generateName",
    "generation",
    "initializers",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
];

pub(super) const KINDS: &str = "Namespace, Node, NodeConfig, Pod, Service, EndpointSlice, NetworkPolicy, ClusterNetworkPolicy, \
                     AdminNetworkPolicy, BaselineAdminNetworkPolicy, Tier, ClusterGroup, Group, Egress, ExternalIPPool, TrafficControl";

/// What is told of a field that nobody knows.
pub(super) const UNKNOWN_FIELD: &str = "unknown field";

/// Lines of what is wrong with one document.
const ERRORS_MAX: usize = 20;

/// Kinds of which there are too many, and which say too little, to keep the line of each field.
const MANY: [&str; 2] = ["EndpointSlice", "Pod"];

/// Understands the trees of one file. A `List` is as many documents as it has items; documents of
/// kinds that do not matter are left out. A document that is not understood is there as such, with
/// what can be read of it.
pub fn understand(file: &str, trees: Vec<Tree>) -> (Vec<Document>, Vec<Problem>) {
    let mut read = Read { file, documents: Vec::new(), problems: Vec::new() };
    let mut misspelt = Vec::new();
    let is_read = |group: &str, word: &str| kind(group, word).is_some();
    let trees: Vec<Tree> = trees.into_iter().flat_map(|tree| unrolled(tree, &is_read, &mut misspelt)).collect();
    for (line, kind) in misspelt {
        let reason = format!("{kind:?} is no kind that is read; what is in it is read as that of a List");
        read.problems.push(Origin::new(file, line, &kind).error("kind", reason).hint("write List"));
    }
    for tree in trees {
        if !read.list(&tree) {
            read.shapeless(&tree);
            read.document(tree);
        }
    }
    (read.documents, read.problems)
}

/// What a document calls itself.
pub(super) struct Named {
    pub(super) words: Words,
    pub(super) group: String,
    /// Of the kinds that are read.
    pub(super) kind: Option<KnownKind>,
    pub(super) class: Option<Class>,
    /// It has metadata that do not say a namespace.
    has_no_namespace: bool,
    /// The kind is a guess: it, or its group, is not said or misspelt.
    pub(super) is_guessed: bool,
    /// The kind, or its group, is misspelt, and that of no policy.
    is_misspelt: bool,
}

impl Named {
    pub(super) fn of(words: &Words) -> Self {
        let group = group_of(&words.api).to_owned();
        let kind = kind(&group, &words.kind);
        let class = if words.api.is_empty() { Class::guess(&words.kind) } else { Class::of(&group, &words.kind) };
        Self {
            words: words.clone(),
            group,
            kind,
            class,
            has_no_namespace: false,
            is_guessed: false,
            is_misspelt: false,
        }
    }

    pub(super) fn of_tree(tree: &Tree) -> Self {
        let mut words = Words::of_tree(tree);
        let texts = |field: &str| tree.all(&[field]).into_iter().filter_map(Tree::text).collect::<Vec<_>>();
        // One of two kinds may be a policy's; of two policies the one that goes before the other.
        let pairs =
            texts("apiVersion").into_iter().flat_map(|api| texts("kind").into_iter().map(move |kind| (api, kind)));
        let class = |(api, kind): &(&str, &str)| Class::of(group_of(api), kind);
        if let Some((api, kind)) = pairs.filter(|pair| class(pair).is_some()).max_by_key(class) {
            (words.api, words.kind) = (api.to_owned(), kind.to_owned());
        }
        let metadata = tree.get("metadata").filter(|metadata| matches!(metadata.value, Value::Map(_)));
        let is_given = |metadata: &Tree| metadata.get("namespace").is_some_and(|given| given.value != Value::Null);
        let guess = guessed(tree, &words, kind(group_of(&words.api), &words.kind).is_some());
        if let Some(kind) = guess {
            kind.clone_into(&mut words.kind);
        }
        let mut named = Self::of(&words);
        named.class = named.class.or_else(|| guess.and_then(Class::guess));
        named.is_guessed = guess.is_some();
        named.has_no_namespace = metadata.is_some_and(|metadata| !is_given(metadata));
        named.take_meant();
        named
    }

    /// Takes over the kind that is meant by one that is misspelt.
    fn take_meant(&mut self) {
        if self.kind.is_none()
            && self.class.is_none()
            && let Some((group, of)) = meant(&self.group, &self.words.kind)
        {
            self.kind = kind(group, of);
            (self.group, self.words.kind) = (group.to_owned(), of.to_owned());
            self.is_misspelt = true;
        }
    }

    pub(super) fn says_namespace(&self, of: KnownKind) -> bool {
        !self.has_no_namespace || !of.is_namespaced
    }

    /// `Kind namespace/name`, as far as it is known.
    pub(super) fn what(&self) -> String {
        let Words { kind, namespace, name, .. } = &self.words;
        let what = match (namespace.is_empty(), kind.is_empty()) {
            (_, true) => String::new(),
            (true, _) => format!("{kind} {name}"),
            _ => format!("{kind} {namespace}/{name}"),
        };
        what.trim().to_owned()
    }

    pub(super) fn key(&self, meta: &Meta) -> DocumentKey {
        let name = if meta.name.is_empty() { String::new() } else { meta.full_name() };
        let group = match self.group.as_str() {
            "extensions" => "networking.k8s.io",
            "vswitch" => "vswitch.io",
            group => group,
        };
        (format!("{}.{group}", self.words.kind), name)
    }

    /// The document as one that is not understood. Of the metadata so much that has been
    /// understood.
    pub(super) fn wrong(&self, origin: Origin, meta: Option<Meta>) -> Document {
        let has_meta = meta.is_some();
        let meta = meta.unwrap_or_else(|| {
            let mut meta = Meta::default();
            if is_name(&self.words.kind, &self.words.name) {
                self.words.name.clone_into(&mut meta.name);
            }
            // A policy that says two namespaces is held in all.
            let is_unsure = self.words.has_other_namespace && self.class.is_some();
            if is_domain_label(&self.words.namespace) && !is_unsure {
                self.words.namespace.clone_into(&mut meta.namespace);
            }
            let is_namespaced = self.kind.is_some_and(|kind| kind.is_namespaced) || self.class == Some(Class::K8s);
            if self.has_no_namespace && is_namespaced {
                "default".clone_into(&mut meta.namespace);
            }
            meta
        });
        let body = match self.class {
            Some(class) => DocumentBody::WrongPolicy(Box::new(WrongPolicy::unknown(class))),
            None => DocumentBody::Wrong { has_meta, pod: None },
        };
        Document { key: self.key(&meta), origin, meta, says_namespace: !self.has_no_namespace, body, left: None }
    }
}

pub(super) struct Read<'a> {
    pub(super) file: &'a str,
    pub(super) documents: Vec<Document>,
    pub(super) problems: Vec<Problem>,
}

impl Read<'_> {
    /// What is no document is kept as something: nobody knows that what its file said before is
    /// gone. A page of a server in place of a file, or a list of documents, may hold a policy.
    fn shapeless(&mut self, tree: &Tree) {
        let origin = Origin::new(self.file, tree.line, "");
        let may_be_any = match &tree.value {
            Value::Map(_) => return,
            Value::List(items) => items.iter().any(|item| item.get("kind").is_some()),
            Value::Text(_) | Value::Wrong(_) => true,
            _ => false,
        };
        self.suspects(tree, &origin);
        self.nameless(origin, may_be_any);
    }

    fn document(&mut self, mut tree: Tree) {
        let named = Named::of_tree(&tree);
        let kind = named.words.kind.as_str();
        let origin = Origin::new(self.file, tree.line, &named.what());
        if !matches!(tree.value, Value::Map(_)) {
            self.problems.push(origin.error("", "not a mapping"));
            return;
        }
        if let Some(of) = named.kind.filter(|_| named.is_misspelt) {
            return self.misspelt(&named, of, origin, tree);
        }
        if let Some(problem) = named.unnamed(&origin, &tree) {
            self.problems.push(problem);
            if named.class.is_none() {
                self.suspects(&tree, &origin);
            }
            let is_double =
                ["apiVersion", "kind"].iter().any(|field| tree.get(field).is_some_and(|it| it.wrong().is_some()));
            // What a policy of Kubernetes selects is known, if nothing of another kind is in it.
            let says = |field: &str| !tree.all(&["spec", field]).is_empty();
            let is_plain = named.class == Some(Class::K8s) && says("podSelector") && !says("appliedTo");
            let document =
                if is_double || is_plain { without_meta(&named, origin, &mut tree) } else { named.wrong(origin, None) };
            self.documents.push(document);
            return;
        }
        let Some(of) = named.kind else {
            return self.left_out(&named, origin, &tree);
        };
        // (What an API server says has no lines.)
        let fields = if MANY.contains(&kind) || tree.line == 0 { Fields::default() } else { Fields::new(tree.lines()) };
        let told = |origin: &Origin, error: FieldError, is_tolerated: bool| {
            let problem = if is_tolerated {
                origin.tolerated(error.path, error.reason)
            } else {
                origin.error(error.path, error.reason)
            };
            problem.hint(error.hint).at_line(error.line)
        };
        let mut unknown = Vec::new();
        let numbers = if partial::leaves(kind) { quoted(&mut tree) } else { Vec::new() };
        let mut metadata = partial::read(kind, &mut tree, |tree| {
            let meta = meta(tree, (kind, of.is_namespaced), &mut unknown).map_err(|error| vec![error])?;
            let wrong = wrong_labels(kind, &meta.labels);
            if wrong.is_empty() { Ok(meta) } else { Err(wrong) }
        });
        let Some(meta) = metadata.value else {
            self.problems.extend(metadata.errors.into_iter().take(1).map(|error| told(&origin, error, false)));
            self.documents.push(without_meta(&named, origin, &mut tree));
            return;
        };
        metadata.errors.extend(numbers);
        let metadata_errors: Vec<_> = metadata.errors.iter().map(|error| told(&origin, error.clone(), false)).collect();
        let origin = Origin::new(self.file, tree.line, &format!("{kind} {}", meta.full_name())).with_fields(fields);
        if named.words.api != of.api {
            let reason = format!("{:?} is read as {}", named.words.api, of.api);
            self.problems.push(origin.tolerated("apiVersion", reason));
        }
        if named.class.is_some() && !is_domain(&meta.name) {
            self.problems
                .push(origin.tolerated("metadata.name", format!("{:?} is no name that Kubernetes takes", meta.name)));
        }
        if named.class == Some(Class::BaselineAdmin) && meta.name != "default" {
            let reason = "is the only name that a BaselineAdminNetworkPolicy has in a cluster";
            self.problems.push(origin.tolerated("metadata.name", format!("default {reason}")));
        }
        tree.strip(&[], &["apiVersion", "kind", "metadata"]);
        let (key, says_namespace) = (named.key(&meta), named.says_namespace(of));
        let nothing = DocumentBody::Wrong { has_meta: true, pod: None };
        let mut document = Document { key, origin, meta, says_namespace, body: nothing, left: None };
        let is_wrong = !metadata_errors.is_empty();
        let mut errors = Vec::new();
        match (of.parse, named.class) {
            (Parse::Policy, Some(class)) => {
                let (body, more) = policy(class, &mut tree);
                document.body = body;
                errors.extend(more);
            }
            (Parse::Policy, None) => {}
            (Parse::Other(parse), _) => {
                let body = body(kind, parse, &mut tree, &mut unknown);
                errors.extend(document.fill(body, metadata.is_in_doubt, is_wrong, &tree));
            }
        }
        // What may be its labels is not left out: rules may deny by them.
        if let Some(error) = labels_of(kind, &mut unknown) {
            document.lose_labels(&tree);
            errors.push(error);
        } else if let Some(error) = needed_of(kind, &document, &mut unknown) {
            document.lose(&error, !is_wrong, &tree);
            errors.push(error);
        }
        let sources = sources_of(&mut document, &mut unknown);
        let origin = &document.origin;
        self.problems.extend(sources.map(|error| told(origin, error, false)));
        self.problems.extend(unknown.into_iter().map(|error| told(origin, error, true)));
        self.problems.extend(metadata_errors);
        let more = errors.len().saturating_sub(ERRORS_MAX);
        self.problems.extend(errors.into_iter().take(ERRORS_MAX).map(|error| told(origin, error, false)));
        if more > 0 {
            self.problems.push(origin.error("", format!("{more} more entries are wrong")));
        }
        self.documents.push(document);
    }
}

/// A document whose metadata is wrong.
pub(super) fn without_meta(named: &Named, origin: Origin, tree: &mut Tree) -> Document {
    let mut document = named.wrong(origin, None);
    if let Some(class) = named.class {
        tree.strip(&[], &["apiVersion", "kind", "metadata"]);
        document.body = DocumentBody::WrongPolicy(Box::new(of_body(class, tree)));
    } else {
        document.body = pod::wrong(named.words.kind == "Pod", false, tree);
    }
    document
}

/// A policy from what is in its document beside kind and metadata; and all that is wrong with it.
fn policy(class: Class, tree: &mut Tree) -> (DocumentBody, Vec<FieldError>) {
    tree.strip(&[], &["status"]);
    if class.is_admin() { admin_policy::parse(class, tree) } else { ruled::parse(class, tree) }
}

/// The group of an API's version.
fn group_of(api: &str) -> &str {
    api.split_once('/').map_or("", |(group, _)| group)
}

/// What a policy says whose metadata is wrong.
fn of_body(class: Class, tree: &mut Tree) -> WrongPolicy {
    match policy(class, tree).0 {
        DocumentBody::WrongPolicy(wrong) => *wrong,
        DocumentBody::K8sPolicy(body) => WrongPolicy::of_k8s(&body.spec),
        DocumentBody::AntreaPolicy(body) | DocumentBody::ClusterPolicy(body) | DocumentBody::AdminPolicy(_, body) => {
            WrongPolicy::of_antrea(class, &body.spec)
        }
        _ => WrongPolicy::unknown(class),
    }
}

/// Metadata of a kind.
pub(super) fn meta(
    tree: &mut Tree,
    (kind, is_namespaced): (&str, bool),
    unknown: &mut Vec<FieldError>,
) -> Result<Meta, FieldError> {
    let owner = if kind == "Pod" { Owner::of(tree) } else { Owner::default() };
    tree.strip(&["metadata"], &META_IGNORED);
    let line = tree.line;
    let metadata = tree.get_mut("metadata").ok_or_else(|| FieldError::new(line, "metadata", "is required"))?;
    let below = |error: FieldError| FieldError {
        path: format!("metadata.{}", error.path).trim_end_matches('.').to_owned(),
        ..error
    };
    let mut of_meta = Vec::new();
    foreign(metadata, &mut of_meta);
    let meta = typed_without_unknown(metadata, &mut of_meta).map_err(below);
    unknown.extend(of_meta.into_iter().map(below));
    let mut meta: Meta = meta?;
    meta.owner = owner;
    let wrong = |field: &str, reason: String| FieldError::new(metadata.line, &format!("metadata.{field}"), reason);
    if !is_name(kind, &meta.name) {
        return Err(wrong("name", format!("{:?} is no name", meta.name)));
    }
    match is_namespaced {
        false if !meta.namespace.is_empty() => {
            return Err(wrong("namespace", "this kind has no namespace".to_owned()));
        }
        true if meta.namespace.is_empty() => "default".clone_into(&mut meta.namespace),
        true if !is_domain_label(&meta.namespace) => {
            return Err(wrong("namespace", format!("{:?} is no name", meta.namespace)));
        }
        _ => {}
    }
    Ok(meta)
}

/// Annotations that say something here begin so.
const OWN: [&str; 3] = ["vswitch/", "service.antrea.io/", "networkpolicy.antrea.io/"];

/// Takes annotations of no meaning here out of metadata that are no value.
fn foreign(metadata: &mut Tree, wrong: &mut Vec<FieldError>) {
    let Some(Value::Map(entries)) = metadata.get_mut("annotations").map(|annotations| &mut annotations.value) else {
        return;
    };
    entries.retain(|entry| {
        let reason = entry.value.wrong().filter(|_| !OWN.iter().any(|own| entry.key.starts_with(own)));
        wrong.extend(reason.map(|reason| FieldError::new(entry.line, &format!("annotations[{}]", entry.key), reason)));
        reason.is_none()
    });
}

/// How a kind is read.
#[derive(Clone, Copy)]
pub(super) enum Parse {
    Policy,
    Other(ParseBody),
}

/// A kind that is read.
#[derive(Clone, Copy)]
pub(super) struct KnownKind {
    pub(super) api: &'static str,
    pub(super) is_namespaced: bool,
    parse: Parse,
}

/// Whether documents of a kind of a group are read.
pub fn is_read(group: &str, word: &str) -> bool {
    kind(group, word).is_some()
}

/// A kind of a group, whatever version of it.
pub(super) fn kind(group: &str, kind: &str) -> Option<KnownKind> {
    use Parse::{Other, Policy};
    const ANTREA: &str = "crd.antrea.io/v1beta1";
    const NETWORK: &str = "policy.networking.k8s.io/v1alpha2";
    const ADMIN_API: &str = "policy.networking.k8s.io/v1alpha1";
    let (api, is_namespaced, parse) = match (group, kind) {
        ("", "Namespace") => ("v1", false, Other(namespace)),
        ("", "Node") => ("v1", false, Other(|tree, unknown| node::parse(tree, unknown).map(DocumentBody::Node))),
        ("vswitch.io", "NodeConfig") => ("vswitch.io/v1", false, Other(node_config)),
        ("vswitch", "NodeConfig") => ("vswitch/v1", false, Other(node_config)),
        ("", "Pod") => ("v1", true, Other(|tree, unknown| pod::parse(tree, unknown).map(DocumentBody::Pod))),
        ("", "Service") => {
            ("v1", true, Other(|tree, unknown| service::parse(tree, unknown).map(DocumentBody::Service)))
        }
        ("discovery.k8s.io", "EndpointSlice") => (
            "discovery.k8s.io/v1",
            true,
            Other(|tree, unknown| endpoint_slice::parse(tree, unknown).map(DocumentBody::EndpointSlice)),
        ),
        ("networking.k8s.io" | "extensions", "NetworkPolicy") => ("networking.k8s.io/v1", true, Policy),
        ("crd.antrea.io", "NetworkPolicy") => (ANTREA, true, Policy),
        ("crd.antrea.io", "ClusterNetworkPolicy") => (ANTREA, false, Policy),
        (ADMIN_GROUP, "ClusterNetworkPolicy") => (NETWORK, false, Policy),
        (ADMIN_GROUP, "AdminNetworkPolicy" | "BaselineAdminNetworkPolicy") => (ADMIN_API, false, Policy),
        ("crd.antrea.io", "Tier") => (ANTREA, false, Other(tier)),
        // What a group says may narrow it.
        ("crd.antrea.io", "ClusterGroup") => {
            (ANTREA, false, Other(|tree, _| without_status(tree).map(DocumentBody::ClusterGroup)))
        }
        ("crd.antrea.io", "Group") => (ANTREA, true, Other(|tree, _| without_status(tree).map(DocumentBody::Group))),
        ("crd.antrea.io", "ExternalIPPool") => (ANTREA, false, Other(external_ip_pool)),
        ("crd.antrea.io", "Egress") => (ANTREA, false, Other(egress)),
        ("crd.antrea.io", "TrafficControl") => ("crd.antrea.io/v1alpha2", false, Other(traffic_control)),
        _ => return None,
    };
    Some(KnownKind { api, is_namespaced, parse })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn namespace(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<DocumentBody, FieldError> {
    tree.strip(&[], &["spec", "status"]);
    typed_without_unknown::<Nothing>(tree, unknown).map(|_| DocumentBody::Namespace)
}

/// A field that is not known may be one that is misspelt, and that has a default.
fn node_config(tree: &mut Tree, _: &mut Vec<FieldError>) -> Result<DocumentBody, FieldError> {
    boxed(tree).map(DocumentBody::NodeConfig)
}

fn tier(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<DocumentBody, FieldError> {
    tree.strip(&[], &["status"]);
    typed_without_unknown(tree, unknown).map(DocumentBody::Tier)
}

fn egress(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<DocumentBody, FieldError> {
    let body = egress::parse(tree, unknown)?;
    narrows(unknown, "spec.appliedTo")?;
    Ok(DocumentBody::Egress(body))
}

fn external_ip_pool(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<DocumentBody, FieldError> {
    let body = external_ip_pool::parse(tree, unknown)?;
    narrows(unknown, "spec.nodeSelector")?;
    Ok(DocumentBody::ExternalIpPool(body))
}

fn traffic_control(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<DocumentBody, FieldError> {
    tree.strip(&[], &["status"]);
    let body = Box::new(typed_without_unknown(tree, unknown)?);
    narrows(unknown, "spec.appliedTo")?;
    Ok(DocumentBody::TrafficControl(body))
}

/// What is not known of whom an object applies to is no field to be left out: it would apply to
/// others.
fn narrows(unknown: &mut Vec<FieldError>, field: &str) -> Result<(), FieldError> {
    match unknown.iter().position(|error| error.path.starts_with(field)) {
        Some(place) => Err(unknown.remove(place)),
        None => Ok(()),
    }
}

fn boxed<T: DeserializeOwned>(tree: &mut Tree) -> Result<Box<T>, FieldError> {
    typed(tree).map(Box::new)
}

fn without_status<T: DeserializeOwned>(tree: &mut Tree) -> Result<Box<T>, FieldError> {
    tree.strip(&[], &["status"]);
    boxed(tree)
}
