//! Whether changes can be: what speaks against them, and taking those back that cannot.

use super::plan::{Pending, Refused};
use super::result::Outcome;
use super::{Room, Undo};
use crate::desired::Entry;
use crate::object::{Need, Object};
use crate::{Code, Facts, Key, Problem, Problems};
use std::collections::{BTreeSet, HashMap, HashSet};

impl Room {
    /// Judges everything that is touched; what is refused of it.
    pub(super) fn judge(&self, touched: &BTreeSet<Key>, pending: &Pending) -> Refused {
        let mut refused = Refused::new();
        let Some(facts) = self.facts() else { return refused };
        let order: HashMap<&Key, usize> = pending.changes.iter().zip(0..).map(|((key, _), at)| (key, at)).collect();
        for key in touched {
            let mut problems = Problems::default();
            let Some(entry) = self.desired.get(key) else { continue };
            self.judge_references(&facts, entry, &order, &mut refused, &mut problems);
            if let Some(mine) = order.get(key) {
                self.judge_claims(key, entry, *mine, &order, &mut problems);
                entry.object.judge_new(&facts, &mut problems);
                entry.object.judge(&key.name, &facts, &mut problems);
            }
            if !problems.is_empty() {
                refused.entry(key.clone()).or_default().extend(problems);
            }
        }
        refused
    }

    /// What it must have is there; else it is refused, or, if it is not new, those are that take it away.
    fn judge_references(
        &self,
        facts: &Facts<'_>,
        entry: &Entry,
        order: &HashMap<&Key, usize>,
        refused: &mut Refused,
        problems: &mut Problems,
    ) {
        let key = Object::key_of(&entry.message);
        for reference in entry.object.references() {
            if reference.need == Need::May || facts.desired.get(&reference.key).is_some() {
                continue;
            }
            if order.contains_key(&key) {
                let reason = format!("{} is not there", reference.key);
                problems.add(Problem::new(Code::Reference, reference.field, reason).other(reference.key));
            } else {
                let problem = Problem::new(Code::InUse, "", format!("{key} refers to it"));
                refused.entry(reference.key).or_default().add(problem.other(key.clone()));
            }
        }
    }

    /// Nobody else has what it claims: neither an object that is not being written, nor one that is written before it.
    fn judge_claims(
        &self,
        key: &Key,
        entry: &Entry,
        mine: usize,
        order: &HashMap<&Key, usize>,
        problems: &mut Problems,
    ) {
        for (claim, field) in entry.object.claims() {
            let earlier = |other: &&Key| *other != key && order.get(*other).is_none_or(|other| *other < mine);
            if let Some(other) = self.desired.holders(&claim).find(earlier) {
                let reason = format!("{claim} belongs to {other}");
                problems.add(Problem::new(Code::Overlap, field, reason).other(other.clone()));
            }
        }
    }

    /// Takes refused changes back. False: none of the changes is to blame, and nothing can be taken back.
    pub(super) fn take_back(&mut self, refused: Refused, pending: &mut Pending, undo: &mut Undo) -> bool {
        let changed: HashSet<Key> = pending.changes.iter().map(|(key, _)| key.clone()).collect();
        let mut blamed = Refused::new();
        for (key, problems) in refused {
            if changed.contains(&key) {
                blamed.entry(key).or_default().extend(problems);
                continue;
            }
            // Something else cannot be any more: those are to blame that it names; else all.
            let mut culprits: BTreeSet<Key> = match self.desired.get(&key) {
                Some(entry) => entry.object.references().into_iter().map(|reference| reference.key).collect(),
                None => BTreeSet::new(),
            };
            culprits.extend(
                changed.iter().filter(|other| Object::dragged_by(other).any(|dragged| dragged == key)).cloned(),
            );
            culprits.retain(|other| changed.contains(other));
            if culprits.is_empty() {
                culprits.extend(changed.iter().cloned());
            }
            for culprit in culprits {
                blamed.entry(culprit).or_default().extend(problems.clone());
            }
        }
        if blamed.is_empty() {
            return false;
        }
        let mut back: HashSet<Key> = blamed.keys().cloned().collect();
        for (key, problems) in blamed {
            pending.status(&key, Outcome::Refused, problems);
        }
        // What was to go with something that stays, stays.
        let stay: Vec<Key> =
            pending.with.iter().filter(|(_, whose)| back.contains(*whose)).map(|(key, _)| key.clone()).collect();
        for key in stay {
            if changed.contains(&key) && back.insert(key.clone()) {
                pending.status(&key, Outcome::NotApplied, Problems::default());
            }
        }
        pending.changes.retain(|(key, _)| !back.contains(key));
        for (key, old) in undo.entries.extract_if(.., |(key, _)| back.contains(key)) {
            self.desired.set(&key, old);
        }
        true
    }
}
