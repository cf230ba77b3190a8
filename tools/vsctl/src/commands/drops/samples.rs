//! `drops samples`: packets that are dropped, as it happens.

use super::capture::Capture;
use super::words;
use crate::cli::Samples;
use crate::client::Client;
use crate::commands::events::next;
use crate::error::Error;
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use vswitch_proto::v1;
use vswitch_proto::v1::watch_drops_response::Update;

/// Writes samples until there were as many as asked for, or the switch stops, or it is interrupted.
pub(super) async fn follow(
    client: &Client,
    samples: &Samples,
    timeout: Duration,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let request =
        v1::WatchDropsRequest { filter: Some(super::filter(&samples.filter)), samples_per_second: samples.rate };
    let beginning = async { client.answer(client.drops().await?.watch_drops(request).await) };
    let beginning = tokio::time::timeout(timeout, beginning).await;
    let mut stream = beginning.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))??;
    // The file is made when there is a switch, and cut only then.
    let mut sink = match samples.write.as_deref() {
        None => Sink::Lines { out, as_json },
        Some(path) if path == Path::new("-") => Sink::Capture(Capture::new(Box::new(out))?),
        Some(path) => {
            let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
            Sink::Capture(Capture::new(Box::new(file))?)
        }
    };
    let mut left = samples.count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(update) = next(client, &mut stream).await?.update else { continue };
        left -= u64::from(matches!(update, Update::Sample(_)));
        match &mut sink {
            Sink::Lines { out, as_json } => tell(&update, *as_json, out)?,
            Sink::Capture(capture) => capture.add(&update)?,
        }
    }
    match sink {
        Sink::Lines { .. } => Ok(()),
        Sink::Capture(capture) => Ok(capture.end()?),
    }
}

/// Where samples go.
enum Sink<'a> {
    /// A line each.
    Lines { out: &'a mut dyn Write, as_json: bool },
    /// A file, or a pipe.
    Capture(Capture<'a>),
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::from(std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn tell(update: &Update, as_json: bool, out: &mut dyn Write) -> Result<(), Error> {
    let line = match (update, as_json) {
        (Update::Sample(sample), true) => words::sample_json(sample).to_string(),
        (Update::Sample(sample), false) => words::line(sample),
        (Update::NotTold(not_told), true) => words::not_told_json(not_told).to_string(),
        (Update::NotTold(not_told), false) => words::not_told(not_told),
        (Update::Lost(lost), true) => json!({ "lost": lost }).to_string(),
        (Update::Lost(lost), false) => format!("lost {lost} samples: this reads too slowly"),
    };
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
