//! Tokens and RBAC.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use vswitch_testapi::Reply;

use super::on::{On, map};

async fn ask(on: &On, client: &Client, path: &str) -> Reply {
    on.server.call(client, "GET", path, "", &Value::Null).await.unwrap()
}

/// A real server reads new rules from a watch of its own: asks until they hold.
async fn until(on: &On, client: &Client, path: &str, code: u16) -> Reply {
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let reply = ask(on, client, path).await;
        if reply.code == code {
            return reply;
        }
        assert!(tokio::time::Instant::now() < end, "{path}: {}", reply.text);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn tokens_and_rules(on: &On) {
    let maps = format!("{}/configmaps", on.namespace("access").await);
    on.is(&on.post(&maps, &map("a", json!({}))).await, 201, "");
    let bob = on.server.client(Some("bob")).await.unwrap();
    let wrong = on.server.client(Some("none")).await.unwrap();
    on.is(&ask(on, &wrong, &maps).await, 401, "Unauthorized");
    let refused = ask(on, &bob, &maps).await;
    on.is(&refused, 403, "Forbidden");
    let why = "User \"bob\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"access\"";
    assert_eq!(refused.body["message"], format!("configmaps is forbidden: {why}"));
    let nodes = ask(on, &bob, "/api/v1/nodes").await;
    assert_eq!(
        nodes.body["message"],
        "nodes is forbidden: User \"bob\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
    );
    let anonymous = on.server.client(None).await.unwrap();
    on.is(&ask(on, &anonymous, &maps).await, 403, "Forbidden");
    on.is(&ask(on, &bob, "/api/v1").await, 200, "");
    on.is(&ask(on, &anonymous, "/version").await, 200, "");

    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rule = |resource: &str, verbs: &[&str], names: &[&str]| json!({ "apiGroups": [""], "resources": [resource], "verbs": verbs, "resourceNames": names });
    let rules = json!([rule("configmaps", &["get"], &["a"]), rule("namespaces", &["get"], &[])]);
    let role = json!({ "metadata": { "name": "test:reader" }, "rules": rules });
    on.is(&on.post(&format!("{rbac}/clusterroles"), &role).await, 201, "");
    let role = |name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name });
    let group = json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "team" }]);
    let binding = json!({ "metadata": { "name": "b" }, "roleRef": role("test:reader"), "subjects": group });
    on.is(&on.post(&format!("{rbac}/namespaces/access/rolebindings"), &binding).await, 201, "");
    until(on, &bob, &format!("{maps}/a"), 200).await;
    on.is(&ask(on, &bob, &format!("{maps}/b")).await, 403, "Forbidden");
    on.is(&ask(on, &bob, &maps).await, 403, "Forbidden");
    on.is(&ask(on, &bob, "/api/v1/namespaces/access").await, 200, "");
    on.is(&ask(on, &bob, "/api/v1/namespaces/default").await, 403, "Forbidden");
    on.is(&ask(on, &bob, "/api/v1/namespaces/default/configmaps/a").await, 403, "Forbidden");
    on.is(&on.delete(&format!("{rbac}/namespaces/access/rolebindings/b")).await, 200, "");
    until(on, &bob, &format!("{maps}/a"), 403).await;
}
