//! What is there: state, objects with their counters, and whose a flow is.

use super::counted::{Counted, Wanted};
use super::lifecycle::degraded;
use super::{Antrea, AntreaError, State};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use vswitch_antrea::{Category, Desired, FlowId, Ids, Key, Node, NodeState, ObjectKind, Ports, Table};
use vswitch_control::switch::pipeline::NameMap;
use vswitch_dataplane::pipeline::state::FlowInfo;
use vswitch_flow::spec::{FlowFilter, FlowSpec, GroupSpec, Update};
use vswitch_flow::text::{FlowCommand, parse_flow};
use vswitch_proto::antrea::v1;

/// Most other objects of a flow that are named.
const SHARED_WITH_MAX: usize = 16;

/// What tables of the gateway bridge are for.
const TABLES: [&str; 8] = [
    "where packets come from",
    "from the wire",
    "to the Pods' bridge",
    "to the host",
    "to the host, as the Pods' side",
    "answers of the host",
    "to endpoints on the host",
    "answers of endpoints on the host",
];
/// A flow that an object writes.
#[derive(Debug)]
pub struct OwnedFlow {
    /// As it is in the table.
    pub info: FlowInfo,
    /// Name of its table.
    pub table: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Others who write it.
    pub shared_with: Vec<Key>,
}

/// What a listing may look at.
pub struct Shown<'a> {
    /// The node state.
    pub node_state: &'a NodeState,
    /// The Node.
    pub node: &'a Node,
    /// Counters.
    pub counted: Counted,
    /// Names of the bridge's ports that have a peer.
    pub link_up: BTreeSet<String>,
    /// Names and numbers of the bridge's ports.
    pub ports: Ports,
    /// Who has joined what.
    pub igmp: &'a super::multicast::Igmp,
}

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl Shown<'_> {
    /// Objects.
    pub fn desired(&self) -> &Desired {
        self.node_state.desired()
    }

    /// Numbers.
    pub fn ids(&self) -> &Ids {
        self.node_state.ids()
    }

    /// Cookie of an object's own flows; 0: it has none.
    pub fn cookie(&self, key: &Key) -> u64 {
        self.node_state.store().compiled(key).map_or(0, |compiled| compiled.own_cookie())
    }
}

/// Rules of policies: for packets to Pods, and from Pods.
fn rule_counts(desired: &Desired) -> [u64; 2] {
    let policies = desired.of(ObjectKind::NetworkPolicy).filter_map(|(_, entry)| match &entry.message {
        v1::object::Object::NetworkPolicy(policy) => Some(policy),
        _ => None,
    });
    let mut counts = [0; 2];
    for rule in policies.flat_map(|policy| &policy.rules) {
        match rule.direction() {
            v1::Direction::Ingress => counts[0] += 1,
            v1::Direction::Egress => counts[1] += 1,
            v1::Direction::Unspecified => {}
        }
    }
    counts
}

impl Antrea {
    pub(super) fn table_states(&self, state: &State) -> Result<Vec<v1::TableState>, AntreaError> {
        let (_, node) = state.node_state.node().ok_or(AntreaError::NotInitialised)?;
        let tables = self.switch.tables(&node.bridge)?;
        let flows: HashMap<u8, u64> = tables.into_iter().map(|table| (table.id, table.flows)).collect();
        let exists = Table::ALL.iter().filter(|table| table.exists(&node.features));
        let state = |table: &Table| v1::TableState {
            name: table.name().to_owned(),
            number: table.number().into(),
            stage: table.stage().to_owned(),
            flows: flows.get(&table.number()).copied().unwrap_or(0),
        };
        Ok(exists.map(state).collect())
    }

    /// The Node and its tables.
    ///
    /// # Errors
    /// When there is none.
    pub fn node(&self) -> Result<v1::GetNodeResponse, AntreaError> {
        self.shown(|shown| shown.node.clone().ok_or(AntreaError::NotInitialised), |state| self.node_of(state))
    }

    pub(super) fn node_of(&self, state: &State) -> Result<v1::GetNodeResponse, AntreaError> {
        let (config, _) = state.node_state.node().ok_or(AntreaError::NotInitialised)?;
        let (node, tables) = (Some(config.clone()), self.table_states(state)?);
        Ok(v1::GetNodeResponse { node, tables, next_hops: Self::next_hops(state) })
    }

