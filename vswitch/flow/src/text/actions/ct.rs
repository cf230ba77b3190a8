//! `ct(...)` and its `nat(...)`.

use super::format::Printer;
use super::parse::Parser;
use crate::action::{Ct, CtZone, Nat, rules};
use crate::text::scan::{Form, Result, Token, Tokens, quoted};
use crate::text::value::{number, push_ipv6};
use crate::{Action, Field};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ALGS: [(&str, u16); 2] = [("ftp", 21), ("tftp", 69)];

pub(super) fn parse<'a>(parser: &mut Parser<'a>, token: &Token<'a>) -> Result<Action> {
    const KEYS: [&str; 7] = ["commit", "force", "table", "zone", "nat", "exec", "alg"];
    let source = parser.source;
    let mut ct = Ct::default();
    let mut tokens = Tokens::new(source, token.value);
    while let Some(token) = tokens.next()? {
        let value = token.value;
        match token.key {
            "commit" => ct.commit = true,
            "force" => ct.force = true,
            "table" => ct.table = Some(parser.table(value)?),
            "zone" => ct.zone = zone(parser, value)?,
            "alg" => {
                let found = ALGS.iter().find(|(name, _)| *name == value);
                ct.alg = found.ok_or_else(|| source.unknown(value, "helper", ALGS.map(|(name, _)| name)))?.1;
            }
            "nat" => ct.nat = Some(nat(parser, value)?),
            "exec" => ct.exec = exec(parser, &token, &mut ct.nat)?,
            key => return Err(source.unknown(key, "argument of ct", KEYS)),
        }
    }
    source.judged(token.key, rules::commit(ct.commit, ct.force, ct.changes()))?;
    Ok(Action::Ct(Box::new(ct)))
}

fn zone(parser: &Parser<'_>, text: &str) -> Result<CtZone> {
    if text.bytes().next().is_some_and(|first| first.is_ascii_digit()) {
        return parser.source.u16("zone", text).map(CtZone::Immediate);
    }
    let sub = parser.subfield(text)?;
    parser.source.judged(text, rules::zone(sub))?;
    Ok(CtZone::Field(sub))
}

/// The actions of `exec(...)`. A `nat` among them is the same as one beside it, as in OVS.
fn exec<'a>(parser: &mut Parser<'a>, token: &Token<'a>, nat_of_ct: &mut Option<Nat>) -> Result<Box<[Action]>> {
    let mut actions = Vec::new();
    let mut tokens = Tokens::new(parser.source, token.value);
    while let Some(token) = tokens.next()? {
        let before = actions.len();
        match token.key {
            "nat" => *nat_of_ct = Some(nat(parser, token.value)?),
            // Not behind another depth of clones: only these three.
            "set_field" | "load" | "move" => parser.action(&token, &mut actions)?,
            key => {
                let error = parser.source.error(key, format!("{} is not allowed in exec", quoted(key)));
                return Err(error.hint("set_field, load or move to ct_mark or ct_label").code("OFPBAC_BAD_ARGUMENT"));
            }
        }
        for action in &actions[before..] {
            let (Action::SetField { field, .. } | Action::Move { to: crate::Subfield { field, .. }, .. }) = action
            else {
                continue;
            };
            if !matches!(field, Field::CtMark | Field::CtLabel) {
                let reason = format!("exec cannot set {}, only the connection's mark and label", field.name());
                let error = parser.source.error(token.value, reason);
                return Err(error.hint("set other fields before or behind ct").code("OFPBAC_BAD_ARGUMENT"));
            }
        }
    }
    Ok(actions.into())
}

/// The arguments of `nat(...)`.
fn nat(parser: &Parser<'_>, text: &str) -> Result<Nat> {
    const KEYS: [&str; 5] = ["src", "dst", "persistent", "hash", "random"];
    let source = parser.source;
    let (mut nat, mut ranges) = (Nat::default(), None);
    let from = source.column(text) - 1;
    let text = source.0.get(from..from + text.len()).unwrap_or_default();
    let mut tokens = Tokens::new(source, text);
    while let Some(token) = tokens.next()? {
        match token.key {
            "src" | "dst" => {
                if nat.source.is_some() {
                    let error =
                        source.error(token.key, "src and dst exclude each other").hint("give one of them, once");
                    return Err(error.field("nat"));
                }
                nat.source = Some(token.key == "src");
                if token.form != Form::Bare {
                    range(parser, token.value, &mut nat)?;
                    ranges = Some(token.value);
                }
            }
            "persistent" => nat.persistent = true,
            "hash" => nat.hash = true,
            "random" => nat.random = true,
            key => return Err(source.unknown(key, "argument of nat", KEYS)),
        }
    }
    nat.checked().map_err(|refusal| source.refused(ranges.unwrap_or(text), refusal))
}

