//! The program from outside: exit codes, streams, and what it does when the other side is slow,
//! silent or gone.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status, Streaming};
use tonic_health::ServingStatus;
use tonic_types::{ErrorDetails, StatusExt};
use vswitch_proto::v1;
use vswitch_proto::v1::bridge_service_server::{BridgeService, BridgeServiceServer};
use vswitch_proto::v1::flow_service_server::{FlowService, FlowServiceServer};
use vswitch_proto::v1::pipeline_service_server::{PipelineService, PipelineServiceServer};
use vswitch_proto::v1::port_service_server::{PortService, PortServiceServer};

/// Answers what the tests ask, with a thousand bridges and an endless stream of events.
#[derive(Clone, Copy)]
struct Fake;

type Answer<T> = Result<Response<T>, Status>;

fn event(sequence: u64) -> v1::WatchPortsResponse {
    let kind = v1::PortEventKind::LinkUp.into();
    let event = v1::PortEvent { sequence, kind, port: Some(v1::Port::default()), statistics: None };
    v1::WatchPortsResponse { update: Some(v1::watch_ports_response::Update::Event(event)) }
}

#[tonic::async_trait]
impl BridgeService for Fake {
    async fn add_bridge(&self, _: Request<v1::AddBridgeRequest>) -> Answer<v1::AddBridgeResponse> {
        let details = ErrorDetails::with_bad_request_violation("name", "bad; use another");
        Err(Status::with_error_details(tonic::Code::InvalidArgument, "name: bad; use another", details))
    }

    async fn delete_bridge(&self, _: Request<v1::DeleteBridgeRequest>) -> Answer<v1::DeleteBridgeResponse> {
        Err(Status::not_found("bridge \"br9\" does not exist; `vsctl list-br` lists them"))
    }

    async fn list_bridges(&self, _: Request<v1::ListBridgesRequest>) -> Answer<v1::ListBridgesResponse> {
        let config = |i| v1::BridgeConfig { name: format!("br{i}"), ..Default::default() };
        let bridge = |i| v1::Bridge { config: Some(config(i)), ..Default::default() };
        Ok(Response::new(v1::ListBridgesResponse { bridges: (0..1000).map(bridge).collect() }))
    }

    async fn set_bridge(&self, _: Request<v1::SetBridgeRequest>) -> Answer<v1::SetBridgeResponse> {
        Ok(Response::new(v1::SetBridgeResponse {}))
    }
}

type Events = std::pin::Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::WatchPortsResponse, Status>> + Send>>;

#[tonic::async_trait]
impl PortService for Fake {
    type WatchPortsStream = Events;

    async fn add_port(&self, _: Request<v1::AddPortRequest>) -> Answer<v1::AddPortResponse> {
        Err(Status::unavailable("port \"p0\": no such device"))
    }

    async fn delete_port(&self, _: Request<v1::DeletePortRequest>) -> Answer<v1::DeletePortResponse> {
        std::future::pending().await
    }

    async fn list_ports(&self, _: Request<v1::ListPortsRequest>) -> Answer<v1::ListPortsResponse> {
        Ok(Response::new(v1::ListPortsResponse::default()))
    }

    async fn modify_port(&self, _: Request<v1::ModifyPortRequest>) -> Answer<v1::ModifyPortResponse> {
        Ok(Response::new(v1::ModifyPortResponse::default()))
    }

    async fn watch_ports(&self, request: Request<v1::WatchPortsRequest>) -> Answer<Events> {
        if request.into_inner().include_existing {
            let end = [Ok(event(0)), Err(Status::unavailable("vswitchd is stopping"))];
            return Ok(Response::new(Box::pin(tokio_stream::iter(end))));
        }
        let events = (1..=3).map(|sequence| Ok(event(sequence)));
        Ok(Response::new(Box::pin(tokio_stream::iter(events).chain(tokio_stream::pending()))))
    }
}

type Parts<T> = std::pin::Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

/// Takes transactions: refuses lines that say `bad`, warns of those that say `odd`, and tells in
/// `affected` how many lines came with a commit. A file is in normal form already.
#[tonic::async_trait]
impl PipelineService for Fake {
    async fn write(&self, request: Request<Streaming<v1::WriteRequest>>) -> Answer<v1::WriteResponse> {
        let mut stream = request.into_inner();
        let (mut statuses, mut committed) = (Vec::new(), false);
        while let Some(message) = stream.message().await? {
            assert!(!committed, "a message after commit");
            committed = message.commit;
            for update in message.updates {
                let Some(v1::update::Update::Line(line)) = update.update else { continue };
                let mut status = v1::UpdateStatus { tag: update.tag, ..Default::default() };
                if line.line.contains("bad") {
                    status.set_outcome(v1::UpdateOutcome::Invalid);
                    (status.column, status.reason, status.hint) = (5, "bad".to_owned(), "be good".to_owned());
                }
                if line.line.contains("odd") {
                    status.warnings = vec!["odd".to_owned()];
                }
                statuses.push(status);
            }
        }
        if !committed {
            return Err(Status::aborted("the transaction ended without commit; nothing was changed"));
        }
        let refused = statuses.iter().filter(|status| status.column > 0).count() as u64;
        let updates = statuses.len() as u64;
        let applied = refused == 0;
        Ok(Response::new(v1::WriteResponse {
            applied,
            statuses,
            updates,
            refused,
            affected: updates,
            ..Default::default()
        }))
    }

