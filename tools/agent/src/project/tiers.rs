//! Priorities of Tiers. What Antrea refuses of a Tier has no effect: the Tier stays as it was.

use crate::model::Model;
use crate::problem::{Origin, Problem};
use crate::resolve::antrea_context::{TIERS, built_in_tier};
use std::collections::{BTreeMap, BTreeSet};

/// Priorities that Antrea keeps to itself: policies of policy.networking.k8s.io have 251 and 254.
const RESERVED: [u32; 4] = [251, 252, 254, 255];

/// A Tier's document.
struct Wanted<'a> {
    name: &'a str,
    priority: u32,
    origin: &'a Origin,
}

/// Priorities of Tiers by their names: as documents say, or as they were (`before`); and what is
/// wrong.
pub(super) fn tiers(model: &Model, before: &BTreeMap<String, u32>) -> (BTreeMap<String, u32>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut refuse = |of: &Wanted<'_>, reason: String| {
        problems.push(of.origin.error("spec.priority", reason));
        if before.contains_key(of.name) {
            problems.push(of.origin.warning("", "stays as it was until it is right"));
        }
    };
    let as_it_was = |name: &str| before.get(name).map(|priority| (name.to_owned(), *priority));
    // Tiers that are gone stay where they were for the policies that name them.
    let gone = before.iter().filter(|(name, _)| !model.tiers.contains_key(*name));
    let mut all: BTreeMap<String, u32> = gone.map(|(name, priority)| (name.clone(), *priority)).collect();
    let mut wanted: Vec<Wanted<'_>> = Vec::new();
    for (name, item) in &model.tiers {
        let of = Wanted { name, priority: item.body.spec.priority, origin: &item.origin };
        let is_double = model.tier_priorities.get(name).is_some_and(|all| all.len() > 1);
        if let Some((known, priority)) = built_in_tier(name) {
            if of.priority != priority {
                refuse(&of, format!("Tier {known} is always there, with priority {priority}: nobody changes it"));
            }
        } else if is_double {
            refuse(&of, "documents of this name say several: none of them counts".to_owned());
            all.extend(as_it_was(name));
        } else if let Some((known, _)) = TIERS.iter().find(|(_, priority)| *priority == of.priority) {
            refuse(&of, format!("{} is the priority of Tier {known}", of.priority));
            all.extend(as_it_was(name));
        } else if RESERVED.contains(&of.priority) || of.priority > 255 {
            refuse(&of, format!("{} is none of a Tier: 251, 252, 254 and 255 are reserved", of.priority));
            all.extend(as_it_was(name));
        } else {
            wanted.push(of);
        }
    }
    wanted.sort_by_key(|of| (before.get(of.name) != Some(&of.priority), of.origin));
    // Each that falls back to what it was may take that from another one, which falls back then.
    while let Some((place, holder)) = conflict(&wanted, &all, before) {
        let of = wanted.remove(place);
        refuse(&of, format!("{} is the priority of Tier {holder}", of.priority));
        all.extend(as_it_was(of.name));
    }
    all.extend(wanted.into_iter().map(|of| (of.name.to_owned(), of.priority)));
    (all, problems)
}

/// A Tier that wants a priority that another one has: the one that has it, or wants it before.
fn conflict(
    wanted: &[Wanted<'_>],
    all: &BTreeMap<String, u32>,
    before: &BTreeMap<String, u32>,
) -> Option<(usize, String)> {
    wanted.iter().enumerate().find_map(|(place, of)| {
        let has = all.iter().find(|(_, priority)| **priority == of.priority).map(|(name, _)| name.clone());
        let wants = || wanted[..place].iter().find(|other| other.priority == of.priority);
        let is_same = before.get(of.name) == Some(&of.priority);
        let holder = has.or_else(|| wants().map(|other| other.name.to_owned()))?;
        // Two that had one priority before are not told apart by that.
        (!is_same || before.get(&holder).is_none_or(|priority| *priority != of.priority)).then_some((place, holder))
    })
}

/// Names of Tiers that policies name.
pub(super) fn named(model: &Model) -> BTreeSet<&str> {
    let policies = model.antrea_policies.values().chain(model.cluster_policies.values());
    policies.filter_map(|item| item.body.spec.tier.as_deref()).collect()
}
