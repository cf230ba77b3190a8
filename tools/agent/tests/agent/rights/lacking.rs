//! An agent that lacks rights names each of them, and the rest goes on.

use super::scene::{Right, Scene, TOKENS, granted};
use std::collections::BTreeSet;
use vswitch_agent::realized::lease_name;
use vswitch_testapi::{AnyServer, Options, Server};

/// Rights that are tried together, since none of them hides another one.
fn run_of((verb, of): &Right) -> &'static str {
    let is_second = ["nodes/status", "egresses.crd.antrea.io/status"].contains(&of.as_str());
    match (verb.as_str(), of.as_str()) {
        (verb, "leases.coordination.k8s.io") => match verb {
            "get" => "lease get",
            "create" => "lease create",
            "update" => "lease update",
            "list" => "lease list",
            _ => "lease watch",
        },
        ("get", "events") => "event get",
        ("patch", "events") => "event patch",
        ("get", "pods") => "pod get",
        ("list", _) => "list",
        ("watch", _) => "watch",
        ("get", _) => "get",
        _ if is_second => "patch behind a patch",
        _ => "write",
    }
}

/// How the server names what may not be done.
fn refusal((verb, of): &Right) -> String {
    let (of, below) = of.split_once('/').map_or((of.as_str(), String::new()), |(of, below)| (of, format!("/{below}")));
    let (plural, group) = of.split_once('.').unwrap_or((of, ""));
    format!("cannot {verb} resource \"{plural}{below}\" in API group \"{group}\"")
}

async fn lacks(run: &'static str, rights: BTreeSet<Right>) {
    let options = TOKENS
        .iter()
        .fold(Options { rbac: true, ..Options::default() }, |options, one| options.token(one.0, one.1, one.2));
    let server = AnyServer::Fake(Server::start(options).expect("it starts"));
    let scene = Scene::new(&server).await;
    let AnyServer::Fake(fake) = &server else { panic!("it is the server of the tests") };
    let event = |count: i64| {
        let events = fake.list("v1", "Event");
        !events.is_empty() && events.iter().all(|event| event["count"].as_i64() >= Some(count))
    };
    let report = |server: &Server| {
        server.get("coordination.k8s.io/v1", "Lease", "kube-system", &lease_name("k8s-node-control-plane"))
    };
    if run.starts_with("event") {
        let agent = scene.agent();
        scene.until(async || event(1), true, "an Event").await;
        drop(agent);
        scene.age_events().await;
    }
    for (verb, of) in &rights {
        fake.hurt().refuse(verb, of);
    }
    let agent = scene.agent();
    let unnamed = || -> Vec<String> {
        let traceflow = fake.get("crd.antrea.io/v1beta1", "Traceflow", "", "t").unwrap_or_default();
        let said = format!("{} {}", agent.lines(), traceflow["status"]["reason"].as_str().unwrap_or_default());
        let said = said.replace("\\\"", "\"");
        rights.iter().map(refusal).filter(|refusal| !said.contains(refusal)).collect()
    };
    scene.until(async || unnamed(), Vec::new(), run).await;
    // Without a list the agent is blind; whatever else it lacks, the switch forwards.
    if run != "list" {
        scene.until(async || scene.switch.state().gate_open, true, run).await;
    }
    if !run.contains("event") && !["list", "watch", "write"].contains(&run) {
        scene.until(async || event(1), true, run).await;
    }
    if run.contains("patch") || run == "pod get" {
        scene.until(async || report(fake).is_some(), true, run).await;
    }
    for (verb, of) in &rights {
        fake.hurt().permit(verb, of);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_right_that_is_missing_is_named_and_the_rest_goes_on() {
    let mut runs = std::collections::BTreeMap::<&'static str, BTreeSet<Right>>::new();
    for right in granted() {
        runs.entry(run_of(&right)).or_default().insert(right);
    }
    futures_util::future::join_all(runs.into_iter().map(|(run, rights)| lacks(run, rights))).await;
}
