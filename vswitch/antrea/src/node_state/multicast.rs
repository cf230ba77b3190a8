//! Groups that are there without an object.

use super::{NodeState, Plan, Undo};
use crate::membership::{PodLife, Receivers};
use crate::node::PacketCategory;
use crate::object::multicast::{self, Target};
use crate::{CompiledObject, Facts, Key, ObjectKind, Problem, Problems};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

impl NodeState {
    /// Plans other receivers of groups, as IGMP told: a group has these from now on; none: it is
    /// forgotten. No other group is compiled anew.
    ///
    /// # Errors
    /// A limit is reached, or the Node is not there; then nothing has changed.
    pub fn plan_groups(&mut self, groups: BTreeMap<Ipv4Addr, Receivers>) -> Result<Plan, Problems> {
        let mut undo = Undo { ids: Some(self.ids.clone()), ..Undo::default() };
        let touched: BTreeSet<Key> = groups.keys().map(|group| Target::Group(*group).key()).collect();
        for (group, receivers) in groups {
            let old = self.desired.joined_mut().set(group, receivers);
            undo.joined.push((group, old));
        }
        self.planned(touched, undo).map_err(|refused| {
            let mut problems = Problems::default();
            refused.into_values().for_each(|refused| problems.extend(refused));
            problems
        })
    }

    fn has_multicast(&self) -> bool {
        self.node.as_ref().is_some_and(|(_, node)| node.features.multicast)
    }

    /// Whether the switch finds out itself who is in a group.
    pub(super) fn is_heard(&self, key: &Key) -> bool {
        let is_said = self.node.as_ref().is_some_and(|(_, node)| node.taken_over.contains(&PacketCategory::Igmp));
        let is_ours = Target::of(&key.name).is_some_and(|target| Target::ALWAYS.contains(&target));
        key.kind == ObjectKind::MulticastGroup && (is_ours || !is_said)
    }

    /// Groups that are there without an object, and were before the Node changed.
    pub(super) fn all_heard(&self) -> impl Iterator<Item = Key> {
        let joined = self.desired.joined().groups().map(|group| Target::Group(group).key());
        Target::ALWAYS.into_iter().map(Target::key).chain(joined)
    }

    /// Groups that look different after this object changed.
    pub(super) fn heard_with(&self, key: &Key) -> Vec<Key> {
        if !self.has_multicast() {
            return Vec::new();
        }
        let always = match key.kind {
            ObjectKind::Pod => Target::Everybody,
            ObjectKind::PeerNode => Target::Nodes,
            _ => return Vec::new(),
        };
        let joined = self.desired.joined().of(key).map(|group| Target::Group(group).key());
        joined.chain([always.key()]).collect()
    }

    /// Who gets the packets of such a group. None: there is no such group.
    fn heard(&self, key: &Key) -> Option<(Target, Receivers)> {
        let (target, facts) = (Target::of(&key.name)?, self.facts().filter(|_| self.has_multicast())?);
        let names = |kind| facts.desired.of(kind).map(|(key, _)| Arc::clone(&key.name));
        let receivers = match target {
            Target::Everybody => Receivers {
                pods: names(ObjectKind::Pod).map(|pod| PodLife { pod, serial: 0 }).collect(),
                nodes: BTreeSet::new(),
            },
            Target::Nodes => Receivers { pods: BTreeSet::new(), nodes: names(ObjectKind::PeerNode).collect() },
            Target::Group(group) => {
                let mut receivers = facts.desired.joined().receivers(group)?.clone();
                receivers.pods.retain(|pod| pod.lives(&facts));
                receivers.nodes.retain(|node| facts.desired.peer_node(node).is_some());
                Some(receivers).filter(|receivers| !receivers.is_empty())?
            }
        };
        Some((target, receivers))
    }

    /// Numbers of such a group.
    pub(super) fn claim_heard(&mut self, key: &Key) -> Result<(), Problem> {
        match self.heard(key) {
            None => crate::object::release(key, &mut self.ids),
            Some((target, receivers)) => {
                self.ids.claim_cookie(key)?;
                multicast::claim(target, &receivers, &self.desired, &mut self.ids)?;
            }
        }
        Ok(())
    }

    /// What is written for such a group.
    pub(super) fn compiled_of_heard(&self, key: &Key, facts: &Facts<'_>) -> Option<CompiledObject> {
        let (there, object) = (self.heard(key), self.desired.get(key));
        if there.is_none() && object.is_none() {
            return None;
        }
        let mut compiled = CompiledObject::new(key, &self.ids);
        if let Some((target, receivers)) = there {
            multicast::compile(target, &receivers, facts, &mut compiled);
        }
        if object.is_some() {
            compiled.degraded.add(multicast::heard());
        }
        Some(compiled)
    }
}
