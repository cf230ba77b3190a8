//! Packets as they pass ports: to a file, or through tcpdump.
//!
//! **Where in the walk**: nowhere; a client of `CaptureService`.
//!
//! **Design**: [`pump`] moves messages from the switch to a [`Sink`], a thread that writes. So a
//! file, a pipe or tcpdump that does not take anything holds up neither signals nor the end. When
//! the verb is interrupted, the file is ended as if the capture had: with the last statistics.
//!
//! **Limits**: the switch's.
//!
//! **Threads**: the runtime's, one for the sink, one that waits for tcpdump.

mod file;
mod policies;
mod sink;
mod summary;
mod tcpdump;
#[cfg(test)]
mod tests;

use crate::cli::{Capture, CaptureArgs, CapturePoint, Cli};
use crate::client::Client;
use crate::error::Error;
use policies::Policies;
use sink::Sink;
use std::future::Future;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use summary::{End, Summary};
use tokio::signal::unix::{SignalKind, signal};
use tonic::{Code, Streaming};
use vswitch_proto::v1;
use vswitch_proto::v1::capture_response::Update;

/// Does what a verb says.
pub(super) async fn run(client: &Client, command: &Capture, cli: &Cli, out: &mut dyn Write) -> Result<(), Error> {
    match command {
        Capture::Capture(args) => capture(client, args, cli, out).await,
        Capture::Tcpdump(args) => tcpdump::run(client, args, cli).await,
    }
}

/// What has begun: the stream behind its first message.
struct Begun {
    stream: Streaming<v1::CaptureResponse>,
    started: v1::CaptureStarted,
}

async fn begin(client: &Client, request: v1::CaptureRequest, timeout: Duration) -> Result<Begun, Error> {
    let beginning = async {
        let mut stream = client.answer(client.captures().await?.capture(request).await)?;
        match stream.message().await.map_err(|status| client.error(status))? {
            Some(v1::CaptureResponse { update: Some(Update::Started(started)) }) => Ok(Begun { stream, started }),
            _ => Err(client.unreachable("the switch ended the stream")),
        }
    };
    let begun = tokio::time::timeout(timeout, beginning).await;
    begun.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))?
}

fn points(points: &[CapturePoint]) -> Vec<i32> {
    let point = |point: &CapturePoint| match point {
        CapturePoint::Rx => v1::CapturePoint::Rx.into(),
        CapturePoint::Tx => v1::CapturePoint::Tx.into(),
        CapturePoint::Drop => v1::CapturePoint::Drop.into(),
    };
    points.iter().map(point).collect()
}

async fn capture(client: &Client, args: &CaptureArgs, cli: &Cli, out: &mut dyn Write) -> Result<(), Error> {
    let request = v1::CaptureRequest {
        bridge: args.bridge.clone(),
        ports: args.ports.clone(),
        points: points(&args.filter.points),
        r#match: args.filter.matching.clone(),
        snaplen: args.filter.snaplen.unwrap_or(0),
        count: args.count.unwrap_or(0),
        seconds: args.seconds.unwrap_or(0),
    };
    let mut interrupted = std::pin::pin!(interrupted()?);
    let Begun { mut stream, started } = begin(client, request, cli.timeout).await?;
    let to_stdout = args.file == Path::new("-");
    // After the switch has agreed: what is refused overwrites nothing.
    let file = if to_stdout { sink::stdout()? } else { sink::create(&args.file).map_err(|error| at(args, error))? };
    let mut sink = Sink::start(Box::new(file), &args.bridge, &started);
    let mut summary = Summary::new(started);
    let end = pump(client, &mut stream, &mut sink, &mut summary, interrupted.as_mut()).await;
    drop(stream); // the switch ends the capture now
    sink.finish(&summary).await.map_err(|error| if to_stdout { error.into() } else { at(args, error) })?;
    let text = if cli.json { format!("{:#}\n", summary.json()) } else { summary.text() };
    if to_stdout {
        io::stderr().lock().write_all(text.as_bytes())?;
    } else {
        out.write_all(text.as_bytes())?;
    }
    end
}

/// An error with the name of the file.
fn at(args: &CaptureArgs, error: io::Error) -> Error {
    Error::Input { name: args.file.display().to_string(), error }
}

/// Ready when the user wants an end.
fn interrupted() -> io::Result<impl Future<Output = ()>> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Moves packets until the capture ends, the sink takes no more, or `stop` is ready.
///
/// # Errors
/// The switch has gone, or has ended the capture with an error.
async fn pump(
    client: &Client,
    stream: &mut Streaming<v1::CaptureResponse>,
    sink: &mut Sink,
    summary: &mut Summary,
    mut stop: impl Future<Output = ()> + Unpin,
) -> Result<(), Error> {
    let mut policies = Policies::new(client);
    loop {
        let message = tokio::select! {
            message = stream.message() => message,
            () = &mut stop => {
                summary.end = End::Interrupted;
                return Ok(());
            }
        };
        match message {
            Ok(Some(v1::CaptureResponse { update: Some(Update::Records(records)) })) => {
                let records = summary.count(records);
                let writing = async {
                    let comments = policies.comments(&records).await;
                    sink.write(records, comments).await
                };
                let is_written = tokio::select! {
                    is_written = writing => is_written,
                    () = &mut stop => {
                        summary.end = End::Interrupted;
                        return Ok(());
                    }
                };
                if !is_written {
                    return Ok(());
                }
            }
            Ok(Some(v1::CaptureResponse { update: Some(Update::Progress(progress)) })) => {
                summary.note(progress.statistics);
            }
            Ok(Some(v1::CaptureResponse { update: Some(Update::Ended(ended)) })) => {
                summary.end = End::of(ended.reason());
                summary.note(ended.statistics);
                return Ok(());
            }
            Ok(Some(_)) => {} // of a newer switch
            Ok(None) => return Err(client.unreachable("the switch ended the stream")),
            Err(status) if status.code() == Code::Unavailable => return Err(client.unreachable(status.message())),
            Err(status) => return Err(client.error(status)),
        }
    }
}
