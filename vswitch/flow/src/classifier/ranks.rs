//! A persistent map by priority, the highest first. Nearly always of one element (a match has one
//! rule), sometimes of thousands (a policy rule each, all on port 80).

use std::sync::Arc;

/// Elements of a full chunk: what a change of a shared map copies, beside a pointer per chunk.
const CHUNK: usize = 64;

type Chunk<V> = Arc<Vec<(u16, V)>>;

/// The map.
#[derive(Clone, Debug, Default)]
pub(super) enum Ranks<V> {
    /// Without elements.
    #[default]
    Empty,
    /// Of one element.
    One(u16, V),
    /// Of more: chunks of falling priorities, none empty.
    Many(Vec<Chunk<V>>),
}

impl<V> Ranks<V> {
    /// The highest.
    #[inline]
    pub(super) fn first(&self) -> Option<(u16, &V)> {
        match self {
            Self::Empty => None,
            Self::One(priority, value) => Some((*priority, value)),
            Self::Many(chunks) => {
                chunks.first().and_then(|chunk| chunk.first()).map(|(priority, value)| (*priority, value))
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    pub(super) fn get(&self, priority: u16) -> Option<&V> {
        match self {
            Self::Empty => None,
            Self::One(at, value) => (*at == priority).then_some(value),
            Self::Many(chunks) => {
                let chunk = chunks.get(chunk_of(chunks, priority))?;
                let i = position(chunk, priority).ok()?;
                Some(&chunk[i].1)
            }
        }
    }

    /// The values, the highest priority first.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        let (one, many) = match self {
            Self::Empty => (None, &[][..]),
            Self::One(_, value) => (Some(value), &[][..]),
            Self::Many(chunks) => (None, &chunks[..]),
        };
        one.into_iter().chain(many.iter().flat_map(|chunk| chunk.iter().map(|(_, value)| value)))
    }
}

impl<V: Clone> Ranks<V> {
    pub(super) fn get_mut(&mut self, priority: u16) -> Option<&mut V> {
        match self {
            Self::Empty => None,
            Self::One(at, value) => (*at == priority).then_some(value),
            Self::Many(chunks) => {
                let at = chunk_of(chunks, priority);
                let chunk = chunks.get_mut(at)?;
                let i = position(chunk, priority).ok()?;
                Arc::make_mut(chunk).get_mut(i).map(|(_, value)| value)
            }
        }
    }

    /// Adds a value of a priority that there is none of.
    pub(super) fn insert(&mut self, priority: u16, value: V) {
        match self {
            Self::Empty => *self = Self::One(priority, value),
            Self::One(..) => {
                let Self::One(at, old) = std::mem::take(self) else { return };
                let mut both = vec![(at, old), (priority, value)];
                both.sort_unstable_by_key(|(priority, _)| std::cmp::Reverse(*priority));
                *self = Self::Many(vec![Arc::new(both)]);
            }
            Self::Many(chunks) => {
                let at = chunk_of(chunks, priority).min(chunks.len().saturating_sub(1));
                let Some(chunk) = chunks.get_mut(at).map(Arc::make_mut) else { return };
                let (Ok(i) | Err(i)) = position(chunk, priority);
                chunk.insert(i, (priority, value));
                if chunk.len() > CHUNK {
                    let tail = chunk.split_off(CHUNK / 2);
                    chunks.insert(at + 1, Arc::new(tail));
                }
            }
        }
    }

    pub(super) fn remove(&mut self, priority: u16) -> Option<V> {
        match self {
            Self::Empty => None,
            Self::One(at, _) if *at != priority => None,
            Self::One(..) => match std::mem::take(self) {
                Self::One(_, value) => Some(value),
                _ => None,
            },
            Self::Many(chunks) => {
                let at = chunk_of(chunks, priority);
                let chunk = chunks.get_mut(at)?;
                let i = position(chunk, priority).ok()?;
                let chunk = Arc::make_mut(chunk);
                let (_, value) = chunk.remove(i);
                if chunk.is_empty() {
                    chunks.remove(at);
                }
                if chunks.is_empty() {
                    *self = Self::Empty;
                }
                Some(value)
            }
        }
    }
}

/// The first chunk that does not end above a priority.
fn chunk_of<V>(chunks: &[Chunk<V>], priority: u16) -> usize {
    chunks.partition_point(|chunk| chunk.last().is_some_and(|(last, _)| *last > priority))
}

fn position<V>(chunk: &[(u16, V)], priority: u16) -> Result<usize, usize> {
    chunk.binary_search_by(|(at, _)| priority.cmp(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn is_a_map_that_does_not_change_its_clones(
            changes in prop::collection::vec((0u16..300, any::<u32>(), prop::bool::weighted(0.6)), 0..1_000),
            at in any::<prop::sample::Index>(),
        ) {
            let (mut ranks, mut model) = (Ranks::Empty, BTreeMap::new());
            let (mut clone, mut old) = (Ranks::Empty, BTreeMap::new());
            let at = at.index(changes.len() + 1);
            for (i, (priority, value, add)) in changes.into_iter().enumerate() {
                if i == at {
                    (clone, old) = (ranks.clone(), model.clone());
                }
                if !add {
                    prop_assert_eq!(ranks.remove(priority), model.remove(&priority));
                } else if let Some(there) = ranks.get_mut(priority) {
                    *there = value;
                    model.insert(priority, value);
                } else {
                    ranks.insert(priority, value);
                    prop_assert_eq!(model.insert(priority, value), None);
                }
                prop_assert_eq!(ranks.first().map(|(p, v)| (p, *v)), model.last_key_value().map(|(p, v)| (*p, *v)));
                prop_assert_eq!(ranks.is_empty(), model.is_empty());
                prop_assert_eq!(ranks.get(priority), model.get(&priority));
            }
            prop_assert_eq!(ranks.values().collect::<Vec<_>>(), model.values().rev().collect::<Vec<_>>());
            prop_assert_eq!(clone.values().collect::<Vec<_>>(), old.values().rev().collect::<Vec<_>>());
        }
    }
}
