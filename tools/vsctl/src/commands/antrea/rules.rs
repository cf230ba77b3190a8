//! Rules of policies, with their counters.

use super::listing::{Listing, cells};
use super::words::{ago, now_ms, or_dash, or_none, protocol, some};
use crate::cli::Rules as Args;
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Columns, Report};
use serde_json::{Value, json};
use vswitch_proto::antrea::v1;

/// `rules`.
pub(super) async fn show(client: &Client, args: &Args) -> Answer {
    let policies = super::find_policies(client, &args.policies, args.pod.as_deref()).await?;
    let missing = if args.pod.is_some() { None } else { missing(&policies, &args.policies) };
    Ok(Box::new(Rules { policies, missing, now_ms: now_ms() }))
}

/// What to say of policies that were asked for and are not there.
pub(super) fn missing(found: &[v1::NetworkPolicyState], names: &[String]) -> Option<String> {
    Listing::new(found.to_vec(), names).missing().map(|error| error.to_string())
}

/// Rules in the order of their policies.
struct Rules {
    policies: Vec<v1::NetworkPolicyState>,
    missing: Option<String>,
    now_ms: u64,
}

const COLUMNS: Columns<'_> = &[
    ("NUMBER", true),
    ("POLICY", false),
    ("RULE", false),
    ("DIRECTION", false),
    ("TABLE", false),
    ("PRIORITY", true),
    ("ACTION", false),
    ("SESSIONS", true),
    ("NEW", true),
    ("PACKETS", true),
    ("BYTES", true),
    ("LAST", false),
];

pub(in crate::commands) const fn direction(direction: v1::Direction) -> &'static str {
    match direction {
        v1::Direction::Unspecified => "unknown",
        v1::Direction::Ingress => "ingress",
        v1::Direction::Egress => "egress",
    }
}

pub(in crate::commands) const fn action(action: v1::RuleAction) -> &'static str {
    match action {
        v1::RuleAction::Unspecified | v1::RuleAction::Allow => "allow",
        v1::RuleAction::Drop => "drop",
        v1::RuleAction::Reject => "reject",
        v1::RuleAction::Pass => "pass",
    }
}

fn row(policy: &str, state: &v1::RuleState, now_ms: u64) -> Vec<String> {
    let rule = state.rule.clone().unwrap_or_default();
    let statistics = state.statistics.clone().unwrap_or_default();
    vec![
        or_none(state.number),
        policy.to_owned(),
        rule.id.clone(),
        direction(rule.direction()).to_owned(),
        or_dash(&state.table),
        or_none(state.priority),
        action(rule.action()).to_owned(),
        statistics.sessions.to_string(),
        statistics.new_packets.to_string(),
        statistics.packets.to_string(),
        statistics.bytes.to_string(),
        ago(statistics.last_unix_ms, now_ms),
    ]
}

impl Report for Rules {
    fn text(&self) -> String {
        let of_policy = |state: &v1::NetworkPolicyState| {
            let name = state.policy.as_ref().map_or("", |policy| &policy.name);
            state.rules.iter().map(|rule| row(name, rule, self.now_ms)).collect::<Vec<_>>()
        };
        cells(COLUMNS, self.policies.iter().flat_map(of_policy))
    }

    fn json(&self) -> Value {
        let of_policy = |state: &v1::NetworkPolicyState| {
            let name = state.policy.as_ref().map(|policy| policy.name.clone());
            let rule = |rule: &v1::RuleState| {
                let mut rule = json(rule);
                rule["policy"] = name.clone().into();
                rule
            };
            state.rules.iter().map(rule).collect::<Vec<_>>()
        };
        self.policies.iter().flat_map(of_policy).collect()
    }

    fn verdict(&self) -> Result<(), Error> {
        let refused = |told: &String| Error::Refused(Box::new(tonic::Status::not_found(told.clone())));
        self.missing.as_ref().map_or(Ok(()), |told| Err(refused(told)))
    }
}

/// A rule, for programs.
pub(super) fn json(state: &v1::RuleState) -> Value {
    let rule = state.rule.clone().unwrap_or_default();
    let (direction, action) = (direction(rule.direction()), action(rule.action()));
    let definitions: Vec<_> = rule.l7_protocols.iter().map(|protocol| protocol.definition.as_str()).collect();
    json!({
        "id": rule.id,
        "name": some(rule.name.clone()),
        "number": some(state.number),
        "direction": direction,
        "action": action,
        "table": some(state.table.clone()),
        "priority": some(state.priority),
        "l7_vlan": some(state.l7_vlan),
        "members": state.members,
        "peer": peer_json(&rule.peer.clone().unwrap_or_default()),
        "ports": rule.ports.iter().map(port_json).collect::<Value>(),
        "applied_to": rule.applied_to,
        "logging": rule.logging,
        "log_label": some(rule.log_label.clone()),
        "l7_protocols": definitions,
        "statistics": statistics_json(&state.statistics.clone().unwrap_or_default()),
    })
}

/// The other side of a rule; all of it empty: anybody.
fn peer_json(peer: &v1::RulePeer) -> Value {
    let block = |block: &v1::IpBlock| json!({ "cidr": block.cidr, "except": block.except_cidrs });
    json!({
        "address_groups": peer.address_groups,
        "blocks": peer.blocks.iter().map(block).collect::<Value>(),
        "fqdns": peer.fqdns,
        "services": peer.services,
    })
}

