//! What our switch tells: packet-ins, and flows that went.

use super::Ours;
use crate::record::{PacketIn, hex};
use crate::subject::{BRIDGE, SECOND_CONTROLLER};
use std::collections::BTreeMap;
use tonic::Streaming;
use tonic::transport::Channel;
use vswitch_proto::v1;
use vswitch_proto::v1::packet_service_client::PacketServiceClient;
use vswitch_proto::v1::pipeline_service_client::PipelineServiceClient;

/// Cookie of the flow that marks the end of flow-removed events.
const MARKER: u64 = 0xfeed_c0de_0000_0000;

impl Ours {
    /// Packet-ins so far.
    pub(super) fn take_packet_ins(&mut self) -> Vec<PacketIn> {
        self.markers += 1;
        let marker = [&MARKER.to_be_bytes()[..4], &self.markers.to_be_bytes()].concat();
        let userdata = marker.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(".");
        let text = format!(
            "in_port=CONTROLLER,packet={},actions=controller(userdata={userdata}),controller(id={SECOND_CONTROLLER},userdata={userdata})",
            hex(&[0; 60])
        );
        let packet_out = Some(v1::send_packet_request::PacketOut::Text(text));
        let request = v1::SendPacketRequest { bridge: BRIDGE.to_owned(), packet_out };
        let mut service = PacketServiceClient::new(self.channel.clone());
        let mut events = Vec::new();
        self.runtime.block_on(async {
            service.send_packet(request).await.expect("a marker can be sent");
            for stream in &mut self.packet_ins {
                loop {
                    let message = stream.message().await.expect("packet-ins").expect("no end");
                    match message.update {
                        Some(v1::watch_packet_ins_response::Update::PacketIn(told)) if told.userdata == marker => break,
                        Some(v1::watch_packet_ins_response::Update::PacketIn(told)) => events.push(told),
                        Some(v1::watch_packet_ins_response::Update::Lost(lost)) => panic!("{lost} packet-ins lost"),
                        None => {}
                    }
                }
            }
        });
        for event in &events {
            if !event.continuation.is_empty() {
                self.paused = Some(event.continuation.clone());
            }
        }
        events.into_iter().map(packet_in).collect()
    }

    /// Flow-removed events so far.
    pub(super) fn take_removed(&mut self) -> Vec<String> {
        self.markers += 1;
        let cookie = MARKER + self.markers;
        let mut events = Vec::new();
        self.write(v1::LineKind::AddFlow, format!("table=253,cookie={cookie:#x},send_flow_rem,actions=drop"));
        self.write(v1::LineKind::DeleteFlows, format!("table=253,cookie={cookie:#x}/-1"));
        self.runtime.block_on(async {
            loop {
                let message = self.removed.message().await.expect("flow-removed events").expect("no end");
                let Some(v1::watch_flows_response::Update::Removed(removed)) = message.update else {
                    panic!("flow-removed events were lost: {message:?}");
                };
                let entry = removed.flow.clone().expect("the flow that went");
                let flow = entry.flow.expect("in the form asked for");
                if flow.cookie == cookie {
                    break;
                }
                events.push(flow_removed(removed.reason(), &flow, &entry.statistics.unwrap_or_default()));
            }
        });
        events
    }

    /// Writes a line without a process.
    fn write(&self, kind: v1::LineKind, line: String) {
        let line = v1::update::Update::Line(v1::LineUpdate { kind: kind.into(), line });
        let update = v1::Update { update: Some(line), ..v1::Update::default() };
        let request = v1::WriteRequest { bridge: BRIDGE.to_owned(), updates: vec![update], commit: true };
        let mut service = PipelineServiceClient::new(self.channel.clone());
        self.runtime.block_on(service.write(tokio_stream::iter([request]))).expect("a marker can be written");
    }
}

/// A stream of the packet-ins of a controller.
pub(super) async fn watch_packets(channel: &Channel, id: u16) -> Streaming<v1::WatchPacketInsResponse> {
    let request = v1::WatchPacketInsRequest {
        bridge: BRIDGE.to_owned(),
        controller_id: id.into(),
        ..v1::WatchPacketInsRequest::default()
    };
    let stream = PacketServiceClient::new(channel.clone()).watch_packet_ins(request).await;
    stream.expect("a stream of packet-ins").into_inner()
}

fn packet_in(told: v1::PacketIn) -> PacketIn {
    let reason = match told.reason() {
        v1::PacketInReason::NoMatch => "no_match",
        v1::PacketInReason::Unspecified => "unspecified",
        v1::PacketInReason::Action => "action",
        v1::PacketInReason::InvalidTtl => "invalid_ttl",
        v1::PacketInReason::ActionSet => "action_set",
        v1::PacketInReason::Group => "group",
        v1::PacketInReason::PacketOut => "packet_out",
    };
    let mut metadata = BTreeMap::new();
    for field in told.metadata {
        let value = match field.value.expect("a value") {
            v1::field_value::Value::Number(number) => number.into(),
            v1::field_value::Value::Octets(octets) => {
                octets.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
            }
        };
        metadata.insert(field.field, format!("{value:#x}"));
    }
    PacketIn {
        table: u8::try_from(told.table).expect("a table's number"),
        cookie: told.cookie.unwrap_or_default(),
        reason: reason.to_owned(),
        metadata,
        userdata: told.userdata,
        packet: told.packet,
        paused: !told.continuation.is_empty(),
    }
    .without_quirks()
}

fn flow_removed(reason: v1::FlowRemovedReason, flow: &v1::Flow, statistics: &v1::FlowStatistics) -> String {
    let reason = match reason {
        v1::FlowRemovedReason::Unspecified => "other",
        v1::FlowRemovedReason::IdleTimeout => "idle",
        v1::FlowRemovedReason::HardTimeout => "hard",
        v1::FlowRemovedReason::Delete => "delete",
        v1::FlowRemovedReason::GroupDelete => "group_delete",
        v1::FlowRemovedReason::MeterDelete => "meter_delete",
    };
    format!(
        "cookie={:#x} table={} priority={} reason={reason} idle_timeout={} hard_timeout={} n_packets={} n_bytes={}",
        flow.cookie,
        flow.table,
        flow.priority.unwrap_or(0x8000),
        flow.idle_timeout,
        flow.hard_timeout,
        statistics.packets,
        statistics.bytes
    )
}
