//! Geneve's options as fields: which option is which `tun_metadata`.
//!
//! **Where in the walk**: in front of a decision, what came in a tunnel's options becomes values of
//! fields; at an output to a tunnel port, values become options.
//!
//! **Semantics**: a map per bridge, as `ovs-ofctl add-tlv-map`. An option is known by class and
//! type, all eight bits of it. A known one of another length, and an unknown critical one, are
//! refused; another unknown one is ignored. A field may be there and be 0.
//!
//! **Limits**: eight fields of 16 bytes; Open vSwitch has 64 of 124. What is longer is refused when
//! it is mapped.

mod text;

pub use text::parse;

use crate::wire::{be16, part};
use std::fmt;
use std::fmt::Write;

/// Fields `tun_metadata0` to `tun_metadata7`.
pub const FIELDS: usize = 8;
/// Bytes that a field holds. Open vSwitch's have 124.
pub const FIELD_LEN: usize = 16;
/// Bytes of all options of a packet (RFC 8926, section 3.4: 63 words of 4 bytes).
pub const SPACE_MAX: usize = 252;

/// An option and its field: `{class=0x102,type=0x80,len=4}->tun_metadata0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Namespace of the type.
    pub class: u16,
    /// Type; with bit 0x80 it is critical.
    pub kind: u8,
    /// Bytes of its data: 0, 4, 8, 12 or 16.
    pub len: u8,
    /// Number of the field.
    pub field: u8,
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{class={:#x},type={:#x},len={}}}->tun_metadata{}", self.class, self.kind, self.len, self.field)
    }
}

/// Why a mapping cannot be added or removed, with Open vSwitch's name of the error
/// ([`MapError::code`]).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum MapError {
    #[error("there is no field tun_metadata{0}: there are tun_metadata0 to tun_metadata7")]
    Field(u64),
    #[error("an option of {0} bytes: a field holds 0, 4, 8, 12 or 16")]
    Length(u64),
    #[error("tun_metadata{0} is mapped already")]
    Mapped(u8),
    #[error("the option class={0:#x},type={1:#x} is mapped already")]
    Duplicate(u16, u8),
    #[error("what is mapped is {there}, not {given}")]
    Another { given: Mapping, there: Mapping },
    #[error("tun_metadata{field} is used by {by}")]
    InUse { field: u8, by: String },
    #[error("{0:?} is no mapping: write {{class=N,type=N,len=N}}->tun_metadataN")]
    Syntax(String),
}

impl MapError {
    /// Open vSwitch's name of the error (`NXTTMFC_ALREADY_MAPPED`, ...).
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Field(_) | Self::Another { .. } => "NXTTMFC_BAD_FIELD_IDX",
            Self::Length(_) => "NXTTMFC_BAD_OPT_LEN",
            Self::Mapped(_) => "NXTTMFC_ALREADY_MAPPED",
            Self::Duplicate(..) => "NXTTMFC_DUP_ENTRY",
            Self::InUse { .. } => "NXTTMFC_INVALID_TLV_DEL",
            Self::Syntax(_) => "NXTTMFC_BAD_COMMAND",
        }
    }
}

/// Why the options of a packet are refused: `tunnel_option`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[allow(missing_docs)]
pub enum OptionError {
    #[error("an option ends behind the options")]
    Short,
    #[error("an option has another length than it is mapped with")]
    Length,
    #[error("an unknown option is critical")]
    Critical,
}

/// The values of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Bit N: the packet has `tun_metadataN`. A value of 0 is a value.
    pub present: u8,
    /// As numbers; 0 where there is none.
    pub values: [u128; FIELDS],
}

/// Which options a bridge knows. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionMap {
    fields: [Option<Mapping>; FIELDS],
}

impl OptionMap {
    /// Adds mappings, all or none.
    ///
    /// # Errors
    /// What is wrong with the first wrong one; nothing has changed then.
    pub fn add(&mut self, mappings: &[Mapping]) -> Result<(), MapError> {
        let mut next = self.clone();
        for mapping in mappings {
            next.add_one(*mapping)?;
        }
        *self = next;
        Ok(())
    }

    fn add_one(&mut self, mapping: Mapping) -> Result<(), MapError> {
        let Mapping { class, kind, len, field } = mapping;
        if usize::from(len) > FIELD_LEN || !len.is_multiple_of(4) {
            return Err(MapError::Length(len.into()));
        }
        if self.fields.get(usize::from(field)).ok_or(MapError::Field(field.into()))?.is_some() {
            return Err(MapError::Mapped(field));
        }
        if self.find(class, kind).is_some() {
            return Err(MapError::Duplicate(class, kind));
        }
        self.fields[usize::from(field)] = Some(mapping);
        Ok(())
    }

