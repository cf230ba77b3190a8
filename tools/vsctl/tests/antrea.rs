//! `vsctl antrea` from outside, against a switch that answers what the tests ask.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, Streaming};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::find_objects_request::Flow;
use vswitch_proto::antrea::v1::network_policy_service_server::{NetworkPolicyService, NetworkPolicyServiceServer};
use vswitch_proto::antrea::v1::node_service_server::{NodeService, NodeServiceServer};
use vswitch_proto::antrea::v1::pod_service_server::{PodService, PodServiceServer};
use vswitch_proto::antrea::v1::sync_service_server::{SyncService, SyncServiceServer};
use vswitch_proto::v1::FlowEntry;

/// One Node with the Pods default/web and default/db, and one policy with one rule.
#[derive(Clone, Copy)]
struct Fake;

type Answer<T> = Result<Response<T>, Status>;
type Parts<T> = std::pin::Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

fn not_here<T>() -> Answer<T> {
    Err(Status::internal("vsctl does not call this"))
}

#[tonic::async_trait]
impl NodeService for Fake {
    async fn initialize(&self, _: Request<v1::InitializeRequest>) -> Answer<v1::InitializeResponse> {
        not_here()
    }

    async fn get_node(&self, _: Request<v1::GetNodeRequest>) -> Answer<v1::GetNodeResponse> {
        let node = v1::NodeConfig { name: "worker-0".to_owned(), bridge: "br-int".to_owned(), ..Default::default() };
        let table =
            v1::TableState { name: "Classifier".to_owned(), number: 12, stage: "classifier".to_owned(), flows: 3 };
        Ok(Response::new(v1::GetNodeResponse { node: Some(node), tables: vec![table], next_hops: Vec::new() }))
    }

    async fn reset(&self, request: Request<v1::ResetRequest>) -> Answer<v1::ResetResponse> {
        assert_eq!(request.into_inner().round, 0, "no agent's round is checked");
        Ok(Response::new(v1::ResetResponse {}))
    }

    async fn get_host_plan(&self, _: Request<v1::GetHostPlanRequest>) -> Answer<v1::GetHostPlanResponse> {
        not_here()
    }

    async fn report_host(&self, _: Request<v1::ReportHostRequest>) -> Answer<v1::ReportHostResponse> {
        not_here()
    }
}

#[tonic::async_trait]
impl SyncService for Fake {
    type ListObjectFlowsStream = Parts<v1::ListObjectFlowsResponse>;

    async fn sync(&self, _: Request<Streaming<v1::SyncRequest>>) -> Answer<v1::SyncResponse> {
        not_here()
    }

    async fn apply_objects(&self, _: Request<v1::ApplyObjectsRequest>) -> Answer<v1::ApplyObjectsResponse> {
        not_here()
    }

    async fn open_gate(&self, _: Request<v1::OpenGateRequest>) -> Answer<v1::OpenGateResponse> {
        Err(Status::failed_precondition("the Node is not initialised; call antrea.v1.NodeService.Initialize first"))
    }

    async fn get_state(&self, _: Request<v1::GetStateRequest>) -> Answer<v1::GetStateResponse> {
        let kinds = vec![v1::KindState { kind: v1::Kind::Pod.into(), objects: 2, degraded: 0, flows: 10 }];
        let state = v1::GetStateResponse { initialized: true, gate_open: true, round: 1, kinds, ..Default::default() };
        Ok(Response::new(state))
    }

    /// Three parts of a thousand flows; of db there are none.
    async fn list_object_flows(
        &self,
        request: Request<v1::ListObjectFlowsRequest>,
    ) -> Answer<Self::ListObjectFlowsStream> {
        let v1::ListObjectFlowsRequest { object, names, .. } = request.into_inner();
        let parts = if object.is_some_and(|object| object.name == "default/web") { 3u32 } else { 0 };
        let table = if names { "Classifier" } else { "12" };
        let flow = move |i: u32| {
            let line = format!("table={table}, priority={i},ip actions=drop");
            let flow = Some(FlowEntry { line, ..Default::default() });
            v1::ObjectFlow { flow, purpose: "route".to_owned(), ..Default::default() }
        };
        let part =
            move |i: u32| Ok(v1::ListObjectFlowsResponse { flows: (i * 1000..(i + 1) * 1000).map(flow).collect() });
        Ok(Response::new(Box::pin(tokio_stream::iter((0..parts).map(part)))))
    }

