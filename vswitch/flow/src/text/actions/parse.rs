//! From keys to the functions that parse an action's arguments.

use super::{ct, fields, hash, learn, output, reject};
use crate::action::{Reason, limits, port};
use crate::text::scan::{Result, Source, Token, Tokens, quoted};
use crate::text::{Names, nearest, parse_port, parse_subfield, unquote};
use crate::{Action, Field, Subfield};

/// Actions of a list at most: each takes 8 bytes of an OpenFlow message.
const MAX_ACTIONS: usize = limits::MAX_BYTES / 8;

/// The keys of actions, for hints.
const KEYS: &[&str] = &[
    "output",
    "drop",
    "controller",
    "group",
    "meter",
    "set_field",
    "load",
    "move",
    "push",
    "pop",
    "push_vlan",
    "pop_vlan",
    "strip_vlan",
    "mod_vlan_vid",
    "mod_vlan_pcp",
    "set_vlan_vid",
    "set_vlan_pcp",
    "mod_dl_src",
    "mod_dl_dst",
    "mod_nw_src",
    "mod_nw_dst",
    "mod_nw_tos",
    "mod_nw_ecn",
    "mod_nw_ttl",
    "mod_tp_src",
    "mod_tp_dst",
    "dec_ttl",
    "set_tunnel",
    "set_tunnel64",
    "resubmit",
    "multipath",
    "bundle",
    "bundle_load",
    "learn",
    "fin_timeout",
    "conjunction",
    "clone",
    "reject",
    "note",
    "exit",
    "sample",
    "check_pkt_larger",
    "ct",
    "ct_clear",
    "ct_forget",
    "delete_field",
    "clear_actions",
    "write_actions",
    "write_metadata",
    "goto_table",
    "NORMAL",
    "FLOOD",
    "ALL",
    "LOCAL",
    "IN_PORT",
    "TABLE",
];

/// Longest key, rounded up.
const MAX_KEY: usize = 24;

