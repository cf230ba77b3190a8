//! What there is, for those who ask. Made from a program alone: no lock is held while 100,000 flows
//! are copied.

use super::refs::{self, Ref};
use super::{FlowCount, FlowInfo, GroupInfo, MeterInfo, TableInfo, filter};
use crate::pipeline::{LearnedTable, Program, Rule, RuleStats, Table};
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::SparseMatch;
use vswitch_flow::classifier::Classifier;
use vswitch_flow::spec::FlowFilter;
use vswitch_flow::text::FlowCounters;

/// What a rule has counted.
fn counters(rule: &Rule, now: Millis) -> FlowCounters {
    let since = |then: u64| now.0.saturating_sub(then);
    FlowCounters {
        duration_ms: since(rule.created_ms),
        packets: rule.stats.packets.load(Relaxed),
        bytes: rule.stats.bytes.load(Relaxed),
        idle_age_s: since(rule.stats.used_ms.load(Relaxed)) / 1000,
        hard_age_s: since(rule.modified_ms.load(Relaxed)) / 1000,
        commits: rule.stats.commits.load(Relaxed),
        rejects: rule.stats.rejects.load(Relaxed),
    }
}

/// A rule as it is.
pub(super) fn flow_info(rule: &Rule, now: Millis) -> FlowInfo {
    FlowInfo { flow: rule.spec(), counters: counters(rule, now) }
}

impl Program {
    /// Flows that a filter selects, learned ones included, by table, then in the order they were
    /// added.
    #[must_use]
    pub fn flows(&self, filter: &FlowFilter, now: Millis) -> Vec<FlowInfo> {
        let learned = self.learned.tables();
        let mut rules: Vec<&Arc<Rule>> = self.rules(&learned).filter(|rule| filter::selects(filter, rule)).collect();
        rules.sort_unstable_by_key(|rule| (rule.table, rule.serial));
        rules.into_iter().map(|rule| flow_info(rule, now)).collect()
    }

    /// Shows what the flows of some tables have counted, learned ones included, in no order.
    pub fn count_flows(&self, tables: &[u8], now: Millis, visit: &mut dyn FnMut(FlowCount<'_>)) {
        let learned = self.learned.tables();
        for rule in self.rules_of(&learned, |table| tables.contains(&table)) {
            let Rule { table, priority, cookie, ref matching, .. } = **rule;
            visit(FlowCount { table, priority, matching, cookie, counters: counters(rule, now) });
        }
    }

    /// Counters of the flow with exactly this match, as long as somebody credits them: they go on
    /// when the flow goes. Not of learned flows.
    #[must_use]
    pub fn rule_stats(&self, table: u8, priority: u16, matching: &SparseMatch) -> Option<Arc<RuleStats>> {
        Some(Arc::clone(&self.table(table)?.rules.get(matching, priority)?.data.stats))
    }

    /// All rules, in no order. Hand-made ones that learned ones have replaced are not there any
    /// more.
    pub(super) fn rules<'a>(&'a self, learned: &'a [Option<Arc<LearnedTable>>]) -> impl Iterator<Item = &'a Arc<Rule>> {
        self.rules_of(learned, |_| true)
    }

    /// Those of some tables.
    fn rules_of<'a>(
        &'a self,
        learned: &'a [Option<Arc<LearnedTable>>],
        is_wanted: impl Fn(u8) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = &'a Arc<Rule>> {
        let there = |table: &Table, rule: &Rule| {
            let learned = learned.get(usize::from(table.id)).and_then(Option::as_ref);
            learned.is_none_or(|learned| learned.rules.get(&rule.matching, rule.priority).is_none())
        };
        let hand_made =
            self.tables.iter().flatten().filter(move |table| is_wanted(table.id)).flat_map(move |table| {
                table.rules.iter().map(|entry| &entry.data).filter(move |rule| there(table, rule))
            });
        let learned =
            (0..=u8::MAX).zip(learned).filter(move |(id, _)| is_wanted(*id)).filter_map(|(_, table)| table.as_ref());
        hand_made.chain(learned.flat_map(|table| table.rules.iter()).map(|entry| &entry.data))
    }

