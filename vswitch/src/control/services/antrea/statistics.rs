//! Counters of rules.

use super::list::metric;
use crate::control::antrea::Shown;
use crate::time::unix_ms;
use std::collections::{BTreeMap, BTreeSet};
use vswitch_antrea::Table;
use vswitch_proto::antrea::v1;

/// Tables whose flows count for rules.
const METRICS: [Table; 4] =
    [Table::EgressMetric, Table::IngressMetric, Table::MulticastEgressMetric, Table::MulticastIngressMetric];

/// Counters of all rules by number, from the flows that count for them.
pub(super) fn by_number(shown: &Shown<'_>) -> BTreeMap<u32, v1::RuleStatistics> {
    let now = unix_ms();
    let mut rules: BTreeMap<u32, v1::RuleStatistics> = BTreeMap::new();
    for info in METRICS.iter().flat_map(|table| shown.counted.table(*table)) {
        let Some((number, is_new, is_denied)) = metric(&info.flow) else { continue };
        let counters = info.counters;
        let rule = rules.entry(number).or_insert_with(|| v1::RuleStatistics {
            since_unix_ms: now.saturating_sub(counters.duration_ms),
            ..v1::RuleStatistics::default()
        });
        rule.packets += counters.packets;
        rule.bytes += counters.bytes;
        if is_new || is_denied {
            rule.new_packets += counters.packets;
        }
        if counters.packets > 0 {
            rule.last_unix_ms = rule.last_unix_ms.max(now.saturating_sub(counters.idle_age_s * 1000));
        }
    }
    // IGMP is decided by its reader.
    for (key, packets) in &shown.igmp.counters.rules {
        if let Some(number) = shown.ids().rule(key) {
            let rule = rules.entry(number).or_default();
            rule.packets += packets;
            rule.new_packets += packets;
        }
    }
    rules
}

/// Counters of all rules of some policies (none: of all) that have a number.
pub(super) fn rules(shown: &Shown<'_>, policies: &BTreeSet<String>) -> BTreeMap<u32, v1::RuleStatistics> {
    let mut counted = by_number(shown);
    counted.retain(|number, statistics| {
        let Some(key) = shown.ids().rule_of(*number) else { return false };
        let rule = v1::RuleRef { policy: key.policy.to_string(), rule: key.rule.to_string(), number: *number };
        statistics.rule = Some(rule);
        policies.is_empty() || policies.contains(&*key.policy)
    });
    counted
}

/// What one who watches is told: rules whose counters changed, and those that are gone, since `before`.
pub(super) fn difference(
    before: &BTreeMap<u32, v1::RuleStatistics>,
    now: &BTreeMap<u32, v1::RuleStatistics>,
) -> (Vec<v1::RuleStatistics>, Vec<v1::RuleStatistics>) {
    let same = |one: &v1::RuleStatistics, other: &v1::RuleStatistics| {
        (one.packets, one.bytes, one.new_packets, one.sessions)
            == (other.packets, other.bytes, other.new_packets, other.sessions)
    };
    let is_changed =
        |(number, rule): &(&u32, &v1::RuleStatistics)| !before.get(number).is_some_and(|old| same(old, rule));
    let changed = now.iter().filter(is_changed).map(|(_, rule)| rule.clone()).collect();
    let gone = before.iter().filter(|(number, _)| !now.contains_key(number)).map(|(_, rule)| rule.clone()).collect();
    (changed, gone)
}
