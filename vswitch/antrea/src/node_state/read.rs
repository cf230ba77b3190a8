//! What a write asks for, each object by itself.

use super::plan::{Pending, check_name};
use super::result::Outcome;
use super::{NodeState, Write, salvage};
use crate::desired::Entry;
use crate::limits::OBJECTS_MAX;
use crate::object::Object;
use crate::{Code, Key, ObjectKind, Problems};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use vswitch_proto::antrea::v1::object::Object as Message;

impl NodeState {
    /// What is asked for, each object by itself.
    pub(super) fn read(&self, write: Write) -> Pending {
        let mut pending = Pending::default();
        let mut places: HashMap<Key, usize> = HashMap::new();
        let mut said: Vec<(Key, Message, Vec<Message>)> = Vec::with_capacity(write.objects.len());
        for message in write.objects {
            let key = Object::key_of(&message);
            match places.get(&key).and_then(|at| said.get_mut(*at)) {
                Some((_, first, others)) if *first != message => others.push(message),
                Some(_) => {}
                None => {
                    places.insert(key.clone(), said.len());
                    said.push((key, message, Vec::new()));
                }
            }
        }
        let named: BTreeSet<Key> = places.into_keys().collect();
        let mut left = OBJECTS_MAX.saturating_sub(self.desired.len());
        for (key, message, others) in said {
            self.read_one(&key, &message, &others, write.valid_only, &mut left, &mut pending);
        }
        self.read_removals(write.remove, &write.sweep, &named, &mut pending);
        pending
    }

    fn read_one(
        &self,
        key: &Key,
        message: &Message,
        others: &[Message],
        valid_only: bool,
        left: &mut usize,
        pending: &mut Pending,
    ) {
        let mut problems = Problems::default();
        check_name(key, &mut problems);
        let is_named = problems.is_empty();
        let mut read = Object::read(message, &mut problems).map(|object| (message.clone(), object));
        if !others.is_empty() {
            problems = Problems::default();
            read = others.iter().try_fold(message.clone(), |one, other| salvage::both(&one, other)).and_then(|both| {
                let object = Object::read(&both, &mut Problems::default())?;
                Some((both, object))
            });
            problems.push(Code::Duplicate, "name", format!("{key} is there twice in the request, in two forms"));
        }
        let there = self.desired.get(key);
        // A policy or group that there is no room for could not be replaced by anything.
        let is_needed =
            matches!(key.kind, ObjectKind::NetworkPolicy | ObjectKind::AppliedToGroup | ObjectKind::AddressGroup);
        if there.is_none() && problems.is_empty() && !is_needed {
            if *left == 0 {
                problems.push(Code::Limit, "", format!("there are {OBJECTS_MAX} objects, the most there may be"));
            }
            *left = left.saturating_sub(1);
        }
        if problems.is_empty() && there.is_some_and(|there| there.flaws.is_empty() && there.message == *message) {
            return pending.status(key, Outcome::Unchanged, Problems::default());
        }
        let entry = match read {
            Some((message, object)) if problems.is_empty() => Some(Entry::new(message, object)),
            Some((message, object)) if valid_only && is_named => {
                salvage::entry(&message, Some(object), problems.clone(), there.map(|there| &**there))
            }
            _ => None,
        };
        let Some(entry) = entry else { return pending.refuse(key, problems) };
        let outcome = match (entry.flaws.is_empty(), key.kind) {
            (false, ObjectKind::NetworkPolicy) => Outcome::Refused,
            _ if there.is_some_and(|there| **there == entry) => Outcome::Unchanged,
            _ => Outcome::Applied,
        };
        let told = if outcome == Outcome::Refused { entry.flaws.clone() } else { problems.only_warnings() };
        pending.status(key, outcome, told);
        if there.is_none_or(|there| **there != entry) {
            pending.changes.push((key.clone(), Some(Arc::new(entry))));
        }
    }

    /// What is to go: by name, by sweep, and with what it belongs to.
    fn read_removals(
        &self,
        remove: Vec<Key>,
        sweep: &BTreeSet<ObjectKind>,
        named: &BTreeSet<Key>,
        pending: &mut Pending,
    ) {
        let mut gone: BTreeSet<Key> = BTreeSet::new();
        for key in remove {
            if named.contains(&key) {
                let mut problems = Problems::default();
                problems.push(Code::Duplicate, "name", format!("{key} is to be there and to be gone"));
                pending.refuse(&key, problems);
            } else if self.desired.get(&key).is_none() {
                pending.status(&key, Outcome::Absent, Problems::default());
            } else if gone.insert(key.clone()) {
                pending.status(&key, Outcome::Removed, Problems::default());
                pending.changes.push((key, None));
            }
        }
        let swept = sweep
            .iter()
            .flat_map(|kind| self.desired.of(*kind))
            .map(|(key, _)| key)
            .filter(|key| !named.contains(*key));
        for key in swept {
            if gone.insert(key.clone()) {
                pending.status(key, Outcome::Removed, Problems::default());
                pending.changes.push((key.clone(), None));
            }
        }
        // A Service goes with its Endpoints.
        let services: Vec<Key> = gone.iter().filter(|key| key.kind == ObjectKind::Service).cloned().collect();
        for (service, key) in services.iter().flat_map(|key| self.desired.referrers(key).map(move |other| (key, other)))
        {
            if key.kind == ObjectKind::Endpoints && !named.contains(key) && gone.insert(key.clone()) {
                pending.status(key, Outcome::Removed, Problems::default());
                pending.changes.push((key.clone(), None));
                pending.with.insert(key.clone(), service.clone());
            }
        }
    }
}
