//! The syntax of ovs-ofctl(8), ovs-fields(7) and ovs-actions(7): one parser and one printer for
//! daemon and tools. What is printed is what `ovs-ofctl -O OpenFlow15` prints, and can be parsed
//! again.

mod actions;
mod line;
mod matching;
#[cfg(test)]
mod round_trip;
mod scan;
mod value;

pub use actions::{format_actions, parse_actions};
pub use line::{
    FlowCommand, FlowCounters, GroupCommand, GroupLine, MAX_LINE, PacketOut, format_bucket, format_flow, format_group,
    format_meter, parse_bundle_line, parse_filter, parse_flow, parse_group, parse_group_update, parse_meter,
    parse_packet_out, significant,
};
pub use matching::{
    Item, Items, MatchBuilder, compose, format_key, format_match, parse_key, parse_match, unknown_item,
};
pub use value::{
    CT_STATE, field_by_name, format_name, format_port, format_subfield, format_value, parse_port, parse_subfield,
    parse_value, unquote,
};

use crate::Refusal;
use vswitch_net_types::suggest;

/// The candidate that is nearest to a misspelt word; of several, the first by bytes. Words of flows
/// come from maps, which have no order.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut candidates: Vec<&str> = candidates.into_iter().collect();
    candidates.sort_unstable();
    suggest::nearest(word, candidates)
}

/// Names of ports and tables, both ways.
pub trait Names {
    /// Number of a port.
    fn port(&self, name: &str) -> Option<u32>;
    /// Name of a port.
    fn port_name(&self, number: u32) -> Option<&str>;
    /// Number of a table.
    fn table(&self, name: &str) -> Option<u8>;
    /// Name of a table.
    fn table_name(&self, number: u8) -> Option<&str>;
    /// All names of ports, in any order: what a misspelt one may have meant.
    fn ports(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(std::iter::empty())
    }
    /// Likewise of tables.
    fn tables(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(std::iter::empty())
    }
}

/// Nothing has a name.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn port(&self, _: &str) -> Option<u32> {
        None
    }
    fn port_name(&self, _: u32) -> Option<&str> {
        None
    }
    fn table(&self, _: &str) -> Option<u8> {
        None
    }
    fn table_name(&self, _: u8) -> Option<&str> {
        None
    }
}

/// What is wrong with a text, where, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {reason}{}{hint}", if .hint.is_empty() { "" } else { "; " })]
pub struct TextError {
    /// Byte of the text, from 1.
    pub column: usize,
    /// What is wrong, naming it.
    pub reason: String,
    /// The nearest valid form, or what would be right; may be empty.
    pub hint: String,
    /// OpenFlow's code name where there is one (`OFPBMC_BAD_PREREQ`, ...), else empty.
    pub code: &'static str,
    /// The field or keyword it is about; may be empty.
    pub field: String,
}

impl TextError {
    /// What is wrong and where, without the hint.
    #[must_use]
    pub fn problem(&self) -> String {
        let place = if self.column == 0 { String::new() } else { format!("column {}: ", self.column) };
        let code = if self.code.is_empty() { String::new() } else { format!("{}: ", self.code) };
        format!("{place}{code}{}", self.reason)
    }
}

impl From<Refusal> for TextError {
    /// Of a value that no text was read for: without a column.
    fn from(Refusal { code, field, reason, hint }: Refusal) -> Self {
        Self { column: 0, reason, hint, code, field: field.to_owned() }
    }
}

/// Something parsed, and what was odd about it (`10.0.0.5/24` has bits outside its mask, ...).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Parsed<T> {
    pub value: T,
    pub warnings: Vec<String>,
}

/// How things are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Ports and tables by name (`--names`).
    pub names: bool,
}
