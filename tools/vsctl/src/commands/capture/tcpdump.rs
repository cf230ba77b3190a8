//! tcpdump, behind a pipe.

use super::sink::Sink;
use super::summary::Summary;
use super::{Begun, begin, interrupted, points, pump};
use crate::cli::{Cli, TcpdumpArgs};
use crate::client::Client;
use crate::error::Error;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use vswitch_proto::v1;

/// The limits of the switch: tcpdump and its user say when it is enough.
const COUNT: u64 = 100_000_000;
const SECONDS: u32 = 3600;

const PROGRAM: &str = "tcpdump";

/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(50);

/// At the end it has so long to print what is left.
const PATIENCE: Duration = Duration::from_secs(5);

/// Captures at a port, and lets tcpdump print it, until one of them ends or the user interrupts.
pub(super) async fn run(client: &Client, args: &TcpdumpArgs, cli: &Cli) -> Result<(), Error> {
    let request = v1::CaptureRequest {
        bridge: args.bridge.clone(),
        ports: vec![args.port.clone()],
        points: points(&args.filter.points),
        r#match: args.filter.matching.clone(),
        snaplen: args.filter.snaplen.unwrap_or(0),
        count: COUNT,
        seconds: SECONDS,
    };
    let mut interrupted = Box::pin(interrupted()?);
    let Begun { mut stream, started } = begin(client, request, cli.timeout).await?;
    let mut child = start(args)?;
    let Some(pipe) = child.stdin.take() else { return Err(io::Error::other("tcpdump has no stdin").into()) };
    let mut sink = Sink::start(Box::new(pipe), &args.bridge, &started);
    let mut summary = Summary::new(started);
    let stop = async {
        tokio::select! {
            () = &mut interrupted => {}
            _ = ended(&mut child) => {} // asked again below
        }
    };
    let end = pump(client, &mut stream, &mut sink, &mut summary, Box::pin(stop)).await;
    drop(stream); // the switch ends the capture now
    let written = sink.finish(&summary).await;
    // It prints what it has, and ends with its input.
    let Ok(status) = tokio::time::timeout(PATIENCE, ended(&mut child)).await else {
        child.kill()?;
        child.wait()?;
        return Err(io::Error::other("tcpdump did not end, and was killed").into());
    };
    let status = status?;
    if !status.success() {
        return Err(Error::Program { program: PROGRAM, status });
    }
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {} // tcpdump may go when it likes
    }
    let _ = io::stderr().lock().write_all(summary.text().as_bytes()); // as tcpdump itself does
    end
}

/// Ready when a child has ended.
async fn ended(child: &mut Child) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// tcpdump on a pipe. It writes each line at once. A Ctrl-C in the terminal reaches this program
/// only: tcpdump would fail in the middle of a packet.
fn start(args: &TcpdumpArgs) -> Result<Child, Error> {
    let mut command = Command::new(PROGRAM);
    command.args(["-l", "-r", "-"]).args(&args.arguments).stdin(Stdio::piped()).process_group(0);
    command.spawn().map_err(|error| {
        let missing = error.kind() == io::ErrorKind::NotFound;
        let error = if missing { io::Error::other("not installed: apt-get install tcpdump") } else { error };
        Error::Input { name: PROGRAM.to_owned(), error }
    })
}
