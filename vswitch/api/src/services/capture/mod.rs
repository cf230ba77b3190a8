//! `CaptureService`.
//!
//! **Where in the walk**: nowhere; workers copy, and this reads the copies.
//!
//! **Design**: `request` judges what is asked for, `reader` turns copies into messages. One task
//! per capture looks for copies every [`PERIOD`], since a worker makes no system call to say that
//! there are some. A caller that does not read makes the task wait, the task gives no buffers
//! back, and the workers count what they could not copy. The task ends the capture itself, whatever
//! becomes of the call: a capture without a reader would cost its ports for nothing.
//!
//! **Limits**: those of the request, and [`vswitch_dataplane::capture`]'s.
//!
//! **Threads**: the tokio runtime; begin and end run on its blocking threads.

mod reader;
mod request;
#[cfg(test)]
mod tests;

use super::api::{Asked, Control};
use reader::{Reader, now};
use request::{Limits, limits, spec};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_control::switch::capture::Capture;
use vswitch_proto::v1;
use vswitch_proto::v1::capture_response::Update;

/// Between two looks for copies: short beside the time in which a fast port fills the buffers.
const PERIOD: Duration = Duration::from_millis(1);

/// Between two messages that say how far the capture is.
const PROGRESS: Duration = Duration::from_secs(1);

/// Messages between the task of a capture and its connection. A message has the packets of one
/// buffer per worker.
const MESSAGES_QUEUED: usize = 2;

/// See `proto/vswitch/v1/capture.proto`.
pub(crate) struct Captures(pub(crate) Control);

type Message = Result<v1::CaptureResponse, Status>;

/// Why copies are not read any more.
enum End {
    /// A limit, or the ports.
    Reached(v1::CaptureEnd),
    /// The caller has gone.
    Gone,
    /// The switch stops.
    Stopping,
}

const fn message(update: Update) -> v1::CaptureResponse {
    v1::CaptureResponse { update: Some(update) }
}

#[tonic::async_trait]
impl v1::capture_service_server::CaptureService for Captures {
    type CaptureStream = BoxStream<v1::CaptureResponse>;

    async fn capture(&self, request: Request<v1::CaptureRequest>) -> Result<Response<Self::CaptureStream>, Status> {
        let (_, extensions, request) = request.into_parts();
        let asked = Asked::new("Capture", &extensions, &[&request.bridge, &request.ports.join(" ")]);
        let (limits, spec) = (limits(&request)?, spec(&request)?);
        let snaplen = u32::try_from(spec.snaplen).unwrap_or(u32::MAX);
        let (messages, receiver) = mpsc::channel(MESSAGES_QUEUED);
        // A task of its own: a client that gives the call up leaves no capture behind.
        let control = self.0.clone();
        let (begun, beginning) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let capture = match control.use_logged(asked, move |switch| switch.start_capture(&spec)).await {
                Ok(capture) => capture,
                Err(status) => return drop(begun.send(Err(status))),
            };
            let _ = begun.send(Ok(())); // gone already, which `messages` says as well
            run(&control, &capture, &limits, snaplen, &messages).await;
        });
        beginning.await.map_err(|_| Status::internal("the capture did not begin; report it"))??;
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// A capture from its first message to its last.
async fn run(control: &Control, capture: &Capture, limits: &Limits, snaplen: u32, messages: &mpsc::Sender<Message>) {
    let mut reader = Reader::new(capture, limits.count);
    let started = v1::CaptureStarted { interfaces: reader::interfaces(capture), snaplen };
    let _ = messages.send(Ok(message(Update::Started(started)))).await; // the loop notices that he is gone
    let end = tokio::select! {
        end = read(capture, &mut reader, limits, messages) => end,
        () = messages.closed() => End::Gone,
        () = stopping(control) => End::Stopping,
    };
    let id = capture.id;
    let stopped = control.write(move |switch| switch.stop_capture(id)).await;
    match end {
        End::Gone => {}
        End::Stopping => {
            let status = Status::unavailable("vswitchd is stopping; call again when it is back");
            let _ = messages.try_send(Err(status)); // without room the caller is slow: its stream just ends
        }
        End::Reached(reason) => {
            if let Err(status) | Ok(Err(status)) =
                stopped.map(|done| done.map_err(|error| super::status::status(&error)))
            {
                tracing::warn!(status = status.message(), "a worker has not let go of a capture");
            }
            // What was copied until the end.
            let last = async {
                while let Some(records) = reader.next(capture, now()) {
                    send(messages, records).await;
                }
                let statistics = reader.statistics(capture);
                let ended = v1::CaptureEnded { reason: reason.into(), statistics };
                let _ = messages.send(Ok(message(Update::Ended(ended)))).await; // nothing follows
            };
            tokio::select! {
                () = last => {}
                () = messages.closed() => {}
                () = stopping(control) => {}
            }
        }
    }
}

async fn stopping(control: &Control) {
    // An error means that the server is gone, which is as good as stopping.
    let _ = control.stopping.clone().wait_for(|stopping| *stopping).await;
}

/// Sends records, if there are any.
async fn send(messages: &mpsc::Sender<Message>, records: Vec<v1::CaptureRecord>) {
    if !records.is_empty() {
        let _ = messages.send(Ok(message(Update::Records(v1::CaptureRecords { records })))).await; // see `closed`
    }
}

/// Reads until a limit is reached, or no port is left.
async fn read(capture: &Capture, reader: &mut Reader, limits: &Limits, messages: &mpsc::Sender<Message>) -> End {
    let until = Instant::now() + limits.time;
    let (mut told, mut telling) = (Vec::new(), Instant::now() + PROGRESS);
    loop {
        // Asked before the last look: so what was copied before the end is read.
        let (late, alone) = (Instant::now() >= until, capture.session.is_over());
        while let Some(records) = reader.next(capture, now()) {
            send(messages, records).await;
            if reader.is_full() || Instant::now() >= until {
                break; // workers may copy as fast as this reads
            }
        }
        if reader.is_full() {
            return End::Reached(v1::CaptureEnd::Count);
        }
        if alone {
            return End::Reached(v1::CaptureEnd::Ports);
        }
        if late {
            return End::Reached(v1::CaptureEnd::Seconds);
        }
        if Instant::now() >= telling {
            telling = Instant::now() + PROGRESS;
            let statistics = reader.statistics(capture);
            if statistics != told {
                told.clone_from(&statistics);
                let progress = v1::CaptureProgress { statistics };
                let _ = messages.send(Ok(message(Update::Progress(progress)))).await; // see `closed`
            }
        }
        tokio::time::sleep_until((Instant::now() + PERIOD).min(until)).await;
    }
}
