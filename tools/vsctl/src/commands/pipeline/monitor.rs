//! What the pipeline tells controllers, as it happens: packet-ins, and flows that go.

use super::{by_name, flows};
use crate::cli::Monitor;
use crate::client::Client;
use crate::commands::events::next;
use crate::error::Error;
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;
use tonic::Streaming;
use vswitch_proto::v1;
use vswitch_proto::v1::watch_flows_response::Update as FlowUpdate;
use vswitch_proto::v1::watch_packet_ins_response::Update as PacketUpdate;

type Packets = Streaming<v1::WatchPacketInsResponse>;
type Flows = Streaming<v1::WatchFlowsResponse>;

/// Writes messages, each at once, until there were enough or the switch stops.
pub(super) async fn follow(
    client: &Client,
    args: &Monitor,
    timeout: Duration,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let beginning = tokio::time::timeout(timeout, begin(client, args, as_json)).await;
    let (mut packets, mut removed) =
        beginning.map_err(|_| client.unreachable(format!("no answer within {timeout:?}")))??;
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        let told = tokio::select! {
            message = next(client, &mut packets) => {
                let Some(update) = message?.update else { continue };
                let told = if as_json { packet_json(&update).to_string() } else { packet_text(&update) };
                if let (true, PacketUpdate::PacketIn(packet_in)) = (args.resume, update) {
                    resume(client, &args.bridge, packet_in).await?;
                }
                told
            }
            message = next(client, &mut removed) => {
                let Some(update) = message?.update else { continue };
                if as_json { flow_json(&update).to_string() } else { flow_text(&update) }
            }
        };
        writeln!(out, "{told}")?;
        out.flush()?;
    }
    Ok(())
}

async fn begin(client: &Client, args: &Monitor, as_json: bool) -> Result<(Packets, Flows), Error> {
    let (bridge, names) = (args.bridge.clone(), by_name(&args.names));
    let form = if as_json { v1::Form::Text } else { v1::Form::Line }.into();
    let request = v1::WatchFlowsRequest { bridge: bridge.clone(), form, names };
    let flows = client.answer(client.flows().await?.watch_flows(request).await)?;
    let invalid_ttl = args.words.iter().any(|word| word == "invalid_ttl");
    let request = v1::WatchPacketInsRequest { bridge, controller_id: args.controller, names, invalid_ttl };
    Ok((client.answer(client.packets().await?.watch_packet_ins(request).await)?, flows))
}

/// Lets a paused packet go on as it was.
async fn resume(client: &Client, bridge: &str, packet_in: v1::PacketIn) -> Result<(), Error> {
    let continuation = packet_in.continuation;
    if continuation.is_empty() {
        return Ok(());
    }
    let request = v1::ResumePacketRequest { bridge: bridge.to_owned(), continuation, packet: Vec::new() };
    client.answer(client.packets().await?.resume_packet(request).await)?;
    Ok(())
}

fn packet_text(update: &PacketUpdate) -> String {
    match update {
        PacketUpdate::PacketIn(packet_in) => packet_in.text.clone(),
        PacketUpdate::Lost(lost) => format!("lost {lost} packet-ins so far"),
    }
}

