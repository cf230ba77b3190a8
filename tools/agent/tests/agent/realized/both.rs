//! What each server is told.

use super::bed::{Bed, POLICIES, TIMING, condition, policy};
use serde_json::{Value, json};
use vswitch_testapi::AnyServer;

const TOKENS: [(&str, &str, &[&str]); 1] = [("admin", "admin", &["system:masters"])];

async fn life(server: &AnyServer) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut bed = Bed::new(server, dir.path(), TIMING).await;
    bed.node("n1").await;
    bed.create(POLICIES, policy("p")).await;
    let path = format!("{POLICIES}/p");
    bed.agent("n1");
    let status = bed.is(&path, "Realized 1/1 1").await;
    let realizable = condition(&status, "Realizable");
    assert_eq!(realizable["status"], "True", "{status}");
    assert!(realizable["lastTransitionTime"].is_string());
    // A second Node refuses it.
    bed.node("n2").await;
    bed.agent("n2");
    bed.is(&path, "Realized 2/2 1").await;
    bed.agents.get_mut("n2").expect("it is there").refuses.insert("p".to_owned(), 1);
    let status = bed.is(&path, "Failed 1/2 1").await;
    let failure = condition(&status, "RealizationFailure");
    assert_eq!(failure["message"], "1 of 2 Nodes, such as n2: spec.x: what is that?");
    // A new generation is realized when all have told it; it is what n2 takes.
    for agent in bed.agents.values_mut() {
        agent.is_stuck = true;
    }
    let (code, _) = bed.call("PATCH", &path, &json!({"spec": {"priority": 6}})).await;
    assert_eq!(code, 200);
    bed.is(&path, "Realizing 0/2 2").await;
    bed.agents.get_mut("n1").expect("it is there").is_stuck = false;
    bed.is(&path, "Realizing 1/2 2").await;
    bed.agents.get_mut("n2").expect("it is there").is_stuck = false;
    let status = bed.is(&path, "Realized 2/2 2").await;
    assert_eq!(condition(&status, "RealizationFailure"), &Value::Null, "{status}");
    // A Node that is gone holds nothing up.
    bed.agents.get_mut("n2").expect("it is there").is_stuck = true;
    bed.call("PATCH", &path, &json!({"spec": {"priority": 7}})).await;
    bed.is(&path, "Realizing 1/2 3").await;
    bed.agents.remove("n2");
    assert_eq!(bed.call("DELETE", "/api/v1/nodes/n2", &Value::Null).await.0, 200);
    bed.is(&path, "Realized 1/1 3").await;
    others(&mut bed).await;
}

/// Policies of the Network Policy API, groups and pools.
async fn others(bed: &mut Bed<'_>) {
    let admin = "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies";
    bed.create(
        admin,
        json!({"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy",
            "metadata": {"name": "p"}, "spec": {"tier": "Admin", "priority": 1, "subject": {"namespaces": {}}}}),
    )
    .await;
    let antrea = "/apis/crd.antrea.io/v1beta1";
    let of = |kind: &str, spec: Value| json!({"apiVersion": "crd.antrea.io/v1beta1", "kind": kind, "metadata": {"name": "pool"}, "spec": spec});
    bed.create(&format!("{antrea}/clustergroups"), of("ClusterGroup", json!({"podSelector": {}}))).await;
    let ranges = json!({"ipRanges": [{"cidr": "10.0.0.0/28"}], "nodeSelector": {}});
    bed.create(&format!("{antrea}/externalippools"), of("ExternalIPPool", ranges)).await;
    let status = bed.until(&format!("{admin}/p"), |status| condition(status, "Realized")["status"] == "True").await;
    let realized = condition(&status, "Realized");
    assert_eq!(
        (&realized["reason"], &realized["message"], &realized["observedGeneration"]),
        (&json!("Realized"), &json!("1 of 1 Nodes"), &json!(1))
    );
    let has = |status: &Value| condition(status, "GroupMembersComputed")["status"] == "True";
    bed.until(&format!("{antrea}/clustergroups/pool"), has).await;
    bed.until(&format!("{antrea}/externalippools/pool"), |status| status["usage"] == json!({"total": 9, "used": 2}))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statuses_follow_what_nodes_report() {
    for server in AnyServer::both(&TOKENS).expect("they start") {
        life(&server).await;
    }
}
