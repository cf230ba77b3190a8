//! Who writes a thing, and what.

use super::Merge;
use crate::Key;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The objects that write at one key, and what each writes. There is one at least, but while one is
/// being removed.
#[derive(Debug)]
pub(super) struct Writers<V> {
    all: HashTable<(Key, Arc<V>)>,
    /// What somebody writes, and how many write something else.
    one: Arc<V>,
    odd: usize,
}

impl<V: PartialEq> Writers<V> {
    /// Bytes of a table with one of them, which has room for three.
    pub(super) const LEAST: usize = 4 * size_of::<(Key, Arc<V>)>();

    pub(super) fn new(hasher: &DefaultHashBuilder, key: &Key, value: &Arc<V>) -> Self {
        let mut new = Self { all: HashTable::new(), one: Arc::clone(value), odd: 0 };
        new.insert(hasher, key, value);
        new
    }

    pub(super) fn insert(&mut self, hasher: &DefaultHashBuilder, key: &Key, value: &Arc<V>) {
        self.remove(hasher, key);
        self.odd += usize::from(*value != self.one);
        let again = |(key, _): &(Key, Arc<V>)| hasher.hash_one(key);
        self.all.insert_unique(hasher.hash_one(key), (key.clone(), Arc::clone(value)), again);
        self.elect();
    }

    pub(super) fn remove(&mut self, hasher: &DefaultHashBuilder, key: &Key) {
        let Ok(there) = self.all.find_entry(hasher.hash_one(key), |(other, _)| other == key) else { return };
        let ((_, value), _) = there.remove();
        self.odd -= usize::from(value != self.one);
        self.elect();
    }

    /// If nobody writes `one` any more, it is what somebody else does.
    fn elect(&mut self) {
        if self.odd == self.all.len()
            && let Some((_, one)) = self.all.iter().next()
        {
            self.one = Arc::clone(one);
            self.odd = self.all.iter().filter(|(_, value)| *value != self.one).count();
        }
    }

    /// What somebody writes of it.
    pub(super) fn of(&self, hasher: &DefaultHashBuilder, key: &Key) -> Option<&Arc<V>> {
        self.all.find(hasher.hash_one(key), |(other, _)| other == key).map(|(_, value)| value)
    }

    /// What they make of it together.
    pub(super) fn merged(&self, merge: Merge<V>) -> Option<Arc<V>> {
        if self.odd == 0 {
            return Some(Arc::clone(&self.one));
        }
        merge(&self.all.iter().map(|(_, value)| value).collect::<Vec<_>>())
    }

    pub(super) const fn one(&self) -> &Arc<V> {
        &self.one
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// In no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Key, &Arc<V>)> {
        self.all.iter().map(|(key, value)| (key, value))
    }
}