const fn reason(reason: v1::PacketInReason) -> &'static str {
    match reason {
        v1::PacketInReason::NoMatch => "no_match",
        v1::PacketInReason::Unspecified | v1::PacketInReason::Action => "action",
        v1::PacketInReason::InvalidTtl => "invalid_ttl",
        v1::PacketInReason::ActionSet => "action_set",
        v1::PacketInReason::Group => "group",
        v1::PacketInReason::PacketOut => "packet_out",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn field_json(field: &v1::FieldValue) -> (String, Value) {
    use v1::field_value::Value as Kind;
    let value = match &field.value {
        Some(Kind::Number(number)) => format!("{number:#x}"),
        Some(Kind::Octets(octets)) => format!("0x{}", hex(octets)),
        None => String::new(),
    };
    (field.field.clone(), value.into())
}

fn packet_json(update: &PacketUpdate) -> Value {
    let packet_in = match update {
        PacketUpdate::PacketIn(packet_in) => packet_in,
        PacketUpdate::Lost(lost) => return json!({ "lost": lost }),
    };
    json!({
        "event": "packet-in",
        "table": packet_in.table,
        "cookie": packet_in.cookie.map(|cookie| format!("{cookie:#x}")),
        "reason": reason(packet_in.reason()),
        "controller": packet_in.controller_id,
        "userdata": hex(&packet_in.userdata),
        "metadata": packet_in.metadata.iter().map(field_json).collect::<serde_json::Map<_, _>>(),
        "packet": hex(&packet_in.packet),
        "continuation": hex(&packet_in.continuation),
    })
}

fn flow_text(update: &FlowUpdate) -> String {
    match update {
        FlowUpdate::Removed(removed) => removed.flow.as_ref().map(|flow| flow.line.clone()).unwrap_or_default(),
        FlowUpdate::Lost(lost) => format!("lost {lost} flow-removed messages"),
    }
}

fn flow_json(update: &FlowUpdate) -> Value {
    let removed = match update {
        FlowUpdate::Removed(removed) => removed,
        FlowUpdate::Lost(lost) => return json!({ "lost": lost }),
    };
    let reason = match removed.reason() {
        v1::FlowRemovedReason::Unspecified => "unknown",
        v1::FlowRemovedReason::IdleTimeout => "idle",
        v1::FlowRemovedReason::HardTimeout => "hard",
        v1::FlowRemovedReason::Delete => "delete",
        v1::FlowRemovedReason::GroupDelete => "group_delete",
        v1::FlowRemovedReason::MeterDelete => "meter_delete",
    };
    let flow = removed.flow.clone().unwrap_or_default();
    json!({ "event": "flow-removed", "reason": reason, "flow": flows::json(&flow) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::field_value::Value as Kind;

    #[test]
    fn a_packet_in_both_ways() {
        let field = |name: &str, value| v1::FieldValue { field: name.to_owned(), value: Some(value), mask: None };
        let packet_in = PacketUpdate::PacketIn(v1::PacketIn {
            table: 3,
            cookie: Some(0x10),
            reason: v1::PacketInReason::NoMatch.into(),
            controller_id: 7,
            userdata: vec![1, 0xab],
            metadata: vec![field("in_port", Kind::Number(1)), field("ct_label", Kind::Octets(vec![0, 5]))],
            packet: vec![2, 0],
            continuation: vec![9],
            text: "NXT_PACKET_IN2 ...".to_owned(),
        });
        assert_eq!(packet_text(&packet_in), "NXT_PACKET_IN2 ...");
        let want = json!({
            "event": "packet-in", "table": 3, "cookie": "0x10", "reason": "no_match", "controller": 7, "userdata": "01ab",
            "metadata": { "in_port": "0x1", "ct_label": "0x0005" }, "packet": "0200", "continuation": "09",
        });
        assert_eq!(packet_json(&packet_in), want);
        assert_eq!(packet_text(&PacketUpdate::Lost(4)), "lost 4 packet-ins so far");
        assert_eq!(packet_json(&PacketUpdate::Lost(4)), json!({ "lost": 4 }));
    }

    #[test]
    fn a_flow_that_went_both_ways() {
        let flow = v1::FlowEntry { line: "OFPT_FLOW_REMOVED ...".to_owned(), ..Default::default() };
        let reason = v1::FlowRemovedReason::IdleTimeout.into();
        let removed = FlowUpdate::Removed(v1::FlowRemoved { flow: Some(flow), reason });
        assert_eq!(flow_text(&removed), "OFPT_FLOW_REMOVED ...");
        let json = flow_json(&removed);
        assert_eq!((&json["event"], &json["reason"]), (&json!("flow-removed"), &json!("idle")));
        assert_eq!(flow_text(&FlowUpdate::Lost(2)), "lost 2 flow-removed messages");
    }
}
