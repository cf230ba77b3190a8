//! The node state: the desired state, its numbers, what it compiles to; and how a write changes all
//! three.
//!
//! A write is planned on the state itself: what it changes is remembered, and put back if the
//! bridge (or the caller) refuses it. So nobody sees a state that is not in force, as long as
//! nobody looks between [`NodeState::plan`] and [`NodeState::settle`] or [`NodeState::revert`]: the
//! caller has the lock.

mod judge;
mod multicast;
mod names;
mod plan;
mod ports;
mod read;
mod result;
mod salvage;
mod saved;
mod takes;
#[cfg(test)]
mod tests;
mod traceflow;
mod wire;

pub use saved::{Kept, KeptError, Snapshot};

use crate::desired::Entry;
use crate::membership::Receivers;
use crate::store::Store;
use crate::traceflow::Running;
use crate::{
    Cidr, Claim, Code, CompiledObject, Desired, Facts, Flush, Ids, Key, Node, ObjectKind, Ports, Problem, Problems,
    Wire,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use vswitch_flow::spec::Update;
use vswitch_proto::antrea::v1;

pub use traceflow::TraceflowRefused;

/// What an agent asks for at once.
#[derive(Clone, Debug, Default)]
pub struct Write {
    /// Objects to be there.
    pub objects: Vec<v1::object::Object>,
    /// Objects to be gone.
    pub remove: Vec<Key>,
    /// Kinds of which no other objects are to be there.
    pub sweep: BTreeSet<ObjectKind>,
    /// Good objects are applied though others are refused.
    pub valid_only: bool,
    /// Statuses of objects that went well are left out.
    pub only_odd: bool,
}

/// How a write would change the bridge. Must be given back: to [`NodeState::settle`] or
/// [`NodeState::revert`].
#[derive(Debug)]
#[must_use]
pub struct Plan {
    /// One transaction. Empty: packets see no difference.
    pub updates: Vec<Update>,
    /// Connections to end when it is done.
    pub flush: Vec<Flush>,
    /// What the agent is told; `took_ms` and `connections_flushed` are the caller's.
    pub result: v1::WriteResult,
    undo: Undo,
}

impl Plan {
    /// What is compiled anew.
    pub fn compiled(&self) -> impl Iterator<Item = &Key> {
        self.undo.parts.iter().map(|(key, _)| key)
    }
}

/// What was before.
#[derive(Debug, Default)]
struct Undo {
    node: Option<Option<(v1::NodeConfig, Arc<Node>)>>,
    ids: Option<Ids>,
    entries: Vec<(Key, Option<Arc<Entry>>)>,
    parts: Vec<(Key, Option<Arc<CompiledObject>>)>,
    degraded: Vec<(Key, Option<Problems>)>,
    names: Vec<(String, BTreeSet<IpAddr>)>,
    joined: Vec<(Ipv4Addr, Receivers)>,
    traceflows: Option<Running>,
    /// Who had what these changes are about.
    had: HashMap<Claim, Option<Key>>,
    /// The same, of what several claimed.
    holders: Vec<(Claim, Option<Key>)>,
    /// Prefixes of peers that had an effect, if that may change.
    peer_prefixes: Option<BTreeSet<(Cidr, Key)>>,
    /// Ports of the bridge that were other ones, and are looked at now.
    moved: BTreeSet<String>,
}

/// Ports of the bridge that an object claims or uses.
fn ports_of(entry: &Entry) -> BTreeSet<String> {
    let claims = entry.object.claims().into_iter();
    let claimed = claims.filter_map(|(claim, _)| if let Claim::Port(port) = claim { Some(port) } else { None });
    claimed.chain(entry.object.ports()).collect()
}

/// All that agents declared, and what it came to.
#[derive(Debug, Default)]
pub struct NodeState {
    node: Option<(v1::NodeConfig, Arc<Node>)>,
    ports: Arc<Ports>,
    wire: Arc<Wire>,
    desired: Desired,
    ids: Ids,
    store: Store,
    degraded: BTreeMap<Key, Problems>,
    traceflows: Running,
    /// Ports that are others since objects were compiled last.
    moved: BTreeSet<String>,
}

impl NodeState {
    /// The Node, as written and as read; None: it was not said yet.
    #[must_use]
    pub fn node(&self) -> Option<&(v1::NodeConfig, Arc<Node>)> {
        self.node.as_ref()
    }

    /// All objects.
    #[must_use]
    pub const fn desired(&self) -> &Desired {
        &self.desired
    }

    /// Their numbers.
    #[must_use]
    pub const fn ids(&self) -> &Ids {
        &self.ids
    }

    #[cfg(test)]
    pub(crate) const fn ids_mut(&mut self) -> &mut Ids {
        &mut self.ids
    }

    /// What they write.
    #[must_use]
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Bytes that objects, their numbers and what they write take here, about; the bridge's tables
    /// have theirs beside. Costs a look at each group.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.desired.memory() + self.ids.memory() + self.store.memory()
    }

    /// Objects of which something has no effect at present, and why.
    #[must_use]
    pub const fn degraded(&self) -> &BTreeMap<Key, Problems> {
        &self.degraded
    }

    /// Policies that do not say whom they bind, so that something may pass that they deny: an
    /// applied-to group that they name is not there, or has no name. Costs a look at each policy.
    pub fn unbound(&self) -> impl Iterator<Item = (Key, Problem)> {
        self.desired.of(ObjectKind::NetworkPolicy).filter_map(|(key, entry)| {
            let crate::Object::NetworkPolicy(policy) = &entry.object else { return None };
            if policy.is_unbound() {
                return Some((
                    key.clone(),
                    Problem::new(Code::Missing, "applied_to", "it does not say what it is applied to"),
                ));
            }
            let references = entry.object.references().into_iter();
            let mut groups = references.filter(|reference| reference.key.kind == ObjectKind::AppliedToGroup);
            let missing = groups.find(|reference| self.desired.get(&reference.key).is_none())?;
            let reason = format!("{} is not there yet", missing.key);
            Some((key.clone(), Problem::new(Code::Pending, missing.field, reason).other(missing.key)))
        })
    }

    /// Objects that are DEGRADED by a plan of now and were not before, or for another reason, or
    /// are no more.
    #[must_use]
    pub fn turned(&self, plan: &Plan) -> BTreeSet<Key> {
        let mut before: BTreeMap<&Key, Option<&Problems>> = BTreeMap::new();
        for (key, problems) in &plan.undo.degraded {
            before.entry(key).or_insert(problems.as_ref());
        }
        before
            .into_iter()
            .filter(|(key, before)| self.degraded.get(*key) != *before)
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// All that a compilation may look at.
    #[must_use]
    pub fn facts(&self) -> Option<Facts<'_>> {
        let (_, node) = self.node.as_ref()?;
        Some(Facts { node, ports: &self.ports, wire: &self.wire, desired: &self.desired, ids: &self.ids })
    }

    /// Ports of the bridge, as they are now. The next plan has what that means for objects.
    pub fn set_ports(&mut self, ports: Ports) {
        self.moved.extend(self.ports.differing(&ports).cloned());
        self.ports = Arc::new(ports);
    }

    /// Ports of the bridge that must stay, with the object that has each.
    #[must_use]
    pub fn held_ports(&self) -> BTreeMap<String, Key> {
        let of_objects =
            self.desired.all().flat_map(|(key, entry)| ports_of(entry).into_iter().map(move |port| (port, key)));
        let mut held: BTreeMap<String, Key> = of_objects.map(|(port, key)| (port, key.clone())).collect();
        held.extend(self.ports_of(&Key::node()).into_iter().map(|port| (port, Key::node())));
        held
    }

    /// All that have one of these ports, or use it: objects, and the Node. Costs a look at each
    /// port, and at each TrafficControl.
    #[must_use]
    pub fn holders(&self, ports: &BTreeSet<String>) -> BTreeSet<Key> {
        let claimed = ports.iter().flat_map(|port| self.desired.holders(&Claim::Port(port.clone())));
        // Others claim what they use.
        let controls = self.desired.of(ObjectKind::TrafficControl);
        let uses = controls.filter(|(_, entry)| entry.object.ports().iter().any(|port| ports.contains(port)));
        let mut holders: BTreeSet<Key> = claimed.chain(uses.map(|(key, _)| key)).cloned().collect();
        if self.ports_of(&Key::node()).iter().any(|port| ports.contains(port)) {
            holders.insert(Key::node());
        }
        holders
    }

    /// Ports of the bridge that an object, or the Node, has or uses.
    #[must_use]
    pub fn ports_of(&self, key: &Key) -> BTreeSet<String> {
        if *key == Key::node() {
            let ports = self.node.iter().flat_map(|(_, node)| node.ports());
            return ports.map(|(_, port)| port.to_owned()).collect();
        }
        self.desired.get(key).map(|entry| ports_of(entry)).unwrap_or_default()
    }

    /// Plans another Node, or the first one: everything is compiled anew. Objects that the new one
    /// leaves without effect are kept, and DEGRADED. It does not take ports, addresses, MAC
    /// addresses and routes that Pods and peers have in force.
    ///
    /// # Errors
    /// Everything that is wrong with it; then nothing has changed.
    pub fn plan_node(&mut self, config: &v1::NodeConfig) -> Result<Plan, Problems> {
        let mut problems = Problems::default();
        let node = crate::node::read(config, &mut problems);
        let Some(node) = node.filter(|_| problems.is_empty()) else { return Err(problems) };
        for (field, port) in node.ports() {
            if self.ports.number(port).is_none() {
                let reason = format!("bridge {} has no port {port:?}", node.bridge);
                problems.push(Code::Port, field.as_str(), reason);
            }
            if ["gateway.port", "tunnel.port"].contains(&field.as_str()) {
                self.ports.no_guest(&field, port, &mut problems);
            }
        }
        self.takes(&node, &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        let moved = self.moved.clone();
        let mut undo = Undo { node: Some(self.node.take()), ids: Some(self.ids.clone()), moved, ..Undo::default() };
        self.node = Some((config.clone(), Arc::new(node)));
        self.settle_peers(&mut undo);
        let keys: BTreeSet<Key> =
            self.desired.all().map(|(key, _)| key.clone()).chain([Key::node()]).chain(self.all_heard()).collect();
        self.planned(keys, undo).map_err(|refused| {
            refused.into_values().for_each(|refused| problems.extend(refused));
            problems
        })
    }

    /// The plan is done: the bridge has what it says.
    pub fn settle(&mut self, plan: Plan) {
        for port in plan.undo.moved {
            self.moved.remove(&port);
        }
        self.store.settle();
    }

    /// The plan is not done: everything is as before.
    pub fn revert(&mut self, plan: Plan) {
        self.undo(plan.undo);
    }

    fn undo(&mut self, undo: Undo) {
        if let Some(node) = undo.node {
            self.node = node;
        }
        if let Some(ids) = undo.ids {
            self.ids = ids;
        }
        if let Some(traceflows) = undo.traceflows {
            self.traceflows = traceflows;
        }
        // In reverse: an object may have been changed twice.
        for (key, compiled) in undo.parts.into_iter().rev() {
            self.store.replace(&key, compiled);
        }
        for (key, entry) in undo.entries.into_iter().rev() {
            self.desired.set(&key, entry);
        }
        for (claim, holder) in undo.holders {
            self.desired.set_holder(&claim, holder);
        }
        if let Some(before) = undo.peer_prefixes {
            self.desired.set_peer_prefixes(before);
        }
        for (name, addresses) in undo.names.into_iter().rev() {
            self.desired.names_mut().set(&name, addresses);
        }
        for (group, receivers) in undo.joined.into_iter().rev() {
            self.desired.joined_mut().set(group, receivers);
        }
        for (key, problems) in undo.degraded.into_iter().rev() {
            self.set_degraded(&key, problems);
        }
        self.store.settle();
    }

    fn set_degraded(&mut self, key: &Key, problems: Option<Problems>) -> Option<Problems> {
        match problems.filter(|problems| !problems.is_empty()) {
            Some(problems) => self.degraded.insert(key.clone(), problems),
            None => self.degraded.remove(key),
        }
    }
}
