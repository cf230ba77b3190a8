//! Where a packet goes on behind `ct()`: everything that it takes with it but its bytes.
//!
//! **Design**: a decision ends at `ct()`, because what comes next depends on the connection. What
//! the translation knew there is a [`Stage`]: table, registers, stack, action set. Equal stages are
//! one, with one number (`recirc_id` of Open vSwitch), and the decision behind it is for packets of
//! that number: so the second half of a pipeline has few decisions, however many lead to it.
//!
//! **Threads**: one [`Stages`] for all workers, behind a lock that only translations take. A stage
//! goes with the last decision that leads to it or begins there.

use foldhash::quality::RandomState;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::{Arc, Weak};
use vswitch_flow::{Action, FIRST_PACKET_WORD, Field, FlowKey, FlowMask, LAST_PACKET_WORD};

/// What a packet takes along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrozenState {
    /// Index of the bridge where it is.
    pub bridge: usize,
    /// Table where it goes on.
    pub table: u8,
    /// Metadata that the translation had written. Only metadata words count, and no field of the
    /// connection.
    pub metadata: FlowKey,
    /// Which bits of it: the others are the packet's own.
    pub defined: FlowMask,
    /// The action set.
    pub set: Box<[Action]>,
    /// The packet's stack, the top last.
    pub stack: Box<[u128]>,
}

/// A place where packets go on.
#[derive(Debug)]
pub struct Stage {
    /// Its number: `recirc_id` of the packets there. Never 0.
    pub id: u32,
    /// What they take along.
    pub frozen: FrozenState,
    /// Its metadata, as few words of it as were written: index, bits, and which bits they are.
    written: Box<[(u8, u64, u64)]>,
    hash: u64,
    home: Weak<Mutex<Inner>>,
}

/// All stages that decisions lead to.
#[derive(Debug, Default)]
pub struct Stages {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    hasher: RandomState,
    by_hash: HashMap<u64, Vec<(u32, Weak<Stage>)>>,
    ids: HashSet<u32>,
    last: u32,
}

impl Stages {
    /// The stage with this frozen state.
    #[must_use]
    pub fn intern(&self, frozen: FrozenState) -> Arc<Stage> {
        let mut inner = self.inner.lock();
        let hash = inner.hash(&frozen);
        let same = inner.by_hash.get(&hash).into_iter().flatten().filter_map(|(_, stage)| stage.upgrade());
        // Dropping the last reference to another one takes the lock: not here.
        let candidates: Vec<Arc<Stage>> = same.collect();
        let found = candidates.iter().find(|stage| stage.frozen == frozen).cloned();
        let stage = found.unwrap_or_else(|| {
            let id = inner.next_id();
            let written = frozen.written();
            let stage = Arc::new(Stage { id, frozen, written, hash, home: Arc::downgrade(&self.inner) });
            inner.by_hash.entry(hash).or_default().push((id, Arc::downgrade(&stage)));
            stage
        });
        drop(inner);
        stage
    }

    /// Stages now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.lock().ids.len()
    }

    /// No decision leads to another one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inner {
    fn hash(&self, frozen: &FrozenState) -> u64 {
        let FrozenState { bridge, table, metadata, defined, set, stack } = frozen;
        self.hasher.hash_one((bridge, table, metadata, defined, set.len(), stack))
    }

    fn next_id(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && self.ids.insert(self.last) {
                return self.last;
            }
        }
    }
}

// Equal frozen state is one stage.
impl PartialEq for Stage {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Stage {}

impl Drop for Stage {
    fn drop(&mut self) {
        let Some(home) = self.home.upgrade() else { return };
        let mut inner = home.lock();
        inner.ids.remove(&self.id);
        if let Some(list) = inner.by_hash.get_mut(&self.hash) {
            list.retain(|(id, _)| *id != self.id);
            if list.is_empty() {
                inner.by_hash.remove(&self.hash);
            }
        }
    }
}

impl FrozenState {
    fn written(&self) -> Box<[(u8, u64, u64)]> {
        // These belong to one decision.
        let mut defined = self.defined.clone();
        let mut metadata = self.metadata.clone();
        for field in [Field::ActsetOutput, Field::ConjId, Field::RecircId] {
            defined.add(field);
            metadata.set(field, 0);
        }
        let words = (0_u8..).zip(metadata.0.into_iter().zip(defined.0));
        let is_ours = |i: u8| !(FIRST_PACKET_WORD..LAST_PACKET_WORD).contains(&i.into());
        let ours = words.filter(|(i, (_, bits))| *bits != 0 && is_ours(*i));
        ours.map(|(i, (word, bits))| (i, word & bits, bits)).collect()
    }
}

impl Stage {
    /// Writes the metadata of a packet that goes on here: its own, and what the translation had
    /// written. `key` has no word of its bytes yet.
    #[inline]
    pub fn unpack(&self, own: &FlowKey, key: &mut FlowKey) {
        key.copy_metadata(own);
        self.enter(key);
    }

    /// Adds the bits that are the same of all packets that go on here, as [`Self::enter`] writes
    /// them.
    pub fn defines(&self, mask: &mut FlowMask) {
        self.written.iter().for_each(|(i, _, bits)| mask.0[usize::from(*i)] |= bits);
        mask.add(Field::RecircId);
    }

    /// Writes what the translation had written into the key of a packet that goes on here.
    #[inline]
    pub fn enter(&self, key: &mut FlowKey) {
        for (i, word, bits) in &self.written {
            let at = &mut key.0[usize::from(*i)];
            *at = *at & !bits | word;
        }
        key.set(Field::RecircId, self.id.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frozen(table: u8, reg0: u128) -> FrozenState {
        let mut frozen = FrozenState { table, ..FrozenState::default() };
        frozen.metadata.set(Field::Reg0, reg0);
        frozen.defined.add(Field::Reg0);
        frozen
    }

    #[test]
    fn equal_frozen_state_is_one_stage_and_goes_with_its_last_user() {
        let stages = Stages::default();
        let (a, b) = (stages.intern(frozen(1, 5)), stages.intern(frozen(1, 6)));
        let again = stages.intern(frozen(1, 5));
        assert!(Arc::ptr_eq(&a, &again));
        assert_ne!(a.id, b.id);
        assert_ne!(stages.intern(frozen(2, 5)).id, a.id);
        assert_eq!(stages.len(), 2, "the one of table 2 had no user");
        let id = a.id;
        drop((a, again));
        assert_eq!(stages.len(), 1);
        assert_ne!(stages.intern(frozen(1, 5)).id, id, "a number is not given again soon");
        drop(b);
        assert!(stages.is_empty());
    }

    #[test]
    fn a_packet_gets_what_was_written_and_keeps_the_rest() {
        let mut own = FlowKey::default();
        own.set(Field::Reg0, 1);
        own.set(Field::PktMark, 2);
        own.set(Field::ConjId, 3);
        own.set(Field::TunMetadata0, 4);
        own.set(Field::NwTtl, 5);
        let (stage, mut key) = (Stages::default().intern(frozen(1, 5)), FlowKey::default());
        stage.unpack(&own, &mut key);
        let got = [Field::Reg0, Field::PktMark, Field::RecircId].map(|field| key.get(field));
        assert_eq!(got, [5, 2, stage.id.into()]);
        let got = [Field::ConjId, Field::TunMetadata0, Field::NwTtl].map(|field| key.get(field));
        assert_eq!(got, [0, 4, 0], "nothing of the decision before, all metadata, nothing of the bytes");
    }
}