/// Reads lists of one text.
pub(in crate::text) struct Parser<'a> {
    pub(in crate::text) source: Source<'a>,
    pub(in crate::text) names: &'a dyn Names,
    pub(in crate::text) warnings: Vec<String>,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(in crate::text) const fn new(source: Source<'a>, names: &'a dyn Names) -> Self {
        Self { source, names, warnings: Vec::new(), depth: 0 }
    }

    /// A list that is a piece of the source.
    pub(in crate::text) fn list(&mut self, text: &'a str) -> Result<Vec<Action>> {
        if self.depth == limits::MAX_NESTING {
            let reason = format!("actions are nested more than {} levels deep", limits::MAX_NESTING);
            return Err(self
                .source
                .error(text, reason)
                .hint("resubmit to a table instead")
                .code("OFPBAC_BAD_ARGUMENT"));
        }
        self.depth += 1;
        let mut tokens = Tokens::new(self.source, text);
        let (mut actions, mut drop) = (Vec::new(), None);
        // So far there is nothing else.
        let (mut clauses, mut clauses_seen) = (true, 0);
        while let Some(token) = tokens.next()? {
            if token.key.eq_ignore_ascii_case("drop") {
                self.no_value(&token)?;
                drop = Some(token);
            } else {
                self.action(&token, &mut actions)?;
            }
            clauses = clauses && actions[clauses_seen..].iter().all(Action::is_clause);
            clauses_seen = actions.len();
            if clauses && actions.len() > limits::MAX_CLAUSES {
                let reason = format!("the list has more than {} conjunctions", limits::MAX_CLAUSES);
                return Err(self.source.error(token.key, reason).hint("use another table").code("OFPBRC_BAD_LEN"));
            }
            if !clauses && actions.len() > MAX_ACTIONS {
                let reason =
                    format!("the list is longer than {} bytes of OpenFlow, about 4,090 actions", limits::MAX_BYTES);
                return Err(self.source.error(token.key, reason).hint("resubmit to a table").code("OFPBRC_BAD_LEN"));
            }
        }
        self.depth -= 1;
        match drop {
            Some(token) if !actions.is_empty() => Err(self
                .source
                .error(token.key, "drop must stand alone")
                .hint("leave drop out, or everything else")
                .field("drop")),
            _ => Ok(actions),
        }
    }

    /// One action, added to a list.
    pub(in crate::text) fn action(&mut self, token: &Token<'a>, out: &mut Vec<Action>) -> Result<()> {
        let mut buffer = [0; MAX_KEY];
        let key = lower(token.key, &mut buffer);
        if token.target.as_ptr() != token.value.as_ptr() && !token.target.is_empty() && key != "check_pkt_larger" {
            return Err(self.source.error(token.target, format!("{} has no ->", quoted(token.key))).field(token.key));
        }
        let action = match key {
            "resubmit" => output::resubmit(self, token)?,
            "goto_table" => Action::GotoTable(self.table(token.value)?),
            "set_field" => fields::set_field(self, token)?,
            "conjunction" => conjunction(self, token)?,
            "output" => output::output(self, token)?,
            "load" => fields::load(self, token)?,
            "move" => fields::copy(self, token)?,
            "ct" => ct::parse(self, token)?,
            "group" => Action::Group(self.source.u32("group id", token.value)?),
            "learn" => learn::parse(self, token)?,
            "controller" => output::controller(self, token)?,
            "meter" => Action::Meter(self.source.u32("meter id", token.value)?),
            "note" => Action::note(self.hex(token.value)?),
            "clone" => Action::Clone(self.nested(token)?),
            "reject" => reject::parse(self, token)?,
            "multipath" => hash::multipath(self, token)?,
            "bundle" => hash::bundle(self, token, false)?,
            "bundle_load" => hash::bundle(self, token, true)?,
            "sample" => hash::sample(self, token)?,
            "fin_timeout" => fin_timeout(self, token)?,
            "write_actions" => match self.nested(token)? {
                actions if actions.is_empty() => return Ok(()),
                actions => Action::WriteActions(actions),
            },
            "write_metadata" => fields::write_metadata(self, token)?,
            "check_pkt_larger" => fields::check_pkt_larger(self, token)?,
            "delete_field" => fields::delete_field(self, token)?,
            "push" => Action::StackPush(self.subfield(token.value)?),
            "pop" => Action::StackPop(self.subfield(token.value)?),
            "push_vlan" => fields::push_vlan(self, token)?,
            "dec_ttl" => fields::dec_ttl(self, token)?,
            "exit" => self.plain(token, Action::Exit)?,
            "ct_clear" => self.plain(token, Action::CtClear)?,
            "ct_forget" => self.plain(token, Action::CtForget)?,
            "clear_actions" => self.plain(token, Action::ClearActions)?,
            "pop_vlan" | "strip_vlan" => self.plain(token, Action::PopVlan)?,
            _ => match fields::legacy(self, key, token)? {
                Some(action) => action,
                None => self.port_or_unknown(key, token)?,
            },
        };
        out.push(action.normal());
        Ok(())
    }

    /// A port, as an action.
    fn port_or_unknown(&self, key: &str, token: &Token<'a>) -> Result<Action> {
        if let Some((reason, hint)) = refused(key) {
            return Err(self.source.error(token.key, reason).hint(hint).code("OFPBAC_BAD_TYPE").field(token.key));
        }
        match parse_port(token.key, self.names) {
            Ok(port) => {
                self.no_value(token)?;
                Ok(Action::Output { port, max_len: None })
            }
            Err(_) => {
                let error = self.source.error(token.key, format!("there is no action or port {}", quoted(token.key)));
                Err(match nearest(token.key, KEYS.iter().copied()) {
                    Some(near) => error.hint(format!("did you mean {near}?")),
                    None => error.hint("actions are those of ovs-actions(7), or the name or number of a port"),
                }
                .field(token.key))
            }
        }
    }

    fn nested(&mut self, token: &Token<'a>) -> Result<Box<[Action]>> {
        Ok(self.list(token.value)?.into())
    }

    pub(super) fn no_value(&self, token: &Token<'a>) -> Result<()> {
        if token.value.is_empty() {
            return Ok(());
        }
        let error = self.source.error(token.value, format!("{} takes no argument", quoted(token.key)));
        Err(error.hint(format!("write {} alone", token.key)).field(token.key))
    }

    fn plain(&self, token: &Token<'a>, action: Action) -> Result<Action> {
        self.no_value(token).map(|()| action)
    }

    /// A table by number or name.
    pub(in crate::text) fn table(&self, text: &str) -> Result<u8> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = self.source.number("table", text, 0, limits::MAX_TABLE.into())?;
            return Ok(u8::try_from(number).unwrap_or(limits::MAX_TABLE));
        }
        let name = unquote(text);
        let number = name.as_deref().and_then(|name| self.names.table(name));
        number.ok_or_else(|| self.source.no_table(text, self.names))
    }

    /// A port by number or name.
    pub(in crate::text) fn port(&self, text: &str) -> Result<u32> {
        parse_port(text, self.names).map_err(|error| self.source.within(text, error))
    }

    pub(super) fn subfield(&self, text: &str) -> Result<Subfield> {
        parse_subfield(text).map_err(|error| self.source.within(text, error))
    }

    /// Both sides of `value->target`.
    pub(super) fn arrow(&self, text: &'a str, key: &str) -> Result<(&'a str, &'a str)> {
        match text.split_once("->") {
            Some((value, to)) if !to.is_empty() => Ok((value, to)),
            Some((_, to)) => {
                Err(self.source.error(to, "there is no field behind ->").hint(format!("{key}:VALUE->FIELD")))
            }
            None => {
                Err(self.source.error(text, format!("{} has no ->", quoted(text))).hint(format!("{key}:VALUE->FIELD")))
            }
        }
    }

    /// A field by name.
    pub(super) fn field(&self, text: &str) -> Result<Field> {
        if let Some((name, _)) = text.split_once('[') {
            let error = self.source.error(text, format!("{} names bits, not a field", quoted(text))).field(text);
            return Err(
                error.hint(format!("set_field:VALUE/MASK->{name}, or load:VALUE->{}", quoted(text).trim_matches('"')))
            );
        }
        let named = crate::text::field_by_name(text);
        named.ok_or_else(|| self.source.unknown(text, "field", crate::field::names().collect::<Vec<_>>()))
    }

    /// Pairs of hexadecimal digits, with dots between or not.
    pub(in crate::text) fn hex(&self, text: &str) -> Result<Vec<u8>> {
        let bytes = text.as_bytes();
        let mut out = Vec::with_capacity(bytes.len() / 2);
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == b'.' {
                at += 1;
                continue;
            }
            let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
            let (Some(high), Some(low)) = (digit(at), digit(at + 1)) else {
                let wrong = text.get(at..).unwrap_or(text);
                let reason = format!("{} is no pair of hexadecimal digits", quoted(wrong.get(..2).unwrap_or(wrong)));
                return Err(self.source.error(wrong, reason).hint("two digits per byte, dots between bytes or not"));
            };
            out.push(u8::try_from(high << 4 | low).unwrap_or_default());
            at += 2;
        }
        Ok(out)
    }
}

