//! Tests of the whole classifier; `facts` by hand, `random` against the reference. At size:
//! `tests/policies.rs` of the crate.

mod facts;
mod random;

use super::reference::Reference;
use super::{Classifier, Clause, Entry};
use crate::{Field, FlowKey, FlowMask, SparseMatch};
use std::sync::Arc;

/// A state is read by workers while its successor is made.
const _: fn() = || {
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Classifier<Arc<u32>>>();
};

/// A match on whole fields, or with a mask.
fn matching(fields: &[(Field, u128)]) -> SparseMatch {
    masked(&fields.iter().map(|(field, value)| (*field, *value, u128::MAX)).collect::<Vec<_>>())
}

fn masked(fields: &[(Field, u128, u128)]) -> SparseMatch {
    let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
    for (field, value, bits) in fields {
        key.set_masked(*field, *value, *bits);
        mask.add_bits(*field, *bits);
    }
    SparseMatch::new(&key, &mask)
}

fn packet(fields: &[(Field, u128)]) -> FlowKey {
    let mut key = FlowKey::default();
    for (field, value) in fields {
        key.set(*field, *value);
    }
    key
}

fn mask(fields: &[(Field, u128)]) -> FlowMask {
    let mut mask = FlowMask::default();
    for (field, bits) in fields {
        mask.add_bits(*field, *bits);
    }
    mask
}

fn plain<T>(priority: u16, matching: SparseMatch, data: T) -> Entry<T> {
    soft(priority, matching, &[], data)
}

/// `conjunction(id, k/n)` with `k` from 1, as in text.
fn soft<T>(priority: u16, matching: SparseMatch, clauses: &[(u32, u8, u8)], data: T) -> Entry<T> {
    let clauses = clauses.iter().map(|(id, k, n)| Clause { id: *id, clause: k - 1, clauses: *n });
    Entry { priority, matching: Arc::new(matching), clauses: clauses.collect(), data }
}

/// Both classifiers; each lookup is made in both and must be equal.
#[derive(Clone, Default, Debug)]
struct Both {
    fast: Classifier<u32>,
    plain: Reference<u32>,
}

impl Both {
    fn new(entries: impl IntoIterator<Item = Entry<u32>>) -> Self {
        let mut both = Self::default();
        for entry in entries {
            both.insert(entry);
        }
        both
    }

    fn insert(&mut self, entry: Entry<u32>) -> Option<u32> {
        let (fast, plain) = (self.fast.insert(entry.clone()), self.plain.insert(entry));
        assert_eq!(fast.as_ref().map(|e| e.data), plain.map(|e| e.data), "replaced");
        fast.map(|e| e.data)
    }

    fn remove(&mut self, matching: &SparseMatch, priority: u16) -> Option<u32> {
        let (fast, plain) = (self.fast.remove(matching, priority), self.plain.remove(matching, priority));
        assert_eq!(fast.as_ref().map(|e| e.data), plain.map(|e| e.data), "removed");
        fast.map(|e| e.data)
    }

    /// Data and `conj_id` of what both find, and the bits used.
    fn lookup(&self, key: &FlowKey, floor: Option<u16>) -> (Option<(u32, u32)>, FlowMask) {
        let mut used = FlowMask::default();
        let fast = self.fast.lookup(key, &mut used, floor).map(|f| (f.entry.data, f.conj_id));
        let plain = self.plain.lookup(key, floor).map(|f| (f.entry.data, f.conj_id));
        assert_eq!(fast, plain, "{key:?} with floor {floor:?}: compiled, reference");
        assert_eq!(used.get(Field::ConjId), 0, "conj_id is no bit of the packet");
        (fast, used)
    }

    fn find(&self, fields: &[(Field, u128)]) -> Option<(u32, u32)> {
        self.lookup(&packet(fields), None).0
    }

    fn used(&self, fields: &[(Field, u128)]) -> FlowMask {
        self.lookup(&packet(fields), None).1
    }
}
