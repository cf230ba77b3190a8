//! `NetworkPolicy`: rules of K8s and of Antrea.
//!
//! A rule is a conjunction of what it names: who it is applied to, the other side, and ports; each
//! of these is a set of clause flows. What it does is a flow of its own behind the conjunction, and
//! flows of the *Metric tables count. Clauses are shared between rules and policies, everything
//! else is the policy's own.
//!
//! | kind | tables | priorities |
//! |---|---|---|
//! | Antrea, tiers 0 to 252 | AntreaPolicy*Rule | by rank: [`crate::Rank`] |
//! | K8s | *Rule; isolation in *DefaultRule | 200, its action 190; isolation 200, 201 if it is logged |
//! | Antrea, tiers 253 and 254 | *DefaultRule | by rank, below 181 |
//! | about multicast | Multicast*Rule | by rank |
//!
//! **What a deny is worth.** Tables let packets of established connections pass before any rule is
//! asked, and `EndpointDNAT` and egress rules that allow commit connections before a later rule
//! denies. Two things have to hold so that nothing passes a deny: an unanswered connection is
//! `+new` in our zones, whatever the original side sends (the zone option
//! `established_after_answer`), and a denied packet takes back
//! the connections that it met as new (`ct_forget`). The first is an option of our zones, which the
//! switch sets when the Node is initialised; the second is [`deny::FORGET`].
//!
//! **A Node that has less than it had** (a feature, a family) leaves a policy in force as far as it
//! can be: isolation and denies must not go because one of the rules needs something else.
//! [`NetworkPolicy::judge`] still says what is missing.

mod clauses;
mod compile;
mod deny;
mod fqdn;
mod held;
pub mod igmp;
mod matching;
mod peer;
mod ports;
mod read;
mod salvage;
mod unfit;
#[cfg(test)]
mod tests;

use crate::key::{ObjectKind, Need};
use crate::problem::{Code, Problems};
use crate::{Claim, Desired, Effect, Facts, Flush, GroupKey, Ids, Key, CompiledObject, Problem, Rank, Reference, RuleKey, Table};
use peer::Peer;
use ports::Ports;
use salvage::Held;
use unfit::missing;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vswitch_proto::antrea::v1;

pub(crate) use deny::ISOLATION;
pub use fqdn::{Names, Pattern};
pub(crate) use matching::{Addresses, End};
pub(crate) use read::{check_names, names};

/// Whose connections a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Ingress, Self::Egress];

    const fn word(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Allow,
    Drop,
    Reject,
    Pass,
}

/// Of whom a policy is, and where that puts it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    K8s,
    Antrea { tier: u32, priority: f64 },
}

/// The first tier behind K8s policies.
const BASELINE: u32 = 253;

/// The last tier: baseline policies of policy.networking.k8s.io.
const LAST: u32 = 254;

/// A rule.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    id: Arc<str>,
    /// Its place in the message.
    at: usize,
    direction: Direction,
    /// Among those of its direction.
    place: u32,
    action: Action,
    peer: Peer,
    /// None: any.
    ports: Vec<Ports>,
    /// None: the policy's.
    applied_to: Vec<Arc<str>>,
    logging: bool,
    l7: bool,
    /// It stands for one that is wrong: it is about multicast, too.
    whole: bool,
}

impl Rule {
    fn is_multicast(&self) -> bool {
        self.ports.iter().any(Ports::is_multicast)
    }

    /// Decided by who reads IGMP: tables pass it on to there.
    fn is_igmp(&self) -> bool {
        self.ports.iter().any(|ports| matches!(ports, Ports::Igmp { .. }))
    }

    const fn effect(&self) -> Effect {
        match self.action {
            Action::Allow if self.l7 => Effect::AllowL7,
            Action::Allow => Effect::Allow,
            Action::Drop => Effect::Drop,
            Action::Reject => Effect::Reject,
            Action::Pass => Effect::Pass,
        }
    }
}

/// A policy, of Kubernetes or of Antrea: its rules, and the groups that it is applied to.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPolicy {
    order: Order,
    applied_to: Vec<Arc<str>>,
    rules: Vec<Rule>,
    isolates: Vec<Direction>,
    log_isolation: bool,
    /// What is dropped in place of what is wrong.
    held: Vec<Held>,
    /// It names something to apply to that cannot be known.
    unbound: bool,
}

impl NetworkPolicy {
    pub(crate) fn name_of(message: &v1::NetworkPolicy) -> String {
        message.name.clone()
    }

    pub(crate) fn read(message: &v1::NetworkPolicy, problems: &mut Problems) -> Option<Self> {
        read::read(message, problems)
    }

