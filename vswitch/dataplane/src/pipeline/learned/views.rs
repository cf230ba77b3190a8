//! The views of a bridge's learned rules, and how a rule gets into them.

use super::{Bounds, LearnedTable, Shared, Tables};
use crate::pipeline::state::{filter, look_at};
use crate::pipeline::{Rule, Table};
use crate::time::Millis;
use arc_swap::ArcSwap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::SparseMatch;
use vswitch_flow::classifier::Classifier;
use vswitch_flow::spec::{FlowFilter, FlowSpec};

/// What one program sees.
#[derive(Debug)]
pub(super) struct View {
    /// Hand-made rules of the program.
    pub(super) base: Vec<Option<Arc<Table>>>,
    /// Learned rules.
    pub(super) tables: ArcSwap<Tables>,
}

/// A table and a cookie.
pub(super) type Pair = (u8, u64);

/// A view with what only writers need.
#[derive(Debug)]
pub(super) struct ViewState {
    pub(super) view: Arc<View>,
    /// Learned rules by table and cookie.
    pub(super) counts: HashMap<Pair, usize>,
    /// Learned rules in all.
    pub(super) len: usize,
    /// Hand-made rules of the base by table and cookie, as far as a `limit` has asked for them.
    pub(super) hand_made: HashMap<Pair, usize>,
    /// Hand-made rules of the base that learned rules have replaced.
    pub(super) replaced: HashMap<Pair, usize>,
}

/// What writers share.
#[derive(Debug)]
pub(super) struct State {
    /// The view of the present program; before it that of the last one, as long as workers may use
    /// it.
    pub(super) views: Vec<ViewState>,
    /// What the present program's transaction has deleted.
    pub(super) deleted: Vec<FlowFilter>,
    /// Hand-made rules that were replaced and that the control side does not know of yet.
    pub(super) replaced: Vec<Arc<Rule>>,
    /// Rules that were installed while the control side works on a transaction.
    pub(super) recent: Option<Vec<Arc<Rule>>>,
    /// Tables where packets of the last program learned what the present one has deleted.
    pub(super) passing: Vec<u8>,
    /// When to look at rules that may expire, and the same by serial.
    due: BTreeMap<(u64, u64), Arc<Rule>>,
    due_of: HashMap<u64, u64>,
}

impl View {
    /// The rule of this match and priority, learned or hand-made.
    pub(super) fn find(&self, table: u8, matching: &SparseMatch, priority: u16) -> Option<Arc<Rule>> {
        let tables = self.tables.load();
        let learned = table_of(&tables, table).and_then(|learned| learned.rules.get(matching, priority));
        let entry = learned.or_else(|| self.hand_made(table)?.get(matching, priority));
        entry.map(|entry| Arc::clone(&entry.data))
    }

    /// Whether the hand-made rule of this one's match and priority is another than in the program
    /// before.
    pub(super) fn wrote(&self, before: &Self, rule: &Rule) -> bool {
        let find = |view: &Self| {
            let rules = view.hand_made(rule.table)?;
            rules.get(&rule.matching, rule.priority).map(|entry| Arc::as_ptr(&entry.data))
        };
        find(self).is_some_and(|new| find(before) != Some(new))
    }

    pub(super) fn hand_made(&self, table: u8) -> Option<&Classifier<Arc<Rule>>> {
        self.base.get(usize::from(table))?.as_ref().map(|table| &table.rules)
    }
}

/// The learned rules of a table.
pub(super) fn table_of(tables: &Tables, table: u8) -> Option<&LearnedTable> {
    tables.get(usize::from(table))?.as_deref()
}

/// Whether a learn would change nothing but the time of the last change: like `mod-flows` it leaves
/// a rule its timeouts and flags.
pub(super) fn is_as_wanted(rule: &Rule, wanted: &FlowSpec) -> bool {
    rule.cookie == wanted.cookie && rule.actions == wanted.actions
}

