//! What flows decide is what policies say: the tables' clauses, looked up by the reference
//! classifier, against a reading of the messages.

use super::random::{policy, world};
use super::*;
use proptest::prelude::*;
use std::net::IpAddr;
use vswitch_flow::classifier::reference::Reference;
use vswitch_flow::classifier::{Clause, Entry};
use vswitch_flow::spec::Update;
use vswitch_flow::{Action, Field, FlowKey};

const WEB: (&str, u32) = ("10.10.0.24", 0x25);
const DB: (&str, u32) = ("10.10.0.25", 0x26);
const SOURCES: [&str; 6] = ["10.10.0.26", "10.10.1.1", "10.10.0.24", "10.10.0.25", "10.20.0.1", "192.0.2.1"];

/// What becomes of a packet.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// The rule of an Antrea policy.
    Rule(u32),
    K8s,
    Isolated,
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    from: IpAddr,
    to: IpAddr,
    /// Port of the Pod that it goes to.
    reg1: u32,
    port: u16,
}

impl Packet {
    fn key(&self) -> FlowKey {
        let number = |address: IpAddr| match address {
            IpAddr::V4(v4) => u128::from(u32::from(v4)),
            IpAddr::V6(v6) => u128::from(v6),
        };
        let mut key = FlowKey::default();
        key.set(Field::EthType, 0x800);
        key.set(Field::NwProto, 6);
        key.set(Field::NwSrc, number(self.from));
        key.set(Field::NwDst, number(self.to));
        key.set(Field::TpDst, self.port.into());
        key.set(Field::TpSrc, 40000);
        key.set(Field::Reg1, self.reg1.into());
        key.set(Field::CtState, 0x21);
        key
    }
}

/// Tables of a node state, as the reference classifier has them.
fn tables(node_state: &NodeState) -> BTreeMap<u8, Reference<bool>> {
    let mut tables: BTreeMap<u8, Reference<bool>> = BTreeMap::new();
    for update in node_state.store().everything() {
        let Update::AddFlow(flow) = update else { continue };
        let clause = |action: &Action| match action {
            Action::Conjunction { id, clause, clauses } => Some(Clause { id: *id, clause: *clause, clauses: *clauses }),
            _ => None,
        };
        let clauses = flow.actions.iter().filter_map(clause).collect();
        let (priority, matching) = (flow.priority, flow.matching);
        tables.entry(flow.table).or_default().insert(Entry { priority, matching, clauses, data: priority == 0 });
    }
    tables
}

fn walk(node_state: &NodeState, tables: &BTreeMap<u8, Reference<bool>>, is_egress: bool, packet: &Packet) -> Fate {
    let path = if is_egress {
        [Table::AntreaPolicyEgressRule, Table::EgressRule, Table::EgressDefaultRule]
    } else {
        [Table::AntreaPolicyIngressRule, Table::IngressRule, Table::IngressDefaultRule]
    };
    let key = packet.key();
    for (table, at) in path.into_iter().zip(0..) {
        let Some(found) = tables.get(&table.number()).and_then(|table| table.lookup(&key, None)) else { continue };
        match (at, found.conj_id) {
            _ if found.entry.data => {}
            (0, 0) => panic!("{table:?} decides without a rule: {:?}", found.entry),
            (0, number) if passes(node_state, number) => {}
            (0, number) => return Fate::Rule(number),
            (1, _) => return Fate::K8s,
            _ => return Fate::Isolated,
        }
    }
    Fate::Nothing
}

fn policies(node_state: &NodeState) -> Vec<v1::NetworkPolicy> {
    let of = |(_, entry): (_, &std::sync::Arc<crate::desired::Entry>)| match &entry.message {
        Object::NetworkPolicy(policy) => Some(policy.clone()),
        _ => None,
    };
    node_state.desired().of(crate::ObjectKind::NetworkPolicy).filter_map(of).collect()
}

fn passes(node_state: &NodeState, wanted: u32) -> bool {
    let mut rules = policies(node_state).into_iter().flat_map(|policy| policy.rules.into_iter().map(move |rule| (policy.name.clone(), rule)));
    rules.any(|(name, rule)| number(node_state, &name, &rule.id) == wanted && rule.action() == v1::RuleAction::Pass)
}

