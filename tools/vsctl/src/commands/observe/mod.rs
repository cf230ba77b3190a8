//! `observe`: who talks to whom, and why not; `names`: what addresses are called.
//!
//! **Design**: the switch filters (`request`), this shows: as JSON with the names of Hubble's flows
//! (`flow`), or as text (`text`).

mod flow;
mod names;
mod request;
#[cfg(test)]
mod tests;
mod text;
mod words;

pub(super) use names::list;

use crate::cli::{Cli, Observe, ObserveOutput};
use crate::client::Client;
use crate::commands::antrea::now_ms;
use crate::error::{self, Error};
use serde_json::json;
use std::io::Write;
use tonic::{Code, Streaming};
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::watch_observations_response::Update;

/// Writes observations until there are no more, or the switch stops, or it is interrupted.
pub(super) async fn follow(client: &Client, args: &Observe, cli: &Cli, out: &mut dyn Write) -> Result<(), Error> {
    let request = request::of(args, now_ms())?;
    let ends = !request.follow || request.until_unix_ms > 0;
    let beginning = async {
        let stream = client.observations().await?.watch_observations(request.clone()).await;
        client.answer(stream)
    };
    let beginning = tokio::time::timeout(cli.timeout, beginning).await;
    let mut stream = beginning.map_err(|_| client.unreachable(format!("no answer within {:?}", cli.timeout)))??;
    let output = if cli.json { ObserveOutput::Json } else { args.output };
    let mut show = Show { out, output, node: String::new(), shown: 0, lost: v1::ObservationsLost::default() };
    let mut left = args.first.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(update) = next(client, &mut stream, ends).await? else { break };
        left -= u64::from(matches!(update, Update::Observation(_)));
        show.update(&update, args.follow)?;
    }
    Ok(())
}

/// The next message. None: the stream is over, as it was to be.
async fn next(
    client: &Client,
    stream: &mut Streaming<v1::WatchObservationsResponse>,
    ends: bool,
) -> Result<Option<Update>, Error> {
    loop {
        match stream.message().await {
            Ok(Some(message)) => {
                if let Some(update) = message.update {
                    return Ok(Some(update));
                }
            }
            Ok(None) if ends => return Ok(None),
            Ok(None) => return Err(client.unreachable("the switch ended the stream")),
            // A switch that says that it stops is one that cannot be reached.
            Err(status) if status.code() == Code::Unavailable => return Err(client.unreachable(status.message())),
            Err(status) => return Err(client.error(status)),
        }
    }
}

/// Where observations go.
struct Show<'a> {
    out: &'a mut dyn Write,
    output: ObserveOutput,
    /// Name of the Node.
    node: String,
    shown: u64,
    /// What is told already.
    lost: v1::ObservationsLost,
}

impl Show<'_> {
    fn is_json(&self) -> bool {
        matches!(self.output, ObserveOutput::Json | ObserveOutput::Jsonpb)
    }

    fn update(&mut self, update: &Update, follows: bool) -> Result<(), Error> {
        match update {
            Update::Started(started) => {
                self.node.clone_from(&started.node);
                for note in notes(started, follows).iter().filter(|_| !self.is_json()) {
                    error::note(note);
                }
            }
            Update::Observation(observation) => {
                let text = match self.output {
                    ObserveOutput::Compact => text::compact(observation),
                    ObserveOutput::Dict => text::dict(observation, self.shown == 0),
                    ObserveOutput::Tab => text::tab(observation, self.shown == 0),
                    ObserveOutput::Json | ObserveOutput::Jsonpb => {
                        format!("{}\n", flow::response(observation, &self.node))
                    }
                };
                self.shown += 1;
                self.out.write_all(text.as_bytes())?;
                self.out.flush()?;
            }
            Update::Lost(lost) => self.lost(lost)?,
        }
        Ok(())
    }

    /// Tells what was lost since the last time.
    fn lost(&mut self, now: &v1::ObservationsLost) -> Result<(), Error> {
        let before = std::mem::replace(&mut self.lost, *now);
        let news = v1::ObservationsLost {
            behind: now.behind.saturating_sub(before.behind),
            unread: now.unread.saturating_sub(before.unread),
            suppressed: now.suppressed.saturating_sub(before.suppressed),
        };
        if self.is_json() {
            for lost in flow::lost(&news) {
                writeln!(self.out, "{lost}")?;
            }
            return Ok(self.out.flush()?);
        }
        let warnings = [
            (news.behind, "observations: this reads too slowly"),
            (news.unread, "observations: the switch could not read them as fast as they came"),
            (
                news.suppressed,
                "drops are not shown: their reason had its share of the second (vsctl drops counts them)",
            ),
        ];
        let warnings = warnings.iter().filter(|(count, _)| *count > 0);
        let warnings: Vec<_> = warnings.map(|(count, what)| format!("lost {count} {what}")).collect();
        error::warn(&warnings);
        Ok(())
    }
}

/// What a user may wonder about.
fn notes(started: &v1::ObservationsStarted, follows: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if started.ring == 0 && !follows {
        notes.push("the switch keeps no observations ([observe] ring = 0); use --follow".to_owned());
    }
    if !started.has_node {
        notes.push("no agent has declared a Node yet: connections and policies are not observed".to_owned());
    }
    notes
}

/// A JSON object without what is empty.
fn without_empty(pairs: Vec<(&str, serde_json::Value)>) -> serde_json::Value {
    let is_told = |value: &serde_json::Value| match value {
        serde_json::Value::Null => false,
        serde_json::Value::String(text) => !text.is_empty(),
        serde_json::Value::Array(items) => !items.is_empty(),
        serde_json::Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let told = pairs.into_iter().filter(|(_, value)| is_told(value));
    json!(told.map(|(key, value)| (key.to_owned(), value)).collect::<serde_json::Map<_, _>>())
}
