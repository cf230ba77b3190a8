//! Policies: objects of the document's cluster, and what tests of them share.

mod effects;
mod golden;
mod meaning;
mod random;
mod refused;
mod speed;
mod strange;
mod wrong;

use crate::testing::{document_node, dual_node, pod, node_state};
use crate::{NodeState, RuleKey, Table};
use std::collections::BTreeMap;
use vswitch_proto::antrea::v1::{self, object::Object};

/// A Pod of the document, with an IPv6 address, too, if asked.
fn a_pod(name: &str, is_dual: bool) -> Object {
    let mut pod = pod(name);
    if is_dual {
        pod.addresses.extend(pod.addresses.first().map(|v4| six(v4)).into_iter().collect::<Vec<_>>());
    }
    Object::Pod(pod)
}

/// The IPv6 address beside one of the document's: `fd00:10:10::18` of `10.10.0.24`.
fn six(v4: &str) -> String {
    let last: u8 = v4.rsplit('.').next().and_then(|last| last.parse().ok()).unwrap_or_default();
    format!("fd00:10:10::{last:x}")
}

fn group(name: &str, addresses: &[&str]) -> Object {
    let member = |address: &&str| v1::GroupMember {
        member: Some(v1::group_member::Member::Address((*address).to_owned())),
    };
    Object::AddressGroup(v1::AddressGroup { name: name.to_owned(), members: addresses.iter().map(member).collect() })
}

fn group_of_pods(name: &str, pods: &[&str]) -> Object {
    let member =
        |name: &&str| v1::GroupMember { member: Some(v1::group_member::Member::Pod(format!("default/{name}"))) };
    Object::AddressGroup(v1::AddressGroup { name: name.to_owned(), members: pods.iter().map(member).collect() })
}

fn applied(name: &str, pods: &[&str]) -> Object {
    let pods = pods.iter().map(|pod| format!("default/{pod}")).collect();
    Object::AppliedToGroup(v1::AppliedToGroup { name: name.to_owned(), pods, services: Vec::new() })
}

fn tcp(port: u32) -> v1::PortMatch {
    v1::PortMatch { protocol: v1::Protocol::Tcp.into(), port, ..v1::PortMatch::default() }
}

/// An address group as the other side.
fn from(group: &str) -> Option<v1::RulePeer> {
    Some(v1::RulePeer { address_groups: vec![group.to_owned()], ..v1::RulePeer::default() })
}

fn rule(id: &str, action: v1::RuleAction, peer: Option<v1::RulePeer>, ports: Vec<v1::PortMatch>) -> v1::Rule {
    let direction = if id.contains("To") || id.contains("egress") { v1::Direction::Egress } else { v1::Direction::Ingress };
    v1::Rule {
        id: id.to_owned(),
        direction: direction.into(),
        action: action.into(),
        peer,
        ports,
        ..v1::Rule::default()
    }
}

/// An Antrea ClusterNetworkPolicy of the application tier, applied to group `web`.
fn acnp(name: &str, priority: f64, rules: Vec<v1::Rule>) -> v1::NetworkPolicy {
    v1::NetworkPolicy {
        name: format!("acnp:{name}"),
        kind: v1::PolicyKind::AntreaCluster.into(),
        tier: 250,
        priority,
        applied_to: vec!["web".to_owned()],
        rules,
        ..v1::NetworkPolicy::default()
    }
}

fn k8s(name: &str, rules: Vec<v1::Rule>) -> v1::NetworkPolicy {
    v1::NetworkPolicy {
        name: format!("np:default/{name}"),
        kind: v1::PolicyKind::K8s.into(),
        applied_to: vec!["web".to_owned()],
        rules,
        isolates_ingress: true,
        isolates_egress: true,
        ..v1::NetworkPolicy::default()
    }
}

fn object(policy: v1::NetworkPolicy) -> Object {
    Object::NetworkPolicy(policy)
}

const ALLOW: v1::RuleAction = v1::RuleAction::Allow;
const DROP: v1::RuleAction = v1::RuleAction::Drop;

/// Pods, groups and policies of the document.
fn document_objects(is_dual: bool) -> Vec<Object> {
    let allow =
        || vec![rule("AllowFromClient", ALLOW, from("client"), vec![tcp(80)]), rule("AllowToDB", ALLOW, from("db"), vec![tcp(3306)])];
    let mut l7 = rule("AllowFromClientL7", ALLOW, from("client"), vec![tcp(8080)]);
    l7.l7_protocols = vec![v1::L7Protocol { definition: r#"{"http":{"path":"/api/v2/*","method":"GET"}}"#.to_owned() }];
    let mut rules = allow();
    rules.push(rule("DropFromAll", DROP, None, Vec::new()));
    rules.push(rule("DropToAll", DROP, None, Vec::new()));
    let pods = ["client", "web", "db"].map(|name| a_pod(name, is_dual));
    let mut objects = pods.to_vec();
    objects.extend([
        applied("web", &["web"]),
        group_of_pods("client", &["client"]),
        group_of_pods("db", &["db"]),
        object(k8s("web-app-db-network-policy", allow())),
        object(acnp("web-app-db-network-policy", 5.0, rules)),
        object(acnp("ingress-allow-http-request-to-api-v2", 4.0, vec![l7])),
    ]);
    objects
}

fn document_node_state(is_dual: bool) -> NodeState {
    let node = if is_dual { dual_node() } else { document_node() };
    node_state(&node, document_objects(is_dual))
}

/// Lines of policies in a table: neither its miss nor what the Node writes.
fn lines(node_state: &NodeState, table: Table) -> Vec<String> {
    let all = crate::testing::dump_of(node_state, &[table.name()]);
    all.into_iter().filter(|line| !line.contains("priority=0 ") && !line.contains("priority=64990,")).collect()
}

/// Lines with other numbers of rules, where flows have such numbers.
fn renumber(line: &str, numbers: &BTreeMap<u32, u32>) -> String {
    let mut line = line.to_owned();
    for (ours, other) in numbers {
        let of = |number: u32| {
            let label = u64::from(number) << 32;
            [
                format!("conjunction({number},"),
                format!("conj_id={number},"),
                format!("conj_id={number} "),
                format!("set_field:{number:#x}->reg"),
                format!("reg3={number:#x} "),
                format!("{number:#x}/0xffffffff->ct_label"),
                format!("{number:#x}/0xffffffff,set"),
                format!("ct_label={number:#x}/0xffffffff,"),
                format!("{label:#x}/0xffffffff00000000"),
            ]
        };
        for (from, to) in of(*ours).iter().zip(of(*other)) {
            // Marked, so that no number is changed twice.
            let marked: String = to.chars().flat_map(|c| [c, '\u{1}']).collect();
            line = line.replace(from, &marked);
        }
    }
    line.replace('\u{1}', "")
}

fn number(node_state: &NodeState, policy: &str, rule: &str) -> u32 {
    let key = RuleKey { policy: policy.into(), rule: rule.into() };
    node_state.ids().rule(&key).unwrap_or_else(|| panic!("{key:?} has no number"))
}
