//! The page of policies.

use super::before::{Before, per_second};
use super::sheet::{Cell, Column, Row, Sheet, name, number, rounded};
use crate::commands::antrea::{action, direction};
use vswitch_proto::antrea::v1;

const COLUMNS: &[Column] = &[
    name("POLICY", "policy"),
    name("RULE", "rule"),
    name("ACTION", "action"),
    number("PACKETS/S", "packets_per_second"),
    number("BIT/S", "bits_per_second"),
    number("NEW/S", "new_per_second"),
    number("PACKETS", "packets"),
    name("DIRECTION", "direction"),
];

/// Where the page has its rates: packets per second.
pub(super) const MAIN: usize = 3;

/// Policies of the Node. None: there is no Node.
pub(super) type Policies = Option<Vec<v1::NetworkPolicyState>>;

/// Rules that deny come first: it is them that one looks for.
const DENIES: u8 = 0;
const ALLOWS: u8 = 1;

/// The page.
pub(super) fn sheet(now: &Policies, before: Option<Before<'_, Policies>>) -> Sheet {
    let Some(policies) = now else {
        let mut sheet = Sheet::new(COLUMNS, "no Node: no agent has declared one, so there are no policies");
        sheet.fact("has_node", false);
        return sheet;
    };
    let mut sheet = Sheet::new(COLUMNS, "no rules of policies");
    let [mut denied, mut allowed] = [0.0; 2];
    for (policy, state) in rules(policies) {
        let rates = rates(policy, state, before);
        let rule = state.rule.clone().unwrap_or_default();
        let is_denial = matches!(rule.action(), v1::RuleAction::Drop | v1::RuleAction::Reject);
        *if is_denial { &mut denied } else { &mut allowed } += rates[0].unwrap_or(0.0);
        let [packets, bits, new] = rates.map(Cell::Rate);
        sheet.rows.push(Row {
            rank: if is_denial { DENIES } else { ALLOWS },
            cells: vec![
                Cell::text(policy),
                Cell::text(&rule.id),
                Cell::text(action(rule.action())),
                packets,
                bits,
                new,
                Cell::Count(Some(state.statistics.as_ref().map_or(0, |statistics| statistics.packets))),
                Cell::text(direction(rule.direction())),
            ],
        });
    }
    let (count, rules) = (policies.len(), sheet.rows.len());
    let (denied_text, allowed_text) = (rounded(denied), rounded(allowed));
    sheet
        .lines
        .push(format!("policies: {count}, rules: {rules}; packets/s: denied {denied_text}, others {allowed_text}"));
    sheet.lines.push("isolation without a rule is not in the list: page 3 shows what it drops".to_owned());
    sheet.fact("has_node", true);
    sheet.fact("policies", count);
    sheet.fact("denied_packets_per_second", denied);
    sheet.fact("other_packets_per_second", allowed);
    sheet
}

/// All rules, with the names of their policies.
fn rules(policies: &[v1::NetworkPolicyState]) -> impl Iterator<Item = (&str, &v1::RuleState)> {
    policies.iter().flat_map(|state| {
        let name = state.policy.as_ref().map_or("", |policy| policy.name.as_str());
        state.rules.iter().map(move |rule| (name, rule))
    })
}

fn id(state: &v1::RuleState) -> &str {
    state.rule.as_ref().map_or("", |rule| rule.id.as_str())
}

/// Packets, bits and new connections per second.
fn rates(policy: &str, now: &v1::RuleState, before: Option<Before<'_, Policies>>) -> [Option<f64>; 3] {
    let found = before.and_then(|before| {
        // A policy has few rules: it is found first, then the rule.
        let policies = before.data.as_ref()?;
        let old = policies.iter().find(|old| old.policy.as_ref().is_some_and(|old| old.name == policy))?;
        let old = old.rules.iter().find(|old| id(old) == id(now))?;
        Some((old.statistics.clone().unwrap_or_default(), before.seconds))
    });
    let Some((old, seconds)) = found else { return [None; 3] };
    let now = now.statistics.clone().unwrap_or_default();
    if now.since_unix_ms != old.since_unix_ms {
        return [None; 3];
    }
    let rate = |count: fn(&v1::RuleStatistics) -> u64, factor: f64| {
        Some(per_second(count(&now).checked_sub(count(&old))?, seconds) * factor)
    };
    [rate(|rule| rule.packets, 1.0), rate(|rule| rule.bytes, 8.0), rate(|rule| rule.new_packets, 1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::sheet::Order;

    fn policy(name: &str, rules: &[(&str, v1::RuleAction, u64)]) -> v1::NetworkPolicyState {
        let rule = |&(id, action, packets): &(&str, v1::RuleAction, u64)| v1::RuleState {
            rule: Some(v1::Rule { id: id.to_owned(), action: action.into(), direction: 1, ..Default::default() }),
            statistics: Some(v1::RuleStatistics {
                packets,
                bytes: packets * 100,
                new_packets: packets / 10,
                since_unix_ms: 5,
                ..Default::default()
            }),
            ..Default::default()
        };
        v1::NetworkPolicyState {
            policy: Some(v1::NetworkPolicy { name: name.to_owned(), ..Default::default() }),
            rules: rules.iter().map(rule).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn rules_that_deny_come_first() {
        let (allow, drop, reject) = (v1::RuleAction::Allow, v1::RuleAction::Drop, v1::RuleAction::Reject);
        let state = |times: u64| {
            let shop = policy("np:shop/web", &[("web", allow, 1000 * times), ("others", drop, 10 * times)]);
            Some(vec![shop, policy("acnp:admin", &[("no", reject, 20 * times)])])
        };
        let (old, now) = (state(1), state(3));
        let mut sheet = sheet(&now, Some(Before { data: &old, seconds: 2.0 }));
        sheet.sort(Order::most(MAIN));
        let want = "\
policies: 2, rules: 3; packets/s: denied 30.0, others 1.00k
isolation without a rule is not in the list: page 3 shows what it drops
POLICY       RULE    ACTION  PACKETS/S  BIT/S  NEW/S  PACKETS  DIRECTION
acnp:admin   no      reject       20.0  16.0k    2.0       60  ingress
np:shop/web  others  drop         10.0  8.00k    1.0       30  ingress
np:shop/web  web     allow       1.00k   800k    100     3000  ingress
";
        assert_eq!(sheet.text(), want);
        assert_eq!(sheet.facts["denied_packets_per_second"], 30.0);
    }

    #[test]
    fn a_switch_without_a_node_says_so() {
        let sheet = sheet(&None, None);
        assert_eq!(sheet.text(), "(no Node: no agent has declared one, so there are no policies)\n");
        assert_eq!(sheet.facts["has_node"], false);
    }
}
