//! Geneve's options as fields: which option is which `tun_metadata`.

use std::fmt;

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
    /// Bytes of its data: 4, 8, 12 or 16.
    pub len: u8,
    /// Number of the field.
    pub field: u8,
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{class={:#x},type={:#x},len={}}}->tun_metadata{}", self.class, self.kind, self.len, self.field)
    }
}

/// Why a mapping cannot be added or removed, with OpenFlow's name of the error ([`MapError::code`]).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum MapError {
    #[error("there is no field tun_metadata{0}: there are tun_metadata0 to tun_metadata7")]
    Field(u64),
    #[error("an option of {0} bytes: a field holds 4, 8, 12 or 16")]
    Length(u64),
    #[error("tun_metadata{0} is mapped already")]
    Mapped(u8),
    #[error("the option class={0:#x},type={1:#x} is mapped already")]
    Duplicate(u16, u8),
    #[error("there is no mapping {0}")]
    Missing(Mapping),
    #[error("{0:?} is no mapping: write {{class=N,type=N,len=N}}->tun_metadataN")]
    Syntax(String),
}

impl MapError {
    /// Open vSwitch's name of the error (`NXTTMFC_ALREADY_MAPPED`, ...).
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Field(_) => "NXTTMFC_BAD_FIELD_IDX",
            Self::Length(_) => "NXTTMFC_BAD_OPT_LEN",
            Self::Mapped(_) => "NXTTMFC_ALREADY_MAPPED",
            Self::Duplicate(..) => "NXTTMFC_DUP_ENTRY",
            Self::Missing(_) => "NXTTMFC_NOT_MAPPED",
            Self::Syntax(_) => "OFPFMFC_BAD_COMMAND",
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
        let _ = mappings;
        unimplemented!()
    }

    /// Removes mappings, all of those or none; an empty list: all there are, as `ovs-ofctl del-tlv-map BRIDGE`.
    ///
    /// # Errors
    /// When one is not there; nothing has changed then.
    pub fn remove(&mut self, mappings: &[Mapping]) -> Result<(), MapError> {
        let _ = mappings;
        unimplemented!()
    }

    /// All, by field.
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.fields.iter().flatten()
    }

    /// The mapping of a field.
    #[must_use]
    pub fn field(&self, field: usize) -> Option<&Mapping> {
        self.fields.get(field)?.as_ref()
    }

    /// As `ovs-ofctl dump-tlv-map` prints it.
    #[must_use]
    pub fn dump(&self) -> String {
        unimplemented!()
    }

    /// The options of a packet with these values, in order of fields, as they are sent. What is not mapped is not sent. Never more than [`SPACE_MAX`].
    #[must_use]
    pub fn encode(&self, values: &Values) -> Vec<u8> {
        let _ = values;
        unimplemented!()
    }

    /// The values that these options have: [`crate::Outside::options`]. Of the same option twice the last one counts.
    ///
    /// # Errors
    /// When they are malformed, a mapped one has another length, or an unmapped one is critical (RFC 8926, section 3.5.1): such a packet is dropped.
    pub fn decode(&self, options: &[u8]) -> Result<Values, OptionError> {
        let _ = options;
        unimplemented!()
    }
}

/// Reads `{class=0xffff,type=0,len=4}->tun_metadata0[,...]`, as ovs-ofctl takes it.
///
/// # Errors
/// When it is not that.
pub fn parse(text: &str) -> Result<Vec<Mapping>, MapError> {
    let _ = text;
    unimplemented!()
}
