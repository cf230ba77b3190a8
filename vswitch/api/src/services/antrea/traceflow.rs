//! `TraceflowService`.

use super::{AntreaServices, refused, wrong};
use crate::services::api::Asked;
use crate::services::status::{clip, invalid, lines_shown};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Code, Request, Response, Status};
use vswitch_antrea::Traceflow;
use vswitch_antrea_node::{Antrea, Running, TraceflowError};
use vswitch_dataplane::pipeline::PacketIn;
use vswitch_dataplane::port::FieldError;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::run_traceflow_response::Update;

/// Messages that a client has not read: one run has some ten.
const QUEUED: usize = 32;

type Messages = mpsc::Sender<Result<v1::RunTraceflowResponse, Status>>;

fn message(update: Update) -> Result<v1::RunTraceflowResponse, Status> {
    Ok(v1::RunTraceflowResponse { update: Some(update) })
}

/// The status for a Traceflow that does not begin. References that lead nowhere are NOT_FOUND, if
/// nothing else is wrong.
fn not_begun(error: &TraceflowError) -> Status {
    let code = match error {
        TraceflowError::Antrea(error) => return refused(error),
        TraceflowError::Wrong(problems) => {
            let missing = problems.all().iter().all(|problem| problem.code == vswitch_antrea::Code::Reference);
            return wrong("traceflow", problems, if missing { Code::NotFound } else { Code::InvalidArgument });
        }
        TraceflowError::Exists(_) => Code::AlreadyExists,
        TraceflowError::Exhausted => Code::ResourceExhausted,
    };
    Status::new(code, clip(&lines_shown(&error.to_string()), super::MESSAGE_LEN_MAX))
}

impl AntreaServices {
    /// Tells what is observed, until it is over; then nothing is left of it.
    async fn follow(&self, mut running: Running, messages: &Messages) {
        let traceflow = Arc::clone(&running.traceflow);
        let deadline = Instant::now() + Duration::from_secs(traceflow.seconds.into());
        let mut stopping = self.control.stopping.clone();
        let told = tokio::select! {
            told = self.observe(&mut running, messages) => told,
            () = sleep_until(deadline) => Ok(true),
            () = messages.closed() => return,
            _ = stopping.wait_for(|stopping| *stopping) => {
                Err(Status::unavailable("vswitchd is stopping; call again when it is back"))
            }
        };
        running.end().await;
        let last = told.and_then(|timed_out| message(Update::Finished(v1::TraceflowFinished { timed_out })));
        let _ = messages.send(last).await; // who is gone needs no end
    }

    /// Waits for its packet; false: it was seen to its end.
    async fn observe(&self, running: &mut Running, messages: &Messages) -> Result<bool, Status> {
        let gone = || Status::cancelled("the client is gone");
        let traceflow = Arc::clone(&running.traceflow);
        let started = v1::TraceflowStarted { tag: traceflow.tag.into() };
        messages.send(message(Update::Started(started))).await.map_err(|_| gone())?;
        if let Some(packet) = traceflow.packet_out() {
            messages.send(message(Update::Packet(packet.packet))).await.map_err(|_| gone())?;
            let sent = Arc::clone(&traceflow);
            self.act(move |antrea| Running::send(&sent, antrea)).await?;
        }
        let Some(packet) = running.packets.recv().await else {
            return Err(Status::aborted("the Node was reset"));
        };
        for update in self.told(traceflow, packet).await? {
            messages.send(message(update)).await.map_err(|_| gone())?;
        }
        Ok(false)
    }

    async fn told(&self, traceflow: Arc<Traceflow>, packet: PacketIn) -> Result<Vec<Update>, Status> {
        let tell = move |antrea: &Antrea| Ok(antrea.tell_traceflow(&traceflow, &packet));
        let told = self.read(tell).await?.ok_or_else(|| Status::aborted("the Node was reset"))?;
        let observations = told.observations.into_iter().map(Update::Observation);
        Ok(observations.chain(told.packet.map(Update::Packet)).collect())
    }
}

#[tonic::async_trait]
impl v1::traceflow_service_server::TraceflowService for AntreaServices {
    type RunTraceflowStream = BoxStream<v1::RunTraceflowResponse>;

    async fn run_traceflow(
        &self,
        request: Request<v1::RunTraceflowRequest>,
    ) -> Result<Response<Self::RunTraceflowStream>, Status> {
        let (_, extensions, request) = request.into_parts();
        let Some(asked) = request.traceflow else {
            return Err(invalid(&[FieldError::new("traceflow", "it is not given", "say what is to be traced")]));
        };
        let who = Asked::new("RunTraceflow", &extensions, &[&asked.name]);
        let antrea = Arc::clone(&self.antrea);
        let start = move |_: &Antrea| {
            let begun = antrea.start_traceflow(&asked);
            who.log(begun.as_ref().err().map(ToString::to_string).as_deref());
            Ok(begun)
        };
        let running = self.act(start).await?.map_err(|error| not_begun(&error))?;
        let (messages, receiver) = mpsc::channel(QUEUED);
        let services = self.clone();
        tokio::spawn(async move { services.follow(running, &messages).await });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn list_traceflows(
        &self,
        _: Request<v1::ListTraceflowsRequest>,
    ) -> Result<Response<v1::ListTraceflowsResponse>, Status> {
        let traceflows = self.read(|antrea| antrea.traceflows()).await?;
        Ok(Response::new(v1::ListTraceflowsResponse { traceflows }))
    }
}
