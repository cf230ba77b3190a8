//! Objects in memory, and the history of their changes.
//!
//! One counter gives each change its resourceVersion, over all kinds. The history is bounded: what
//! fell out of it raises the `floor`, and neither a watch nor a page of a list can start below it.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::ApiError;

/// Group and plural.
pub(crate) type Bucket = (String, String);
/// Namespace (empty for cluster-scoped objects) and name.
pub(crate) type Name = (String, String);
/// All objects of a kind.
pub(crate) type Objects = BTreeMap<Name, Arc<Value>>;

/// One object changed.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) bucket: Bucket,
    pub(crate) name: Name,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) after: Option<Arc<Value>>,
}

#[derive(Debug)]
pub(crate) struct Store {
    objects: BTreeMap<Bucket, Objects>,
    history: VecDeque<Change>,
    limit: usize,
    revision: u64,
    floor: u64,
}

impl Store {
    /// `limit` is the number of changes that the history keeps.
    pub(crate) fn new(limit: usize) -> Self {
        // The first version is not 1: a client that takes small numbers for special ones is wrong.
        Self { objects: BTreeMap::new(), history: VecDeque::new(), limit, revision: 100, floor: 100 }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, bucket: &Bucket, name: &Name) -> Option<&Arc<Value>> {
        self.objects.get(bucket)?.get(name)
    }

    pub(crate) fn all(&self, bucket: &Bucket) -> impl Iterator<Item = (&Name, &Arc<Value>)> + use<'_> {
        self.objects.get(bucket).into_iter().flatten()
    }

    /// Every object in a Namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<(Bucket, Name)> {
        let all = self.objects.iter().flat_map(|(bucket, names)| names.keys().map(move |name| (bucket, name)));
        all.filter(|(_, name)| name.0 == namespace).map(|(bucket, name)| (bucket.clone(), name.clone())).collect()
    }

    /// Stores an object under the next version.
    pub(crate) fn put(&mut self, bucket: &Bucket, name: &Name, mut object: Value) -> Arc<Value> {
        object["metadata"]["resourceVersion"] = json!((self.revision + 1).to_string());
        let object = Arc::new(object);
        let before = self.objects.entry(bucket.clone()).or_default().insert(name.clone(), object.clone());
        self.record(bucket, name, before, Some(object.clone()));
        object
    }

    pub(crate) fn remove(&mut self, bucket: &Bucket, name: &Name) -> Option<Arc<Value>> {
        let before = self.objects.get_mut(bucket)?.remove(name)?;
        self.record(bucket, name, Some(before.clone()), None);
        Some(before)
    }

    fn record(&mut self, bucket: &Bucket, name: &Name, before: Option<Arc<Value>>, after: Option<Arc<Value>>) {
        self.revision += 1;
        let change = Change { revision: self.revision, bucket: bucket.clone(), name: name.clone(), before, after };
        self.history.push_back(change);
        while self.history.len() > self.limit {
            let gone = self.history.pop_front();
            self.floor = gone.map_or(self.floor, |gone| gone.revision);
        }
    }

    /// Forgets the history: only what comes from now on can be watched.
    pub(crate) fn compact(&mut self) {
        self.history.clear();
        self.floor = self.revision;
    }

    /// Takes a version for a change that no object shows, as a compaction or a lease of etcd does.
    pub(crate) fn skip(&mut self, versions: u64) {
        self.revision += versions;
    }

    /// The changes behind a version, of all kinds.
    pub(crate) fn since(&self, revision: u64) -> Result<impl Iterator<Item = &Change>, ApiError> {
        if revision < self.floor {
            return Err(ApiError::expired(format!("too old resource version: {revision} ({})", self.floor)));
        }
        if revision > self.revision {
            return Err(ApiError::expired(format!("resource version {revision} is ahead of {}", self.revision)));
        }
        let from = self.history.partition_point(|change| change.revision <= revision);
        Ok(self.history.range(from..))
    }

    /// The objects of a kind as they were at a version. Copied only if something changed since.
    pub(crate) fn at(&self, bucket: &Bucket, revision: u64) -> Result<Cow<'_, Objects>, ApiError> {
        let mut objects = self.objects.get(bucket).map_or_else(|| Cow::Owned(Objects::new()), Cow::Borrowed);
        let changes: Vec<&Change> = self.since(revision)?.filter(|change| change.bucket == *bucket).collect();
        for change in changes.into_iter().rev() {
            match &change.before {
                Some(before) => objects.to_mut().insert(change.name.clone(), before.clone()),
                None => objects.to_mut().remove(&change.name),
            };
        }
        Ok(objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        ("d".to_owned(), text.to_owned())
    }

    #[test]
    fn the_past_is_seen_as_far_as_the_history_goes() {
        let pods = (String::new(), "pods".to_owned());
        let mut store = Store::new(3);
        store.put(&pods, &name("a"), json!({ "n": 1 }));
        let first = store.revision();
        store.put(&pods, &name("a"), json!({ "n": 2 }));
        store.put(&pods, &name("b"), json!({ "n": 3 }));
        store.remove(&pods, &name("a"));
        let then = store.at(&pods, first).unwrap();
        assert_eq!(then.keys().collect::<Vec<_>>(), [&name("a")]);
        assert_eq!(then[&name("a")]["n"], 1);
        assert_eq!(store.at(&pods, store.revision()).unwrap().len(), 1);
        store.put(&pods, &name("c"), json!({}));
        assert_eq!(store.at(&pods, first).unwrap_err().code, 410);
        assert_eq!(store.since(first + 1).unwrap().count(), 3);
        assert_eq!(store.since(store.revision() + 1).err().map(|error| error.code), Some(410));
        store.compact();
        assert!(store.since(first + 1).is_err());
        assert_eq!(store.since(store.revision()).unwrap().count(), 0);
    }
}
