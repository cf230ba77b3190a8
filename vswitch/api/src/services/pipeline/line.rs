//! Updates as lines.

use vswitch_flow::spec::Update;
use vswitch_flow::text::{FlowCommand, Names, Parsed, TextError, parse_bundle_line, parse_filter, parse_flow};
use vswitch_messages::wrong;
use vswitch_proto::v1::{self, LineKind};

/// Words with which a line for flows may say what it asks for (ovs-ofctl(8), `add-flows`).
const FLOW_WORDS: [&str; 5] = ["add", "modify", "modify_strict", "delete", "delete_strict"];

/// Words with which a line for groups may say what it asks for (ovs-ofctl(8), `add-groups`).
const GROUP_WORDS: [&str; 6] = ["add", "modify", "add_or_mod", "delete", "insert_bucket", "remove_bucket"];

/// A line as an update.
pub(super) fn update(message: &v1::LineUpdate, names: &dyn Names) -> Result<Parsed<Update>, TextError> {
    let line = message.line.as_str();
    let Ok(kind) = LineKind::try_from(message.kind) else {
        return Err(wrong("kind", format!("{} is no kind of line", message.kind), "use a number that the API has"));
    };
    let flow = |command| parse_flow(line, command, names);
    let group = |word| after("group", word, line, names);
    let meter = |word| after("meter", word, line, names);
    let all = |update| Ok(Parsed { value: update, warnings: Vec::new() });
    let empty = line.trim().is_empty();
    match kind {
        LineKind::Unspecified => parse_bundle_line(line, names),
        LineKind::FlowsFile if begins_with(&FLOW_WORDS, line) => parse_bundle_line(line, names),
        LineKind::AddFlow | LineKind::FlowsFile => flow(FlowCommand::Add),
        LineKind::ModifyFlows => flow(FlowCommand::Modify),
        LineKind::ModifyFlowsStrict => flow(FlowCommand::ModifyStrict),
        LineKind::DeleteFlows => flow(FlowCommand::Delete),
        LineKind::DeleteFlowsStrict => flow(FlowCommand::DeleteStrict),
        LineKind::ReplaceFlows => parse_filter(line, false, names)
            .map(|Parsed { value, warnings }| Parsed { value: Update::ReplaceFlows(value), warnings }),
        LineKind::GroupsFile if begins_with(&GROUP_WORDS, line) => group(""),
        LineKind::AddGroup | LineKind::GroupsFile => group("add"),
        LineKind::ModifyGroup => group("modify"),
        LineKind::AddOrModifyGroup => group("add_or_mod"),
        LineKind::DeleteGroups if empty => all(Update::DeleteGroups(None)),
        LineKind::DeleteGroups => group("delete"),
        LineKind::InsertBuckets => group("insert_bucket"),
        LineKind::RemoveBuckets => group("remove_bucket"),
        LineKind::AddMeter => meter("add"),
        LineKind::ModifyMeter => meter("modify"),
        LineKind::DeleteMeters if empty => all(Update::DeleteMeters(None)),
        LineKind::DeleteMeters => meter("delete"),
    }
}

/// Parses a line as if it stood in a bundle file behind `noun` and `word`.
fn after(noun: &str, word: &str, line: &str, names: &dyn Names) -> Result<Parsed<Update>, TextError> {
    let prefix = format!("{noun} {word} ");
    parse_bundle_line(&format!("{prefix}{line}"), names)
        .map_err(|error| TextError { column: error.column.saturating_sub(prefix.len()).max(1), ..error })
}

fn begins_with(words: &[&str], line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|first| words.contains(&first))
}
