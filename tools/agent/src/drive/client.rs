//! Calls of the switch.

use super::{DriveError, refused};
use crate::problem::{Origin, Problem};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::node_service_client::NodeServiceClient;
use vswitch_proto::antrea::v1::sync_service_client::SyncServiceClient;

/// Bytes of an answer.
const ANSWER_LEN_MAX: usize = 64 << 20;

/// A switch that is there answers in this time, whatever it was sent.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A switch that is gone without a word is noticed after this time.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Objects of one message of a sync.
const OBJECTS_MAX: usize = 2000;

/// Bytes of one message of a sync, about. (The switch takes 16 MiB.)
const MESSAGE_LEN_MAX: usize = 4 << 20;

/// Kinds that an agent of manifests has.
const SCOPE: [v1::Kind; 9] = [
    v1::Kind::PeerNode,
    v1::Kind::Pod,
    v1::Kind::Service,
    v1::Kind::Endpoints,
    v1::Kind::AddressGroup,
    v1::Kind::AppliedToGroup,
    v1::Kind::NetworkPolicy,
    v1::Kind::Egress,
    v1::Kind::TrafficControl,
];

/// A connection to the switch.
#[derive(Debug)]
pub(crate) struct Client {
    socket: PathBuf,
    nodes: NodeServiceClient<Channel>,
    syncs: SyncServiceClient<Channel>,
}

impl Client {
    pub(crate) async fn connect(socket: &Path) -> Result<Self, DriveError> {
        let channel = endpoint(socket)?.timeout(TIMEOUT);
        let channel = connect(socket, &channel).await?;
        Ok(Self {
            socket: socket.to_owned(),
            nodes: NodeServiceClient::new(channel.clone()).max_decoding_message_size(ANSWER_LEN_MAX),
            syncs: SyncServiceClient::new(channel).max_decoding_message_size(ANSWER_LEN_MAX),
        })
    }

    /// Gate and round. A switch that has not been told what the Node is may have none.
    pub(super) async fn state(&mut self) -> Result<v1::GetStateResponse, DriveError> {
        match self.syncs.get_state(v1::GetStateRequest {}).await {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) if status.code() == Code::FailedPrecondition => Ok(v1::GetStateResponse::default()),
            Err(status) => Err(refused(&self.socket, "GetState", &status)),
        }
    }

    pub(super) async fn initialize(
        &mut self,
        node: &v1::NodeConfig,
        origin: &Origin,
        round: u64,
    ) -> Result<(), DriveError> {
        let request = v1::InitializeRequest { node: Some(node.clone()), round };
        match self.nodes.initialize(request).await {
            Ok(answer) => {
                let answer = answer.into_inner();
                if !answer.unchanged {
                    tracing::info!("the switch has {} tables for Node {}", answer.tables.len(), node.name);
                }
                Ok(())
            }
            Err(status)
                if [Code::InvalidArgument, Code::NotFound, Code::FailedPrecondition].contains(&status.code()) =>
            {
                Err(DriveError::Node(wrong_fields(&status, origin)))
            }
            Err(status) => Err(refused(&self.socket, "Initialize", &status)),
        }
    }

    /// What the Node is, as the switch has it.
    pub(super) async fn node(&mut self) -> Result<v1::NodeConfig, DriveError> {
        let answer = self.nodes.get_node(v1::GetNodeRequest {}).await;
        let answer = answer.map_err(|status| refused(&self.socket, "GetNode", &status))?;
        Ok(answer.into_inner().node.unwrap_or_default())
    }

    /// The host plan, if it is another one than the one of this generation.
    pub(crate) async fn host_plan(&mut self, generation: u64) -> Result<Option<v1::HostPlan>, DriveError> {
        let answer = self.nodes.get_host_plan(v1::GetHostPlanRequest { generation }).await;
        answer.map(|answer| answer.into_inner().plan).map_err(|status| refused(&self.socket, "GetHostPlan", &status))
    }

    /// Reports how the host is.
    pub(crate) async fn report_host(
        &mut self,
        generation: u64,
        problems: Vec<v1::HostProblem>,
    ) -> Result<(), DriveError> {
        let answer = self.nodes.report_host(v1::ReportHostRequest { generation, problems }).await;
        answer.map(drop).map_err(|status| refused(&self.socket, "ReportHost", &status))
    }

    pub(super) async fn sync(
        &mut self,
        round: u64,
        mode: v1::WriteMode,
        gate: v1::GateChange,
        objects: Vec<v1::Object>,
    ) -> Result<v1::SyncResponse, DriveError> {
        let begin = v1::SyncBegin {
            round,
            scope: SCOPE.iter().map(|kind| (*kind).into()).collect(),
            mode: mode.into(),
            gate: gate.into(),
            ..Default::default()
        };
        let messages = messages(begin, objects);
        let answer = self.syncs.sync(tokio_stream::iter(messages)).await;
        answer.map(tonic::Response::into_inner).map_err(|status| refused(&self.socket, "Sync", &status))
    }

    pub(super) async fn apply(
        &mut self,
        options: v1::WriteOptions,
        objects: Vec<v1::Object>,
        remove: Vec<v1::ObjectRef>,
    ) -> Result<v1::WriteResult, DriveError> {
        let request = v1::ApplyObjectsRequest { options: Some(options), objects, remove };
        let answer = self.syncs.apply_objects(request).await;
        let answer = answer.map_err(|status| refused(&self.socket, "ApplyObjects", &status))?;
        Ok(answer.into_inner().result.unwrap_or_default())
    }
}

