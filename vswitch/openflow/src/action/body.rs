//! What bodies of actions have in common: frames, entries, moves, and lists in them.

use super::{BAD_ARGUMENT, BAD_LEN, MAX_DEPTH, subfield};
use crate::Codec;
use crate::oxm::{self, Entry};
use crate::wire::{Reader, Result, refuse};
use vswitch_flow::{Action, Refusal};

/// Reads a list that is in another.
type ReadList = fn(Codec, &mut Reader<'_>, Nested) -> Result<Vec<Action>>;

/// How lists in an action are read, and how deep the action is nested itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nested {
    read: ReadList,
    depth: usize,
}

impl Nested {
    pub(super) const fn new(read: ReadList) -> Self {
        Self { read, depth: 0 }
    }

    /// Reads a list in an action.
    pub(super) fn list(self, codec: Codec, input: &mut Reader<'_>) -> Result<Vec<Action>> {
        if self.depth >= MAX_DEPTH {
            return refuse(BAD_ARGUMENT, format!("actions are nested more than {MAX_DEPTH} levels deep"));
        }
        (self.read)(codec, input, Self { depth: self.depth + 1, ..self })
    }
}

/// Type and body of the next action.
pub(super) fn frame<'a>(input: &mut Reader<'a>) -> Result<(u16, Reader<'a>)> {
    let mut header = Reader::new(input.take(4)?, BAD_LEN);
    let (kind, len) = (header.u16()?, usize::from(header.u16()?));
    if len < 8 || !len.is_multiple_of(8) || len - 4 > input.len() {
        let reason = format!("an action of {len} bytes, of which {} are there", input.len() + 4);
        return refuse(BAD_LEN, reason);
    }
    Ok((kind, input.part(len - 4, BAD_LEN)?))
}

/// An entry with its padding, as what it sets.
pub(super) fn entry_action(body: &mut Reader<'_>) -> Result<Action> {
    let of_action = |error: Refusal| match error.code {
        // As Open vSwitch has it: a field that is not known is one of another length.
        "OFPBMC_BAD_FIELD" => Refusal { code: "OFPBAC_BAD_SET_LEN", ..error },
        "OFPBMC_BAD_MASK" => Refusal { code: "OFPBAC_BAD_SET_MASK", ..error },
        "OFPBMC_BAD_VALUE" => Refusal { code: "OFPBAC_BAD_SET_ARGUMENT", ..error },
        _ => error,
    };
    let Entry { field, value, mask } = oxm::read_entry(body).and_then(|entry| entry).map_err(of_action)?;
    let padding = body.rest();
    if padding.len() > 7 || padding.iter().any(|byte| *byte != 0) {
        return refuse("OFPBAC_BAD_SET_ARGUMENT", format!("padding behind {} is not up to 7 zeros", field.name()));
    }
    if !field.is_writable() {
        return refuse("OFPBAC_BAD_SET_ARGUMENT", format!("{} is read-only", field.name()));
    }
    Ok(Action::SetField { field, value, mask })
}

/// The two headers of a move, and their padding.
pub(super) fn move_of(len: u16, source: u16, target: u16, mut body: Reader<'_>) -> Result<Action> {
    let from = subfield(oxm::read_header(&mut body)?, source, len)?;
    let to = subfield(oxm::read_header(&mut body)?, target, len)?;
    let padding = body.rest();
    if padding.len() > 7 || padding.iter().any(|byte| *byte != 0) {
        return refuse("NXBAC_MUST_BE_ZERO", "padding behind the headers is not up to 7 zeros");
    }
    Ok(Action::Move { from, to })
}