/// `10.0.0.1`, `10.0.0.1-10.0.0.9`, `[fe80::1]-[fe80::9]:80-90`.
fn range(parser: &Parser<'_>, text: &str, nat: &mut Nat) -> Result<()> {
    let wrong = || {
        let error = parser.source.error(text, format!("{} is no range of addresses", quoted(text)));
        error.hint("ADDRESS[-ADDRESS][:PORT[-PORT]], IPv6 addresses in [] before ports").field("nat")
    };
    let (first, rest) = address(text).ok_or_else(wrong)?;
    let (last, rest) = match rest.strip_prefix('-') {
        Some(rest) => address(rest).ok_or_else(wrong)?,
        None => (first, rest),
    };
    nat.addresses = Some((first, last));
    if rest.is_empty() {
        return Ok(());
    }
    let ports = rest.strip_prefix(':').ok_or_else(wrong)?;
    let port = |text: &str| number::parse(text).and_then(|port| u16::try_from(port).ok()).ok_or_else(wrong);
    nat.ports = Some(match ports.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(ports)?, port(ports)?),
    });
    Ok(())
}

/// An address at the front of a text, and what follows it.
fn address(text: &str) -> Option<(IpAddr, &str)> {
    if let Some(inner) = text.strip_prefix('[') {
        let (address, rest) = inner.split_once(']')?;
        return Some((IpAddr::V6(address.parse::<Ipv6Addr>().ok()?), rest));
    }
    // IPv4 ends at the first character that is none of its own; so does IPv6, to which colons
    // belong.
    let v4_len = text.bytes().position(|byte| !byte.is_ascii_digit() && byte != b'.').unwrap_or(text.len());
    if let Ok(v4) = text[..v4_len].parse::<Ipv4Addr>() {
        return Some((IpAddr::V4(v4), &text[v4_len..]));
    }
    let v6_len = text.bytes().position(|b| !b.is_ascii_hexdigit() && b != b':' && b != b'.').unwrap_or(text.len());
    Some((IpAddr::V6(text[..v6_len].parse::<Ipv6Addr>().ok()?), &text[v6_len..]))
}

pub(super) fn print(ct: &Ct, printer: &mut Printer<'_>) {
    printer.text("ct(");
    let start = printer.out.len();
    if ct.commit {
        printer.text("commit,");
    }
    if ct.force {
        printer.text("force,");
    }
    if let Some(table) = ct.table {
        printer.text("table=");
        printer.table(table);
        printer.text(",");
    }
    match ct.zone {
        CtZone::Immediate(0) => {}
        CtZone::Immediate(zone) => printer.push(format_args!("zone={zone},")),
        CtZone::Field(sub) => {
            printer.text("zone=");
            printer.subfield(sub);
            printer.text(",");
        }
    }
    if let Some(nat) = &ct.nat {
        print_nat(nat, printer);
        printer.text(",");
    }
    if !ct.exec.is_empty() {
        printer.text("exec(");
        super::format::list(&ct.exec, printer);
        printer.text("),");
    }
    match ALGS.iter().find(|(_, port)| *port == ct.alg) {
        Some((name, _)) => printer.push(format_args!("alg={name},")),
        None if ct.alg != 0 => printer.push(format_args!("alg={},", ct.alg)),
        None => {}
    }
    if printer.out.len() > start {
        // The last comma.
        printer.out.pop();
    }
    printer.text(")");
}

fn print_nat(nat: &Nat, printer: &mut Printer<'_>) {
    let Some(source) = nat.source else { return printer.text("nat") };
    printer.text(if source { "nat(src" } else { "nat(dst" });
    if let Some((first, last)) = nat.addresses {
        printer.text("=");
        print_address(first, nat.ports.is_some(), printer);
        if last != first {
            printer.text("-");
            print_address(last, nat.ports.is_some(), printer);
        }
        match nat.ports {
            Some((first, last)) if first == last => printer.push(format_args!(":{first}")),
            Some((first, last)) => printer.push(format_args!(":{first}-{last}")),
            None => {}
        }
        for (given, name) in [(nat.persistent, ",persistent"), (nat.hash, ",hash"), (nat.random, ",random")] {
            if given {
                printer.text(name);
            }
        }
    }
    printer.text(")");
}

fn print_address(address: IpAddr, with_ports: bool, printer: &mut Printer<'_>) {
    match address {
        IpAddr::V4(address) => printer.push(format_args!("{address}")),
        IpAddr::V6(address) if with_ports => {
            printer.text("[");
            push_ipv6(u128::from(address), u128::MAX, printer.out);
            printer.text("]");
        }
        IpAddr::V6(address) => push_ipv6(u128::from(address), u128::MAX, printer.out),
    }
}
