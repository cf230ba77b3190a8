//! Documents of which some entries are wrong: what is left without them.
//!
//! An entry that is wrong is taken out of the document, and told. The rest is read as if the entry
//! were not there. What could make a policy weaker, or mean something else, is no such entry: the
//! whole document is wrong then.

use super::{Document, DocumentBody, Left, pod};
use crate::source::{FieldError, Tree, Value};
use std::collections::BTreeSet;

/// Times that a document is read again.
const PASSES_MAX: usize = 50;

/// What came of a document.
#[derive(Debug)]
pub(super) struct Partial<T> {
    /// What it says without the entries that are wrong; None: too little is left.
    pub(super) value: Option<T>,
    /// All that is wrong with it, by paths of the document as it is written.
    pub(super) errors: Vec<FieldError>,
    /// Policies may select other Pods than those that the rest says.
    pub(super) is_in_doubt: bool,
    /// Paths that were taken out.
    pub(super) cut: Vec<String>,
}

/// An entry that may go.
struct Cut<'a> {
    path: &'a str,
    is_in_doubt: bool,
}

/// Reads a document of a kind as often as it takes: each time without the entries that were wrong.
pub(super) fn read<T>(
    kind: &str,
    tree: &mut Tree,
    mut parse: impl FnMut(&mut Tree) -> Result<T, Vec<FieldError>>,
) -> Partial<T> {
    let mut partial = Partial { value: None, errors: Vec::new(), is_in_doubt: false, cut: Vec::new() };
    let mut removed = BTreeSet::new();
    for _ in 0..PASSES_MAX {
        let errors = match parse(tree) {
            Ok(value) => {
                partial.value = Some(value);
                return partial;
            }
            Err(errors) => errors,
        };
        let mut paths: Vec<String> = Vec::new();
        for mut error in errors {
            // What is required and not there makes wrong what it is in.
            let whole = if error.reason == "is required" { parent(&error.path) } else { &error.path };
            let cut = cut(kind, whole, tree).filter(|cut| find(tree, cut.path).is_some());
            if error.line == 0 {
                error.line = find(tree, &error.path).or_else(|| find(tree, whole)).map_or(0, |found| found.line);
            }
            let told = FieldError { path: original(&error.path, &removed), ..error.clone() };
            // That a field is missing that was wrong is no news.
            if whole.len() == error.path.len() || !partial.cut.contains(&told.path) {
                partial.errors.push(told);
            }
            let Some(cut) = cut else { return partial };
            partial.is_in_doubt |= cut.is_in_doubt;
            if paths.last().is_none_or(|path| path != cut.path) {
                paths.push(cut.path.to_owned());
            }
        }
        let originals: Vec<String> = paths.iter().map(|path| original(path, &removed)).collect();
        // From the last one on: places in sequences stay what they are.
        paths.iter().rev().for_each(|path| remove(tree, path));
        removed.extend(originals.iter().filter_map(|path| place(path)));
        partial.cut.extend(originals);
    }
    partial
}

/// Reads what is in a document beside kind and metadata.
pub(super) type ParseBody = fn(&mut Tree, &mut Vec<FieldError>) -> Result<DocumentBody, FieldError>;

/// The body of a document, as far as it is right.
pub(super) fn body(
    kind: &str,
    parse: ParseBody,
    tree: &mut Tree,
    unknown: &mut Vec<FieldError>,
) -> Partial<DocumentBody> {
    let mut body = read(kind, tree, |tree| {
        let body = parse(tree, unknown).map_err(|error| vec![error])?;
        let errors = check(&body);
        if errors.is_empty() { Ok(body) } else { Err(errors) }
    });
    if !body.errors.is_empty() {
        body.value = body.value.take().and_then(|value| without(value, &body.cut));
    }
    body
}