    async fn normalize_flows(&self, request: Request<v1::NormalizeFlowsRequest>) -> Answer<v1::NormalizeFlowsResponse> {
        let normal = |line: v1::Line| {
            let matching = Some(v1::flow::Matching::MatchText(line.text));
            let flow = Some(v1::Flow { matching, ..Default::default() });
            v1::NormalizedFlow { flow: Some(v1::FlowEntry { flow, ..Default::default() }), status: None }
        };
        let flows = request.into_inner().lines.into_iter().map(normal).collect();
        Ok(Response::new(v1::NormalizeFlowsResponse { flows }))
    }
}

/// Has 3,000 flows.
#[tonic::async_trait]
impl FlowService for Fake {
    type ListFlowsStream = Parts<v1::ListFlowsResponse>;
    type WatchFlowsStream = Parts<v1::WatchFlowsResponse>;
    type ListMegaflowsStream = Parts<v1::ListMegaflowsResponse>;

    async fn list_flows(&self, request: Request<v1::ListFlowsRequest>) -> Answer<Self::ListFlowsStream> {
        let flow = |i| v1::FlowEntry { line: format!("priority={i} actions=drop"), ..Default::default() };
        let warnings = if request.into_inner().filter.is_some() { vec!["odd".to_owned()] } else { Vec::new() };
        let part = move |i: i32| {
            let flows = (i * 1000..(i + 1) * 1000).map(flow).collect();
            Ok(v1::ListFlowsResponse { flows, warnings: if i == 0 { warnings.clone() } else { Vec::new() } })
        };
        Ok(Response::new(Box::pin(tokio_stream::iter((0..3).map(part)))))
    }

    async fn aggregate_flows(&self, _: Request<v1::AggregateFlowsRequest>) -> Answer<v1::AggregateFlowsResponse> {
        Ok(Response::new(v1::AggregateFlowsResponse::default()))
    }

    async fn watch_flows(&self, _: Request<v1::WatchFlowsRequest>) -> Answer<Self::WatchFlowsStream> {
        Ok(Response::new(Box::pin(tokio_stream::pending())))
    }

    async fn list_megaflows(&self, _: Request<v1::ListMegaflowsRequest>) -> Answer<Self::ListMegaflowsStream> {
        Ok(Response::new(Box::pin(tokio_stream::empty())))
    }
}

/// A server in this process, with a directory for its socket.
struct Server {
    socket: PathBuf,
    runtime: tokio::runtime::Runtime,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start(health: ServingStatus) -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("vswitch.sock");
        let entered = runtime.enter();
        let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
        drop(entered);
        runtime.spawn(async move {
            let (reporter, service) = tonic_health::server::health_reporter();
            reporter.set_service_status("", health).await;
            let router = tonic::transport::Server::builder().add_service(service);
            let router = router.add_service(BridgeServiceServer::new(Fake)).add_service(PortServiceServer::new(Fake));
            let router = router.add_service(PipelineServiceServer::new(Fake)).add_service(FlowServiceServer::new(Fake));
            router.serve_with_incoming(UnixListenerStream::new(listener)).await
        });
        Self { socket, runtime, _directory: directory }
    }
}

fn vsctl(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsctl"));
    command.env_remove("VSWITCH_SOCKET").arg("--socket").arg(socket);
    command
}

fn run(socket: &Path, line: &str) -> Output {
    vsctl(socket).args(line.split_whitespace()).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", text(bytes)))
}

#[test]
fn nobody_there_is_exit_code_3_and_names_the_socket() {
    let socket = Path::new("/nonexistent/vsctl-test.sock");
    let output = run(socket, "show");
    assert_eq!(output.status.code(), Some(3));
    let error = text(&output.stderr);
    assert!(error.starts_with("vsctl: \"/nonexistent/vsctl-test.sock\": No such file or directory"), "{error}");
    assert!(error.contains("is vswitchd running?"), "{error}");
    let output = run(socket, "--json show");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), ""));
    let error = &json(&output.stderr)["error"];
    assert_eq!((&error["code"], &error["exit_code"]), (&"UNREACHABLE".into(), &3.into()), "{error}");

    let output = run(socket, "version");
    assert_eq!(output.status.code(), Some(0), "its own version it knows anyway");
    let version = text(&output.stdout);
    assert!(version.starts_with("vsctl 0.") && version.contains("is vswitchd running?"), "{version}");
}

