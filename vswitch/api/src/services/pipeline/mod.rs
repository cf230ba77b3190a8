//! `PipelineService`: transactions, and the normal form of flows.
//!
//! **Design**: `line` and [`vswitch_messages`] turn one update into a plain value, `transaction`
//! collects them message by message with their statuses, and the switch applies what was collected
//! as a whole. Text is parsed on a blocking thread while the next message is received, off the
//! switch's lock, with the names of ports and tables as they were when the call came.
//!
//! **Limits**: [`vswitch_dataplane::limits::TRANSACTION_UPDATES_MAX`] updates per call, and
//! [`vswitch_dataplane::limits::TRANSACTIONS_LEN_MAX`] bytes for all calls that are being collected
//! together.

mod line;
mod transaction;

use super::api::{Asked, Control};
use super::list;
use super::status::{invalid, status};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Response, Status, Streaming};
use transaction::Transaction;
#[cfg(any(test, fuzzing))]
pub(super) use transaction::update;
use vswitch_control::SwitchApi;
use vswitch_control::SwitchError;
use vswitch_control::switch::pipeline::{NameMap, WriteError};
use vswitch_dataplane::limits::{TRANSACTION_UPDATES_MAX, TRANSACTIONS_LEN_MAX};
use vswitch_dataplane::port::FieldError;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, NoNames, Style, format_flow, parse_flow};
use vswitch_messages as typed;
use vswitch_proto::v1;

/// Units in which the room for transactions is counted, in bytes.
const ROOM_UNIT: usize = 1 << 10;

/// Lines that one call normalizes: what one message of a client that streams a file holds.
const NORMALIZE_LINES_MAX: usize = 65_536;

/// See `proto/vswitch/v1/pipeline.proto`.
pub(crate) struct Pipelines {
    control: Control,
    /// Room for transactions that are being collected, in units.
    room: Arc<Semaphore>,
}

impl Pipelines {
    pub(crate) fn new(control: Control) -> Self {
        Self { control, room: Arc::new(Semaphore::new(TRANSACTIONS_LEN_MAX / ROOM_UNIT)) }
    }

    /// Takes room for a message, or says that there is none.
    fn take_room(&self, len: usize) -> Result<OwnedSemaphorePermit, Status> {
        let units = u32::try_from(len.div_ceil(ROOM_UNIT)).unwrap_or(u32::MAX);
        Arc::clone(&self.room).try_acquire_many_owned(units).map_err(|_| {
            Status::resource_exhausted(format!(
                "transactions: the limit of {TRANSACTIONS_LEN_MAX} bytes being collected is reached; write less at a time, or try again"
            ))
        })
    }

    /// Receives and parses a transaction.
    async fn collect(&self, stream: &mut Streaming<v1::WriteRequest>) -> Result<Collected, Status> {
        let mut message = stream.message().await?.unwrap_or_default();
        if message.bridge.is_empty() {
            return Err(wrong("bridge", "the first message names none", "name a bridge"));
        }
        let bridge = message.bridge.clone();
        let wanted = bridge.clone();
        let names = Arc::new(self.control.try_read(move |switch| switch.names(&wanted)).await?);
        let mut transaction = Transaction::default();
        let mut room: Option<OwnedSemaphorePermit> = None;
        loop {
            if !message.bridge.is_empty() && message.bridge != bridge {
                let problem = format!("{:?} is not the first message's {bridge:?}", message.bridge);
                return Err(wrong("bridge", problem, "write to one bridge"));
            }
            if transaction.len() + message.updates.len() > TRANSACTION_UPDATES_MAX {
                return Err(Status::resource_exhausted(format!(
                    "updates of a transaction: the limit of {TRANSACTION_UPDATES_MAX} is reached; use more than one"
                )));
            }
            let taken = self.take_room(transaction::room_for(&message))?;
            match &mut room {
                Some(room) => room.merge(taken),
                None => room = Some(taken),
            }
            let (updates, names) = (std::mem::take(&mut message.updates), Arc::clone(&names));
            let parsing = tokio::task::spawn_blocking(move || {
                transaction.add(updates, &*names);
                transaction
            });
            let (parsed, next) = tokio::join!(parsing, stream.message());
            transaction = parsed.map_err(|error| Status::internal(format!("parsing failed: {error}; report it")))?;
            // The end of the stream alone means nothing: to this side it looks the same when the
            // client was cancelled.
            match (message.commit, next?) {
                (false, Some(next)) => message = next,
                (true, None) => return Ok(Collected { bridge, transaction, _room: room }),
                (false, None) => {
                    return Err(Status::aborted("the transaction ended without commit; nothing was changed"));
                }
                (true, Some(_)) => {
                    return Err(wrong("commit", "a message came after it", "set it in the last message"));
                }
            }
        }
    }
}