impl Document {
    /// Takes over what was read of its body. Where something is wrong it is a document that is not
    /// understood, beside what is left of it. Returns what is wrong.
    pub(super) fn fill(
        &mut self,
        body: Partial<DocumentBody>,
        is_in_doubt: bool,
        has_errors: bool,
        tree: &Tree,
    ) -> Vec<FieldError> {
        let mut errors = body.errors;
        let mut meta = self.meta.clone();
        let is_pod = self.key.0 == "Pod.";
        if is_pod {
            errors.extend(pod::only_addresses(&mut meta));
        }
        let left = match body.value {
            Some(value) if errors.is_empty() && !has_errors => {
                self.body = value;
                return errors;
            }
            left => left,
        };
        self.body = pod::wrong(is_pod, !has_errors, tree);
        match left {
            Some(left) => {
                let document = Box::new(Self { meta, body: left, ..self.clone() });
                let knows_labels = !is_in_doubt;
                self.left = Some(Left { document, is_in_doubt: is_in_doubt || body.is_in_doubt, knows_labels });
            }
            // The first is why the rest is of no use.
            None => errors.truncate(usize::from(!has_errors)),
        }
        errors
    }
}

impl Document {
    /// Makes a document wrong whose labels are misspelt. Of a Node the rest is left.
    pub(super) fn lose_labels(&mut self, tree: &Tree) {
        let left = match &self.body {
            DocumentBody::Node(_) => Some(Self { left: None, ..self.clone() }),
            _ => self.left.take().map(|left| *left.document).filter(|left| matches!(left.body, DocumentBody::Node(_))),
        };
        self.left = left.map(|left| Left { document: Box::new(left), is_in_doubt: false, knows_labels: false });
        self.body = pod::wrong(self.key.0 == "Pod.", false, tree);
    }

    /// Makes a document wrong one of whose fields by which rules may deny is misspelt. Of a Pod
    /// nothing is left.
    pub(super) fn lose(&mut self, error: &FieldError, has_meta: bool, tree: &Tree) {
        let is_pod = self.key.0 == "Pod.";
        let body = std::mem::replace(&mut self.body, pod::wrong(is_pod, has_meta, tree));
        let body = match body {
            DocumentBody::Pod(_) | DocumentBody::Wrong { .. } => None,
            DocumentBody::Service(mut body) => {
                body.spec.has_lost_selector |= error.path.starts_with("spec.");
                Some(DocumentBody::Service(body))
            }
            body => Some(body),
        };
        match (body, &mut self.left) {
            (Some(body), _) => {
                let document = Box::new(Self { body, left: None, ..self.clone() });
                self.left = Some(Left { document, is_in_doubt: false, knows_labels: true });
            }
            (None, Some(left)) if !is_pod => {
                if let DocumentBody::Service(body) = &mut left.document.body {
                    body.spec.has_lost_selector |= error.path.starts_with("spec.");
                }
            }
            (None, left) => *left = None,
        }
    }
}

