//! Reads lists of actions, and OpenFlow's own actions.

use super::body::{Nested, entry_action, frame, move_of};
use super::nicira;
use super::{BAD_ARGUMENT, EXPERIMENTER, kind, port_32};
use crate::error::{NICIRA, ONF};
use crate::wire::{Reader, Result, refuse};
use crate::{Codec, Version};
use vswitch_flow::action::{Controller, port};
use vswitch_flow::{Action, Field};

/// ONF's number of `copy_field` for OpenFlow 1.3.
const ONF_COPY_FIELD: u16 = 3200;

/// All actions of a list.
pub(crate) fn read_actions(codec: Codec, input: &mut Reader<'_>) -> Result<Vec<Action>> {
    read_nested(codec, input, Nested::new(read_nested))
}

/// The same of a list that may be in others.
fn read_nested(codec: Codec, input: &mut Reader<'_>, nested: Nested) -> Result<Vec<Action>> {
    let mut actions = Vec::new();
    while !input.is_empty() {
        let (kind, body) = frame(input)?;
        let action = if kind == EXPERIMENTER { experimenter(codec, body, nested) } else { standard(codec, kind, body) };
        actions.push(action?);
    }
    Ok(actions)
}

fn experimenter(codec: Codec, mut body: Reader<'_>, nested: Nested) -> Result<Action> {
    let id = body.u32()?;
    match id {
        NICIRA => {
            let subtype = body.u16()?;
            nicira::action(codec, subtype, body, nested)
        }
        ONF => match body.u16()? {
            ONF_COPY_FIELD if codec.version == Version::V13 => {
                body.skip(2)?;
                copy_field(body)
            }
            kind => refuse("OFPBAC_BAD_VENDOR_TYPE", format!("ONF's action {kind} is not served")),
        },
        _ => refuse("OFPBAC_BAD_VENDOR", format!("actions of experimenter {id:#x} are not served")),
    }
}

fn standard(codec: Codec, kind: u16, mut body: Reader<'_>) -> Result<Action> {
    let v15 = codec.version == Version::V15;
    let action = match kind {
        kind::OUTPUT => output(&mut body)?,
        kind::SET_VLAN_VID..=kind::SET_TP_DST => return deprecated(kind, body),
        kind::PUSH_VLAN => {
            let tpid = body.u16()?;
            body.skip(2)?;
            Action::PushVlan(tpid)
        }
        kind::POP_VLAN => {
            body.skip(4)?;
            Action::PopVlan
        }
        kind::GROUP => Action::Group(body.u32()?),
        kind::SET_NW_TTL => {
            let ttl = body.u8()?;
            body.skip(3)?;
            Action::SetTtl(ttl)
        }
        kind::DEC_NW_TTL => {
            body.skip(4)?;
            Action::DecTtl([0].into())
        }
        kind::SET_FIELD => return set_field(&mut body, v15),
        kind::COPY_FIELD if v15 => return copy_field(body),
        kind::METER if v15 => Action::Meter(body.u32()?),
        _ => return refuse("OFPBAC_BAD_TYPE", format!("actions of type {kind} are not served")),
    };
    body.end()?;
    Ok(action)
}

fn output(body: &mut Reader<'_>) -> Result<Action> {
    let port = port_32(body.u32()?, "OFPBAC_BAD_OUT_PORT")?;
    let max_len = body.u16()?;
    body.skip(6)?;
    if port == port::CONTROLLER {
        return Ok(Action::Controller(Box::new(Controller { max_len, ..Controller::default() })));
    }
    Ok(Action::Output { port, max_len: None })
}

/// Actions of OpenFlow 1.1 that set fields; Open vSwitch takes them in later versions, too.
fn deprecated(kind: u16, mut body: Reader<'_>) -> Result<Action> {
    const FIELDS: [(Field, usize, usize); 10] = [
        (Field::VlanVid, 2, 2),
        (Field::VlanPcp, 1, 3),
        (Field::EthSrc, 6, 6),
        (Field::EthDst, 6, 6),
        (Field::NwSrc, 4, 0),
        (Field::NwDst, 4, 0),
        (Field::NwTos, 1, 3),
        (Field::NwEcn, 1, 3),
        (Field::TpSrc, 2, 2),
        (Field::TpDst, 2, 2),
    ];
    let (field, bytes, padding) = FIELDS[usize::from(kind - kind::SET_VLAN_VID)];
    let value = body.number(bytes)?.unwrap_or_default();
    body.skip(padding)?;
    body.end()?;
    let value = if field == Field::VlanVid { value | 0x1000 } else { value };
    let good = if field == Field::VlanVid { value <= 0x1fff } else { value & !field.own_bits() == 0 };
    if !good {
        return refuse(BAD_ARGUMENT, format!("{value:#x} is no {}", field.name()));
    }
    Ok(Action::SetField { field, value, mask: field.exact_mask() })
}

fn set_field(body: &mut Reader<'_>, masks: bool) -> Result<Action> {
    let action = entry_action(body)?;
    match action {
        Action::SetField { field, mask, .. } if !masks && mask != field.exact_mask() => {
            refuse("OFPBAC_BAD_SET_MASK", format!("{} is set whole in OpenFlow 1.3", field.name()))
        }
        action => Ok(action),
    }
}

fn copy_field(mut body: Reader<'_>) -> Result<Action> {
    let (len, source, target) = (body.u16()?, body.u16()?, body.u16()?);
    body.skip(2)?;
    move_of(len, source, target, body)
}