    async fn find_objects(&self, request: Request<v1::FindObjectsRequest>) -> Answer<v1::FindObjectsResponse> {
        let name = match request.into_inner().flow {
            Some(Flow::Line(line)) => format!("line/{line}"),
            Some(Flow::Cookie(16)) => "cookie/16".to_owned(),
            _ => return Ok(Response::new(v1::FindObjectsResponse::default())),
        };
        let objects = vec![v1::ObjectRef { kind: v1::Kind::Pod.into(), name }];
        Ok(Response::new(v1::FindObjectsResponse { objects, rules: Vec::new() }))
    }
}

#[tonic::async_trait]
impl PodService for Fake {
    type ListPodsStream = Parts<v1::ListPodsResponse>;

    async fn apply_pods(&self, _: Request<v1::ApplyPodsRequest>) -> Answer<v1::ApplyPodsResponse> {
        not_here()
    }

    async fn delete_pods(&self, _: Request<v1::DeletePodsRequest>) -> Answer<v1::DeletePodsResponse> {
        not_here()
    }

    async fn list_pods(&self, request: Request<v1::ListPodsRequest>) -> Answer<Self::ListPodsStream> {
        let names = request.into_inner().names;
        let there = ["default/web", "default/db"].into_iter();
        let told = there.filter(move |name| names.is_empty() || names.iter().any(|asked| asked == name));
        let part = |name: &str| {
            let pod = v1::Pod { name: name.to_owned(), ..Default::default() };
            Ok(v1::ListPodsResponse { pods: vec![v1::PodState { pod: Some(pod), ..Default::default() }] })
        };
        Ok(Response::new(Box::pin(tokio_stream::iter(told.map(part)))))
    }
}

fn statistics(packets: u64) -> v1::RuleStatistics {
    let rule = v1::RuleRef { policy: "np:default/web".to_owned(), rule: "ingress-0".to_owned(), number: 7 };
    v1::RuleStatistics { rule: Some(rule), packets, ..Default::default() }
}

#[tonic::async_trait]
impl NetworkPolicyService for Fake {
    type ListNetworkPoliciesStream = Parts<v1::ListNetworkPoliciesResponse>;
    type ListGroupsStream = Parts<v1::ListGroupsResponse>;
    type WatchRuleStatisticsStream = Parts<v1::WatchRuleStatisticsResponse>;
    type ListFqdnsStream = Parts<v1::ListFqdnsResponse>;

    async fn apply_network_policies(
        &self,
        _: Request<v1::ApplyNetworkPoliciesRequest>,
    ) -> Answer<v1::ApplyNetworkPoliciesResponse> {
        not_here()
    }

    async fn delete_network_policies(
        &self,
        _: Request<v1::DeleteNetworkPoliciesRequest>,
    ) -> Answer<v1::DeleteNetworkPoliciesResponse> {
        not_here()
    }

    async fn update_address_groups(
        &self,
        _: Request<v1::UpdateAddressGroupsRequest>,
    ) -> Answer<v1::UpdateAddressGroupsResponse> {
        not_here()
    }

    /// The policy is applied to web only.
    async fn list_network_policies(
        &self,
        request: Request<v1::ListNetworkPoliciesRequest>,
    ) -> Answer<Self::ListNetworkPoliciesStream> {
        let v1::ListNetworkPoliciesRequest { names, pod } = request.into_inner();
        let is_named = names.is_empty() || names.iter().any(|name| name == "np:default/web");
        let policy = v1::NetworkPolicy { name: "np:default/web".to_owned(), ..Default::default() };
        let rule = v1::Rule { id: "ingress-0".to_owned(), ..Default::default() };
        let rule = v1::RuleState { rule: Some(rule), number: 7, statistics: Some(statistics(5)), ..Default::default() };
        let state = v1::NetworkPolicyState { policy: Some(policy), rules: vec![rule], cookie: 1 };
        let policies = if is_named && (pod.is_empty() || pod == "default/web") { vec![state] } else { Vec::new() };
        Ok(Response::new(Box::pin(tokio_stream::once(Ok(v1::ListNetworkPoliciesResponse { policies })))))
    }

    async fn list_groups(&self, _: Request<v1::ListGroupsRequest>) -> Answer<Self::ListGroupsStream> {
        Ok(Response::new(Box::pin(tokio_stream::empty())))
    }

