//! Who asks, and what they may do: bearer tokens, and RBAC by the objects in the store.
//!
//! Left out: aggregation of ClusterRoles, and the check that nobody grants what they do not have.

use serde_json::Value;

use crate::store::Store;

/// A user as a token names them.
#[derive(Debug, Clone, PartialEq)]
pub struct User {
    /// Name, such as `system:serviceaccount:kube-system:agent`.
    pub name: String,
    /// Groups; `system:authenticated` is added.
    pub groups: Vec<String>,
}

impl User {
    /// A user, with the groups that Kubernetes gives a service account.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        groups.push("system:authenticated".to_owned());
        if let Some((namespace, _)) = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
        {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        Self { name: name.to_owned(), groups }
    }

    /// Who came without a token.
    pub(crate) fn anonymous() -> Self {
        Self { name: "system:anonymous".to_owned(), groups: vec!["system:unauthenticated".to_owned()] }
    }

    fn is(&self, subject: &Value) -> bool {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["kind"].as_str().unwrap_or_default() {
            "User" => name == self.name,
            "Group" => self.groups.iter().any(|group| group == name),
            "ServiceAccount" => {
                let namespace = subject["namespace"].as_str().unwrap_or_default();
                self.name == format!("system:serviceaccount:{namespace}:{name}")
            }
            _ => false,
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Action<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    /// `plural` or `plural/subresource`.
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// Paths that belong to no object and that every user may read, as in Kubernetes' own bindings.
pub(crate) fn may_read(user: &User, path: &str) -> bool {
    let open = ["/version", "/healthz", "/livez", "/readyz"];
    let known = ["/api", "/apis", "/openapi"];
    let below = |roots: &[&str]| roots.iter().any(|root| path == *root || path.starts_with(&format!("{root}/")));
    below(&open) || (below(&known) && user.name != "system:anonymous")
}

pub(crate) fn allowed(store: &Store, user: &User, action: &Action<'_>) -> bool {
    if user.groups.iter().any(|group| group == "system:masters") {
        return true;
    }
    bound(store, user, "clusterrolebindings", "", action)
        || (!action.namespace.is_empty() && bound(store, user, "rolebindings", action.namespace, action))
}

fn bound(store: &Store, user: &User, bindings: &str, namespace: &str, action: &Action<'_>) -> bool {
    let bucket = |plural: &str| ("rbac.authorization.k8s.io".to_owned(), plural.to_owned());
    let mut all = store.all(&bucket(bindings)).filter(|(name, _)| name.0 == namespace);
    all.any(|(_, binding)| {
        let subjects = binding["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        let role = binding["roleRef"]["name"].as_str().unwrap_or_default().to_owned();
        let (plural, place) = match binding["roleRef"]["kind"].as_str() {
            Some("ClusterRole") => ("clusterroles", String::new()),
            Some("Role") => ("roles", namespace.to_owned()),
            _ => return false,
        };
        let role = store.get(&bucket(plural), &(place, role));
        let rules = role.and_then(|role| role["rules"].as_array()).map(Vec::as_slice).unwrap_or_default();
        subjects.iter().any(|subject| user.is(subject)) && rules.iter().any(|rule| grants(rule, action))
    })
}

fn grants(rule: &Value, action: &Action<'_>) -> bool {
    let list = |field: &str| rule[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |field: &str, wanted: &str| list(field).iter().any(|one| one == "*" || one == wanted);
    let subresource = action.resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    let resource = has("resources", action.resource) || subresource.is_some_and(|sub| has("resources", &sub));
    // A rule with names grants nothing that has no name in its path: create and bare lists.
    let names = list("resourceNames");
    let named = names.is_empty() || names.iter().any(|one| one == action.name);
    has("verbs", action.verb) && has("apiGroups", action.group) && resource && named
}

/// Kubernetes' sentence for a refusal.
pub(crate) fn refusal(user: &User, action: &Action<'_>) -> String {
    let place = if action.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", action.namespace)
    };
    let Action { verb, group, resource, .. } = action;
    format!("User \"{}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}", user.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn store() -> Store {
        let mut store = Store::new(100);
        let mut put = |plural: &str, namespace: &str, name: &str, object: Value| {
            let bucket = ("rbac.authorization.k8s.io".to_owned(), plural.to_owned());
            store.put(&bucket, &(namespace.to_owned(), name.to_owned()), object);
        };
        let rule = |resources: &[&str], verbs: &[&str], names: &[&str]| json!({ "apiGroups": [""], "resources": resources, "verbs": verbs, "resourceNames": names });
        let rules = json!([rule(&["pods"], &["get", "list"], &[]), rule(&["nodes/status"], &["patch"], &["n1"])]);
        put("clusterroles", "", "reader", json!({ "rules": rules }));
        put("roles", "d", "writer", json!({ "rules": [rule(&["pods"], &["*"], &[])] }));
        let account = json!([{ "kind": "ServiceAccount", "namespace": "k", "name": "agent" }]);
        let cluster = json!({ "kind": "ClusterRole", "name": "reader" });
        put("clusterrolebindings", "", "b", json!({ "subjects": account, "roleRef": cluster }));
        let subjects = json!([{ "kind": "User", "name": "bob" }, { "kind": "Group", "name": "team" }]);
        let role = json!({ "kind": "Role", "name": "writer" });
        put("rolebindings", "d", "b", json!({ "subjects": subjects, "roleRef": role }));
        store
    }

    #[test]
    fn rules_hold_where_they_are_bound() {
        let store = store();
        let may = |user: &User, verb: &str, resource: &str, namespace: &str, name: &str| {
            allowed(&store, user, &Action { verb, group: "", resource, namespace, name })
        };
        let agent = User::new("system:serviceaccount:k:agent", &[]);
        assert!(may(&agent, "list", "pods", "", ""));
        assert!(may(&agent, "get", "pods", "d", "p"));
        assert!(!may(&agent, "delete", "pods", "d", "p"));
        assert!(!may(&agent, "get", "pods/status", "d", "p"));
        assert!(may(&agent, "patch", "nodes/status", "", "n1"));
        assert!(!may(&agent, "patch", "nodes/status", "", "n2"));
        for user in [User::new("bob", &[]), User::new("eve", &["team"])] {
            assert!(may(&user, "delete", "pods", "d", "p"));
            assert!(!may(&user, "delete", "pods", "e", "p"));
            assert!(!may(&user, "list", "pods", "", ""));
        }
        assert!(may(&User::new("root", &["system:masters"]), "delete", "nodes", "", "n1"));
        assert!(!may(&User::anonymous(), "list", "pods", "d", ""));
    }

    #[test]
    fn the_refusal_is_kubernetes_sentence() {
        let action = Action { verb: "list", group: "apps", resource: "daemonsets", namespace: "", name: "" };
        let said = refusal(&User::new("bob", &[]), &action);
        let rest = "cannot list resource \"daemonsets\" in API group \"apps\" at the cluster scope";
        assert_eq!(said, format!("User \"bob\" {rest}"));
    }
}
