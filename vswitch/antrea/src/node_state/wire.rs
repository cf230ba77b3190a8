//! What becomes known of the wire after the Node was said: next hops that answer, ports of the
//! bridge behind the uplink.

use super::{NodeState, Plan, Undo};
use crate::{Key, Object, ObjectKind, Problems, Wire};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl NodeState {
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

    fn pods_on_wire(&self) -> impl Iterator<Item = Key> {
        let node = self.node.as_ref().map(|(_, node)| node).filter(|node| node.features.pod_vlans);
        let pods = node
            .into_iter()
            .flat_map(|node| self.desired.of(ObjectKind::Pod).map(move |(key, entry)| (node, key, entry)));
        pods.filter(|(node, _, entry)| matches!(&entry.object, Object::Pod(pod) if pod.on_wire(node).is_some()))
            .map(|(_, key, _)| key.clone())
    }

    /// Plans what the Node and objects come to with this knowledge of the wire. Only those that
    /// look at it are compiled anew.
    ///
    /// # Errors
    /// What is wrong with whom; then nothing but the knowledge has changed.
    pub fn plan_wire(&mut self, wire: Wire) -> Result<Plan, BTreeMap<Key, Problems>> {
        let kinds: &[ObjectKind] = if wire.under == self.wire.under {
            &[ObjectKind::Egress]
        } else {
            &[ObjectKind::Egress, ObjectKind::Service]
        };
        let mut touched: BTreeSet<Key> =
            kinds.iter().flat_map(|kind| self.desired.of(*kind)).map(|(key, _)| key.clone()).collect();
        if wire.under != self.wire.under {
            touched.extend(self.pods_on_wire());
        }
        touched.insert(Key::node());
        self.set_wire(wire);
        let undo = Undo { ids: Some(self.ids.clone()), ..Undo::default() };
        self.planned(touched, undo)
    }
}
