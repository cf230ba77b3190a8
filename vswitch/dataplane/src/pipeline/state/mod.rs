//! The control side of a bridge's pipeline: tables, groups and meters, changed by transactions.
//!
//! **Where in the walk**: beside it. One [`PipelineState`] per bridge lives in the state of the
//! switch; its [`Program`] goes into the next world.
//!
//! **Design**: a transaction is applied to a copy (persistent parts make that cheap), judged on its
//! final state, and adopted as a whole or not at all. What is not persistent (indexes by cookie, by
//! group, by deadline) is changed in place and changed back from a journal.
//!
//! **What is judged in order and what at the end**: that a group exists that is added, or does not
//! that is modified, is judged when its update's turn comes. References of flows to groups and
//! meters are judged on the final state: a flow may name a group that a later update adds. A flow
//! written after the update that deleted its group is refused; one written before goes with the
//! group, unless the group is added again.
//!
//! **Limits**: flows, groups, buckets, meters, bands: [`crate::limits`].
//!
//! **Threads**: one owner. Readers take the [`Program`] and ask that.

mod buckets;
mod draft;
mod dump;
mod expire;
pub(super) mod filter;
mod flows;
mod groups;
mod index;
mod info;
mod meters;
mod options;
mod refs;
#[cfg(test)]
mod tests;

pub(super) use expire::{deadline, look_at};
pub use info::{Applied, FlowCount, FlowInfo, FlowRemoved, GroupInfo, MeterInfo, Refused, RemovedReason, TableInfo};
pub use options::check_filter;

use super::{Changes, Program, Rule};
use crate::time::Millis;
use draft::Draft;
use index::Index;
use std::collections::BTreeMap;
use std::sync::Arc;
use vswitch_flow::spec::{FlowFilter, Update};
use vswitch_overlay::OptionMap;

/// Tables, groups and meters of a bridge, with everything that workers do not need.
#[derive(Debug, Default)]
pub struct PipelineState {
    program: Arc<Program>,
    /// Names of tables.
    names: Arc<BTreeMap<u8, String>>,
    index: Index,
    /// Which option of Geneve is which field.
    options: OptionMap,
    removed: Vec<(Arc<Rule>, RemovedReason, Millis)>,
}

impl PipelineState {
    /// An empty pipeline; workers' changes count in `changes`.
    #[must_use]
    pub fn new(changes: &Arc<Changes>) -> Self {
        let learned = Arc::new(super::Learned::new(Arc::clone(changes)));
        Self { program: Arc::new(Program { learned, ..Program::default() }), ..Self::default() }
    }

    /// All workers have adopted the present program. (The next transaction takes that for granted;
    /// until one of both, whatever is learned is learned for the program before, too.)
    pub fn adopted(&self) {
        self.program.learned.adopted();
    }

    /// What workers see.
    #[must_use]
    pub fn program(&self) -> Arc<Program> {
        Arc::clone(&self.program)
    }

    /// Applies a transaction; `world` is the number of the world that will show it. All or nothing.
    ///
    /// # Errors
    /// The first update that cannot be.
    pub fn apply(&mut self, updates: &[Update], world: u64, now: Millis) -> Result<Applied, Refused> {
        self.check_options(updates)?;
        let mut draft = Draft::new(self, now);
        let mut counts = Vec::with_capacity(updates.len());
        let updated = updates.iter().enumerate().try_for_each(|(i, update)| {
            draft.update = i;
            counts.push(draft.apply(update).map_err(|refused| refused.at(i))?);
            Ok(())
        });
        match updated.and_then(|()| draft.finish(&mut counts)) {
            Ok(()) => draft.commit(world),
            Err(refused) => {
                draft.roll_back();
                return Err(refused);
            }
        }
        Ok(Applied { counts })
    }

    /// Flows that a filter selects, learned ones included, by table, then in the order they were
    /// added.
    #[must_use]
    pub fn flows(&self, filter: &FlowFilter, now: Millis) -> Vec<FlowInfo> {
        self.program.flows(filter, now)
    }

    /// All tables that have a name or a flow.
    #[must_use]
    pub fn tables(&self) -> Vec<TableInfo> {
        self.program.table_infos(&self.names)
    }

    /// All groups (or one), by id.
    #[must_use]
    pub fn groups(&self, id: Option<u32>, now: Millis) -> Vec<GroupInfo> {
        self.program.group_infos(id, now)
    }

