//! `learn(...)`.

use super::fields::{fitting, print_value};
use super::format::Printer;
use super::parse::Parser;
use crate::action::{Learn, LearnSource, LearnSpec, limits};
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
        if specs.len() > limits::MAX_LEARN_SPECS {
            let reason = format!("learn has more than {} elements", limits::MAX_LEARN_SPECS);
            return Err(parser.source.error(token.key, reason).code("OFPBAC_BAD_ARGUMENT"));
        }
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
        "idle_timeout" => learn.idle_timeout = source.u16("timeout", value)?,
        "hard_timeout" => learn.hard_timeout = source.u16("timeout", value)?,
        "fin_idle_timeout" => learn.fin_idle_timeout = source.u16("timeout", value)?,
        "fin_hard_timeout" => learn.fin_hard_timeout = source.u16("timeout", value)?,
        "cookie" => learn.cookie = source.u64("cookie", value)?,
        "send_flow_rem" => learn.send_flow_rem = true,
        "delete_learned" => learn.delete_learned = true,
        "limit" => learn.limit = source.u32("limit", value)?,
        "result_dst" => {
            let result = parser.subfield(value)?;
            if result.len != 1 {
                let error = source.error(value, format!("{} is {} bits, the result is one", quoted(value), result.len));
                return Err(error.hint("result_dst=FIELD[BIT]").code("OFPBAC_BAD_ARGUMENT").field("result_dst"));
            }
            learn.result = Some(result);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// An element: `eth_type=0x800`, `NXM_OF_IP_DST[]`, `NXM_OF_IP_DST[]=NXM_OF_IP_SRC[]`, `load:...`, `output:...`.
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
    match parse_subfield(text) {
        Ok(from) if from.len == to.len => {
            addressable(parser, from.field, text)?;
            Ok(LearnSpec::Match { from: LearnSource::Field(from), to })
        }
        Ok(from) => Err(parser
            .source
            .error(text, format!("{} bits cannot match {} bits", from.len, to.len))
            .hint("give as many bits on both sides")
            .field(token.key)),
        // Flags without a name are told as their number: fin|[200].
        Err(error) if text.contains('[') && to.field != Field::TcpFlags => Err(parser.source.within(text, error)),
        Err(_) => {
            // A value of the field; of some bits of it, a number.
            if !is_whole(to) {
                return Ok(LearnSpec::Match { from: LearnSource::Immediate(fitting(parser, text, to.len)?), to });
            }
            // vlan_vid=4101 with its bit 4096 (3.1 cuts it off, and the learned flow matches untagged packets), in_port=LOCAL in 32 bits.
            let wider = matches!(to.field, Field::VlanVid | Field::InPort);
            let to = if wider { Subfield::whole(to.field) } else { to };
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

/// Whether `NAME[]` is what this is.
fn is_whole(sub: Subfield) -> bool {
    sub.start == 0 && (sub.len == sub.field.info().bits || u32::from(sub.len) == sub.field.width())
}

fn load<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<LearnSpec> {
    let (text, name) = parser.arrow(token.value, "load")?;
    let to = parser.subfield(name)?;
    addressable(parser, to.field, name)?;
    if !to.field.is_writable() {
        let error = parser.source.error(name, format!("{} is read-only", quoted(name)));
        return Err(error.code("OFPBAC_BAD_SET_ARGUMENT").field(name));
    }
    if text.bytes().next().is_some_and(|first| first.is_ascii_digit()) {
        return Ok(LearnSpec::Load { from: LearnSource::Immediate(fitting(parser, text, to.len)?), to });
    }
    let from = parser.subfield(text)?;
    if from.len != to.len {
        let error =
            parser.source.error(token.value, format!("{} bits cannot be loaded into {} bits", from.len, to.len));
        return Err(error.hint("give as many bits on both sides").code("OFPBAC_BAD_ARGUMENT"));
    }
    Ok(LearnSpec::Load { from: LearnSource::Field(from), to })
}

/// Fields without a name in OpenFlow (`dl_vlan`) have no place in learn.
fn addressable(parser: &Parser<'_>, field: Field, name: &str) -> Result<()> {
    let info = field.info();
    if !info.nxm.is_empty() || !info.oxm.is_empty() {
        return Ok(());
    }
    let error = parser.source.error(name, format!("{} has no place in learn", quoted(name)));
    Err(error.hint("vlan_tci[0..11] is the VLAN ID").field(name))
}

pub(super) fn print(learn: &Learn, printer: &mut Printer<'_>) {
    printer.text("learn(table=");
    printer.table(learn.table);
    let numbers = [
        ("idle_timeout", learn.idle_timeout, 0),
        ("hard_timeout", learn.hard_timeout, 0),
        ("fin_idle_timeout", learn.fin_idle_timeout, 0),
        ("fin_hard_timeout", learn.fin_hard_timeout, 0),
        ("priority", learn.priority, 32768),
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
        LearnSpec::Match { from: LearnSource::Immediate(value), to } if is_whole(*to) => {
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
