//! What answers to Pods say of names.

use super::{NodeState, Plan, Undo, result};
use crate::Problem;
use crate::store::Counts;
use crate::{Key, Problems};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

impl NodeState {
    /// Plans other addresses for names (in lower case, without a dot at the end): a name has these
    /// from now on; none: it is forgotten. Policies with a rule that means one of the names are
    /// compiled anew, no others; a name that no rule means changes nothing.
    ///
    /// # Errors
    /// A limit is reached, or the Node is not there; then nothing has changed.
    pub fn plan_names(&mut self, names: BTreeMap<String, BTreeSet<IpAddr>>) -> Result<Plan, Problems> {
        let mut undo = Undo { ids: Some(self.ids.clone()), ..Undo::default() };
        let touched: BTreeSet<Key> = names.keys().flat_map(|name| self.desired.meaning(name)).cloned().collect();
        for (name, addresses) in names {
            let old = self.desired.names_mut().set(&name, addresses);
            undo.names.push((name, old));
        }
        let done = self.count_clauses(&touched).and_then(|()| {
            self.compile(touched, &mut undo).map_err(|refused| {
                let mut problems = Problems::default();
                refused.into_values().for_each(|refused| problems.extend(refused));
                problems
            })
        });
        match done {
            Ok((updates, counts)) => Ok(plan(updates, counts, undo)),
            Err(problems) => {
                self.undo(undo);
                Err(problems)
            }
        }
    }

    /// Policies have more addresses, or fewer.
    fn count_clauses(&mut self, touched: &BTreeSet<Key>) -> Result<(), Problems> {
        for key in touched {
            let Some(entry) = self.desired.get(key) else { continue };
            entry.object.claim(&key.name, &self.desired, &mut self.ids).map_err(|problem: Problem| {
                let mut problems = Problems::default();
                problems.add(problem);
                problems
            })?;
        }
        Ok(())
    }
}

fn plan(updates: Vec<vswitch_flow::spec::Update>, counts: Counts, undo: Undo) -> Plan {
    Plan { updates, flush: Vec::new(), result: result::of(Vec::new(), true, counts, false), undo }
}
