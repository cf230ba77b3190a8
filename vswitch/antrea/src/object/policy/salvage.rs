//! What is in force in place of a policy that is wrong: never weaker than what it may have meant.
//!
//! Rules that are right by themselves stay. A wrong rule that allows is left out. A wrong rule that
//! denies, passes or leads to the engine drops everything in its direction, at its place; if its
//! direction or action is unknown, it drops in both directions. A policy that is wrong itself is
//! *withheld*: everything of its directions is dropped for all that it applies to. All of this is a
//! pure function of the message, so that the same message comes to the same at any time.

use super::peer::Peer;
use super::{Action, Direction, NetworkPolicy, Order, Rule};
use std::collections::HashSet;
use std::sync::Arc;
use vswitch_proto::antrea::v1;

/// Members of groups for whom everything of some directions is dropped.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    pub(super) directions: Vec<Direction>,
    pub(super) applied_to: Vec<Arc<str>>,
    /// Groups whose members are not meant: another form binds them.
    pub(super) except: Vec<Arc<str>>,
    /// Ahead of all tiers; else where K8s policies isolate.
    pub(super) ahead: bool,
}

/// A wrong rule of an Antrea policy: what it becomes.
pub(super) fn instead(message: &v1::Rule, at: usize, applied_to: &[Arc<str>], places: &mut [u32; 2], known: bool) -> Vec<Rule> {
    let allows = matches!(v1::RuleAction::try_from(message.action), Ok(v1::RuleAction::Unspecified | v1::RuleAction::Allow));
    let direction = direction_of(message);
    // `known`: its place has been counted when it was read.
    let mut place = |direction: Direction| {
        let next = &mut places[direction as usize];
        *next += u32::from(!known);
        *next - 1
    };
    let directions = direction.map_or_else(|| Direction::BOTH.to_vec(), |direction| vec![direction]);
    let places: Vec<(Direction, u32)> = directions.into_iter().map(|direction| (direction, place(direction))).collect();
    if allows && direction.is_some() && message.l7_protocols.is_empty() {
        return Vec::new();
    }
    let rule = |(direction, place): (Direction, u32)| Rule {
        id: format!("held-{at}-{}", direction.word()).into(),
        at,
        direction,
        place,
        action: Action::Drop,
        peer: Peer::Anybody,
        ports: Vec::new(),
        applied_to: applied_to.to_vec(),
        logging: message.logging,
        l7: false,
        whole: true,
    };
    places.into_iter().map(rule).collect()
}

pub(super) fn direction_of(message: &v1::Rule) -> Option<Direction> {
    match v1::Direction::try_from(message.direction) {
        Ok(v1::Direction::Ingress) => Some(Direction::Ingress),
        Ok(v1::Direction::Egress) => Some(Direction::Egress),
        Ok(v1::Direction::Unspecified) | Err(_) => None,
    }
}

/// Names of all groups that a message names, each once.
fn groups(message: &v1::NetworkPolicy) -> Vec<Arc<str>> {
    let of_rules = message.rules.iter().flat_map(|rule| &rule.applied_to);
    let mut known: HashSet<&str> = HashSet::new();
    let names = message.applied_to.iter().chain(of_rules).filter(|name| !name.is_empty() && known.insert(name));
    names.map(|name| name.as_str().into()).collect()
}

/// Directions that a message names; none or an unknown one: both.
fn directions(message: &v1::NetworkPolicy) -> Vec<Direction> {
    let flags = [(message.isolates_ingress, Direction::Ingress), (message.isolates_egress, Direction::Egress)];
    let flags = flags.into_iter().filter_map(|(given, direction)| given.then_some(Some(direction)));
    let named: HashSet<Option<Direction>> = message.rules.iter().map(direction_of).chain(flags).collect();
    let all = named.is_empty() || named.contains(&None);
    Direction::BOTH.into_iter().filter(|direction| all || named.contains(&Some(*direction))).collect()
}

/// A policy that is wrong itself.
pub(super) fn withheld(message: &v1::NetworkPolicy, order: Option<Order>, ahead: bool, unbound: bool) -> NetworkPolicy {
    let applied_to = groups(message);
    let unbound = unbound || applied_to.is_empty() && says_something(message);
    let held = Held { directions: directions(message), applied_to, except: Vec::new(), ahead };
    NetworkPolicy {
        order: order.unwrap_or(Order::K8s),
        applied_to: Vec::new(),
        rules: Vec::new(),
        isolates: Vec::new(),
        log_isolation: false,
        held: vec![held],
        unbound,
    }
}