    /// All meters (or one), by id.
    #[must_use]
    pub fn meters(&self, id: Option<u32>, now: Millis) -> Vec<MeterInfo> {
        self.program.meter_infos(id, now)
    }

    /// Names of tables, by number.
    #[must_use]
    pub fn names(&self) -> &BTreeMap<u8, String> {
        &self.names
    }

    /// The same, to be kept: they do not change with the state.
    #[must_use]
    pub fn shared_names(&self) -> Arc<BTreeMap<u8, String>> {
        Arc::clone(&self.names)
    }

    /// Gives a table a name. The caller has checked that neither is taken.
    pub fn name_table(&mut self, table: u8, name: &str) {
        Arc::make_mut(&mut self.names).insert(table, name.to_owned());
    }

    /// Takes the name of a table away; its number, if there was one of this name.
    pub fn unname_table(&mut self, name: &str) -> Option<u8> {
        let number = self.names.iter().find(|(_, taken)| *taken == name).map(|(number, _)| *number)?;
        Arc::make_mut(&mut self.names).remove(&number).map(|_| number)
    }

    /// Removes flows whose time is over (call it after counters were collected). True: the program
    /// has changed and is to be published.
    pub fn expire(&mut self, world: u64, now: Millis) -> bool {
        let hand_made = self.expired(now);
        if hand_made.is_empty()
            && let Some(learned) = self.program.learned.expire(now)
        {
            learned.iter().for_each(|(rule, reason)| self.report(rule, *reason, now));
            return false;
        }
        let learned = self.program.learned.due(now);
        let mut draft = Draft::new(self, now);
        for (rule, reason) in hand_made.into_iter().chain(learned) {
            if draft.is_live(&rule) {
                draft.take(rule, reason);
            }
        }
        draft.delete_learned();
        draft.commit(world);
        true
    }

    /// Flow-removed events since the last call.
    pub fn take_removed(&mut self) -> Vec<FlowRemoved> {
        let removed = std::mem::take(&mut self.removed);
        let event = |(rule, reason, at): (Arc<Rule>, _, _)| FlowRemoved { flow: dump::flow_info(&rule, at), reason };
        removed.into_iter().map(event).collect()
    }

    /// Tells of a rule that went, if it asked for that.
    fn report(&mut self, rule: &Arc<Rule>, reason: RemovedReason, now: Millis) {
        if rule.flags.send_flow_rem {
            self.removed.push((Arc::clone(rule), reason, now));
        }
    }
}

impl Draft<'_> {
    /// Applies an update; returns how many flows, groups or meters it added, changed or removed.
    fn apply(&mut self, update: &Update) -> Result<u64, Refused> {
        self.settle_group(Some(update));
        match update {
            Update::AddFlow(spec) => self.add_flow(spec),
            Update::ModifyFlows { filter, actions, reset_counts, cookie } => {
                self.modify_flows(filter, actions, *reset_counts, *cookie)
            }
            Update::DeleteFlows(filter) => self.delete_flows(filter),
            Update::AddGroup(spec) => self.add_group(spec),
            Update::ModifyGroup { spec, may_create } => self.modify_group(spec, *may_create),
            Update::DeleteGroups(id) => Ok(self.delete_groups(*id)),
            Update::InsertBuckets { group, place, buckets } => self.insert_buckets(*group, *place, buckets),
            Update::RemoveBuckets { group, place } => self.remove_buckets(*group, *place),
            Update::AddMeter(spec) => self.add_meter(spec),
            Update::ModifyMeter(spec) => self.modify_meter(spec),
            Update::DeleteMeters(id) => Ok(self.delete_meters(*id)),
            Update::ReplaceFlows(filter) => self.replace(filter, false, false),
            Update::ReplaceAll { meters } => self.replace(&FlowFilter::default(), true, *meters),
        }
    }

    /// What the end of the transaction brings: sweeps, judgement of references, and what goes with
    /// what went.
    fn finish(&mut self, counts: &mut [u64]) -> Result<(), Refused> {
        self.settle_group(None);
        self.sweep_flows(counts);
        self.sweep_groups_and_meters(counts);
        self.judge_references()?;
        self.judge_slots()?;
        self.delete_learned();
        Ok(())
    }
}
