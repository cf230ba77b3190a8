//! What becomes known of the wire after the Node was said: next hops that answer, ports of the bridge behind the uplink.

use super::{Plan, Room, Undo, result};
use crate::{Key, Kind, Problems, Wire};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Room {
    /// What is known of the wire.
    #[must_use]
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// What is known of the wire, for what is compiled from now on.
    pub fn set_wire(&mut self, wire: Wire) {
        self.wire = Arc::new(wire);
    }

    /// The bridge behind the uplink has what objects need there: see [`crate::OnWire::touched`].
    pub fn settle_wire(&mut self) {
        self.store.settle_wire();
    }

    /// Plans what the Node and objects come to with this knowledge of the wire. Only those that look at it are compiled anew.
    ///
    /// # Errors
    /// What is wrong with whom; then nothing but the knowledge has changed.
    pub fn plan_wire(&mut self, wire: Wire) -> Result<Plan, BTreeMap<Key, Problems>> {
        let kinds: &[Kind] =
            if wire.under == self.wire.under { &[Kind::Egress] } else { &[Kind::Egress, Kind::Service, Kind::Pod] };
        self.set_wire(wire);
        let objects = kinds.iter().flat_map(|kind| self.desired.of(*kind)).map(|(key, _)| key.clone());
        let touched: BTreeSet<Key> = objects.chain([Key::node()]).collect();
        let mut undo = Undo { ids: Some(self.ids.clone()), ..Undo::default() };
        match self.attempt(touched, &mut undo) {
            Ok((updates, counts)) => {
                let result = result::of(Vec::new(), true, counts, false);
                Ok(Plan { updates, flush: Vec::new(), result, undo })
            }
            Err(refused) => {
                self.undo(undo);
                Err(refused)
            }
        }
    }
}
