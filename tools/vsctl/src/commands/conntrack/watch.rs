//! What happens to connections, as it happens.

use super::line::{self, Style};
use super::words;
use crate::cli::Connections;
use crate::client::Client;
use crate::commands::events::next;
use crate::error::Error;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use tonic::Streaming;
use vswitch_proto::v1;
use vswitch_proto::v1::watch_connections_response::Update;

/// What is told, and how.
pub(super) struct Telling<'a> {
    /// Which connections.
    pub(super) connections: &'a Connections,
    /// What is told of each.
    pub(super) style: Style,
    /// End after so many events.
    pub(super) count: Option<u64>,
    /// Time for the beginning.
    pub(super) timeout: Duration,
    /// For programs.
    pub(super) as_json: bool,
}

/// Writes one line when the subscription stands and one per event, each at once, until there were
/// `count` or the switch stops.
pub(super) async fn follow(client: &Client, telling: Telling<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let timeout = telling.timeout;
    let beginning = tokio::time::timeout(timeout, begin(client, telling.connections)).await;
    let mut stream = beginning.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))??;
    let mut left = telling.count.unwrap_or(u64::MAX);
    while left > 0 {
        let message = next(client, &mut stream).await?;
        let Some(update) = message.update else { continue };
        if telling.as_json {
            writeln!(out, "{}", json(&update))?;
        } else {
            writeln!(out, "{}", text(&update, telling.style))?;
        }
        out.flush()?;
        left -= u64::from(matches!(update, Update::Event(_)));
    }
    Ok(())
}

async fn begin(client: &Client, connections: &Connections) -> Result<Streaming<v1::WatchConnectionsResponse>, Error> {
    let request = v1::WatchConnectionsRequest { filter: Some(words::filter(&connections.words)?), kinds: Vec::new() };
    client.answer(client.conntrack().await?.watch_connections(request).await)
}

const fn word(kind: v1::ConnectionEventKind) -> &'static str {
    match kind {
        v1::ConnectionEventKind::Unspecified => "unknown",
        v1::ConnectionEventKind::New => "new",
        v1::ConnectionEventKind::Update => "update",
        v1::ConnectionEventKind::End => "end",
    }
}

fn text(update: &Update, style: Style) -> String {
    match update {
        Update::Started(_) => "started".to_owned(),
        Update::Event(event) => {
            let connection = event.connection.as_ref().map(|connection| line::line(connection, style));
            format!("{} {}", word(event.kind()), connection.unwrap_or_default())
        }
        Update::Lost(lost) => format!("lost {lost} events so far"),
    }
}

fn json(update: &Update) -> Value {
    match update {
        Update::Started(_) => json!({ "event": "started" }),
        Update::Event(event) => {
            json!({ "event": word(event.kind()), "connection": event.connection.as_ref().map(line::json) })
        }
        Update::Lost(lost) => json!({ "lost": lost }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::tests::connection;
    use super::*;

    #[test]
    fn events_are_one_line_each() {
        let connection = Some(connection(17, (1000, 53)));
        for (kind, word) in [
            (v1::ConnectionEventKind::New, "new"),
            (v1::ConnectionEventKind::Update, "update"),
            (v1::ConnectionEventKind::End, "end"),
        ] {
            let event = Update::Event(v1::ConnectionEvent { kind: kind.into(), connection: connection.clone() });
            let want = format!(
                "{word} udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1000,dport=53),reply=(src=10.0.0.2,dst=10.0.0.1,sport=53,dport=1000)"
            );
            assert_eq!(text(&event, Style::default()), want);
            let json = json(&event);
            assert_eq!((&json["event"], &json["connection"]["orig"]["sport"]), (&json!(word), &json!(1000)));
            assert!(!json.to_string().contains('\n'));
        }
        let started = Update::Started(v1::WatchStarted {});
        assert_eq!(
            (text(&started, Style::default()).as_str(), json(&started)),
            ("started", json!({ "event": "started" }))
        );
        let lost = Update::Lost(4);
        assert_eq!(
            (text(&lost, Style::default()).as_str(), json(&lost)),
            ("lost 4 events so far", json!({ "lost": 4 }))
        );
    }
}
