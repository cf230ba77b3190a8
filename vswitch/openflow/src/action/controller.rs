//! `controller(...)`: two actions of Nicira, and the properties of the second.

use super::subtype;
use crate::property::{properties, put_property, put_u16};
use crate::wire::{Reader, Result, Writer, refuse};
use vswitch_flow::Action;
use vswitch_flow::action::{Controller, Reason};

const MUST_BE_ZERO: &str = "NXBAC_MUST_BE_ZERO";

/// Types of properties.
mod kind {
    pub(super) const MAX_LEN: u16 = 0;
    pub(super) const CONTROLLER_ID: u16 = 1;
    pub(super) const REASON: u16 = 2;
    pub(super) const USERDATA: u16 = 3;
    pub(super) const PAUSE: u16 = 4;
    pub(super) const METER_ID: u16 = 5;
}

/// A reason by its number.
pub(crate) fn reason(number: u8, code: &'static str) -> Result<Reason> {
    Ok(match number {
        0 => Reason::NoMatch,
        1 => Reason::Action,
        2 => Reason::InvalidTtl,
        3 => Reason::ActionSet,
        4 => Reason::Group,
        5 => Reason::PacketOut,
        _ => return refuse(code, format!("no packet-in has the reason {number}")),
    })
}

/// The number of a reason.
pub(crate) const fn reason_number(reason: Reason) -> u8 {
    match reason {
        Reason::NoMatch => 0,
        Reason::Action => 1,
        Reason::InvalidTtl => 2,
        Reason::ActionSet => 3,
        Reason::Group => 4,
        Reason::PacketOut => 5,
    }
}

pub(super) fn read(body: &mut Reader<'_>) -> Result<Action> {
    let (max_len, id, number) = (body.u16()?, body.u16()?, body.u8()?);
    body.zeros(1, MUST_BE_ZERO)?;
    let reason = reason(number, "OFPBAC_BAD_ARGUMENT")?;
    Ok(Action::Controller(Box::new(Controller { id, reason, max_len, ..Controller::default() })))
}

pub(super) fn read2(body: &mut Reader<'_>) -> Result<Action> {
    body.zeros(6, MUST_BE_ZERO)?;
    let mut controller = Controller::default();
    for property in properties(*body) {
        let mut property = property?;
        match property.kind {
            kind::MAX_LEN => controller.max_len = property.number_u16()?,
            kind::CONTROLLER_ID => controller.id = property.number_u16()?,
            kind::REASON => controller.reason = reason(property.number_u8()?, "OFPBAC_BAD_ARGUMENT")?,
            kind::USERDATA => controller.userdata = property.data.rest().into(),
            kind::PAUSE => controller.pause = true,
            kind::METER_ID => controller.meter = Some(property.number_u32()?),
            other => return refuse("OFPBPC_BAD_TYPE", format!("controller has no property {other}")),
        }
    }
    body.rest();
    Ok(Action::Controller(Box::new(controller)))
}

/// Writes the subtype of the action and what is behind it.
pub(super) fn put(controller: &Controller, out: &mut Writer) {
    let Controller { id, reason, max_len, userdata, pause, meter } = controller;
    if userdata.is_empty() && !pause && meter.is_none() {
        out.u16(subtype::CONTROLLER);
        out.u16(*max_len);
        out.u16(*id);
        out.u8(reason_number(*reason));
        out.u8(0);
        return;
    }
    out.u16(subtype::CONTROLLER2);
    out.zeros(6);
    if *max_len != u16::MAX {
        put_u16(kind::MAX_LEN, *max_len, out);
    }
    if *id != 0 {
        put_u16(kind::CONTROLLER_ID, *id, out);
    }
    if *reason != Reason::Action {
        put_property(kind::REASON, &[reason_number(*reason)], out);
    }
    if !userdata.is_empty() {
        put_property(kind::USERDATA, userdata, out);
    }
    if *pause {
        put_property(kind::PAUSE, &[], out);
    }
    if let Some(meter) = meter {
        put_property(kind::METER_ID, &meter.to_be_bytes(), out);
    }
}
