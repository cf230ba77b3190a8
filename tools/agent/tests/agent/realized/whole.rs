//! The program, from policies of the API server to their statuses.

use super::bed::condition;
use crate::rights::scene::Scene;
use serde_json::{Value, json};
use vswitch_proto::antrea::v1::Kind;
use vswitch_testapi::{AnyServer, Options, Server};

const ANTREA: &str = "/apis/crd.antrea.io/v1beta1";
const ADMIN: &str = "/apis/policy.networking.k8s.io";

async fn status(scene: &Scene<'_>, path: &str) -> Value {
    scene.call("GET", path, &Value::Null).await.1["status"].clone()
}

/// `phase current/desired generation`.
async fn phase(scene: &Scene<'_>, path: &str) -> String {
    let status = status(scene, path).await;
    let [current, desired] = ["currentNodesRealized", "desiredNodesRealized"].map(|field| &status[field]);
    format!("{} {current}/{desired} {}", status["phase"].as_str().unwrap_or_default(), status["observedGeneration"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_tells_where_policies_are_realized() {
    let options = Options::default().token("admin", "admin", &["system:masters"]);
    let options = options.token("agent", "agent", &["system:masters"]);
    let server = AnyServer::Fake(Server::start(options).expect("it starts"));
    let scene = Scene::new(&server).await;
    let agent = scene.agent();
    let right = format!("{ANTREA}/clusternetworkpolicies/right");
    for (path, wanted) in [
        (&right, "Realized 1/1 1"),
        (&format!("{ANTREA}/clusternetworkpolicies/wrong"), "Failed 0/1 1"),
        (&format!("{ANTREA}/namespaces/default/networkpolicies/right"), "Realized 1/1 1"),
    ] {
        scene.until(async || phase(&scene, path).await, wanted.to_owned(), path).await;
    }
    let wrong = status(&scene, &format!("{ANTREA}/clusternetworkpolicies/wrong")).await;
    let message = condition(&wrong, "Realizable")["message"].as_str().unwrap_or_default();
    assert!(message.contains("spec.ingress[0].from[0]") && message.contains("newPeer"), "{message}");
    for path in [
        "v1alpha2/clusternetworkpolicies/right",
        "v1alpha1/adminnetworkpolicies/right",
        "v1alpha1/baselineadminnetworkpolicies/default",
    ] {
        let is_realized =
            async || condition(&status(&scene, &format!("{ADMIN}/{path}")).await, "Realized")["status"] == "True";
        scene.until(is_realized, true, path).await;
    }
    for path in ["clustergroups/g", "namespaces/default/groups/g"] {
        let is_computed = async || {
            condition(&status(&scene, &format!("{ANTREA}/{path}")).await, "GroupMembersComputed")["status"] == "True"
        };
        scene.until(is_computed, true, path).await;
    }
    let usage = async || status(&scene, &format!("{ANTREA}/externalippools/pool")).await["usage"].clone();
    scene.until(usage, json!({"total": 14, "used": 2}), "the pool").await;
    // What the switch refuses is not realized, and what it takes then is.
    let key = (Kind::NetworkPolicy as i32, "acnp:right".to_owned());
    scene.switch.state().refused.insert(key);
    scene.call("PATCH", &right, &json!({"spec": {"priority": 6}})).await;
    scene.until(async || phase(&scene, &right).await, "Failed 0/1 2".to_owned(), &right).await;
    let refused = status(&scene, &right).await.to_string();
    assert!(refused.contains("refused by the test"), "{refused}");
    scene.switch.state().refused.clear();
    scene.call("PATCH", &right, &json!({"spec": {"priority": 7}})).await;
    scene.until(async || phase(&scene, &right).await, "Realized 1/1 3".to_owned(), &agent.lines()).await;
}
