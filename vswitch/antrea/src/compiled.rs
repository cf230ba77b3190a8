//! What one object writes.

use crate::contribution::{Category, Contribution, FlowId, Outside, merged};
use crate::problem::{Code, Problems};
use crate::{Facts, Ids, Key, Table};
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::sync::Arc;
use vswitch_flow::spec::{FlowSpec, GroupSpec, MeterSpec, Update};
use vswitch_flow::text::{FlowCommand, NoNames, parse_flow, parse_group, parse_meter};
use vswitch_flow::{Action, Field};

/// What one object writes: flows, groups, meters; and what of it has no effect at present.
#[derive(Clone, Debug)]
pub struct CompiledObject {
    own_cookie: u64,
    shared_cookie: u64,
    /// Seconds after which its flows go by themselves; 0: they stay.
    hard_timeout: u32,
    flows: Vec<Contribution>,
    /// Places in `flows`, by the id there.
    index: HashTable<usize>,
    hasher: DefaultHashBuilder,
    groups: Vec<GroupSpec>,
    meters: Vec<MeterSpec>,
    /// What it needs on the wire.
    pub(crate) outside: Outside,
    /// Places that a Service's flows are for.
    pub(crate) places: crate::object::service::Places,
    /// What has no effect at present, until when.
    pub degraded: Problems,
    /// Lines that the pipeline's language does not have, or that contradict each other: mistakes of
    /// ours.
    faults: Problems,
}

impl CompiledObject {
    /// Of an object that writes nothing yet.
    #[must_use]
    pub fn new(key: &Key, ids: &Ids) -> Self {
        let category = Category::of(key.kind);
        let own = ids.cookie(key).map_or_else(|| category.shared(), |serial| category.own(serial));
        Self {
            own_cookie: own,
            shared_cookie: category.shared(),
            hard_timeout: 0,
            flows: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            groups: Vec::new(),
            meters: Vec::new(),
            outside: Outside::default(),
            places: crate::object::service::Places::new(),
            degraded: Problems::default(),
            faults: Problems::default(),
        }
    }

    /// A flow of the object's own, as a line of `ovs-ofctl add-flow`: `table=Output,
    /// priority=200,... actions=...`. If its table does not exist, nothing is written; where it
    /// leads to a table that does not exist, it leads to the next one that does.
    pub fn own(&mut self, facts: &Facts<'_>, purpose: &'static str, line: &str) {
        self.write(facts, purpose, line, self.own_cookie);
    }

    /// A flow that other objects may write, too: the same one, or other clauses of it.
    pub fn shared(&mut self, facts: &Facts<'_>, purpose: &'static str, line: &str) {
        self.write(facts, purpose, line, self.shared_cookie);
    }

    fn write(&mut self, facts: &Facts<'_>, purpose: &'static str, line: &str, cookie: u64) {
        let table = line.strip_prefix("table=").and_then(|rest| rest.split([',', ' ']).next()).and_then(Table::by_name);
        let Some(table) = table else {
            return self.fault(line, "it does not begin with table=NAME");
        };
        if !table.exists(facts.features()) {
            return;
        }
        match parse_flow(line, FlowCommand::Add, facts).map(|parsed| parsed.value) {
            Ok(Update::AddFlow(flow)) => {
                self.add(FlowSpec { cookie, hard_timeout: self.hard_timeout, ..flow }, purpose);
            }
            Ok(other) => self.fault(line, &format!("it is {other:?}")),
            Err(error) => self.fault(line, &error.to_string()),
        }
    }

    /// Flows that are written as lines from now on go after so many seconds.
    pub(crate) const fn set_hard_timeout(&mut self, seconds: u32) {
        self.hard_timeout = seconds;
    }

    /// Actions of flows of a table, from text; None: the pipeline's language does not have them.
    pub(crate) fn actions(facts: &Facts<'_>, table: Table, text: &str) -> Option<Arc<[Action]>> {
        let line = format!("table={}, priority=1 actions={text}", table.name());
        match parse_flow(&line, FlowCommand::Add, facts).ok()?.value {
            Update::AddFlow(flow) => Some(flow.actions),
            _ => None,
        }
    }

    /// A flow that is a value already.
    pub fn add(&mut self, flow: FlowSpec, purpose: &'static str) {
        let id = FlowId::of(&flow);
        let flow = Arc::new(flow);
        let Err(at) = self.add_new(id, purpose, |_| Arc::clone(&flow)) else { return };
        let Some(there) = self.flows.get_mut(at) else { return };
        match merged(&[&there.flow, &flow]) {
            Some(merged) => there.flow = merged,
            None => {
                let line = format!("{:?}", there.id);
                self.fault(&line, "two flows with one match");
            }
        }
    }

    /// The cookie of the object's own flows.
    #[must_use]
    pub const fn own_cookie(&self) -> u64 {
        self.own_cookie
    }

