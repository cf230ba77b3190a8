//! Many Traceflows at once: there are 63 tags.

use crate::double::Switch;
use crate::double_traces::Traces;
use crate::realized::bed::definitions;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use vswitch_agent::source::cluster::connect;
use vswitch_agent::traceflow::Traceflows;
use vswitch_testapi::{Options, Server};

const TAGS: usize = 63;

/// More than there are tags.
const MANY: usize = 70;

/// How long a state is waited for at most.
const PATIENCE: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(5);

const API: &str = "crd.antrea.io/v1beta1";

/// Traceflows in a phase, with their tags.
fn in_phase(server: &Server, phase: &str) -> Vec<u64> {
    let all = server.list(API, "Traceflow");
    let of_phase = all.iter().filter(|of| of["status"]["phase"].as_str().unwrap_or_default() == phase);
    of_phase.map(|of| of["status"]["dataplaneTag"].as_u64().unwrap_or(0)).collect()
}

fn traceflow(number: usize) -> Value {
    let end = |name: &str| json!({"namespace": "a", "pod": format!("{name}{}", number % 2 + 1)});
    json!({
        "apiVersion": API, "kind": "Traceflow", "metadata": {"name": format!("t{number}")},
        "spec": {"source": end("from"), "destination": end("to"), "timeout": 300},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_traceflows_as_many_run_as_there_are_tags_and_the_rest_waits() {
    let server = Server::start(Options::default()).expect("a server");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("kubeconfig");
    server.kubeconfig(&file).expect("a kubeconfig");
    for definition in definitions("crd.antrea.io.yaml") {
        server.apply(definition).expect("it is right");
    }
    for number in 0..MANY {
        server.apply(traceflow(number)).expect("it is right");
    }
    let traces = Traces::shut();
    let mut agents = Vec::new();
    for node in 1..=2 {
        let switch = Switch::tracing(traces.clone()).await;
        let client = connect(Some(&file)).await.expect("a client");
        let traceflows = Traceflows::start(client, &format!("n{node}"), switch.socket().to_owned());
        traceflows.local(["from", "to"].map(|name| format!("a/{name}{node}")).into());
        agents.push((switch, traceflows));
    }
    let runs = |server: &Server| {
        let tags: BTreeSet<u64> = in_phase(server, "Running").into_iter().collect();
        tags.len() == TAGS && in_phase(server, "Running").len() == TAGS
    };
    assert!(server.until(runs).await, "{:?}", in_phase(&server, "Running"));
    let begin = Instant::now();
    while traces.counts().0 < TAGS {
        assert!(begin.elapsed() < PATIENCE, "{:?}", traces.counts());
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(in_phase(&server, "").len() + in_phase(&server, "Pending").len(), MANY - TAGS, "the rest waits");
    server.forget_requests();
    traces.release();
    let are_over = |server: &Server| in_phase(server, "Succeeded").len() == MANY;
    assert!(server.until(are_over).await, "{:?}", server.list(API, "Traceflow"));
    assert!(server.requests().len() < 40 * MANY, "{} requests", server.requests().len());
    while traces.counts().1 > 0 {
        assert!(begin.elapsed() < PATIENCE, "tags are left: {:?}", traces.counts());
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(traces.counts().2, Vec::<u32>::new(), "no tag was used twice at a time");
}
