//! What happens to ports, as it happens.

use super::{port, statistics};
use crate::client::Client;
use crate::error::Error;
use crate::output::port_number;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use tonic::{Code, Streaming};
use vswitch_proto::v1;
use vswitch_proto::v1::watch_ports_response::Update;

/// Writes one line per event, each at once, until there were `count` or the switch stops.
pub(super) async fn follow(
    client: &Client,
    existing: bool,
    count: Option<u64>,
    timeout: Duration,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let beginning = tokio::time::timeout(timeout, begin(client, existing)).await;
    let mut stream = beginning.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))??;
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(update) = next(client, &mut stream).await?.update else { continue };
        if as_json {
            writeln!(out, "{}", json(&update))?;
        } else {
            writeln!(out, "{}", text(&update))?;
        }
        out.flush()?;
        left -= 1;
    }
    Ok(())
}

async fn begin(client: &Client, include_existing: bool) -> Result<Streaming<v1::WatchPortsResponse>, Error> {
    client.answer(client.ports().await?.watch_ports(v1::WatchPortsRequest { include_existing }).await)
}

/// The next message of a stream that the switch has no reason to end.
pub(super) async fn next<T>(client: &Client, stream: &mut Streaming<T>) -> Result<T, Error> {
    match stream.message().await {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err(client.unreachable("the switch ended the stream")),
        // A switch that says that it stops is one that cannot be reached.
        Err(status) if status.code() == Code::Unavailable => Err(client.unreachable(status.message())),
        Err(status) => Err(client.error(status)),
    }
}

fn word(kind: v1::PortEventKind) -> &'static str {
    match kind {
        v1::PortEventKind::Unspecified => "unknown",
        v1::PortEventKind::Added => "added",
        v1::PortEventKind::Removed => "removed",
        v1::PortEventKind::LinkUp => "link-up",
        v1::PortEventKind::LinkDown => "link-down",
        v1::PortEventKind::Modified => "modified",
    }
}

fn text(update: &Update) -> String {
    match update {
        Update::Event(event) => {
            let port = event.port.clone().unwrap_or_default();
            let config = port.config.unwrap_or_default();
            let state = |up| if up { "up" } else { "down" };
            format!(
                "{} {} bridge={} port={} number={} type={} admin={} link={}",
                event.sequence,
                word(event.kind()),
                port.bridge,
                config.name,
                port_number(port.number),
                port.r#type,
                state(config.admin_up.unwrap_or(true)),
                state(port.link_up)
            )
        }
        Update::Lost(lost) => format!("lost {lost} events; list the ports again"),
    }
}

fn json(update: &Update) -> Value {
    match update {
        Update::Event(event) => json!({
            "sequence": event.sequence,
            "event": word(event.kind()),
            "port": port::json(&event.port.clone().unwrap_or_default()),
            "statistics": statistics::counters(&event.statistics.clone().unwrap_or_default()),
        }),
        Update::Lost(lost) => json!({ "lost": lost }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn events_are_one_line_each() {
        let kind = v1::PortEventKind::LinkDown.into();
        let port = v1::Port { link_up: false, ..testing::guest() };
        let event = Update::Event(v1::PortEvent { sequence: 12, kind, port: Some(port), statistics: None });
        assert_eq!(text(&event), "12 link-down bridge=br0 port=vm0 number=1 type=vhost-user admin=up link=down");
        let json = json(&event);
        assert_eq!((&json["sequence"], &json["event"]), (&json!(12), &json!("link-down")));
        assert_eq!((&json["port"]["name"], &json["port"]["link_up"]), (&json!("vm0"), &json!(false)));
        assert!(!json.to_string().contains('\n'));
        let local =
            Update::Event(v1::PortEvent { sequence: 0, kind: 1, port: Some(testing::local()), statistics: None });
        assert_eq!(text(&local), "0 added bridge=br0 port=br0 number=LOCAL type=internal admin=up link=up");
    }

    #[test]
    fn losses_are_told() {
        assert_eq!(text(&Update::Lost(5)), "lost 5 events; list the ports again");
        assert_eq!(json(&Update::Lost(5)), json!({ "lost": 5 }));
    }
}
