//! Actions that read and write fields.

use super::parse::Parser;
use crate::action::rules;
use crate::field::number::VLAN_PRESENT;
use crate::text::scan::{Result, Token, quoted, words};
use crate::text::value::number;
use crate::text::{parse_value, value};
use crate::{Action, Field};

/// The field that an action's name of a field means. OVS gives `tp_src` to TCP.
const fn target(field: Field) -> Field {
    match field {
        Field::TpSrc => Field::TcpSrc,
        Field::TpDst => Field::TcpDst,
        field => field,
    }
}

pub(super) fn writable(parser: &Parser<'_>, field: Field, name: &str) -> Result<()> {
    parser.source.judged(name, rules::writable(field)).map_err(|error| error.field(name))
}

/// `set_field:VALUE[/MASK]->FIELD`
pub(super) fn set_field<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let (text, name) = parser.arrow(token.value, "set_field")?;
    let field = target(parser.field(name)?);
    writable(parser, field, name)?;
    let (value, mask) = field_value(parser, field, text, name)?;
    parser.source.judged(text, rules::set_field(field, value, mask)).map_err(|error| error.field(name))?;
    Ok(Action::SetField { field, value, mask })
}

/// Value and mask to set. Fields that a match can only look at as a whole can be set in parts:
/// `load` does, and what it did is printed as `set_field:4/0x4->nw_tos`. (ovs-ofctl prints that,
/// too, but cannot read it.)
fn field_value(parser: &Parser<'_>, field: Field, text: &str, name: &str) -> Result<(u128, u128)> {
    match text.split_once('/') {
        Some((value, mask)) if !field.info().maskable => {
            let bits = field.named_bits();
            let (value, mask) = (fitting(parser, value, bits)?, fitting(parser, mask, bits)?);
            let is_whole = mask & field.exact_mask() == field.exact_mask();
            Ok((value, if is_whole { field.exact_mask() } else { mask }))
        }
        _ => parse_value(field, text, parser.names).map_err(|error| parser.source.within(text, error).field(name)),
    }
}

/// `load:VALUE->FIELD[FIRST..LAST]`
pub(super) fn load<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let (text, name) = parser.arrow(token.value, "load")?;
    let mut to = parser.subfield(name)?;
    to.field = target(to.field);
    writable(parser, to.field, name)?;
    let value = fitting(parser, text, to.len)? << to.start;
    let whole = to.mask() == to.field.ones() || to.start == 0 && to.len == to.field.info().bits;
    let (field, mask) = (to.field, if whole { to.field.exact_mask() } else { to.mask() });
    parser.source.judged(text, rules::set_field(field, value, mask)).map_err(|error| error.field(name))?;
    Ok(Action::SetField { field, value, mask })
}

/// An integer of so many bits.
pub(super) fn fitting(parser: &Parser<'_>, text: &str, bits: u8) -> Result<u128> {
    let Some(value) = number::parse(text) else {
        return Err(parser
            .source
            .error(text, format!("{} is no number", quoted(text)))
            .hint("decimal, or 0x hexadecimal"));
    };
    if bits < 128 && value >> bits != 0 {
        return Err(parser
            .source
            .error(text, format!("{} does not fit into {bits} bits", quoted(text)))
            .hint(format!("at most {:#x}", (1u128 << bits) - 1))
            .code("OFPBAC_BAD_ARGUMENT"));
    }
    Ok(value)
}

/// `move:FIELD->FIELD`
pub(super) fn copy<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let (from, to) = parser.arrow(token.value, "move")?;
    let (name, from, to) = (to, parser.subfield(from)?, parser.subfield(to)?);
    writable(parser, to.field, name)?;
    parser.source.judged(token.value, rules::as_many(from, to)).map_err(|error| error.field(name))?;
    Ok(Action::Move { from, to })
}

/// `check_pkt_larger(1500)->reg0[0]`
pub(super) fn check_pkt_larger<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    // `check_pkt_larger:1500->reg0[0]` too.
    let (len, name) = match token.target {
        "" => parser.arrow(token.value, "check_pkt_larger")?,
        target => (token.value, target),
    };
    let to = parser.subfield(name)?;
    parser.source.judged(name, rules::one_bit(to, "check_pkt_larger"))?;
    writable(parser, to.field, name)?;
    Ok(Action::CheckPktLarger { len: parser.source.u16("number of bytes", len)?, to })
}