/// Annotations that are numbers are read as the texts that are meant; which ones.
pub(super) fn quoted(tree: &mut Tree) -> Vec<FieldError> {
    let annotations = tree.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let Some(Value::Map(entries)) = annotations.map(|tree| &mut tree.value) else { return Vec::new() };
    let mut told = Vec::new();
    for entry in entries {
        let text = match &entry.value.value {
            Value::Int(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            _ => continue,
        };
        let path = format!("metadata.annotations.{}", entry.key);
        let error = FieldError::new(entry.line, &path, format!("{text} is read as {text:?}"));
        told.push(FieldError { hint: "quote it".to_owned(), ..error });
        entry.value.value = Value::Text(text);
    }
    told
}

/// Whether documents of a kind may be read without what is wrong with them.
pub(super) fn leaves(kind: &str) -> bool {
    ["Namespace", "Node", "NodeConfig", "Pod", "Service", "EndpointSlice", "Egress", "TrafficControl"].contains(&kind)
}

/// Which entry goes if a field of a kind is wrong; None: none may.
fn cut<'a>(kind: &str, path: &'a str, tree: &Tree) -> Option<Cut<'a>> {
    let harmless = |path: &'a str| Some(Cut { path, is_in_doubt: false });
    let doubt = |path: &'a str| Some(Cut { path, is_in_doubt: true });
    let is_in = |field: &str| is_within(path, field);
    if !leaves(kind) {
        return None;
    }
    if kind == "Namespace" && path == "metadata.labels" {
        return None;
    }
    if is_in("metadata.labels") {
        return doubt(path);
    }
    if ["uid", "deletionTimestamp", "annotations"].iter().any(|field| is_within(path, &format!("metadata.{field}"))) {
        return harmless(path);
    }
    match kind {
        "Pod" if is_in("spec.nodeName") || is_in("spec.hostNetwork") || ["", "spec", "status"].contains(&path) => None,
        "Pod" if is_in("spec.containers") || is_in("spec.initContainers") => {
            of_container(path, tree).and_then(harmless)
        }
        "Pod" if is_in("spec") || is_in("status.phase") => doubt(path),
        "Pod" if is_in("status") => harmless(item(path, "status.podIPs").unwrap_or(path)),
        "Service" if path == "spec" || is_in("spec.loadBalancerSourceRanges") => None,
        "Service" if is_in("spec.selector") => harmless(&path[.."spec.selector".len()]),
        "Service" if path.ends_with(".nodePort") => harmless(path),
        "Service" if is_in("spec") => harmless(item(path, "spec.ports").unwrap_or(path)),
        "Service" if is_in("status") => harmless(item(path, "status.loadBalancer.ingress").unwrap_or(path)),
        "EndpointSlice" if is_in("ports") => item(path, "ports").and_then(harmless),
        "EndpointSlice" if is_in("endpoints") => {
            let endpoint = item(path, "endpoints")?;
            let beside = ["hints", "zone", "hostname", "targetRef", "nodeName"];
            let is_beside = beside.iter().any(|field| is_within(path, &format!("{endpoint}.{field}")));
            harmless(if is_beside { path } else { endpoint })
        }
        "Node" if is_in("spec") => harmless(path),
        "Node" if is_in("status") => harmless(item(path, "status.addresses").unwrap_or(path)),
        "NodeConfig" => of_config(path).and_then(harmless),
        "Egress" if is_in("spec.egressIP") || is_in("spec.egressIPs") || is_in("status") => harmless(path),
        _ => None,
    }
}

/// Which entry of a container of a Pod goes: none that may be a port with a name, which rules may
/// mean.
fn of_container<'a>(path: &'a str, tree: &Tree) -> Option<&'a str> {
    let container = ["spec.containers", "spec.initContainers"]
        .iter()
        .find_map(|list| item(path, list))
        .filter(|item| *item != path)?;
    let Some(port) = item(path, &format!("{container}.ports")) else {
        return is_within(path, &format!("{container}.name")).then_some(path);
    };
    let name = find(tree, port).filter(|port| matches!(port.value, Value::Map(_)))?.get("name");
    name.is_none_or(|name| [Value::Null, Value::Text(String::new())].contains(&name.value)).then_some(port)
}

/// Which entry of a NodeConfig goes.
fn of_config(path: &str) -> Option<&str> {
    let is_in = |field: &str| is_within(path, field);
    // A selector that is not understood may select other Nodes.
    if ["", "spec", "spec.bridge", "spec.gateway"].contains(&path)
        || ["spec.nodeSelector", "spec.gateway.port", "spec.gateway.mac"].into_iter().any(is_in)
        || !is_in("spec")
    {
        return None;
    }
    // Without its port or MAC address there is none at all.
    for whole in ["spec.uplink.port", "spec.uplink.mac", "spec.uplink.underlayBridge"] {
        if is_in(whole) {
            return Some(&path[.."spec.uplink".len()]);
        }
    }
    for whole in ["spec.l7", "spec.zones", "spec.uplink.gateway"] {
        if is_in(whole) {
            return Some(&path[..whole.len()]);
        }
    }
    ["spec.packetLimits", "spec.uplink.nextHops"].iter().find_map(|list| item(path, list)).or(Some(path))
}

/// Whether a path is a field, or in it.
fn is_within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The item of a list that a path is in: `spec.ports[3]`.
fn item<'a>(path: &'a str, list: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(list)?.strip_prefix('[')?;
    let end = rest.find(']')?;
    Some(&path[..list.len() + end + 2])
}