/// The rule that takes the place of `old`, or a new one.
fn rule_for(shared: &Shared, wanted: &FlowSpec, old: Option<&Rule>, now: Millis) -> Rule {
    let Some(old) = old else {
        return Rule { learned: true, ..Rule::new(wanted.clone(), shared.next_serial(), now) };
    };
    let (cookie, actions) = (wanted.cookie, Arc::clone(&wanted.actions));
    let mut rule = Rule::new(FlowSpec { cookie, actions, ..old.spec() }, old.serial, now);
    rule.created_ms = old.created_ms;
    rule.take_counters(old, false);
    Rule { learned: true, ..rule }
}

impl ViewState {
    pub(super) fn new(view: Arc<View>) -> Self {
        Self { view, counts: HashMap::new(), len: 0, hand_made: HashMap::new(), replaced: HashMap::new() }
    }

    /// Flows with a cookie in a table, hand-made ones included.
    fn flows(&mut self, pair: Pair) -> usize {
        let view = &self.view;
        let scan = || {
            let rules = view.hand_made(pair.0).into_iter().flat_map(Classifier::iter);
            rules.filter(|entry| entry.data.cookie == pair.1).count()
        };
        let hand_made = *self.hand_made.entry(pair).or_insert_with(scan);
        let of = |counts: &HashMap<Pair, usize>| counts.get(&pair).copied().unwrap_or(0);
        (hand_made + of(&self.counts)).saturating_sub(of(&self.replaced))
    }

    fn is_full(&self, table: u8, bounds: Bounds) -> bool {
        let tables = self.view.tables.load();
        self.len >= bounds.per_bridge
            || table_of(&tables, table).map_or(0, |table| table.rules.len()) >= bounds.per_table
    }

    /// The tables with a rule more; counts it.
    fn with(&mut self, rule: &Arc<Rule>) -> Tables {
        let mut tables = Tables::clone(&self.view.tables.load());
        let old = change(&mut tables, rule.table).rules.insert(rule.entry());
        match old {
            Some(old) => self.uncount(&old.data),
            None => {
                let hand_made = self.view.hand_made(rule.table);
                if let Some(old) = hand_made.and_then(|rules| rules.get(&rule.matching, rule.priority)) {
                    *self.replaced.entry((rule.table, old.data.cookie)).or_default() += 1;
                }
            }
        }
        *self.counts.entry((rule.table, rule.cookie)).or_default() += 1;
        self.len += 1;
        tables
    }

    fn uncount(&mut self, rule: &Rule) {
        self.len -= 1;
        let pair = (rule.table, rule.cookie);
        if let Some(count) = self.counts.get_mut(&pair) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&pair);
            }
        }
    }

    /// Whether this very rule is in tables of this view.
    pub(super) fn has(&self, tables: &Tables, rule: &Arc<Rule>) -> bool {
        let there = table_of(tables, rule.table).and_then(|table| table.rules.get(&rule.matching, rule.priority));
        there.is_some_and(|entry| Arc::ptr_eq(&entry.data, rule))
    }

    /// Takes the rule of this one's match and priority out of tables of this view; returns it.
    pub(super) fn without(&mut self, tables: &mut Tables, rule: &Rule) -> Option<Arc<Rule>> {
        table_of(tables, rule.table)?.rules.get(&rule.matching, rule.priority)?;
        let old = change(tables, rule.table).rules.remove(&rule.matching, rule.priority)?;
        self.uncount(&old.data);
        Some(old.data)
    }
}

/// A table to change: others that hold it keep it as it is.
pub(super) fn change(tables: &mut Tables, table: u8) -> &mut LearnedTable {
    let i = usize::from(table);
    if tables.len() <= i {
        tables.resize(i + 1, None);
    }
    Arc::make_mut(tables[i].get_or_insert_default())
}

