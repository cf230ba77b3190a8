//! Clause flows of one policy: each once, with the clauses of all of its rules.

use crate::store::FlowId;
use crate::{Facts, Part, Table};
use hashbrown::HashMap;
use std::sync::Arc;
use vswitch_flow::spec::{FlowFlags, FlowSpec};
use vswitch_flow::{Action, SparseMatch};

/// What a dimension of a rule matches: any of these.
pub(super) type Dimension = Vec<Arc<SparseMatch>>;

/// Actions of a flow: those of one clause, shared by all of its flows, or of several.
enum Actions {
    One(Arc<[Action]>),
    Many(Vec<Action>),
}

/// Flows of clauses.
#[derive(Default)]
pub(super) struct Clauses {
    flows: Vec<(FlowId, Actions)>,
    index: HashMap<FlowId, usize>,
}

impl Clauses {
    /// A rule's dimensions, in order. At least two, or nothing is a conjunction.
    pub(super) fn add(
        &mut self,
        facts: &Facts<'_>,
        table: Table,
        priority: u16,
        conjunction: u32,
        dimensions: Vec<Dimension>,
    ) {
        if !table.exists(facts.features()) {
            return;
        }
        let clauses = u8::try_from(dimensions.len()).unwrap_or(u8::MAX);
        for (dimension, clause) in dimensions.into_iter().zip(0..) {
            let action: Arc<[Action]> = [Action::Conjunction { id: conjunction, clause, clauses }].into();
            for matching in dimension {
                self.flow(FlowId { table: table.number(), priority, matching }, &action);
            }
        }
    }

    fn flow(&mut self, id: FlowId, action: &Arc<[Action]>) {
        match self.index.get(&id).and_then(|at| self.flows.get_mut(*at)) {
            None => {
                self.index.insert(id.clone(), self.flows.len());
                self.flows.push((id, Actions::One(Arc::clone(action))));
            }
            Some((_, there)) => match there {
                // Twice in one clause: an address of two groups.
                Actions::One(one) if Arc::ptr_eq(one, action) => {}
                Actions::One(one) => *there = Actions::Many([&**one, &**action].concat()),
                Actions::Many(many) if many.last() == action.first() => {}
                Actions::Many(many) => many.extend_from_slice(action),
            },
        }
    }

    pub(super) fn finish(self, part: &mut Part) {
        let cookie = part.shared_cookie();
        for (FlowId { table, priority, matching }, actions) in self.flows {
            let actions = match actions {
                Actions::One(one) => one,
                Actions::Many(mut many) => {
                    // As the store merges those of several policies.
                    many.sort_by_key(crate::part::clause_order);
                    many.dedup();
                    many.into()
                }
            };
            let flow = FlowSpec {
                table,
                priority,
                matching,
                cookie,
                idle_timeout: 0,
                hard_timeout: 0,
                importance: 0,
                flags: FlowFlags::default(),
                actions,
            };
            part.add(flow, "clause");
        }
    }
}