    pub(crate) fn references(&self) -> Vec<Reference> {
        let mut references = Vec::new();
        let mut add = |kind, field: String, names: &[Arc<str>]| {
            references.extend(names.iter().enumerate().map(|(at, name)| Reference {
                key: Key { kind, name: Arc::clone(name) },
                need: if kind == ObjectKind::Service { Need::May } else { Need::Holds },
                field: format!("{field}[{at}]"),
            }));
        };
        add(ObjectKind::AppliedToGroup, "applied_to".to_owned(), &self.applied_to);
        for held in &self.held {
            add(ObjectKind::AppliedToGroup, "applied_to".to_owned(), &held.applied_to);
            add(ObjectKind::AppliedToGroup, "applied_to".to_owned(), &held.except);
        }
        for rule in &self.rules {
            let at = rule.at;
            add(ObjectKind::AppliedToGroup, format!("rules[{at}].applied_to"), &rule.applied_to);
            match &rule.peer {
                Peer::Anybody => {}
                Peer::Some { groups, .. } => {
                    add(ObjectKind::AddressGroup, format!("rules[{at}].peer.address_groups"), groups);
                }
                Peer::Services(services) => add(ObjectKind::Service, format!("rules[{at}].peer.services"), services),
            }
        }
        references
    }

    pub(crate) fn claims(&self) -> Vec<(Claim, String)> {
        Vec::new()
    }

    /// Ids of its rules in their order, with their places in the message; of those that were given
    /// none, their direction and place. A rule that is wrong, or there twice, is not among them.
    pub fn rule_ids(&self) -> impl Iterator<Item = (&str, usize)> {
        self.rules.iter().map(|rule| (&*rule.id, rule.at))
    }

    /// Where a rule's clauses are, and the word of its action.
    pub(crate) fn decision(&self, rule: &str) -> Option<(Table, &'static str)> {
        let rule = self.rules.iter().find(|other| *other.id == *rule)?;
        let word = match rule.action {
            Action::Allow => "Allow",
            Action::Drop => "Drop",
            Action::Reject => "Reject",
            Action::Pass => "Pass",
        };
        Some((self.table(rule), word))
    }

    /// Whether it isolates a Pod.
    pub(crate) fn isolates(&self, pod: &str, direction: Direction, desired: &Desired) -> bool {
        let mut groups = self.applied_to.iter().filter_map(|group| desired.applied_to_group(group));
        let member = self.isolates.contains(&direction) && groups.any(|group| group.pods.iter().any(|other| **other == *pod));
        member || self.holds(pod, direction, desired)
    }

    /// Whether it isolates the members of a group, in a direction; with `logged` only if that is
    /// logged.
    pub(crate) fn isolates_members(&self, group: &str, is_egress: bool, logged: bool) -> bool {
        let direction = if is_egress { Direction::Egress } else { Direction::Ingress };
        let is_held = !logged && self.is_held(group, direction);
        let isolates = self.isolates.contains(&direction) && (self.log_isolation || !logged);
        is_held || isolates && self.applied_to.iter().any(|name| **name == *group)
    }

    pub(crate) fn judge(&self, _name: &str, facts: &Facts<'_>, problems: &mut Problems) {
        if matches!(self.order, Order::Antrea { .. }) && !facts.features().antrea_policy {
            problems.push(Code::Feature, "kind", "Antrea's policies need features.antrea_policy");
        }
        for rule in &self.rules {
            for (code, field, reason) in missing(rule, facts) {
                problems.push(code, format!("rules[{}].{field}", rule.at), reason);
            }
        }
        let groups: BTreeSet<&Arc<str>> =
            self.applied_to.iter().chain(self.rules.iter().flat_map(|rule| &rule.applied_to)).collect();
        for group in groups {
            let services =
                facts.desired.applied_to_group(group).is_some_and(|applied_to| !applied_to.services.is_empty());
            if let Some((field, reason)) = self.unfit_for_services(group, facts.desired).filter(|_| services) {
                problems.add(
                    Problem::new(Code::Value, field, reason).other(Key::new(ObjectKind::AppliedToGroup, group)),
                );
            }
        }
    }

