//! What agents are told as it happens.

use super::stream::{self, Line};
use super::words::{ISOLATION, clock, date, object, or_dash, problem, problem_json, some};
use crate::cli::{Cli, Events, RecordVerdict};
use crate::client::Client;
use crate::commands::conntrack::{tuple, tuple_json};
use crate::error::Error;
use crate::output::{Answer, Done};
use serde_json::{Value, json};
use std::io::Write;
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::watch_events_response::Event;

/// Writes one line when the subscription stands and one for each event.
pub(super) async fn follow(client: &Client, args: &Events, cli: &Cli, out: &mut dyn Write) -> Result<(), Error> {
    let kinds = args.kinds.iter().map(|kind| v1::EventKind::from(*kind).into()).collect();
    let begin = async {
        let request = v1::WatchEventsRequest { kinds };
        client.answer(client.antrea_events().await?.watch_events(request).await)
    };
    let lines = |message: v1::WatchEventsResponse| message.event.as_ref().map(line).into_iter().collect();
    stream::follow(client, begin, lines, args.count, cli, out).await
}

/// `answer`.
pub(super) async fn answer(client: &Client, token: &[u8], verdict: RecordVerdict) -> Answer {
    let verdict = v1::PacketVerdict::from(verdict).into();
    let request = v1::AnswerPacketRequest { token: token.to_vec(), verdict };
    client.answer(client.antrea_events().await?.answer_packet(request).await)?;
    Ok(Box::new(Done))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn line(event: &Event) -> Line {
    let counts = !matches!(event, Event::Started(_) | Event::Lost(_));
    // Names are of an agent's making.
    Line { text: shown(&text(event)).into_owned(), json: json(event), counts }
}

/// `policy-log`
fn kind(kind: v1::EventKind) -> String {
    kind.as_str_name().trim_start_matches("EVENT_KIND_").to_ascii_lowercase().replace('_', "-")
}

const fn gate(open: bool) -> &'static str {
    if open { "open" } else { "shut" }
}

/// `np:default/web ingress-0 (7)`: a rule; one that the switch does not know any more by its
/// number.
pub(super) fn rule(rule: Option<&v1::RuleRef>) -> String {
    match rule {
        None => "-".to_owned(),
        Some(rule) if rule.policy.is_empty() && rule.number == 0 => "-".to_owned(),
        Some(rule) if rule.policy.is_empty() => rule.number.to_string(),
        Some(rule) if rule.rule.is_empty() => format!("{}/{ISOLATION}", rule.policy),
        Some(rule) => format!("{}/{}", rule.policy, rule.rule),
    }
}

pub(super) fn rule_json(rule: Option<&v1::RuleRef>) -> Value {
    let Some(rule) = rule else { return Value::Null };
    json!({ "policy": some(rule.policy.clone()), "rule": some(rule.rule.clone()), "number": some(rule.number) })
}

fn log(log: &v1::PolicyLog) -> String {
    let mut text = format!(
        "{} policy-log {} {} {} rule={} name={} priority={} pod={} {} len={} packets={}",
        clock(log.unix_ms),
        log.disposition,
        or_dash(&log.direction),
        log.table,
        rule(log.rule.as_ref()),
        or_dash(&log.rule_name),
        log.priority,
        or_dash(&log.applied_to),
        tuple(log.tuple.as_ref()),
        log.packet_len,
        log.packets
    );
    if !log.log_label.is_empty() {
        text.push_str(&format!(" label={}", log.log_label));
    }
    text
}

fn text(event: &Event) -> String {
    match event {
        Event::Started(started) => {
            let v1::EventsStarted { switch_start_unix_ms: start, round, gate_open } = *started;
            let since = format!("{} {}", date(start), clock(start));
            format!("started: switch since {since}, round {round}, gate {}", gate(gate_open))
        }
        Event::PolicyLog(told) => log(told),
        Event::ServiceRefused(told) => {
            let service = or_dash(&told.service);
            format!("service-refused {service} {} packets={}", tuple(told.tuple.as_ref()), told.packets)
        }
        Event::PacketToAnswer(told) => {
            let category = told.category().as_str_name().trim_start_matches("PACKET_CATEGORY_");
            let (token, port, len) = (hex(&told.token), &told.in_port_name, told.packet.len());
            format!("packet-to-answer {token} {category} port={port} bytes={len} expires_in_ms={}", told.expires_in_ms)
        }
        Event::FqdnLearned(told) => {
            let addresses = told.addresses.join(",");
            format!("fqdn-learned {} {addresses} ttl={} pod={}", told.name, told.ttl_seconds, or_dash(&told.pod))
        }
        Event::MembershipChanged(told) => {
            let who = if told.pod.is_empty() { format!("node {}", told.node) } else { format!("pod {}", told.pod) };
            format!("membership-changed {} {} {who}", told.group, if told.joined { "joined" } else { "left" })
        }
        Event::ObjectChanged(told) => {
            let status = told.status.clone().unwrap_or_default();
            let word = status.outcome().as_str_name().trim_start_matches("OBJECT_OUTCOME_").to_owned();
            let name = status.object.as_ref().map(object).unwrap_or_default();
            let problems: Vec<_> = status.problems.iter().map(problem).collect();
            format!("object-changed {name} {word} {}", problems.join("; "))
        }
        Event::RoundCommitted(told) => format!("round-committed {} gate {}", told.round, gate(told.gate_open)),
        Event::Lost(lost) => {
            let kind = kind(lost.kind());
            format!("lost {} {kind} events; not told by limits since the beginning: {}", lost.behind, lost.limited)
        }
    }
}

