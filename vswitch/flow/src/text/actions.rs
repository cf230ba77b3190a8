//! Action lists: the syntax of ovs-actions(7).
//!
//! A list is cut into tokens ([`super::scan`]); `parse.rs` finds the function for each key, the
//! other files have one function or two per action, its parser next to its printer where it is more
//! than a line. Printing is what `ovs-ofctl -O OpenFlow15` prints.
//!
//! What a text means is decided here; whether a list may be executed where it stands is not
//! ([`crate::action::check`]). Deviations from ovs-ofctl: parentheses must be balanced, a port's
//! name may be quoted and then contain anything, numbers that ovs-ofctl reads with atoi (`basis=x`
//! is 0 there) must be numbers, `set_field:5->dl_vlan` sets the VLAN ID (3.1 sets the in_port
//! instead), and what this switch has nothing for (queues, MPLS, NSH) is refused.

mod ct;
mod fields;
mod format;
mod hash;
mod learn;
mod output;
mod parse;
mod reject;
#[cfg(test)]
mod tests;

use super::scan::Source;
use super::{Names, Parsed, Style, TextError};
use crate::Action;
pub(super) use parse::Parser;

/// A list (`set_field:1->reg0,resubmit(,3)`), in the normal form that the types have. `place` is
/// checked by [`crate::action::check`]. The match of its flow is not known here: what depends on it
/// (`mod_vlan_vid`, `mod_tp_dst`) is left for [`crate::action::normalize`], which
/// [`super::parse_flow`] and the others call.
///
/// # Errors
/// With the column of the action that is wrong.
pub fn parse_actions(text: &str, names: &dyn Names) -> Result<Parsed<Vec<Action>>, TextError> {
    let mut parser = Parser::new(Source(text), names);
    let value = parser.list(text)?;
    Ok(Parsed { value, warnings: parser.warnings })
}

/// As `ovs-ofctl -O OpenFlow15` prints it; `drop` for an empty list.
pub fn format_actions(actions: &[Action], style: Style, names: &dyn Names, out: &mut String) {
    format::list(actions, &mut format::Printer { style, names, out });
}
