//! An observation as JSON, with the names of the fields of Hubble's flows.
//!
//! **Design**: programs that read `hubble observe -o json` read this. What Hubble has no name for
//! stands under `vswitch`. A refusal is `DROPPED` there, since Hubble has no such verdict.

use super::without_empty;
use super::words::{self, address, denied, flags, receiver};
use crate::commands::antrea::{clock, date};
use serde_json::{Value, json};
use std::net::IpAddr;
use vswitch_proto::antrea::v1::{
    Direction, Name, Observation, ObservationKind, ObservationVerdict, ObservationsLost, ObservedPolicy,
};
use vswitch_proto::v1::{ConnectionTuple, Count};

/// Types of events, by Hubble's numbers.
const EVENT_DROP: u32 = 1;
const EVENT_TRACE: u32 = 4;
const EVENT_POLICY: u32 = 5;

fn text(address: Option<IpAddr>) -> String {
    address.map(|address| address.to_string()).unwrap_or_default()
}

fn mac(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn time(unix_ms: u64) -> String {
    format!("{}T{}Z", date(unix_ms), clock(unix_ms))
}

fn ip(observation: &Observation) -> Value {
    let Some(tuple) = &observation.tuple else { return Value::Null };
    let version = if tuple.src.len() == 16 { "IPv6" } else { "IPv4" };
    json!({
        "source": text(address(&tuple.src)),
        "destination": text(receiver(observation).0),
        "ipVersion": version,
    })
}

fn l4(observation: &Observation, tuple: &ConnectionTuple) -> Value {
    let ports = || vec![("source_port", json!(tuple.src_port)), ("destination_port", json!(receiver(observation).1))];
    match (tuple.protocol, &tuple.icmp) {
        (6, _) => {
            let flags = flags(observation.tcp_flags).into_iter().map(|flag| (flag, json!(true))).collect();
            let mut fields = ports();
            fields.push(("flags", without_empty(flags)));
            json!({ "TCP": without_empty(fields) })
        }
        (17, _) => json!({ "UDP": without_empty(ports()) }),
        (132, _) => json!({ "SCTP": without_empty(ports()) }),
        (1, Some(icmp)) => json!({ "ICMPv4": { "type": icmp.r#type, "code": icmp.code } }),
        (58, Some(icmp)) => json!({ "ICMPv6": { "type": icmp.r#type, "code": icmp.code } }),
        _ => Value::Null,
    }
}

fn end(name: Option<&Name>) -> Value {
    let Some(name) = name else { return json!({}) };
    let mut labels: Vec<_> = name.labels.iter().map(|(key, value)| format!("k8s:{key}={value}")).collect();
    labels.sort_unstable();
    let workloads = name.workloads.iter().map(|one| json!({ "name": one.name, "kind": one.kind }));
    without_empty(vec![
        ("namespace", json!(name.namespace)),
        ("labels", json!(labels)),
        ("pod_name", json!(name.pod)),
        ("workloads", workloads.collect()),
    ])
}

/// A Service: of "namespace/name:port", or what an address is called.
fn service(spoken_to: &str, name: Option<&Name>) -> Value {
    let of = |namespace: &str, name: &str| json!({ "name": name, "namespace": namespace });
    if let Some((namespace, rest)) = spoken_to.split_once('/') {
        return of(namespace, rest.split_once(':').map_or(rest, |(name, _)| name));
    }
    match name.filter(|name| !name.service.is_empty()) {
        Some(name) => of(&name.namespace, &name.service),
        None => Value::Null,
    }
}

fn policies(policies: &[ObservedPolicy]) -> Value {
    let one = |policy: &ObservedPolicy| {
        let mut fields = vec![
            ("name", json!(policy.name)),
            ("namespace", json!(policy.namespace)),
            ("kind", json!(policy.kind)),
            ("rule", json!(policy.rule)),
        ];
        if policy.default_deny {
            fields.push(("default_deny", json!(true)));
        }
        without_empty(fields)
    };
    policies.iter().map(one).collect()
}

/// Hubble's word for why.
fn reason(observation: &Observation) -> String {
    match (observation.kind(), denied(observation)) {
        (ObservationKind::Refused, _) => "SERVICE_BACKEND_NOT_FOUND".to_owned(),
        (_, Some(true)) => "POLICY_DENIED".to_owned(),
        (_, Some(false)) => "POLICY_DENY".to_owned(),
        (_, None) => observation.drop_reason.to_ascii_uppercase(),
    }
}

const fn verdict(verdict: ObservationVerdict) -> &'static str {
    match verdict {
        ObservationVerdict::Unspecified => "VERDICT_UNKNOWN",
        ObservationVerdict::Forwarded => "FORWARDED",
        ObservationVerdict::Dropped | ObservationVerdict::Refused => "DROPPED",
    }
}

const fn direction(direction: Direction) -> &'static str {
    match direction {
        Direction::Unspecified => "TRAFFIC_DIRECTION_UNKNOWN",
        Direction::Ingress => "INGRESS",
        Direction::Egress => "EGRESS",
    }
}

fn count(count: Option<&Count>) -> Value {
    count.map_or(Value::Null, |count| json!({ "packets": count.packets, "bytes": count.bytes }))
}

/// What Hubble has no name for.
fn own(observation: &Observation) -> Value {
    let decider = observation.decider.as_ref().map(|decider| {
        without_empty(vec![
            ("bridge", json!(decider.bridge)),
            ("table", json!(decider.table)),
            ("table_name", json!(decider.table_name)),
            ("cookie", json!(decider.cookie.map(|cookie| format!("{cookie:#x}")))),
        ])
    });
    let id = (observation.connection_id != 0).then(|| observation.connection_id.to_string());
    without_empty(vec![
        ("number", json!(observation.number)),
        ("kind", json!(words::kind(observation.kind()))),
        ("verdict", json!(words::verdict(observation.verdict()))),
        ("drop_reason", json!(observation.drop_reason)),
        ("drop_class", json!(observation.drop_class)),
        ("decider", json!(decider)),
        ("bridge", json!(observation.bridge)),
        ("port", json!(observation.port)),
        ("connection_id", json!(id)),
        ("service", json!(observation.service)),
        ("original", count(observation.original_count.as_ref())),
        ("reply", count(observation.reply_count.as_ref())),
        ("log_label", json!(observation.log_label)),
        ("source_node", json!(observation.source.as_ref().map(|name| &name.node))),
        ("destination_node", json!(observation.destination.as_ref().map(|name| &name.node))),
    ])
}

/// `{"flow": {...}, "node_name": ..., "time": ...}`.
pub(super) fn response(observation: &Observation, node: &str) -> Value {
    let Observation { source, destination, .. } = observation;
    let tuple = observation.tuple.as_ref();
    let event = match observation.kind() {
        ObservationKind::Begin | ObservationKind::End => EVENT_TRACE,
        ObservationKind::Policy => EVENT_POLICY,
        _ => EVENT_DROP,
    };
    let ethernet = without_empty(vec![
        ("source", json!(mac(&observation.ethernet_source))),
        ("destination", json!(mac(&observation.ethernet_destination))),
    ]);
    let mut flow = without_empty(vec![
        ("time", json!(time(observation.unix_ms))),
        ("verdict", json!(verdict(observation.verdict()))),
        ("drop_reason_desc", json!(reason(observation))),
        ("ethernet", ethernet),
        ("IP", ip(observation)),
        ("l4", tuple.map_or(Value::Null, |tuple| l4(observation, tuple))),
    ]);
    // Both ends are there though nothing is known of them, as Hubble has it.
    flow["source"] = end(source.as_ref());
    flow["destination"] = end(destination.as_ref());
    let rest = without_empty(vec![
        ("Type", json!("L3_L4")),
        ("node_name", json!(node)),
        ("event_type", json!({ "type": event })),
        ("source_service", service("", source.as_ref())),
        ("destination_service", service(&observation.service, destination.as_ref())),
        ("traffic_direction", json!(direction(observation.direction()))),
        ("egress_allowed_by", policies(&observation.egress_allowed_by)),
        ("ingress_allowed_by", policies(&observation.ingress_allowed_by)),
        ("egress_denied_by", policies(&observation.egress_denied_by)),
        ("ingress_denied_by", policies(&observation.ingress_denied_by)),
        ("Summary", json!(words::summary(observation))),
        ("vswitch", own(observation)),
    ]);
    if let (Value::Object(flow), Value::Object(rest)) = (&mut flow, rest) {
        flow.extend(rest);
    }
    let mut response = json!({ "flow": flow });
    response["node_name"] = json!(node);
    response["time"] = json!(time(observation.unix_ms));
    response
}

/// What was lost, as Hubble tells it; drops that are not told under a name of our own.
pub(super) fn lost(lost: &ObservationsLost) -> Vec<Value> {
    let ObservationsLost { behind, unread, suppressed } = *lost;
    let events = |source: &str, count: u64| json!({ "lost_events": { "source": source, "num_events_lost": count } });
    let mut lines = Vec::new();
    if behind > 0 {
        lines.push(events("HUBBLE_RING_BUFFER", behind));
    }
    if unread > 0 {
        lines.push(events("OBSERVER_EVENTS_QUEUE", unread));
    }
    if suppressed > 0 {
        lines.push(json!({ "vswitch": { "suppressed_drops": suppressed } }));
    }
    lines
}
