//! Packets that are sent, and traces of packets.

use crate::cli::Bytes;
use crate::client::Client;
use crate::output::{Answer, Report, Warned};
use serde_json::{Value, json};
use vswitch_proto::v1;
use vswitch_proto::v1::trace_request::Input;

pub(super) async fn send(client: &Client, bridge: &str, packet: &str) -> Answer {
    let packet_out = Some(v1::send_packet_request::PacketOut::Text(packet.to_owned()));
    let request = v1::SendPacketRequest { bridge: bridge.to_owned(), packet_out };
    Ok(Box::new(Warned(client.answer(client.packets().await?.send_packet(request).await)?.warnings)))
}

pub(super) async fn controllers(client: &Client, bridge: &str) -> Answer {
    let request = v1::ListControllersRequest { bridge: bridge.to_owned() };
    Ok(Box::new(Controllers(client.answer(client.packets().await?.list_controllers(request).await)?)))
}

/// `dump-controllers`.
struct Controllers(v1::ListControllersResponse);

impl Report for Controllers {
    fn text(&self) -> String {
        let row = |state: &v1::ControllerState| {
            let v1::ControllerState { controller_id, subscribers, told, lost, metered, limited } = state;
            format!("{controller_id:>10} {subscribers:>11} {told:>12} {lost:>12} {metered:>12} {limited:>12}\n")
        };
        let columns = ["controller", "subscribers", "told", "lost", "metered", "limited"];
        let [controller, subscribers, told, lost, metered, limited] = columns;
        let head = format!("{controller:>10} {subscribers:>11} {told:>12} {lost:>12} {metered:>12} {limited:>12}\n");
        std::iter::once(head).chain(self.0.controllers.iter().map(row)).collect()
    }

    fn json(&self) -> Value {
        let controller = |state: &v1::ControllerState| {
            json!({
                "controller": state.controller_id,
                "subscribers": state.subscribers,
                "told": state.told,
                "lost": state.lost,
                "metered": state.metered,
                "limited": state.limited,
            })
        };
        self.0.controllers.iter().map(controller).collect()
    }
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
    fn controllers_both_ways() {
        let state =
            v1::ControllerState { controller_id: 62373, subscribers: 1, told: 20, lost: 3, metered: 400, limited: 5 };
        let controllers = Controllers(v1::ListControllersResponse { controllers: vec![state] });
        let want = "\
controller subscribers         told         lost      metered      limited
     62373           1           20            3          400            5
";
        assert_eq!(controllers.text(), want);
        let want =
            json!([{ "controller": 62373, "subscribers": 1, "told": 20, "lost": 3, "metered": 400, "limited": 5 }]);
        assert_eq!(controllers.json(), want);
    }

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
