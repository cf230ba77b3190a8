//! The keys of flow lines and filters, before it is decided what they mean.

use super::Line;
use crate::SparseMatch;
use crate::action::{PortNo, limits, rules};
use crate::spec::{FlowFilter, FlowFlags};
use crate::text::scan::{Token, Tokens, quoted};
use crate::text::value::number;
use crate::text::{
    Item, MatchBuilder, Names, Parsed, TextError, nearest, parse_port, parse_subfield, unknown_item, unquote,
};
use std::sync::Arc;

/// What a line is for: which keys it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Add,
    Modify,
    /// Deletes and dumps.
    Filter,
    /// The same with `--strict`.
    StrictFilter,
}

/// The keys that are no fields.
const KEYS: [&str; 14] = [
    "table",
    "priority",
    "cookie",
    "idle_timeout",
    "hard_timeout",
    "importance",
    "send_flow_rem",
    "check_overlap",
    "reset_counts",
    "no_packet_counts",
    "no_byte_counts",
    "out_port",
    "out_group",
    "actions",
];

/// What a line says beside its match and actions.
#[derive(Clone, Copy, Default)]
pub(super) struct Keys {
    /// None: not given, or 255.
    pub(super) table: Option<u8>,
    pub(super) priority: Option<u16>,
    /// The cookie to set.
    pub(super) cookie: Option<u64>,
    /// The cookies to select.
    pub(super) cookie_filter: Option<(u64, u64)>,
    pub(super) idle_timeout: u32,
    pub(super) hard_timeout: u32,
    pub(super) importance: u16,
    pub(super) flags: FlowFlags,
    pub(super) out_port: Option<PortNo>,
    pub(super) out_group: Option<u32>,
}

impl Keys {
    pub(super) fn filter(
        self,
        table: Option<u8>,
        matching: SparseMatch,
        strict: bool,
    ) -> Result<FlowFilter, TextError> {
        let (cookie, cookie_mask) = self.cookie_filter.unwrap_or_default();
        let filter = FlowFilter {
            table,
            matching: Arc::new(matching),
            strict: strict.then(|| self.priority.unwrap_or(32768)),
            cookie,
            cookie_mask,
            out_port: self.out_port,
            out_group: self.out_group,
        };
        Ok(filter.checked()?)
    }
}

/// A line, cut up.
pub(super) struct Raw<'a> {
    pub(super) keys: Keys,
    pub(super) matching: MatchBuilder<'a>,
    /// Text of the actions.
    pub(super) actions: Option<&'a str>,
}

impl<'a> Raw<'a> {
    /// Reads the keys of a part of a line.
    pub(super) fn read(line: &Line<'a>, text: &'a str, scope: Scope) -> Result<Self, TextError> {
        let mut raw = Self { keys: Keys::default(), matching: MatchBuilder::new(line.names), actions: None };
        let mut tokens = Tokens::new(line.source, text);
        while let Some(token) = tokens.next()? {
            if token.key == "actions" || token.key == "action" {
                raw.actions = Some(actions(line, &token, &tokens, scope)?);
                break;
            }
            raw.key(line, &token, scope)?;
        }
        Ok(raw)
    }

    fn key(&mut self, line: &Line<'a>, token: &Token<'a>, scope: Scope) -> Result<(), TextError> {
        let source = line.source;
        let value = || line.value(token);
        let setting = matches!(scope, Scope::Add | Scope::Modify);
        match token.key {
            "table" => self.keys.table = table(line, value()?, scope)?,
            "cookie" => self.cookie(line, value()?, scope)?,
            "priority" if scope != Scope::Filter => self.keys.priority = Some(source.u16("priority", value()?)?),
            "idle_timeout" if setting => self.keys.idle_timeout = source.u32("timeout", value()?)?,
            "hard_timeout" if setting => self.keys.hard_timeout = source.u32("timeout", value()?)?,
            "importance" if setting => self.keys.importance = source.u16("importance", value()?)?,
            "send_flow_rem" if setting => self.keys.flags.send_flow_rem = true,
            "check_overlap" if setting => self.keys.flags.check_overlap = true,
            "reset_counts" if setting => self.keys.flags.reset_counts = true,
            "no_packet_counts" if setting => self.keys.flags.no_packet_counts = true,
            "no_byte_counts" if setting => self.keys.flags.no_byte_counts = true,
            "out_port" if !setting => {
                let port = parse_port(value()?, line.names).map_err(|error| source.within(token.value, error))?;
                self.keys.out_port = Some(port);
            }
            "out_group" if !setting => {
                self.keys.out_group = match value()? {
                    "any" | "ANY" => None,
                    text => Some(source.u32("group id", text)?),
                };
            }
            // A dump's.
            "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" => {}
            // Of old versions of Open vSwitch.
            "no_readonly_table" | "allow_hidden_fields" => {}
            _ => return self.field(line, token, scope),
        }
        Ok(())
    }

    /// A field of the match, or nothing known.
    fn field(&mut self, line: &Line<'a>, token: &Token<'a>, scope: Scope) -> Result<(), TextError> {
        let source = line.source;
        let text = if token.value.is_empty() { token.key } else { token.value };
        if token.key.contains('[') {
            return self.bits(line, token);
        }
        match self.matching.add(token.key, token.optional()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(unknown(line, token, scope)),
            Err(error) => Err(source.within(text, error)),
        }
    }

