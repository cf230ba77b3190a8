//! Which flows a modify, delete or dump means.

use super::refs;
use crate::pipeline::Rule;
use vswitch_flow::SparseMatch;
use vswitch_flow::spec::FlowFilter;

/// Whether the filter selects a rule.
pub(in crate::pipeline) fn selects(filter: &FlowFilter, rule: &Rule) -> bool {
    filter.table.is_none_or(|table| table == rule.table)
        && (rule.cookie ^ filter.cookie) & filter.cookie_mask == 0
        && match filter.strict {
            Some(priority) => rule.priority == priority && *rule.matching == *filter.matching,
            None => within(&rule.matching, &filter.matching),
        }
        && filter.out_port.is_none_or(|port| refs::outputs_to(&rule.actions, port))
        && filter.out_group.is_none_or(|group| refs::uses_group(&rule.actions, group))
}

/// [`SparseMatch::is_within`], after a look at which words matter.
fn within(matching: &SparseMatch, filter: &SparseMatch) -> bool {
    filter.map() & !matching.map() == 0 && (filter.map() == 0 || matching.is_within(filter))
}
