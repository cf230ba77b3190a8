//! The mapping of Geneve options to the fields `tun_metadataN`.

use crate::wire::{Reader, Result, Writer, refuse};

/// An option and its field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionMapping {
    /// Class of the option.
    pub class: u16,
    /// Type of the option.
    pub kind: u8,
    /// Its bytes, a multiple of 4 up to 124.
    pub len: u8,
    /// N of `tun_metadataN`.
    pub field: u16,
}

/// Fields that Nicira has numbers for.
const FIELDS: u16 = 64;

fn read_mappings(input: &mut Reader<'_>) -> Result<Vec<OptionMapping>> {
    let mut mappings = Vec::new();
    while !input.is_empty() {
        let (class, kind, len, field) = (input.u16()?, input.u8()?, input.u8()?, input.u16()?);
        input.skip(2)?;
        if len == 0 || len > 124 || !len.is_multiple_of(4) {
            return refuse("NXTTMFC_BAD_OPT_LEN", format!("an option of {len} bytes: 4 to 124, a multiple of 4"));
        }
        if field >= FIELDS {
            return refuse("NXTTMFC_BAD_FIELD_IDX", format!("there is no tun_metadata{field}"));
        }
        mappings.push(OptionMapping { class, kind, len, field });
    }
    Ok(mappings)
}

fn put_mappings(mappings: &[OptionMapping], out: &mut Writer) {
    for mapping in mappings {
        out.u16(mapping.class);
        out.u8(mapping.kind);
        out.u8(mapping.len);
        out.u16(mapping.field);
        out.u16(0);
    }
}

/// Changes the mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionMod {
    /// Adds options.
    Add(Vec<OptionMapping>),
    /// Removes options.
    Delete(Vec<OptionMapping>),
    /// Removes all.
    Clear,
}

impl OptionMod {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let command = input.u16()?;
        input.skip(6)?;
        let mappings = read_mappings(input)?;
        Ok(match command {
            0 => Self::Add(mappings),
            1 => Self::Delete(mappings),
            2 => Self::Clear,
            _ => return refuse("NXTTMFC_BAD_COMMAND", format!("mappings of options have no command {command}")),
        })
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        let (command, mappings): (_, &[_]) = match self {
            Self::Add(mappings) => (0, mappings),
            Self::Delete(mappings) => (1, mappings),
            Self::Clear => (2, &[]),
        };
        out.u16(command);
        out.zeros(6);
        put_mappings(mappings, out);
    }
}

/// The mapping as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionTable {
    /// Bytes of all options at most.
    pub max_space: u32,
    /// Fields at most.
    pub max_fields: u16,
    /// The options.
    pub mappings: Vec<OptionMapping>,
}

impl OptionTable {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let (max_space, max_fields) = (input.u32()?, input.u16()?);
        input.skip(10)?;
        Ok(Self { max_space, max_fields, mappings: read_mappings(input)? })
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        out.u32(self.max_space);
        out.u16(self.max_fields);
        out.zeros(10);
        put_mappings(&self.mappings, out);
    }
}