    /// `reg0[0..3]=5`
    fn bits(&mut self, line: &Line<'a>, token: &Token<'a>) -> Result<(), TextError> {
        let source = line.source;
        let sub = parse_subfield(token.key).map_err(|error| source.within(token.key, error))?;
        let text = line.value(token)?;
        let Some(number) = number::parse(text) else {
            return Err(source.error(text, format!("{} is no number", quoted(text))).field(token.key));
        };
        if sub.len < 128 && number >> sub.len != 0 {
            let error = source.error(text, format!("{} does not fit into {} bits", quoted(text), sub.len));
            return Err(error.hint(format!("at most {:#x}", (1u128 << sub.len) - 1)).field(token.key));
        }
        let masked = format!("{:#x}/{:#x}", number << sub.start, sub.mask());
        match self.matching.add(sub.field.name(), Some(&masked)) {
            Ok(_) => Ok(()),
            Err(error) => Err(TextError { column: source.column(token.key), ..error }),
        }
    }

    fn cookie(&mut self, line: &Line<'a>, text: &'a str, scope: Scope) -> Result<(), TextError> {
        let source = line.source;
        match text.split_once('/') {
            Some(_) if scope == Scope::Add => {
                let error = source.error(text, "a flow that is added has a cookie, not a mask of cookies");
                return Err(error.hint("cookie=VALUE").field("cookie"));
            }
            Some((cookie, mask)) => {
                let (cookie, mask) = (source.u64("cookie", cookie)?, source.u64("cookie mask", mask)?);
                self.keys.cookie_filter = Some((cookie, mask));
            }
            None if matches!(scope, Scope::Add | Scope::Modify) => self.keys.cookie = Some(source.u64("cookie", text)?),
            None => self.keys.cookie_filter = Some((source.u64("cookie", text)?, u64::MAX)),
        }
        Ok(())
    }
}

/// The text of the actions: all the rest of the line.
fn actions<'a>(line: &Line<'a>, token: &Token<'a>, tokens: &Tokens<'a>, scope: Scope) -> Result<&'a str, TextError> {
    if !matches!(scope, Scope::Add | Scope::Modify) {
        let error =
            line.source.error(token.key, "actions have no meaning here: flows are selected by match and cookie");
        return Err(error
            .hint("leave actions out; out_port=PORT and out_group=GROUP select by what flows do")
            .field("actions"));
    }
    actions_text(line, token, tokens)
}

/// What is behind `actions=` or `actions = `.
pub(super) fn actions_text<'a>(line: &Line<'a>, token: &Token<'a>, tokens: &Tokens<'a>) -> Result<&'a str, TextError> {
    let from = line.source.column(token.key) - 1 + token.key.len();
    let end = line.source.column(tokens.rest()) - 1 + tokens.rest().len();
    let rest = line.source.0.get(from..end).unwrap_or_default();
    match rest.trim_start().strip_prefix('=') {
        Some(rest) => Ok(rest),
        None => {
            let error = line.source.error(token.key, format!("there is no = behind {}", token.key));
            Err(error.hint("actions=ACTION,...").field("actions"))
        }
    }
}

/// A table by number or name. None: 255, `all`.
fn table(line: &Line<'_>, text: &str, scope: Scope) -> Result<Option<u8>, TextError> {
    let source = line.source;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return match source.number("table", text, 0, 255)? {
            255 => Ok(None),
            number => {
                let number = u8::try_from(number).unwrap_or_default();
                source.judged(text, rules::known_table(number))?;
                Ok(Some(number))
            }
        };
    }
    let named = unquote(text).and_then(|name| line.names.table(&name));
    if let Some(number) = named.filter(|number| *number <= limits::MAX_TABLE) {
        return Ok(Some(number));
    }
    if text == "all" && !matches!(scope, Scope::Add | Scope::Modify) {
        return Ok(None);
    }
    Err(source.no_table(text, line.names))
}

/// The error about a key that is nothing here.
fn unknown(line: &Line<'_>, token: &Token<'_>, scope: Scope) -> TextError {
    let source = line.source;
    if KEYS.contains(&token.key) {
        let (reason, hint) = match (token.key, scope) {
            ("priority", _) => ("priority selects flows only with --strict", "add --strict, or leave priority out"),
            ("out_port" | "out_group", _) => ("it selects flows to delete or to dump", "leave it out"),
            _ => ("it is a property of a flow, and no flow is selected by it", "leave it out"),
        };
        return source
            .error(token.key, format!("{} has no meaning here: {reason}", token.key))
            .hint(hint)
            .field(token.key);
    }
    let column = source.column(token.key);
    let value_column = if token.value.is_empty() { column } else { source.column(token.value) };
    let item = Item { key: token.key, key_column: column, value: token.optional(), value_column };
    match nearest(token.key, KEYS) {
        Some(near) => source
            .error(token.key, format!("there is no field or keyword {}", quoted(token.key)))
            .hint(format!("did you mean {near}?"))
            .field(token.key),
        None => unknown_item(&item),
    }
}

/// A filter as dump-flows, dump-aggregate and del-flows take it.
///
/// # Errors
/// With the column.
pub fn parse_filter(line: &str, strict: bool, names: &dyn Names) -> Result<Parsed<FlowFilter>, TextError> {
    let line = Line::new(line, names)?;
    let scope = if strict { Scope::StrictFilter } else { Scope::Filter };
    let Raw { keys, matching, .. } = Raw::read(&line, line.source.0, scope)?;
    let Parsed { value, warnings } = matching.finish()?;
    Ok(Parsed { value: keys.filter(keys.table, value, strict)?, warnings })
}
