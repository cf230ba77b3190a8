//! What this agent, or an earlier run of it, has told the switch.

use super::Driver;
use crate::project::{Key, Projection};
use std::collections::BTreeSet;

impl Driver {
    /// The same, but an earlier run has told a switch everything in this round, and all is known
    /// that it knew.
    #[must_use]
    pub fn knowing(self, round: Option<u64>) -> Self {
        Self { known: round, ..self }
    }

    /// The round in which the switch was told everything by this agent.
    pub fn synced_round(&self) -> Option<u64> {
        let session = self.session.as_ref().filter(|session| self.has_synced && !session.is_partial);
        session.map(|session| session.round).filter(|round| *round > 0)
    }

    /// Whether the switch has an object, as far as is known.
    pub fn has(&self, key: &Key) -> bool {
        self.session.as_ref().is_some_and(|session| session.told.contains_key(key))
    }

    /// Objects of a projection that the switch refuses as they are. None: it has not been told all
    /// of the projection.
    pub fn refused(&self, projection: &Projection) -> Option<BTreeSet<Key>> {
        let session = self.session.as_ref().filter(|session| self.has_synced && !session.is_partial);
        let session =
            session.filter(|session| !session.is_behind && session.change(projection, false).put.is_empty())?;
        Some(session.refused.keys().filter(|key| projection.objects.contains_key(*key)).cloned().collect())
    }
}