const fn says_something(message: &v1::NetworkPolicy) -> bool {
    !message.rules.is_empty() || message.isolates_ingress || message.isolates_egress
}

impl NetworkPolicy {
    /// The same policy with nothing but a drop of everything in its directions: for what the switch
    /// has no room for.
    pub(crate) fn withheld(&self) -> Self {
        let flat = self.held.iter().flat_map(|held| &held.directions);
        let named: Vec<Direction> = self.rules.iter().map(|rule| rule.direction).chain(self.isolates.iter().copied()).chain(flat.copied()).collect();
        let directions = Direction::BOTH.into_iter().filter(|direction| named.is_empty() || named.contains(direction)).collect();
        let ahead = self.order != Order::K8s || self.held.iter().any(|held| held.ahead);
        let held = Held { directions, applied_to: self.groups(), except: Vec::new(), ahead };
        Self { applied_to: Vec::new(), rules: Vec::new(), isolates: Vec::new(), log_isolation: false, held: vec![held], ..self.clone() }
    }

    /// This form stays for whom it binds, though `new` was to replace it and is wrong: whom only
    /// the new form names is held in its directions.
    pub(crate) fn beside(&self, new: &Self) -> Self {
        let whole = new.withheld();
        let held = whole.held.into_iter().map(|held| Held { except: self.groups(), ..held });
        Self { held: self.held.iter().cloned().chain(held).collect(), unbound: self.unbound || new.unbound, ..self.clone() }
    }

    /// Names of all groups that it is applied to.
    pub(super) fn groups(&self) -> Vec<Arc<str>> {
        let of_rules = self.rules.iter().flat_map(|rule| &rule.applied_to);
        let of_held = self.held.iter().flat_map(|held| &held.applied_to);
        let mut known: HashSet<&Arc<str>> = HashSet::new();
        let all = self.applied_to.iter().chain(of_rules).chain(of_held);
        all.filter(|name| known.insert(name)).cloned().collect()
    }

    /// It names something to apply to that cannot be known: nothing can be in force in its place.
    pub(crate) const fn is_unbound(&self) -> bool {
        self.unbound
    }

    /// Whether it drops everything of some Pods.
    pub(super) fn is_holding(&self) -> bool {
        self.held.iter().any(|held| held.ahead) || self.rules.iter().any(|rule| rule.whole)
    }

    /// Whether it drops everything of a Pod in a direction, in place of what is wrong.
    pub(super) fn holds(&self, pod: &str, direction: Direction, desired: &crate::Desired) -> bool {
        let member = |groups: &[Arc<str>]| {
            let mut groups = groups.iter().filter_map(|group| desired.applied_to_group(group));
            groups.any(|group| group.pods.iter().any(|other| **other == *pod))
        };
        let by_rule = |rule: &Rule| rule.whole && rule.direction == direction && member(self.applied_to(rule));
        let by_held = |held: &Held| held.directions.contains(&direction) && member(&held.applied_to) && !member(&held.except);
        self.rules.iter().any(by_rule) || self.held.iter().any(by_held)
    }

    /// Whether everything of members of a group is dropped in a direction.
    pub(super) fn is_held(&self, group: &str, direction: Direction) -> bool {
        let of = |held: &Held| held.directions.contains(&direction) && held.applied_to.iter().any(|name| **name == *group);
        self.held.iter().any(of)
    }

    /// How the answer to a wrong policy says what is in force.
    pub(crate) fn told(&self, before: bool) -> &'static str {
        let isolates = self.held.iter().any(|held| !held.applied_to.is_empty()) || self.rules.iter().any(|rule| rule.whole);
        match (self.unbound, before, isolates) {
            (true, ..) => "nothing can be in force in its place, since it does not say what it applies to",
            (_, true, _) => "meanwhile the form of before stays for its Pods, and Pods that only this form names are isolated",
            (_, false, true) => "meanwhile the Pods that it applies to are isolated in its directions",
            (_, false, false) => "meanwhile it is in force without what is wrong",
        }
    }
}
