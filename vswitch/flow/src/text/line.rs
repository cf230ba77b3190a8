//! Lines: flows, filters, groups, meters, packet-outs, and the lines of bundle files, in the syntax
//! of ovs-ofctl(8).
//!
//! One file per kind. Each cuts its line into tokens ([`super::scan`]); `actions=` and `bucket=`
//! take the rest of the line. Lists of actions are checked here for where they stand
//! ([`crate::action::check`]), so that an error has its column.
//!
//! Deviations from ovs-ofctl: `cookie=V` without mask means exactly V in deletes and filters
//! (refused there); a bucket without id gets the lowest id that is free in its line (3.1 may give
//! out one that is taken); `meter` lines in bundles.

mod bundle;
mod filter;
mod flow;
mod group;
mod meter;
mod packet_out;
#[cfg(test)]
mod tests;

use super::scan::{Source, Token};
use super::{Names, TextError};
use crate::action::{CheckContext, ListPlace, accept};
use crate::{Action, SparseMatch};

pub use bundle::{parse_bundle_line, significant};
pub use filter::parse_filter;
pub use flow::{FlowCommand, FlowCounters, format_flow, parse_flow};
pub use group::{GroupCommand, GroupLine, format_bucket, format_group, parse_group, parse_group_update};
pub use meter::{format_meter, parse_meter};
pub use packet_out::{PacketOut, parse_packet_out};

/// Longest line: that of a select group of 16,384 buckets with 250 bytes each.
pub const MAX_LINE: usize = 1 << 22;

/// A line to read.
#[derive(Clone, Copy)]
struct Line<'a> {
    source: Source<'a>,
    names: &'a dyn Names,
}

impl<'a> Line<'a> {
    /// # Errors
    /// When the line is too long or has a NUL in it.
    fn new(text: &'a str, names: &'a dyn Names) -> Result<Self, TextError> {
        let source = Source(text);
        if text.len() > MAX_LINE {
            let reason = format!("the line is {} bytes long, at most {MAX_LINE} are read", text.len());
            return Err(source.error(text, reason).hint("one flow, group or meter per line"));
        }
        if let Some(at) = text.bytes().position(|byte| byte == 0) {
            return Err(source.error(&text[at..at], "there is a NUL character in the line").hint("remove it"));
        }
        Ok(Self { source, names })
    }

    /// A list of actions as the switch takes it ([`accept`]). `text` is where it came from, for the
    /// column of what is wrong.
    fn accept(
        &self,
        text: &'a str,
        actions: Vec<Action>,
        matching: Option<&SparseMatch>,
        place: ListPlace,
    ) -> Result<Vec<Action>, TextError> {
        accept(actions, &CheckContext { matching, place }).map_err(|error| {
            let part = self.nth_action(text, error.index).unwrap_or(text);
            self.source.error(part, error.reason).hint(error.hint).code(error.code)
        })
    }

    /// The text of an action of a list, by the action's index.
    fn nth_action(&self, text: &'a str, index: usize) -> Option<&'a str> {
        let mut parser = super::actions::Parser::new(self.source, self.names);
        let mut tokens = super::scan::Tokens::new(self.source, text);
        let mut actions = Vec::new();
        while let Ok(Some(token)) = tokens.next() {
            if !token.key.eq_ignore_ascii_case("drop") {
                parser.action(&token, &mut actions).ok()?;
            }
            if actions.len() > index {
                return Some(token.key);
            }
        }
        None
    }

    /// The value of a key that needs one.
    fn value(&self, token: &Token<'a>) -> Result<&'a str, TextError> {
        if token.value.is_empty() {
            let error = self.source.error(token.key, format!("{} has no value", token.key));
            return Err(error.hint(format!("{}=VALUE", token.key)).field(token.key));
        }
        Ok(token.value)
    }
}
