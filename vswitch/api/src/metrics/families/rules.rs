//! Rules of policies; nothing, unless `[observe] rule_metrics` asks for them.

use super::super::family::{Family, Samples, counter};
use crate::services::Reading;
use vswitch_proto::antrea::v1::RuleStatistics;

/// Rules that are shown at most, in the order of their numbers; the rest is summed as `other`.
const RULES_MAX: usize = 4096;

/// Both labels of the rest.
const OTHER: &str = "other";

pub(super) static FAMILIES: &[Family] = &[
    counter(
        "vswitch_antrea_rule_packets_total",
        "Packets of connections that a rule allowed, or that it denied, by policy and rule.",
        &["policy", "rule"],
        "NetworkPolicyService.ListNetworkPolicies rules.statistics.packets",
        |reading, samples| each(reading, samples, |rule| rule.packets),
    ),
    counter(
        "vswitch_antrea_rule_bytes_total",
        "Bytes of packets of connections that a rule allowed, or that it denied, by policy and rule.",
        &["policy", "rule"],
        "NetworkPolicyService.ListNetworkPolicies rules.statistics.bytes",
        |reading, samples| each(reading, samples, |rule| rule.bytes),
    ),
    counter(
        "vswitch_antrea_rule_sessions_total",
        "Connections that a rule allowed, by policy and rule.",
        &["policy", "rule"],
        "NetworkPolicyService.ListNetworkPolicies rules.statistics.sessions",
        |reading, samples| each(reading, samples, |rule| rule.sessions),
    ),
];

fn each(reading: &Reading, samples: &mut Samples<'_>, value: impl Fn(&RuleStatistics) -> u64) {
    let (shown, others) = reading.rules.split_at(reading.rules.len().min(RULES_MAX));
    for rule in shown {
        let name = rule.rule.clone().unwrap_or_default();
        samples.push(&[&name.policy, &name.rule], value(rule));
    }
    if !others.is_empty() {
        samples.push(&[OTHER, OTHER], others.iter().map(value).sum::<u64>());
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::encode::{Format, encode};
    use super::super::super::tests::large;
    use super::*;
    use vswitch_proto::antrea::v1::RuleRef;

    #[test]
    fn rules_beyond_the_limit_are_summed() {
        let rule = |number: u32| RuleStatistics {
            rule: Some(RuleRef { policy: "np:a/b".to_owned(), rule: format!("r{number}"), number }),
            packets: 2,
            ..RuleStatistics::default()
        };
        let rules: Vec<RuleStatistics> = (0..5000).map(rule).collect();
        let (text, series) = encode(FAMILIES.iter(), &Reading { rules, ..large() }, Format::Text);
        assert_eq!(series, 3 * (RULES_MAX + 1));
        assert!(text.contains("vswitch_antrea_rule_packets_total{policy=\"np:a/b\",rule=\"r4095\"} 2\n"));
        assert!(text.contains("vswitch_antrea_rule_packets_total{policy=\"other\",rule=\"other\"} 1808\n"));
        assert!(!text.contains("r4096"));
    }
}
