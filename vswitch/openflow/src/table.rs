//! Tables: statistics, features, descriptions, mods.

use crate::oxm::{self, Names};
use crate::property::properties;
use crate::wire::{Reader, Result, Writer, text};
use crate::{Codec, Version};
use vswitch_flow::Field;
use vswitch_flow::action::limits::MAX_TABLE;

/// Bytes of a table's name, with a 0 behind it.
const NAME: usize = 32;
const BAD_LEN: &str = "OFPBRC_BAD_LEN";

/// What has met a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Its number.
    pub table: u8,
    /// Flows in it.
    pub active: u32,
    /// Packets that were looked up.
    pub lookups: u64,
    /// Packets that met a flow.
    pub matched: u64,
}

impl TableStats {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let table = input.u8()?;
        input.skip(3)?;
        Ok(Self { table, active: input.u32()?, lookups: input.u64()?, matched: input.u64()? })
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        out.u8(self.table);
        out.zeros(3);
        out.u32(self.active);
        out.u64(self.lookups);
        out.u64(self.matched);
    }
}

/// A property of a table's features: what flows of it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableProperty {
    /// OpenFlow's number: 0 instructions, 2 next tables, 4 and 6 actions, 8 fields to match, ...
    pub kind: u16,
    /// As it is sent, without padding.
    pub data: Vec<u8>,
}

/// What a table can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFeatures {
    /// Its number.
    pub table: u8,
    /// Only in OpenFlow 1.5: what a request does with tables. 0: replace.
    pub command: u8,
    /// Up to 31 bytes; longer names are cut.
    pub name: String,
    /// Bits of the metadata that can be matched.
    pub metadata_match: u64,
    /// Bits of the metadata that can be written.
    pub metadata_write: u64,
    /// Bits of OpenFlow.
    pub capabilities: u32,
    /// Most flows.
    pub max_entries: u32,
    /// What its flows may do.
    pub properties: Vec<TableProperty>,
}

/// Numbers of properties.
mod kind {
    pub(super) const INSTRUCTIONS: u16 = 0;
    pub(super) const NEXT_TABLES: u16 = 2;
    pub(super) const WRITE_ACTIONS: u16 = 4;
    pub(super) const APPLY_ACTIONS: u16 = 6;
    pub(super) const MATCH: u16 = 8;
    pub(super) const WILDCARDS: u16 = 10;
    pub(super) const WRITE_SET_FIELD: u16 = 12;
    pub(super) const APPLY_SET_FIELD: u16 = 14;
}

/// Types and lengths, as lists of instructions and actions have them.
fn types(kinds: &[u16]) -> Vec<u8> {
    let mut out = Writer::default();
    for kind in kinds {
        out.u16(*kind);
        out.u16(4);
    }
    out.0
}

/// Headers of all fields that have a name in a version and are accepted.
fn headers(codec: Codec, masks: bool, accept: impl Fn(Field) -> bool) -> Vec<u8> {
    let mut out = Writer::default();
    for field in Field::ALL.iter().copied().filter(|field| accept(*field)) {
        if let Ok(header) = oxm::header(codec, field, Names::Version) {
            oxm::put_field(header, masks && field.info().maskable, &mut out);
        }
    }
    out.0
}

impl TableFeatures {
    /// What flows of any table may do: all fields and actions that the language and OpenFlow have.
    #[must_use]
    pub fn of_table(codec: Codec, table: u8, name: &str, max_entries: u32) -> Self {
        let (instructions, actions): (&[_], &[_]) = match codec.version {
            Version::V13 => (&[1, 2, 3, 4, 5, 6], &[0, 17, 18, 22, 23, 24, 25]),
            Version::V15 => (&[1, 2, 3, 4, 5], &[0, 17, 18, 22, 23, 24, 25, 28, 29]),
        };
        let fields = |masks| headers(codec, masks, |_| true);
        let writable = || headers(codec, false, Field::is_writable);
        // The actions of OpenFlow itself: experimenters' have no place in these lists.
        let properties = [
            (kind::INSTRUCTIONS, types(instructions)),
            (kind::NEXT_TABLES, (table.saturating_add(1)..=MAX_TABLE).collect()),
            (kind::WRITE_ACTIONS, types(actions)),
            (kind::APPLY_ACTIONS, types(actions)),
            (kind::MATCH, fields(true)),
            (kind::WILDCARDS, fields(false)),
            (kind::WRITE_SET_FIELD, writable()),
            (kind::APPLY_SET_FIELD, writable()),
        ];
        Self {
            table,
            name: name.to_owned(),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            max_entries,
            properties: properties.into_iter().map(|(kind, data)| TableProperty { kind, data }).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let len = usize::from(input.u16()?);
        let mut body = input.part(len.saturating_sub(2), BAD_LEN)?;
        let (table, command) = (body.u8()?, body.u8()?);
        body.skip(4)?;
        let name = text(body.take(NAME)?);
        let mut features = Self {
            table,
            command,
            name,
            metadata_match: body.u64()?,
            metadata_write: body.u64()?,
            capabilities: body.u32()?,
            max_entries: body.u32()?,
            properties: Vec::new(),
        };
        for property in properties(body) {
            let mut property = property?;
            let data = property.data.rest().to_vec();
            features.properties.push(TableProperty { kind: property.kind, data });
        }
        Ok(features)
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        let start = out.len();
        out.u16(0);
        out.u8(self.table);
        out.u8(self.command);
        out.u32(0);
        out.text(&self.name, NAME);
        out.u64(self.metadata_match);
        out.u64(self.metadata_write);
        out.u32(self.capabilities);
        out.u32(self.max_entries);
        for TableProperty { kind, data } in &self.properties {
            crate::property::put_property(*kind, data, out);
        }
        out.length(start, start);
    }
}

/// How a table is configured. Only in OpenFlow 1.5.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableDescription {
    /// Its number.
    pub table: u8,
    /// Bits of OpenFlow: 4 eviction, 8 events of vacancy.
    pub config: u32,
    /// Properties (eviction, vacancy), as they are sent.
    pub properties: Vec<u8>,
}

impl TableDescription {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let len = usize::from(input.u16()?);
        let mut body = input.part(len.saturating_sub(2), BAD_LEN)?;
        let table = body.u8()?;
        body.skip(1)?;
        Ok(Self { table, config: body.u32()?, properties: body.rest().to_vec() })
    }

    pub(crate) fn put(&self, out: &mut Writer) {
        let start = out.len();
        out.u16(0);
        out.u8(self.table);
        out.u8(0);
        out.u32(self.config);
        out.bytes(&self.properties);
        out.length(start, start);
    }
}

/// Configures a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableMod {
    /// Its number; 255: all.
    pub table: u8,
    /// Bits of OpenFlow.
    pub config: u32,
    /// Properties of OpenFlow 1.5 (eviction, vacancy), as they are sent.
    pub properties: Vec<u8>,
}

impl TableMod {
    pub(crate) fn read(input: &mut Reader<'_>) -> Result<Self> {
        let table = input.u8()?;
        input.skip(3)?;
        let config = input.u32()?;
        properties(*input).try_for_each(|property| property.map(|_| ()))?;
        Ok(Self { table, config, properties: input.rest().to_vec() })
    }

    pub(crate) fn put(&self, codec: Codec, out: &mut Writer) {
        out.u8(self.table);
        out.zeros(3);
        out.u32(self.config);
        if codec.version == Version::V15 {
            out.bytes(&self.properties);
        }
    }
}