#[test]
fn the_environment_names_the_socket() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsctl"));
    let output = command.env("VSWITCH_SOCKET", "/nonexistent/from-env.sock").arg("show").output().expect("it starts");
    assert!(text(&output.stderr).contains("from-env.sock"), "{}", text(&output.stderr));
}

#[test]
fn wrong_usage_is_exit_code_2_without_a_switch() {
    let socket = Path::new("/nonexistent/vsctl-test.sock");
    for line in
        ["add-br", "frobnicate", "add-port br0 p0 --type tap --peer p1", "mod-port br0 p0", "man frobnicate", ""]
    {
        let output = run(socket, line);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).is_empty(), "{line:?}");
    }
    let output = run(socket, "--json add-br");
    assert_eq!(output.status.code(), Some(2));
    let error = &json(&output.stderr)["error"];
    assert_eq!(error["code"], "USAGE", "{error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("<NAME>")), "{error}");
    for line in ["--help", "add-port --help", "--version", "completion bash", "man"] {
        let output = run(socket, line);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{line}");
        assert!(!output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn what_is_odd_about_a_filter_is_told() {
    let server = Server::start(ServingStatus::Serving);
    let output = run(&server.socket, "dump-flows br0 nw_dst=10.0.0.1");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), "vsctl: warning: odd\n"));
    let output = run(&server.socket, "--json dump-flows br0 nw_dst=10.0.0.1");
    assert_eq!(json(&output.stderr), serde_json::json!({ "warnings": ["odd"] }));
    assert!(json(&output.stdout).is_array());
    assert_eq!(text(&run(&server.socket, "dump-flows br0").stderr), "");
}

#[test]
fn a_refusal_is_exit_code_1_with_the_switchs_words() {
    let server = Server::start(ServingStatus::Serving);
    let output = run(&server.socket, "del-br br9");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "vsctl: bridge \"br9\" does not exist; `vsctl list-br` lists them\n");
    let output = run(&server.socket, "add-br bad --json");
    assert_eq!(output.status.code(), Some(1));
    let want = serde_json::json!({ "error": {
        "code": "INVALID_ARGUMENT",
        "exit_code": 1,
        "message": "name: bad; use another",
        "fields": [{ "field": "name", "description": "bad; use another" }],
    }});
    assert_eq!(json(&output.stderr), want);
    let output = run(&server.socket, "add-port br0 p0 --type internal");
    assert_eq!(output.status.code(), Some(1), "a device that is not there is not a switch that is not there");
    let output = run(&server.socket, "set-fail-mode br0 secure --json");
    assert_eq!((output.status.code(), json(&output.stdout)), (Some(0), serde_json::json!({ "ok": true })));
}

#[test]
fn a_switch_that_does_not_answer_is_exit_code_3_in_time() {
    let server = Server::start(ServingStatus::Serving);
    let begin = Instant::now();
    let output = run(&server.socket, "--timeout 0.3 del-port br0 p0");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("no answer within 300ms"), "{}", text(&output.stderr));
    // A stopped process: the kernel takes the connection, nobody else does.
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("silent.sock");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    for line in ["--timeout 0.3 show", "--timeout 0.3 port-events"] {
        let output = run(&socket, line);
        assert_eq!(output.status.code(), Some(3), "{line}: {}", text(&output.stderr));
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "it took {:?}", begin.elapsed());
}

fn file(text: &[u8]) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("flows");
    std::fs::write(&path, text).expect("a file");
    (directory, path.to_str().expect("UTF-8").to_owned())
}

#[test]
fn a_bad_line_is_told_with_file_and_number() {
    let server = Server::start(ServingStatus::Serving);
    let mut lines: Vec<String> = (1..=5000).map(|i| format!("priority={i},actions=drop")).collect();
    lines[2] = "# a comment".to_owned();
    let (_directory, good) = file(lines.join("\n").as_bytes());
    let output = run(&server.socket, &format!("--json --bundle add-flows br0 {good} -O OpenFlow15"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let want = serde_json::json!({ "ok": true, "updates": 4999, "affected": 4999, "warned": 0, "warnings": [] });
    assert_eq!(json(&output.stdout), want);

    lines[4321] = "bad".to_owned();
    lines[4322] = "odd".to_owned();
    let (_directory, bad) = file(lines.join("\n").as_bytes());
    let output = run(&server.socket, &format!("add-flows br0 {bad}"));
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""));
    assert_eq!(text(&output.stderr), format!("vsctl: {bad}:4322: column 5: bad; be good\n"));
    let output = run(&server.socket, &format!("--json add-flows br0 {bad}"));
    let error = &json(&output.stderr)["error"];
    assert_eq!((&error["count"], &error["updates"][0]["line"]), (&1.into(), &4322.into()), "{error}");

    // A text of the command line has no file.
    let output = run(&server.socket, "add-flow br0 bad");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), "vsctl: column 5: bad; be good\n".to_owned()));
    let output = run(&server.socket, "del-flows br0 odd --strict");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), "vsctl: warning: odd\n".to_owned()));
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_changes_nothing() {
    let server = Server::start(ServingStatus::Serving);
    let mut lines = b"actions=drop\n".repeat(10_000);
    lines.extend(b"\xff\n");
    let (_directory, path) = file(&lines);
    let output = run(&server.socket, &format!("add-flows br0 {path}"));
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(1), format!("vsctl: {path}:10001: it is not UTF-8\n"))
    );
    let output = run(&server.socket, "add-flows br0 /nonexistent/flows");
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(error.starts_with("vsctl: /nonexistent/flows: No such file or directory"), "{error}");
}

