//! An observation as text.

use super::words::{address, denied, kind, receiver, summary, verdict};
use crate::commands::antrea::clock;
use std::fmt::Write;
use std::net::IpAddr;
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1::{Name, Observation, ObservationKind, ObservedPolicy};

/// What it is of: of a drop its reason.
fn event(observation: &Observation) -> String {
    match (observation.kind(), denied(observation)) {
        (ObservationKind::Drop, Some(_)) => "policy-denied".to_owned(),
        (ObservationKind::Drop, None) => observation.drop_reason.replace('_', "-"),
        (other, _) => kind(other).to_owned(),
    }
}

/// One end: by its name if it has one, with its port.
fn end(name: Option<&Name>, address: Option<IpAddr>, port: u32, mac: &[u8]) -> String {
    let name = name.and_then(|name| match (name.pod.as_str(), name.service.as_str(), name.node.as_str()) {
        ("", "", "") => None,
        ("", "", node) => Some(node.to_owned()),
        ("", service, _) => Some(format!("{}/{service}", name.namespace)),
        (pod, ..) => Some(format!("{}/{pod}", name.namespace)),
    });
    let has_port = port != 0;
    let text = match (name, address) {
        (Some(name), _) => name,
        (None, Some(IpAddr::V6(v6))) if has_port => format!("[{v6}]"),
        (None, Some(address)) => address.to_string(),
        (None, None) if mac.is_empty() => "-".to_owned(),
        (None, None) => mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
    };
    let text = shown(&text);
    if has_port { format!("{text}:{port}") } else { text.into_owned() }
}

/// Both ends.
fn ends(observation: &Observation) -> (String, String) {
    let Observation { source, destination, ethernet_source, ethernet_destination, .. } = observation;
    let tuple = observation.tuple.as_ref();
    let (from, port) = (tuple.and_then(|tuple| address(&tuple.src)), tuple.map_or(0, |tuple| tuple.src_port));
    let (to, to_port) = receiver(observation);
    let to = end(destination.as_ref(), to, to_port, ethernet_destination);
    (end(source.as_ref(), from, port, ethernet_source), to)
}

/// `NetworkPolicy shop/web (default deny)`, `AntreaClusterNetworkPolicy strict rule no-db`.
fn policy(policy: &ObservedPolicy) -> String {
    let ObservedPolicy { namespace, name, kind, rule, default_deny } = policy;
    let mut text = if kind.is_empty() { String::new() } else { format!("{kind} ") };
    if !namespace.is_empty() {
        let _ = write!(text, "{namespace}/");
    }
    text.push_str(name);
    if *default_deny {
        text.push_str(" (default deny)");
    } else if !rule.is_empty() {
        let _ = write!(text, " rule {rule}");
    }
    shown(&text).into_owned()
}

/// What decided, with its direction.
fn decided(observation: &Observation) -> Vec<String> {
    let Observation { egress_denied_by, ingress_denied_by, egress_allowed_by, ingress_allowed_by, .. } = observation;
    let lists = [
        ("egress denied by", egress_denied_by),
        ("ingress denied by", ingress_denied_by),
        ("egress allowed by", egress_allowed_by),
        ("ingress allowed by", ingress_allowed_by),
    ];
    lists.iter().flat_map(|(word, list)| list.iter().map(move |one| format!("{word} {}", policy(one)))).collect()
}

/// What is told behind the summary: policies, and the Service that was spoken to.
fn more(observation: &Observation) -> Vec<String> {
    let mut more = decided(observation);
    if !observation.service.is_empty() {
        more.push(format!("service {}", shown(&observation.service)));
    }
    more
}

/// One line.
pub(super) fn compact(observation: &Observation) -> String {
    let ((from, to), time) = (ends(observation), clock(observation.unix_ms));
    let (event, verdict) = (event(observation), verdict(observation.verdict()));
    let mut text = format!("{time}: {from} -> {to} {event} {verdict} ({})", summary(observation));
    for one in more(observation) {
        let _ = write!(text, " {one}");
    }
    text.push('\n');
    text
}

/// A line for each property.
pub(super) fn dict(observation: &Observation, is_first: bool) -> String {
    let (from, to) = ends(observation);
    let mut text = if is_first { String::new() } else { "------------\n".to_owned() };
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(text, "{name:>11}: {value}");
        }
    };
    line("TIMESTAMP", &clock(observation.unix_ms));
    line("SOURCE", &from);
    line("DESTINATION", &to);
    line("TYPE", &event(observation));
    line("VERDICT", verdict(observation.verdict()));
    line("SUMMARY", &summary(observation));
    line("SERVICE", &shown(&observation.service));
    line("POLICIES", &decided(observation).join("; "));
    text
}

/// A row; the first one under a header.
pub(super) fn tab(observation: &Observation, is_first: bool) -> String {
    let row = |time: &str, from: &str, to: &str, event: &str, verdict: &str, summary: &str| {
        format!("{time:<12}   {from:<36}   {to:<36}   {event:<16}   {verdict:<9}   {summary}\n")
    };
    let header =
        if is_first { row("TIMESTAMP", "SOURCE", "DESTINATION", "TYPE", "VERDICT", "SUMMARY") } else { String::new() };
    let (from, to) = ends(observation);
    let mut summary = summary(observation);
    for one in more(observation) {
        let _ = write!(summary, "; {one}");
    }
    let (event, verdict) = (event(observation), verdict(observation.verdict()));
    header + &row(&clock(observation.unix_ms), &from, &to, &event, verdict, &summary)
}