/// What a field is in.
pub(super) fn parent(path: &str) -> &str {
    path.rfind(['.', '[']).map_or("", |end| &path[..end])
}

/// The list and the place of a path that is an item of a list.
fn place(path: &str) -> Option<(String, usize)> {
    let (list, place) = path.strip_suffix(']')?.rsplit_once('[')?;
    Some((list.to_owned(), place.parse().ok()?))
}

/// The path as the document has it of which items were removed.
fn original(path: &str, removed: &BTreeSet<(String, usize)>) -> String {
    let mut whole = String::new();
    let mut rest = path;
    while let Some((before, behind)) = rest.split_once('[') {
        whole.push_str(before);
        let Some((text, behind)) = behind.split_once(']') else { break };
        if let Ok(mut place) = text.parse::<usize>() {
            for (_, gone) in removed.iter().filter(|(list, _)| *list == whole) {
                place += usize::from(*gone <= place);
            }
            whole = format!("{whole}[{place}]");
        } else {
            whole = format!("{whole}[{text}]");
        }
        rest = behind;
    }
    whole + rest
}

/// The value at a path.
pub(super) fn find<'a>(tree: &'a Tree, path: &str) -> Option<&'a Tree> {
    if path.is_empty() {
        return Some(tree);
    }
    match &tree.value {
        Value::Map(entries) => entries.iter().find_map(|entry| find(&entry.value, below(path, &entry.key)?)),
        Value::List(list) => {
            let (place, rest) = first_place(path)?;
            find(list.get(place)?, rest)
        }
        _ => None,
    }
}

/// The place that a path begins with, and what is behind it: `[3].port`.
pub(super) fn first_place(path: &str) -> Option<(usize, &str)> {
    let (place, rest) = path.strip_prefix('[')?.split_once(']')?;
    Some((place.parse().ok()?, rest.strip_prefix('.').unwrap_or(rest)))
}

/// What is left of a path behind its first step, if that is this one.
pub(super) fn below<'a>(path: &'a str, step: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(step)?;
    match rest.chars().next() {
        None | Some('[') => Some(rest),
        Some('.') => Some(&rest[1..]),
        Some(_) => None,
    }
}

/// Takes away the value at a path.
pub(super) fn remove(tree: &mut Tree, path: &str) {
    match &mut tree.value {
        Value::Map(entries) => {
            entries.retain_mut(|entry| match below(path, &entry.key) {
                Some("") => false,
                Some(rest) => {
                    remove(&mut entry.value, rest);
                    true
                }
                None => true,
            });
        }
        Value::List(list) => match first_place(path) {
            Some((place, "")) if place < list.len() => drop(list.remove(place)),
            Some((place, rest)) => list.get_mut(place).into_iter().for_each(|item| remove(item, rest)),
            None => {}
        },
        _ => {}
    }
}

/// What is wrong with entries of a body by themselves. Of each item of a list one error at most.
fn check(body: &DocumentBody) -> Vec<FieldError> {
    match body {
        DocumentBody::Pod(body) => body.check(),
        DocumentBody::Service(body) => body.check(),
        DocumentBody::EndpointSlice(body) => body.check(),
        DocumentBody::Node(body) => body.check(),
        DocumentBody::NodeConfig(body) => body.check(),
        DocumentBody::Egress(body) => body.check(),
        _ => Vec::new(),
    }
}

/// The body without these entries, with marks of what is not known any more; None: too little is
/// left.
fn without(mut body: DocumentBody, cut: &[String]) -> Option<DocumentBody> {
    let is_enough = match &mut body {
        DocumentBody::Service(body) => {
            body.spec.has_lost_selector = cut.iter().any(|path| is_within(path, "spec.selector"));
            !body.spec.ports.is_empty() || !cut.iter().any(|path| is_within(path, "spec.ports"))
        }
        DocumentBody::Egress(body) => !body.spec.egress_ip.is_empty() || !body.spec.egress_ips.is_empty(),
        _ => true,
    };
    is_enough.then_some(body)
}