#[test]
fn lines_may_come_from_standard_input() {
    let server = Server::start(ServingStatus::Serving);
    for line in ["add-flows br0 -", "add-flow br0 -", "bundle br0 -", "replace-flows br0 -", "add-groups br0 -"] {
        let mut command = vsctl(&server.socket);
        let mut child = command
            .args(line.split_whitespace())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        child.stdin.take().expect("stdin").write_all(b"first\n\nbad\n").expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(1), "vsctl: -:3: column 5: bad; be good\n".to_owned()),
            "{line}"
        );
    }
}

#[test]
fn flows_that_differ_are_exit_code_2() {
    let server = Server::start(ServingStatus::Serving);
    let ((_one, one), (_two, two)) = (file(b"tcp\nudp\n"), file(b"udp\nip\n"));
    let output = run(&server.socket, &format!("diff-flows {one} {one}"));
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), ""));
    let output = run(&server.socket, &format!("diff-flows {one} {two}"));
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(2), ""));
    assert_eq!(text(&output.stdout), "+ip actions=\n-tcp actions=\n");
}

#[test]
fn a_long_dump_is_whole() {
    let server = Server::start(ServingStatus::Serving);
    let output = run(&server.socket, "dump-flows br0");
    let output = text(&output.stdout);
    let lines: Vec<_> = output.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3001, "OFPST_FLOW reply (OF1.5) (xid=0x2):"));
    assert_eq!((lines[1], lines[3000]), (" priority=0 actions=drop", " priority=2999 actions=drop"));
}

#[test]
fn health_is_an_exit_code() {
    for (status, word, code) in [(ServingStatus::Serving, "SERVING", 0), (ServingStatus::NotServing, "NOT_SERVING", 1)]
    {
        let server = Server::start(status);
        let output = run(&server.socket, "health");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(code), format!("{word}\n")));
        let output = run(&server.socket, "health --json");
        assert_eq!((output.status.code(), json(&output.stdout)), (Some(code), serde_json::json!({ "status": word })));
    }
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let server = Server::start(ServingStatus::Serving);
    for line in ["show", "--json show", "port-events", "man add-port", "completion bash"] {
        let mut command = vsctl(&server.socket);
        let mut child = command
            .args(line.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take()); // like `| head -0`
        let mut error = String::new();
        child.stderr.take().expect("stderr").read_to_string(&mut error).expect("UTF-8");
        let status = child.wait().expect("it ends");
        assert_eq!((status.code(), error.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn a_full_disk_is_told() {
    let server = Server::start(ServingStatus::Serving);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = vsctl(&server.socket).arg("show").stdout(full).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot write the answer: No space left"), "{}", text(&output.stderr));
}

#[test]
fn events_come_at_once_and_end_when_asked_or_with_the_switch() {
    let server = Server::start(ServingStatus::Serving);
    let output = run(&server.socket, "port-events --count 2");
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(0), 2));
    let output = run(&server.socket, "--json port-events --count 3");
    let sequences: Vec<_> =
        text(&output.stdout).lines().map(|line| json(line.as_bytes())["sequence"].as_u64()).collect();
    assert_eq!(sequences, [Some(1), Some(2), Some(3)]);
    let output = run(&server.socket, "port-events --existing");
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(3), 1));
    assert!(text(&output.stderr).contains("vswitchd is stopping"), "{}", text(&output.stderr));

    // Lines are not held back until there are many, and a switch that vanishes ends the stream.
    let mut command = vsctl(&server.socket);
    let mut child = command.arg("port-events").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut line = [0; 9];
    child.stdout.as_mut().expect("stdout").read_exact(&mut line).expect("a line while it runs");
    assert_eq!(&line, b"1 link-up");
    server.runtime.shutdown_background();
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
}
