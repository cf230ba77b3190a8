//! Ways out of a list: ports, controllers, other tables.

use super::parse::{Parser, REASONS};
use crate::Action;
use crate::action::{Controller, port, rules};
use crate::text::scan::{Form, Result, Token, Tokens, arguments, quoted};
use crate::text::{parse_port, parse_subfield};

/// `output:2`, `output:reg0[0..15]`, `output(port=1,max_len=100)`.
pub(super) fn output<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let text = token.value;
    if text.contains("max_len") && text.contains("port") {
        return truncated(parser, token);
    }
    match parse_port(text, parser.names) {
        Ok(port::CONTROLLER) => Ok(Action::Controller(Box::default())),
        Ok(port) => Ok(Action::Output { port, max_len: None }),
        // A name of a field, with or without bits, else it was meant to be a port.
        Err(no_port) => match parse_subfield(text) {
            Ok(from) => Ok(Action::OutputField { from, max_len: None }),
            Err(no_field) if text.contains('[') => Err(parser.source.within(text, no_field)),
            Err(_) => Err(parser.source.within(text, no_port).field("output")),
        },
    }
}

fn truncated<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let (mut port, mut max_len) = (None, None);
    let mut tokens = Tokens::new(parser.source, token.value);
    while let Some(token) = tokens.next()? {
        match token.key {
            "port" => port = Some(parser.port(token.value)?),
            "max_len" => {
                max_len = Some(parser.source.u16("max_len", token.value)?);
            }
            key => return Err(parser.source.unknown(key, "argument of output", ["port", "max_len"])),
        }
    }
    match port {
        Some(port) => {
            let rule = max_len.map_or(Ok(()), |max_len| rules::truncated(port, max_len));
            parser.source.judged(token.value, rule)?;
            Ok(Action::Output { port, max_len })
        }
        None => Err(parser.source.error(token.value, "output has no port").hint("output(port=N,max_len=N)")),
    }
}

/// `controller`, `controller:128`, `controller(reason=no_match,id=3,...)`.
pub(super) fn controller<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let source = parser.source;
    let mut controller = Controller::default();
    let is_number = !token.value.is_empty() && token.value.bytes().all(|byte| byte.is_ascii_digit());
    if token.form == Form::Value || is_number {
        controller.max_len = source.u16("max_len", token.value)?;
        return Ok(Action::Controller(Box::new(controller)));
    }
    let mut tokens = Tokens::new(source, token.value);
    while let Some(token) = tokens.next()? {
        let value = token.value;
        match token.key {
            "max_len" => controller.max_len = source.u16("max_len", value)?,
            "id" => controller.id = source.u16("controller id", value)?,
            "reason" => {
                let found = REASONS.iter().find(|(name, _)| *name == value);
                let names = REASONS.map(|(name, _)| name);
                controller.reason = found.ok_or_else(|| source.unknown(value, "reason", names))?.1;
            }
            "userdata" => controller.userdata = parser.hex(value)?.into(),
            "pause" => controller.pause = true,
            "meter_id" => controller.meter = Some(source.u32("meter id", value)?),
            key => {
                let keys = ["max_len", "id", "reason", "userdata", "pause", "meter_id"];
                return Err(source.unknown(key, "argument of controller", keys));
            }
        }
    }
    Ok(Action::Controller(Box::new(controller)))
}

/// `resubmit:2`, `resubmit(2,)`, `resubmit(,5)`, `resubmit(2,5,ct)`.
pub(super) fn resubmit<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let mut parts = arguments(token.value);
    let port = match parts.next() {
        None | Some("") => None,
        Some(text) => Some(parser.port(text)?),
    };
    let table = match parts.next() {
        None | Some("" | "255") => None,
        Some(text) => Some(parser.table(text)?),
    };
    let ct = match parts.next() {
        None | Some("") => false,
        Some("ct") => true,
        Some(other) => return Err(parser.source.unknown(other, "argument of resubmit", ["ct"])),
    };
    if let Some(more) = parts.next() {
        let error = parser.source.error(more, format!("resubmit has no fourth argument {}", quoted(more)));
        return Err(error.hint("resubmit(PORT,TABLE,ct)"));
    }
    let action = Action::Resubmit { port, table, ct }.normal();
    if let Action::Resubmit { port, table, .. } = action {
        parser.source.judged(token.key, rules::resubmit(port, table))?;
    }
    Ok(action)
}