fn addresses(node_state: &NodeState, group: &str) -> Vec<IpAddr> {
    let all = node_state.desired().get(&crate::Key::new(crate::ObjectKind::AddressGroup, group)).map(|entry| entry.message.clone());
    let Some(Object::AddressGroup(group)) = all else { return Vec::new() };
    let of = |member: v1::GroupMember| match member.member {
        Some(v1::group_member::Member::Address(text)) => text.parse().ok(),
        Some(v1::group_member::Member::Pod(name)) => {
            pod(name.trim_start_matches("default/")).addresses[0].parse().ok()
        }
        None => None,
    };
    group.members.into_iter().filter_map(of).collect()
}

/// Whether a packet is from, or to, a Pod of these groups.
fn is_applied(node_state: &NodeState, groups: &[String], is_egress: bool, packet: &Packet) -> bool {
    groups.iter().any(|name| {
        let group = node_state.desired().applied_to_group(name);
        group.is_some_and(|group| {
            group.pods.iter().any(|pod| {
                let (address, port) = if pod.ends_with("web") { WEB } else if pod.ends_with("db") { DB } else { ("10.10.0.26", 0x24) };
                if is_egress { packet.from.to_string() == address } else { packet.reg1 == port }
            })
        })
    })
}

fn meets(node_state: &NodeState, policy: &v1::NetworkPolicy, rule: &v1::Rule, is_egress: bool, packet: &Packet) -> bool {
    let other = if is_egress { packet.to } else { packet.from };
    let peer = rule.peer.as_ref().is_none_or(|peer| {
        let within = |cidr: &str| cidr.parse::<crate::Cidr>().is_ok_and(|cidr| cidr.contains(&other));
        peer.address_groups.iter().any(|group| addresses(node_state, group).contains(&other))
            || peer.blocks.iter().any(|block| within(&block.cidr) && !block.except_cidrs.iter().any(|cidr| within(cidr)))
    });
    let port = u32::from(packet.port);
    let ports = rule.ports.iter().any(|ports| (ports.port..=ports.port.max(ports.end_port)).contains(&port));
    let applied = if rule.applied_to.is_empty() { &policy.applied_to } else { &rule.applied_to };
    (rule.direction() == v1::Direction::Egress) == is_egress
        && peer
        && (rule.ports.is_empty() || ports)
        && is_applied(node_state, applied, is_egress, packet)
}

fn read(node_state: &NodeState, is_egress: bool, packet: &Packet) -> Fate {
    let (antrea, k8s): (Vec<_>, Vec<_>) =
        policies(node_state).into_iter().partition(|policy| policy.kind() != v1::PolicyKind::K8s);
    let mut antrea = antrea;
    antrea.sort_by(|a, b| a.priority.total_cmp(&b.priority));
    let mut rules = antrea.iter().flat_map(|policy| policy.rules.iter().map(move |rule| (policy, rule)));
    let first = rules.find(|(policy, rule)| meets(node_state, policy, rule, is_egress, packet));
    if let Some((policy, rule)) = first.filter(|(_, rule)| rule.action() != v1::RuleAction::Pass) {
        return Fate::Rule(number(node_state, &policy.name, &rule.id));
    }
    if k8s.iter().any(|policy| policy.rules.iter().any(|rule| meets(node_state, policy, rule, is_egress, packet))) {
        return Fate::K8s;
    }
    let isolates = |policy: &&v1::NetworkPolicy| if is_egress { policy.isolates_egress } else { policy.isolates_ingress };
    let isolated = k8s.iter().filter(isolates).any(|policy| is_applied(node_state, &policy.applied_to, is_egress, packet));
    if isolated { Fate::Isolated } else { Fate::Nothing }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn flows_decide_what_policies_say(forms in prop::collection::vec(any::<u32>(), 5)) {
        let mut objects = world();
        objects.extend(forms.iter().enumerate().map(|(at, form)| policy(at, *form)));
        let node_state = node_state(&dual_node(), objects);
        let tables = tables(&node_state);
        for from in SOURCES {
            for to in SOURCES {
                for port in [80, 81, 82, 90, 91] {
                    let ip = |text: &str| text.parse::<IpAddr>().map_err(|error| TestCaseError::fail(format!("{text}: {error}")));
                    let reg1 = [WEB, DB].into_iter().find(|(address, _)| *address == to).map_or(2, |(_, port)| port);
                    let packet = Packet { from: ip(from)?, to: ip(to)?, reg1, port };
                    for is_egress in [false, true] {
                        let (is, wanted) = (walk(&node_state, &tables, is_egress, &packet), read(&node_state, is_egress, &packet));
                        prop_assert_eq!(is, wanted, "{:?} egress {}", packet, is_egress);
                    }
                }
            }
        }
    }
}
