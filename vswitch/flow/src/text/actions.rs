//! Action lists.

use super::{Names, Parsed, Style, TextError};
use crate::Action;

/// A list (`set_field:1->reg0,resubmit(,3)`), in the normal form that the types have. `place` is checked by [`crate::action::check`].
///
/// # Errors
/// With the column of the action that is wrong.
pub fn parse_actions(text: &str, names: &dyn Names) -> Result<Parsed<Vec<Action>>, TextError> {
    let _ = (text, names);
    Ok(Parsed { value: Vec::new(), warnings: Vec::new() })
}

/// As `ovs-ofctl -O OpenFlow15` prints it; `drop` for an empty list.
pub fn format_actions(actions: &[Action], style: Style, names: &dyn Names, out: &mut String) {
    let _ = (actions, style, names, out);
}
