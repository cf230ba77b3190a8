//! What the control side does with learned rules: transactions and timeouts.

use super::views::{Pair, State, View, ViewState, change, table_of};
use super::{Learned, Shared, Tables};
use crate::pipeline::state::{RemovedReason, deadline, filter};
use crate::pipeline::{ChangedMatches, Rule, Table};
use crate::time::Millis;
use arc_swap::ArcSwap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use vswitch_flow::SparseMatch;
use vswitch_flow::spec::FlowFilter;

/// Rules that are removed under one hold of the lock, when their time is over: workers may wait for
/// it.
const EXPIRE_AT_ONCE: usize = 256;

/// Learned rules as a transaction found them.
#[derive(Debug, Default)]
pub(in crate::pipeline) struct Begun {
    pub(in crate::pipeline) tables: Tables,
    /// Rules by table and cookie.
    pub(in crate::pipeline) counts: HashMap<Pair, usize>,
    /// Hand-made rules that were replaced by learned ones since the last transaction.
    pub(in crate::pipeline) replaced: Vec<Arc<Rule>>,
}

/// A rule that went, and why.
pub(in crate::pipeline) type Gone = (Arc<Rule>, RemovedReason);

impl Learned {
    /// A transaction begins. All workers use this view, or none.
    pub(in crate::pipeline) fn begin(&self) -> Begun {
        self.adopted();
        let mut state = self.shared.state.lock();
        state.recent = Some(Vec::new());
        let replaced = std::mem::take(&mut state.replaced);
        let present = state.present();
        Begun { tables: Tables::clone(&present.view.tables.load()), counts: present.counts.clone(), replaced }
    }

    /// All workers have adopted the program of this view: the view before it is no more.
    pub(in crate::pipeline) fn adopted(&self) {
        let mut state = self.shared.state.lock();
        let older = state.views.len() - 1;
        state.views.drain(..older);
        state.deleted.clear();
        // What workers decided by rules of the view that is no more is stale.
        let passing = std::mem::take(&mut state.passing);
        if !passing.is_empty() {
            let view = Arc::clone(&state.present().view);
            self.shared.changes.publish(|epoch| {
                let mut tables = Tables::clone(&view.tables.load());
                for table in &passing {
                    let table = change(&mut tables, *table);
                    table.epoch = epoch;
                    table.log.forget(epoch);
                }
                view.tables.store(Arc::new(tables));
            });
        }
    }

    /// The transaction was refused.
    pub(in crate::pipeline) fn abandon(&self, replaced: Vec<Arc<Rule>>) {
        let mut state = self.shared.state.lock();
        state.recent = None;
        state.replaced.extend(replaced);
    }