    /// Gate, round, objects. While a sync goes on: as they were before it.
    pub fn state(&self) -> v1::GetStateResponse {
        let state = self.shown(|shown| shown.state.clone(), |state| self.state_of(state));
        let problem = self.disk.as_ref().and_then(|disk| disk.problem.lock().clone());
        v1::GetStateResponse { unwritten: problem.unwrap_or_default(), host: self.host.lock().clone(), ..state }
    }

    /// All but what is not on the disk, and how the host is.
    pub(super) fn state_of(&self, state: &State) -> v1::GetStateResponse {
        let (desired, store) = (state.node_state.desired(), state.node_state.store());
        let mut kinds: BTreeMap<ObjectKind, v1::KindState> = BTreeMap::new();
        for (key, _) in desired.all() {
            let kind = kinds
                .entry(key.kind)
                .or_insert_with(|| v1::KindState { kind: key.kind.to_proto().into(), ..v1::KindState::default() });
            kind.objects += 1;
            kind.degraded += u64::from(state.node_state.degraded().contains_key(key));
            let own = |flow: &&vswitch_antrea::Contribution| store.owner_count(&flow.id) <= 1;
            kind.flows += store.compiled(key).map_or(0, |compiled| compiled.flows().iter().filter(own).count() as u64);
        }
        let rules = rule_counts(desired);
        let (flows, groups, buckets) = store.sizes();
        let names = self.names.state();
        v1::GetStateResponse {
            initialized: state.node_state.node().is_some(),
            gate_open: state.gate_open,
            round: state.round,
            committed_unix_ms: state.committed_unix_ms,
            restored: state.restored,
            kinds: kinds.into_values().collect(),
            degraded: degraded(state),
            flows: flows as u64,
            groups: groups as u64,
            buckets: buckets as u64,
            clauses: store.clauses() as u64,
            memory: state.node_state.memory() as u64 + names.memory,
            gate_held_by: if state.gate_open {
                Vec::new()
            } else {
                super::gate::holders(&state.node_state, &state.synced)
            },
            names: Some(names),
            unwritten: String::new(),
            host: None,
            ingress_rules: rules[0],
            egress_rules: rules[1],
            bridge: state.node_state.node().map_or_else(String::new, |(_, node)| node.bridge.clone()),
        }
    }

