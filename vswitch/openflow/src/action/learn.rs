//! `learn(...)`.

use super::{BAD_ARGUMENT, BAD_LEN, put_short_header, subfield, subtype};
use crate::oxm;
use crate::wire::{Reader, Result, Writer, refuse};
use crate::{Codec, seconds};
use vswitch_flow::Action;
use vswitch_flow::action::{Learn, LearnSource, LearnSpec, limits};

/// Flags of the action.
mod flag {
    pub(super) const SEND_FLOW_REM: u16 = 1;
    pub(super) const DELETE_LEARNED: u16 = 2;
    pub(super) const WRITE_RESULT: u16 = 4;
}

/// Parts of the header of an element.
mod element {
    /// Bits that are matched, loaded or read.
    pub(super) const BITS: u16 = 0x3ff;
    /// A constant, not a field.
    pub(super) const IMMEDIATE: u16 = 1 << 13;
    pub(super) const LOAD: u16 = 1 << 11;
    pub(super) const OUTPUT: u16 = 2 << 11;
    /// Which of the above it is.
    pub(super) const TARGET: u16 = 3 << 11;
}

pub(super) fn read(body: &mut Reader<'_>, second: bool) -> Result<Action> {
    let mut learn = Learn {
        idle_timeout: body.u16()?.into(),
        hard_timeout: body.u16()?.into(),
        priority: body.u16()?,
        cookie: body.u64()?,
        ..Learn::default()
    };
    let flags = body.u16()?;
    learn.table = body.u8()?;
    body.zeros(1, BAD_ARGUMENT)?;
    (learn.fin_idle_timeout, learn.fin_hard_timeout) = (body.u16()?.into(), body.u16()?.into());
    let known = flag::SEND_FLOW_REM | flag::DELETE_LEARNED | if second { flag::WRITE_RESULT } else { 0 };
    if flags & !known != 0 || learn.table == u8::MAX {
        return refuse(BAD_ARGUMENT, format!("learn with flags {flags:#x} into table {}", learn.table));
    }
    learn.send_flow_rem = flags & flag::SEND_FLOW_REM != 0;
    learn.delete_learned = flags & flag::DELETE_LEARNED != 0;
    if second {
        learn.limit = body.u32()?;
        let start = body.u16()?;
        body.zeros(2, BAD_ARGUMENT)?;
        if flags & flag::WRITE_RESULT != 0 {
            learn.result = Some(subfield(oxm::read_header(body)?, start, 1)?);
        } else if start != 0 {
            return refuse(BAD_ARGUMENT, "learn has a place for a result that it does not write");
        }
    }
    learn.specs = elements(body)?.into();
    Ok(Action::Learn(Box::new(learn)))
}

fn elements(body: &mut Reader<'_>) -> Result<Vec<LearnSpec>> {
    let mut specs = Vec::new();
    while body.len() >= 2 {
        let header = body.u16()?;
        if header == 0 {
            break;
        }
        if specs.len() == limits::MAX_LEARN_SPECS {
            return refuse(BAD_ARGUMENT, format!("learn has more than {} elements", limits::MAX_LEARN_SPECS));
        }
        specs.push(spec(header, body)?);
    }
    body.zeros(body.len(), BAD_ARGUMENT)?;
    Ok(specs)
}

fn spec(header: u16, body: &mut Reader<'_>) -> Result<LearnSpec> {
    let bits = header & element::BITS;
    let source = if header & element::IMMEDIATE == 0 {
        LearnSource::Field(bits_at(bits, body)?)
    } else {
        let value = body.number(2 * usize::from(bits).div_ceil(16))?;
        let fits = |value: &u128| bits >= 128 || value >> bits == 0;
        let Some(value) = value.filter(fits) else {
            return refuse(BAD_ARGUMENT, format!("learn: a constant does not fit into {bits} bits"));
        };
        LearnSource::Immediate(value)
    };
    match (header & element::TARGET, source) {
        (0, from) => Ok(LearnSpec::Match { from, to: bits_at(bits, body)? }),
        (element::LOAD, from) => Ok(LearnSpec::Load { from, to: bits_at(bits, body)? }),
        (element::OUTPUT, LearnSource::Field(from)) => Ok(LearnSpec::Output(from)),
        _ => refuse(BAD_ARGUMENT, format!("learn has no element {header:#06x}")),
    }
}

fn bits_at(bits: u16, body: &mut Reader<'_>) -> Result<vswitch_flow::Subfield> {
    let mut header = Reader::new(body.take(4)?, BAD_LEN);
    let header = oxm::read_header(&mut header)?;
    subfield(header, body.u16()?, bits)
}

/// Writes the action from its subtype on.
pub(super) fn put(codec: Codec, learn: &Learn, out: &mut Writer) -> Result<()> {
    let second = learn.limit != 0 || learn.result.is_some();
    out.u16(if second { subtype::LEARN2 } else { subtype::LEARN });
    out.u16(seconds(learn.idle_timeout));
    out.u16(seconds(learn.hard_timeout));
    out.u16(learn.priority);
    out.u64(learn.cookie);
    let flag = |given: bool, flag: u16| if given { flag } else { 0 };
    out.u16(
        flag(learn.send_flow_rem, flag::SEND_FLOW_REM)
            | flag(learn.delete_learned, flag::DELETE_LEARNED)
            | flag(learn.result.is_some(), flag::WRITE_RESULT),
    );
    out.u8(learn.table);
    out.u8(0);
    out.u16(seconds(learn.fin_idle_timeout));
    out.u16(seconds(learn.fin_hard_timeout));
    if second {
        out.u32(learn.limit);
        out.u16(learn.result.map_or(0, |to| to.start.into()));
        out.u16(0);
        if let Some(to) = learn.result {
            put_short_header(codec, to, out)?;
        }
    }
    learn.specs.iter().try_for_each(|spec| put_spec(codec, spec, out))
}

fn put_spec(codec: Codec, spec: &LearnSpec, out: &mut Writer) -> Result<()> {
    let (target, from, to) = match spec {
        LearnSpec::Match { from, to } => (0, *from, Some(*to)),
        LearnSpec::Load { from, to } => (element::LOAD, *from, Some(*to)),
        LearnSpec::Output(from) => (element::OUTPUT, LearnSource::Field(*from), None),
    };
    let bits = match (to, from) {
        (Some(to), _) => to.len,
        (None, LearnSource::Field(from)) => from.len,
        (None, LearnSource::Immediate(_)) => 0,
    };
    let immediate = if matches!(from, LearnSource::Immediate(_)) { element::IMMEDIATE } else { 0 };
    out.u16(target | immediate | u16::from(bits));
    match from {
        LearnSource::Field(from) => {
            put_short_header(codec, from, out)?;
            out.u16(from.start.into());
        }
        LearnSource::Immediate(value) => out.number(value, 2 * usize::from(bits).div_ceil(16)),
    }
    if let Some(to) = to {
        put_short_header(codec, to, out)?;
        out.u16(to.start.into());
    }
    Ok(())
}