/// A message that cannot be part of a transaction.
fn wrong(field: &'static str, problem: impl Into<String>, hint: &str) -> Status {
    invalid(&[FieldError::new(field, problem, hint)])
}

/// A transaction, ready to be applied.
struct Collected {
    bridge: String,
    transaction: Transaction,
    _room: Option<OwnedSemaphorePermit>,
}

#[tonic::async_trait]
impl v1::pipeline_service_server::PipelineService for Pipelines {
    async fn write(
        &self,
        request: Request<Streaming<v1::WriteRequest>>,
    ) -> Result<Response<v1::WriteResponse>, Status> {
        let (_, extensions, mut stream) = request.into_parts();
        let Collected { bridge, transaction, _room } = self.collect(&mut stream).await?;
        let asked = Asked::new("Write", &extensions, &[&bridge, &transaction.len().to_string()]);
        let call = move |switch: &dyn SwitchApi| {
            let (result, refusal) = apply(switch, &bridge, transaction);
            asked.log(refusal.as_deref());
            result
        };
        let response = self.control.read(call).await?.map_err(|error| status(&error))?;
        Ok(Response::new(response))
    }

    async fn normalize_flows(
        &self,
        request: Request<v1::NormalizeFlowsRequest>,
    ) -> Result<Response<v1::NormalizeFlowsResponse>, Status> {
        let request = request.into_inner();
        if request.lines.len() > NORMALIZE_LINES_MAX {
            return Err(Status::resource_exhausted(format!(
                "lines: the limit of {NORMALIZE_LINES_MAX} is reached; send fewer at a time"
            )));
        }
        let form = list::form(request.form)?;
        let response = self
            .control
            .try_read(move |switch| {
                let names = if request.bridge.is_empty() { None } else { Some(switch.names(&request.bridge)?) };
                let flows = request.lines.iter().map(|line| normal(line, names.as_ref(), form, request.names));
                Ok(v1::NormalizeFlowsResponse { flows: flows.collect() })
            })
            .await?;
        Ok(Response::new(response))
    }
}

/// Applies a transaction. The response or error, and what the log is to say of a failure.
fn apply(
    switch: &dyn SwitchApi,
    bridge: &str,
    transaction: Transaction,
) -> (Result<v1::WriteResponse, SwitchError>, Option<String>) {
    let (updates, statuses) = match transaction.finish() {
        Ok(whole) => whole,
        Err(response) => return (Ok(response), Some("the text or a value of an update is wrong".to_owned())),
    };
    match switch.write_pipeline(bridge, &updates) {
        Ok(applied) => (Ok(statuses.applied(&applied)), None),
        Err(WriteError::Refused(refused)) => (Ok(statuses.refused(&refused)), Some(refused.to_string())),
        Err(WriteError::Switch(error)) => {
            let text = error.to_string();
            (Err(error), Some(text))
        }
    }
}

/// A line in normal form, or what is wrong with it.
fn normal(line: &v1::Line, names: Option<&NameMap>, form: list::Form, by_name: bool) -> v1::NormalizedFlow {
    let names: &dyn vswitch_flow::text::Names = match names {
        Some(names) => names,
        None => &NoNames,
    };
    let parsed = parse_flow(&line.text, FlowCommand::Add, names).and_then(|parsed| match parsed.value {
        Update::AddFlow(flow) => Ok((flow, parsed.warnings)),
        _ => Err(typed::wrong("", "this is not a flow to add", "leave the command out")),
    });
    match parsed {
        Ok((flow, warnings)) => {
            let style = Style { names: by_name };
            let mut entry = v1::FlowEntry::default();
            match form {
                list::Form::Line => format_flow(&flow, None, style, names, &mut entry.line),
                list::Form::Text => entry.flow = Some(typed::flow_message(&flow, false, style, names)),
                list::Form::Typed => entry.flow = Some(typed::flow_message(&flow, true, style, names)),
            }
            let outcome = v1::UpdateOutcome::NotApplied.into();
            let status = v1::UpdateStatus { outcome, tag: line.tag, warnings, ..Default::default() };
            v1::NormalizedFlow { flow: Some(entry), status: Some(status) }
        }
        Err(error) => v1::NormalizedFlow { flow: None, status: Some(transaction::invalid(line.tag, error)) },
    }
}
