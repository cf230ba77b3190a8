//! Flow priorities of rules of Antrea's policies.
//!
//! Rules of a table are in order: by tier, by the policy's priority, by the rule's place, by what
//! it does. Each of these ranks has a flow priority of its own, higher ones first. A rank gets the
//! value that Antrea's formula gives it, if those before and behind it leave room for that, else
//! the nearest that they leave; if they leave none, the shortest run of neighbours without a gap
//! moves by one. Otherwise values stay: a rule that moves has all its flows written anew.

use super::{Ids, RuleKey};
use crate::{Code, Key, ObjectKind, Problem, Table};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What a rule does, in the order in which rules of one place are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Dropped.
    Drop,
    /// Refused.
    Reject,
    /// Allowed, by way of the application-aware engine.
    AllowL7,
    /// Allowed.
    Allow,
    /// Left to K8s policies.
    Pass,
}

/// Where a rule is in the order of its table. Two rules of one rank do the same, so that it does
/// not matter which one a packet meets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    tier: u32,
    /// Bits of a number that is not negative: in its order.
    priority: u64,
    place: u32,
    effect: Effect,
    /// Those that tell go before those that do not.
    quiet: bool,
    /// Rules of the engine differ by their VLANs.
    alone: Option<RuleKey>,
}

/// Tier whose policies are 100 apart: Antrea's default one.
const DEFAULT_TIER: u32 = 250;

/// Tier behind the baseline tier. Its values are the lower half of the table's, so that neither
/// tier has to make room for the other one.
const LAST_TIER: u32 = 254;

impl Rank {
    /// Of a rule of an Antrea policy. `priority` is not negative.
    #[must_use]
    pub fn new(tier: u32, priority: f64, place: u32, effect: Effect, logging: bool, key: &RuleKey) -> Self {
        let alone = (effect == Effect::AllowL7).then(|| key.clone());
        Self { tier, priority: (priority.max(0.0) + 0.0).to_bits(), place, effect, quiet: !logging, alone }
    }

    /// The value that Antrea's formula gives it, within the table's bounds.
    fn wanted(&self, table: Table) -> u16 {
        let priority = f64::from_bits(self.priority);
        let (place, tier) = (f64::from(self.place), f64::from(self.tier));
        let value = match self.tier {
            LAST_TIER if is_baseline(table) => 90.0 - (10.0 * priority + place),
            _ if is_baseline(table) => 180.0 - (10.0 * priority + place),
            DEFAULT_TIER => 65000.0 - (200.0 * tier + 100.0 * priority + place),
            _ => 65000.0 - (200.0 * tier + 20.0 * priority + place),
        };
        let bounds = bounds(table);
        // Cut to the bounds, which are a u16's
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let value = value.floor().max(f64::from(*bounds.start())).min(f64::from(*bounds.end())) as u16;
        value
    }
}

const fn is_baseline(table: Table) -> bool {
    matches!(table, Table::EgressDefaultRule | Table::IngressDefaultRule)
}

const fn bounds(table: Table) -> RangeInclusive<u16> {
    if is_baseline(table) { 10..=180 } else { 100..=64980 }
}

/// The value of a rank, and the rules that have it.
#[derive(Clone, Debug)]
struct Held {
    value: u16,
    rules: BTreeSet<RuleKey>,
}

/// Ranks of one table: the lower, the higher their value.
type Ranks = BTreeMap<Rank, Held>;

/// Priorities by rank.
#[derive(Clone, Debug, Default)]
pub struct Priorities {
    tables: BTreeMap<Table, Ranks>,
    rules: HashMap<RuleKey, (Table, Rank)>,
}

