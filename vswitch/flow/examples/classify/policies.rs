//! Network policies of a node as Antrea writes them: conjunctive rules of sources, Pod ports and
//! services, and packets for them. Shared by the measurement and the test.

use std::sync::Arc;
use vswitch_flow::classifier::{Clause, Entry};
use vswitch_flow::{Field, FlowKey, FlowMask, SparseMatch};

/// Conjunctive rules of the set.
pub(crate) const RULES: u32 = 5_000;
/// Addresses, Pod ports and further services that rules choose from.
const SOURCES: u32 = 1_000;
const PORTS: u32 = 100;
const SERVICES: u32 = 50;

/// Numbers that look random and are always the same.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// Below a limit.
    #[allow(clippy::cast_possible_truncation)] // below a u32
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

/// A match on whole fields or prefixes of them.
pub(crate) fn matching(fields: &[(Field, u128, u128)]) -> SparseMatch {
    let (mut key, mut mask) = (FlowKey::default(), FlowMask::default());
    for (field, value, bits) in fields {
        key.set(*field, *value);
        mask.add_bits(*field, *bits);
    }
    SparseMatch::new(&key, &mask)
}

fn ip_src(source: u32) -> SparseMatch {
    matching(&[(Field::EthType, 0x800, u128::MAX), (Field::NwSrc, address(source), u128::MAX)])
}

fn pod_port(port: u32) -> SparseMatch {
    matching(&[(Field::Reg1, u128::from(port) + 1, u128::MAX)])
}

fn tcp_dst(port: u16) -> SparseMatch {
    let fields = [(Field::EthType, 0x800), (Field::NwProto, 6), (Field::TpDst, port.into())];
    matching(&fields.map(|(field, value)| (field, value, u128::MAX)))
}

/// The address of a source.
pub(crate) fn address(source: u32) -> u128 {
    // Pods of 250 to a node, a /24 each.
    0x0a0a_0001 + u128::from(source / 250) * 256 + u128::from(source % 250)
}

/// A rule. Its id is its number and 1.
pub(crate) struct Rule {
    /// Of its clauses and its `conj_id` flow.
    pub(crate) priority: u16,
    /// For [`address`].
    pub(crate) sources: Vec<u32>,
    /// `reg1` of Pods, less 1.
    pub(crate) ports: Vec<u32>,
    /// TCP ports.
    pub(crate) services: [u16; 2],
}

/// How priorities are given.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Antrea-native: every rule has its own, clauses and `conj_id` flow alike.
    Own,
    /// Kubernetes: all clauses at 200, all `conj_id` flows at 190; rules share flows.
    Shared,
}

/// The rules. All of them name port 80.
#[allow(clippy::cast_possible_truncation)] // small numbers
pub(crate) fn rules(kind: Kind) -> Vec<Rule> {
    let mut numbers = Numbers(1);
    // Priorities come in no order: 7 has no factor in common with 5,000.
    let priority = |i: u32| if kind == Kind::Own { 100 + (i * 7 % RULES * 12) as u16 } else { 200 };
    let mut choose = |limit| {
        let mut chosen: Vec<u32> = Vec::new();
        while chosen.len() < 10 {
            let number = numbers.below(limit);
            if !chosen.contains(&number) {
                chosen.push(number);
            }
        }
        chosen
    };
    let rule = |i| {
        let (sources, ports) = (choose(SOURCES), choose(PORTS));
        let service = 8_000 + (sources[0] % SERVICES) as u16;
        Rule { priority: priority(i), sources, ports, services: [80, service] }
    };
    (0..RULES).map(rule).collect()
}

/// The flows of the rules: 10 + 10 + 2 clauses and a `conj_id` flow each, where clauses of equal
/// match and priority are one flow. The data of a `conj_id` flow is its id, else 0.
pub(crate) fn entries(rules: &[Rule]) -> Vec<Entry<u32>> {
    let mut flows: Vec<(SparseMatch, u16, Clause)> = Vec::new();
    for (id, rule) in (1..).zip(rules) {
        let sources = rule.sources.iter().map(|s| (0, ip_src(*s)));
        let ports = rule.ports.iter().map(|p| (1, pod_port(*p)));
        let services = rule.services.iter().map(|s| (2, tcp_dst(*s)));
        let all = sources.chain(ports).chain(services);
        flows.extend(all.map(|(clause, m)| (m, rule.priority, Clause { id, clause, clauses: 3 })));
    }
    let mut shared: std::collections::HashMap<(SparseMatch, u16), Vec<Clause>> = std::collections::HashMap::new();
    let mut order = Vec::new();
    for (m, priority, clause) in flows {
        let clauses = shared.entry((m.clone(), priority)).or_default();
        if clauses.is_empty() {
            order.push((m, priority));
        }
        clauses.push(clause);
    }
    let clauses = order.into_iter().map(|(m, priority)| {
        let clauses = shared[&(m.clone(), priority)].as_slice().into();
        Entry { priority, matching: Arc::new(m), clauses, data: 0 }
    });
    let actions = (1..).zip(rules).map(|(id, rule)| {
        let fields = [(Field::ConjId, u128::from(id), u128::MAX), (Field::EthType, 0x800, u128::MAX)];
        let priority = if rule.priority == 200 { 190 } else { rule.priority };
        Entry { priority, matching: Arc::new(matching(&fields)), clauses: Arc::default(), data: id }
    });
    clauses.chain(actions).collect()
}

/// A packet from a source to a Pod's port.
pub(crate) fn packet(source: u128, port: u32, service: u16) -> FlowKey {
    let mut key = FlowKey::default();
    let fields = [(Field::EthType, 0x800), (Field::NwProto, 6), (Field::NwSrc, source), (Field::NwDst, 0x0a0a_0909)];
    let more = [(Field::Reg1, u128::from(port) + 1), (Field::TpDst, service.into()), (Field::TpSrc, 40_000)];
    for (field, value) in fields.into_iter().chain(more) {
        key.set(field, value);
    }
    key
}

/// What packets have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mix {
    /// Allowed by a rule, to port 80, which all rules name.
    Allowed,
    /// From a source, to a port and a service that rules name, any of them.
    Any,
    /// From a source that no rule names.
    Stranger,
    /// To a service that no rule names.
    OtherService,
}

/// A packet.
pub(crate) fn packet_of(mix: Mix, rules: &[Rule], numbers: &mut Numbers) -> FlowKey {
    let rule = &rules[numbers.below(RULES) as usize];
    let (source, port) = (rule.sources[numbers.below(10) as usize], rule.ports[numbers.below(10) as usize]);
    match mix {
        Mix::Allowed => packet(address(source), port, 80),
        Mix::Any => packet(address(numbers.below(SOURCES)), numbers.below(PORTS), rule.services[1]),
        Mix::Stranger => packet(0xac10_0000 + u128::from(numbers.below(65_536)), port, 80),
        Mix::OtherService => packet(address(source), port, 9_999),
    }
}
