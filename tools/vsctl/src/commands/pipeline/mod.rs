//! Tables, flows, groups, meters and packets.

mod diff;
mod flows;
mod groups;
mod meters;
mod monitor;
mod packets;
mod source;
mod tables;
mod testing;
mod write;

pub(super) use flows::json as flow_json;
pub(super) use testing::ask as ask_dummy;

use crate::cli::{Cli, Lines, Names, OptionalText, Pipeline, Text};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Done, Reply};
use source::Source;
use std::io::{IsTerminal, Write};
use std::time::Duration;
use vswitch_proto::v1::update::Update as Kind;
use vswitch_proto::v1::{self, LineKind};
use write::Change;

/// Does what a verb says. Changes come from files that may take their time: for them, the timeout
/// counts from their end.
pub(super) async fn ask<'a>(
    client: &'a Client,
    command: &'a Pipeline,
    cli: &'a Cli,
    out: &'a mut dyn Write,
) -> Result<Reply<'a>, Error> {
    if let Pipeline::Monitor(args) = command {
        return Ok(Reply::stream(monitor::follow(client, args, cli.timeout, cli.json, out)));
    }
    let answer = match change(command) {
        Some(change) => write::write(client, change, cli.timeout).await,
        None => within(client, cli.timeout, show(client, command, cli.json)).await,
    };
    answer.map(Reply::Report)
}

/// An answer in time, or an error.
async fn within(client: &Client, timeout: Duration, answer: impl Future<Output = Answer>) -> Answer {
    let answer = tokio::time::timeout(timeout, answer).await;
    answer.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))?
}

/// Whether ports and tables are shown by name.
fn by_name(names: &Names) -> bool {
    names.names || (!names.no_names && std::io::stdout().is_terminal())
}

fn one(kind: LineKind, Text { bridge, text, .. }: &Text) -> Change<'_> {
    Change { bridge, first: Vec::new(), kind, source: Source::text(text) }
}

/// Like [`one`]; lines of standard input are those of a file, which may say themselves what they
/// ask for. No text of the command line may: `add-flow br0 delete` is a mistake.
fn one_or_file(kind: LineKind, file: LineKind, text: &Text) -> Change<'_> {
    let change = one(kind, text);
    let kind = if matches!(change.source, Source::Text(_)) { kind } else { file };
    Change { kind, ..change }
}

fn file(kind: LineKind, lines: &Lines) -> Change<'_> {
    Change { bridge: &lines.bridge, first: Vec::new(), kind, source: Source::file(&lines.file) }
}

/// Like [`some`]; an id alone means the one with this id, as for the verbs that show.
fn by_id<'a>(kind: LineKind, key: &str, text: &'a OptionalText) -> Change<'a> {
    let change = some(kind, text);
    let source = match change.source {
        Source::Text(id) if is_id(&id) => Source::Text(format!("{key}={id}")),
        source => source,
    };
    Change { source, ..change }
}

fn is_id(text: &str) -> bool {
    text.eq_ignore_ascii_case("all") || !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Like [`one`]; nothing means everything.
fn some(kind: LineKind, OptionalText { bridge, text, .. }: &OptionalText) -> Change<'_> {
    Change { bridge, first: Vec::new(), kind, source: Source::text(text.as_deref().unwrap_or_default()) }
}

/// The change that a verb asks for, if it asks for one.
fn change(command: &Pipeline) -> Option<Change<'_>> {
    let strict = |strict: bool, loose, exact| if strict { exact } else { loose };
    Some(match command {
        Pipeline::AddFlow(text) => one_or_file(LineKind::AddFlow, LineKind::FlowsFile, text),
        Pipeline::AddFlows(lines) => file(LineKind::FlowsFile, lines),
        Pipeline::ModFlows(flows) => {
            one(strict(flows.strict, LineKind::ModifyFlows, LineKind::ModifyFlowsStrict), &flows.text)
        }
        Pipeline::DelFlows(flows) => {
            some(strict(flows.strict, LineKind::DeleteFlows, LineKind::DeleteFlowsStrict), &flows.text)
        }
        Pipeline::ReplaceFlows { bridge, file, filter, .. } => {
            let line = filter.clone().unwrap_or_default();
            let first = vec![Kind::Line(v1::LineUpdate { kind: LineKind::ReplaceFlows.into(), line })];
            Change { bridge, first, kind: LineKind::AddFlow, source: Source::file(file) }
        }
        Pipeline::AddGroup { text, .. } => one_or_file(LineKind::AddGroup, LineKind::GroupsFile, text),
        Pipeline::AddGroups(lines) => file(LineKind::GroupsFile, lines),
        Pipeline::ModGroup { text, may_create } => {
            one(if *may_create { LineKind::AddOrModifyGroup } else { LineKind::ModifyGroup }, text)
        }
        Pipeline::DelGroups(text) => by_id(LineKind::DeleteGroups, "group_id", text),
        Pipeline::InsertBuckets(text) => one(LineKind::InsertBuckets, text),
        Pipeline::RemoveBuckets(text) => one(LineKind::RemoveBuckets, text),
        Pipeline::AddMeter(text) => one(LineKind::AddMeter, text),
        Pipeline::ModMeter(text) => one(LineKind::ModifyMeter, text),
        Pipeline::DelMeters(text) => by_id(LineKind::DeleteMeters, "meter", text),
        Pipeline::Bundle { lines, replace_all, replace_meters } => {
            let replace = Kind::ReplaceAll(v1::ReplaceAll { meters: *replace_meters });
            let first = if *replace_all || *replace_meters { vec![replace] } else { Vec::new() };
            Change { bridge: &lines.bridge, first, kind: LineKind::Unspecified, source: Source::file(&lines.file) }
        }
        _ => return None,
    })
}

