//! `trace-flow`: what happens to a packet, told by the packet itself, and what would happen by the
//! tables.

use super::listing::cells;
use super::words::{now_ms, or_dash, some};
use crate::cli::{TraceFlow, TraceFlowEnd as End, TraceFlowProtocol as Protocol};
use crate::client::Client;
use crate::error::Error;
use crate::output::{Answer, Columns, Report};
use serde_json::{Value, json};
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::TraceflowAction as Action;
use vswitch_proto::antrea::v1::TraceflowComponent as Component;
use vswitch_proto::antrea::v1::run_traceflow_response::Update;
use vswitch_proto::v1 as pipeline;

/// Runs one, or lists those that run.
pub(super) async fn show(client: &Client, args: &TraceFlow) -> Answer {
    if args.is_listing() {
        let answer = client.antrea_traceflows().await?.list_traceflows(v1::ListTraceflowsRequest {}).await;
        return Ok(Box::new(Listed(client.answer(answer)?.traceflows)));
    }
    let traceflow = traceflow(args);
    let request = v1::RunTraceflowRequest { traceflow: Some(traceflow.clone()) };
    let mut stream = client.answer(client.antrea_traceflows().await?.run_traceflow(request).await)?;
    let mut run = Run { traceflow, tables: args.tables, ..Run::default() };
    while let Some(message) = stream.message().await.map_err(|status| client.error(status))? {
        match message.update {
            Some(Update::Started(started)) => run.traceflow.tag = started.tag,
            Some(Update::Observation(observation)) => run.observations.push(observation),
            Some(Update::Packet(packet)) => run.packet = packet,
            Some(Update::Finished(finished)) => run.finished = Some(finished),
            None => {}
        }
    }
    // Now that its flows are gone: what would happen without it.
    run.would = would(client, args, &run.packet).await?;
    Ok(Box::new(run))
}

fn traceflow(args: &TraceFlow) -> v1::Traceflow {
    use v1::traceflow_end::End as Told;
    let end = |end: &Option<End>| {
        let end = match end.as_ref()? {
            End::Any => return None,
            End::Pod(name) => Told::Pod(name.clone()),
            End::Service(name) => Told::Service(name.clone()),
            End::Address(address) => Told::Address(address.clone()),
        };
        Some(v1::TraceflowEnd { end: Some(end) })
    };
    let protocol = match args.protocol {
        None => v1::Protocol::Unspecified,
        Some(Protocol::Tcp) => v1::Protocol::Tcp,
        Some(Protocol::Udp) => v1::Protocol::Udp,
        Some(Protocol::Sctp) => v1::Protocol::Sctp,
        Some(Protocol::Icmp) => v1::Protocol::Icmp,
    };
    let family = match (args.ipv4, args.ipv6) {
        (true, _) => v1::Families::Ipv4,
        (_, true) => v1::Families::Ipv6,
        _ => v1::Families::Unspecified,
    };
    let packet = v1::TraceflowPacket {
        family: family.into(),
        protocol: protocol.into(),
        source_port: args.source_port.unwrap_or_default().into(),
        destination_port: args.port.unwrap_or_default().into(),
        tcp_flags: args.tcp_flags.unwrap_or_default(),
        ttl: args.ttl.unwrap_or_default().into(),
        payload_len: args.payload.unwrap_or_default(),
    };
    let role = if args.receiver { v1::TraceflowRole::Receiver } else { v1::TraceflowRole::Sender };
    v1::Traceflow {
        name: args.name.clone().unwrap_or_else(|| format!("vsctl-{}-{}", std::process::id(), now_ms())),
        tag: args.tag.unwrap_or_default().into(),
        role: role.into(),
        source: end(&args.source),
        destination: end(&args.destination),
        packet: Some(packet),
        live: args.live,
        dropped_only: args.dropped_only,
        timeout_seconds: args.wait.into(),
    }
}

