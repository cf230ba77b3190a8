//! Ports that come after the objects that have them: those of agents, after a restart.

use super::{NodeState, Plan, Undo};
use crate::{Key, Ports, Problems};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

impl NodeState {
    /// Plans what objects come to with these ports: those whose ports have another number than
    /// before, or have one now, and those that name them.
    ///
    /// # Errors
    /// What is wrong with whom; then nothing but the numbers of ports has changed.
    pub fn plan_ports(&mut self, ports: Ports) -> Result<Plan, BTreeMap<Key, Problems>> {
        self.set_ports(ports);
        let mut undo = Undo { ids: Some(self.ids.clone()), moved: self.moved.clone(), ..Undo::default() };
        self.settle_peers(&mut undo);
        let mut touched = self.touched_by_ports();
        for key in self.touched_by_peers(&undo) {
            touched.extend(self.desired.referrers(&key).cloned());
            let entry = self.desired.get(&key);
            touched.extend(entry.into_iter().flat_map(|entry| entry.object.rivals(&self.desired, &mut HashSet::new())));
            touched.insert(key);
        }
        touched.retain(|key| *key == Key::node() || self.desired.get(key).is_some());
        self.planned(touched, undo)
    }

    /// Everything that looks different since ports are others.
    pub(super) fn touched_by_ports(&self) -> BTreeSet<Key> {
        let mut touched: BTreeSet<Key> = BTreeSet::new();
        if self.moved.is_empty() {
            return touched;
        }
        if self.node.iter().flat_map(|(_, node)| node.ports()).any(|(_, port)| self.moved.contains(port)) {
            touched.extend(self.desired.all().map(|(key, _)| key.clone()));
            touched.insert(Key::node());
        } else {
            self.spread(&self.moved, &mut touched);
        }
        touched
    }

    /// Objects with these ports, those that name them, and so on.
    fn spread(&self, ports: &BTreeSet<String>, touched: &mut BTreeSet<Key>) {
        let mut queue: VecDeque<Key> = self.holders(ports).into_iter().collect();
        while let Some(key) = queue.pop_front() {
            let Some(entry) = self.desired.get(&key) else { continue };
            if touched.insert(key.clone()) {
                queue.extend(self.desired.referrers(&key).cloned());
                queue.extend(entry.object.drags());
                touched.extend(self.heard_with(&key));
            }
        }
    }
}
