//! A transaction on its way: the next state, and how to go back.

use super::buckets::Rearranging;
use super::refs::{self, Ref};
use super::{PipelineState, Refused, RemovedReason, filter};
use crate::group::Group;
use crate::meter::Meter;
use crate::pipeline::learned::Begun;
use crate::pipeline::{ChangeLog, Program, Rule, TABLES, Table};
use crate::time::Millis;
use std::collections::HashMap;
use std::sync::Arc;
use vswitch_flow::SparseMatch;
use vswitch_flow::classifier::Classifier;
use vswitch_flow::spec::FlowFilter;

/// A rule that came, went, or took another one's place.
pub(super) struct Change {
    /// Which update did it.
    pub(super) update: usize,
    pub(super) old: Option<Arc<Rule>>,
    pub(super) new: Option<Arc<Rule>>,
    /// Why it went, if that is to be told.
    pub(super) reason: Option<RemovedReason>,
}

/// Tables, learned rules, groups and meters are copies (persistent, or made at the first change);
/// the index is changed in place, and changed back from the journal when the transaction is
/// refused.
pub(super) struct Draft<'a> {
    pub(super) state: &'a mut PipelineState,
    pub(super) now: Millis,
    /// The update that is being applied.
    pub(super) update: usize,
    /// Tables that have changed.
    tables: Vec<Option<Classifier<Arc<Rule>>>>,
    /// Learned rules as they are in the transaction.
    learned: Begun,
    /// What the transaction deletes, for learned rules that nobody has seen yet.
    deletes: Vec<FlowFilter>,
    groups: Option<HashMap<u32, Arc<Group>>>,
    /// Slots of the tables of groups that were added or changed.
    pub(super) slots_made: usize,
    /// The group whose buckets the last updates moved, as it was before.
    pub(super) rearranging: Option<Rearranging>,
    meters: Option<HashMap<u32, Arc<Meter>>>,
    pub(super) journal: Vec<Change>,
    /// Groups and meters that were deleted, and by which update last.
    pub(super) deleted: HashMap<Ref, usize>,
    /// Updates from which on the flows that a filter selects are only those that are added.
    pub(super) sweeps: Vec<(usize, FlowFilter)>,
    /// The last update from which on all groups, or meters, are only those that are added.
    pub(super) group_sweep: Option<usize>,
    pub(super) meter_sweep: Option<usize>,
    /// What was added since a sweep began: flows by serial, and groups and meters; with the update.
    pub(super) added_flows: HashMap<u64, usize>,
    pub(super) added_refs: HashMap<Ref, usize>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(state: &'a mut PipelineState, now: Millis) -> Self {
        let learned = state.program.learned.begin();
        let mut draft = Self {
            state,
            now,
            update: 0,
            tables: Vec::new(),
            learned,
            deletes: Vec::new(),
            groups: None,
            slots_made: 0,
            rearranging: None,
            meters: None,
            journal: Vec::new(),
            deleted: HashMap::new(),
            sweeps: Vec::new(),
            group_sweep: None,
            meter_sweep: None,
            added_flows: HashMap::new(),
            added_refs: HashMap::new(),
        };
        draft.drop_replaced();
        draft
    }

    /// Hand-made rules that learned ones have replaced go without a word.
    fn drop_replaced(&mut self) {
        for rule in self.learned.replaced.clone() {
            let there = self.rules(rule.table).and_then(|rules| rules.get(&rule.matching, rule.priority));
            if there.is_some_and(|entry| Arc::ptr_eq(&entry.data, &rule)) {
                self.take_out(&rule);
                self.journal.push(Change { update: 0, old: Some(rule), new: None, reason: None });
            }
        }
    }

    /// The hand-made rules of a table as they are now, if it was ever used.
    pub(super) fn rules(&self, table: u8) -> Option<&Classifier<Arc<Rule>>> {
        let changed = self.tables.get(usize::from(table)).and_then(Option::as_ref);
        changed.or_else(|| self.state.program.table(table).map(|table| &table.rules))
    }

    fn rules_mut(&mut self, table: u8) -> &mut Classifier<Arc<Rule>> {
        let i = usize::from(table);
        if self.tables.len() <= i {
            self.tables.resize_with(i + 1, || None);
        }
        let program = &self.state.program;
        self.tables[i].get_or_insert_with(|| program.table(table).map(|table| table.rules.clone()).unwrap_or_default())
    }

    /// All rules of a table, learned ones included.
    pub(super) fn all_rules(&self, table: u8) -> impl Iterator<Item = &Arc<Rule>> {
        let rules = [self.learned.rules(table), self.rules(table)];
        rules.into_iter().flatten().flat_map(|rules| rules.iter()).map(|entry| &entry.data)
    }

    /// Number of rules of a table.
    pub(super) fn len(&self, table: u8) -> usize {
        let rules = [self.learned.rules(table), self.rules(table)];
        rules.into_iter().flatten().map(Classifier::len).sum()
    }

    /// The rule of this match and priority.
    pub(super) fn get(&self, table: u8, matching: &SparseMatch, priority: u16) -> Option<&Arc<Rule>> {
        let learned = self.learned.rules(table).and_then(|rules| rules.get(matching, priority));
        let entry = learned.or_else(|| self.rules(table)?.get(matching, priority));
        entry.map(|entry| &entry.data)
    }

    /// Whether a rule is in the tables.
    pub(super) fn is_live(&self, rule: &Arc<Rule>) -> bool {
        self.get(rule.table, &rule.matching, rule.priority).is_some_and(|live| Arc::ptr_eq(live, rule))
    }

    /// Puts a hand-made rule in, in the place of `old` if there is one of equal match and priority.
    pub(super) fn put(&mut self, rule: Rule, old: Option<Arc<Rule>>) {
        let rule = Arc::new(rule);
        old.iter().for_each(|old| self.take_out(old));
        self.state.index.add(&rule);
        self.rules_mut(rule.table).insert(rule.entry());
        self.journal.push(Change { update: self.update, old, new: Some(rule), reason: None });
    }

    /// Takes a rule out.
    pub(super) fn take(&mut self, rule: Arc<Rule>, reason: RemovedReason) {
        self.take_out(&rule);
        self.journal.push(Change { update: self.update, old: Some(rule), new: None, reason: Some(reason) });
    }

    fn take_out(&mut self, rule: &Rule) {
        // Also for a learned rule: the table has changed.
        let rules = self.rules_mut(rule.table);
        if rule.learned {
            self.learned.remove(rule);
        } else {
            rules.remove(&rule.matching, rule.priority);
            self.state.index.remove(rule);
        }
    }

    /// Takes all rules that a filter selects, those included that workers learn before the
    /// transaction is adopted.
    pub(super) fn take_all(&mut self, filter: FlowFilter, spare: impl Fn(&Self, &Rule) -> bool) -> u64 {
        let mut count = 0;
        for rule in self.select(&filter) {
            if !spare(self, &rule) {
                self.take(rule, RemovedReason::Delete);
                count += 1;
            }
        }
        self.deletes.push(filter);
        count
    }

    /// Rules that a filter selects, in order of table and arrival.
    pub(super) fn select(&self, filter: &FlowFilter) -> Vec<Arc<Rule>> {
        let selects = |rule: &&Arc<Rule>| filter::selects(filter, rule);
        let mut rules: Vec<Arc<Rule>> = if let Some(priority) = filter.strict {
            let found = tables_of(filter).filter_map(|table| self.get(table, &filter.matching, priority));
            found.filter(selects).cloned().collect()
        } else if filter.cookie_mask == u64::MAX {
            let learned = tables_of(filter).filter(|table| self.learned.counts.contains_key(&(*table, filter.cookie)));
            let learned = learned.filter_map(|table| self.learned.rules(table)).flat_map(Classifier::iter);
            let hand_made = self.state.index.with_cookie(filter.cookie, filter.table);
            hand_made.chain(learned.map(|entry| &entry.data)).filter(selects).cloned().collect()
        } else {
            tables_of(filter).flat_map(|table| self.all_rules(table)).filter(selects).cloned().collect()
        };
        rules.sort_unstable_by_key(|rule| (rule.table, rule.serial));
        rules
    }

    pub(super) fn groups(&self) -> &HashMap<u32, Arc<Group>> {
        self.groups.as_ref().unwrap_or(&self.state.program.groups)
    }

    pub(super) fn groups_mut(&mut self) -> &mut HashMap<u32, Arc<Group>> {
        self.groups.get_or_insert_with(|| (*self.state.program.groups).clone())
    }

    pub(super) fn meters(&self) -> &HashMap<u32, Arc<Meter>> {
        self.meters.as_ref().unwrap_or(&self.state.program.meters)
    }

    pub(super) fn meters_mut(&mut self) -> &mut HashMap<u32, Arc<Meter>> {
        self.meters.get_or_insert_with(|| (*self.state.program.meters).clone())
    }

    pub(super) fn exists(&self, what: Ref) -> bool {
        match what {
            Ref::Group(id) => self.groups().contains_key(&id),
            Ref::Meter(id) => self.meters().contains_key(&id),
        }
    }

    /// Everything as it was.
    pub(super) fn roll_back(self) {
        for change in self.journal.into_iter().rev() {
            if let Some(new) = change.new {
                self.state.index.remove(&new);
            }
            if let Some(old) = change.old.filter(|old| !old.learned) {
                self.state.index.add(&old);
            }
        }
        self.state.program.learned.abandon(self.learned.replaced);
    }

    /// The next program, and what is to be told about rules that went.
    pub(super) fn commit(self, world: u64) {
        let Self { state, now, tables, groups, meters, journal, deletes, .. } = self;
        let old = Arc::clone(&state.program);
        let mut next = old.tables.clone();
        if next.len() < tables.len() {
            next.resize(tables.len(), None);
        }
        let changes: Vec<&Arc<Rule>> = journal.iter().flat_map(|change| change.old.iter().chain(&change.new)).collect();
        for (id, (slot, rules)) in (0..=u8::MAX).zip(next.iter_mut().zip(tables)) {
            if let Some(rules) = rules {
                *slot = Some(table_after(slot.as_deref(), rules, (id, world), &changes));
            }
        }
        let removed = journal.iter().filter_map(|change| change.old.as_ref()).filter(|old| old.learned);
        let (learned, meanwhile) = old.learned.commit(&next, removed, deletes);
        for rule in &meanwhile {
            let id = usize::from(rule.table);
            if next.len() <= id {
                next.resize(id + 1, None);
            }
            let rules = next[id].as_ref().map(|table| table.rules.clone()).unwrap_or_default();
            next[id] = Some(table_after(next[id].as_deref(), rules, (rule.table, world), &[rule]));
        }
        let groups_changed = if groups.is_some() || meters.is_some() { world } else { old.groups_changed };
        state.program = Arc::new(Program {
            tables: next,
            groups: groups.map_or_else(|| Arc::clone(&old.groups), Arc::new),
            meters: meters.map_or_else(|| Arc::clone(&old.meters), Arc::new),
            learned,
            groups_changed,
        });
        for change in journal {
            if let Change { old: Some(old), reason: Some(reason), .. } = change {
                state.report(&old, reason, now);
            }
        }
        meanwhile.iter().for_each(|rule| state.report(rule, RemovedReason::Delete, now));
    }

    /// A mention of a group or meter that is not there is refused, unless a later update deleted
    /// it: then the flow goes with it.
    pub(super) fn judge_references(&mut self) -> Result<(), Refused> {
        let mut gone: Vec<(Arc<Rule>, Ref, usize)> = Vec::new();
        for change in &self.journal {
            let Some(new) = &change.new else { continue };
            let mut missing = Vec::new();
            refs::refs(&new.actions, &mut |what| missing.extend((!self.exists(what)).then_some(what)));
            if missing.is_empty() || !self.is_live(new) {
                continue;
            }
            for what in missing {
                match self.deleted.get(&what) {
                    Some(by) if *by > change.update => gone.push((Arc::clone(new), what, *by)),
                    _ => return Err(missing_ref(what).at(change.update)),
                }
            }
        }
        let mut deleted: Vec<_> = self.deleted.iter().filter(|(what, _)| !self.exists(**what)).collect();
        deleted.sort_unstable();
        for (what, by) in deleted {
            gone.extend(self.state.index.users(*what).map(|rule| (Arc::clone(rule), *what, *by)));
        }
        // The earliest deletion takes a flow.
        gone.sort_by_key(|(_, what, by)| (*by, *what));
        for (rule, what, by) in gone {
            if self.is_live(&rule) {
                self.update = by;
                self.take(rule, removed_with(what));
            }
        }
        Ok(())
    }

    /// Flows of a cookie go with the last learn that says `delete_learned`, and may be the last of
    /// another.
    pub(super) fn delete_learned(&mut self) {
        let mut looked_at = 0;
        while let Some(change) = self.journal.get(looked_at) {
            looked_at += 1;
            let (update, mut lost) = (change.update, Vec::new());
            if let Some(old) = &change.old {
                refs::learners(&old.actions, &mut |learned| lost.push(learned));
            }
            for (table, cookie) in lost {
                if self.state.index.has_learner((table, cookie)) {
                    continue;
                }
                self.update = update;
                let (table, cookie_mask) = (Some(table), u64::MAX);
                let learned = FlowFilter { table, cookie, cookie_mask, ..FlowFilter::default() };
                self.take_all(learned, |_, _| false);
            }
        }
    }
}

