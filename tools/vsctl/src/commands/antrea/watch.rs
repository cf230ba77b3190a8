//! Counters of rules, as they change.

use super::rules::{missing, statistics_json};
use super::words::{ISOLATION, clock, some};
use super::{explained, find_policies};
use crate::cli::{Cli, Rules};
use crate::client::Client;
use crate::commands::events::next;
use crate::error::{self, Error};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use tonic::Streaming;
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1;

/// What two readings of the same beginning may differ by: it is told as an age, taken from a clock
/// that is read later.
const SINCE_JITTER_MS: u64 = 1000;

/// Writes one line for each rule, then one for each whose counters changed, until there were as
/// many as asked for or the switch stops.
pub(super) async fn follow(
    client: &Client,
    args: &Rules,
    period_ms: u32,
    cli: &Cli,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let timeout = cli.timeout;
    let beginning = tokio::time::timeout(timeout, begin(client, args, period_ms, cli.json)).await;
    let beginning = beginning.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))?;
    let mut stream = beginning.map_err(explained)?;
    let (mut known, mut left) = (Known::default(), args.count.unwrap_or(u64::MAX));
    while left > 0 {
        let message = next(client, &mut stream).await?;
        for change in known.changes(&message) {
            if left == 0 {
                break;
            }
            if cli.json {
                writeln!(out, "{}", change.json())?;
            } else {
                writeln!(out, "{}", change.text())?;
            }
            left -= 1;
        }
        out.flush()?;
    }
    Ok(())
}

async fn begin(
    client: &Client,
    args: &Rules,
    period_ms: u32,
    as_json: bool,
) -> Result<Streaming<v1::WatchRuleStatisticsResponse>, Error> {
    if !args.policies.is_empty() {
        // One that is not there yet may come: no error.
        let found = find_policies(client, &args.policies, None).await?;
        let warnings: Vec<_> = missing(&found, &args.policies).into_iter().collect();
        match warnings.is_empty() {
            true => {}
            false if as_json => error::warn_json(&warnings),
            false => error::warn(&warnings),
        }
    }
    let request = v1::WatchRuleStatisticsRequest { period_ms, policies: args.policies.clone() };
    client.answer(client.antrea_policies().await?.watch_rule_statistics(request).await)
}

/// What was told last of each rule, by policy and id.
#[derive(Default)]
struct Known(HashMap<(String, String), v1::RuleStatistics>);

/// A line.
struct Change<'a> {
    word: &'static str,
    unix_ms: u64,
    now: &'a v1::RuleStatistics,
    /// What it is compared with, if it was told before and counting did not begin anew.
    before: Option<v1::RuleStatistics>,
}

impl Known {
    fn changes<'a>(&mut self, message: &'a v1::WatchRuleStatisticsResponse) -> Vec<Change<'a>> {
        let key = |rule: &v1::RuleStatistics| {
            let rule = rule.rule.clone().unwrap_or_default();
            (rule.policy, rule.rule)
        };
        let unix_ms = message.unix_ms;
        let mut changes = Vec::new();
        for now in &message.rules {
            let before = self.0.insert(key(now), now.clone());
            let is_same_count = |old: &v1::RuleStatistics| {
                old.since_unix_ms.abs_diff(now.since_unix_ms) < SINCE_JITTER_MS && old.packets <= now.packets
            };
            let word = match &before {
                None => "rule",
                Some(old) if is_same_count(old) => "changed",
                Some(_) => "restarted",
            };
            changes.push(Change { word, unix_ms, now, before: before.filter(is_same_count) });
        }
        for now in &message.removed {
            let before = self.0.remove(&key(now));
            changes.push(Change { word: "removed", unix_ms, now, before });
        }
        changes
    }
}