    /// Shows objects, with counters, to somebody who makes something of them.
    ///
    /// # Errors
    /// When there is no Node.
    pub fn show<R>(&self, wanted: Wanted, show: impl FnOnce(&Shown<'_>) -> R) -> Result<R, AntreaError> {
        let state = self.state.lock();
        let (_, node) = state.node_state.node().ok_or(AntreaError::NotInitialised)?;
        let names = self.switch.names(&node.bridge)?;
        let up = self.switch.ports(&node.bridge)?.into_iter().filter(|port| port.link_up).map(|port| port.config.name);
        let counted = Counted::read(&*self.switch, &node.bridge, wanted, &state.moved)?;
        let ports = names.ports.into_iter().collect();
        Ok(show(&Shown {
            node_state: &state.node_state,
            node,
            counted,
            link_up: up.collect(),
            ports,
            igmp: &state.igmp,
        }))
    }

    /// Flows of an object (with `rule`: only those whose purpose or conjunction is of that rule),
    /// and names to tell them with.
    ///
    /// # Errors
    /// When there is no Node, or no such object.
    pub fn flows_of(&self, key: &Key, rule: &str) -> Result<(Vec<OwnedFlow>, NameMap), AntreaError> {
        let state = self.state.lock();
        let (_, node) = state.node_state.node().ok_or(AntreaError::NotInitialised)?;
        let compiled = state.node_state.store().compiled(key);
        if compiled.is_none() && state.node_state.desired().get(key).is_none() {
            let hint = "`vsctl antrea status` says what there is".to_owned();
            return Err(vswitch_control::SwitchError::NotFound { what: "object", name: key.to_string(), hint }.into());
        }
        let number = if rule.is_empty() { None } else { state.node_state.ids().rule_by_name(&key.name, rule) };
        let all = self.switch.flows(&node.bridge, &FlowFilter::default())?;
        let mut there: HashMap<FlowId, FlowInfo> = all.into_iter().map(|info| (FlowId::of(&info.flow), info)).collect();
        let mut flows = Vec::new();
        for flow in compiled.into_iter().flat_map(|compiled| compiled.flows()) {
            if !rule.is_empty() && !number.is_some_and(|number| vswitch_antrea::is_of_rule(&flow.flow, number)) {
                continue;
            }
            let Some(info) = there.remove(&flow.id) else { continue };
            let table = Table::by_number(info.flow.table).map_or("", Table::name);
            // The object is one of them itself.
            let owners = state.node_state.store().first_owners(&flow.id, SHARED_WITH_MAX + 1);
            let others = owners.into_iter().filter(|other| *other != key).take(SHARED_WITH_MAX).cloned();
            flows.push(OwnedFlow { info, table, purpose: flow.purpose, shared_with: others.collect() });
        }
        Ok((flows, self.switch.names(&node.bridge)?))
    }

    /// Flows of the gateway bridge, what each is for, and who writes it; and names to tell them
    /// with.
    ///
    /// # Errors
    /// When there is no Node, or it has no gateway bridge.
    pub fn gateway_flows(&self) -> Result<(Vec<OwnedFlow>, NameMap), AntreaError> {
        let state = self.state.lock();
        let (config, _) = state.node_state.node().ok_or(AntreaError::NotInitialised)?;
        let Some(uplink) = config.uplink.as_ref().filter(|uplink| uplink.gateway.is_some()) else {
            let reason = "the Node has no gateway bridge: NodeConfig.uplink.gateway makes one (docs/gateway.md)";
            return Err(AntreaError::Precondition(reason.to_owned()));
        };
        let bridge = &uplink.underlay_bridge;
        let mut wanted: HashMap<&FlowId, (&'static str, Vec<Key>)> = HashMap::new();
        let (node, store) = (Key::node(), state.node_state.store());
        for key in state.node_state.desired().all().map(|(key, _)| key).chain([&node]) {
            for flow in store.compiled(key).into_iter().flat_map(|compiled| &compiled.outside().flows) {
                let (_, owners) = wanted.entry(&flow.id).or_insert_with(|| (flow.purpose, Vec::new()));
                if owners.len() < SHARED_WITH_MAX && owners.last() != Some(key) {
                    owners.push(key.clone());
                }
            }
        }
        let mut flows: Vec<OwnedFlow> = Vec::new();
        for info in self.switch.flows(bridge, &FlowFilter::default())? {
            let found = wanted.remove(&FlowId::of(&info.flow));
            let (purpose, shared_with) =
                found.unwrap_or(("of the fail mode: host and wire learn of each other", Vec::new()));
            let table = TABLES.get(usize::from(info.flow.table)).copied().unwrap_or_default();
            flows.push(OwnedFlow { info, table, purpose, shared_with });
        }
        flows.sort_by_key(|flow| (flow.info.flow.table, std::cmp::Reverse(flow.info.flow.priority)));
        Ok((flows, self.switch.names(bridge)?))
    }

    /// The objects that a flow is of.
    ///
    /// # Errors
    /// When there is no Node, or the line is none.
    pub fn find(&self, flow: &v1::find_objects_request::Flow) -> Result<v1::FindObjectsResponse, AntreaError> {
        use v1::find_objects_request::Flow;
        let state = self.state.lock();
        let (_, node) = state.node_state.node().ok_or(AntreaError::NotInitialised)?;
        let mut found = v1::FindObjectsResponse::default();
        let rule_ref = |number: u32| {
            let key = state.node_state.ids().rule_of(number)?;
            Some(v1::RuleRef { policy: key.policy.to_string(), rule: key.rule.to_string(), number })
        };
        match flow {
            Flow::Line(line) => {
                let names = self.switch.names(&node.bridge)?;
                let parsed = parse_flow(line, FlowCommand::Add, &names)
                    .map_err(|error| AntreaError::Request { field: "line", reason: error.to_string() })?;
                let Update::AddFlow(flow) = parsed.value else { return Ok(found) };
                let id = FlowId::of(&flow);
                let owners = state.node_state.store().owners(&id);
                found.objects = owners.iter().map(|key| key.to_proto()).collect();
                let merged = state.node_state.store().flow(&id).unwrap_or_else(|| Arc::new(flow));
                let is_its = |rule: &v1::RuleRef| {
                    owners.binary_search(&&Key::new(ObjectKind::NetworkPolicy, &rule.policy)).is_ok()
                };
                let rules = vswitch_antrea::rules_of(&merged).into_iter().filter_map(rule_ref);
                found.rules = rules.filter(is_its).collect();
            }
            Flow::Cookie(cookie) => {
                let owner = Category::serial(*cookie).and_then(|serial| state.node_state.ids().object_of(serial));
                found.objects = owner.map(Key::to_proto).into_iter().collect();
            }
            Flow::RuleNumber(number) => {
                found.rules = rule_ref(*number).into_iter().collect();
                let owner = |rule: &v1::RuleRef| Key::new(ObjectKind::NetworkPolicy, &rule.policy).to_proto();
                found.objects = found.rules.iter().map(owner).collect();
            }
        }
        Ok(found)
    }

    /// Makes right what is not in the tables as it should be; returns how much that was. Learned
    /// flows are nobody's to judge.
    pub(super) fn repair(&self, state: &State) -> Result<u64, AntreaError> {
        if !state.gate_open {
            return Ok(0);
        }
        let bridge = state.bridge()?;
        let there: HashMap<FlowId, FlowSpec> = self
            .switch
            .flows(&bridge, &FlowFilter::default())?
            .into_iter()
            .map(|info| (FlowId::of(&info.flow), info.flow))
            .collect();
        let mut updates = Vec::new();
        let groups: HashMap<u32, _> =
            self.switch.groups(&bridge, None)?.into_iter().map(|info| (info.group.id, info.group)).collect();
        let meters: HashMap<u32, _> =
            self.switch.meters(&bridge, None)?.into_iter().map(|info| (info.meter.id, info.meter)).collect();
        let mut ours: BTreeSet<u64> = BTreeSet::new();
        let mut wanted: HashSet<FlowId> = HashSet::new();
        for update in state.node_state.store().everything() {
            match update {
                Update::AddFlow(flow) => {
                    ours.insert(flow.cookie);
                    let id = FlowId::of(&flow);
                    let right = there.get(&id).is_some_and(|other| is_same(other, &flow));
                    wanted.insert(id);
                    if !right {
                        updates.push(Update::AddFlow(flow));
                    }
                }
                Update::AddGroup(group) => match groups.get(&group.id) {
                    Some(other) if in_order(other) == in_order(&group) => {}
                    Some(_) => updates.push(Update::ModifyGroup { spec: group, may_create: false }),
                    None => updates.push(Update::AddGroup(group)),
                },
                Update::AddMeter(meter) => match meters.get(&meter.id) {
                    Some(other) if *other == meter => {}
                    Some(_) => updates.push(Update::ModifyMeter(meter)),
                    None => updates.push(Update::AddMeter(meter)),
                },
                _ => {}
            }
        }
        for (id, flow) in there {
            if (ours.contains(&flow.cookie) || Category::serial(flow.cookie).is_some()) && !wanted.contains(&id) {
                updates.push(id.delete());
            }
        }
        if !updates.is_empty() {
            self.write_flows(&bridge, &updates)?;
            tracing::warn!(
                bridge,
                repaired = updates.len(),
                "flows, groups or meters of Antrea's were not as they should be"
            );
        }
        Ok(updates.len() as u64)
    }
}

/// A flow as it should be. What it has counted does not matter.
fn is_same(one: &FlowSpec, other: &FlowSpec) -> bool {
    let of = |flow: &FlowSpec| (flow.cookie, flow.idle_timeout, flow.hard_timeout);
    of(one) == of(other) && one.actions == other.actions
}

/// A group whatever the order of its buckets: new ones come last in the bridge.
fn in_order(group: &GroupSpec) -> GroupSpec {
    let mut group = group.clone();
    group.buckets.sort_unstable_by_key(|bucket| bucket.id);
    group
}
