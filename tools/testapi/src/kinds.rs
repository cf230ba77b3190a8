//! Kinds that the server serves: those built in, and those that CustomResourceDefinitions add.
//!
//! One kind has one bucket in the store for all its versions: conversion only changes
//! `apiVersion`. Events are one bucket under two groups, as in Kubernetes (`crate::events`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::cause::Cause;

/// A version of a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Name, such as `v1beta1`.
    pub name: String,
    /// Clients may use it.
    pub served: bool,
    /// Schema of a custom resource.
    pub schema: Option<Value>,
    /// There is a status subresource.
    pub status: bool,
}

/// A kind of object.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// Name of the resource in paths.
    pub plural: String,
    /// Name of one object for the command line.
    pub singular: String,
    /// `kind` of its objects.
    pub kind: String,
    /// Short names for the command line.
    pub short: Vec<String>,
    /// Objects are in a Namespace.
    pub namespaced: bool,
    /// Versions, the preferred one first.
    pub versions: Vec<Version>,
    /// Kubernetes has it without a CustomResourceDefinition.
    pub builtin: bool,
    /// `metadata.generation` counts changes of the specification.
    pub generation: bool,
}

impl Kind {
    /// `plural` or `plural.group`, as messages have it.
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `version` or `group/version`.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn is_crd(&self) -> bool {
        self.is("apiextensions.k8s.io", "customresourcedefinitions")
    }

    pub(crate) fn is_event(&self) -> bool {
        self.builtin && self.plural == "events"
    }

    /// An update without a resourceVersion overwrites.
    pub(crate) fn unconditional(&self) -> bool {
        self.builtin && !self.is_crd() && self.plural != "leases"
    }

    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name && version.served)
    }

    /// Key of its objects in the store.
    pub(crate) fn bucket(&self) -> (String, String) {
        let group = if self.is_event() { "" } else { &self.group };
        (group.to_owned(), self.plural.clone())
    }

    /// The kind that a CustomResourceDefinition describes.
    pub(crate) fn of_crd(crd: &Value) -> Result<Self, Vec<Cause>> {
        let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (group, plural, kind) = (text("/spec/group"), text("/spec/names/plural"), text("/spec/names/kind"));
        let mut causes = Vec::new();
        for (field, value) in [("spec.group", &group), ("spec.names.plural", &plural), ("spec.names.kind", &kind)] {
            if value.is_empty() {
                causes.push(Cause::required(field));
            }
        }
        let expected = format!("{plural}.{group}");
        if text("/metadata/name") != expected {
            let why = format!("must be spec.names.plural+\".\"+spec.group: should be \"{expected}\"");
            causes.push(Cause::invalid("metadata.name", &crd["metadata"]["name"], &why));
        }
        if !group.is_empty() && !group.contains('.') {
            let why = "should be a domain with at least one dot";
            causes.push(Cause::invalid("spec.group", &crd["spec"]["group"], why));
        }
        let scope = text("/spec/scope");
        if scope != "Namespaced" && scope != "Cluster" {
            let message = format!("Unsupported value: \"{scope}\": supported values: \"Cluster\", \"Namespaced\"");
            causes.push(Cause { field: "spec.scope".to_owned(), reason: "FieldValueNotSupported", message });
        }
        let versions = versions(crd, &mut causes);
        if !causes.is_empty() {
            return Err(causes);
        }
        let singular = text("/spec/names/singular");
        Ok(Self {
            singular: if singular.is_empty() { kind.to_lowercase() } else { singular },
            short: words(&crd["spec"]["names"]["shortNames"]),
            namespaced: scope == "Namespaced",
            builtin: false,
            generation: true,
            versions,
            group,
            plural,
            kind,
        })
    }
}

fn words(list: &Value) -> Vec<String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn versions(crd: &Value, causes: &mut Vec<Cause>) -> Vec<Version> {
    let mut versions = Vec::new();
    let listed = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (i, one) in listed.iter().enumerate() {
        let schema = one.pointer("/schema/openAPIV3Schema").cloned();
        if schema.as_ref().is_none_or(|schema| schema["type"] != "object") {
            causes.push(Cause::required(format!("spec.versions[{i}].schema.openAPIV3Schema")));
        }
        versions.push(Version {
            name: one["name"].as_str().unwrap_or_default().to_owned(),
            served: one["served"].as_bool().unwrap_or_default(),
            status: one.pointer("/subresources/status").is_some(),
            schema,
        });
    }
    let stored = listed.iter().filter(|one| one["storage"] == true).count();
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &Value::Null, why));
    }
    versions.sort_by_key(|version| std::cmp::Reverse(rank(&version.name)));
    versions
}