    /// Numbers of rules, VLANs, priorities; the groups behind logs.
    pub(crate) fn claim(&self, name: &str, desired: &Desired, ids: &mut Ids) -> Result<(), Problem> {
        let rules: BTreeSet<Arc<str>> = self.rules.iter().map(|rule| Arc::clone(&rule.id)).collect();
        let gone = ids.claim_policy(name, rules, self.sizes(desired))?;
        gone.iter().for_each(|key| forget(key, ids));
        let policy: Arc<str> = name.into();
        let key = |rule: &Rule| RuleKey { policy: Arc::clone(&policy), rule: Arc::clone(&rule.id) };
        // What moves away leaves room for what comes.
        for rule in &self.rules {
            let key = key(rule);
            let stays = self.rank(rule, &key).is_some_and(|rank| ids.priorities.is_at(&key, self.table(rule), &rank));
            if !stays {
                ids.release_priority(&key);
            }
        }
        for rule in &self.rules {
            let (at, key) = (rule.at, key(rule));
            let place = |problem: Problem| Problem { field: format!("rules[{at}]"), ..problem };
            ids.claim_rule(&key).map_err(place)?;
            if rule.l7 {
                ids.claim_vlan(&key).map_err(place)?;
            } else {
                ids.release_vlan(&key);
            }
            if let Some(rank) = self.rank(rule, &key) {
                ids.claim_priority(&key, self.table(rule), rank).map_err(place)?;
            }
        }
        for table in deny::LOGGED {
            ids.claim_group(&GroupKey::Log(table))?;
        }
        Ok(())
    }

    pub(crate) fn ports(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn flush(&self, _name: &str, _new: Option<&Self>, _facts: &Facts<'_>, _flush: &mut BTreeSet<Flush>) {}

    pub(crate) fn compile(&self, name: &str, facts: &Facts<'_>, compiled: &mut CompiledObject) {
        compile::compile(self, name, facts, compiled);
    }

    /// Names that its rules mean.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.rules.iter().flat_map(|rule| match &rule.peer {
            Peer::Some { patterns, .. } => patterns.as_slice(),
            _ => &[],
        })
    }

    /// Ids of rules that mean a name (in lower case, without a dot at its end).
    pub fn rules_meaning<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let means = |rule: &&Rule| match &rule.peer {
            Peer::Some { patterns, .. } => patterns.iter().any(|pattern| pattern.matches(name)),
            _ => false,
        };
        self.rules.iter().filter(means).map(|rule| &*rule.id)
    }

    /// Where a rule's clauses are.
    fn table(&self, rule: &Rule) -> Table {
        let is_egress = rule.direction == Direction::Egress;
        let of = |ingress, egress| if is_egress { egress } else { ingress };
        match self.order {
            _ if rule.is_multicast() => of(Table::MulticastIngressRule, Table::MulticastEgressRule),
            Order::K8s => of(Table::IngressRule, Table::EgressRule),
            Order::Antrea { tier: BASELINE.., .. } => of(Table::IngressDefaultRule, Table::EgressDefaultRule),
            Order::Antrea { .. } => of(Table::AntreaPolicyIngressRule, Table::AntreaPolicyEgressRule),
        }
    }

    /// A rule's place in its table; None: K8s rules have none.
    fn rank(&self, rule: &Rule, key: &RuleKey) -> Option<Rank> {
        match self.order {
            Order::K8s => None,
            Order::Antrea { tier, priority } => {
                Some(Rank::new(tier, priority, rule.place, rule.effect(), rule.logging, key))
            }
        }
    }

    /// Groups that a rule is applied to.
    fn applied_to<'a>(&'a self, rule: &'a Rule) -> &'a [Arc<str>] {
        if rule.applied_to.is_empty() { &self.applied_to } else { &rule.applied_to }
    }

    /// Clauses of each table, at most.
    fn sizes(&self, desired: &Desired) -> BTreeMap<Table, u64> {
        let mut sizes = BTreeMap::new();
        for rule in &self.rules {
            let applied = self.applied_to(rule).iter().filter_map(|group| desired.applied_to_group(group));
            // A Pod has two addresses at most, a Service some ports with two groups of each family.
            let applied: u64 = applied.map(|group| 2 * group.pods.len() as u64 + 8 * group.services.len() as u64).sum();
            let peer = match &rule.peer {
                Peer::Anybody => 2,
                Peer::Some { groups, blocks, patterns } => {
                    let groups = groups.iter().filter_map(|group| desired.address_group(group));
                    let names = patterns.iter().map(|pattern| desired.names().of(pattern).count() as u64);
                    groups.map(|group| group.size()).sum::<u64>() + blocks.len() as u64 + names.sum::<u64>()
                }
                Peer::Services(services) => 8 * services.len() as u64,
            };
            let ports: u64 = rule.ports.iter().map(|ports| 2 * ports.count()).sum();
            let size: &mut u64 = sizes.entry(self.table(rule)).or_default();
            *size = size.saturating_add(applied).saturating_add(peer).saturating_add(ports);
        }
        sizes
    }
}

fn forget(key: &RuleKey, ids: &mut Ids) {
    ids.release_rule(key);
    ids.release_vlan(key);
    ids.release_priority(key);
}

/// It is gone: its numbers are free.
pub(crate) fn release(name: &str, ids: &mut Ids) {
    ids.release_policy(name).iter().for_each(|key| forget(key, ids));
}
