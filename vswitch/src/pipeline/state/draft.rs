//! A transaction on its way: the next state, and how to go back.

use super::refs::{self, Ref};
use super::{PipelineState, Refused, RemovedReason, filter};
use crate::group::Group;
use crate::meter::Meter;
use crate::pipeline::{Program, Rule, TABLES, Table};
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
    /// Why it went.
    pub(super) reason: RemovedReason,
}

/// From an update on, what it selects and what nobody adds again goes.
pub(super) struct Sweep {
    pub(super) update: usize,
    pub(super) flows: FlowFilter,
    pub(super) groups: bool,
    pub(super) meters: bool,
}

/// Tables, groups and meters are copies (persistent, or made at the first change); the index is changed in place, and changed back from the
/// journal when the transaction is refused.
pub(super) struct Draft<'a> {
    pub(super) state: &'a mut PipelineState,
    pub(super) now: Millis,
    /// The update that is being applied.
    pub(super) update: usize,
    /// Tables that have changed.
    tables: Vec<Option<Classifier<Arc<Rule>>>>,
    groups: Option<HashMap<u32, Arc<Group>>>,
    meters: Option<HashMap<u32, Arc<Meter>>>,
    pub(super) journal: Vec<Change>,
    /// Groups and meters that were deleted, and by which update last.
    pub(super) deleted: HashMap<Ref, usize>,
    pub(super) sweeps: Vec<Sweep>,
    /// What was added since a sweep began: flows by serial, and groups and meters; with the update.
    pub(super) added_flows: HashMap<u64, usize>,
    pub(super) added_refs: HashMap<Ref, usize>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(state: &'a mut PipelineState, now: Millis) -> Self {
        Self {
            state,
            now,
            update: 0,
            tables: Vec::new(),
            groups: None,
            meters: None,
            journal: Vec::new(),
            deleted: HashMap::new(),
            sweeps: Vec::new(),
            added_flows: HashMap::new(),
            added_refs: HashMap::new(),
        }
    }

    /// The rules of a table as they are now, if it was ever used.
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

    /// The rule of this match and priority.
    pub(super) fn get(&self, table: u8, matching: &SparseMatch, priority: u16) -> Option<&Arc<Rule>> {
        self.rules(table)?.get(matching, priority).map(|entry| &entry.data)
    }

    /// Whether a rule is in the tables.
    pub(super) fn is_live(&self, rule: &Arc<Rule>) -> bool {
        self.get(rule.table, &rule.matching, rule.priority).is_some_and(|live| Arc::ptr_eq(live, rule))
    }

    /// Puts a rule in, in the place of `old` if there is one of equal match and priority.
    pub(super) fn put(&mut self, rule: Rule, old: Option<Arc<Rule>>) {
        let rule = Arc::new(rule);
        if let Some(old) = &old {
            self.state.index.remove(old);
        }
        self.state.index.add(&rule);
        self.rules_mut(rule.table).insert(rule.entry());
        self.journal.push(Change { update: self.update, old, new: Some(rule), reason: RemovedReason::Delete });
    }

    /// Takes a rule out.
    pub(super) fn take(&mut self, rule: Arc<Rule>, reason: RemovedReason) {
        self.state.index.remove(&rule);
        self.rules_mut(rule.table).remove(&rule.matching, rule.priority);
        self.journal.push(Change { update: self.update, old: Some(rule), new: None, reason });
    }

    /// Rules that a filter selects, in order of table and arrival.
    pub(super) fn select(&self, filter: &FlowFilter) -> Vec<Arc<Rule>> {
        let selects = |rule: &&Arc<Rule>| filter::selects(filter, rule);
        let mut rules: Vec<Arc<Rule>> = if let Some(priority) = filter.strict {
            let found = tables_of(filter).filter_map(|table| self.get(table, &filter.matching, priority));
            found.filter(selects).cloned().collect()
        } else if filter.cookie_mask == u64::MAX {
            self.state.index.with_cookie(filter.cookie, filter.table).filter(selects).cloned().collect()
        } else {
            let tables = tables_of(filter).filter_map(|table| self.rules(table));
            tables.flat_map(|rules| rules.iter().map(|entry| &entry.data)).filter(selects).cloned().collect()
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
            if let Some(old) = change.old {
                self.state.index.add(&old);
            }
        }
    }

    /// The next program, if anything has changed, and what is to be told about rules that went.
    pub(super) fn commit(self, world: u64) {
        let Self { state, now, tables, groups, meters, journal, .. } = self;
        let old = &state.program;
        let groups_changed = if groups.is_some() || meters.is_some() { world } else { old.groups_changed };
        let mut next = Program {
            tables: old.tables.clone(),
            groups: groups.map_or_else(|| Arc::clone(&old.groups), Arc::new),
            meters: meters.map_or_else(|| Arc::clone(&old.meters), Arc::new),
            learned: Arc::clone(&old.learned),
            groups_changed,
        };
        if next.tables.len() < tables.len() {
            next.tables.resize(tables.len(), None);
        }
        for (id, (slot, rules)) in next.tables.iter_mut().zip(tables).enumerate() {
            let Some(rules) = rules else { continue };
            let stats = slot.as_ref().map(|table| Arc::clone(&table.stats)).unwrap_or_default();
            let id = u8::try_from(id).unwrap_or(u8::MAX);
            *slot = Some(Arc::new(Table { id, rules, stats, changed: world }));
        }
        state.program = Arc::new(next);
        for change in journal {
            if let Change { old: Some(old), new: None, reason, .. } = change {
                state.report(&old, reason, now);
            }
        }
    }

    /// A mention of a group or meter that is not there is refused, unless a later update deleted it: then the flow goes with it.
    pub(super) fn judge_references(&mut self) -> Result<(), Refused> {
        let mut gone: Vec<(Arc<Rule>, Ref, usize)> = Vec::new();
        for change in &self.journal {
            let Some(new) = &change.new else { continue };
            let mut missing = None;
            refs::refs(&new.actions, &mut |what| {
                if !self.exists(what) {
                    missing = missing.or(Some(what));
                }
            });
            let Some(what) = missing.filter(|_| self.is_live(new)) else { continue };
            match self.deleted.get(&what) {
                Some(by) if *by > change.update => gone.push((Arc::clone(new), what, *by)),
                _ => return Err(missing_ref(what).at(change.update)),
            }
        }
        let mut deleted: Vec<_> = self.deleted.iter().filter(|(what, _)| !self.exists(**what)).collect();
        deleted.sort_unstable();
        for (what, by) in deleted {
            gone.extend(self.state.index.users(*what).map(|rule| (Arc::clone(rule), *what, *by)));
        }
        for (rule, what, by) in gone {
            if self.is_live(&rule) {
                self.update = by;
                self.take(rule, removed_with(what));
            }
        }
        Ok(())
    }

    /// Flows of a cookie go with the last learn that says `delete_learned`, and may be the last of another.
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
                let rules: Vec<_> = self.state.index.with_cookie(cookie, Some(table)).cloned().collect();
                self.update = update;
                rules.into_iter().for_each(|rule| self.take(rule, RemovedReason::Delete));
            }
        }
    }
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
