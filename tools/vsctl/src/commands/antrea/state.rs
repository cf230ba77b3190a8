//! The gate, the round, and what has no effect at present.

use super::super::port::usage;
use super::listing::cells;
use super::node::{families, traffic_mode};
use super::words::{ago, clock, date, now_ms, object, problem, problem_json};
use crate::cli::kind_word;
use crate::client::Client;
use crate::output::{Answer, Columns, Done, Report};
use clap::error::ErrorKind;
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1;

/// `status`.
pub(super) async fn status(client: &Client) -> Answer {
    let state = client.answer(client.antrea_sync().await?.get_state(v1::GetStateRequest {}).await)?;
    let node = if state.initialized {
        client.answer(client.antrea_node().await?.get_node(v1::GetNodeRequest {}).await)?.node
    } else {
        None
    };
    Ok(Box::new(Status { state, node, now_ms: now_ms() }))
}

/// `open-gate`: whoever asks, no agent's round is checked.
pub(super) async fn open_gate(client: &Client) -> Answer {
    client.answer(client.antrea_sync().await?.open_gate(v1::OpenGateRequest { round: 0 }).await)?;
    Ok(Box::new(Done))
}

/// `reset`: likewise, and only if it is meant.
pub(super) async fn reset(client: &Client, is_meant: bool) -> Answer {
    if !is_meant {
        let message = "this takes all of Antrea's flows, groups, meters and objects out of the bridge: Pods are cut off until an agent \
                       initialises the Node and syncs again; if that is meant, give --yes";
        return Err(usage(ErrorKind::MissingRequiredArgument, message));
    }
    client.answer(client.antrea_node().await?.reset(v1::ResetRequest { round: 0 }).await)?;
    Ok(Box::new(Done))
}

fn names_text(names: &v1::NameState) -> String {
    let v1::NameState { answers, answers_waited, answers_unread, answers_dropped, answers_lost, .. } = names;
    let told = format!(
        "{} ({} addresses, {} KiB), {} gave way to others; DNS answers: {answers}, {answers_waited} waited for their addresses",
        names.names,
        names.addresses,
        names.memory.div_ceil(1024),
        names.evicted,
    );
    let odd = [(answers_unread, "unread"), (answers_dropped, "dropped"), (answers_lost, "lost")];
    let odd = odd.iter().filter(|(count, _)| **count > 0).map(|(count, what)| format!(", {count} {what}"));
    odd.fold(told, |told, odd| told + &odd)
}

fn names_json(names: &v1::NameState) -> Value {
    json!({
        "names": names.names,
        "addresses": names.addresses,
        "evicted": names.evicted,
        "memory": names.memory,
        "answers": names.answers,
        "answers_waited": names.answers_waited,
        "answers_unread": names.answers_unread,
        "answers_dropped": names.answers_dropped,
        "answers_lost": names.answers_lost,
    })
}

struct Status {
    state: v1::GetStateResponse,
    node: Option<v1::NodeConfig>,
    now_ms: u64,
}

const COLUMNS: Columns<'_> = &[("KIND", false), ("OBJECTS", true), ("DEGRADED", true), ("OWN FLOWS", true)];

impl Status {
    fn node_text(&self) -> String {
        let Some(node) = &self.node else {
            return "not initialised; an agent does that (antrea.v1.NodeService.Initialize)".to_owned();
        };
        let (mode, families) = (traffic_mode(node.traffic_mode()), families(node.families()));
        format!("{} (bridge {}, {mode}, {families})", shown(&node.name), shown(&node.bridge))
    }

    fn gate_text(&self) -> &'static str {
        match (self.state.gate_open, self.state.restored) {
            (true, false) => "open",
            (true, true) => "open, by what was known before the switch started; no agent has synced since",
            (false, _) => "shut: everything is dropped until an agent has synced (or `vsctl antrea open-gate`)",
        }
    }

    fn round_text(&self) -> String {
        let v1::GetStateResponse { round, committed_unix_ms, .. } = self.state;
        if round == 0 {
            return "none committed yet".to_owned();
        }
        let time = clock(committed_unix_ms);
        let time = time.split('.').next().unwrap_or_default();
        format!("{round}, committed {} {time} UTC ({})", date(committed_unix_ms), ago(committed_unix_ms, self.now_ms))
    }

    /// Degraded objects that the switch did not tell.
    fn untold(&self) -> u64 {
        let all: u64 = self.state.kinds.iter().map(|kind| kind.degraded).sum();
        all.saturating_sub(self.state.degraded.len() as u64)
    }
}

