//! Counters of rules.

use std::collections::{BTreeMap, BTreeSet};
use vswitch_antrea_node::{Antrea, RuleCount, Shown, Wanted};
use vswitch_dataplane::time::unix_ms;
use vswitch_proto::antrea::v1;

fn told(count: &RuleCount, now: u64) -> v1::RuleStatistics {
    let RuleCount { sessions, new_packets, packets, bytes, rejects, idle_s, since_ms } = *count;
    v1::RuleStatistics {
        rule: None,
        sessions,
        new_packets,
        packets,
        bytes,
        rejects_sent: rejects,
        last_unix_ms: idle_s.map_or(0, |idle| now.saturating_sub(idle * 1000)),
        since_unix_ms: now.saturating_sub(since_ms),
    }
}

/// Counters of all rules by number.
pub(super) fn by_number(shown: &Shown<'_>) -> BTreeMap<u32, v1::RuleStatistics> {
    let now = unix_ms();
    let counted = shown.counted.rules().iter();
    let mut rules: BTreeMap<u32, v1::RuleStatistics> =
        counted.map(|(number, rule)| (*number, told(rule, now))).collect();
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

/// Counters of all rules in the order of their numbers; none without a Node.
pub(crate) fn rule_statistics(antrea: &Antrea) -> Vec<v1::RuleStatistics> {
    let wanted = Wanted { rules: true, ..Wanted::default() };
    let told = antrea.show(wanted, |shown| rules(shown, &BTreeSet::new()).into_values().collect());
    told.unwrap_or_default()
}

/// What one who watches is told: rules whose counters changed, and those that are gone, since
/// `before`.
pub(super) fn difference(
    before: &BTreeMap<u32, v1::RuleStatistics>,
    now: &BTreeMap<u32, v1::RuleStatistics>,
) -> (Vec<v1::RuleStatistics>, Vec<v1::RuleStatistics>) {
    let same = |one: &v1::RuleStatistics, other: &v1::RuleStatistics| {
        (one.packets, one.bytes, one.new_packets, one.sessions, one.rejects_sent)
            == (other.packets, other.bytes, other.new_packets, other.sessions, other.rejects_sent)
    };
    let is_changed =
        |(number, rule): &(&u32, &v1::RuleStatistics)| !before.get(number).is_some_and(|old| same(old, rule));
    let changed = now.iter().filter(is_changed).map(|(_, rule)| rule.clone()).collect();
    let gone = before.iter().filter(|(number, _)| !now.contains_key(number)).map(|(_, rule)| rule.clone()).collect();
    (changed, gone)
}