    /// Removes mappings, all of those or none; an empty list: all there are, as `ovs-ofctl
    /// del-tlv-map BRIDGE`. A field that is not mapped is no error, as in Open vSwitch.
    ///
    /// # Errors
    /// When a field is mapped to another option than that, which Open vSwitch would remove; nothing
    /// has changed then.
    pub fn remove(&mut self, mappings: &[Mapping]) -> Result<(), MapError> {
        if mappings.is_empty() {
            *self = Self::default();
            return Ok(());
        }
        let mut next = self.clone();
        for given in mappings {
            let field = next.fields.get_mut(usize::from(given.field));
            match field.ok_or(MapError::Field(given.field.into()))?.take() {
                Some(there) if there != *given => return Err(MapError::Another { given: *given, there }),
                _ => {}
            }
        }
        *self = next;
        Ok(())
    }

    /// All, by field.
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.fields.iter().flatten()
    }

    /// Which fields are mapped: bit N for `tun_metadataN`.
    #[must_use]
    pub fn mapped(&self) -> u8 {
        self.iter().fold(0, |fields, mapping| fields | 1 << mapping.field)
    }

    /// The mapping of a field.
    #[must_use]
    pub fn field(&self, field: usize) -> Option<&Mapping> {
        self.fields.get(field)?.as_ref()
    }

    fn find(&self, class: u16, kind: u8) -> Option<&Mapping> {
        self.iter().find(|mapping| mapping.class == class && mapping.kind == kind)
    }

    /// As `ovs-ofctl dump-tlv-map` prints it, without the name of the message.
    #[must_use]
    pub fn dump(&self) -> String {
        let used: u32 = self.iter().map(|mapping| u32::from(mapping.len)).sum();
        let mut text = format!(
            " max option space={} max fields={FIELDS}\n allocated option space={used}\n\n mapping table:\n  class  type  length  match field\n ------  ----  ------  --------------\n",
            FIELDS * FIELD_LEN
        );
        for Mapping { class, kind, len, field } in self.iter() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, " {class:#6x}  {kind:#4x}  {len:6}  tun_metadata{field}");
        }
        text
    }

    /// The options of a packet with these values, in order of fields, as they are sent. What is not
    /// mapped is not sent. Never more than [`SPACE_MAX`].
    #[must_use]
    pub fn encode(&self, values: &Values) -> Vec<u8> {
        const { assert!(FIELDS * (OPTION + FIELD_LEN) <= SPACE_MAX) };
        let mut options = Vec::new();
        for Mapping { class, kind, len, field } in self.iter() {
            if values.present >> field & 1 != 0 {
                options.extend_from_slice(&class.to_be_bytes());
                options.extend_from_slice(&[*kind, len / 4]);
                let value = values.values[usize::from(*field)].to_be_bytes();
                options.extend_from_slice(&value[FIELD_LEN - usize::from(*len)..]);
            }
        }
        options
    }

    /// The values that these options have: [`crate::Outside::options`]. Of the same option twice
    /// the last one counts.
    ///
    /// # Errors
    /// When they are malformed, a mapped one has another length, or an unmapped one is critical
    /// (RFC 8926, section 3.5.1): such a packet is dropped.
    pub fn decode(&self, options: &[u8]) -> Result<Values, OptionError> {
        let mut values = Values::default();
        for option in Walk::new(options) {
            let option = option?;
            let Some(mapping) = self.find(option.class, option.kind) else {
                if option.is_critical() {
                    return Err(OptionError::Critical);
                }
                continue;
            };
            if option.data.len() != usize::from(mapping.len) {
                return Err(OptionError::Length);
            }
            let mut value = [0; FIELD_LEN];
            value[FIELD_LEN - option.data.len()..].copy_from_slice(option.data);
            values.present |= 1 << mapping.field;
            values.values[usize::from(mapping.field)] = u128::from_be_bytes(value);
        }
        Ok(values)
    }
}

/// Bytes of an option's header.
const OPTION: usize = 4;

/// An option as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoded<'a> {
    class: u16,
    kind: u8,
    data: &'a [u8],
}

impl Encoded<'_> {
    /// Who does not know it drops the packet.
    pub(crate) const fn is_critical(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

/// The options in some bytes, in order; at most one per four bytes. After an error there is nothing
/// more.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    pub(crate) const fn new(options: &'a [u8]) -> Self {
        Self { rest: options }
    }

    fn step(&mut self) -> Option<Encoded<'a>> {
        let header: &[u8; OPTION] = part(self.rest, 0)?;
        // The upper three bits are reserved, and ignored.
        let len = usize::from(header[3] & 0x1f) * 4;
        let data = self.rest.get(OPTION..OPTION + len)?;
        self.rest = &self.rest[OPTION + len..];
        Some(Encoded { class: be16(header, 0), kind: header[2], data })
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Result<Encoded<'a>, OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let option = self.step();
        if option.is_none() {
            self.rest = &[];
        }
        Some(option.ok_or(OptionError::Short))
    }
}

#[cfg(test)]
mod tests;