/// A table with other rules, from a world on; some of the changes may be of other tables.
fn table_after(
    old: Option<&Table>,
    rules: Classifier<Arc<Rule>>,
    (id, world): (u8, u64),
    changes: &[&Arc<Rule>],
) -> Arc<Table> {
    let (mut stats, mut log) = Default::default();
    if let Some(old) = old {
        (stats, log) = (Arc::clone(&old.stats), old.log.clone());
        let own = changes.iter().filter(|rule| rule.table == id);
        log.note(world, &own.map(|rule| Arc::clone(&rule.matching)).collect());
    } else {
        // What looked here before counts here from now on.
        ChangeLog::forget(&mut log, world);
    }
    Arc::new(Table { id, rules, stats, changed: world, log })
}

fn tables_of(filter: &FlowFilter) -> impl Iterator<Item = u8> {
    let last = u8::try_from(TABLES - 1).unwrap_or(u8::MAX);
    filter.table.map_or(0..=last, |table| table..=table)
}

fn removed_with(what: Ref) -> RemovedReason {
    match what {
        Ref::Group(_) => RemovedReason::GroupDelete,
        Ref::Meter(_) => RemovedReason::MeterDelete,
    }
}

fn missing_ref(what: Ref) -> Refused {
    match what {
        Ref::Group(id) => Refused::new("OFPBAC_BAD_OUT_GROUP", "actions", format!("group {id} does not exist"))
            .hint("add it in the same transaction, or before"),
        Ref::Meter(id) => Refused::new("OFPMMFC_INVALID_METER", "actions", format!("meter {id} does not exist"))
            .hint("add it in the same transaction, or before"),
    }
}