/// What `TraceService` says of the packet, if it is known and comes from a Pod.
async fn would(client: &Client, args: &TraceFlow, packet: &[u8]) -> Result<Option<pipeline::TraceResponse>, Error> {
    let pods = super::pods::pods(client, &[]).await?;
    let source = pods.iter().filter_map(|state| state.pod.as_ref()).find(|pod| match &args.source {
        Some(End::Pod(name)) => pod.name == *name,
        Some(End::Address(address)) => pod.addresses.contains(address),
        _ => false,
    });
    let Some(pod) = source.filter(|_| !packet.is_empty()) else { return Ok(None) };
    let answer = client.antrea_node().await?.get_node(v1::GetNodeRequest {}).await;
    let bridge = client.answer(answer)?.node.unwrap_or_default().bridge;
    let packet = pipeline::TracePacket { in_port: pod.port.clone(), packet: packet.to_vec() };
    let input = Some(pipeline::trace_request::Input::Packet(packet));
    let request = pipeline::TraceRequest { bridge, input, names: true, ct_next: Vec::new() };
    Ok(Some(client.answer(client.traces().await?.trace(request).await)?))
}

/// One that is over.
#[derive(Default)]
struct Run {
    traceflow: v1::Traceflow,
    observations: Vec<v1::TraceflowObservation>,
    packet: Vec<u8>,
    finished: Option<v1::TraceflowFinished>,
    would: Option<pipeline::TraceResponse>,
    tables: bool,
}

fn end(end: Option<&v1::TraceflowEnd>) -> String {
    use v1::traceflow_end::End as Told;
    match end.and_then(|end| end.end.as_ref()) {
        None => "any".to_owned(),
        Some(Told::Pod(name) | Told::Address(name)) => shown(name).into_owned(),
        Some(Told::Service(name)) => format!("service/{}", shown(name)),
    }
}

const fn component(component: Component) -> &'static str {
    match component {
        Component::Unspecified => "unknown",
        Component::SpoofGuard => "SpoofGuard",
        Component::Lb => "LB",
        Component::Routing => "Routing",
        Component::NetworkPolicy => "NetworkPolicy",
        Component::Forwarding => "Forwarding",
        Component::Egress => "Egress",
    }
}

const fn action(action: Action) -> &'static str {
    match action {
        Action::Unspecified => "unknown",
        Action::Forwarded => "forwarded",
        Action::Delivered => "delivered",
        Action::Received => "received",
        Action::Dropped => "dropped",
        Action::Rejected => "rejected",
        Action::ForwardedOutOfOverlay => "forwarded-out-of-overlay",
        Action::MarkedForSnat => "marked-for-snat",
        Action::Translated => "translated",
    }
}

/// `policy np:a/b rule ingress-0`, `service a/b:http`, ...
fn details(told: &v1::TraceflowObservation) -> String {
    let mut parts = Vec::new();
    let mut part = |word: &str, value: &str| {
        if !value.is_empty() {
            parts.push(if word.is_empty() { shown(value).into_owned() } else { format!("{word} {}", shown(value)) });
        }
    };
    part("pod", &told.pod);
    part("service", &told.service);
    if let Some(rule) = &told.rule {
        part("policy", &rule.policy);
        part("rule", if rule.rule.is_empty() { super::words::ISOLATION } else { &rule.rule });
    }
    part("egress", &told.egress);
    part("source", &told.translated_source);
    part("destination", &told.translated_destination);
    if told.translated_port != 0 {
        part("port", &told.translated_port.to_string());
    }
    part("tunnel", &told.tunnel_destination);
    if told.vlan != 0 {
        part("VLAN", &told.vlan.to_string());
    }
    part("", &told.reason);
    if told.ttl != 0 {
        part("ttl", &told.ttl.to_string());
    }
    parts.join(", ")
}

