//! The host plan by gRPC, and what the host's agent reports.

use super::super::Running;
use super::{node, object, pod, round};
use tonic::Code;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;

#[tokio::test]
async fn a_plan_is_complete_when_the_gate_is_open_and_is_sent_once() {
    let running = Running::with_node().await;
    let mut client = NodeServiceClient::new(running.channel.clone());
    let refused = client.get_host_plan(v1::GetHostPlanRequest { generation: 0 }).await.expect_err("no Node");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    running.initialize(node()).await.expect("a Node");
    let mut plan = async |generation| {
        let answer = client.get_host_plan(v1::GetHostPlanRequest { generation }).await;
        answer.expect("an answer").into_inner().plan
    };
    let early = plan(0).await.expect("a plan");
    assert!(!early.complete && !early.links.is_empty());
    assert!(plan(early.generation).await.is_some(), "it may not be known as the whole");
    running.sync(round(3), vec![object(pod("web", 24))]).await.expect("a sync");
    let whole = plan(early.generation).await.expect("another plan");
    assert!(whole.complete && whole.generation != 0 && whole.generation != early.generation);
    assert_eq!(plan(whole.generation).await, None);
    running.stop().await;
}

#[tokio::test]
async fn what_is_reported_of_the_host_is_in_the_state() {
    let running = Running::with_node().await;
    let mut client = NodeServiceClient::new(running.channel.clone());
    assert_eq!(running.state().await.host, None);
    let problem = |item: &str| v1::HostProblem {
        code: "FOREIGN".to_owned(),
        item: item.to_owned(),
        reason: "another one is there".to_owned(),
        ..v1::HostProblem::default()
    };
    let problems = vec![problem("route 10.96.0.0/12")];
    let report = v1::ReportHostRequest { generation: 7, problems: problems.clone() };
    client.report_host(report).await.expect("it is noted");
    let host = running.state().await.host.expect("a report");
    assert_eq!((host.generation, host.problems), (7, problems));
    assert!(host.reported_unix_ms > 0);
    for wrong in [vec![problem("x"); 257], vec![problem(&"x".repeat(513))]] {
        let report = v1::ReportHostRequest { generation: 8, problems: wrong };
        assert_eq!(client.report_host(report).await.expect_err("too much").code(), Code::InvalidArgument);
    }
    assert_eq!(running.state().await.host.expect("the report of before").generation, 7);
    running.stop().await;
}
