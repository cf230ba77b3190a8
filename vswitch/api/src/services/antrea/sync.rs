//! `SyncService`.

use super::{AntreaServices, how, valid_only};
use crate::services::api::{Asked, Control};
use crate::services::flow::{Telling, entry};
use crate::services::list::{self, measured_parts};
use crate::services::receive::next;
use crate::services::status::invalid;
use crate::shares::{Taken, User, current};
use prost::Message;
use std::time::Duration;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};
use vswitch_antrea::{Key, ObjectKind};
use vswitch_antrea_node::{OwnedFlow, Sync};
use vswitch_dataplane::port::FieldError;
use vswitch_flow::text::Style;
use vswitch_proto::antrea::v1;

/// Flows per message.
const CHUNK: usize = 1024;

fn wrong(field: &'static str, problem: impl Into<String>, hint: &str) -> Status {
    invalid(&[FieldError::new(field, problem, hint)])
}

/// Objects of a request that have something in them.
pub(super) fn objects(objects: Vec<v1::Object>) -> Result<Vec<v1::object::Object>, Status> {
    let given = objects.into_iter().map(|object| object.object);
    let all: Option<Vec<_>> = given.collect();
    all.ok_or_else(|| wrong("objects", "one of them is empty", "say what it is"))
}

/// An object's identity in a request.
pub(super) fn key(field: &'static str, told: &v1::ObjectRef) -> Result<Key, Status> {
    let kind = v1::Kind::try_from(told.kind).ok().and_then(ObjectKind::read);
    let kind = kind.or_else(|| (told.kind() == v1::Kind::Node).then_some(ObjectKind::Node));
    let kind = kind.ok_or_else(|| wrong(field, format!("{} is no kind of object", told.kind), "see antrea.v1.Kind"))?;
    Ok(Key::new(kind, &told.name))
}

/// Bytes of a sync's messages.
const SYNC_LEN_MAX: usize = 1 << 29;

/// Time for the next message of a sync.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for all messages of a sync.
const SYNC_TIMEOUT: Duration = Duration::from_secs(600);

/// Bytes of memory that a byte of a message takes once it is decoded, roughly.
const DECODED: usize = 2;

/// A sync that is being received.
struct Receiving {
    objects: Vec<v1::object::Object>,
    /// Bytes that may still come.
    left: usize,
    room: Option<Taken>,
}

impl Receiving {
    /// Takes a message; whether it is the last one.
    fn take(&mut self, control: &Control, message: v1::SyncRequest) -> Result<bool, Status> {
        let len = message.encoded_len();
        let Some(left) = self.left.checked_sub(len) else {
            return Err(Status::resource_exhausted(format!("a sync: the limit of {SYNC_LEN_MAX} bytes is reached")));
        };
        self.left = left;
        control.take_room(&mut self.room, len.saturating_mul(DECODED))?;
        self.objects.extend(objects(message.objects)?);
        if self.objects.len() > vswitch_antrea::limits::OBJECTS_MAX {
            let most = vswitch_antrea::limits::OBJECTS_MAX;
            return Err(Status::resource_exhausted(format!("objects: the limit of {most} is reached")));
        }
        let Some(commit) = message.commit else { return Ok(false) };
        if commit.objects != self.objects.len() as u64 {
            let problem = format!("{} objects were sent, {} came", commit.objects, self.objects.len());
            return Err(wrong("commit.objects", problem, "sync again"));
        }
        Ok(true)
    }

    /// Receives the messages behind the first one.
    async fn receive(
        &mut self,
        control: &Control,
        first: v1::SyncRequest,
        stream: &mut Streaming<v1::SyncRequest>,
    ) -> Result<(), Status> {
        let mut is_last = self.take(control, first)?;
        while let Some(message) = next(stream, MESSAGE_TIMEOUT).await? {
            if is_last {
                return Err(wrong("commit", "a message came after it", "set it in the last message"));
            }
            if message.begin.is_some() {
                return Err(wrong("begin", "there is a second one", "say it in the first message only"));
            }
            if message.objects.is_empty() && message.commit.is_none() {
                return Err(wrong("objects", "a message has none", "send some, or commit"));
            }
            is_last = self.take(control, message)?;
        }
        if is_last { Ok(()) } else { Err(Status::aborted("the sync ended without commit; nothing was changed")) }
    }
}

