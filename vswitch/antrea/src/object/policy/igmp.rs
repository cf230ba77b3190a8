//! IGMP of Pods: flows lead all of it to its reader, since they do not see types; here it asks what
//! rules say.

use super::{Action, Direction, NetworkPolicy, Order, Peer, Ports, Rule, held};
use crate::object::Object;
use crate::{Facts, ObjectKind, RuleKey};
use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr};

/// An IGMP message from or to a Pod.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Name of the Pod.
    pub pod: &'a str,
    /// Whether the Pod sent it.
    pub is_from_pod: bool,
    /// Its type: `0x11` queries, `0x12`, `0x16` and `0x22` reports.
    pub kind: u8,
    /// The group that it is about; of a query for all groups none.
    pub group: Option<Ipv4Addr>,
    /// Who sent it to the Pod, or whom the Pod sent it.
    pub other: IpAddr,
}

/// What rules say of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgmpVerdict {
    /// The rule that decides.
    pub rule: RuleKey,
    /// Whether the message counts.
    pub is_allowed: bool,
    /// Whether that is to be told.
    pub logging: bool,
}

/// All rules about IGMP at one moment: who has many messages looks for them once.
#[derive(Debug)]
pub struct Judge<'a> {
    facts: Facts<'a>,
    /// The first that counts first.
    rules: Vec<(Reverse<u16>, RuleKey, &'a NetworkPolicy, &'a Rule)>,
    /// Those that drop everything of some Pods.
    holding: Vec<(&'a str, &'a NetworkPolicy)>,
}

impl<'a> Judge<'a> {
    /// Those that are in force.
    #[must_use]
    pub fn new(facts: Facts<'a>) -> Self {
        let (mut rules, mut holding) = (Vec::new(), Vec::new());
        for (key, entry) in facts.desired.of(ObjectKind::NetworkPolicy) {
            let Object::NetworkPolicy(policy) = &entry.object else { continue };
            if !facts.node.features.antrea_policy {
                continue;
            }
            if policy.is_holding() {
                holding.push((&*key.name, &**policy));
            }
            if policy.order == Order::K8s {
                continue;
            }
            for rule in policy.rules.iter().filter(|rule| rule.is_igmp()) {
                let key = RuleKey { policy: key.name.clone(), rule: rule.id.clone() };
                if let Some(priority) = facts.ids.priorities.get(&key) {
                    rules.push((Reverse(priority), key, &**policy, rule));
                }
            }
        }
        rules.sort_by_key(|(priority, ..)| *priority);
        Self { facts, rules, holding }
    }

    /// The first rule that a message meets; None: no rule says anything, so it counts.
    #[must_use]
    pub fn verdict(&self, message: &Message<'_>) -> Option<IgmpVerdict> {
        if let Some(verdict) = self.held(message) {
            return Some(verdict);
        }
        let met = self.rules.iter().find(|(_, _, policy, rule)| meets(policy, rule, &self.facts, message));
        met.map(|(_, key, _, rule)| {
            let is_allowed = matches!(rule.action, Action::Allow | Action::Pass);
            IgmpVerdict { rule: key.clone(), is_allowed, logging: rule.logging }
        })
    }
}

impl Judge<'_> {
    /// Everything of the Pod is dropped, IGMP too.
    fn held(&self, message: &Message<'_>) -> Option<IgmpVerdict> {
        let direction = if message.is_from_pod { Direction::Egress } else { Direction::Ingress };
        let key = self.holding.iter().find(|(_, policy)| policy.holds(message.pod, direction, self.facts.desired));
        key.map(|(policy, _)| {
            let rule = RuleKey { policy: (*policy).into(), rule: "".into() };
            IgmpVerdict { rule, is_allowed: false, logging: false }
        })
    }
}

fn meets(policy: &NetworkPolicy, rule: &Rule, facts: &Facts<'_>, message: &Message<'_>) -> bool {
    let direction = if message.is_from_pod { Direction::Egress } else { Direction::Ingress };
    let of = |ports: &Ports| match ports {
        Ports::Igmp { kind, group } => {
            kind.is_none_or(|kind| kind == message.kind) && (group.is_none() || *group == message.group)
        }
        _ => false,
    };
    let groups = policy.applied_to(rule).iter().filter_map(|group| facts.desired.applied_to_group(group));
    rule.direction == direction
        && rule.ports.iter().any(of)
        && groups.flat_map(|group| &group.pods).any(|pod| **pod == *message.pod)
        && (held::is_anybody(rule, facts.desired) || is_among(&rule.peer, facts, &message.other))
}

fn is_among(peer: &Peer, facts: &Facts<'_>, other: &IpAddr) -> bool {
    match peer {
        Peer::Anybody => true,
        Peer::Some { groups, blocks, .. } => {
            let groups = groups.iter().filter_map(|group| facts.desired.address_group(group));
            blocks.iter().any(|block| block.contains(other)) || groups.into_iter().any(|group| group.has(facts, other))
        }
        Peer::Services(_) => false,
    }
}
