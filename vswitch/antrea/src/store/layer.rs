//! Things of one kind, each written by one or more objects.
//!
//! Most things have one writer. Some have very many who all write the same (the Pods of a VLAN):
//! then what one of them costs does not depend on how many there are. It does where they write
//! different things, which are put together.

mod writers;

use super::Conflict;
use crate::Key;
use hashbrown::{DefaultHashBuilder, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use writers::Writers;

/// What several writers make of a thing; None: they contradict each other.
type Merge<V> = fn(&[&Arc<V>]) -> Option<Arc<V>>;

/// A thing that changed: before, and after.
type Change<K, V> = (K, Option<Arc<V>>, Option<Arc<V>>);

/// A thing at the last settlement.
#[derive(Debug)]
struct Before<V> {
    value: Option<Arc<V>>,
    /// What those wrote then who were touched since; not kept of a thing that was not there.
    wrote: HashMap<Key, Option<Arc<V>>>,
}

/// Things by id.
#[derive(Debug)]
pub(super) struct Layer<K, V> {
    things: HashMap<K, Writers<V>>,
    /// Those that were touched since the last settlement.
    before: HashMap<K, Before<V>>,
    merge: Merge<V>,
    hasher: DefaultHashBuilder,
}

impl<K: Hash + Eq + Clone + Debug, V: PartialEq> Layer<K, V> {
    pub(super) fn new(merge: Merge<V>) -> Self {
        Self { things: HashMap::new(), before: HashMap::new(), merge, hasher: DefaultHashBuilder::default() }
    }

    fn touch(&mut self, id: &K, key: &Key) {
        let Self { things, before, merge, hasher } = self;
        let writers = things.get(id);
        let value = || writers.and_then(|writers| writers.merged(*merge));
        let before = before.entry(id.clone()).or_insert_with(|| Before { value: value(), wrote: HashMap::new() });
        if before.value.is_some() && !before.wrote.contains_key(key) {
            let wrote = writers.and_then(|writers| writers.of(hasher, key)).cloned();
            before.wrote.insert(key.clone(), wrote);
        }
    }

    /// What somebody writes, in place of what he wrote.
    pub(super) fn insert(&mut self, id: &K, key: &Key, value: &Arc<V>) {
        self.touch(id, key);
        match self.things.get_mut(id) {
            Some(writers) => writers.insert(&self.hasher, key, value),
            None => {
                self.things.insert(id.clone(), Writers::new(&self.hasher, key, value));
            }
        }
    }

    pub(super) fn remove(&mut self, id: &K, key: &Key) {
        self.touch(id, key);
        if let Some(writers) = self.things.get_mut(id) {
            writers.remove(&self.hasher, key);
            if writers.len() == 0 {
                self.things.remove(id);
            }
        }
    }

    /// Those that may be another since the last settlement.
    pub(super) fn touched(&self) -> impl Iterator<Item = &K> {
        self.before.keys()
    }

    /// Those that are not as at the last settlement.
    pub(super) fn changes(&self, conflicts: &mut Vec<Conflict>) -> Vec<Change<K, V>> {
        let mut changes = Vec::new();
        for (id, Before { value: before, .. }) in &self.before {
            let Some(writers) = self.things.get(id) else {
                if before.is_some() {
                    changes.push((id.clone(), before.clone(), None));
                }
                continue;
            };
            let Some(after) = writers.merged(self.merge) else {
                let owners = self.owners(id).into_iter().cloned().collect();
                conflicts.push(Conflict { owners, what: format!("{id:?}"), clauses: None });
                continue;
            };
            if before.as_ref() != Some(&after) {
                changes.push((id.clone(), before.clone(), Some(after)));
            }
        }
        changes
    }

    /// Who writes a thing otherwise than at the last settlement, in order of names.
    pub(super) fn newcomers(&self, id: &K) -> Vec<Key> {
        let before = self.before.get(id).filter(|before| before.value.is_some());
        let writers = self.things.get(id).into_iter().flat_map(Writers::all);
        let is_new = |key: &Key, value: &Arc<V>| match before {
            Some(before) => before.wrote.get(key).is_some_and(|wrote| wrote.as_ref() != Some(value)),
            None => true,
        };
        let mut new: Vec<Key> = writers.filter(|(key, value)| is_new(key, value)).map(|(key, _)| key.clone()).collect();
        new.sort_unstable();
        new
    }

    pub(super) fn settle(&mut self) {
        self.before.clear();
    }

    /// Who writes a thing, in order of names.
    pub(super) fn owners(&self, id: &K) -> Vec<&Key> {
        self.first_owners(id, usize::MAX)
    }

    /// The first so many of [`Self::owners`], in about as many steps as there are writers.
    pub(super) fn first_owners(&self, id: &K, max: usize) -> Vec<&Key> {
        let mut owners: Vec<&Key> =
            self.things.get(id).into_iter().flat_map(Writers::all).map(|(key, _)| key).collect();
        if max < owners.len() {
            owners.select_nth_unstable(max);
            owners.truncate(max);
        }
        owners.sort_unstable();
        owners
    }

    pub(super) fn owner_count(&self, id: &K) -> usize {
        self.things.get(id).map_or(0, Writers::len)
    }

    pub(super) fn merged(&self, id: &K) -> Option<Arc<V>> {
        self.things.get(id)?.merged(self.merge)
    }

    pub(super) fn len(&self) -> usize {
        self.things.len()
    }

    /// Bytes that it takes beside the things themselves, about: a thing has one writer, or little
    /// more.
    pub(super) fn memory(&self) -> usize {
        self.things.capacity() * size_of::<(K, Writers<V>)>() + self.things.len() * Writers::<V>::LEAST
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.things.keys()
    }

    /// Each thing as one of its writers has it.
    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<V>> {
        self.things.values().map(Writers::one)
    }

    /// Each thing.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<V>> {
        self.things.values().filter_map(|writers| writers.merged(self.merge))
    }
}