    /// Grows by one with each message; ends with the switch after five.
    async fn watch_rule_statistics(
        &self,
        request: Request<v1::WatchRuleStatisticsRequest>,
    ) -> Answer<Self::WatchRuleStatisticsStream> {
        assert_eq!(request.into_inner().period_ms, 100);
        let message =
            |i| Ok(v1::WatchRuleStatisticsResponse { unix_ms: i, rules: vec![statistics(i)], removed: Vec::new() });
        let end = tokio_stream::once(Err(Status::unavailable("vswitchd is stopping")));
        Ok(Response::new(Box::pin(tokio_stream::iter((1..=5).map(message)).chain(end))))
    }

    async fn list_fqdns(&self, _: Request<v1::ListFqdnsRequest>) -> Answer<Self::ListFqdnsStream> {
        not_here()
    }
}

/// A server in this process, with a directory for its socket.
struct Server {
    socket: PathBuf,
    _runtime: tokio::runtime::Runtime,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let fake = NodeServiceServer::new(Fake);
        let router = tonic::transport::Server::builder().add_service(fake).add_service(SyncServiceServer::new(Fake));
        let router = router.add_service(PodServiceServer::new(Fake));
        Self::serve(router.add_service(NetworkPolicyServiceServer::new(Fake)))
    }

    fn serve(router: tonic::transport::server::Router) -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("vswitch.sock");
        let entered = runtime.enter();
        let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
        drop(entered);
        runtime.spawn(router.serve_with_incoming(UnixListenerStream::new(listener)));
        Self { socket, _runtime: runtime, _directory: directory }
    }

    /// Exit code, standard output, standard error.
    fn run(&self, line: &str) -> (Option<i32>, String, String) {
        run(&self.socket, line.split_whitespace())
    }
}

fn run<'a>(socket: &Path, words: impl Iterator<Item = &'a str>) -> (Option<i32>, String, String) {
    run_words(socket, std::iter::once("antrea").chain(words))
}

fn run_words<'a>(socket: &Path, words: impl Iterator<Item = &'a str>) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsctl"));
    let Output { status, stdout, stderr } =
        command.env_remove("VSWITCH_SOCKET").arg("--socket").arg(socket).args(words).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn state_and_node() {
    let server = Server::start();
    let (code, text, _) = server.run("status");
    assert_eq!(code, Some(0));
    assert!(text.starts_with("node: worker-0 (bridge br-int, encap, ipv4)\ngate: open\nround: 1,"), "{text}");
    assert!(text.ends_with("KIND  OBJECTS  DEGRADED  OWN FLOWS\npod         2         0         10\n"), "{text}");
    let (_, text, _) = server.run("status --json");
    assert_eq!(json(&text)["kinds"][0]["kind"], "pod");
    let (code, text, _) = server.run("node");
    assert_eq!((code, text.lines().last()), (Some(0), Some("    12  Classifier  classifier      3")));
    let (code, _, error) = server.run("open-gate");
    assert_eq!(code, Some(1));
    assert_eq!(error, "vsctl: the Node is not initialised; call antrea.v1.NodeService.Initialize first\n");
}

#[test]
fn a_reset_has_to_be_meant() {
    let server = Server::start();
    let (code, _, error) = server.run("reset");
    assert_eq!(code, Some(2));
    assert!(error.contains("Pods are cut off") && error.contains("give --yes"), "{error}");
    assert_eq!(server.run("reset --yes --json"), (Some(0), "{\n  \"ok\": true\n}\n".to_owned(), String::new()));
}

#[test]
fn names_that_are_not_there_are_an_error_behind_those_that_are() {
    let server = Server::start();
    let (code, text, _) = server.run("pods");
    assert_eq!((code, text.lines().count()), (Some(0), 3));
    let (code, text, error) = server.run("pods default/web default/x");
    assert_eq!((code, text.lines().count()), (Some(1), 2));
    assert_eq!(error, "vsctl: no Pod \"default/x\"; `vsctl antrea pods` lists them\n");
    let (_, text, error) = server.run("pods default/x --json");
    assert_eq!((json(&text), &json(&error)["error"]["code"]), (serde_json::json!([]), &"NOT_FOUND".into()));
    let (code, text, _) = server.run("policies --pod default/db");
    assert_eq!((code, text.lines().count()), (Some(0), 1), "no policy is applied to it");
    let (code, _, error) = server.run("policies --pod default/x");
    assert_eq!((code, error.as_str()), (Some(1), "vsctl: no Pod \"default/x\"; `vsctl antrea pods` lists them\n"));
    let (code, _, error) = server.run("rules --policy np:a/b");
    assert_eq!((code, error.as_str()), (Some(1), "vsctl: no policy \"np:a/b\"; `vsctl antrea policies` lists them\n"));
    assert_eq!(server.run("groups").1, "KIND  NAME  COUNT  MEMBERS\n");
}

