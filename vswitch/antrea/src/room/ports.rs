//! Ports that come after the objects that have them: those of agents, after a restart.

use super::{Plan, Room, Undo};
use crate::{Key, Ports, Problems};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

impl Room {
    /// Plans what objects come to with these ports: those whose ports have another number than before, or have one now, and those that name them.
    ///
    /// # Errors
    /// What is wrong with whom; then nothing but the numbers of ports has changed.
    pub fn plan_ports(&mut self, ports: Ports) -> Result<Plan, BTreeMap<Key, Problems>> {
        let held = self.held_ports();
        let moved = |port: &&String| self.ports.number(port) != ports.number(port);
        let moved: BTreeSet<String> = held.keys().filter(moved).cloned().collect();
        let of_node = self.node.iter().flat_map(|(_, node)| node.ports()).any(|(_, port)| moved.contains(port));
        self.set_ports(ports);
        let mut touched: BTreeSet<Key> = BTreeSet::new();
        if of_node {
            touched.extend(self.desired.all().map(|(key, _)| key.clone()));
            touched.insert(Key::node());
        } else {
            self.spread(&moved, &mut touched);
        }
        let undo = Undo { ids: Some(self.ids.clone()), ..Undo::default() };
        self.planned(touched, undo)
    }

    /// Objects with these ports, those that name them, and so on.
    fn spread(&self, ports: &BTreeSet<String>, touched: &mut BTreeSet<Key>) {
        let mut queue: VecDeque<Key> = self.holders(ports).into_iter().collect();
        while let Some(key) = queue.pop_front() {
            let Some(entry) = self.desired.get(&key) else { continue };
            if touched.insert(key.clone()) {
                queue.extend(self.desired.referrers(&key).cloned());
                queue.extend(entry.object.drags());
            }
        }
    }
}
