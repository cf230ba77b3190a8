//! Packets that are sent, and traces of packets.

use super::super::Answer;
use crate::cli::Bytes;
use crate::client::Client;
use crate::output::{Report, Warned};
use serde_json::{Value, json};
use vswitch_proto::v1;
use vswitch_proto::v1::trace_request::Input;

pub(super) async fn send(client: &Client, bridge: &str, packet: &str) -> Answer {
    let packet_out = Some(v1::send_packet_request::PacketOut::Text(packet.to_owned()));
    let request = v1::SendPacketRequest { bridge: bridge.to_owned(), packet_out };
    Ok(Box::new(Warned(client.answer(client.packets().await?.send_packet(request).await)?.warnings)))
}

/// The packet of a trace: a flow, or bytes with their port.
pub(super) fn input(flow: Option<&str>, packet: Option<&Bytes>, in_port: Option<&str>) -> Input {
    match packet {
        Some(Bytes(bytes)) => {
            Input::Packet(v1::TracePacket { in_port: in_port.unwrap_or("LOCAL").to_owned(), packet: bytes.clone() })
        }
        None => Input::Flow(flow.unwrap_or_default().to_owned()),
    }
}

pub(super) async fn trace(client: &Client, bridge: &str, input: Input, ct_next: &[String], names: bool) -> Answer {
    let request = v1::TraceRequest { bridge: bridge.to_owned(), input: Some(input), names, ct_next: ct_next.to_vec() };
    Ok(Box::new(Trace(client.answer(client.traces().await?.trace(request).await)?)))
}

/// `trace`.
struct Trace(v1::TraceResponse);

impl Report for Trace {
    fn text(&self) -> String {
        let text = &self.0.text;
        if text.is_empty() || text.ends_with('\n') { text.clone() } else { format!("{text}\n") }
    }

    fn json(&self) -> Value {
        let v1::TraceResponse { text, final_flow, megaflow, actions, drop_reason } = &self.0;
        json!({
            "final_flow": final_flow,
            "megaflow": megaflow,
            "actions": actions,
            "drop_reason": (!drop_reason.is_empty()).then_some(drop_reason),
            "text": text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_both_ways() {
        let trace = Trace(v1::TraceResponse {
            text: "bridge(\"br0\")\n...\nDatapath actions: drop".to_owned(),
            actions: "drop".to_owned(),
            drop_reason: "table_miss".to_owned(),
            ..Default::default()
        });
        assert_eq!(trace.text(), "bridge(\"br0\")\n...\nDatapath actions: drop\n");
        assert_eq!((&trace.json()["actions"], &trace.json()["drop_reason"]), (&json!("drop"), &json!("table_miss")));
        assert_eq!(Trace(v1::TraceResponse::default()).json()["drop_reason"], Value::Null);
    }
}
