//! A kubeconfig for one server and one user.

use serde_json::json;

/// JSON, which is YAML too. `ca` is the path of the server's certificate authority.
pub(crate) fn text(url: &str, ca: Option<&str>, token: Option<&str>) -> String {
    let mut cluster = json!({ "server": url });
    if let Some(ca) = ca {
        cluster["certificate-authority"] = json!(ca);
    }
    let user = token.map_or_else(|| json!({}), |token| json!({ "token": token }));
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": "test", "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "current-context": "test",
    });
    format!("{config:#}\n")
}
