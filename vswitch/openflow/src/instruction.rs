//! Instructions of a flow: `apply_actions` around the list, and those that are actions in the
//! language (`goto_table`, `write_metadata`, ...).

use crate::action::{put_actions, read_actions};
use crate::wire::{Reader, Result, Writer, refusal, refuse};
use crate::{Codec, Version};
use vswitch_flow::Action;

const BAD_LEN: &str = "OFPBIC_BAD_LEN";

mod kind {
    pub(super) const GOTO_TABLE: u16 = 1;
    pub(super) const WRITE_METADATA: u16 = 2;
    pub(super) const WRITE_ACTIONS: u16 = 3;
    pub(super) const APPLY_ACTIONS: u16 = 4;
    pub(super) const CLEAR_ACTIONS: u16 = 5;
    pub(super) const METER: u16 = 6;
    pub(super) const EXPERIMENTER: u16 = 0xffff;
}

/// The instructions by type, each at most once.
#[derive(Default)]
struct Instructions<'a> {
    bodies: [Option<Reader<'a>>; 7],
}

/// All instructions as one list, in the order in which they take effect.
pub(crate) fn read(codec: Codec, input: &mut Reader<'_>) -> Result<Vec<Action>> {
    if !input.len().is_multiple_of(8) {
        return refuse("OFPBRC_BAD_LEN", format!("instructions of {} bytes", input.len()));
    }
    let mut found = Instructions::default();
    while !input.is_empty() {
        found.add(codec, input)?;
    }
    found.actions(codec)
}

impl<'a> Instructions<'a> {
    fn add(&mut self, codec: Codec, input: &mut Reader<'a>) -> Result<()> {
        let short = || refusal(BAD_LEN, "an instruction is longer than what it is in");
        let mut header = Reader::new(input.take(4).map_err(|_| short())?, BAD_LEN);
        let (kind, len) = (header.u16()?, usize::from(header.u16()?));
        if len < 8 || !len.is_multiple_of(8) {
            return refuse(BAD_LEN, format!("an instruction of {len} bytes"));
        }
        let body = input.part(len - 4, BAD_LEN).map_err(|_| short())?;
        let served = match kind {
            kind::METER => codec.version == Version::V13,
            kind::EXPERIMENTER => {
                return refuse("OFPBIC_BAD_EXPERIMENTER", "instructions of experimenters are not served");
            }
            kind => (kind::GOTO_TABLE..=kind::CLEAR_ACTIONS).contains(&kind),
        };
        let slot = self.bodies.get_mut(usize::from(kind)).filter(|_| served);
        let Some(slot) = slot else {
            return refuse("OFPBIC_UNKNOWN_INST", format!("instructions of type {kind} are not served"));
        };
        if slot.replace(body).is_some() {
            return refuse("OFPBIC_DUP_INST", format!("two instructions of type {kind}"));
        }
        let fixed = match kind {
            kind::WRITE_METADATA => 24,
            kind::WRITE_ACTIONS | kind::APPLY_ACTIONS => len,
            _ => 8,
        };
        if fixed != len {
            return refuse(BAD_LEN, format!("an instruction of type {kind} has {fixed} bytes, not {len}"));
        }
        Ok(())
    }

    fn body(&self, kind: u16) -> Option<Reader<'a>> {
        self.bodies[usize::from(kind)]
    }

    fn actions(&self, codec: Codec) -> Result<Vec<Action>> {
        let mut actions = Vec::new();
        if let Some(mut body) = self.body(kind::METER) {
            actions.push(Action::Meter(body.u32()?));
        }
        if let Some(mut body) = self.body(kind::APPLY_ACTIONS) {
            body.skip(4)?;
            actions.append(&mut read_actions(codec, &mut body)?);
        }
        if self.body(kind::CLEAR_ACTIONS).is_some() {
            actions.push(Action::ClearActions);
        }
        if let Some(mut body) = self.body(kind::WRITE_ACTIONS) {
            body.skip(4)?;
            let written = read_actions(codec, &mut body)?;
            actions.push(Action::WriteActions(written.into()));
        }
        if let Some(mut body) = self.body(kind::WRITE_METADATA) {
            body.skip(4)?;
            let (value, mask) = (body.u64()?, body.u64()?);
            actions.push(Action::WriteMetadata { value, mask });
        }
        if let Some(mut body) = self.body(kind::GOTO_TABLE) {
            actions.push(Action::GotoTable(body.u8()?));
        }
        Ok(actions)
    }
}

/// Writes a flow's list as instructions.
pub(crate) fn put(codec: Codec, actions: &[Action], out: &mut Writer) -> Result<()> {
    let is_instruction = |action: &Action| match action {
        Action::ClearActions | Action::WriteActions(_) | Action::WriteMetadata { .. } | Action::GotoTable(_) => true,
        Action::Meter(_) => codec.version == Version::V13,
        _ => false,
    };
    let mut rest = actions;
    while let Some(first) = rest.first() {
        let len = rest.iter().position(is_instruction).unwrap_or(rest.len());
        if len > 0 {
            put_list(codec, kind::APPLY_ACTIONS, &rest[..len], out)?;
        } else {
            put_one(codec, first, out)?;
        }
        rest = &rest[len.max(1)..];
    }
    Ok(())
}

fn put_list(codec: Codec, kind: u16, actions: &[Action], out: &mut Writer) -> Result<()> {
    let start = begin(kind, out);
    out.zeros(4);
    put_actions(codec, actions, out)?;
    out.length(start + 2, start);
    Ok(())
}

fn begin(kind: u16, out: &mut Writer) -> usize {
    let start = out.len();
    out.u16(kind);
    out.u16(0);
    start
}

fn put_one(codec: Codec, action: &Action, out: &mut Writer) -> Result<()> {
    let start = match action {
        Action::Meter(meter) => {
            let start = begin(kind::METER, out);
            out.u32(*meter);
            start
        }
        Action::WriteActions(actions) => return put_list(codec, kind::WRITE_ACTIONS, actions, out),
        Action::WriteMetadata { value, mask } => {
            let start = begin(kind::WRITE_METADATA, out);
            out.zeros(4);
            out.u64(*value);
            out.u64(*mask);
            start
        }
        Action::GotoTable(table) => {
            let start = begin(kind::GOTO_TABLE, out);
            out.u8(*table);
            start
        }
        _ => begin(kind::CLEAR_ACTIONS, out),
    };
    out.zeros((start + 8).saturating_sub(out.len()));
    out.length(start + 2, start);
    Ok(())
}
