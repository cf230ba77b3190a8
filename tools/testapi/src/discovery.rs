//! Discovery: version, groups, resources, and as much OpenAPI as `kubectl` needs.
//!
//! The OpenAPI documents name each kind's patch operation with its parameters, and no schemas.
//! `kubectl` learns from them that the server validates fields and knows dry runs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::state::State;

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "31", "gitVersion": "v1.31.0-vswitch-testapi", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2024-08-13T07:28:49Z", "goVersion": "go1.22.5", "compiler": "gc", "platform": "linux/amd64",
    })
}

/// Kinds that discovery shows, each with one of its versions.
fn shown(state: &State) -> impl Iterator<Item = (&Kind, &str)> {
    let seen = state.kinds.iter().filter(|kind| !state.hurts.hidden.contains(&kind.resource()));
    seen.flat_map(|kind| {
        let served = kind.versions.iter().filter(|version| version.served);
        served.map(move |version| (&**kind, version.name.as_str()))
    })
}

/// What a path of discovery answers. `prefix` is in front of all paths of this client.
pub(crate) fn answer(state: &State, path: &str, prefix: &str) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["version"] => Some(version()),
        ["api"] => Some(json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1" }],
        })),
        ["apis"] => {
            let names: BTreeSet<&str> = shown(state).map(|(kind, _)| kind.group.as_str()).collect();
            let groups: Vec<Value> = names.iter().filter_map(|group| group_of(state, group)).collect();
            Some(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
        }
        ["apis", group] => {
            let mut found = group_of(state, group)?;
            found["kind"] = json!("APIGroup");
            found["apiVersion"] = json!("v1");
            Some(found)
        }
        ["api", version] => resources(state, "", version),
        ["apis", group, version] => resources(state, group, version),
        ["openapi", "v2"] => Some(json!({
            "swagger": "2.0", "info": { "title": "Kubernetes", "version": "v1.31.0" }, "paths": {}, "definitions": {},
        })),
        ["openapi", "v3"] => {
            let roots: BTreeSet<String> = shown(state).map(|(kind, version)| root(kind, version)).collect();
            let entry = |root: String| {
                let url = format!("{prefix}/openapi/v3/{root}");
                (root, json!({ "serverRelativeURL": url }))
            };
            Some(json!({ "paths": roots.into_iter().map(entry).collect::<serde_json::Map<_, _>>() }))
        }
        ["openapi", "v3", ref root @ ..] => openapi(state, &root.join("/")),
        _ => None,
    }
}

fn root(kind: &Kind, version: &str) -> String {
    if kind.group.is_empty() { format!("api/{version}") } else { format!("apis/{}/{version}", kind.group) }
}

fn group_of(state: &State, group: &str) -> Option<Value> {
    if group.is_empty() {
        return None;
    }
    let mut versions: Vec<&str> = Vec::new();
    for (_, version) in shown(state).filter(|(kind, _)| kind.group == group) {
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions.sort_by_key(|version| std::cmp::Reverse(crate::kinds::rank(version)));
    let named = |version: &&str| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    let all: Vec<Value> = versions.iter().map(named).collect();
    let preferred = all.first()?.clone();
    Some(json!({ "name": group, "versions": all, "preferredVersion": preferred }))
}

fn resources(state: &State, group: &str, version: &str) -> Option<Value> {
    let mut list = Vec::new();
    for (kind, _) in shown(state).filter(|(kind, one)| kind.group == group && *one == version) {
        list.push(json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
            "verbs": VERBS, "shortNames": kind.short, "storageVersionHash": "",
        }));
        if kind.version(version).is_some_and(|version| version.status) {
            list.push(json!({
                "name": format!("{}/status", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": ["get", "patch", "update"],
            }));
        }
    }
    if list.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list }))
}

fn openapi(state: &State, wanted: &str) -> Option<Value> {
    let mut paths = serde_json::Map::new();
    for (kind, version) in shown(state).filter(|(kind, version)| root(kind, version) == wanted) {
        let place = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let named = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string" } });
        let patch = json!({
            "parameters": [named("dryRun"), named("fieldManager"), named("fieldValidation")],
            "responses": { "200": { "description": "OK" } },
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": { "group": kind.group, "version": version, "kind": kind.kind },
        });
        paths.insert(format!("/{wanted}{place}/{}/{{name}}", kind.plural), json!({ "patch": patch }));
    }
    if paths.is_empty() {
        return None;
    }
    let info = json!({ "title": "Kubernetes", "version": "v1.31.0" });
    Some(json!({ "openapi": "3.0.0", "info": info, "paths": paths, "components": { "schemas": {} } }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn hidden_kinds_are_not_shown() {
        let mut state = State::new(Options::default());
        let names = |state: &State| {
            let list = answer(state, "/apis/networking.k8s.io/v1", "")?;
            Some(list["resources"].as_array()?.len())
        };
        assert_eq!(names(&state), Some(1));
        state.hurts.hidden.insert("networkpolicies.networking.k8s.io".to_owned());
        assert_eq!(names(&state), None);
        assert!(answer(&state, "/apis/networking.k8s.io", "").is_none());
        assert!(answer(&state, "/api/v1", "").is_some());
    }
}
