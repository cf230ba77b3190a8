//! The agent goes through all that it does.

use super::scene::{AGENT, Right, Scene, TOKENS, granted};
use std::collections::BTreeSet;
use vswitch_testapi::AnyServer;

async fn equal(server: &AnyServer) {
    let scene = Scene::new(server).await;
    let granted = granted();
    // The Event is there, and is old, when a second run finds it.
    let second: BTreeSet<Right> = ["get", "patch"].map(|verb| (verb.to_owned(), "events".to_owned())).into();
    let first: BTreeSet<Right> = granted.difference(&second).cloned().collect();
    let agent = scene.agent();
    let differs = |wanted: &BTreeSet<Right>| -> Vec<String> {
        let used = scene.used();
        let unused = wanted.difference(&used).map(|(verb, of)| format!("granted and not used: {verb} {of}"));
        let more = used.difference(&granted).map(|(verb, of)| format!("used and not granted: {verb} {of}"));
        unused.chain(more).collect()
    };
    scene.until(async || differs(&first), Vec::new(), "rights of a first run").await;
    drop(agent);
    scene.age_events().await;
    let agent = scene.agent();
    scene.until(async || differs(&granted), Vec::new(), "rights").await;
    let refused = scene.server.requests().into_iter().filter(|entry| entry.user == AGENT && entry.status == 403);
    assert_eq!(refused.count(), 0, "{}", agent.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_manifests_grant_what_the_agent_uses_and_nothing_else() {
    for server in AnyServer::both(&TOKENS).expect("they start") {
        equal(&server).await;
    }
}
