//! Flows and filters.

use super::actions::{Text, actions};
use super::{actions_out, matching, narrow, narrow16, wrong};
use std::sync::Arc;
use vswitch_flow::action::{CheckContext, ListPlace, accept, known_table};
use vswitch_flow::spec::{FlowFilter, FlowFlags, FlowSpec, Update};
use vswitch_flow::text::{Names, Parsed, Style, TextError, format_actions, format_match, parse_match};
use vswitch_flow::{Action, SparseMatch};
use vswitch_proto::v1;

/// Priority of a flow that gives none (OpenFlow's default).
const PRIORITY_DEFAULT: u32 = 32768;

/// A table by name if there is one, else by number.
fn table(number: u32, name: &str, names: &dyn Names) -> Result<u8, TextError> {
    if name.is_empty() {
        let table = narrow("table", number, u8::MAX.into())?;
        known_table(table)?;
        return Ok(table);
    }
    let missing = || wrong("table_name", format!("no table is named {name:?}"), "TableService.ListTables lists them");
    names.table(name).ok_or_else(missing)
}

fn parsed_match(text: &str, names: &dyn Names) -> Result<Parsed<SparseMatch>, TextError> {
    parse_match(text, names).map_err(|error| TextError {
        reason: format!("match, column {}: {}", error.column, error.reason),
        column: 0,
        ..error
    })
}

/// A list of actions as the switch takes it: what the parser of text does with it, too.
fn accepted(list: Vec<Action>, matching: Option<&SparseMatch>, place: ListPlace) -> Result<Vec<Action>, TextError> {
    accept(list, &CheckContext { matching, place })
        .map_err(|error| TextError { code: error.code, ..wrong("actions", error.reason, error.hint) })
}

/// A flow, and what was odd about it.
pub fn flow(message: &v1::Flow, names: &dyn Names) -> Result<Parsed<FlowSpec>, TextError> {
    use v1::flow::{Doing, Matching};
    let table = table(message.table, &message.table_name, names)?;
    let Parsed { value: matching, mut warnings } = match &message.matching {
        Some(Matching::Match(message)) => matching::from_message(message, names)?,
        Some(Matching::MatchText(text)) => parsed_match(text, names)?,
        None => Parsed { value: SparseMatch::default(), warnings: Vec::new() },
    };
    let doing = match &message.doing {
        Some(Doing::Actions(list)) => Text::Typed(list),
        Some(Doing::ActionsText(text)) => Text::Line(text),
        None => Text::None,
    };
    let actions = actions(&doing, names, &mut warnings)?;
    let actions = accepted(actions, Some(&matching), ListPlace::Flow { table })?;
    let flags = message.flags.unwrap_or_default();
    let flow = FlowSpec {
        table,
        priority: narrow16("priority", message.priority.unwrap_or(PRIORITY_DEFAULT))?,
        matching: Arc::new(matching),
        cookie: message.cookie,
        idle_timeout: message.idle_timeout,
        hard_timeout: message.hard_timeout,
        importance: narrow16("importance", message.importance)?,
        flags: FlowFlags {
            send_flow_rem: flags.send_flow_rem,
            check_overlap: flags.check_overlap,
            reset_counts: flags.reset_counts,
            no_packet_counts: flags.no_packet_counts,
            no_byte_counts: flags.no_byte_counts,
        },
        actions: actions.into(),
    };
    Ok(Parsed { value: flow, warnings })
}

/// A filter, and what was odd about it.
pub fn filter(message: &v1::FlowFilter, names: &dyn Names) -> Result<Parsed<FlowFilter>, TextError> {
    use v1::flow_filter::Matching;
    let table = match message.table {
        None if message.table_name.is_empty() => None,
        number => Some(table(number.unwrap_or_default(), &message.table_name, names)?),
    };
    let Parsed { value: matching, warnings } = match &message.matching {
        Some(Matching::Match(message)) => matching::from_message(message, names)?,
        Some(Matching::MatchText(text)) => parsed_match(text, names)?,
        None => Parsed { value: SparseMatch::default(), warnings: Vec::new() },
    };
    let filter = FlowFilter {
        table,
        matching: Arc::new(matching),
        strict: message.strict_priority.map(|priority| narrow16("strict_priority", priority)).transpose()?,
        cookie: message.cookie,
        cookie_mask: message.cookie_mask,
        out_port: message.out_port,
        out_group: message.out_group,
    };
    Ok(Parsed { value: filter.checked()?, warnings })
}

/// New actions for flows.
pub fn modify(message: &v1::ModifyFlows, names: &dyn Names) -> Result<Parsed<Update>, TextError> {
    use v1::modify_flows::Doing;
    let Parsed { value: filter, mut warnings } = filter(&message.filter.clone().unwrap_or_default(), names)?;
    let doing = match &message.doing {
        Some(Doing::Actions(list)) => Text::Typed(list),
        Some(Doing::ActionsText(text)) => Text::Line(text),
        None => Text::None,
    };
    let actions = actions(&doing, names, &mut warnings)?;
    let place = ListPlace::Flow { table: filter.table.unwrap_or_default() };
    let actions = accepted(actions, Some(&filter.matching), place)?;
    let update = Update::ModifyFlows {
        filter,
        actions: actions.into(),
        reset_counts: message.reset_counts,
        cookie: message.cookie,
    };
    Ok(Parsed { value: update, warnings })
}

/// A flow as a message: match and actions as text, or typed.
pub fn flow_message(flow: &FlowSpec, typed: bool, style: Style, names: &dyn Names) -> v1::Flow {
    use v1::flow::{Doing, Matching};
    let (matching, doing) = if typed {
        (Matching::Match(matching::to_message(&flow.matching)), Doing::Actions(actions_out::list(&flow.actions)))
    } else {
        let (mut matching, mut actions) = (String::new(), String::new());
        format_match(&flow.matching, style, names, &mut matching);
        format_actions(&flow.actions, style, names, &mut actions);
        (Matching::MatchText(matching), Doing::ActionsText(actions))
    };
    v1::Flow {
        table: flow.table.into(),
        table_name: names.table_name(flow.table).unwrap_or_default().to_owned(),
        priority: Some(flow.priority.into()),
        matching: Some(matching),
        cookie: flow.cookie,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
        importance: flow.importance.into(),
        flags: Some(v1::FlowFlags {
            send_flow_rem: flow.flags.send_flow_rem,
            check_overlap: flow.flags.check_overlap,
            reset_counts: flow.flags.reset_counts,
            no_packet_counts: flow.flags.no_packet_counts,
            no_byte_counts: flow.flags.no_byte_counts,
        }),
        doing: Some(doing),
    }
}

/// The same of a bucket's.
pub(super) fn accepted_of_bucket(list: Vec<Action>) -> Result<Vec<Action>, TextError> {
    accepted(list, None, ListPlace::Bucket)
}

/// The same of a packet-out's.
pub fn accepted_of_packet_out(list: Vec<Action>) -> Result<Vec<Action>, TextError> {
    accepted(list, None, ListPlace::PacketOut)
}
