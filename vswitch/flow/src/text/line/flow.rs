//! Flow lines.

use super::Line;
use super::filter::{Keys, Raw, Scope};
use crate::action::ListPlace;
use crate::spec::{FlowFlags, FlowSpec, Update};
use crate::text::actions::Parser;
use crate::text::{Names, Parsed, Style, TextError, format_actions, format_match, format_name, value};
use crate::{Action, SparseMatch};
use std::sync::Arc;

/// What a flow line asks for when it does not say itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCommand {
    /// `add-flow`
    Add,
    /// `mod-flows`
    Modify,
    /// `mod-flows --strict`
    ModifyStrict,
    /// `del-flows`
    Delete,
    /// `del-flows --strict`
    DeleteStrict,
}

impl FlowCommand {
    pub(super) const fn scope(self) -> Scope {
        match self {
            Self::Add => Scope::Add,
            Self::Modify | Self::ModifyStrict => Scope::Modify,
            Self::Delete => Scope::Filter,
            Self::DeleteStrict => Scope::StrictFilter,
        }
    }
}

/// A flow line (ovs-ofctl(8), Flow Syntax) as an update. Checks actions against the match.
/// A line of a dump parses too: duration, n_packets, n_bytes, idle_age, hard_age are skipped.
///
/// Without `table` an add or modify is for table 0, a delete for all tables. `cookie=V` is the
/// cookie of an add, selects in a delete, and is nothing in a modify, which keeps cookies;
/// `cookie=V/M` selects.
///
/// # Errors
/// With the column.
pub fn parse_flow(line: &str, command: FlowCommand, names: &dyn Names) -> Result<Parsed<Update>, TextError> {
    let line = Line::new(line, names)?;
    parse_part(&line, line.source.0, command)
}

/// The same of a part of a line: behind the words of a bundle file.
pub(super) fn parse_part<'a>(
    line: &Line<'a>,
    text: &'a str,
    command: FlowCommand,
) -> Result<Parsed<Update>, TextError> {
    let Raw { keys, matching, actions } = Raw::read(line, text, command.scope())?;
    let strict = matches!(command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
    let Parsed { value: matching, mut warnings } = matching.finish()?;
    if let FlowCommand::Delete | FlowCommand::DeleteStrict = command {
        return Ok(Parsed { value: Update::DeleteFlows(keys.filter(keys.table, matching, strict)?), warnings });
    }
    let table = keys.table.unwrap_or_default();
    let Some(actions_text) = actions else {
        let error = line.source.error(&text[text.len()..], "there are no actions");
        return Err(error.hint("end the line with actions=..., or actions=drop").field("actions"));
    };
    let mut parser = Parser::new(line.source, line.names);
    let actions = parser.list(actions_text)?;
    warnings.append(&mut parser.warnings);
    let actions: Arc<[Action]> = line.accept(actions_text, actions, Some(&matching), ListPlace::Flow { table })?.into();
    let value = if command == FlowCommand::Add {
        Update::AddFlow(flow(&keys, table, matching, actions))
    } else {
        Update::ModifyFlows {
            filter: keys.filter(Some(table), matching, strict)?,
            actions,
            reset_counts: keys.flags.reset_counts,
            // As Open vSwitch: flows that are modified keep their cookies.
            cookie: None,
        }
    };
    Ok(Parsed { value, warnings })
}

fn flow(keys: &Keys, table: u8, matching: SparseMatch, actions: Arc<[Action]>) -> FlowSpec {
    FlowSpec {
        table,
        priority: keys.priority.unwrap_or(32768),
        matching: Arc::new(matching),
        cookie: keys.cookie.unwrap_or_default(),
        idle_timeout: keys.idle_timeout,
        hard_timeout: keys.hard_timeout,
        importance: keys.importance,
        flags: keys.flags,
        actions,
    }
}

/// What a dump shows beside the flow itself. Times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// Since the flow was added.
    pub duration_ms: u64,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds since the last packet.
    pub idle_age_s: u64,
    /// Seconds since the flow was added or changed; shown if this differs from the duration.
    pub hard_age_s: u64,
    /// Connections that its `ct(commit)` created or gave another label. Open vSwitch has no such
    /// counter, and no line shows it.
    pub commits: u64,
    /// Answers that `reject()` sent to its packets. Likewise.
    pub rejects: u64,
}

/// A line of dump-flows, without the leading blank and without newline; counters None:
/// `--no-stats`.
pub fn format_flow(
    flow: &FlowSpec,
    counters: Option<&FlowCounters>,
    style: Style,
    names: &dyn Names,
    out: &mut String,
) {
    if counters.is_some() || flow.cookie != 0 {
        out.push_str("cookie=0x");
        value::push(out, format_args!("{:x}, ", flow.cookie));
    }
    if let Some(counters) = counters {
        let (s, ms) = (counters.duration_ms / 1000, counters.duration_ms % 1000);
        match ms {
            0 => value::push(out, format_args!("duration={s}s, ")),
            ms => value::push(out, format_args!("duration={s}.{ms:03}s, ")),
        }
    }
    match names.table_name(flow.table).filter(|_| style.names) {
        Some(name) => {
            out.push_str("table=");
            format_name(name, out);
            out.push_str(", ");
        }
        None if counters.is_some() || flow.table != 0 => value::push(out, format_args!("table={}, ", flow.table)),
        None => {}
    }
    if let Some(FlowCounters { packets, bytes, .. }) = counters {
        value::push(out, format_args!("n_packets={packets}, n_bytes={bytes}, "));
    }
    for (name, value) in [("idle_timeout", flow.idle_timeout), ("hard_timeout", flow.hard_timeout)] {
        if value != 0 {
            value::push(out, format_args!("{name}={value}, "));
        }
    }
    for (name, set) in flags(&flow.flags) {
        if set {
            out.push_str(name);
            out.push(' ');
        }
    }
    if flow.importance != 0 {
        value::push(out, format_args!("importance={}, ", flow.importance));
    }
    if let Some(counters) = counters {
        value::push(out, format_args!("idle_age={}, ", counters.idle_age_s));
        if counters.hard_age_s != counters.duration_ms / 1000 {
            value::push(out, format_args!("hard_age={}, ", counters.hard_age_s));
        }
    }
    let start = out.len();
    if flow.priority != 32768 {
        value::push(out, format_args!("priority={}", flow.priority));
    }
    let end = out.len();
    if end != start {
        out.push(',');
    }
    let before = out.len();
    format_match(&flow.matching, style, names, out);
    if out.len() == before {
        out.truncate(end);
    }
    if out.len() != start {
        out.push(' ');
    }
    out.push_str("actions=");
    format_actions(&flow.actions, style, names, out);
}

/// Flags by name, in the order of OVS.
const fn flags(flags: &FlowFlags) -> [(&'static str, bool); 5] {
    [
        ("send_flow_rem", flags.send_flow_rem),
        ("check_overlap", flags.check_overlap),
        ("reset_counts", flags.reset_counts),
        ("no_packet_counts", flags.no_packet_counts),
        ("no_byte_counts", flags.no_byte_counts),
    ]
}