/// Objects with what is to be said of each.
fn list(title: &str, statuses: &[v1::ObjectStatus], text: &mut String) {
    if !statuses.is_empty() {
        let _ = write!(text, "\n{title}:\n");
    }
    for status in statuses {
        let name = status.object.as_ref().map(object).unwrap_or_default();
        let _ = writeln!(text, "  {}", shown(name.trim_end()));
        for told in status.problems.iter().map(problem).chain(status.warnings.iter().cloned()) {
            let _ = writeln!(text, "    {}", shown(&told));
        }
    }
}

impl Report for Status {
    fn text(&self) -> String {
        let mut text = format!("node: {}\ngate: {}\n", self.node_text(), self.gate_text());
        if !self.state.unwritten.is_empty() {
            let _ = writeln!(
                text,
                "disk: not written: {}; the next start keeps the gate shut",
                shown(&self.state.unwritten)
            );
        }
        if !self.state.initialized {
            return text;
        }
        let v1::GetStateResponse { flows, groups, buckets, clauses, memory, .. } = self.state;
        let _ = writeln!(text, "round: {}", self.round_text());
        let _ = writeln!(text, "flows: {flows}, groups: {groups} ({buckets} buckets), clauses: {clauses}");
        if memory > 0 {
            let _ = writeln!(text, "memory: {} KiB beside the tables", memory.div_ceil(1024));
        }
        if let Some(names) = self.state.names.as_ref().filter(|names| names.answers > 0 || names.names > 0) {
            let _ = writeln!(text, "names: {}", names_text(names));
        }
        if let Some(host) = &self.state.host {
            super::host::text(host, self.now_ms, &mut text);
        }
        if !self.state.kinds.is_empty() {
            let row = |kind: &v1::KindState| {
                let numbers = [kind.objects, kind.degraded, kind.flows].map(|number| number.to_string());
                std::iter::once(kind_word(kind.kind()).to_owned()).chain(numbers).collect()
            };
            text.push('\n');
            text.push_str(&cells(COLUMNS, self.state.kinds.iter().map(row)));
        }
        list("the gate is held by", &self.state.gate_held_by, &mut text);
        list("degraded", &self.state.degraded, &mut text);
        if self.untold() > 0 {
            let _ = writeln!(text, "  and {} more", self.untold());
        }
        text
    }

