//! Antrea's own policies: tiers, groups, and rules with actions.

use super::antrea_context::Context;
use super::antrea_rule::RulePlace;
use super::k8s::Policy;
use super::rule::{Groups, rules};
use super::world::{Members, World};
use crate::kinds::antrea_policy::{AntreaPolicyBody, AppliedTo, Rule};
use crate::kinds::ruled::{Class, Ruled};
use crate::model::Item;
use crate::problem::{Origin, Problem};
use std::collections::BTreeMap;
use vswitch_proto::antrea::v1;

/// The tier of Admin policies of policy.networking.k8s.io, which no Tier has, as in Antrea.
const ADMIN_TIER: u32 = 251;
/// The tier of their Baseline policies: behind the baseline tier, as in Antrea.
const ADMIN_BASELINE_TIER: u32 = 254;

/// A policy of Antrea, or one that is read as such; of a namespace if `item` has one. A rule that
/// is wrong is told in `odd`; what stands for it is never weaker. An error is about the policy as a
/// whole.
pub fn policy(
    world: &World<'_>,
    class: Class,
    item: &Item<AntreaPolicyBody>,
    odd: &mut Vec<Problem>,
) -> Result<Policy, Box<Problem>> {
    let spec = &item.body.spec;
    let namespace = Some(item.meta.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let context = Context { world, origin: &item.origin, namespace };
    let tier = match (class.is_admin(), spec.tier.as_deref()) {
        (true, Some("Admin")) => ADMIN_TIER,
        (true, _) => ADMIN_BASELINE_TIER,
        (false, tier) => context.tier(tier, odd)?,
    };
    if !class.is_admin() && !(1.0..=10000.0).contains(&spec.priority) {
        return Err(Box::new(item.origin.error("spec.priority", format!("{} is not in 1 to 10000", spec.priority))));
    }
    let field = if class.is_admin() { "spec.subject" } else { "spec.appliedTo" };
    let (applied, services) = context.applied(field, &spec.applied_to, odd)?;
    if !spec.applied_to.is_empty() && services.is_empty() && applied.iter().all(|members| members.pods.is_empty()) {
        odd.push(item.origin.warning(field, "selects no Pod"));
    }
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for rule in spec.ingress.iter().chain(&spec.egress) {
        if let Ruled::Right(rule) = rule {
            *names.entry(&rule.name).or_default() += 1;
        }
    }
    let mut drafts = Vec::new();
    for (section, rules) in [("ingress", &spec.ingress), ("egress", &spec.egress)] {
        for (i, rule) in rules.iter().enumerate() {
            if let Ruled::Right(Rule { name, .. }) = rule
                && !name.is_empty()
                && names.get(name.as_str()) > Some(&1)
            {
                // It is no reason to leave a rule out: names bind nobody.
                let reason = format!("{name:?} is the name of another rule of the policy, too; Antrea refuses that");
                odd.push(item.origin.tolerated(format!("spec.{section}[{i}].name"), reason));
            }
            let (applied, services, names) = (&applied[..], &services[..], &names);
            let place = RulePlace { spec, section, number: i, applied, services, names };
            drafts.extend(place.drafts(&context, rule, odd));
        }
    }
    if tier == ADMIN_BASELINE_TIER {
        drafts.iter_mut().for_each(|draft| pass_at_the_end(&mut draft.rule));
    }
    let mut groups = Groups::default();
    let mut applied_to = groups.applied(world, &applied);
    if !services.is_empty() {
        applied_to.push(groups.applied_services(&services));
    }
    let rules: Vec<v1::Rule> = drafts.iter().flat_map(|draft| rules(world, draft, &mut groups)).collect();
    if applied_to.is_empty() && rules.is_empty() {
        return Ok(None);
    }
    let kind = if class.is_namespaced() { v1::PolicyKind::Antrea } else { v1::PolicyKind::AntreaCluster };
    let policy = v1::NetworkPolicy {
        name: format!("{}:{}", class.prefix(), item.meta.full_name()),
        uid: item.meta.uid.clone(),
        kind: kind.into(),
        tier,
        priority: spec.priority,
        applied_to,
        rules,
        ..Default::default()
    };
    Ok(Some((policy, groups)))
}

/// What the last tier passes on passes, since nothing is behind it.
fn pass_at_the_end(rule: &mut v1::Rule) {
    if rule.action() == v1::RuleAction::Pass {
        rule.action = v1::RuleAction::Allow.into();
    }
}

/// Pods and Services that a policy may bind of which nothing but this is known; `applied` is None
/// if that is not.
pub fn may_bind(
    world: &World<'_>,
    origin: &Origin,
    namespace: Option<&str>,
    applied: Option<&[AppliedTo]>,
) -> (Vec<Members>, Vec<String>) {
    let context = Context { world, origin, namespace };
    let found = applied.and_then(|applied| context.applied("spec.appliedTo", applied, &mut Vec::new()).ok());
    found.unwrap_or_else(|| (vec![context.all()], Vec::new()))
}