/// Receives a sync, unless another one takes its place; its room.
async fn receive(
    services: &AntreaServices,
    user: User,
    stream: &mut Streaming<v1::SyncRequest>,
) -> Result<(Sync, Option<Taken>), Status> {
    let Some(mut first) = next(stream, MESSAGE_TIMEOUT).await? else {
        return Err(Status::aborted("the sync ended without commit; nothing was changed"));
    };
    let Some(begin) = first.begin.take() else {
        return Err(wrong("begin", "the first message has none", "begin with one"));
    };
    let mut begun = services.syncs.begin(user, begin.round)?;
    let mut receiving = Receiving { objects: Vec::new(), left: SYNC_LEN_MAX, room: None };
    tokio::select! {
        received = receiving.receive(&services.control, first, stream) => received?,
        status = begun.replaced() => return Err(status),
        () = tokio::time::sleep(SYNC_TIMEOUT) => {
            return Err(Status::deadline_exceeded("the sync took more than 10 minutes; nothing was changed"));
        }
    }
    let Receiving { objects, room, .. } = receiving;
    Ok((Sync { begin, objects }, room))
}

#[tonic::async_trait]
impl v1::sync_service_server::SyncService for AntreaServices {
    type ListObjectFlowsStream = BoxStream<v1::ListObjectFlowsResponse>;

    async fn sync(&self, request: Request<Streaming<v1::SyncRequest>>) -> Result<Response<v1::SyncResponse>, Status> {
        let (_, extensions, mut stream) = request.into_parts();
        let (sync, _room) = receive(self, current().user, &mut stream).await?;
        valid_only("begin.mode", sync.begin.mode)?;
        if v1::GateChange::try_from(sync.begin.gate).is_err() {
            return Err(wrong("begin.gate", format!("{} is no change", sync.begin.gate), "see antrea.v1.GateChange"));
        }
        let (round, count) = (sync.begin.round.to_string(), sync.objects.len().to_string());
        let asked = Asked::new("Sync", &extensions, &[&round, &count]);
        Ok(Response::new(self.change(asked, move |antrea| antrea.sync(sync)).await?))
    }

    async fn apply_objects(
        &self,
        request: Request<v1::ApplyObjectsRequest>,
    ) -> Result<Response<v1::ApplyObjectsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let how = how(request.options)?;
        let objects = objects(request.objects)?;
        let remove: Vec<Key> = request.remove.iter().map(|told| key("remove", told)).collect::<Result<_, _>>()?;
        let result = self.write("ApplyObjects", &extensions, objects, remove, how).await?;
        Ok(Response::new(v1::ApplyObjectsResponse { result: Some(result) }))
    }

    async fn open_gate(&self, request: Request<v1::OpenGateRequest>) -> Result<Response<v1::OpenGateResponse>, Status> {
        let (_, extensions, v1::OpenGateRequest { round }) = request.into_parts();
        let asked = Asked::new("OpenGate", &extensions, &[]);
        self.change(asked, move |antrea| antrea.open_gate(round)).await?;
        Ok(Response::new(v1::OpenGateResponse {}))
    }

    async fn get_state(&self, _: Request<v1::GetStateRequest>) -> Result<Response<v1::GetStateResponse>, Status> {
        Ok(Response::new(self.read(|antrea| Ok(antrea.state())).await?))
    }

    async fn list_object_flows(
        &self,
        request: Request<v1::ListObjectFlowsRequest>,
    ) -> Result<Response<Self::ListObjectFlowsStream>, Status> {
        let request = request.into_inner();
        let form = list::form(request.form)?;
        let (flows, names) = if request.gateway_bridge {
            if request.object.is_some() || !request.rule.is_empty() {
                return Err(wrong("gateway_bridge", "an object or a rule is given, too", "leave out one of both"));
            }
            self.read(|antrea| antrea.gateway_flows()).await?
        } else {
            let key = key("object", &request.object.unwrap_or_default())?;
            self.read(move |antrea| antrea.flows_of(&key, &request.rule)).await?
        };
        let telling = Telling { form, style: Style { names: request.names }, statistics: true };
        let present = move |OwnedFlow { info, table, purpose, shared_with }| v1::ObjectFlow {
            flow: Some(entry(&info, telling, &names)),
            table: table.to_owned(),
            purpose: purpose.to_owned(),
            shared_with: shared_with.iter().map(Key::to_proto).collect(),
        };
        let message = |flows| v1::ListObjectFlowsResponse { flows };
        Ok(Response::new(measured_parts(None, flows, CHUNK, present, v1::ObjectFlow::encoded_len, message)))
    }

    async fn find_objects(
        &self,
        request: Request<v1::FindObjectsRequest>,
    ) -> Result<Response<v1::FindObjectsResponse>, Status> {
        let Some(flow) = request.into_inner().flow else {
            return Err(wrong("flow", "it is not given", "give a line, a cookie or a rule's number"));
        };
        Ok(Response::new(self.read(move |antrea| antrea.find(&flow)).await?))
    }
}