impl Change<'_> {
    /// Counters by name, in their order.
    fn counters(rule: &v1::RuleStatistics) -> [(&'static str, u64); 5] {
        [
            ("sessions", rule.sessions),
            ("new", rule.new_packets),
            ("packets", rule.packets),
            ("bytes", rule.bytes),
            ("rejects", rule.rejects_sent),
        ]
    }

    /// Counters that grew, and by how much.
    fn growth(&self) -> Vec<(&'static str, u64)> {
        let Some(before) = &self.before else { return Vec::new() };
        let pairs = Self::counters(self.now).into_iter().zip(Self::counters(before));
        pairs.map(|((name, now), (_, then))| (name, now.saturating_sub(then))).filter(|(_, by)| *by > 0).collect()
    }

    /// `12:00:00.000 changed number=7 policy=P rule=R sessions=1 ... +packets=3`.
    fn text(&self) -> String {
        let rule = self.now.rule.clone().unwrap_or_default();
        let id = if rule.rule.is_empty() { ISOLATION } else { &rule.rule };
        let names = format!("number={} policy={} rule={}", rule.number, shown(&rule.policy), shown(id));
        let mut text = format!("{} {} {names}", clock(self.unix_ms), self.word);
        for (name, value) in Self::counters(self.now) {
            text.push_str(&format!(" {name}={value}"));
        }
        for (name, by) in self.growth() {
            text.push_str(&format!(" +{name}={by}"));
        }
        text
    }

    fn json(&self) -> Value {
        let rule = self.now.rule.clone().unwrap_or_default();
        let growth: serde_json::Map<_, _> =
            self.growth().into_iter().map(|(name, by)| (name.to_owned(), by.into())).collect();
        json!({
            "event": self.word,
            "unix_ms": self.unix_ms,
            "number": rule.number,
            "policy": rule.policy,
            "rule": some(rule.rule),
            "statistics": statistics_json(self.now),
            "growth": growth,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(packets: u64, since_unix_ms: u64) -> v1::RuleStatistics {
        let rule = v1::RuleRef { policy: "np:a/b".to_owned(), rule: "ingress-0".to_owned(), number: 7 };
        v1::RuleStatistics {
            rule: Some(rule),
            sessions: 1,
            new_packets: 2,
            packets,
            bytes: packets * 100,
            since_unix_ms,
            ..Default::default()
        }
    }

    fn told(known: &mut Known, message: &v1::WatchRuleStatisticsResponse) -> Vec<String> {
        known.changes(message).iter().map(Change::text).collect()
    }

    #[test]
    fn what_changed_is_told_with_how_much() {
        let mut known = Known::default();
        let message = |rules, removed| v1::WatchRuleStatisticsResponse { unix_ms: 3_600_001, rules, removed };
        let first = told(&mut known, &message(vec![statistics(10, 5)], Vec::new()));
        let names = "number=7 policy=np:a/b rule=ingress-0 sessions=1 new=2";
        assert_eq!(first, [format!("01:00:00.001 rule {names} packets=10 bytes=1000 rejects=0")]);
        assert_eq!(told(&mut known, &message(Vec::new(), Vec::new())), Vec::<String>::new());
        let second = told(&mut known, &message(vec![statistics(13, 5)], Vec::new()));
        let want = format!("01:00:00.001 changed {names} packets=13 bytes=1300 rejects=0 +packets=3 +bytes=300");
        assert_eq!(second, [want]);
        let third = told(&mut known, &message(vec![statistics(2, 9)], Vec::new()));
        assert_eq!(third, [format!("01:00:00.001 restarted {names} packets=2 bytes=200 rejects=0")]);
        let rule = Some(v1::RuleRef { policy: "np:a/b".to_owned(), ..Default::default() });
        let isolation = v1::RuleStatistics { rule, ..Default::default() };
        let other = told(&mut known, &message(vec![isolation.clone()], Vec::new()));
        assert!(other[0].contains(" rule number=0 policy=np:a/b rule=(isolation) "), "{other:?}");
        told(&mut known, &message(Vec::new(), vec![isolation]));
        let last = told(&mut known, &message(Vec::new(), vec![statistics(2, 9)]));
        assert_eq!(last, [format!("01:00:00.001 removed {names} packets=2 bytes=200 rejects=0")]);
        assert!(known.0.is_empty());
    }

    #[test]
    fn programs_get_one_line_each() {
        let mut known = Known::default();
        let message = |packets| v1::WatchRuleStatisticsResponse {
            unix_ms: 1,
            rules: vec![statistics(packets, 0)],
            removed: Vec::new(),
        };
        known.changes(&message(1));
        let message = message(4);
        let json = known.changes(&message)[0].json();
        assert!(!json.to_string().contains('\n'));
        assert_eq!(
            (&json["event"], &json["policy"], &json["number"]),
            (&json!("changed"), &json!("np:a/b"), &json!(7))
        );
        assert_eq!(
            (&json["growth"], &json["statistics"]["packets"]),
            (&json!({ "packets": 3, "bytes": 300 }), &json!(4))
        );
    }
}