#[test]
fn flows_are_whole_and_named_and_none_has_a_reason() {
    let server = Server::start();
    let (code, text, _) = server.run("flows POD/default/web");
    assert_eq!((code, text.lines().count()), (Some(0), 3000));
    assert_eq!(text.lines().last(), Some(" table=Classifier, priority=2999,ip actions=drop  # route"));
    let (_, text, _) = server.run("flows pod/default/web --no-names");
    assert_eq!(text.lines().next(), Some(" table=12, priority=0,ip actions=drop  # route"));
    let (code, text, error) = server.run("flows pod/default/db");
    assert_eq!(
        (code, text.as_str(), error.as_str()),
        (Some(0), "", "vsctl: warning: pod/default/db has no flows of its own\n")
    );
    let (code, _, error) = server.run("flows pod/default/web --rule x");
    assert_eq!(code, Some(2), "{error}");
    let (code, _, error) = server.run("flows pdo/default/web");
    assert_eq!(code, Some(2));
    assert!(error.contains("did you mean pod?"), "{error}");
}

#[test]
fn owners_are_found() {
    let server = Server::start();
    let (code, text, _) = run(&server.socket, ["whose", " table=4, ip actions=drop  # route"].into_iter());
    assert_eq!((code, text.lines().last()), (Some(0), Some("pod/line/table=4, ip actions=drop")));
    assert_eq!(server.run("whose 0x10").1.lines().last(), Some("pod/cookie/16"));
    let (code, text, _) = server.run("whose 9");
    assert_eq!(code, Some(0));
    assert!(text.starts_with("nobody's: no rule has the number 9"), "{text}");
}

#[test]
fn counters_come_as_they_change() {
    let server = Server::start();
    let (code, text, error) = server.run("rules --watch 100 --count 2");
    let want = "\
00:00:00.001 rule number=7 policy=np:default/web rule=ingress-0 sessions=0 new=0 packets=1 bytes=0 rejects=0
00:00:00.002 changed number=7 policy=np:default/web rule=ingress-0 sessions=0 new=0 packets=2 bytes=0 rejects=0 +packets=1
";
    assert_eq!((code, text.as_str(), error.as_str()), (Some(0), want, ""));
    let (code, text, error) = server.run("rules --watch 100 --json --policy np:a/b");
    assert_eq!((code, text.lines().count()), (Some(3), 5), "it ends with the switch");
    let events: Vec<_> = text.lines().map(|line| json(line)["event"].clone()).collect();
    assert_eq!(events, ["rule", "changed", "changed", "changed", "changed"]);
    let warning = error.lines().next().expect("a policy that is not there yet");
    assert!(warning.contains("no policy"), "{error}");
    let (code, text, _) = server.run("rules");
    assert_eq!((code, text.lines().count()), (Some(0), 2));
}

#[test]
fn top_shows_the_rules_of_the_node() {
    let server = Server::start();
    let top = |more: &[&str]| {
        let command = ["top", "--once", "--interval", "0.1", "--page", "policies"];
        run_words(&server.socket, command.into_iter().chain(more.iter().copied()))
    };
    let (code, text, error) = top(&[]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(text.starts_with("policies: 1, rules: 1; packets/s: denied 0.0, others 0.0\n"), "{text}");
    assert!(text.contains("\nnp:default/web  ingress-0  allow         0.0 "), "{text}");
    let (_, text, _) = top(&["--json"]);
    let told = json(&text);
    assert_eq!((&told["has_node"], &told["rows"][0]["rule"]), (&true.into(), &"ingress-0".into()));
}

#[test]
fn an_older_switch_is_told_from_a_refusal() {
    let router = tonic::transport::Server::builder().add_service(PodServiceServer::new(Fake));
    let server = Server::serve(router);
    for line in ["status", "rules", "rules --watch", "egress"] {
        let (code, _, error) = server.run(line);
        assert_eq!(code, Some(1), "{line}: {error}");
        assert!(error.contains("it is older than vsctl"), "{line}: {error}");
    }
    let (code, _, error) = run(Path::new("/nonexistent/vsctl-test.sock"), ["status"].into_iter());
    assert_eq!(code, Some(3));
    assert!(error.contains("is vswitchd running?"), "{error}");
}
