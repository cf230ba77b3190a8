//! Connections.

mod line;
mod numbers;
mod options;
mod watch;
mod words;

pub(super) use line::{labelled as tuple, labelled_json as tuple_json, protocol, tcp_state};

use crate::cli::{Cli, Connections, Conntrack, Shown};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Reply, Report};
use line::Style;
use serde_json::{Value, json};
use std::io::Write;
use tonic::Status;
use vswitch_proto::v1;

fn style(shown: &Shown, cli: &Cli) -> Style {
    Style { statistics: shown.statistics, more: cli.more > 0 }
}

/// Does what a verb says.
pub(super) async fn ask<'a>(
    client: &'a Client,
    command: &'a Conntrack,
    cli: &'a Cli,
    out: &'a mut dyn Write,
) -> Result<Reply<'a>, Error> {
    let answer: Answer = match command {
        Conntrack::MonitorConntrack { connections, shown, count } => {
            let (timeout, as_json) = (cli.timeout, cli.json);
            let telling = watch::Telling { connections, style: style(shown, cli), count: *count, timeout, as_json };
            return Ok(Reply::stream(watch::follow(client, telling, out)));
        }
        Conntrack::DumpConntrack { connections, shown } => dump(client, connections, style(shown, cli), cli.json).await,
        Conntrack::FlushConntrack(connections) => flush(client, connections).await,
        Conntrack::CtStatsShow { words } => numbers::by_protocol(client, words, cli.more > 0).await,
        Conntrack::CtSetLimits { words } => numbers::set_limits(client, words).await,
        Conntrack::CtGetLimits { words } => numbers::limits(client, words).await,
        Conntrack::CtDelLimits { words } => numbers::delete_limits(client, words).await,
        Conntrack::CtGetNconns => numbers::connections(client).await,
        Conntrack::CtGetMaxconns => numbers::connections_max(client).await,
        Conntrack::CtSetMaxconns { connections } => numbers::set_connections_max(client, *connections).await,
        Conntrack::CtCountersShow => numbers::counters(client).await,
        Conntrack::CtEnableTcpSeqChk => check_sequences(client, true).await,
        Conntrack::CtDisableTcpSeqChk => check_sequences(client, false).await,
        Conntrack::CtGetTcpSeqChk => {
            let request = v1::GetTcpSeqCheckRequest {};
            let answer = client.answer(client.conntrack().await?.get_tcp_seq_check(request).await)?;
            let word = if answer.enabled { "enabled" } else { "disabled" };
            let text = format!("TCP sequence checking: {word}\n");
            Ok(Box::new(Said { text, json: json!({ "enabled": answer.enabled }) }))
        }
        Conntrack::CtSetTimeouts { words } => numbers::set_timeouts(client, words).await,
        Conntrack::CtGetTimeouts { words } => numbers::timeouts(client, words).await,
        Conntrack::CtDelTimeouts { words } => numbers::delete_timeouts(client, words).await,
        Conntrack::CtSetZoneOptions { words } => options::set(client, words).await,
        Conntrack::CtGetZoneOptions { words } => options::show(client, words).await,
    };
    answer.map(Reply::Report)
}

/// An answer of a few words.
struct Said {
    text: String,
    json: Value,
}

impl Report for Said {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn json(&self) -> Value {
        self.json.clone()
    }
}

/// Connections in the order of the answer, as they are to be written: a million of them do not fit
/// as values.
struct Dump {
    text: String,
    is_json: bool,
}

impl Report for Dump {
    fn text(&self) -> String {
        self.text.clone()
    }

    fn json(&self) -> Value {
        Value::Null // `write` has written it
    }

    fn write(&self, as_json: bool, out: &mut dyn Write) -> Option<std::io::Result<()>> {
        let Self { text, is_json } = self;
        debug_assert_eq!(as_json, *is_json);
        let (begin, end) = if *is_json { ("[\n", "]\n") } else { ("", "") };
        let mut write = || [begin, text, end].iter().try_for_each(|part| out.write_all(part.as_bytes()));
        Some(write())
    }
}

async fn dump(client: &Client, connections: &Connections, style: Style, is_json: bool) -> Answer {
    let filter = Some(words::filter(&connections.words)?);
    let request = v1::ListConnectionsRequest { filter };
    let mut parts = client.answer(client.conntrack().await?.list_connections(request).await)?;
    let mut dump = Dump { text: String::new(), is_json };
    while let Some(part) = parts.message().await.map_err(|status| client.error(status))? {
        part.connections.iter().for_each(|connection| dump.push(connection, style));
    }
    Ok(Box::new(dump))
}

impl Dump {
    fn push(&mut self, connection: &v1::Connection, style: Style) {
        let Self { text, is_json } = self;
        if *is_json {
            let separator = if text.is_empty() { "" } else { "," };
            if text.ends_with('\n') {
                text.pop();
                text.push_str(separator);
                text.push('\n');
            }
            text.push_str(&line::json(connection).to_string());
        } else {
            text.push_str(&line::line(connection, style));
        }
        text.push('\n');
    }
}

async fn flush(client: &Client, connections: &Connections) -> Answer {
    let mut filter = words::filter(&connections.words)?;
    let is_whole = words::is_whole(&filter);
    if is_whole {
        // As Open vSwitch: a whole tuple is of one zone.
        filter.zone.get_or_insert(0);
    }
    let zone = filter.zone.unwrap_or_default();
    let request = v1::FlushConnectionsRequest { filter: Some(filter) };
    let flushed = client.answer(client.conntrack().await?.flush_connections(request).await)?.flushed;
    if is_whole && flushed == 0 {
        return Err(nothing_flushed(zone));
    }
    Ok(Box::new(Said { text: String::new(), json: json!({ "flushed": flushed }) }))
}

fn nothing_flushed(zone: u32) -> Error {
    let told =
        format!("no connection of zone {zone} has this tuple in its original direction; dump-conntrack shows them");
    Error::Refused(Box::new(Status::not_found(told)))
}

async fn check_sequences(client: &Client, enabled: bool) -> Answer {
    let request = v1::SetTcpSeqCheckRequest { enabled };
    client.answer(client.conntrack().await?.set_tcp_seq_check(request).await)?;
    let word = if enabled { "enabling" } else { "disabling" };
    let text = format!("{word} TCP sequence checking successful\n");
    Ok(Box::new(Said { text, json: json!({ "ok": true }) }))
}

#[cfg(test)]
mod tests {
    use super::line::tests::connection;
    use super::*;
    use crate::output::print;

    fn printed(count: u32, is_json: bool) -> String {
        let mut dump = Dump { text: String::new(), is_json };
        for port in 0..count {
            dump.push(&connection(17, (port, 53)), Style::default());
        }
        let mut out = Vec::new();
        print(&dump, is_json, &mut out).expect("written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn dumps_both_ways() {
        assert_eq!(printed(0, false), "");
        let text = printed(2, false);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[1].starts_with("udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1,dport=53),"), "{lines:?}");
        for count in 0..3 {
            let text = printed(count, true);
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            let ports: Vec<_> = value.as_array().expect("an array").iter().map(|one| &one["orig"]["sport"]).collect();
            let want: Vec<_> = (0..count).map(Value::from).collect();
            assert_eq!(ports, want.iter().collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn a_tuple_that_is_not_there_is_an_error() {
        let told = nothing_flushed(3).to_string();
        assert_eq!(told, "no connection of zone 3 has this tuple in its original direction; dump-conntrack shows them");
    }
}
