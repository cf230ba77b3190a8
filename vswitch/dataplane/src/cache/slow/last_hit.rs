//! The decision that packets of one port, stage and Ethernet type (and, behind a choice, bucket)
//! had last: most of a port's packets have the same one, and that is looked at before anything is
//! searched.
//!
//! Whoever takes a decision out has it, and puts it back when he is done with its packet: so nobody
//! counts references. What has ended is let go of a few at a time.

use crate::cache::fast::compact::folded;
use crate::cache::slow::tuples::MULTIPLIER;
use crate::cache::{Cache, EVICTION_SEARCH, Megaflow};
use crate::pipeline::World;
use crate::time::Millis;
use std::sync::Arc;
use vswitch_flow::{Field, FlowKey};

/// Decisions that are remembered: so many that the stages of a node's ports seldom meet in one
/// place.
const PLACES: usize = 4096;

/// Of which so many are looked at in a millisecond, whether they have ended.
const SWEEP: usize = 64;

/// The last megaflow by port, stage, Ethernet type and bucket, in a table of fixed size.
#[derive(Debug)]
pub(in crate::cache) struct LastHit {
    places: Box<[Option<Arc<Megaflow>>]>,
    seed: u64,
    hand: usize,
}

impl LastHit {
    pub(in crate::cache) fn new(seed: u64) -> Self {
        Self { places: (0..PLACES).map(|_| None).collect(), seed, hand: 0 }
    }

    /// Where the last decision on such packets is. A bucket that was chosen (`conj_id`) has one of
    /// its own, so that what asks for the choice stays where it is.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // fields of 32 and 16 bits, and a part of a hash
    fn place(&self, bridge: usize, key: &FlowKey) -> usize {
        let [port, stage, kind, bucket] =
            [Field::InPort, Field::RecircId, Field::EthType, Field::ConjId].map(|field| key.get(field) as u64);
        let rest = kind | (bridge as u64) << 16 | bucket << 32;
        folded(port << 32 | stage, MULTIPLIER ^ rest ^ self.seed) as usize % PLACES
    }

    /// Takes the last decision on such packets out, if the packet fits it. Port, stage and type are
    /// in every mask whole.
    #[inline]
    pub(in crate::cache) fn take(&mut self, bridge: usize, key: &FlowKey) -> Option<Arc<Megaflow>> {
        let place = self.place(bridge, key);
        self.places[place].take_if(|megaflow| megaflow.bridge == bridge && megaflow.matching.matches(key))
    }

    /// Remembers the decision on a packet.
    #[inline]
    pub(in crate::cache) fn put(&mut self, key: &FlowKey, megaflow: Arc<Megaflow>) {
        let place = self.place(megaflow.bridge, key);
        if !megaflow.is_dead() {
            self.places[place] = Some(megaflow);
        }
    }

    /// Lets go of what has ended, among the next few.
    pub(in crate::cache) fn sweep(&mut self) {
        for _ in 0..SWEEP {
            self.hand = (self.hand + 1) % PLACES;
            self.places[self.hand].take_if(|megaflow| megaflow.is_dead());
        }
    }

    /// Forgets everything.
    pub(in crate::cache) fn clear(&mut self) {
        self.places.fill(None);
    }
}

impl Cache {
    /// The megaflow that a packet fits. It is to be given back ([`Self::done_with`]), so that the
    /// next one like it finds it at once.
    pub(crate) fn lookup(&mut self, bridge: usize, key: &FlowKey, world: &World, now: Millis) -> Option<Arc<Megaflow>> {
        if let Some(megaflow) = self.last_hit.take(bridge, key)
            && self.is_good(&megaflow, world, now)
        {
            return Some(megaflow);
        }
        // A stale one may hide another; they are few.
        for _ in 0..EVICTION_SEARCH {
            let megaflow = self.bridges.get_mut(bridge)?.find(key)?;
            if self.is_good(&megaflow, world, now) {
                return Some(megaflow);
            }
        }
        None
    }

    /// Whether the packet that was just looked up is of a kind that was known until something
    /// changed.
    #[inline]
    pub(crate) fn take_outdated(&mut self) -> bool {
        std::mem::take(&mut self.outdated)
    }

    /// Whether the packet that was just not found may be of a kind that was known until everything
    /// was forgotten: as many as were.
    pub(crate) fn take_forgotten(&mut self) -> bool {
        let forgotten = self.forgotten > 0;
        self.forgotten -= usize::from(forgotten);
        forgotten
    }

    /// The packet with this key is where it was to go, by this megaflow.
    #[inline]
    pub(crate) fn done_with(&mut self, megaflow: Arc<Megaflow>, key: &FlowKey) {
        self.last_hit.put(key, megaflow);
    }
}
