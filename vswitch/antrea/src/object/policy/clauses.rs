//! Clause flows of one policy: each once, with the clauses of all of its rules.

use super::matching::Head;
use crate::contribution::clause_order;
use crate::FlowId;
use crate::{Facts, CompiledObject, Table};
use std::collections::BTreeMap;
use std::sync::Arc;
use vswitch_flow::spec::{FlowFlags, FlowSpec};
use vswitch_flow::{Action, Field, SparseMatch};

/// reg4[19]: the packet was sent to a `NodePort` (Antrea: `ToNodePortAddressRegMark`).
const TO_NODE_PORT: u128 = 0x80000;

/// What a dimension of a rule matches: any of these.
pub(super) type Dimension = Vec<Arc<SparseMatch>>;

/// Flows of clauses.
#[derive(Default)]
pub(super) struct Clauses {
    /// Flows that have more than one clause, by their place in the compiled object: merged at the
    /// end, so that a port of a thousand rules is sorted once.
    merged: BTreeMap<usize, Vec<Action>>,
}

impl Clauses {
    /// A rule's dimensions, in order. At least two, or nothing is a conjunction.
    pub(super) fn add(
        &mut self,
        facts: &Facts<'_>,
        compiled: &mut CompiledObject,
        (table, priority): (Table, u16),
        conjunction: u32,
        dimensions: Vec<Dimension>,
    ) {
        if !table.exists(facts.features()) {
            return;
        }
        let cookie = compiled.shared_cookie();
        let clauses = u8::try_from(dimensions.len()).unwrap_or(u8::MAX);
        compiled.reserve(dimensions.iter().map(Vec::len).sum());
        for (dimension, clause) in dimensions.into_iter().zip(0..) {
            let action = Action::Conjunction { id: conjunction, clause, clauses };
            let actions: Arc<[Action]> = [action.clone()].into();
            let flow = |id: &FlowId| {
                Arc::new(FlowSpec {
                    table: id.table,
                    priority,
                    matching: Arc::clone(&id.matching),
                    cookie,
                    idle_timeout: 0,
                    hard_timeout: 0,
                    importance: 0,
                    flags: FlowFlags::default(),
                    actions: Arc::clone(&actions),
                })
            };
            for matching in dimension {
                let id = FlowId { table: table.number(), priority, matching };
                if let Err(at) = compiled.add_new(id, "clause", flow) {
                    self.merged.entry(at).or_default().push(action.clone());
                }
            }
        }
    }

    pub(super) fn finish(self, compiled: &mut CompiledObject) {
        for (at, mut actions) in self.merged {
            let first = compiled.flows().get(at).map(|there| Arc::clone(&there.flow.actions));
            actions.extend(first.iter().flat_map(|first| first.iter().cloned()));
            // As the store merges those of several policies.
            actions.sort_by_key(clause_order);
            actions.dedup();
            compiled.set_actions(at, actions.into());
        }
    }
}

/// How packets for Pods and for `NodePorts` are known: by their port, or by the group of the
/// Service that led there.
pub(super) fn ends(ports: &[u32], groups: &[u32]) -> Dimension {
    let ports = ports.iter().map(|port| Head::any().with(Field::Reg1, (*port).into()).matching());
    let service = |group: &u32| {
        let head = Head::any().with(Field::Reg7, (*group).into());
        head.bits(Field::Reg4, TO_NODE_PORT, TO_NODE_PORT).matching()
    };
    ports.chain(groups.iter().map(service)).collect()
}