    /// The transaction is adopted: the view of the program with these hand-made rules, without the
    /// learned rules that it removed and those that a filter of it selects. Returned beside it:
    /// rules of the latter kind that were learned meanwhile.
    pub(in crate::pipeline) fn commit<'a>(
        &self,
        base: &[Option<Arc<Table>>],
        removed: impl Iterator<Item = &'a Arc<Rule>>,
        deleted: Vec<FlowFilter>,
    ) -> (Arc<Self>, Vec<Arc<Rule>>) {
        let mut state = self.shared.state.lock();
        let present = state.present();
        let mut tables = Tables::clone(&present.view.tables.load());
        let view = Arc::new(View { base: base.to_vec(), tables: ArcSwap::default() });
        let mut next = ViewState::new(Arc::clone(&view));
        (next.counts, next.len) = (present.counts.clone(), present.len);
        let before = Arc::clone(&present.view);
        let mut serials = Vec::new();
        for rule in removed {
            // One that a worker has replaced meanwhile is looked at below.
            if next.has(&tables, rule) {
                serials.extend(next.without(&mut tables, rule).map(|rule| rule.serial));
            }
        }
        let mut meanwhile = Vec::new();
        for rule in state.recent.take().unwrap_or_default() {
            let selected = deleted.iter().any(|filter| filter::selects(filter, &rule));
            if (selected || view.wrote(&before, &rule))
                && let Some(rule) = next.without(&mut tables, &rule)
            {
                serials.push(rule.serial);
                meanwhile.extend(selected.then_some(rule));
            }
        }
        serials.into_iter().for_each(|serial| state.forget_due(serial));
        view.tables.store(Arc::new(tables));
        for rule in &state.replaced {
            let there = view.hand_made(rule.table).and_then(|rules| rules.get(&rule.matching, rule.priority));
            if there.is_some_and(|entry| Arc::ptr_eq(&entry.data, rule)) {
                *next.replaced.entry((rule.table, rule.cookie)).or_default() += 1;
            }
        }
        state.deleted = deleted;
        state.views.push(next);
        drop(state);
        (Arc::new(Self { shared: Arc::clone(&self.shared), view }), meanwhile)
    }

    /// Removes rules whose time is over. None: hand-made rules were replaced meanwhile, which must
    /// be taken out of the program first, lest they come back: see [`Learned::due`].
    pub(in crate::pipeline) fn expire(&self, now: Millis) -> Option<Vec<Gone>> {
        let mut expired = Vec::new();
        loop {
            let mut state = self.shared.state.lock();
            if !state.replaced.is_empty() {
                // What is removed already is removed.
                return (!expired.is_empty()).then_some(expired);
            }
            let some = state.overdue(now, EXPIRE_AT_ONCE);
            if some.is_empty() {
                return Some(expired);
            }
            state.remove(&self.shared, &some);
            expired.extend(some);
        }
    }

    /// Rules whose time is over. They are not removed, but not looked at again either.
    pub(in crate::pipeline) fn due(&self, now: Millis) -> Vec<Gone> {
        self.shared.state.lock().overdue(now, usize::MAX)
    }
}

impl State {
    fn overdue(&mut self, now: Millis, max: usize) -> Vec<Gone> {
        let mut overdue = Vec::new();
        while overdue.len() < max
            && let Some(rule) = self.pop_due(now.0)
        {
            match deadline(&rule) {
                Some((at, reason)) if at <= now.0 => overdue.push((rule, reason)),
                _ => self.look_later(rule, now.0),
            }
        }
        overdue
    }

    /// Removes rules from all views.
    fn remove(&mut self, shared: &Shared, gone: &[Gone]) {
        let mut next: Vec<(Arc<View>, Tables)> = Vec::with_capacity(2);
        for state in &mut self.views {
            let mut tables = Tables::clone(&state.view.tables.load());
            gone.iter().for_each(|(rule, _)| drop(state.without(&mut tables, rule)));
            next.push((Arc::clone(&state.view), tables));
        }
        let mut by_table: BTreeMap<u8, Vec<Arc<SparseMatch>>> = BTreeMap::new();
        for (rule, _) in gone {
            by_table.entry(rule.table).or_default().push(Arc::clone(&rule.matching));
        }
        let changed: Vec<(u8, ChangedMatches)> =
            by_table.into_iter().map(|(table, matches)| (table, matches.into())).collect();
        shared.changes.publish(|epoch| {
            for (view, tables) in &mut next {
                changed.iter().for_each(|(table, matches)| change(tables, *table).changed(epoch, matches));
                view.tables.store(Arc::new(tables.clone()));
            }
        });
    }
}

impl Begun {
    /// Takes a rule out of these tables (of nobody else's).
    pub(in crate::pipeline) fn remove(&mut self, rule: &Rule) {
        if self.rules(rule.table).is_some() {
            change(&mut self.tables, rule.table).rules.remove(&rule.matching, rule.priority);
        }
    }

    /// The learned rules of a table.
    pub(in crate::pipeline) fn rules(&self, table: u8) -> Option<&vswitch_flow::classifier::Classifier<Arc<Rule>>> {
        table_of(&self.tables, table).map(|table| &table.rules)
    }
}
