//! What the control side needs to find rules by something else than table, match and priority.

use super::refs::{self, Ref};
use crate::pipeline::Rule;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Indexes over hand-made rules. Adding and removing are each other's inverse: that is how a
/// transaction is undone.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Rules that use a group or meter.
    users: BTreeMap<(Ref, u64), Arc<Rule>>,
    /// Rules by cookie, table and serial.
    cookies: BTreeMap<(u64, u8, u64), Arc<Rule>>,
    /// Number of learns with `delete_learned`, by table and cookie of what they learn.
    learners: BTreeMap<(u8, u64), u32>,
    /// Rules that may expire, by when they are to be looked at, and the same the other way around.
    due: BTreeMap<(u64, u64), Arc<Rule>>,
    due_of: BTreeMap<u64, u64>,
}

impl Index {
    pub(super) fn add(&mut self, rule: &Arc<Rule>) {
        self.cookies.insert((rule.cookie, rule.table, rule.serial), Arc::clone(rule));
        refs::refs(&rule.actions, &mut |what| {
            self.users.insert((what, rule.serial), Arc::clone(rule));
        });
        refs::learners(&rule.actions, &mut |learned| *self.learners.entry(learned).or_default() += 1);
        if let Some(at) = super::expire::look_at(rule, rule.modified_ms.load(Relaxed)) {
            self.due.insert((at, rule.serial), Arc::clone(rule));
            self.due_of.insert(rule.serial, at);
        }
    }

    pub(super) fn remove(&mut self, rule: &Rule) {
        self.cookies.remove(&(rule.cookie, rule.table, rule.serial));
        refs::refs(&rule.actions, &mut |what| {
            self.users.remove(&(what, rule.serial));
        });
        refs::learners(&rule.actions, &mut |learned| {
            if let Some(count) = self.learners.get_mut(&learned) {
                *count -= 1;
                if *count == 0 {
                    self.learners.remove(&learned);
                }
            }
        });
        if let Some(at) = self.due_of.remove(&rule.serial) {
            self.due.remove(&(at, rule.serial));
        }
    }

    /// Number of rules.
    pub(super) fn len(&self) -> usize {
        self.cookies.len()
    }

    /// Rules that use a group or meter.
    pub(super) fn users(&self, what: Ref) -> impl Iterator<Item = &Arc<Rule>> {
        self.users.range((what, 0)..=(what, u64::MAX)).map(|(_, rule)| rule)
    }

    /// Rules with exactly this cookie, of a table or of all.
    pub(super) fn with_cookie(&self, cookie: u64, table: Option<u8>) -> impl Iterator<Item = &Arc<Rule>> {
        let (first, last) = (table.unwrap_or(0), table.unwrap_or(u8::MAX));
        self.cookies.range((cookie, first, 0)..=(cookie, last, u64::MAX)).map(|(_, rule)| rule)
    }

    /// Whether a flow learns flows of this table and cookie, with `delete_learned`.
    pub(super) fn has_learner(&self, learned: (u8, u64)) -> bool {
        self.learners.contains_key(&learned)
    }

    /// Takes a rule whose time has come to be looked at; put it back with [`Index::look_later`] if
    /// it stays.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<Arc<Rule>> {
        let first = self.due.first_entry().filter(|first| first.key().0 <= now)?;
        let rule = first.remove();
        self.due_of.remove(&rule.serial);
        Some(rule)
    }

    /// Enters a rule that is to be looked at at a time, in milliseconds.
    pub(super) fn look_later(&mut self, rule: Arc<Rule>, at: u64) {
        self.due_of.insert(rule.serial, at);
        self.due.insert((at, rule.serial), rule);
    }
}
