//! Lines of bundle files.

use super::flow::FlowCommand;
use super::group::GroupCommand;
use super::{Line, flow, group, meter};
use crate::spec::Update;
use crate::text::scan::quoted;
use crate::text::{Names, Parsed, TextError, nearest};

/// What lines of a bundle file are about.
const NOUNS: [&str; 4] = ["flow", "group", "meter", "packet-out"];

const FLOW_COMMANDS: [(&str, FlowCommand); 5] = [
    ("add", FlowCommand::Add),
    ("modify", FlowCommand::Modify),
    ("modify_strict", FlowCommand::ModifyStrict),
    ("delete", FlowCommand::Delete),
    ("delete_strict", FlowCommand::DeleteStrict),
];

const GROUP_COMMANDS: [(&str, GroupCommand); 8] = [
    ("add", GroupCommand::Add),
    ("modify", GroupCommand::Modify),
    ("add_or_mod", GroupCommand::AddOrModify),
    ("delete", GroupCommand::Delete),
    ("insert_bucket", GroupCommand::InsertBuckets),
    ("insert_buckets", GroupCommand::InsertBuckets),
    ("remove_bucket", GroupCommand::RemoveBuckets),
    ("remove_buckets", GroupCommand::RemoveBuckets),
];

/// What a line of a file says: the line without its comment (from `#` on) and blanks around it.
/// None: nothing.
#[must_use]
pub fn significant(line: &str) -> Option<&str> {
    let line = line.split_once('#').map_or(line, |(line, _)| line).trim();
    (!line.is_empty()).then_some(line)
}

/// A line of a bundle file (ovs-ofctl(8), `bundle`): `flow add ...`, `group insert_buckets ...`,
/// `meter` too (an extension). A line without `flow`/`group` is a flow line, with an optional
/// command word (`add`, `delete`, ...). `packet-out` is refused: packets are no part of a
/// transaction here. Comments are the caller's business ([`significant`]).
///
/// # Errors
/// With the column.
pub fn parse_bundle_line(line: &str, names: &dyn Names) -> Result<Parsed<Update>, TextError> {
    let line = Line::new(line, names)?;
    let (kind, rest) = word(line.source.0);
    match kind {
        "flow" => flow_line(&line, rest, &[]),
        "group" => {
            let (command, rest) = command(&line, rest, &GROUP_COMMANDS, GroupCommand::Add, &[])?;
            group::parse_part(&line, rest, command)
        }
        "meter" => {
            let table = [("add", "add"), ("modify", "modify"), ("delete", "delete")];
            let (command, rest) = command(&line, rest, &table, "add", &[])?;
            meter::parse_part(&line, command, rest)
        }
        "packet-out" => {
            let error = line
                .source
                .error(kind, "a transaction cannot send packets")
                .hint("send them with packet-out afterwards");
            Err(error.field("packet-out"))
        }
        // It may be a misspelt noun.
        _ => flow_line(&line, line.source.0, &NOUNS),
    }
}

fn flow_line<'a>(line: &Line<'a>, text: &'a str, nouns: &[&str]) -> Result<Parsed<Update>, TextError> {
    let (command, rest) = command(line, text, &FLOW_COMMANDS, FlowCommand::Add, nouns)?;
    flow::parse_part(line, rest, command)
}

/// The first word of a text and what follows it. A word followed by `=` or `:` is a key, and no
/// word.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.bytes().position(|byte| matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n' | b'=' | b':' | b'('));
    match end.map(|end| text.split_at(end)) {
        Some((_, rest)) if rest.starts_with(['=', ':', '(']) => ("", text),
        Some((word, rest)) => (word, rest),
        None => (text, &text[text.len()..]),
    }
}

/// The command word at the front of a text, if there is one. `nouns` are other words that might
/// have stood there.
fn command<'a, T: Copy>(
    line: &Line<'a>,
    text: &'a str,
    table: &[(&str, T)],
    usual: T,
    nouns: &[&str],
) -> Result<(T, &'a str), TextError> {
    let (first, rest) = word(text);
    if let Some((_, command)) = table.iter().find(|(name, _)| *name == first) {
        return Ok((*command, rest));
    }
    // A misspelt command, unless it is an item of a flow's match.
    let names = table.iter().map(|(name, _)| *name).chain(nouns.iter().copied());
    let is_field = crate::text::MatchBuilder::new(line.names).add(first, None);
    match nearest(first, names) {
        Some(near) if matches!(is_field, Ok(false)) => {
            let error = line.source.error(first, format!("there is no command {}", quoted(first)));
            Err(error.hint(format!("did you mean {near}?")).field(first))
        }
        _ => Ok((usual, text)),
    }
}
