//! A persistent hash map: a tree over some bits of the hash whose leaves are hash tables. A change
//! of a shared map copies a leaf and the branches above it: at most [`LEAF`] elements and 32
//! pointers per level, however large the map is.

use hashbrown::HashTable;
use std::sync::Arc;

/// Elements of a full leaf.
const LEAF: usize = 128;
/// Children of a branch, as bits of the hash.
const BRANCH_BITS: u32 = 5;
/// The first bit of the hash that branches use: hash tables use the bits below, and the topmost 7.
const FIRST_BIT: u32 = 20;
/// Below this bit, elements whose hashes are equal so far share a leaf of any size.
const LAST_BIT: u32 = 55;

/// What knows its hash.
pub(super) trait Hashed {
    /// Always the same for an element.
    fn hash(&self) -> u64;
}

/// The map.
#[derive(Clone, Debug)]
pub(super) struct Shards<V> {
    root: Node<V>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Node<V> {
    Leaf(HashTable<V>),
    Branch(Box<[Arc<Node<V>>]>),
}

impl<V> Default for Shards<V> {
    fn default() -> Self {
        Self { root: Node::Leaf(HashTable::new()), len: 0 }
    }
}

#[allow(clippy::cast_possible_truncation)] // 5 bits
fn child(hash: u64, bit: u32) -> usize {
    (hash >> bit) as usize % (1 << BRANCH_BITS)
}

impl<V> Shards<V> {
    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The element of this hash that fits.
    #[inline]
    pub(super) fn find(&self, hash: u64, fits: impl FnMut(&V) -> bool) -> Option<&V> {
        let (mut node, mut bit) = (&self.root, FIRST_BIT);
        loop {
            match node {
                Node::Leaf(table) => return table.find(hash, fits),
                Node::Branch(children) => node = &children[child(hash, bit)],
            }
            bit += BRANCH_BITS;
        }
    }

    /// All elements, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &V> {
        let mut nodes = vec![&self.root];
        std::iter::from_fn(move || {
            loop {
                match nodes.pop()? {
                    Node::Leaf(table) => return Some(table.iter()),
                    Node::Branch(children) => nodes.extend(children.iter().map(|child| &**child)),
                }
            }
        })
        .flatten()
    }
}

impl<V: Clone + Hashed> Shards<V> {
    /// Likewise, to change it. Call it only for what is there: it copies what is shared on the way.
    pub(super) fn find_mut(&mut self, hash: u64, fits: impl FnMut(&V) -> bool) -> Option<&mut V> {
        self.leaf(hash).find_mut(hash, fits)
    }

    /// Adds an element that is not there.
    pub(super) fn insert(&mut self, value: V) {
        let hash = value.hash();
        self.len += 1;
        let (mut node, mut bit) = (&mut self.root, FIRST_BIT);
        loop {
            match node {
                Node::Branch(children) => node = Arc::make_mut(&mut children[child(hash, bit)]),
                Node::Leaf(table) if table.len() < LEAF || bit >= LAST_BIT => {
                    table.insert_unique(hash, value, V::hash);
                    return;
                }
                Node::Leaf(table) => {
                    let values = std::mem::take(table).into_iter().chain([value]);
                    *node = split(values, bit);
                    return;
                }
            }
            bit += BRANCH_BITS;
        }
    }

    /// Removes the element of this hash that fits. Call it only for what is there.
    pub(super) fn remove(&mut self, hash: u64, fits: impl FnMut(&V) -> bool) -> Option<V> {
        let (value, _) = self.leaf(hash).find_entry(hash, fits).ok()?.remove();
        self.len -= 1;
        if self.len == 0 {
            *self = Self::default();
        }
        Some(value)
    }

    fn leaf(&mut self, hash: u64) -> &mut HashTable<V> {
        let (mut node, mut bit) = (&mut self.root, FIRST_BIT);
        loop {
            match node {
                Node::Leaf(table) => return table,
                Node::Branch(children) => node = Arc::make_mut(&mut children[child(hash, bit)]),
            }
            bit += BRANCH_BITS;
        }
    }
}

/// A branch with these elements.
fn split<V: Hashed>(values: impl Iterator<Item = V>, bit: u32) -> Node<V> {
    let mut children: [HashTable<V>; 1 << BRANCH_BITS] = std::array::from_fn(|_| HashTable::new());
    for value in values {
        let hash = value.hash();
        children[child(hash, bit)].insert_unique(hash, value, V::hash);
    }
    Node::Branch(children.into_iter().map(|table| Arc::new(Node::Leaf(table))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[derive(Clone, Debug, PartialEq)]
    struct Pair(u32, u32);

    impl Hashed for Pair {
        fn hash(&self) -> u64 {
            hash(self.0)
        }
    }

    /// Some keys share all bits that branches use.
    fn hash(key: u32) -> u64 {
        if key.is_multiple_of(8) { u64::from(key % 16) } else { super::super::shape::fold(u64::from(key) + 1) }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
        #[test]
        fn is_a_map_that_does_not_change_its_clones(
            changes in prop::collection::vec((0u32..3_000, any::<u32>(), prop::bool::weighted(0.7)), 0..6_000),
            at in any::<prop::sample::Index>(),
        ) {
            let (mut shards, mut model) = (Shards::default(), HashMap::new());
            let (mut clone, mut old) = (Shards::<Pair>::default(), HashMap::new());
            let at = at.index(changes.len() + 1);
            for (i, (key, value, add)) in changes.into_iter().enumerate() {
                if i == at {
                    (clone, old) = (shards.clone(), model.clone());
                }
                let there = shards.find(hash(key), |pair: &Pair| pair.0 == key).map(|pair| pair.1);
                prop_assert_eq!(there, model.get(&key).copied());
                match (add, there) {
                    (true, Some(_)) => {
                        shards.find_mut(hash(key), |pair| pair.0 == key).expect("found").1 = value;
                        model.insert(key, value);
                    }
                    (true, None) => {
                        shards.insert(Pair(key, value));
                        model.insert(key, value);
                    }
                    (false, Some(value)) => {
                        prop_assert_eq!(shards.remove(hash(key), |pair| pair.0 == key), Some(Pair(key, value)));
                        model.remove(&key);
                    }
                    (false, None) => {}
                }
                prop_assert_eq!(shards.len(), model.len());
            }
            for (shards, model) in [(shards, model), (clone, old)] {
                prop_assert_eq!(shards.iter().map(|pair| (pair.0, pair.1)).collect::<HashMap<_, _>>(), model);
            }
        }
    }
}