    /// A flow that no flow of the compiled object has the match of; if one has, where that is.
    pub(crate) fn add_new(
        &mut self,
        id: FlowId,
        purpose: &'static str,
        flow: impl FnOnce(&FlowId) -> Arc<FlowSpec>,
    ) -> Result<(), usize> {
        let Self { flows, index, hasher, .. } = self;
        let is = |at: &usize| flows.get(*at).is_some_and(|there| there.id == id);
        let again = |at: &usize| flows.get(*at).map_or(0, |there| hasher.hash_one(&there.id));
        match index.entry(hasher.hash_one(&id), is, again) {
            Entry::Occupied(there) => Err(*there.get()),
            Entry::Vacant(free) => {
                free.insert(flows.len());
                flows.push(Contribution { flow: flow(&id), id, purpose });
                Ok(())
            }
        }
    }

    /// Other actions for a flow of the compiled object.
    pub(crate) fn set_actions(&mut self, at: usize, actions: Arc<[Action]>) {
        if let Some(there) = self.flows.get_mut(at) {
            Arc::make_mut(&mut there.flow).actions = actions;
        }
    }

    /// NodeState for so many flows more.
    pub(crate) fn reserve(&mut self, flows: usize) {
        let Self { flows: there, index, hasher, .. } = self;
        there.reserve(flows);
        index.reserve(flows, |at| there.get(*at).map_or(0, |there| hasher.hash_one(&there.id)));
    }

    /// The cookie of flows that others may write, too: for [`Self::add`].
    #[must_use]
    pub const fn shared_cookie(&self) -> u64 {
        self.shared_cookie
    }

    /// A group, as a line of `ovs-ofctl add-group`.
    pub fn group(&mut self, facts: &Facts<'_>, line: &str) {
        match parse_group(line, facts) {
            Ok(parsed) => self.groups.push(parsed.value.spec),
            Err(error) => self.fault(line, &error.to_string()),
        }
    }

    /// A meter, as a line of `ovs-ofctl add-meter`.
    pub fn meter(&mut self, line: &str) {
        match parse_meter(line) {
            Ok(parsed) => self.meters.push(parsed.value),
            Err(error) => self.fault(line, &error.to_string()),
        }
    }

    /// A flow of the bridge behind the uplink, as a line of `ovs-ofctl add-flow`. Others may write
    /// the same one.
    pub(crate) fn on_wire(&mut self, purpose: &'static str, line: &str) {
        match parse_flow(line, FlowCommand::Add, &NoNames).map(|parsed| parsed.value) {
            Ok(Update::AddFlow(flow)) => {
                let flow = FlowSpec { cookie: Category::Underlay.shared(), ..flow };
                let there = Contribution { id: FlowId::of(&flow), flow: Arc::new(flow), purpose };
                self.outside.flows.push(there);
            }
            Ok(other) => self.fault(line, &format!("it is {other:?}")),
            Err(error) => self.fault(line, &error.to_string()),
        }
    }

    fn fault(&mut self, line: &str, reason: &str) {
        self.faults.push(Code::Pipeline, "", format!("{line}: {reason}"));
    }

    /// A flow of it.
    #[must_use]
    pub fn flow(&self, id: &FlowId) -> Option<&Arc<FlowSpec>> {
        let is = |at: &usize| self.flows.get(*at).is_some_and(|there| there.id == *id);
        let at = self.index.find(self.hasher.hash_one(id), is)?;
        self.flows.get(*at).map(|there| &there.flow)
    }

    /// Flows.
    #[must_use]
    pub fn flows(&self) -> &[Contribution] {
        &self.flows
    }

    /// Groups.
    #[must_use]
    pub fn groups(&self) -> &[GroupSpec] {
        &self.groups
    }

    /// Meters.
    #[must_use]
    pub fn meters(&self) -> &[MeterSpec] {
        &self.meters
    }

    /// What it needs on the wire.
    #[must_use]
    pub fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Mistakes of ours.
    #[must_use]
    pub fn faults(&self) -> &Problems {
        &self.faults
    }
}

/// Numbers of the rules that a flow of policies is there for: of its clauses; of its action, or its
/// counters. (Elsewhere the fields that name them mean other things.)
#[must_use]
pub fn rules_of(flow: &FlowSpec) -> Vec<u32> {
    let named = |(field, shift): (Field, u32)| {
        let (value, mask) = flow.matching.get(field);
        if mask == 0xffff_ffff << shift { u32::try_from(value >> shift).ok() } else { None }
    };
    let fields = [(Field::ConjId, 0), (Field::CtLabel, 0), (Field::CtLabel, 32), (Field::Reg3, 0), (Field::Reg5, 0)];
    let own = fields.into_iter().filter_map(named);
    let clauses = flow.actions.iter().filter_map(|action| match action {
        Action::Conjunction { id, .. } => Some(*id),
        _ => None,
    });
    own.chain(clauses).collect()
}

/// Whether a flow of policies is there for a rule.
#[must_use]
pub fn is_of_rule(flow: &FlowSpec, number: u32) -> bool {
    rules_of(flow).contains(&number)
}
