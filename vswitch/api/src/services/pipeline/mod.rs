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
use super::receive::next;
use super::status::{invalid, status};
use crate::shares::Taken;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status, Streaming};
use transaction::Transaction;
#[cfg(any(test, fuzzing))]
pub(super) use transaction::update;
use vswitch_control::SwitchApi;
use vswitch_control::SwitchError;
use vswitch_control::switch::pipeline::{NameMap, WriteError};
use vswitch_dataplane::limits::TRANSACTION_UPDATES_MAX;
use vswitch_dataplane::port::FieldError;
use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, NoNames, Style, format_flow, parse_flow};
use vswitch_messages as typed;
use vswitch_proto::v1;

/// Time for the next message of a transaction.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for all messages of a transaction.
const COLLECT_TIMEOUT: Duration = Duration::from_secs(600);

/// Lines that are normalized before other calls have their turn.
const NORMALIZE_PART: usize = 1024;

/// Lines that one call normalizes: what one message of a client that streams a file holds.
const NORMALIZE_LINES_MAX: usize = 65_536;

/// See `proto/vswitch/v1/pipeline.proto`.
pub(crate) struct Pipelines {
    control: Control,
}

impl Pipelines {
    pub(crate) const fn new(control: Control) -> Self {
        Self { control }
    }

    /// Receives and parses a transaction.
    async fn collect(&self, stream: &mut Streaming<v1::WriteRequest>) -> Result<Collected, Status> {
        let mut message = next(stream, MESSAGE_TIMEOUT).await?.unwrap_or_default();
        if message.bridge.is_empty() {
            return Err(wrong("bridge", "the first message names none", "name a bridge"));
        }
        let bridge = message.bridge.clone();
        let wanted = bridge.clone();
        let names = Arc::new(self.control.try_read(move |switch| switch.names(&wanted)).await?);
        let mut transaction = Transaction::default();
        let mut room: Option<Taken> = None;
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
            self.control.take_room(&mut room, transaction::room_for(&message))?;
            let (updates, names) = (std::mem::take(&mut message.updates), Arc::clone(&names));
            let parsing = tokio::task::spawn_blocking(move || {
                transaction.add(updates, &*names);
                transaction
            });
            let (parsed, next) = tokio::join!(parsing, next(stream, MESSAGE_TIMEOUT));
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
    _room: Option<Taken>,
}

#[tonic::async_trait]
impl v1::pipeline_service_server::PipelineService for Pipelines {
    async fn write(
        &self,
        request: Request<Streaming<v1::WriteRequest>>,
    ) -> Result<Response<v1::WriteResponse>, Status> {
        let (_, extensions, mut stream) = request.into_parts();
        let collected = tokio::time::timeout(COLLECT_TIMEOUT, self.collect(&mut stream)).await;
        let Ok(collected) = collected else {
            return Err(Status::deadline_exceeded("the transaction took more than 10 minutes; nothing was changed"));
        };
        let Collected { bridge, transaction, _room } = collected?;
        let asked = Asked::new("Write", &extensions, &[&bridge, &transaction.len().to_string()]);
        let call = move |switch: &dyn SwitchApi| {
            let (result, refusal) = apply(switch, &bridge, transaction);
            asked.log(refusal.as_deref());
            result
        };
        let response = self.control.write(call).await?.map_err(|error| status(&error))?;
        self.control.touch();
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
        let v1::NormalizeFlowsRequest { bridge, lines, names: by_name, .. } = request;
        let names = if bridge.is_empty() {
            None
        } else {
            Some(Arc::new(self.control.try_read(move |switch| switch.names(&bridge)).await?))
        };
        let (mut flows, mut lines) = (Vec::with_capacity(lines.len()), lines.into_iter());
        loop {
            // In parts: one call for all of them would keep others waiting.
            let part: Vec<v1::Line> = lines.by_ref().take(NORMALIZE_PART).collect();
            if part.is_empty() {
                return Ok(Response::new(v1::NormalizeFlowsResponse { flows }));
            }
            let names = names.clone();
            let normalize = move |_: &dyn SwitchApi| -> Vec<v1::NormalizedFlow> {
                part.iter().map(|line| normal(line, names.as_deref(), form, by_name)).collect()
            };
            flows.extend(self.control.read(normalize).await?);
        }
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
