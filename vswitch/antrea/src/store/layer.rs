//! Things of one kind, each written by one or more objects.

use super::Conflict;
use crate::Key;
use hashbrown::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

/// Who writes a thing, and what.
type Writers<V> = Vec<(Key, Arc<V>)>;

/// What several writers make of a thing; None: they contradict each other.
type Merge<V> = fn(&[&Arc<V>]) -> Option<Arc<V>>;

/// A thing that changed: before, and after.
type Change<K, V> = (K, Option<Arc<V>>, Option<Arc<V>>);

/// Things by id.
#[derive(Debug)]
pub(super) struct Layer<K, V> {
    things: HashMap<K, Writers<V>>,
    /// Who wrote those that were touched since the last settlement, then.
    before: HashMap<K, Writers<V>>,
}

impl<K, V> Default for Layer<K, V> {
    fn default() -> Self {
        Self { things: HashMap::new(), before: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone + Debug, V: PartialEq> Layer<K, V> {
    fn touch(&mut self, id: &K) {
        if !self.before.contains_key(id) {
            let writers = self.things.get(id).cloned().unwrap_or_default();
            self.before.insert(id.clone(), writers);
        }
    }

    pub(super) fn insert(&mut self, id: &K, key: &Key, value: &Arc<V>) {
        self.touch(id);
        let writers = self.things.entry(id.clone()).or_default();
        let at = writers.partition_point(|(other, _)| other < key);
        writers.insert(at, (key.clone(), Arc::clone(value)));
    }

    pub(super) fn remove(&mut self, id: &K, key: &Key) {
        self.touch(id);
        if let Some(writers) = self.things.get_mut(id) {
            writers.retain(|(other, _)| other != key);
            if writers.is_empty() {
                self.things.remove(id);
            }
        }
    }

    /// Those that are not as at the last settlement.
    pub(super) fn changes(&self, merge: Merge<V>, conflicts: &mut Vec<Conflict>) -> Vec<Change<K, V>> {
        let mut changes = Vec::new();
        for (id, before) in &self.before {
            let before = merge(&values(before));
            let Some(writers) = self.things.get(id) else {
                if before.is_some() {
                    changes.push((id.clone(), before, None));
                }
                continue;
            };
            let Some(after) = merge(&values(writers)) else {
                let owners = writers.iter().map(|(key, _)| key.clone()).collect();
                conflicts.push(Conflict { owners, what: format!("{id:?}"), clauses: None });
                continue;
            };
            if before.as_ref() != Some(&after) {
                changes.push((id.clone(), before, Some(after)));
            }
        }
        changes
    }

    /// Who writes a thing otherwise than at the last settlement.
    pub(super) fn newcomers(&self, id: &K) -> Vec<Key> {
        let before = self.before.get(id).map(Vec::as_slice).unwrap_or_default();
        // In order of keys, both.
        let wrote = |key: &Key, value: &Arc<V>| {
            let at = before.binary_search_by(|(other, _)| other.cmp(key));
            at.is_ok_and(|at| before[at].1 == *value)
        };
        let writers = self.things.get(id).into_iter().flatten();
        writers.filter(|(key, value)| !wrote(key, value)).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn settle(&mut self) {
        self.before.clear();
    }

    pub(super) fn owners(&self, id: &K) -> impl Iterator<Item = &Key> {
        self.things.get(id).into_iter().flatten().map(|(key, _)| key)
    }

    pub(super) fn merged(&self, id: &K, merge: Merge<V>) -> Option<Arc<V>> {
        merge(&values(self.things.get(id)?))
    }

    pub(super) fn len(&self) -> usize {
        self.things.len()
    }

    /// Bytes that it takes beside the things themselves, about: a thing has one writer, or little more.
    pub(super) fn memory(&self) -> usize {
        self.things.capacity() * size_of::<(K, Writers<V>)>() + self.things.len() * size_of::<(Key, Arc<V>)>()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.things.keys()
    }

    /// Each thing as its first writer has it.
    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<V>> {
        self.things.values().filter_map(|writers| writers.first()).map(|(_, value)| value)
    }

    /// Each thing.
    pub(super) fn all(&self, merge: Merge<V>) -> impl Iterator<Item = Arc<V>> {
        self.things.values().filter_map(move |writers| merge(&values(writers)))
    }
}

fn values<V>(writers: &Writers<V>) -> Vec<&Arc<V>> {
    writers.iter().map(|(_, value)| value).collect()
}
