//! Policies whose name another one has, which counts. What they deny stays denied: their Pods are
//! held that the one that counts does not bind, and rules that deny are in force beside it.

use super::hold::{self, Bound};
use super::policies::Form;
use super::{Projector, groups_of};
use crate::kinds::ruled::Class;
use crate::problem::Problem;
use crate::resolve::k8s::Policy;
use crate::resolve::rule::Groups;
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1::object::Object as Kinded;
use vswitch_proto::antrea::v1::{self, Kind, RuleAction};

impl Projector<'_> {
    /// All policies that another one keeps from counting.
    pub(super) fn others(&mut self) {
        let model = self.world.model;
        let k8s = model.other_k8s.iter().map(Form::K8s);
        let antrea = model.other_antrea.iter().map(|(class, item)| Form::Antrea(*class, item));
        for form in k8s.chain(antrea) {
            self.other(&form);
        }
    }

    fn other(&mut self, form: &Form<'_>) {
        let (key, wrong) = (form.key(), form.wrong());
        let counts = hold::bound(&self.projection, &key);
        let mut told = Vec::new();
        let resolved = form.resolve(&self.world, &mut told);
        match &resolved {
            // Of a policy as a whole that is wrong, nothing but whom it may bind is known.
            Err(_) => {}
            Ok(policy) if form.class() == Class::K8s => self.isolate(&key, form, policy),
            Ok(policy) => self.guard(&key, form, policy),
        }
        self.problems.extend(told.into_iter().filter(Problem::is_error));
        self.problems.extend(resolved.err().map(|problem| *problem));
        let rest = hold::selected(&self.world, &wrong).without(&counts);
        self.hold(&key, &wrong, &rest, hold::RIGHT);
    }

    /// The policy of a name that counts.
    fn counting(&self, key: &str) -> Option<&v1::NetworkPolicy> {
        let projected = self.projection.objects.get(&(Kind::NetworkPolicy as i32, key.to_owned()))?;
        match &projected.object.object {
            Some(Kinded::NetworkPolicy(policy)) => Some(policy),
            _ => None,
        }
    }

    /// Holds those that both bind, in directions of which the one that counts does not speak.
    fn isolate(&mut self, key: &str, form: &Form<'_>, policy: &Policy) {
        let (Some((other, _)), Some(counts)) = (policy, self.counting(key)) else { return };
        let mut wrong = form.wrong();
        wrong.body.ingress = other.isolates_ingress && !counts.isolates_ingress;
        wrong.body.egress = other.isolates_egress && !counts.isolates_egress;
        if wrong.body.ingress || wrong.body.egress {
            let both = Bound::of(policy.as_ref()).within(&hold::bound(&self.projection, key));
            self.hold(key, &wrong, &both, hold::RIGHT);
        }
    }

    /// Puts the rules that deny in force, in front of both policies.
    fn guard(&mut self, key: &str, form: &Form<'_>, policy: &Policy) {
        let (Some((other, groups)), Some(counts)) = (policy, self.counting(key)) else { return };
        let both = Bound::of(policy.as_ref()).within(&hold::bound(&self.projection, key));
        let place = |policy: &v1::NetworkPolicy| (policy.tier, policy.priority);
        let (first, second) = (place(counts), place(other));
        if both.is_empty() || (first <= second && says_the_same(counts, other)) {
            return;
        }
        let rules: Vec<v1::Rule> = other.rules.iter().filter_map(denying).collect();
        if rules.is_empty() {
            return;
        }
        let Some((tier, priority)) = in_front_of(if first <= second { first } else { second }) else {
            return self.hold(key, &form.wrong(), &both, hold::RIGHT);
        };
        let Some(name) = self.free_name(key) else { return };
        let guard = v1::NetworkPolicy { name, tier, priority, rules, ..other.clone() };
        let object = v1::Object { object: Some(Kinded::NetworkPolicy(guard.clone())) };
        let named: BTreeSet<String> = groups_of(&object).into_iter().map(|(_, name)| name).collect();
        let Groups { mut address, mut applied } = groups.clone();
        address.retain(|name, _| named.contains(name));
        applied.retain(|name, _| named.contains(name));
        let origin = form.origin();
        self.problems.push(origin.warning("", "until it is right, what its rules deny is dropped, too"));
        self.add_policy(Some((guard, Groups { address, applied })), origin);
    }

    /// Leaves rules out of a policy of Kubernetes that others of its name do not have, none of
    /// which was in force.
    pub(super) fn narrow(&self, form: &Form<'_>, policy: &mut Policy) -> bool {
        let Some((counts, groups)) = policy else { return false };
        let count = counts.rules.len();
        let own = Bound::of(Some(&(counts.clone(), groups.clone())));
        let others = self.world.model.other_k8s.iter().map(Form::K8s).filter(|other| other.key() == form.key());
        for other in others {
            let Ok(policy) = other.resolve(&self.world, &mut Vec::new()) else {
                counts.rules.clear();
                continue;
            };
            if Bound::of(policy.as_ref()).within(&own).is_empty() {
                continue;
            }
            let Some((other, _)) = policy else { continue };
            counts.rules.retain(|rule| {
                let is_ingress = rule.direction() == v1::Direction::Ingress;
                let isolates = if is_ingress { other.isolates_ingress } else { other.isolates_egress };
                !isolates || other.rules.iter().any(|other| plain(other) == plain(rule))
            });
        }
        counts.rules.len() < count
    }
}

/// The last place in front of a policy's tier and priority; None: it is the first one.
fn in_front_of((tier, priority): (u32, f64)) -> Option<(u32, f64)> {
    if priority > 0.0 {
        return Some((tier, priority.next_down()));
    }
    (tier > 0).then(|| (tier - 1, 10000.0))
}

/// A rule without what does not say whom it lets pass.
fn plain(rule: &v1::Rule) -> v1::Rule {
    v1::Rule { id: String::new(), name: String::new(), logging: false, log_label: String::new(), ..rule.clone() }
}

/// Whether two policies do the same to those that both bind.
fn says_the_same(one: &v1::NetworkPolicy, other: &v1::NetworkPolicy) -> bool {
    let all = |policy: &v1::NetworkPolicy| policy.rules.iter().map(plain).collect::<Vec<_>>();
    let has_own = |policy: &v1::NetworkPolicy| policy.rules.iter().any(|rule| !rule.applied_to.is_empty());
    !has_own(one) && !has_own(other) && all(one) == all(other)
}

/// What a rule denies. What it leaves to other policies, or to an engine, is not known to be
/// allowed.
fn denying(rule: &v1::Rule) -> Option<v1::Rule> {
    let action = rule.action();
    match action {
        RuleAction::Drop | RuleAction::Reject => Some(rule.clone()),
        RuleAction::Allow if rule.l7_protocols.is_empty() => None,
        _ => Some(v1::Rule { action: RuleAction::Drop.into(), l7_protocols: Vec::new(), ..rule.clone() }),
    }
}
