//! The decision on a packet: kept, or made now. Behind the choice of a select group there is one
//! for each bucket.

use crate::cache::{Cache, Megaflow};
use crate::group::Group;
use crate::limits::ACTIONS_PER_MISS;
use crate::pipeline::{Request, Translation, translate};
use crate::time::Millis;
use crate::worker::step::StepContext;
use std::sync::Arc;

/// What was found for a packet.
pub(in crate::worker) enum Found {
    /// A decision that was there.
    Known(Arc<Megaflow>),
    /// One that is there from now on.
    Kept(Arc<Megaflow>),
    /// One that cannot be kept.
    Once(Box<Translation>),
    /// None: its port has brought too many that are new.
    Refused,
}

impl Found {
    /// The group that is to choose first.
    pub(in crate::worker) fn chooser(&self, now: Millis) -> Option<Arc<Group>> {
        match self {
            Self::Known(megaflow) | Self::Kept(megaflow) => {
                let group = megaflow.chooser().cloned();
                // The packet is another decision's.
                group.inspect(|_| megaflow.count(0, 0, now))
            }
            Self::Once(translation) => translation.chooser.clone(),
            Self::Refused => None,
        }
    }
}

impl StepContext<'_> {
    /// The decision on a packet that was just looked up: one that is kept, or that is made now.
    pub(in crate::worker) fn find(
        &mut self,
        cache: &mut Cache,
        request: &Request<'_>,
        known: Option<Arc<Megaflow>>,
    ) -> Found {
        let (world, now) = (&*self.snapshot.world, self.now);
        let outdated = cache.take_outdated();
        if let Some(megaflow) = known {
            return Found::Known(megaflow);
        }
        let allowance = if outdated || cache.take_forgotten() { &self.budget.renewals } else { &self.budget.misses };
        // With the caches off, every packet is a miss.
        if cache.is_on() && !allowance.take(now) {
            return Found::Refused;
        }
        cache.stats().misses.add(1);
        let translation = translate(world, request, None);
        allowance.charge(translation.work / ACTIONS_PER_MISS);
        match cache.insert(request, translation) {
            Ok(megaflow) => Found::Kept(megaflow),
            Err(translation) => Found::Once(Box::new(translation)),
        }
    }
}
