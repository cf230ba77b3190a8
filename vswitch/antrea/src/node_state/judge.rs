//! Whether changes can be: what speaks against them, who has what several claim, and taking back
//! what cannot be.

use super::plan::{Pending, Refused};
use super::result::Outcome;
use super::{NodeState, Undo};
use crate::desired::Entry;
use crate::key::Need;
use crate::object::Object;
use crate::{Claim, Code, Key, ObjectKind, Problem, Problems};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

impl NodeState {
    /// What cannot be removed, since something holds it.
    pub(super) fn judge(&self, pending: &Pending) -> Refused {
        let mut refused = Refused::new();
        for (key, _) in pending.changes.iter().filter(|(_, entry)| entry.is_none()) {
            for other in self.desired.referrers(key) {
                let references = self.desired.get(other).map(|entry| entry.object.references()).unwrap_or_default();
                if references.iter().any(|reference| reference.key == *key && reference.need == Need::Holds) {
                    let problem = Problem::new(Code::InUse, "", format!("{other} refers to it"));
                    refused.entry(key.clone()).or_default().add(problem.other(other.clone()));
                }
            }
        }
        refused
    }

    /// Remembers who has what these changes are about.
    pub(super) fn note_holders(&self, pending: &Pending, undo: &mut Undo) {
        for (key, entry) in &pending.changes {
            let old = self.desired.get(key);
            for (claim, _) in old.into_iter().chain(entry).flat_map(|entry| entry.object.claims()) {
                if !undo.had.contains_key(&claim) {
                    undo.holders.push((claim.clone(), self.desired.contested().get(&claim).cloned()));
                    undo.had.insert(claim.clone(), self.desired.holder(&claim).cloned());
                }
            }
        }
    }

    /// Who has what several claim: the one that had it; else the first by name of those that may
    /// have it.
    pub(super) fn settle_claims(&mut self, had: &HashMap<Claim, Option<Key>>) {
        for (claim, before) in had {
            let stays = before.as_ref().filter(|before| self.desired.holders(claim).any(|key| key == *before));
            let holder = stays.or_else(|| self.desired.candidates(claim).next()).cloned();
            self.desired.set_holder(claim, holder);
        }
    }

    /// Whether these changes may give prefixes of peers an effect, or take it from them.
    pub(super) fn may_move_peers(&self, pending: &Pending, undo: &Undo) -> bool {
        let is_peers = |claim: &Claim| self.desired.holders(claim).any(|key| key.kind == ObjectKind::PeerNode);
        !self.moved.is_empty()
            || pending.changes.iter().any(|(key, _)| key.kind == ObjectKind::PeerNode)
            || undo.had.keys().any(is_peers)
    }

    /// Which prefixes of peers have an effect: those that had it before these changes; else those
    /// of the first peers by name.
    pub(super) fn settle_peers(&mut self, undo: &mut Undo) {
        let before = undo.peer_prefixes.get_or_insert_with(|| self.desired.peer_prefixes().clone()).clone();
        self.desired.set_peer_prefixes(before);
        let in_force = self.facts().map(|facts| crate::object::peer::in_force::in_force(&facts));
        self.desired.set_peer_prefixes(in_force.unwrap_or_default());
    }

    /// Objects that look different since other prefixes of peers have an effect.
    pub(super) fn touched_by_peers(&self, undo: &Undo) -> BTreeSet<Key> {
        let Some(before) = &undo.peer_prefixes else { return BTreeSet::new() };
        let moved = before.symmetric_difference(self.desired.peer_prefixes());
        let touched = moved.flat_map(|(cidr, key)| {
            let at = self.desired.overlapping(cidr).into_iter().map(|(_, other)| other.clone());
            at.chain(self.desired.services_in(cidr).cloned()).chain([key.clone()])
        });
        touched.collect()
    }

    /// Puts in place of policies that there is no room for what drops everything of theirs: of
    /// those that are being written, else of those that the changes touch. False: there are none.
    pub(super) fn withhold(&mut self, refused: &Refused, pending: &mut Pending, undo: &mut Undo) -> bool {
        let can = |key: &&Key| {
            key.kind == ObjectKind::NetworkPolicy && self.desired.get(key).is_some_and(|entry| !entry.withheld)
        };
        let changed: HashSet<&Key> = pending.changes.iter().map(|(key, _)| key).collect();
        let those: Vec<Key> = refused.keys().filter(can).filter(|key| changed.contains(key)).cloned().collect();
        let those = if those.is_empty() { refused.keys().filter(can).cloned().collect() } else { those };
        for key in &those {
            let Some(entry) = self.desired.get(key).cloned() else { continue };
            let problems = refused.get(key).cloned().unwrap_or_default();
            let entry = Arc::new(withheld(&entry, problems));
            pending.status(key, Outcome::Refused, entry.flaws.clone());
            let old = self.desired.set(key, Some(Arc::clone(&entry)));
            match pending.changes.iter_mut().find(|(other, _)| other == key) {
                Some((_, change)) => *change = Some(entry),
                None => {
                    pending.changes.push((key.clone(), Some(entry)));
                    undo.entries.push((key.clone(), old));
                }
            }
        }
        !those.is_empty()
    }

    /// Takes refused changes back. False: none of the changes is to blame, and nothing can be taken
    /// back.
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

/// A policy that there is no room for.
pub(super) fn withheld(entry: &Entry, problems: Problems) -> Entry {
    let Object::NetworkPolicy(policy) = &entry.object else { return entry.clone() };
    let policy = policy.withheld();
    let mut flaws = entry.flaws.clone();
    let is_first = flaws.is_empty();
    flaws.extend(problems);
    if is_first {
        flaws.meanwhile(policy.told(false));
    }
    Entry { object: Object::NetworkPolicy(Arc::new(policy)), flaws, withheld: true, ..entry.clone() }
}