fn json(event: &Event) -> Value {
    match event {
        Event::Started(told) => json!({
            "event": "started",
            "switch_start_unix_ms": told.switch_start_unix_ms,
            "round": told.round,
            "gate_open": told.gate_open,
        }),
        Event::PolicyLog(told) => json!({
            "event": "policy-log",
            "unix_ms": told.unix_ms,
            "rule": rule_json(told.rule.as_ref()),
            "rule_name": some(told.rule_name.clone()),
            "table": told.table,
            "direction": some(told.direction.clone()),
            "disposition": told.disposition,
            "priority": told.priority,
            "applied_to": some(told.applied_to.clone()),
            "tuple": tuple_json(told.tuple.as_ref()),
            "packet_len": told.packet_len,
            "log_label": some(told.log_label.clone()),
            "packets": told.packets,
        }),
        Event::ServiceRefused(told) => json!({
            "event": "service-refused",
            "service": some(told.service.clone()),
            "tuple": tuple_json(told.tuple.as_ref()),
            "packets": told.packets,
        }),
        Event::PacketToAnswer(told) => json!({
            "event": "packet-to-answer",
            "token": hex(&told.token),
            "category": told.category().as_str_name().trim_start_matches("PACKET_CATEGORY_"),
            "expires_in_ms": told.expires_in_ms,
            "in_port": told.in_port_name,
            "table": told.table,
            "rule": rule_json(told.rule.as_ref()),
            "packet": hex(&told.packet),
            "received": some(hex(&told.received)),
        }),
        Event::FqdnLearned(told) => json!({
            "event": "fqdn-learned",
            "name": told.name,
            "addresses": told.addresses,
            "ttl_seconds": told.ttl_seconds,
            "pod": some(told.pod.clone()),
        }),
        Event::MembershipChanged(told) => json!({
            "event": "membership-changed",
            "group": told.group,
            "pod": some(told.pod.clone()),
            "node": some(told.node.clone()),
            "joined": told.joined,
        }),
        Event::ObjectChanged(told) => {
            let status = told.status.clone().unwrap_or_default();
            json!({
                "event": "object-changed",
                "object": status.object.as_ref().map(object),
                "outcome": status.outcome().as_str_name().trim_start_matches("OBJECT_OUTCOME_"),
                "problems": status.problems.iter().map(problem_json).collect::<Vec<_>>(),
            })
        }
        Event::RoundCommitted(told) => {
            json!({ "event": "round-committed", "round": told.round, "gate_open": told.gate_open })
        }
        Event::Lost(lost) => {
            json!({ "lost": lost.behind, "kind": kind(lost.kind()), "limited": lost.limited })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_log() -> v1::PolicyLog {
        v1::PolicyLog {
            rule: Some(v1::RuleRef { policy: "acnp:x".to_owned(), rule: "ingress-0".to_owned(), number: 7 }),
            rule_name: "AllowFromClient".to_owned(),
            table: "AntreaPolicyIngressRule".to_owned(),
            direction: "Ingress".to_owned(),
            disposition: "Allow".to_owned(),
            priority: 14_600,
            applied_to: "default/web".to_owned(),
            tuple: Some(vswitch_proto::v1::ConnectionTuple {
                src: vec![10, 0, 0, 1],
                dst: vec![10, 0, 0, 2],
                protocol: 6,
                src_port: 1000,
                dst_port: 80,
                icmp: None,
            }),
            packet_len: 60,
            packets: 2,
            unix_ms: 3_600_001,
            ..v1::PolicyLog::default()
        }
    }

    #[test]
    fn a_log_is_one_line() {
        let line = line(&Event::PolicyLog(a_log()));
        let want = "01:00:00.001 policy-log Allow Ingress AntreaPolicyIngressRule rule=acnp:x/ingress-0 name=AllowFromClient \
                    priority=14600 pod=default/web tcp,src=10.0.0.1,dst=10.0.0.2,sport=1000,dport=80 len=60 packets=2";
        assert_eq!((line.text.as_str(), line.counts), (want, true));
        assert_eq!((&line.json["rule"]["number"], &line.json["tuple"]["dport"]), (&json!(7), &json!(80)));
        assert_eq!((&line.json["tuple"]["protocol"], &line.json["log_label"]), (&json!(6), &Value::Null));
    }

    #[test]
    fn what_is_no_event_does_not_count() {
        let started = v1::EventsStarted { switch_start_unix_ms: 0, round: 3, gate_open: true };
        let started = line(&Event::Started(started));
        assert_eq!(started.text, "started: switch since 1970-01-01 00:00:00.000, round 3, gate open");
        let lost = v1::EventsLost { kind: v1::EventKind::PolicyLog.into(), behind: 4, limited: 9 };
        let lost = line(&Event::Lost(lost));
        assert_eq!(lost.text, "lost 4 policy-log events; not told by limits since the beginning: 9");
        assert_eq!(lost.json, json!({ "lost": 4, "kind": "policy-log", "limited": 9 }));
        assert!(!started.counts && !lost.counts);
    }

    #[test]
    fn rules_that_are_not_known_are_numbers() {
        let known =
            |policy: &str, rule: &str, number| v1::RuleRef { policy: policy.to_owned(), rule: rule.to_owned(), number };
        for (told, want) in [
            (None, "-"),
            (Some(known("", "", 9)), "9"),
            (Some(known("", "", 0)), "-"),
            (Some(known("np:a/b", "", 0)), "np:a/b/(isolation)"),
            (Some(known("np:a/b", "r", 9)), "np:a/b/r"),
        ] {
            assert_eq!(rule(told.as_ref()), want);
        }
    }
}
