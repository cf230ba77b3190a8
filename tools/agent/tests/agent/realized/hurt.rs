//! Statuses when the server, a Node or the holder fails; and how many writes they cost.

use super::bed::{Bed, POLICIES, TIMING, is_realized, policy, realized};
use serde_json::json;
use std::time::Duration;
use vswitch_agent::realized::{Timing, lease_name};
use vswitch_testapi::{Answer, AnyServer, Options, Server};

/// More policies than a burst.
const MANY: usize = 5000;

/// What is written once counts, however late the agent sees it.
const ONCE: Timing = Timing { again: Duration::from_secs(3600), ..TIMING };

struct Scene {
    server: AnyServer,
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let server = Server::start(Options::default()).expect("it starts");
        Self { server: AnyServer::Fake(server), dir: tempfile::tempdir().expect("a directory") }
    }

    fn fake(&self) -> &Server {
        let AnyServer::Fake(server) = &self.server else { panic!("it is the server of the tests") };
        server
    }

    async fn bed(&self, timing: Timing) -> Bed<'_> {
        let mut bed = Bed::new(&self.server, self.dir.path(), timing).await;
        bed.node("n1").await;
        bed.agent("n1");
        bed
    }

    /// Patches of statuses, and those that were taken.
    fn patches(&self) -> (usize, usize) {
        let all = self.fake().requests();
        let patches = || all.iter().filter(|entry| entry.verb == "patch" && entry.resource.ends_with("/status"));
        (patches().count(), patches().filter(|entry| entry.status == 200).count())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_says_nothing_has_failed() {
    let scene = Scene::new();
    let mut bed = scene.bed(Timing { silent: Duration::from_secs(2), ..TIMING }).await;
    bed.create(POLICIES, policy("p")).await;
    let path = format!("{POLICIES}/p");
    bed.node("n2").await;
    bed.agent("n2");
    bed.is(&path, "Realized 2/2 1").await;
    bed.agents.remove("n2");
    bed.call("PATCH", &path, &json!({"spec": {"priority": 6}})).await;
    let status = bed.is(&path, "Failed 1/2 2").await;
    let text = status.to_string();
    assert!(text.contains("1 of 2 Nodes, such as n2: its agent says nothing"), "{text}");
    bed.agent("n2");
    bed.is(&path, "Realized 2/2 2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_holder_goes_on_and_writes_nothing_twice() {
    let scene = Scene::new();
    let mut bed = scene.bed(ONCE).await;
    bed.node("n2").await;
    bed.agent("n2");
    for i in 0..20 {
        bed.create(POLICIES, policy(&format!("p{i}"))).await;
    }
    for i in 0..20 {
        bed.is(&format!("{POLICIES}/p{i}"), "Realized 2/2 1").await;
    }
    let (before, _) = scene.patches();
    let holder = |bed: &Bed<'_>| {
        let lease = scene.fake().get("coordination.k8s.io/v1", "Lease", "default", "vswitch-agent");
        let name = lease.expect("it is there")["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        bed.agents.contains_key(&name).then_some(name)
    };
    let first = holder(&bed).expect("somebody holds it");
    bed.agents.remove(&first);
    // Its Node's switch goes on with what it was told.
    bed.create(POLICIES, policy("more")).await;
    let status = bed.is(&format!("{POLICIES}/more"), "Realizing 1/2 1").await;
    assert_eq!(status["conditions"].as_array().map(Vec::len), Some(1));
    assert_ne!(holder(&bed), None);
    bed.agent(&first);
    bed.is(&format!("{POLICIES}/more"), "Realized 2/2 1").await;
    let (after, _) = scene.patches();
    assert!(after - before <= 4, "{} writes for one policy", after - before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_is_told_in_the_end() {
    for code in [409, 429, 500, 503] {
        let scene = Scene::new();
        let mut bed = scene.bed(TIMING).await;
        let resource = "clusternetworkpolicies.crd.antrea.io/status".to_owned();
        let (times, verb) = (1, "patch".to_owned());
        scene.fake().hurt().answer(Answer { times, code, retry_after: Some(1), verb, resource });
        bed.create(POLICIES, policy("p")).await;
        bed.is(&format!("{POLICIES}/p"), "Realized 1/1 1").await;
        let (all, taken) = scene.patches();
        assert!(all > taken && all <= taken + 2, "{code}: {all} patches, {taken} taken");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_may_not_be_written_holds_up_no_other_one() {
    let scene = Scene::new();
    let mut bed = scene.bed(Timing { burst: 1, ..TIMING }).await;
    scene.fake().hurt().refuse("patch", "clusternetworkpolicies.crd.antrea.io/status");
    for i in 0..5 {
        bed.create(POLICIES, policy(&format!("p{i}"))).await;
    }
    let policies = "/apis/crd.antrea.io/v1beta1/namespaces/default/networkpolicies";
    let mut other = policy("other");
    (other["kind"], other["metadata"]["namespace"]) = (json!("NetworkPolicy"), json!("default"));
    bed.create(policies, other).await;
    bed.is(&format!("{policies}/other"), "Realized 1/1 1").await;
    scene.fake().hurt().permit("patch", "clusternetworkpolicies.crd.antrea.io/status");
    for i in 0..5 {
        bed.is(&format!("{POLICIES}/p{i}"), "Realized 1/1 1").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_many_policies_say_already_is_not_written_again() {
    let scene = Scene::new();
    let mut bed = scene.bed(ONCE).await;
    bed.agents.get_mut("n1").expect("it is there").leads = false;
    for i in 0..MANY {
        let mut policy = policy(&format!("p{i}"));
        policy["status"] = realized(1);
        scene.fake().apply(policy).expect("it is right");
    }
    let report = || {
        let lease = scene.fake().get("coordination.k8s.io/v1", "Lease", "default", &lease_name("n1"));
        lease.map(|lease| lease["metadata"]["annotations"].to_string()).unwrap_or_default()
    };
    let nothing = "0".repeat(100);
    bed.turned(|bed| bed.standings().len() == MANY && !report().is_empty() && !report().contains(&nothing)).await;
    bed.agents.get_mut("n1").expect("it is there").leads = true;
    bed.create(POLICIES, policy("new")).await;
    bed.is(&format!("{POLICIES}/new"), "Realized 1/1 1").await;
    let realized = |bed: &mut Bed<'_>| bed.standings().iter().filter(|standing| is_realized(&standing.status)).count();
    bed.turned(|bed| realized(bed) == MANY + 1).await;
    let (all, _) = scene.patches();
    assert!(all <= 3, "{all} writes for one policy");
    // The agent, which holds the Lease, begins anew.
    bed.agents.clear();
    bed.agent("n1");
    bed.create(POLICIES, policy("newer")).await;
    bed.is(&format!("{POLICIES}/newer"), "Realized 1/1 1").await;
    let (again, _) = scene.patches();
    assert!(again <= all + 3, "{} writes for one policy", again - all);
}
