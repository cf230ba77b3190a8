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

pub(super) use monitor::follow;
pub(super) use testing::ask as ask_dummy;

use super::Answer;
use crate::cli::{Cli, Names, OptionalText, Pipeline, Text};
use crate::client::Client;
use source::Source;
use std::io::IsTerminal;
use std::time::Duration;
use vswitch_proto::v1::update::Update as Kind;
use vswitch_proto::v1::{self, LineKind};
use write::Change;

/// Does what a verb says. Changes come from files that may take their time: for them, the timeout counts from their end.
pub(super) async fn ask(client: &Client, command: &Pipeline, cli: &Cli) -> Answer {
    match change(command) {
        Some(change) => write::write(client, change, cli.timeout).await,
        None => within(client, cli.timeout, show(client, command, cli.json)).await,
    }
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

/// Like [`one`]; nothing means everything.
fn some(kind: LineKind, OptionalText { bridge, text, .. }: &OptionalText) -> Change<'_> {
    Change { bridge, first: Vec::new(), kind, source: Source::text(text.as_deref().unwrap_or_default()) }
}

/// The change that a verb asks for, if it asks for one.
fn change(command: &Pipeline) -> Option<Change<'_>> {
    let strict = |strict: bool, loose, exact| if strict { exact } else { loose };
    Some(match command {
        Pipeline::AddFlow(text) => one(LineKind::AddFlow, text),
        Pipeline::AddFlows(lines) => {
            let source = Source::file(&lines.file);
            Change { bridge: &lines.bridge, first: Vec::new(), kind: LineKind::AddFlow, source }
        }
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
        Pipeline::AddGroup { text, .. } => one(LineKind::AddGroup, text),
        Pipeline::AddGroups(lines) => {
            let source = Source::file(&lines.file);
            Change { bridge: &lines.bridge, first: Vec::new(), kind: LineKind::AddGroup, source }
        }
        Pipeline::ModGroup { text, may_create } => {
            one(if *may_create { LineKind::AddOrModifyGroup } else { LineKind::ModifyGroup }, text)
        }
        Pipeline::DelGroups(text) => some(LineKind::DeleteGroups, text),
        Pipeline::InsertBuckets(text) => one(LineKind::InsertBuckets, text),
        Pipeline::RemoveBuckets(text) => one(LineKind::RemoveBuckets, text),
        Pipeline::AddMeter(text) => one(LineKind::AddMeter, text),
        Pipeline::ModMeter(text) => one(LineKind::ModifyMeter, text),
        Pipeline::DelMeters(text) => some(LineKind::DeleteMeters, text),
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
        Pipeline::DumpMegaflows { bridge } => flows::megaflows(client, bridge.as_deref()).await,
        Pipeline::Trace { bridge, flow, packet, in_port } => {
            packets::trace(client, bridge, flow.as_deref(), packet.as_ref(), in_port).await
        }
        // The others are changes, or have been taken by `run`.
        _ => Ok(Box::new(crate::output::Done)),
    }
}