/// Messages of a sync: `begin`, objects in parts, `commit`.
fn messages(begin: v1::SyncBegin, objects: Vec<v1::Object>) -> Vec<v1::SyncRequest> {
    let commit = v1::SyncCommit { objects: objects.len() as u64 };
    let mut messages = vec![v1::SyncRequest { begin: Some(begin), ..Default::default() }];
    let (mut part, mut len) = (Vec::new(), 0);
    for object in objects {
        let object_len = prost::Message::encoded_len(&object);
        if !part.is_empty() && (part.len() >= OBJECTS_MAX || len + object_len > MESSAGE_LEN_MAX) {
            messages.push(v1::SyncRequest { objects: std::mem::take(&mut part), ..Default::default() });
            len = 0;
        }
        len += object_len;
        part.push(object);
    }
    messages.push(v1::SyncRequest { objects: part, commit: Some(commit), ..Default::default() });
    messages
}

/// What is wrong with the Node, field by field where the switch says so.
fn wrong_fields(status: &Status, origin: &Origin) -> Vec<Problem> {
    let fields = status.get_details_bad_request().map(|request| request.field_violations).unwrap_or_default();
    let problems: Vec<Problem> = fields.into_iter().map(|field| origin.error(field.field, field.description)).collect();
    if problems.is_empty() { vec![origin.error("", status.message())] } else { problems }
}

/// The reason behind reasons: of a connection, what the kernel said.
fn unreachable(socket: &Path, reason: String) -> DriveError {
    DriveError::Unreachable { socket: socket.to_owned(), reason }
}

fn endpoint(socket: &Path) -> Result<Endpoint, DriveError> {
    let path = socket.to_str().ok_or_else(|| unreachable(socket, "the path is not UTF-8".to_owned()))?;
    let endpoint = Endpoint::from_shared(format!("unix://{path}"));
    let endpoint = endpoint.map_err(|error| unreachable(socket, innermost(&error)))?;
    Ok(endpoint.http2_keep_alive_interval(KEEPALIVE).keep_alive_while_idle(true))
}

async fn connect(socket: &Path, endpoint: &Endpoint) -> Result<Channel, DriveError> {
    endpoint.connect().await.map_err(|error| unreachable(socket, innermost(&error)))
}

/// A connection to the switch for calls that last: they have no time limit.
pub(crate) async fn channel(socket: &Path) -> Result<Channel, DriveError> {
    connect(socket, &endpoint(socket)?).await
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_proto::antrea::v1::object::Object;

    #[test]
    fn a_sync_comes_in_parts() {
        let object = |name: usize| v1::Object {
            object: Some(Object::Pod(v1::Pod { name: name.to_string(), ..Default::default() })),
        };
        let parts = messages(v1::SyncBegin::default(), (0..OBJECTS_MAX * 2 + 1).map(object).collect());
        let sizes: Vec<usize> = parts.iter().map(|part| part.objects.len()).collect();
        assert_eq!(sizes, [0, OBJECTS_MAX, OBJECTS_MAX, 1]);
        assert_eq!(parts[3].commit, Some(v1::SyncCommit { objects: OBJECTS_MAX as u64 * 2 + 1 }));
        assert_eq!(messages(v1::SyncBegin::default(), vec![]).len(), 2);
    }
}
