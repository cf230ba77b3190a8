//! `reject(tcp=reset,icmp=3,icmp6=4,IN_PORT)`, `reject(mtu=1400,IN_PORT)`: how the packet is
//! refused, then what becomes of the answer.

use super::format::{self, Printer};
use super::parse::Parser;
use crate::Action;
use crate::action::{Reject, rules};
use crate::text::scan::{Form, Result, Token, Tokens};

/// What `tcp=` may be.
const WAYS: [(&str, bool); 2] = [("reset", true), ("icmp", false)];

pub(super) fn parse<'a>(parser: &mut Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let source = parser.source;
    let mut reject = Reject::default();
    let mut tokens = Tokens::new(source, token.value);
    loop {
        let rest = tokens.rest();
        let Some(Token { key, form, value, .. }) = tokens.next()? else { break };
        match key {
            "tcp" if form == Form::Value => {
                let found = WAYS.iter().find(|(name, _)| *name == value);
                reject.reset = found.ok_or_else(|| source.unknown(value, "answer to TCP", ["reset", "icmp"]))?.1;
            }
            "icmp" if form == Form::Value => reject.icmp = source.u8("code of ICMP", value)?,
            "icmp6" if form == Form::Value => reject.icmp6 = source.u8("code of ICMPv6", value)?,
            "mtu" if form == Form::Value => reject.mtu = source.u16("MTU", value)?,
            // Behind the parameters comes the list, of which this is the first action.
            _ => {
                reject.actions = parser.list(rest)?.into();
                break;
            }
        }
    }
    source.judged(token.value, rules::reject(&reject))?;
    Ok(Action::Reject(Box::new(reject)))
}

/// What is not as if it was not given, and the list.
pub(super) fn print(reject: &Reject, printer: &mut Printer<'_>) {
    let Reject { reset, icmp, icmp6, mtu, actions } = reject;
    let default = Reject::default();
    printer.text("reject(");
    if *reset != default.reset {
        let name = WAYS.iter().find(|(_, way)| way == reset).map_or("", |(name, _)| name);
        printer.push(format_args!("tcp={name},"));
    }
    if *icmp != default.icmp {
        printer.push(format_args!("icmp={icmp},"));
    }
    if *icmp6 != default.icmp6 {
        printer.push(format_args!("icmp6={icmp6},"));
    }
    if *mtu != default.mtu {
        printer.push(format_args!("mtu={mtu},"));
    }
    format::list(actions, printer);
    printer.text(")");
}
