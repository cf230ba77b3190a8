//! What all objects write together, and what a change of some of them changes in the bridge.
//!
//! Several objects may write one flow: the same one ([`CompiledObject::shared`]), or other clauses
//! of it. A flow is there as long as somebody writes it. [`Store::replace`] changes what an object
//! writes; [`Store::plan`] tells the difference since the last [`Store::settle`], and only that.

mod groups;
mod layer;
mod on_wire;
#[cfg(test)]
mod tests;

use crate::contribution::{Contribution, FlowId, is_clause, merged, only};
use crate::{CompiledObject, Key};
use hashbrown::HashMap;
use layer::Layer;
pub use on_wire::OnWire;
use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use vswitch_flow::action::limits::MAX_CLAUSES;
use vswitch_flow::spec::{BucketSpec, FlowSpec, GroupSpec, MeterSpec, Update};

/// Two objects that want different things of the same flow, group or meter, or more than it can
/// hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Those who do, in order of names.
    pub owners: Vec<Key>,
    /// Which flow, group or meter.
    pub what: String,
    /// All of them agree, but it would have so many clauses: too many.
    pub clauses: Option<usize>,
}

/// How much a plan changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    pub flows: u64,
    pub groups: u64,
    pub meters: u64,
}

/// What all objects write.
#[derive(Debug)]
pub struct Store {
    parts: HashMap<Key, Arc<CompiledObject>>,
    /// Bytes of what all objects write.
    written: usize,
    flows: Layer<FlowId, FlowSpec>,
    groups: Layer<u32, GroupSpec>,
    meters: Layer<u32, MeterSpec>,
    on_wire: OnWire,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            parts: HashMap::new(),
            written: 0,
            flows: Layer::new(merged),
            groups: Layer::new(only),
            meters: Layer::new(only),
            on_wire: OnWire::new(),
        }
    }
}

impl Store {
    /// What an object writes from now on; None: nothing. Returns what it wrote.
    pub fn replace(&mut self, key: &Key, compiled: Option<Arc<CompiledObject>>) -> Option<Arc<CompiledObject>> {
        let old = self.parts.remove(key);
        let (gone, come) = differing(old.as_deref(), compiled.as_deref());
        self.on_wire.replace(
            key,
            old.as_deref().map(CompiledObject::outside),
            compiled.as_deref().map(CompiledObject::outside),
        );
        gone.iter().for_each(|flow| self.flows.remove(&flow.id, key));
        if let Some(old) = &old {
            old.groups().iter().for_each(|group| self.groups.remove(&group.id, key));
            old.meters().iter().for_each(|meter| self.meters.remove(&meter.id, key));
        }
        come.iter().for_each(|flow| self.flows.insert(&flow.id, key, &flow.flow));
        let memory = |flows: &[&Contribution]| flows.iter().map(|flow| flow.memory()).sum::<usize>();
        self.written = (self.written + memory(&come)).saturating_sub(memory(&gone));
        if let Some(compiled) = compiled {
            for group in compiled.groups() {
                self.groups.insert(&group.id, key, &Arc::new(group.clone()));
            }
            for meter in compiled.meters() {
                self.meters.insert(&meter.id, key, &Arc::new(meter.clone()));
            }
            self.parts.insert(key.clone(), compiled);
        }
        old
    }

    /// What an object writes.
    #[must_use]
    pub fn compiled(&self, key: &Key) -> Option<&Arc<CompiledObject>> {
        self.parts.get(key)
    }

    /// All flows as their writers have them, with these.
    pub(crate) fn contributions(&self) -> impl Iterator<Item = (&Key, &Contribution)> {
        self.parts.iter().flat_map(|(key, compiled)| compiled.flows().iter().map(move |flow| (key, flow)))
    }

    /// Who writes a flow, in order of names.
    #[must_use]
    pub fn owners(&self, id: &FlowId) -> Vec<&Key> {
        self.flows.owners(id)
    }

    /// The first of those who write a flow, in order of names, at most so many: without sorting all
    /// of them.
    #[must_use]
    pub fn first_owners(&self, id: &FlowId, max: usize) -> Vec<&Key> {
        self.flows.first_owners(id, max)
    }

    /// How many write a flow.
    #[must_use]
    pub fn owner_count(&self, id: &FlowId) -> usize {
        self.flows.owner_count(id)
    }

    /// A flow as it is in the bridge.
    #[must_use]
    pub fn flow(&self, id: &FlowId) -> Option<Arc<FlowSpec>> {
        self.flows.merged(id)
    }