impl State {
    pub(super) fn new(view: Arc<View>) -> Self {
        Self {
            views: vec![ViewState::new(view)],
            deleted: Vec::new(),
            replaced: Vec::new(),
            recent: None,
            passing: Vec::new(),
            due: BTreeMap::new(),
            due_of: HashMap::new(),
        }
    }

    /// The view of the present program.
    pub(super) fn present(&mut self) -> &mut ViewState {
        let last = self.views.len() - 1;
        &mut self.views[last]
    }

    /// Installs, replaces or refreshes a flow for a packet that was translated with a view; whether
    /// it is there now.
    pub(super) fn install(
        &mut self,
        shared: &Shared,
        view: &Arc<View>,
        wanted: &FlowSpec,
        limit: u32,
        now: Millis,
    ) -> bool {
        let last = self.views.len() - 1;
        // A view that is neither is so old that nobody should use it: its packets count as the
        // present one's.
        let mine = self.views.iter().position(|state| Arc::ptr_eq(&state.view, view)).unwrap_or(last);
        let old = self.views[mine].view.find(wanted.table, &wanted.matching, wanted.priority);
        if let Some(old) = &old
            && is_as_wanted(old, wanted)
        {
            old.modified_ms.fetch_max(now.0, Relaxed);
            return true;
        }
        if limit != 0 && self.views[mine].flows((wanted.table, wanted.cookie)) >= limit as usize {
            return false;
        }
        if !old.as_ref().is_some_and(|old| old.learned) && self.views[mine].is_full(wanted.table, shared.bounds) {
            shared.refused[usize::from(wanted.table)].fetch_add(1, Relaxed);
            return false;
        }
        let rule = Arc::new(rule_for(shared, wanted, old.as_deref(), now));
        let mut next: Vec<(usize, Tables)> = Vec::with_capacity(2);
        for i in 0..self.views.len() {
            if i <= mine || !self.has_deleted(&rule) {
                next.push((i, self.views[i].with(&rule)));
            } else {
                self.passing.push(rule.table);
            }
        }
        let matches = [Arc::clone(&rule.matching)].into();
        shared.changes.publish(|epoch| {
            for (i, tables) in &mut next {
                change(tables, rule.table).changed(epoch, &matches);
                self.views[*i].view.tables.store(Arc::new(tables.clone()));
            }
        });
        if next.iter().any(|(i, _)| *i == last) {
            self.look_after(&rule, old);
        }
        true
    }

    /// Whether the present program's transaction would have removed a rule that was learned before
    /// it.
    fn has_deleted(&self, rule: &Rule) -> bool {
        let written = || self.views.last().zip(self.views.first()).is_some_and(|(n, o)| n.view.wrote(&o.view, rule));
        self.deleted.iter().any(|deleted| filter::selects(deleted, rule)) || written()
    }

    /// Notes a rule that is in the present view: when it may expire, what it has replaced.
    fn look_after(&mut self, rule: &Arc<Rule>, old: Option<Arc<Rule>>) {
        self.forget_due(rule.serial);
        self.look_later(Arc::clone(rule), rule.modified_ms.load(Relaxed));
        self.replaced.extend(old.filter(|old| !old.learned));
        if let Some(recent) = &mut self.recent {
            recent.push(Arc::clone(rule));
        }
    }

    /// Puts a rule where it is looked at when its time may be over.
    pub(super) fn look_later(&mut self, rule: Arc<Rule>, now: u64) {
        if let Some(at) = look_at(&rule, now) {
            self.due_of.insert(rule.serial, at);
            self.due.insert((at, rule.serial), rule);
        }
    }

    pub(super) fn forget_due(&mut self, serial: u64) {
        if let Some(at) = self.due_of.remove(&serial) {
            self.due.remove(&(at, serial));
        }
    }

    /// Takes a rule whose time may be over.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<Arc<Rule>> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now)?;
        let rule = first.remove();
        self.due_of.remove(&rule.serial);
        Some(rule)
    }
}