fn observation_json(told: &v1::TraceflowObservation) -> Value {
    let rule = told
        .rule
        .as_ref()
        .map(|rule| json!({ "policy": rule.policy, "rule": some(rule.rule.clone()), "number": some(rule.number) }));
    json!({
        "component": component(told.component()),
        "action": action(told.action()),
        "table": some(told.table.clone()),
        "rule": rule,
        "pod": some(told.pod.clone()),
        "service": some(told.service.clone()),
        "egress": some(told.egress.clone()),
        "translated_source": some(told.translated_source.clone()),
        "translated_destination": some(told.translated_destination.clone()),
        "translated_port": some(told.translated_port),
        "tunnel_destination": some(told.tunnel_destination.clone()),
        "vlan": some(told.vlan),
        "reason": some(told.reason.clone()),
        "ttl": some(told.ttl),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Run {
    fn timed_out(&self) -> bool {
        self.finished.is_none_or(|finished| finished.timed_out)
    }
}

impl Report for Run {
    fn text(&self) -> String {
        let traceflow = &self.traceflow;
        let what = match (traceflow.role(), traceflow.live) {
            (v1::TraceflowRole::Receiver, _) => "what arrives with the tag".to_owned(),
            (_, live) => {
                let (source, destination) = (end(traceflow.source.as_ref()), end(traceflow.destination.as_ref()));
                format!("{}{source} -> {destination}", if live { "live " } else { "" })
            }
        };
        let mut text = format!("{what} (tag {})\n", traceflow.tag);
        let widths =
            |of: fn(&v1::TraceflowObservation) -> &str| self.observations.iter().map(|told| of(told).len()).max();
        let columns = [
            widths(|told| component(told.component())),
            widths(|told| action(told.action())),
            widths(|told| &told.table),
        ];
        let [first, second, third] = columns.map(Option::unwrap_or_default);
        for (at, told) in self.observations.iter().enumerate() {
            let branch = if at + 1 == self.observations.len() { "└─" } else { "├─" };
            let (component, action, table) = (component(told.component()), action(told.action()), shown(&told.table));
            let line = format!("{branch} {component:first$}  {action:second$}  {table:third$}  {}", details(told));
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if self.timed_out() {
            text.push_str("no packet was seen to its end before the time was over\n");
        }
        if let Some(would) = &self.would {
            if self.tables {
                text.push_str("what would happen by the tables now (TraceService):\n");
                text.extend(would.text.lines().map(|line| format!("  {}\n", shown(line))));
            } else {
                let dropped = if would.drop_reason.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", shown(&would.drop_reason))
                };
                text.push_str(&format!(
                    "by the tables now (TraceService): {}{dropped}\n",
                    or_dash(shown(&would.actions))
                ));
            }
        }
        text
    }

    fn json(&self) -> Value {
        let would = self.would.as_ref().map(|would| {
            json!({
                "actions": would.actions,
                "drop_reason": some(would.drop_reason.clone()),
                "final_flow": would.final_flow,
                "text": self.tables.then_some(&would.text),
            })
        });
        json!({
            "name": self.traceflow.name,
            "tag": self.traceflow.tag,
            "live": self.traceflow.live,
            "observations": self.observations.iter().map(observation_json).collect::<Value>(),
            "packet": some(hex(&self.packet)),
            "timed_out": self.timed_out(),
            "trace": would,
        })
    }
}

/// Those that run.
struct Listed(Vec<v1::Traceflow>);

const COLUMNS: Columns<'_> = &[
    ("TAG", true),
    ("NAME", false),
    ("ROLE", false),
    ("LIVE", false),
    ("SOURCE", false),
    ("DESTINATION", false),
    ("SECONDS", true),
];

impl Listed {
    fn role(traceflow: &v1::Traceflow) -> &'static str {
        if traceflow.role() == v1::TraceflowRole::Receiver { "receiver" } else { "sender" }
    }

    fn live(traceflow: &v1::Traceflow) -> &'static str {
        match (traceflow.live, traceflow.dropped_only) {
            (false, _) => "no",
            (true, false) => "yes",
            (true, true) => "dropped",
        }
    }
}

impl Report for Listed {
    fn text(&self) -> String {
        let row = |traceflow: &v1::Traceflow| {
            vec![
                traceflow.tag.to_string(),
                shown(&traceflow.name).into_owned(),
                Self::role(traceflow).to_owned(),
                Self::live(traceflow).to_owned(),
                end(traceflow.source.as_ref()),
                end(traceflow.destination.as_ref()),
                traceflow.timeout_seconds.to_string(),
            ]
        };
        cells(COLUMNS, self.0.iter().map(row))
    }

    fn json(&self) -> Value {
        let one = |traceflow: &v1::Traceflow| {
            json!({
                "tag": traceflow.tag,
                "name": traceflow.name,
                "role": Self::role(traceflow),
                "live": traceflow.live,
                "dropped_only": traceflow.dropped_only,
                "source": end(traceflow.source.as_ref()),
                "destination": end(traceflow.destination.as_ref()),
                "timeout_seconds": traceflow.timeout_seconds,
            })
        };
        self.0.iter().map(one).collect()
    }
}

#[cfg(test)]
#[path = "traceflow_tests.rs"]
mod tests;
