//! A double of NodeService and SyncService: it keeps what it is told, and refuses what it is told
//! to refuse.

use crate::double_traces::Traces;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};
use vswitch_agent::project::{kind, name};
use vswitch_proto::antrea::v1::node_service_server::{NodeService, NodeServiceServer};
use vswitch_proto::antrea::v1::sync_service_server::{SyncService, SyncServiceServer};
use vswitch_proto::antrea::v1::traceflow_service_server::TraceflowServiceServer;
use vswitch_proto::antrea::v1::{self, GateChange, ObjectOutcome, WriteMode};

pub type Key = (i32, String);

#[derive(Debug, Default)]
pub struct State {
    pub node: Option<v1::NodeConfig>,
    pub round: u64,
    pub gate_open: bool,
    pub syncs: Vec<(v1::SyncBegin, Vec<v1::Object>)>,
    pub increments: Vec<v1::ApplyObjectsRequest>,
    /// What is to be refused.
    pub refused: BTreeSet<Key>,
    /// Its bridge has no ports for the application-aware engine.
    pub lacks_l7: bool,
}

#[derive(Clone)]
struct Services(Arc<Mutex<State>>);

pub struct Switch {
    traces: Traces,
    dir: TempDir,
    socket: PathBuf,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl Switch {
    pub async fn start() -> Self {
        Self::tracing(Traces::open()).await
    }

    /// The same, with Traceflows that others look at.
    pub async fn tracing(traces: Traces) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("switch.sock");
        let state = Arc::new(Mutex::new(State::default()));
        let server = serve(&socket, &state, traces.clone());
        Self { traces, dir, socket, state, server }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    /// Another process without a memory.
    pub async fn restart(&mut self) {
        self.server.abort();
        assert!((&mut self.server).await.is_err(), "it is gone");
        std::fs::remove_file(self.dir.path().join("switch.sock")).expect("removed");
        *self.state() = State::default();
        self.server = serve(&self.socket, &self.state, self.traces.clone());
    }
}

fn serve(socket: &Path, state: &Arc<Mutex<State>>, traces: Traces) -> JoinHandle<()> {
    let listener = UnixListenerStream::new(UnixListener::bind(socket).expect("bound"));
    let services = Services(Arc::clone(state));
    tokio::spawn(async move {
        let server = Server::builder().add_service(NodeServiceServer::new(services.clone()));
        let server = server.add_service(TraceflowServiceServer::new(traces));
        let _ = server.add_service(SyncServiceServer::new(services)).serve_with_incoming(listener).await;
    })
}

pub fn kinds_and_names(objects: &[v1::Object]) -> Vec<String> {
    let told = |object: &v1::Object| {
        let object = object.object.as_ref().expect("an object");
        format!("{:?} {}", kind(object), name(object))
    };
    objects.iter().map(told).collect()
}

impl Services {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }
}

/// Statuses of refused objects only, as Sync has them.
fn judge(state: &State, keys: impl Iterator<Item = Key>, mode: WriteMode) -> v1::WriteResult {
    let (mut statuses, mut count) = (Vec::new(), 0);
    for key in keys {
        count += 1;
        if state.refused.contains(&key) {
            let problem = v1::Problem {
                code: "PORT".to_owned(),
                reason: "refused by the test".to_owned(),
                field: "port".to_owned(),
                hint: "think".to_owned(),
                other: None,
            };
            let object = Some(v1::ObjectRef { kind: key.0, name: key.1 });
            let outcome = ObjectOutcome::Refused.into();
            statuses.push(v1::ObjectStatus { object, outcome, problems: vec![problem], warnings: vec![] });
        }
    }
    let refused = statuses.len() as u64;
    let applied = mode == WriteMode::ValidOnly || refused == 0;
    let counts = [("APPLIED", count - refused), ("REFUSED", refused)];
    let counts = counts.into_iter().filter(|(_, count)| *count > 0).map(|(word, count)| (word.to_owned(), count));
    v1::WriteResult { applied, statuses, counts: counts.collect(), ..Default::default() }
}

fn key(object: &v1::Object) -> Key {
    let object = object.object.as_ref().expect("an object");
    (kind(object) as i32, name(object))
}