/// Kubernetes' order of versions: v2 before v1 before v1beta2 before v1beta1 before v1alpha1.
pub(crate) fn rank(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let split = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = (rest[..split].parse().unwrap_or(0), &rest[split..]);
    let minor = |name: &str| stage.strip_prefix(name).and_then(|digits| digits.parse::<u32>().ok());
    match stage {
        "" => (3, major, 0),
        _ => match (minor("beta"), minor("alpha")) {
            (Some(n), _) => (2, major, n),
            (_, Some(n)) => (1, major, n),
            _ => (0, 0, 0),
        },
    }
}

/// Group, version, plural, kind, short name, namespaced, has status, counts generations.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, bool, bool, bool);
const RBAC: &str = "rbac.authorization.k8s.io";
const BUILTIN: [Row; 19] = [
    ("", "v1", "namespaces", "Namespace", "ns", false, true, false),
    ("", "v1", "nodes", "Node", "no", false, true, false),
    ("", "v1", "pods", "Pod", "po", true, true, false),
    ("", "v1", "services", "Service", "svc", true, true, false),
    ("", "v1", "endpoints", "Endpoints", "ep", true, false, false),
    ("", "v1", "events", "Event", "ev", true, false, false),
    ("", "v1", "configmaps", "ConfigMap", "cm", true, false, false),
    ("", "v1", "serviceaccounts", "ServiceAccount", "sa", true, false, false),
    ("events.k8s.io", "v1", "events", "Event", "ev", true, false, false),
    ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "", true, false, true),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "netpol", true, false, true),
    ("coordination.k8s.io", "v1", "leases", "Lease", "", true, false, false),
    ("apps", "v1", "daemonsets", "DaemonSet", "ds", true, true, true),
    ("apps", "v1", "deployments", "Deployment", "deploy", true, true, true),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "crd", false, true, true),
    (RBAC, "v1", "roles", "Role", "", true, false, false),
    (RBAC, "v1", "rolebindings", "RoleBinding", "", true, false, false),
    (RBAC, "v1", "clusterroles", "ClusterRole", "", false, false, false),
    (RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", "", false, false, false),
];

/// All kinds that are served, by group and plural.
#[derive(Debug, Clone)]
pub(crate) struct Kinds {
    all: BTreeMap<(String, String), Arc<Kind>>,
}

impl Default for Kinds {
    fn default() -> Self {
        let all = BUILTIN.iter().map(|row| {
            let (group, version, plural, kind, short, namespaced, status, generation) = *row;
            let version = Version { name: version.to_owned(), served: true, schema: None, status };
            let kind = Kind {
                group: group.to_owned(),
                plural: plural.to_owned(),
                singular: kind.to_lowercase(),
                kind: kind.to_owned(),
                short: if short.is_empty() { Vec::new() } else { vec![short.to_owned()] },
                namespaced,
                versions: vec![version],
                builtin: true,
                generation,
            };
            ((group.to_owned(), plural.to_owned()), Arc::new(kind))
        });
        Self { all: all.collect() }
    }
}

impl Kinds {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.all.values()
    }

    pub(crate) fn add(&mut self, kind: Kind) {
        self.all.insert((kind.group.clone(), kind.plural.clone()), Arc::new(kind));
    }

    pub(crate) fn remove(&mut self, group: &str, plural: &str) -> Option<Arc<Kind>> {
        self.all.remove(&(group.to_owned(), plural.to_owned()))
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        let kind = self.all.get(&(group.to_owned(), plural.to_owned()))?;
        kind.version(version).is_some().then_some(kind)
    }

    /// By `apiVersion` and `kind` of an object; the version comes with it.
    pub(crate) fn of_object(&self, api_version: &str, kind: &str) -> Option<(&Arc<Kind>, String)> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let found = self.iter().find(|one| one.group == group && one.kind == kind)?;
        found.version(version).map(|version| (found, version.name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_kubernetes_order() {
        let mut names = ["v1alpha1", "v1", "v2beta1", "v10", "v1beta2", "x"];
        names.sort_by_key(|name| std::cmp::Reverse(rank(name)));
        assert_eq!(names, ["v10", "v1", "v2beta1", "v1beta2", "v1alpha1", "x"]);
    }

    #[test]
    fn a_definition_names_every_fault() {
        let crd = serde_json::json!({
            "metadata": { "name": "tiers.x" },
            "spec": { "group": "x", "names": { "plural": "tiers" }, "versions": [{ "name": "v1" }] },
        });
        let fields: Vec<String> = Kind::of_crd(&crd).unwrap_err().into_iter().map(|cause| cause.field).collect();
        let schema = "spec.versions[0].schema.openAPIV3Schema";
        assert_eq!(fields, ["spec.names.kind", "spec.group", "spec.scope", schema, "spec.versions"]);
    }
}
