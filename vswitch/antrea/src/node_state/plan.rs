//! From a write to a plan.

use super::{NodeState, Plan, Undo, Write, result};
use crate::desired::Entry;
use crate::limits::NAME_MAX;
use crate::object::Object;
use crate::object::service::places;
use crate::store::{Conflict, Counts};
use crate::{Claim, Code, CompiledObject, Flush, Key, ObjectKind, Problem, Problems};
use result::{Outcome, Status};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use vswitch_flow::action::limits::MAX_CLAUSES;
use vswitch_flow::spec::Update;

/// Objects that are refused, and why.
pub(super) type Refused = BTreeMap<Key, Problems>;

/// A write on its way.
#[derive(Default)]
pub(super) struct Pending {
    /// In the order of the request.
    pub(super) statuses: Vec<Status>,
    /// Where an object's status is.
    pub(super) place: HashMap<Key, usize>,
    /// What is to change, in the order of the request: None is to go.
    pub(super) changes: Vec<(Key, Option<Arc<Entry>>)>,
    /// What goes with something else, and stays with it.
    pub(super) with: HashMap<Key, Key>,
}

impl Pending {
    pub(super) fn status(&mut self, key: &Key, outcome: Outcome, problems: Problems) {
        match self.place.get(key) {
            Some(at) => self.statuses[*at] = Status { key: key.clone(), outcome, problems },
            None => {
                self.place.insert(key.clone(), self.statuses.len());
                self.statuses.push(Status { key: key.clone(), outcome, problems });
            }
        }
    }

    /// Refuses it before it was tried.
    pub(super) fn refuse(&mut self, key: &Key, problems: Problems) {
        self.changes.retain(|(other, _)| other != key);
        self.status(key, Outcome::Refused, problems);
    }

    fn refused(&self) -> bool {
        self.statuses.iter().any(|status| status.outcome == Outcome::Refused)
    }
}

impl NodeState {
    /// Plans a write: see [`Plan`]. The Node must be there; without it nothing is planned.
    pub fn plan(&mut self, write: Write) -> Plan {
        let (valid_only, only_odd) = (write.valid_only, write.only_odd);
        let mut pending = self.read(write);
        let mut undo = Undo { ids: Some(self.ids.clone()), moved: self.moved.clone(), ..Undo::default() };
        let mut done = (Vec::new(), Counts::default());
        if valid_only || !pending.refused() {
            done = self.settle_on(&mut pending, &mut undo, valid_only);
        }
        let applied = valid_only || !pending.refused();
        if !applied {
            self.undo(std::mem::take(&mut undo));
            done = (Vec::new(), Counts::default());
            for status in &mut pending.statuses {
                if matches!(status.outcome, Outcome::Applied | Outcome::Removed | Outcome::Degraded) {
                    status.outcome = Outcome::NotApplied;
                    status.problems = Problems::default();
                }
            }
        }
        let flush = if applied { self.flush(&undo) } else { Vec::new() };
        let (mut updates, counts) = done;
        if let Some(facts) = self.facts() {
            updates.extend(flush.iter().flat_map(|flush| flush.deletes(&facts)));
        }
        Plan { updates, flush, result: result::of(pending.statuses, applied, counts, only_odd), undo }
    }

    /// Makes the changes, takes back those that cannot be, until the rest can. All or nothing:
    /// stops at the first that cannot.
    fn settle_on(&mut self, pending: &mut Pending, undo: &mut Undo, valid_only: bool) -> (Vec<Update>, Counts) {
        self.note_holders(pending, undo);
        for (key, entry) in &pending.changes {
            undo.entries.push((key.clone(), self.desired.set(key, entry.clone())));
        }
        loop {
            self.settle_claims(&undo.had);
            if self.may_move_peers(pending, undo) {
                self.settle_peers(undo);
            }
            let mut refused = self.judge(pending);
            if refused.is_empty() {
                match self.attempt(self.touched(pending, undo), undo) {
                    Ok(done) => {
                        self.tell_degraded(pending, undo);
                        return done;
                    }
                    Err(others) => refused = others,
                }
            }
            if let Some(ids) = &undo.ids {
                self.ids.clone_from(ids);
            }
            if valid_only && self.withhold(&refused, pending, undo) {
                continue;
            }
            if !self.take_back(refused, pending, undo) {
                self.undo(std::mem::take(undo));
                return (Vec::new(), Counts::default());
            }
            if !valid_only {
                return (Vec::new(), Counts::default());
            }
        }
    }

    /// The plan that compiles anew what is touched, after changes that `undo` knows. Else
    /// everything is as before them.
    pub(super) fn planned(&mut self, touched: BTreeSet<Key>, mut undo: Undo) -> Result<Plan, Refused> {
        match self.attempt(touched, &mut undo) {
            Ok((updates, counts)) => {
                let result = result::of(Vec::new(), true, counts, false);
                Ok(Plan { updates, flush: Vec::new(), result, undo })
            }
            Err(refused) => {
                self.undo(undo);
                Err(refused)
            }
        }
    }