/// The table has no value left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Priorities {
    /// Bytes that they take, about.
    #[must_use]
    pub(super) fn memory(&self) -> usize {
        self.rules.capacity() * size_of::<(RuleKey, (Table, Rank))>()
    }

    /// A rule's.
    #[must_use]
    pub fn get(&self, rule: &RuleKey) -> Option<u16> {
        let (table, rank) = self.rules.get(rule)?;
        self.tables.get(table)?.get(rank).map(|held| held.value)
    }

    /// Whether a rule is there already.
    #[must_use]
    pub fn is_at(&self, rule: &RuleKey, table: Table, rank: &Rank) -> bool {
        self.rules.get(rule).is_some_and(|(at, of)| *at == table && of == rank)
    }

    /// The rule is there from now on; returns those that had to make room.
    ///
    /// # Errors
    /// There is no room.
    pub fn insert(&mut self, rule: &RuleKey, table: Table, rank: Rank) -> Result<BTreeSet<RuleKey>, Full> {
        self.remove(rule);
        let ranks = self.tables.entry(table).or_default();
        let mut moved = BTreeSet::new();
        if let Some(held) = ranks.get_mut(&rank) {
            held.rules.insert(rule.clone());
        } else {
            let value = match free_value(ranks, table, &rank) {
                Some(value) => value,
                None => make_room(ranks, table, &rank, &mut moved).ok_or(Full)?,
            };
            ranks.insert(rank.clone(), Held { value, rules: BTreeSet::from([rule.clone()]) });
        }
        self.rules.insert(rule.clone(), (table, rank));
        Ok(moved)
    }

    /// The rule is gone. Others stay where they are.
    pub fn remove(&mut self, rule: &RuleKey) {
        let Some((table, rank)) = self.rules.remove(rule) else { return };
        let Some(ranks) = self.tables.get_mut(&table) else { return };
        if let Some(held) = ranks.get_mut(&rank) {
            held.rules.remove(rule);
            if held.rules.is_empty() {
                ranks.remove(&rank);
            }
        }
    }
}

/// The nearest value to the wanted one between those before and behind.
fn free_value(ranks: &Ranks, table: Table, rank: &Rank) -> Option<u16> {
    let bounds = bounds(table);
    let highest = ranks.range(..rank).next_back().map_or(*bounds.end(), |(_, held)| held.value - 1);
    let lowest = ranks.range(rank..).next().map_or(*bounds.start(), |(_, held)| held.value + 1);
    (lowest <= highest).then(|| rank.wanted(table).clamp(lowest, highest))
}

/// Moves the shorter of the two runs without a gap, those before it up or those behind it down, by
/// one; returns the value that this leaves free.
fn make_room(ranks: &mut Ranks, table: Table, rank: &Rank, moved: &mut BTreeSet<RuleKey>) -> Option<u16> {
    let bounds = bounds(table);
    let before = run(ranks.range(..rank).rev().map(|(_, held)| held.value), |value| value + 1, *bounds.end());
    let behind = run(ranks.range(rank..).map(|(_, held)| held.value), |value| value - 1, *bounds.start());
    let mut freed = None;
    let mut shift = |held: &mut Held, to: u16| {
        freed = freed.or(Some(held.value));
        held.value = to;
        moved.extend(held.rules.iter().cloned());
    };
    match (before, behind) {
        (Some(before), behind) if behind.is_none_or(|behind| before < behind) => {
            ranks.range_mut(..rank).rev().take(before).for_each(|(_, held)| shift(held, held.value + 1));
        }
        (_, Some(behind)) => ranks.range_mut(rank..).take(behind).for_each(|(_, held)| shift(held, held.value - 1)),
        (_, None) => {}
    }
    freed
}

/// How many values follow each other without a gap; None: up to the bound.
fn run(values: impl Iterator<Item = u16>, next: impl Fn(u16) -> u16, bound: u16) -> Option<usize> {
    let mut count = 0;
    let mut last: Option<u16> = None;
    for value in values {
        if last.is_some_and(|last| next(last) != value) {
            break;
        }
        count += 1;
        last = Some(value);
    }
    last.filter(|last| *last != bound).map(|_| count)
}

impl Ids {
    /// A rule's flow priority: see [`Priorities`]. Policies of rules that made room are told by
    /// [`Ids::take_moved`].
    ///
    /// # Errors
    /// There are no more.
    pub fn claim_priority(&mut self, key: &RuleKey, table: Table, rank: Rank) -> Result<(), Problem> {
        if self.priorities.is_at(key, table, &rank) {
            return Ok(());
        }
        let moved = Arc::make_mut(&mut self.priorities).insert(key, table, rank).map_err(|Full| {
            let bounds = bounds(table);
            let most = usize::from(bounds.end() - bounds.start()) + 1;
            let reason = format!("table {} has no more priorities: at most {most} different ones", table.name());
            Problem::new(Code::Limit, "", reason)
        })?;
        for rule in moved {
            self.moved(Key { kind: ObjectKind::NetworkPolicy, name: rule.policy });
        }
        Ok(())
    }

    /// The rule has none any more.
    pub fn release_priority(&mut self, key: &RuleKey) {
        if self.priorities.rules.contains_key(key) {
            Arc::make_mut(&mut self.priorities).remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
