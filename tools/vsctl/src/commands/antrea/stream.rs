//! Streams of what happens: one line each, at once.

use super::explained;
use crate::cli::Cli;
use crate::client::Client;
use crate::commands::events::next;
use crate::error::Error;
use serde_json::Value;
use std::future::Future;
use std::io::Write;
use tonic::Streaming;

/// A line of a stream.
pub(super) struct Line {
    /// For people.
    pub(super) text: String,
    /// For programs.
    pub(super) json: Value,
    /// It counts for `--count`.
    pub(super) counts: bool,
}

/// Writes lines until there were as many as asked for, or the switch stops.
pub(super) async fn follow<M>(
    client: &Client,
    begin: impl Future<Output = Result<Streaming<M>, Error>>,
    lines: impl Fn(M) -> Vec<Line>,
    count: Option<u64>,
    cli: &Cli,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let timeout = cli.timeout;
    let beginning = tokio::time::timeout(timeout, begin).await;
    let beginning = beginning.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))?;
    let mut stream = beginning.map_err(explained)?;
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        let message = next(client, &mut stream).await?;
        for line in lines(message) {
            if left == 0 {
                break;
            }
            if cli.json {
                writeln!(out, "{}", line.json)?;
            } else {
                writeln!(out, "{}", line.text)?;
            }
            left -= u64::from(line.counts);
        }
        out.flush()?;
    }
    Ok(())
}