    /// Numbers and parts for all that is touched.
    fn attempt(&mut self, mut touched: BTreeSet<Key>, undo: &mut Undo) -> Result<(Vec<Update>, Counts), Refused> {
        let mut refused = Refused::new();
        // What goes leaves its numbers to what comes.
        let (there, gone): (Vec<&Key>, Vec<&Key>) = touched.iter().partition(|key| self.desired.get(key).is_some());
        for key in gone.into_iter().chain(there).filter(|key| key.kind != ObjectKind::Node) {
            let claimed = match self.desired.get(key) {
                _ if self.is_heard(key) => self.claim_heard(key),
                Some(entry) => {
                    let cookie = self.ids.claim_cookie(key).map(|_| ());
                    cookie.and_then(|()| entry.object.claim(&key.name, &self.desired, &mut self.ids))
                }
                None => {
                    crate::object::release(key, &mut self.ids);
                    Ok(())
                }
            };
            if let Err(problem) = claimed {
                refused.entry(key.clone()).or_default().add(problem);
            }
        }
        if let Some((_, node)) = self.node.as_ref().filter(|_| touched.iter().any(|key| key.kind == ObjectKind::Egress))
        {
            for (key, problem) in crate::object::egress::mark(node, &self.desired, &mut self.ids) {
                refused.entry(key).or_default().add(problem);
            }
        }
        if !refused.is_empty() {
            return Err(refused);
        }
        touched.extend(self.ids.take_moved());
        self.compile(touched, undo)
    }

    /// Compiles objects (and the Node), puts what they write into the store, and plans. If it
    /// cannot be, the store is as before.
    pub(super) fn compile(&mut self, keys: BTreeSet<Key>, undo: &mut Undo) -> Result<(Vec<Update>, Counts), Refused> {
        let mut refused = Refused::new();
        let mut parts = Vec::new();
        for key in keys {
            let compiled = self.compiled(&key);
            let faults = compiled.iter().flat_map(|compiled| compiled.faults().all());
            for fault in faults {
                refused.entry(key.clone()).or_default().add(fault.clone());
            }
            parts.push((key, compiled));
        }
        if !refused.is_empty() {
            return Err(refused);
        }
        let mut old = Vec::new();
        let mut degraded = Vec::new();
        for (key, compiled) in parts {
            degraded.push((key.clone(), compiled.as_ref().map(|compiled| compiled.degraded.clone())));
            let before = self.store.replace(&key, compiled.map(Arc::new));
            old.push((key, before));
        }
        self.compile_traceflows(&mut old);
        match self.store.plan().map_err(conflicting) {
            Ok(done) => {
                for (key, problems) in degraded {
                    let before = self.set_degraded(&key, problems);
                    undo.degraded.push((key, before));
                }
                undo.parts.extend(old);
                Ok(done)
            }
            Err(refused) => {
                for (key, compiled) in old.into_iter().rev() {
                    self.store.replace(&key, compiled);
                }
                self.store.settle();
                Err(refused)
            }
        }
    }

    /// What an object writes; None: it is not there.
    fn compiled(&self, key: &Key) -> Option<CompiledObject> {
        let facts = self.facts()?;
        let mut compiled = CompiledObject::new(key, &self.ids);
        if key.kind == ObjectKind::Node {
            crate::node::compile::compile(&facts, &mut compiled);
            return Some(compiled);
        }
        if self.is_heard(key) {
            return self.compiled_of_heard(key, &facts);
        }
        let entry = self.desired.get(key)?;
        let mut problems = Problems::default();
        entry.object.judge(&key.name, &facts, &mut problems);
        if problems.is_empty() || entry.object.copes() {
            entry.object.compile(&key.name, &facts, &mut compiled);
        }
        let mut degraded = entry.flaws.clone();
        degraded.extend(problems);
        degraded.extend(std::mem::take(&mut compiled.degraded));
        compiled.degraded = degraded;
        Some(compiled)
    }

