//! `learn(...)`.

use super::fields::{fitting, print_value, writable};
use super::format::Printer;
use super::parse::Parser;
use crate::action::{Learn, LearnSource, LearnSpec, rules};
use crate::field::Format;
use crate::text::scan::{Form, Result, Token, Tokens, quoted};
use crate::text::value::push_hex;
use crate::text::{parse_subfield, parse_value};
use crate::{Action, Field, Subfield};

const KEYS: [&str; 14] = [
    "table",
    "priority",
    "idle_timeout",
    "hard_timeout",
    "fin_idle_timeout",
    "fin_hard_timeout",
    "cookie",
    "send_flow_rem",
    "delete_learned",
    "limit",
    "result_dst",
    "load",
    "output",
    "eth_type",
];

pub(super) fn parse<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let mut learn = Learn::default();
    let mut specs = Vec::new();
    let mut tokens = Tokens::new(parser.source, token.value);
    while let Some(token) = tokens.next()? {
        if !property(parser, &token, &mut learn)? {
            specs.push(spec(parser, &token)?);
        }
        parser.source.judged(token.key, rules::learned(specs.len()))?;
    }
    learn.specs = specs.into();
    Ok(Action::Learn(Box::new(learn)))
}

/// What is not an element of the learned flow. False: it is one.
fn property<'a>(parser: &Parser<'a>, token: &Token<'a>, learn: &mut Learn) -> Result<bool> {
    let (source, value) = (parser.source, token.value);
    match token.key {
        "table" => learn.table = parser.table(value)?,
        "priority" => learn.priority = source.u16("priority", value)?,
        "idle_timeout" => learn.idle_timeout = source.u32("timeout", value)?,
        "hard_timeout" => learn.hard_timeout = source.u32("timeout", value)?,
        "fin_idle_timeout" => learn.fin_idle_timeout = source.u32("timeout", value)?,
        "fin_hard_timeout" => learn.fin_hard_timeout = source.u32("timeout", value)?,
        "cookie" => learn.cookie = source.u64("cookie", value)?,
        "send_flow_rem" => learn.send_flow_rem = true,
        "delete_learned" => learn.delete_learned = true,
        "limit" => learn.limit = source.u32("limit", value)?,
        "result_dst" => {
            let result = parser.subfield(value)?;
            source.judged(value, rules::one_bit(result, "learn"))?;
            learn.result = Some(result);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// An element: `eth_type=0x800`, `NXM_OF_IP_DST[]`, `NXM_OF_IP_DST[]=NXM_OF_IP_SRC[]`, `load:...`,
/// `output:...`.
fn spec<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<LearnSpec> {
    match token.key {
        "load" => load(parser, token),
        "output" => Ok(LearnSpec::Output(parser.subfield(token.value)?)),
        name => match parse_subfield(name) {
            Ok(to) => {
                addressable(parser, to.field, name)?;
                matching(parser, token, to)
            }
            Err(error) if name.contains('[') => Err(parser.source.within(name, error)),
            Err(_) => {
                let words = crate::field::names().chain(KEYS).collect::<Vec<_>>();
                let error = parser.source.unknown(name, "field or argument of learn", words);
                Err(error)
            }
        },
    }
}

fn matching<'a>(parser: &Parser<'a>, token: &Token<'a>, to: Subfield) -> Result<LearnSpec> {
    if token.form == Form::Bare || token.value.is_empty() {
        return Ok(LearnSpec::Match { from: LearnSource::Field(to), to });
    }
    let text = token.value;
    // In capitals, where a port is meant, it is the port; the field goes by its other names.
    let is_port = text == "IN_PORT" && to.field.info().format == Format::Port;
    match parse_subfield(text) {
        Ok(from) if !is_port => {
            addressable(parser, from.field, text)?;
            parser.source.judged(text, rules::as_many(from, to)).map_err(|error| error.field(token.key))?;
            Ok(LearnSpec::Match { from: LearnSource::Field(from), to })
        }
        Err(error) if looks_like_bits(text) => Err(parser.source.within(text, error)),
        _ => {
            // A value of the field; of some bits of it, a number.
            if !to.is_whole() {
                return Ok(LearnSpec::Match { from: LearnSource::Immediate(fitting(parser, text, to.len)?), to });
            }
            let (value, mask) = parse_value(to.field, text, parser.names)
                .map_err(|error| parser.source.within(text, error).field(token.key))?;
            if mask != to.field.exact_mask() {
                let error =
                    parser.source.error(text, format!("{} has a mask: learned flows match all bits", quoted(text)));
                return Err(error
                    .hint("give the value alone, or the bits: FIELD[FIRST..LAST]=NUMBER")
                    .field(token.key));
            }
            Ok(LearnSpec::Match { from: LearnSource::Immediate(value), to })
        }
    }
}

/// `NAME[...]`, and not `fin|[200]`, which are flags of TCP.
fn looks_like_bits(text: &str) -> bool {
    let word = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    text.split_once('[').is_some_and(|(name, _)| word(name))
}

fn load<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<LearnSpec> {
    let (text, name) = parser.arrow(token.value, "load")?;
    let to = parser.subfield(name)?;
    addressable(parser, to.field, name)?;
    writable(parser, to.field, name)?;
    if text.bytes().next().is_some_and(|first| first.is_ascii_digit()) {
        return Ok(LearnSpec::Load { from: LearnSource::Immediate(fitting(parser, text, to.len)?), to });
    }
    let from = parser.subfield(text)?;
    parser.source.judged(token.value, rules::as_many(from, to))?;
    Ok(LearnSpec::Load { from: LearnSource::Field(from), to })
}

fn addressable(parser: &Parser<'_>, field: Field, name: &str) -> Result<()> {
    parser.source.judged(name, rules::addressable(field)).map_err(|error| error.field(name))
}

pub(super) fn print(learn: &Learn, printer: &mut Printer<'_>) {
    printer.text("learn(table=");
    printer.table(learn.table);
    let numbers = [
        ("idle_timeout", learn.idle_timeout, 0),
        ("hard_timeout", learn.hard_timeout, 0),
        ("fin_idle_timeout", learn.fin_idle_timeout, 0),
        ("fin_hard_timeout", learn.fin_hard_timeout, 0),
        ("priority", learn.priority.into(), 32768),
    ];
    for (name, value, usual) in numbers {
        if value != usual {
            printer.push(format_args!(",{name}={value}"));
        }
    }
    if learn.send_flow_rem {
        printer.text(",send_flow_rem");
    }
    if learn.delete_learned {
        printer.text(",delete_learned");
    }
    if learn.cookie != 0 {
        printer.push(format_args!(",cookie={:#x}", learn.cookie));
    }
    if learn.limit != 0 {
        printer.push(format_args!(",limit={}", learn.limit));
    }
    if let Some(result) = learn.result {
        printer.text(",result_dst=");
        printer.subfield(result);
    }
    for spec in &learn.specs {
        printer.text(",");
        print_spec(spec, printer);
    }
    printer.text(")");
}

fn print_spec(spec: &LearnSpec, printer: &mut Printer<'_>) {
    match spec {
        LearnSpec::Match { from: LearnSource::Immediate(value), to } if to.is_whole() => {
            printer.text(to.field.name());
            printer.text("=");
            print_value(to.field, *value, to.field.exact_mask(), printer);
        }
        LearnSpec::Match { from, to } => {
            printer.subfield(*to);
            if *from != LearnSource::Field(*to) {
                printer.text("=");
                print_source(from, printer);
            }
        }
        LearnSpec::Load { from, to } => {
            printer.text("load:");
            print_source(from, printer);
            printer.text("->");
            printer.subfield(*to);
        }
        LearnSpec::Output(from) => {
            printer.text("output:");
            printer.subfield(*from);
        }
    }
}

fn print_source(from: &LearnSource, printer: &mut Printer<'_>) {
    match from {
        LearnSource::Field(sub) => printer.subfield(*sub),
        LearnSource::Immediate(value) => push_hex(*value, printer.out),
    }
}