    /// How many rules a table has.
    fn len(&self, id: u8, learned: &[Option<Arc<LearnedTable>>]) -> usize {
        let hand_made = self.table(id).map(|table| &table.rules);
        let Some(learned) = learned.get(usize::from(id)).and_then(Option::as_ref).map(|table| &table.rules) else {
            return hand_made.map_or(0, Classifier::len);
        };
        let Some(hand_made) = hand_made else { return learned.len() };
        let replaced = learned.iter().filter(|entry| hand_made.get(&entry.matching, entry.priority).is_some()).count();
        hand_made.len() + learned.len() - replaced
    }

    /// Tables that have a name or a flow.
    #[must_use]
    pub fn table_infos(&self, names: &BTreeMap<u8, String>) -> Vec<TableInfo> {
        let learned = self.learned.tables();
        let info = |id: u8| {
            let table: Option<&Arc<Table>> = self.table(id);
            TableInfo {
                id,
                name: names.get(&id).cloned(),
                flows: self.len(id, &learned) as u64,
                lookups: table.map_or(0, |table| table.stats.lookups.load(Relaxed)),
                matches: table.map_or(0, |table| table.stats.matches.load(Relaxed)),
                learn_refused: self.learned.refused(id),
            }
        };
        (0..=u8::MAX).map(info).filter(|info| info.flows > 0 || info.name.is_some()).collect()
    }

    /// How often flows use each group, and how many flows each meter: a flow that names a group
    /// twice counts twice, as in Open vSwitch.
    fn uses(&self) -> HashMap<Ref, u64> {
        let mut uses = HashMap::new();
        // Learned rules use neither.
        for rule in self.rules(&[]) {
            let mut meters = BTreeSet::new();
            refs::refs(&rule.actions, &mut |what| {
                let counts = match what {
                    Ref::Group(_) => true,
                    Ref::Meter(id) => meters.insert(id),
                };
                *uses.entry(what).or_default() += u64::from(counts);
            });
        }
        uses
    }

    /// All groups (or one), by id.
    #[must_use]
    pub fn group_infos(&self, id: Option<u32>, now: Millis) -> Vec<GroupInfo> {
        let uses = self.uses();
        let mut groups: Vec<_> = self.groups.values().filter(|g| id.is_none_or(|id| id == g.spec.id)).collect();
        groups.sort_unstable_by_key(|group| group.spec.id);
        let info = |group: &Arc<crate::group::Group>| GroupInfo {
            group: group.spec.clone(),
            duration_ms: now.0.saturating_sub(group.created_ms),
            ref_count: uses.get(&Ref::Group(group.spec.id)).copied().unwrap_or(0),
            packets: group.stats.packets.load(Relaxed),
            bytes: group.stats.bytes.load(Relaxed),
            buckets: group.stats.buckets.iter().map(|(p, b)| (p.load(Relaxed), b.load(Relaxed))).collect(),
        };
        groups.into_iter().map(info).collect()
    }

    /// All meters (or one), by id.
    #[must_use]
    pub fn meter_infos(&self, id: Option<u32>, now: Millis) -> Vec<MeterInfo> {
        let uses = self.uses();
        let mut meters: Vec<_> = self.meters.values().filter(|m| id.is_none_or(|id| id == m.spec.id)).collect();
        meters.sort_unstable_by_key(|meter| meter.spec.id);
        let info = |meter: &Arc<crate::meter::Meter>| {
            let stats = meter.stats();
            MeterInfo {
                meter: meter.spec.clone(),
                duration_ms: now.0.saturating_sub(meter.created_ms()),
                flow_count: uses.get(&Ref::Meter(meter.spec.id)).copied().unwrap_or(0),
                packets: stats.packets,
                bytes: stats.bytes,
                bands: stats.bands,
            }
        };
        meters.into_iter().map(info).collect()
    }
}
