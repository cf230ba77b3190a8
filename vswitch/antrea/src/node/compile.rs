//! What the Node itself writes: misses of all tables, and the flows that are there without any object.

use crate::tables::{Miss, Table};
use crate::{Facts, Part};

/// See the module.
pub(crate) fn compile(facts: &Facts<'_>, part: &mut Part) {
    misses(facts, part);
}

/// Every table has an answer for what nothing else in it matches.
fn misses(facts: &Facts<'_>, part: &mut Part) {
    for table in Table::ALL.iter().filter(|table| table.exists(facts.features())) {
        let actions = match table.miss() {
            Miss::Drop => "drop".to_owned(),
            Miss::Actions(actions) => actions.to_owned(),
            Miss::Next => match table.next(facts.features()) {
                Some(next) => format!("goto_table:{}", next.name()),
                None => "drop".to_owned(),
            },
        };
        part.own(facts, "miss", &format!("table={}, priority=0 actions={actions}", table.name()));
    }
}