async fn show(client: &Client, command: &Pipeline, as_json: bool) -> Answer {
    match command {
        Pipeline::AddTable { bridge, name, number } => tables::add(client, bridge, name, *number).await,
        Pipeline::DelTable { bridge, name } => tables::delete(client, bridge, name).await,
        Pipeline::DumpTables { bridge } => tables::dump(client, bridge).await,
        Pipeline::DiffFlows { first, second, names } => diff::diff(client, first, second, by_name(names)).await,
        Pipeline::DumpFlows(args) => flows::dump(client, args, as_json).await,
        Pipeline::DumpAggregate { bridge, flows } => flows::aggregate(client, bridge, flows.as_deref()).await,
        Pipeline::DumpGroups { bridge, group, names } => {
            groups::dump(client, bridge, *group, by_name(names), as_json).await
        }
        Pipeline::DumpGroupStats { bridge, group } => groups::stats(client, bridge, *group).await,
        Pipeline::DumpMeters { bridge, meter } => meters::dump(client, bridge, *meter).await,
        Pipeline::MeterStats { bridge, meter } => meters::stats(client, bridge, *meter).await,
        Pipeline::PacketOut { bridge, packet } => packets::send(client, bridge, packet).await,
        Pipeline::DumpControllers { bridge } => packets::controllers(client, bridge).await,
        Pipeline::DumpMegaflows { bridge } => flows::megaflows(client, bridge.as_deref()).await,
        Pipeline::Trace { bridge, flow, packet, in_port, ct_next, names } => {
            let input = packets::input(flow.as_deref(), packet.as_ref(), in_port.as_deref());
            packets::trace(client, bridge, input, ct_next, by_name(names)).await
        }
        // The others are changes, or a stream.
        _ => Ok(Box::new(Done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use clap::Parser;

    /// Kind and text of a verb; `FILE` for one that reads.
    fn changed(line: &str) -> (LineKind, String) {
        let cli = Cli::try_parse_from(std::iter::once("vsctl").chain(line.split(' '))).expect(line);
        let Command::Pipeline(command) = &cli.command else { panic!("{line}") };
        let change = change(command).expect(line);
        let text = match change.source {
            Source::Text(text) => text,
            Source::File(_) => "FILE".to_owned(),
        };
        (change.kind, text)
    }

    #[test]
    fn only_lines_of_files_may_say_what_they_ask_for() {
        for (line, kind, text) in [
            ("add-flow br0 delete", LineKind::AddFlow, "delete"),
            ("add-flow br0 -", LineKind::FlowsFile, "FILE"),
            ("add-flows br0 f", LineKind::FlowsFile, "FILE"),
            ("replace-flows br0 f", LineKind::AddFlow, "FILE"),
            ("add-group br0 delete", LineKind::AddGroup, "delete"),
            ("add-group br0 -", LineKind::GroupsFile, "FILE"),
            ("add-groups br0 f", LineKind::GroupsFile, "FILE"),
            ("bundle br0 f", LineKind::Unspecified, "FILE"),
        ] {
            assert_eq!(changed(line), (kind, text.to_owned()), "{line}");
        }
    }

    #[test]
    fn an_id_is_enough() {
        for (line, text) in [
            ("del-groups br0 1", "group_id=1"),
            ("del-groups br0 all", "group_id=all"),
            ("del-groups br0 group_id=1", "group_id=1"),
            ("del-groups br0", ""),
            ("del-meters br0 7", "meter=7"),
            ("del-meters br0 meter=7", "meter=7"),
        ] {
            assert_eq!(changed(line).1, text, "{line}");
        }
    }
}
