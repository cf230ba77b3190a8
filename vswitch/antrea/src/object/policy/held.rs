//! What is dropped because something is wrong, off, or not there yet.

use super::deny::{self, ISOLATION};
use super::salvage::Held;
use super::{Action, Direction, NetworkPolicy, Order, Peer, Rule};
use crate::problem::{Code, Problem};
use crate::{Desired, Facts, Family, Key, ObjectKind, CompiledObject, Table};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Above all rules, below answers to questions for names.
const AHEAD: u16 = 64985;
/// Where K8s policies isolate.
const DEFAULT: u16 = 200;

/// What a rule does on this Node: one that would be weaker than it is meant drops instead.
pub(super) fn action(rule: &Rule, facts: &Facts<'_>) -> Action {
    let engine = facts.features().l7_network_policy;
    let incomplete = is_incomplete(&rule.peer, facts.desired);
    match rule.action {
        Action::Allow if rule.l7 && (!engine || incomplete) => Action::Drop,
        Action::Pass if incomplete => Action::Drop,
        action => action,
    }
}

/// Whether a rule's other side is anybody, since it is not known who it is: a rule that denies, or
/// looks closer, must not miss anybody.
pub(super) fn is_anybody(rule: &Rule, desired: &Desired) -> bool {
    (rule.action != Action::Allow || rule.l7) && is_incomplete(&rule.peer, desired)
}

fn is_incomplete(peer: &Peer, desired: &Desired) -> bool {
    let Peer::Some { groups, .. } = peer else { return false };
    groups.iter().any(|group| desired.address_group(group).is_none_or(|group| group.is_incomplete()))
}

/// Tells what a rule names and is not there.
pub(super) fn tell_missing(policy: &NetworkPolicy, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let mut tell = |kind, name: &str, field: String, means: &str| {
        let key = Key::new(kind, name);
        if facts.desired.get(&key).is_none() {
            let reason = format!("{key} is not there yet: {means}");
            compiled.degraded.add(Problem::new(Code::Pending, field, reason).other(key));
        }
    };
    const NOBODY: &str = "nothing is applied to its members";
    for (at, group) in policy.applied_to.iter().enumerate() {
        tell(ObjectKind::AppliedToGroup, group, format!("applied_to[{at}]"), NOBODY);
    }
    for rule in &policy.rules {
        let field = format!("rules[{}]", rule.at);
        for (at, group) in rule.applied_to.iter().enumerate() {
            tell(ObjectKind::AppliedToGroup, group, format!("{field}.applied_to[{at}]"), NOBODY);
        }
        match &rule.peer {
            Peer::Anybody => {}
            Peer::Some { groups, .. } => {
                let means = if is_anybody(rule, facts.desired) { "the rule drops whoever it is" } else { "the rule matches none of its members" };
                for (at, group) in groups.iter().enumerate() {
                    tell(ObjectKind::AddressGroup, group, format!("{field}.peer.address_groups[{at}]"), means);
                }
            }
            Peer::Services(services) => {
                for (at, service) in services.iter().enumerate() {
                    tell(ObjectKind::Service, service, format!("{field}.peer.services[{at}]"), "nobody connects to it");
                }
            }
        }
    }
}

/// Flows that drop everything of Pods, and of NodePorts, for which something is held.
pub(super) fn compile(policy: &NetworkPolicy, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let is_antrea = matches!(policy.order, Order::Antrea { .. });
    if is_antrea && !facts.features().antrea_policy {
        return;
    }
    for held in &policy.held {
        for direction in &held.directions {
            let ends = ends(held, *direction, facts);
            let (ahead, default) = match direction {
                Direction::Ingress => (Table::AntreaPolicyIngressRule, Table::IngressDefaultRule),
                Direction::Egress => (Table::AntreaPolicyEgressRule, Table::EgressDefaultRule),
            };
            if held.ahead && ahead.exists(facts.features()) {
                drop_all(ahead, AHEAD, &ends, facts, compiled);
                multicast(*direction, &ends, facts, compiled);
            } else {
                drop_all(default, DEFAULT, &ends, facts, compiled);
            }
        }
    }
    for rule in policy.rules.iter().filter(|rule| rule.whole) {
        let applied_to = policy.applied_to(rule).to_vec();
        let held = Held { directions: vec![rule.direction], applied_to, except: Vec::new(), ahead: true };
        multicast(rule.direction, &ends(&held, rule.direction, facts), facts, compiled);
    }
}

/// Data for groups. IGMP is decided by who reads it.
fn multicast(direction: Direction, ends: &BTreeSet<String>, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let table = match direction {
        Direction::Ingress => Table::MulticastIngressRule,
        Direction::Egress => Table::MulticastEgressRule,
    };
    let of_pods = ends.iter().filter(|end| !end.starts_with("reg7") && !end.starts_with("ipv6")).cloned().collect();
    drop_all(table, AHEAD, &of_pods, facts, compiled);
}

fn drop_all(table: Table, priority: u16, ends: &BTreeSet<String>, facts: &Facts<'_>, compiled: &mut CompiledObject) {
    let actions = deny::dropped(facts, false, table);
    for end in ends {
        compiled.shared(facts, ISOLATION, &format!("table={}, priority={priority},{end} actions={actions}", table.name()));
    }
}

/// How packets are known.
fn ends(held: &Held, direction: Direction, facts: &Facts<'_>) -> BTreeSet<String> {
    let desired = facts.desired;
    let members = |names: &[Arc<str>], of: fn(&crate::object::applied_to_group::AppliedToGroup) -> &[Arc<str>]| -> BTreeSet<Arc<str>> {
        let groups = names.iter().filter_map(|group| desired.applied_to_group(group));
        groups.flat_map(|group| of(group).iter().cloned()).collect()
    };
    let those = |of| -> BTreeSet<Arc<str>> {
        let except = members(&held.except, of);
        members(&held.applied_to, of).into_iter().filter(|name| !except.contains(name)).collect()
    };
    let pods = those(|group| &group.pods);
    let pods: Vec<_> = pods.iter().filter_map(|name| facts.pod(name)).collect();
    match direction {
        Direction::Ingress => {
            let ports = pods.iter().filter_map(|pod| facts.ports.number(&pod.port)).map(|port| format!("reg1={port:#x}"));
            let services = those(|group| &group.services);
            let groups = services.iter().flat_map(|service| facts.ids.groups_of(service));
            ports.chain(groups.map(|group| format!("reg7={group:#x},reg4=0x80000/0x80000"))).collect()
        }
        Direction::Egress => {
            let addresses = pods.iter().flat_map(|pod| &pod.addresses);
            addresses.map(|address| {
                let family = Family::of(address);
                format!("{},{}={address}", family.ip(), family.source())
            }).collect()
        }
    }
}