/// `delete_field:tun_metadata0`
pub(super) fn delete_field<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let field = parser.field(token.value)?;
    parser.source.judged(token.value, rules::delete_field(field))?;
    Ok(Action::DeleteField(field))
}

/// `write_metadata:VALUE[/MASK]`
pub(super) fn write_metadata<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let (value, mask) = match token.value.split_once('/') {
        Some((value, mask)) => (value, parser.source.u64("mask", mask)?),
        None => (token.value, u64::MAX),
    };
    Ok(Action::WriteMetadata { value: parser.source.u64("metadata", value)?, mask })
}

/// `push_vlan:0x8100`
pub(super) fn push_vlan<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let tpid = parser.source.u16("ethertype", token.value)?;
    parser.source.judged(token.value, rules::push_vlan(tpid))?;
    Ok(Action::PushVlan(tpid))
}

/// `dec_ttl`, `dec_ttl(1,2)`.
pub(super) fn dec_ttl<'a>(parser: &Parser<'a>, token: &Token<'a>) -> Result<Action> {
    let ids: Vec<u16> = words(token.value).map(|id| parser.source.u16("controller id", id)).collect::<Result<_>>()?;
    parser.source.judged(token.value, rules::dec_ttl(ids.len()))?;
    Ok(Action::DecTtl(ids.into()))
}

/// The actions of OpenFlow 1.0 and 1.1 that are fields to set in 1.5. None: it is none of them.
pub(super) fn legacy<'a>(parser: &Parser<'a>, key: &str, token: &Token<'a>) -> Result<Option<Action>> {
    let text = token.value;
    let source = parser.source;
    let set = |field: Field, value: u128| Some(Action::SetField { field, value, mask: field.exact_mask() });
    let whole = |field: Field| {
        let (value, mask) = parse_value(field, text, parser.names).map_err(|error| source.within(text, error))?;
        if mask != field.exact_mask() {
            return Err(source.error(text, format!("{key} takes no mask")).hint("use set_field").field(token.key));
        }
        Ok(set(field, value))
    };
    let small = |what: &str, most: u64| source.number(what, text, 0, most);
    Ok(match key {
        "mod_dl_src" => whole(Field::EthSrc)?,
        "mod_dl_dst" => whole(Field::EthDst)?,
        "mod_nw_src" => whole(Field::NwSrc)?,
        "mod_nw_dst" => whole(Field::NwDst)?,
        "mod_tp_src" => set(Field::TpSrc, small("port", 0xffff)?.into()),
        "mod_tp_dst" => set(Field::TpDst, small("port", 0xffff)?.into()),
        "mod_nw_tos" => match small("TOS", 252)? {
            tos if tos % 4 == 0 => set(Field::IpDscp, u128::from(tos / 4)),
            _ => {
                let error = source.error(text, format!("{} is no TOS without ECN", quoted(text)));
                return Err(error.hint("a multiple of 4 from 0 to 252; mod_nw_ecn sets the rest").field(token.key));
            }
        },
        "mod_nw_ecn" => set(Field::NwEcn, small("ECN", 3)?.into()),
        "mod_nw_ttl" | "set_nw_ttl" => Some(Action::SetTtl(source.u8("TTL", text)?)),
        "mod_vlan_vid" => Some(Action::SetVlanVid(u16::try_from(small("VLAN ID", 0xfff)?).unwrap_or_default())),
        "mod_vlan_pcp" => Some(Action::SetVlanPcp(u8::try_from(small("VLAN priority", 7)?).unwrap_or_default())),
        "set_vlan_vid" => set(Field::VlanVid, u128::from(small("VLAN ID", 0xfff)? | u64::from(VLAN_PRESENT))),
        "set_vlan_pcp" => set(Field::VlanPcp, small("VLAN priority", 7)?.into()),
        "set_tunnel" | "set_tunnel64" => set(Field::TunId, source.u64("tunnel id", text)?.into()),
        _ => None,
    })
}

/// Writes a value for a set_field.
pub(super) fn print_value(field: Field, value: u128, mask: u128, printer: &mut super::format::Printer<'_>) {
    value::format_value(field, value, mask, printer.style, printer.names, printer.out);
}