fn port_json(port: &v1::PortMatch) -> Value {
    json!({
        "protocol": protocol(port.protocol(), "any"),
        "port": some(port.port),
        "end_port": some(port.end_port),
        "source_port": some(port.source_port),
        "source_end_port": some(port.source_end_port),
        "icmp_type": port.icmp_type,
        "icmp_code": port.icmp_code,
        "igmp_type": port.igmp_type,
        "multicast_group": some(port.multicast_group.clone()),
    })
}

/// Counters of a rule, for programs.
pub(super) fn statistics_json(statistics: &v1::RuleStatistics) -> Value {
    json!({
        "sessions": statistics.sessions,
        "new_packets": statistics.new_packets,
        "packets": statistics.packets,
        "bytes": statistics.bytes,
        "rejects_sent": statistics.rejects_sent,
        "last_unix_ms": some(statistics.last_unix_ms),
        "since_unix_ms": some(statistics.since_unix_ms),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn rule(id: &str, number: u32, action: v1::RuleAction, packets: u64) -> v1::RuleState {
        let peer = v1::RulePeer {
            blocks: vec![v1::IpBlock { cidr: "10.0.0.0/8".to_owned(), except_cidrs: vec!["10.1.0.0/16".to_owned()] }],
            ..Default::default()
        };
        let port = v1::PortMatch { protocol: v1::Protocol::Tcp.into(), port: 80, end_port: 90, ..Default::default() };
        let rule = v1::Rule {
            id: id.to_owned(),
            direction: v1::Direction::Egress.into(),
            action: action.into(),
            peer: Some(peer),
            ports: vec![port],
            applied_to: vec!["dbs".to_owned()],
            ..Default::default()
        };
        let statistics = v1::RuleStatistics {
            sessions: packets / 20,
            new_packets: packets / 10,
            packets,
            bytes: packets * 100,
            last_unix_ms: packets * 1000,
            ..Default::default()
        };
        let table = if number == 0 { String::new() } else { "AntreaPolicyEgressRule".to_owned() };
        let priority = if number == 0 { 0 } else { 14500 };
        v1::RuleState {
            rule: Some(rule),
            number,
            table,
            priority,
            members: 3,
            statistics: Some(statistics),
            l7_vlan: 0,
        }
    }

    /// A policy of Antrea's with two rules, and one of Kubernetes' with none.
    pub(in super::super) fn policies() -> Vec<v1::NetworkPolicyState> {
        let deny = v1::NetworkPolicy {
            name: "anp:default/deny".to_owned(),
            uid: "u-1".to_owned(),
            kind: v1::PolicyKind::Antrea.into(),
            tier: 50,
            priority: 5.5,
            applied_to: vec!["webs".to_owned()],
            ..Default::default()
        };
        let web = v1::NetworkPolicy {
            name: "np:default/web".to_owned(),
            kind: v1::PolicyKind::K8s.into(),
            applied_to: vec!["webs".to_owned()],
            isolates_ingress: true,
            ..Default::default()
        };
        let rules =
            vec![rule("AllowToDB", 7, v1::RuleAction::Unspecified, 30), rule("DropRest", 8, v1::RuleAction::Drop, 0)];
        vec![
            v1::NetworkPolicyState { policy: Some(deny), rules, cookie: 0x40 },
            v1::NetworkPolicyState { policy: Some(web), ..Default::default() },
        ]
    }

    #[test]
    fn rules_both_ways() {
        let rules = Rules { policies: policies(), missing: None, now_ms: 42_000 };
        let want = "\
NUMBER  POLICY            RULE       DIRECTION  TABLE                   PRIORITY  ACTION  SESSIONS  NEW  PACKETS  BYTES  LAST
     7  anp:default/deny  AllowToDB  egress     AntreaPolicyEgressRule     14500  allow          1    3       30   3000  12 s ago
     8  anp:default/deny  DropRest   egress     AntreaPolicyEgressRule     14500  drop           0    0        0      0  never
";
        assert_eq!(rules.text(), want);
        assert!(rules.verdict().is_ok());
        let json = rules.json();
        assert_eq!((&json[0]["policy"], &json[1]["id"]), (&json!("anp:default/deny"), &json!("DropRest")));
        assert_eq!(json[0]["peer"]["blocks"], json!([{ "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] }]));
        let port = &json[0]["ports"][0];
        assert_eq!(
            (&port["protocol"], &port["end_port"], &port["icmp_type"]),
            (&json!("tcp"), &json!(90), &Value::Null)
        );
        let want = json!({
            "sessions": 1, "new_packets": 3, "packets": 30, "bytes": 3000, "rejects_sent": 0,
            "last_unix_ms": 30000, "since_unix_ms": null,
        });
        assert_eq!(json[0]["statistics"], want);
    }

    #[test]
    fn a_rule_without_effect_has_no_number() {
        let mut all = policies();
        all[0].rules = vec![rule("later", 0, v1::RuleAction::Allow, 0)];
        let text = Rules { policies: all, missing: None, now_ms: 0 }.text();
        let line = text.lines().nth(1).expect("a rule");
        assert_eq!(
            line.split_whitespace().take(6).collect::<Vec<_>>(),
            ["-", "anp:default/deny", "later", "egress", "-", "-"]
        );
    }

    #[test]
    fn policies_that_are_not_there_are_told() {
        let names = ["np:default/web", "np:a/b"].map(str::to_owned);
        let missing = missing(&policies(), &names);
        let told =
            Rules { policies: Vec::new(), missing, now_ms: 0 }.verdict().expect_err("one is missing").to_string();
        assert_eq!(told, "no policy \"np:a/b\"; `vsctl antrea policies` lists them");
    }
}
