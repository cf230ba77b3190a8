//! What objects write, flow by flow: which flow it is, whose cookie it has, and what several
//! objects make of one.

use crate::{ObjectKind, Table};
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_flow::action::port;
use vswitch_flow::spec::{FlowFilter, FlowSpec, Update};
use vswitch_flow::text::{NoNames, Style, format_match};
use vswitch_flow::{Action, SparseMatch};

/// Categories of cookies (Antrea: `pkg/agent/openflow/cookie`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Category {
    Default = 0,
    Pod = 1,
    NetworkPolicy = 2,
    Service = 3,
    Egress = 4,
    Multicast = 5,
    Traceflow = 7,
    /// Ours, in the uplink's bridge.
    Underlay = 0xfe,
}

/// The round in cookies: always 1, so that a sync rewrites no flow.
const ROUND: u64 = 1;
/// Set in cookies of objects, not set in those that `learn` writes.
const OBJECT_BIT: u64 = 1 << 39;

impl Category {
    pub(crate) const fn of(kind: ObjectKind) -> Self {
        match kind {
            ObjectKind::Node | ObjectKind::PeerNode => Self::Default,
            ObjectKind::Pod | ObjectKind::TrafficControl => Self::Pod,
            ObjectKind::Service | ObjectKind::Endpoints => Self::Service,
            ObjectKind::AddressGroup | ObjectKind::AppliedToGroup | ObjectKind::NetworkPolicy => Self::NetworkPolicy,
            ObjectKind::Egress => Self::Egress,
            ObjectKind::MulticastGroup => Self::Multicast,
            ObjectKind::Traceflow => Self::Traceflow,
        }
    }

    /// The cookie of flows that several objects may write.
    #[must_use]
    pub const fn shared(self) -> u64 {
        ROUND << 48 | (self as u64) << 40
    }

    /// The cookie of an object's own flows; `serial` is from [`Ids::cookie`].
    #[must_use]
    pub const fn own(self, serial: u32) -> u64 {
        self.shared() | OBJECT_BIT | serial as u64
    }

    /// The cookie of what a flow learns, by its group.
    #[must_use]
    pub const fn learned(self, group: u32) -> u64 {
        self.shared() | group as u64
    }

    /// The serial of the object in a cookie.
    #[must_use]
    pub const fn serial(cookie: u64) -> Option<u32> {
        #[allow(clippy::cast_possible_truncation)] // the lower 32 bits
        if cookie >> 48 == ROUND && cookie & OBJECT_BIT != 0 { Some(cookie as u32) } else { None }
    }
}

/// A flow's identity in the bridge.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FlowId {
    /// Number of its table.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// What it matches.
    pub matching: Arc<SparseMatch>,
}

/// As dumps show it: problems quote it.
impl std::fmt::Debug for FlowId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut matching = String::new();
        format_match(&self.matching, Style::default(), &NoNames, &mut matching);
        match Table::by_number(self.table) {
            Some(table) => write!(f, "table={}", table.name())?,
            None => write!(f, "table={}", self.table)?,
        }
        write!(f, ", priority={},{matching}", self.priority)
    }
}

impl FlowId {
    /// Of a flow.
    #[must_use]
    pub fn of(flow: &FlowSpec) -> Self {
        Self { table: flow.table, priority: flow.priority, matching: Arc::clone(&flow.matching) }
    }

    /// Deletes this flow and no other.
    #[must_use]
    pub fn delete(self) -> Update {
        let (table, strict) = (Some(self.table), Some(self.priority));
        Update::DeleteFlows(FlowFilter { table, matching: self.matching, strict, ..FlowFilter::default() })
    }
}

/// A flow and why it is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// Which flow.
    pub id: FlowId,
    /// The flow.
    pub flow: Arc<FlowSpec>,
    /// What it is for, in a few words.
    pub purpose: &'static str,
}

impl Contribution {
    /// Bytes that it takes, about: the flow, which few others write, and its place in the part.
    pub(crate) fn memory(&self) -> usize {
        let place = size_of::<Self>() + 2 * size_of::<usize>();
        place + size_of::<FlowSpec>() + self.flow.matching.memory() + size_of_val(&*self.flow.actions)
    }
}

/// What an object needs on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outside {
    /// Flows of the bridge behind the uplink.
    pub flows: Vec<Contribution>,
    /// Addresses that packets from other Nodes' tunnels are sent to.
    pub vteps: Vec<IpAddr>,
    /// Addresses that the link is to be told of.
    pub announced: Vec<IpAddr>,
}

/// The order of clauses in a flow that several write.
pub(crate) const fn clause_order(action: &Action) -> (u32, u8, u8) {
    match action {
        Action::Conjunction { id, clause, clauses } => (*id, *clause, *clauses),
        _ => (0, 0, 0),
    }
}

/// Whether a flow is a clause of conjunctions, and nothing else.
pub(crate) fn is_clause(actions: &[Action]) -> bool {
    !actions.is_empty() && actions.iter().all(|action| matches!(action, Action::Conjunction { .. }))
}

/// A flow that several write: the same, or all their clauses in order, or what goes to all of their
/// ports.
pub(crate) fn merged(flows: &[&Arc<FlowSpec>]) -> Option<Arc<FlowSpec>> {
    let first = flows.first()?;
    if let Some(flow) = only(flows) {
        return Some(flow);
    }
    if !flows.iter().all(|flow| flow.cookie == first.cookie) {
        return None;
    }
    let mut actions: Vec<Action> = flows.iter().flat_map(|flow| flow.actions.iter().cloned()).collect();
    if flows.iter().all(|flow| is_clause(&flow.actions)) {
        actions.sort_by_key(clause_order);
    } else if flows.iter().all(|flow| is_to_ports(&flow.actions)) {
        actions.sort_by_key(port_of);
    } else {
        return None;
    }
    actions.dedup();
    Some(Arc::new(FlowSpec { actions: actions.into(), ..FlowSpec::clone(first) }))
}

/// The port that an action sends packets to, and does nothing else.
fn port_of(action: &Action) -> Option<u32> {
    match action {
        Action::Output { port: number, max_len: None } if port::is_physical(*number) => Some(*number),
        _ => None,
    }
}

/// Whether a flow sends packets to ports, and does nothing else.
fn is_to_ports(actions: &[Action]) -> bool {
    !actions.is_empty() && actions.iter().all(|action| port_of(action).is_some())
}

/// One value that all agree on.
pub(crate) fn only<V: PartialEq>(values: &[&Arc<V>]) -> Option<Arc<V>> {
    let first = values.first()?;
    values.iter().all(|value| value == first).then(|| Arc::clone(first))
}