#[tonic::async_trait]
impl NodeService for Services {
    async fn initialize(
        &self,
        request: Request<v1::InitializeRequest>,
    ) -> Result<Response<v1::InitializeResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        if request.round < state.round {
            return Err(Status::failed_precondition("an old round"));
        }
        let node = request.node.expect("a Node");
        if node.bridge == "wrong" {
            let details = ErrorDetails::with_bad_request_violation("node.bridge", "there is no such bridge");
            return Err(Status::with_error_details(tonic::Code::NotFound, "one field is wrong", details));
        }
        if state.lacks_l7 && node.l7.is_some() {
            let details = ErrorDetails::with_bad_request_violation("node.l7.target", "PORT: there is no such port");
            return Err(Status::with_error_details(tonic::Code::NotFound, "one field is wrong", details));
        }
        let unchanged = state.node.replace(node.clone()) == Some(node);
        Ok(Response::new(v1::InitializeResponse { unchanged, ..Default::default() }))
    }

    async fn get_node(&self, _: Request<v1::GetNodeRequest>) -> Result<Response<v1::GetNodeResponse>, Status> {
        Ok(Response::new(v1::GetNodeResponse { node: self.state().node.clone(), ..Default::default() }))
    }

    async fn reset(&self, _: Request<v1::ResetRequest>) -> Result<Response<v1::ResetResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn get_host_plan(
        &self,
        _: Request<v1::GetHostPlanRequest>,
    ) -> Result<Response<v1::GetHostPlanResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn report_host(&self, _: Request<v1::ReportHostRequest>) -> Result<Response<v1::ReportHostResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
}

type Flows = Pin<Box<dyn Stream<Item = Result<v1::ListObjectFlowsResponse, Status>> + Send>>;

#[tonic::async_trait]
impl SyncService for Services {
    async fn sync(&self, request: Request<Streaming<v1::SyncRequest>>) -> Result<Response<v1::SyncResponse>, Status> {
        let mut stream = request.into_inner();
        let (mut begin, mut objects, mut commit) = (None, Vec::new(), None);
        while let Some(message) = stream.next().await {
            let message = message?;
            assert!(commit.is_none(), "nothing comes behind the commit");
            assert_eq!(begin.is_none(), message.begin.is_some(), "the first message begins");
            begin = begin.or(message.begin);
            objects.extend(message.objects);
            commit = message.commit;
        }
        let begin: v1::SyncBegin = begin.expect("it begins");
        let commit = commit.ok_or_else(|| Status::aborted("no commit"))?;
        if commit.objects != objects.len() as u64 {
            return Err(Status::invalid_argument("another number of objects"));
        }
        let mut state = self.state();
        if state.node.is_none() || begin.round <= state.round {
            return Err(Status::failed_precondition("not initialised, or an old round"));
        }
        let mut once: BTreeMap<Key, ()> = BTreeMap::new();
        assert!(objects.iter().all(|object| once.insert(key(object), ()).is_none()), "each object once");
        assert!(objects.iter().all(|object| begin.scope.contains(&key(object).0)), "objects of the scope");
        let result = judge(&state, objects.iter().map(key), begin.mode());
        if result.applied {
            state.round = begin.round;
            let is_clean = result.statuses.is_empty();
            state.gate_open |= match begin.gate() {
                GateChange::Unspecified | GateChange::Open => is_clean,
                GateChange::OpenAnyway => true,
                GateChange::Keep => false,
            };
        }
        state.syncs.push((begin, objects));
        let gate_open = state.gate_open;
        Ok(Response::new(v1::SyncResponse { result: Some(result), gate_open, ..v1::SyncResponse::default() }))
    }

    async fn apply_objects(
        &self,
        request: Request<v1::ApplyObjectsRequest>,
    ) -> Result<Response<v1::ApplyObjectsResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        let options = request.options.unwrap_or_default();
        if state.node.is_none() || options.round < state.round {
            return Err(Status::failed_precondition("not initialised, or an old round"));
        }
        let gone = request.remove.iter().map(|gone| (gone.kind, gone.name.clone()));
        let result = judge(&state, request.objects.iter().map(key).chain(gone), options.mode());
        state.increments.push(request);
        Ok(Response::new(v1::ApplyObjectsResponse { result: Some(result) }))
    }

    async fn open_gate(&self, _: Request<v1::OpenGateRequest>) -> Result<Response<v1::OpenGateResponse>, Status> {
        self.state().gate_open = true;
        Ok(Response::new(v1::OpenGateResponse {}))
    }

    async fn get_state(&self, _: Request<v1::GetStateRequest>) -> Result<Response<v1::GetStateResponse>, Status> {
        let state = self.state();
        Ok(Response::new(v1::GetStateResponse {
            initialized: state.node.is_some(),
            gate_open: state.gate_open,
            round: state.round,
            ..Default::default()
        }))
    }

    type ListObjectFlowsStream = Flows;

    async fn list_object_flows(&self, _: Request<v1::ListObjectFlowsRequest>) -> Result<Response<Flows>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn find_objects(
        &self,
        _: Request<v1::FindObjectsRequest>,
    ) -> Result<Response<v1::FindObjectsResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }
}
