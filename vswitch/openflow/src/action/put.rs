//! Writes lists of actions, and OpenFlow's own actions.

use super::{EXPERIMENTER, header_for, kind, put_nicira, set};
use crate::oxm::{Entry, Names, put_entry, put_header};
use crate::wire::{Result, Writer};
use crate::{Codec, Version};
use vswitch_flow::action::{Controller, Reason, port};
use vswitch_flow::{Action, Field, Subfield};

/// Writes a list of actions. Instructions among them are left out: see `crate::instruction`.
///
/// # Errors
/// When a field has no name in OpenFlow.
pub(crate) fn put_actions(codec: Codec, actions: &[Action], out: &mut Writer) -> Result<()> {
    actions.iter().try_for_each(|action| put_action(codec, action, out))
}

fn put_action(codec: Codec, action: &Action, out: &mut Writer) -> Result<()> {
    if let Action::SetField { field, value, mask } = action {
        return set::put(codec, Entry { field: *field, value: *value, mask: *mask }, out);
    }
    let start = out.len();
    let kind = standard_kind(codec, action);
    out.u16(kind.unwrap_or(EXPERIMENTER));
    out.u16(0);
    if kind.is_some() {
        put_standard(codec, action, out)?;
    } else if !put_nicira::put(codec, action, put_actions, out)? {
        out.0.truncate(start);
        return Ok(());
    }
    out.pad(start);
    out.length(start + 2, start);
    Ok(())
}

/// The type of an action that OpenFlow itself has.
fn standard_kind(codec: Codec, action: &Action) -> Option<u16> {
    let v15 = codec.version == Version::V15;
    Some(match action {
        Action::Output { max_len: None, .. } => kind::OUTPUT,
        Action::Controller(controller) if is_output(controller) => kind::OUTPUT,
        Action::Group(_) => kind::GROUP,
        Action::Meter(_) if v15 => kind::METER,
        Action::SetVlanVid(_) | Action::SetVlanPcp(_) => kind::SET_FIELD,
        Action::Move { .. } if v15 => kind::COPY_FIELD,
        Action::SetTtl(_) => kind::SET_NW_TTL,
        Action::DecTtl(ids) if matches!(**ids, [0]) => kind::DEC_NW_TTL,
        Action::PushVlan(_) => kind::PUSH_VLAN,
        Action::PopVlan => kind::POP_VLAN,
        _ => return None,
    })
}

/// A plain output to the controllers.
fn is_output(controller: &Controller) -> bool {
    let Controller { id, reason, max_len: _, userdata, pause, meter } = controller;
    *id == 0 && *reason == Reason::Action && userdata.is_empty() && !pause && meter.is_none()
}

/// Writes the body of an action.
fn put_standard(codec: Codec, action: &Action, out: &mut Writer) -> Result<()> {
    match action {
        Action::Output { port, .. } => output(*port, 0, out),
        Action::Controller(controller) => output(port::CONTROLLER, controller.max_len, out),
        Action::Group(number) | Action::Meter(number) => out.u32(*number),
        Action::SetVlanVid(vid) => set(codec, Field::VlanVid, u128::from(*vid) | 0x1000, out)?,
        Action::SetVlanPcp(pcp) => set(codec, Field::VlanPcp, (*pcp).into(), out)?,
        Action::Move { from, to } => copy_field(codec, *from, *to, out)?,
        Action::SetTtl(ttl) => out.u8(*ttl),
        Action::PushVlan(tpid) => out.u16(*tpid),
        _ => {}
    }
    Ok(())
}

fn output(port: u32, max_len: u16, out: &mut Writer) {
    out.u32(port);
    out.u16(max_len);
}

fn set(codec: Codec, field: Field, value: u128, out: &mut Writer) -> Result<()> {
    put_entry(codec, Entry { field, value, mask: field.exact_mask() }, Names::Version, out)
}

fn copy_field(codec: Codec, from: Subfield, to: Subfield, out: &mut Writer) -> Result<()> {
    out.u16(to.len.into());
    out.u16(from.start.into());
    out.u16(to.start.into());
    out.u16(0);
    put_header(header_for(codec, from.field, from.start + from.len, Names::Version)?, out);
    put_header(header_for(codec, to.field, to.start + to.len, Names::Version)?, out);
    Ok(())
}