/// A key in lower case. What is longer than any key is none.
fn lower<'a>(key: &str, buffer: &'a mut [u8; MAX_KEY]) -> &'a str {
    let Some(buffer) = buffer.get_mut(..key.len()) else { return "" };
    buffer.copy_from_slice(key.as_bytes());
    buffer.make_ascii_lowercase();
    std::str::from_utf8(buffer).unwrap_or_default()
}

/// Actions of Open vSwitch that this switch refuses, why, and what to do instead.
fn refused(key: &str) -> Option<(&'static str, &'static str)> {
    Some(match key {
        "set_queue" | "enqueue" | "pop_queue" => {
            ("there are no queues: packets are not queued by class here", "leave it out, or use meter to limit a rate")
        }
        "push_mpls" | "pop_mpls" | "set_mpls_label" | "set_mpls_tc" | "set_mpls_ttl" | "dec_mpls_ttl" => {
            ("MPLS labels are not supported", "leave it out")
        }
        "encap" | "decap" | "dec_nsh_ttl" => ("packets other than Ethernet frames are not supported", "leave it out"),
        "apply_actions" => ("apply_actions is what actions do anyway", "write its actions without it"),
        "nat" => ("nat is an argument of ct", "ct(commit,nat(src=ADDRESS))"),
        _ => return None,
    })
}

/// `conjunction(id,k/n)`
fn conjunction(parser: &Parser<'_>, token: &Token<'_>) -> Result<Action> {
    let source = parser.source;
    let wrong =
        || source.error(token.key, "a conjunction is an id, a clause and their number").hint("conjunction(ID,K/N)");
    let (id, clause) = token.value.split_once(',').ok_or_else(wrong)?;
    let (clause, clauses) = clause.split_once('/').ok_or_else(wrong)?;
    let (id, clause, clauses) = (id.trim(), clause.trim(), clauses.trim());
    let id = source.u32("conjunction id", id)?;
    let n = source.number("number of clauses", clauses, 0, u32::MAX.into())?;
    let k = source.number("clause", clause, 0, u32::MAX.into())?;
    Action::conjunction(id, k, n).map_err(|refusal| source.refused(token.value, refusal))
}

/// `fin_timeout(idle_timeout=5,hard_timeout=10)`
fn fin_timeout<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let (mut idle, mut hard) = (0, 0);
    let mut tokens = Tokens::new(parser.source, token.value);
    while let Some(token) = tokens.next()? {
        match token.key {
            "idle_timeout" => idle = parser.source.u32(token.key, token.value)?,
            "hard_timeout" => hard = parser.source.u32(token.key, token.value)?,
            key => return Err(parser.source.unknown(key, "argument of fin_timeout", ["idle_timeout", "hard_timeout"])),
        }
    }
    Ok(Action::FinTimeout { idle, hard })
}

/// Reasons of packet-ins, by name.
pub(super) const REASONS: [(&str, Reason); 6] = [
    ("no_match", Reason::NoMatch),
    ("action", Reason::Action),
    ("invalid_ttl", Reason::InvalidTtl),
    ("action_set", Reason::ActionSet),
    ("group", Reason::Group),
    ("packet_out", Reason::PacketOut),
];

/// Whether a port is told by its reserved name.
pub(super) const fn is_reserved(number: u32) -> bool {
    number >= port::UNSET
}