    /// How many flows, groups and buckets there are.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, usize) {
        let buckets = self.groups.values().map(|group| group.buckets.len()).sum();
        (self.flows.len(), self.groups.len(), buckets)
    }

    /// How many clauses there are.
    #[must_use]
    pub fn clauses(&self) -> usize {
        let of = |flow: &FlowSpec| if is_clause(&flow.actions) { flow.actions.len() } else { 0 };
        self.parts.values().flat_map(|compiled| compiled.flows()).map(|flow| of(&flow.flow)).sum()
    }

    /// Bytes that it takes, about: what each object writes, and who writes each flow, group and
    /// meter. Looks at groups one by one, at nothing else.
    #[must_use]
    pub fn memory(&self) -> usize {
        let groups: usize = self.groups.values().map(|group| group_memory(group)).sum();
        let layers = self.flows.memory() + self.groups.memory() + self.meters.memory() + self.on_wire.memory();
        let parts = self.parts.capacity() * (size_of::<(Key, Arc<CompiledObject>)>() + size_of::<CompiledObject>());
        // Groups are in the compiled object and in the layer.
        self.written + parts + 2 * groups + layers
    }

    /// What has to be written so that the bridge has what objects write now, if it has what they
    /// wrote at the last [`Self::settle`]: meters, groups, flows; then flows, groups and meters
    /// that go.
    ///
    /// # Errors
    /// When objects want different things.
    pub fn plan(&self) -> Result<(Vec<Update>, Counts), Vec<Conflict>> {
        let mut conflicts = Vec::new();
        let mut counts = Counts::default();
        let (mut come, mut go) = (Vec::new(), Vec::new());
        for (id, before, after) in self.meters.changes(&mut conflicts) {
            counts.meters += 1;
            match (before, after) {
                (None, Some(meter)) => come.push(Update::AddMeter((*meter).clone())),
                (Some(_), Some(meter)) => come.push(Update::ModifyMeter((*meter).clone())),
                (_, None) => go.push(Update::DeleteMeters(Some(id))),
            }
        }
        let mut groups_go = Vec::new();
        for (id, before, after) in self.groups.changes(&mut conflicts) {
            counts.groups += 1;
            match after {
                Some(group) => come.extend(groups::updates(before.as_deref(), &group)),
                None => groups_go.push(Update::DeleteGroups(Some(id))),
            }
        }
        let (mut flows_come, mut flows_go) = (Vec::new(), Vec::new());
        for (id, _, after) in self.flows.changes(&mut conflicts) {
            counts.flows += 1;
            match after {
                Some(flow) if flow.actions.len() > MAX_CLAUSES => conflicts.push(Conflict {
                    owners: self.flows.newcomers(&id),
                    what: format!("{id:?}"),
                    clauses: Some(flow.actions.len()),
                }),
                Some(flow) => flows_come.push(flow),
                None => flows_go.push(id.delete()),
            }
        }
        come.extend(in_order(flows_come));
        come.extend(flows_go.into_iter().chain(groups_go).chain(go));
        if conflicts.is_empty() { Ok((come, counts)) } else { Err(conflicts) }
    }

    /// What objects need on the wire, together.
    #[must_use]
    pub const fn on_wire(&self) -> &OnWire {
        &self.on_wire
    }

    /// The bridge behind the uplink has its flows.
    pub(crate) fn settle_wire(&mut self) {
        self.on_wire.settle();
    }

    /// What the bridge has is what objects write now.
    pub fn settle(&mut self) {
        self.flows.settle();
        self.groups.settle();
        self.meters.settle();
    }

    /// Everything there is, for a bridge that has nothing of it: meters, groups, flows.
    #[must_use]
    pub fn everything(&self) -> Vec<Update> {
        let meters = self.meters.values().map(|meter| Update::AddMeter(MeterSpec::clone(meter)));
        let groups = self.groups.values().map(|group| Update::AddGroup(GroupSpec::clone(group)));
        meters.chain(groups).chain(in_order(self.flows.all().collect())).collect()
    }

    /// Deletes everything there is.
    #[must_use]
    pub fn nothing(&self) -> Vec<Update> {
        let flows = self.flows.keys().cloned().map(FlowId::delete);
        let groups = self.groups.keys().map(|id| Update::DeleteGroups(Some(*id)));
        let meters = self.meters.keys().map(|id| Update::DeleteMeters(Some(*id)));
        flows.chain(groups).chain(meters).collect()
    }
}

/// Flows that an object wrote and does not write so any more, and those that it did not write so
/// before. What stays is not touched: an address that comes or goes must not cost what its group
/// costs. Both compiled objects have most of their flows in the same order, so they are read side
/// by side; looked up is only where they part.
fn differing<'a>(
    old: Option<&'a CompiledObject>,
    new: Option<&'a CompiledObject>,
) -> (Vec<&'a Contribution>, Vec<&'a Contribution>) {
    let is_in = |compiled: Option<&CompiledObject>, flow: &Contribution| {
        compiled.and_then(|compiled| compiled.flow(&flow.id)).is_some_and(|same| *same == flow.flow)
    };
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    let mut befores = old.map(CompiledObject::flows).unwrap_or_default().iter().peekable();
    let mut afters = new.map(CompiledObject::flows).unwrap_or_default().iter().peekable();
    loop {
        let (before, after) = (befores.peek().copied(), afters.peek().copied());
        if let (Some(before), Some(after)) = (before, after)
            && before.id == after.id
            && before.flow == after.flow
        {
            befores.next();
            afters.next();
            continue;
        }
        // One that both have waits until what only the other one has is passed.
        let went = before.filter(|before| !is_in(new, before));
        let came = after.filter(|after| !is_in(old, after));
        gone.extend(went);
        come.extend(came);
        if went.is_some() || came.is_none() {
            befores.next();
        }
        if came.is_some() || went.is_none() {
            afters.next();
        }
        if before.is_none() && after.is_none() {
            return (gone, come);
        }
    }
}

/// Bytes of a group, about.
fn group_memory(group: &GroupSpec) -> usize {
    let bucket = |bucket: &BucketSpec| size_of::<BucketSpec>() + size_of_val(&*bucket.actions);
    size_of::<GroupSpec>() + group.buckets.iter().map(bucket).sum::<usize>()
}

/// Flows as updates: by table, then from the highest priority down, then in an order that is always
/// the same. It decides between flows of one priority that overlap: the one that was added first
/// wins.
fn in_order(mut flows: Vec<Arc<FlowSpec>>) -> impl Iterator<Item = Update> {
    flows.sort_by_cached_key(|flow| {
        let mut hasher = DefaultHasher::new();
        flow.matching.hash(&mut hasher);
        (flow.table, Reverse(flow.priority), hasher.finish())
    });
    flows.into_iter().map(|flow| Update::AddFlow(FlowSpec::clone(&flow)))
}