    fn json(&self) -> Value {
        let state = &self.state;
        let kind = |kind: &v1::KindState| {
            json!({
                "kind": kind_word(kind.kind()),
                "objects": kind.objects,
                "degraded": kind.degraded,
                "flows": kind.flows,
            })
        };
        let degraded = |status: &v1::ObjectStatus| {
            json!({
                "object": status.object.as_ref().map(object),
                "problems": status.problems.iter().map(problem_json).collect::<Value>(),
                "warnings": status.warnings,
            })
        };
        json!({
            "initialized": state.initialized,
            "node": self.node.as_ref().map(|node| node.name.clone()),
            "bridge": self.node.as_ref().map(|node| node.bridge.clone()),
            "gate_open": state.gate_open,
            "restored": state.restored,
            "round": state.round,
            "committed_unix_ms": (state.committed_unix_ms != 0).then_some(state.committed_unix_ms),
            "flows": state.flows,
            "groups": state.groups,
            "buckets": state.buckets,
            "clauses": state.clauses,
            "memory": state.memory,
            "unwritten": (!state.unwritten.is_empty()).then_some(&state.unwritten),
            "names": state.names.as_ref().map(names_json),
            "host": state.host.as_ref().map(super::host::json),
            "kinds": state.kinds.iter().map(kind).collect::<Value>(),
            "gate_held_by": state.gate_held_by.iter().map(degraded).collect::<Value>(),
            "degraded": state.degraded.iter().map(degraded).collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Status {
        let kind = |kind: v1::Kind, objects, degraded| v1::KindState {
            kind: kind.into(),
            objects,
            degraded,
            flows: objects * 5,
        };
        let problem = v1::Problem {
            code: "PENDING".to_owned(),
            field: "pods[0]".to_owned(),
            reason: "Pod default/x is not there yet\u{1b}".to_owned(),
            hint: "it is bound when it comes".to_owned(),
            other: None,
        };
        let status = v1::ObjectStatus {
            object: Some(v1::ObjectRef { kind: v1::Kind::Egress.into(), name: "out".to_owned() }),
            outcome: v1::ObjectOutcome::Degraded.into(),
            problems: vec![problem],
            warnings: vec!["odd".to_owned()],
        };
        let state = v1::GetStateResponse {
            initialized: true,
            gate_open: true,
            round: 5,
            committed_unix_ms: 1_709_251_199_999,
            kinds: vec![kind(v1::Kind::Pod, 12, 0), kind(v1::Kind::Egress, 2, 2)],
            degraded: vec![status],
            flows: 167,
            groups: 12,
            buckets: 34,
            clauses: 50,
            memory: 2000,
            ..Default::default()
        };
        let node = v1::NodeConfig {
            name: "worker-0".to_owned(),
            bridge: "br-int".to_owned(),
            families: v1::Families::Dual.into(),
            ..Default::default()
        };
        Status { state, node: Some(node), now_ms: 1_709_251_199_999 + 12_000 }
    }

    #[test]
    fn a_running_node() {
        let want = "\
node: worker-0 (bridge br-int, encap, dual)
gate: open
round: 5, committed 2024-02-29 23:59:59 UTC (12 s ago)
flows: 167, groups: 12 (34 buckets), clauses: 50
memory: 2 KiB beside the tables

KIND    OBJECTS  DEGRADED  OWN FLOWS
pod          12         0         60
egress        2         2         10

degraded:
  egress/out
    PENDING: pods[0]: Pod default/x is not there yet\\u{1b}; it is bound when it comes
    odd
  and 1 more
";
        assert_eq!(running().text(), want);
        let json = running().json();
        assert_eq!(
            (&json["node"], &json["bridge"], &json["gate_open"]),
            (&json!("worker-0"), &json!("br-int"), &json!(true))
        );
        assert_eq!(json["kinds"][1], json!({ "kind": "egress", "objects": 2, "degraded": 2, "flows": 10 }));
        let degraded = &json["degraded"][0];
        assert_eq!((&degraded["object"], &degraded["problems"][0]["code"]), (&json!("egress/out"), &json!("PENDING")));
    }

    #[test]
    fn a_shut_gate_and_a_missing_node_say_what_is_missing() {
        let shut =
            Status { state: v1::GetStateResponse { gate_open: false, round: 0, ..running().state }, ..running() };
        let text = shut.text();
        assert!(
            text.contains("gate: shut: everything is dropped until an agent has synced (or `vsctl antrea open-gate`)"),
            "{text}"
        );
        assert!(text.contains("round: none committed yet\n"), "{text}");
        let kind = v1::ObjectStatus {
            object: Some(v1::ObjectRef { kind: v1::Kind::NetworkPolicy.into(), name: "acnp:deny".to_owned() }),
            problems: vec![v1::Problem {
                code: "PENDING".to_owned(),
                reason: "its group is not there".to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let held = Status { state: v1::GetStateResponse { gate_held_by: vec![kind], ..shut.state }, ..running() };
        let text = held.text();
        assert!(text.contains("\nthe gate is held by:\n") && text.contains("deny\n    PENDING"), "{text}");
        assert_eq!(held.json()["gate_held_by"][0]["problems"][0]["code"], json!("PENDING"));
        let restored = Status { state: v1::GetStateResponse { restored: true, ..running().state }, ..running() };
        assert!(restored.text().contains("gate: open, by what was known before"), "{}", restored.text());
        let unwritten = "No space left on device".to_owned();
        let full = Status { state: v1::GetStateResponse { unwritten, ..running().state }, ..running() };
        assert!(full.text().contains("\ndisk: not written: No space left on device; the next"), "{}", full.text());
        assert_eq!(full.json()["unwritten"], json!("No space left on device"));
        let none = Status { state: v1::GetStateResponse::default(), node: None, now_ms: 0 };
        let text = none.text();
        assert!(text.starts_with("node: not initialised; an agent does that"), "{text}");
        assert_eq!((text.lines().count(), &none.json()["committed_unix_ms"]), (2, &Value::Null));
    }
}
