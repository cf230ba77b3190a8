//! What became of the packets for each controller id of a bridge.
//!
//! **Design**: a packet that is refused is to cost little: counters of a few workers lie on cache
//! lines of their own. The list of ids is replaced as a whole when one comes that nobody had a
//! packet for before.
//!
//! **Limits**: [`CONTROLLERS_COUNTED_MAX`] ids.
//!
//! **Threads**: workers count, anybody reads; no lock.

use crate::limits::CONTROLLERS_COUNTED_MAX;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Cache lines of counters of one id.
const SHARDS: usize = 4;

/// What became of a packet for controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was told to everyone who wanted it and had room.
    Told = 0,
    /// It did not fit into the queue of somebody who wanted it.
    Lost = 1,
    /// A meter refused it: that of its `controller(meter_id=...)`, or one in front of it in its
    /// list.
    Metered = 2,
    /// Its port had too many (`[slow_path] packet_ins`).
    Limited = 3,
}

const FATES: usize = 4;

/// What became of the packets for a controller id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerInfo {
    /// Its id.
    pub controller: u16,
    /// Those who want its packets now.
    pub subscribers: usize,
    /// Packets, by [`Fate`]. One that nobody wanted has none.
    pub packets: [u64; FATES],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard([AtomicU64; FATES]);

#[derive(Debug)]
struct Counts {
    controller: u16,
    shards: [Shard; SHARDS],
}

/// Counters of the controller ids of a bridge, by id.
#[derive(Debug, Default)]
pub(super) struct Controllers(ArcSwap<Vec<Arc<Counts>>>);

impl Controllers {
    /// Counts a packet.
    pub(super) fn count(&self, controller: u16, worker: usize, fate: Fate) {
        let known = self.0.load();
        let counts = match known.binary_search_by_key(&controller, |counts| counts.controller) {
            Ok(at) => &known[at],
            Err(_) => &match self.add(controller) {
                Some(counts) => counts,
                None => return,
            },
        };
        counts.shards[worker % SHARDS].0[fate as usize].fetch_add(1, Relaxed);
    }

    /// An id that nobody had a packet for before; None: there are too many.
    #[cold]
    fn add(&self, controller: u16) -> Option<Arc<Counts>> {
        let new = Arc::new(Counts { controller, shards: Default::default() });
        let mut added = None;
        self.0.rcu(|known| {
            let mut all = Vec::clone(known);
            added = match all.binary_search_by_key(&controller, |counts| counts.controller) {
                Ok(at) => Some(Arc::clone(&all[at])),
                Err(_) if all.len() >= CONTROLLERS_COUNTED_MAX => None,
                Err(at) => {
                    all.insert(at, Arc::clone(&new));
                    Some(Arc::clone(&new))
                }
            };
            all
        });
        added
    }

    /// All of them, by id.
    pub(super) fn infos(&self) -> Vec<ControllerInfo> {
        let sum = |counts: &Counts, fate: usize| counts.shards.iter().map(|shard| shard.0[fate].load(Relaxed)).sum();
        let info = |counts: &Arc<Counts>| ControllerInfo {
            controller: counts.controller,
            subscribers: 0,
            packets: std::array::from_fn(|fate| sum(counts, fate)),
        };
        self.0.load().iter().map(info).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_its_own_and_there_are_so_many() {
        let controllers = Controllers::default();
        for (controller, worker, fate) in [
            (7, 0, Fate::Told),
            (5, 1, Fate::Lost),
            (7, 9, Fate::Told),
            (7, 2, Fate::Limited),
            (65_535, 3, Fate::Metered),
        ] {
            controllers.count(controller, worker, fate);
        }
        let told: Vec<(u16, [u64; FATES])> =
            controllers.infos().into_iter().map(|info| (info.controller, info.packets)).collect();
        assert_eq!(told, [(5, [0, 1, 0, 0]), (7, [2, 0, 0, 1]), (65_535, [0, 0, 1, 0])]);
        (0..=u16::MAX).for_each(|controller| controllers.count(controller, 0, Fate::Told));
        assert_eq!(controllers.infos().len(), CONTROLLERS_COUNTED_MAX);
        let sum: u64 = controllers.infos().iter().map(|info| info.packets[0]).sum();
        assert_eq!(sum, 2 + CONTROLLERS_COUNTED_MAX as u64, "the rest is not counted");
    }

    #[test]
    fn workers_that_count_at_once_lose_nothing() {
        let controllers = Controllers::default();
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let controllers = &controllers;
                scope.spawn(move || (0..40_000_u16).for_each(|i| controllers.count(i % 100, worker, Fate::Told)));
            }
        });
        assert_eq!(controllers.infos().iter().map(|info| info.packets[0]).sum::<u64>(), 160_000);
    }
}