    /// Everything that looks different after these changes: the objects, and those that name them,
    /// and so on.
    fn touched(&self, pending: &Pending, undo: &Undo) -> BTreeSet<Key> {
        let mut touched: BTreeSet<Key> = BTreeSet::new();
        let mut queue: VecDeque<Key> = pending.changes.iter().map(|(key, _)| key.clone()).collect();
        queue.extend(self.touched_by_peers(undo));
        let mut seen = HashSet::new();
        let changed = pending.changes.iter().filter_map(|(_, entry)| entry.as_ref());
        let node = self.node.as_ref().map(|(_, node)| node);
        for entry in changed.chain(undo.entries.iter().filter_map(|(_, entry)| entry.as_ref())) {
            queue.extend(entry.object.rivals(&self.desired, &mut seen));
            queue.extend(entry.object.drags());
            queue.extend(node.iter().flat_map(|node| entry.object.contenders(&self.desired, node)));
        }
        while let Some(key) = queue.pop_front() {
            let there = self.desired.get(&key).is_some() || pending.place.contains_key(&key);
            if there && touched.insert(key.clone()) {
                queue.extend(self.desired.referrers(&key).cloned());
                // Endpoints are compiled by their Service.
                let object = self.desired.get(&key).map(|entry| &entry.object);
                queue.extend(object.into_iter().flat_map(Object::drags));
                // An Egress that loses its effect leaves its Pods to another one.
                let egress = object.filter(|_| key.kind == ObjectKind::Egress);
                queue.extend(egress.into_iter().flat_map(|object| object.rivals(&self.desired, &mut seen)));
            }
        }
        // What is gone drags, too.
        for (key, entry) in &pending.changes {
            if entry.is_none() {
                touched.extend(Object::dragged_by(key).filter(|other| self.desired.get(other).is_some()));
            }
        }
        // Groups that Pods and Nodes have joined have no objects.
        let changed = pending.changes.iter().map(|(key, _)| key).chain(&touched);
        let heard: Vec<Key> = changed.flat_map(|key| self.heard_with(key)).collect();
        touched.extend(heard);
        // Nested Services lead to the groups of others.
        let services = pending.changes.iter().map(|(key, _)| key).chain(&touched);
        if services.into_iter().any(|key| key.kind == ObjectKind::Service) {
            touched.extend(self.desired.referrers(&crate::object::service::any_service()).cloned());
        }
        touched.extend(self.touched_by_ports());
        touched
    }

    /// Objects of which something has no effect are told as such: those that were written, and
    /// others of which that is new, or over.
    fn tell_degraded(&self, pending: &mut Pending, undo: &Undo) {
        for status in &mut pending.statuses {
            if let (Outcome::Applied | Outcome::Unchanged, Some(problems)) =
                (status.outcome, self.degraded.get(&status.key))
            {
                status.outcome =
                    if status.outcome == Outcome::Applied { Outcome::Degraded } else { Outcome::Unchanged };
                let warnings = status.problems.only_warnings();
                status.problems = problems.clone();
                status.problems.extend(warnings);
            }
        }
        for (key, before) in &undo.degraded {
            let now = self.degraded.get(key);
            if now != before.as_ref() && self.desired.get(key).is_some() && !pending.place.contains_key(key) {
                let outcome = if now.is_some() { Outcome::Degraded } else { Outcome::Applied };
                pending.status(key, outcome, now.cloned().unwrap_or_default());
            }
        }
    }

    /// Connections that rest on what these changes took away. What another object has, and had,
    /// stays.
    fn flush(&self, undo: &Undo) -> Vec<Flush> {
        let mut flush = BTreeSet::new();
        let Some(facts) = self.facts() else { return Vec::new() };
        let had = |claim: &Claim| undo.had.get(claim).map_or_else(|| self.desired.holder(claim).cloned(), Clone::clone);
        for (key, old) in &undo.entries {
            let new = self.desired.get(key).map(|entry| &entry.object);
            let Some(old) = old else { continue };
            let mut own = BTreeSet::new();
            old.object.flush(&key.name, new, &facts, &mut own);
            let owner = Object::dragged_by(key).next().unwrap_or_else(|| key.clone());
            flush.extend(own.into_iter().filter(|one| !places::is_others(one, &owner, had)));
        }
        for (key, old) in undo.parts.iter().filter(|(key, _)| key.kind == ObjectKind::Service) {
            if let Some(old) = old {
                places::lost(old, self.store.compiled(key).map(|compiled| &**compiled), &self.desired, &mut flush);
            }
        }
        flush.into_iter().collect()
    }
}

pub(super) fn check_name(key: &Key, problems: &mut Problems) {
    if key.name.is_empty() {
        problems.push(Code::Missing, "name", "it has no name");
    } else if key.name.len() > NAME_MAX {
        problems.push(Code::Value, "name", format!("it is {} bytes long, at most {NAME_MAX}", key.name.len()));
    } else if key.name.chars().any(char::is_control) {
        problems.push(Code::Value, "name", "it has a control character in it");
    }
}

/// Those who want different things, and of whom.
fn conflicting(conflicts: Vec<Conflict>) -> Refused {
    let mut refused = Refused::new();
    for conflict in conflicts {
        for owner in &conflict.owners {
            if let Some(count) = conflict.clauses {
                let reason = format!("{} would have {count} clauses, at most {MAX_CLAUSES}", conflict.what);
                let hint = "name its address, port or Pod in fewer rules, or in a prefix or range";
                refused.entry(owner.clone()).or_default().add(Problem::new(Code::Limit, "rules", reason).hint(hint));
                continue;
            }
            let other = conflict.owners.iter().find(|other| *other != owner);
            let who = other.map_or_else(|| "another object".to_owned(), ToString::to_string);
            let reason = format!("{who} wants something else of the same packets: {}", conflict.what);
            let problem = Problem { other: other.cloned(), ..Problem::new(Code::Conflict, "", reason) };
            refused.entry(owner.clone()).or_default().add(problem);
        }
    }
    refused
}
