//! `PacketService`.

use super::api::{Asked, Control};
use super::status::{invalid, status};
use super::{list, text, watch};
use crate::calls::{StreamKind, lose};
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::mpsc;
use tonic::codegen::BoxStream;
use tonic::{Code, Request, Response, Status};
use vswitch_control::switch::pipeline::{NameMap, PacketStream, WriteError};
use vswitch_dataplane::pipeline::{ControllerInfo, Fate, Interest, NO_COOKIE, PacketIn};
use vswitch_dataplane::port::FieldError;
use vswitch_flow::Field;
use vswitch_flow::text::{PacketOut, Parsed, Style, parse_packet_out};
use vswitch_messages as typed;
use vswitch_proto::v1;
use vswitch_proto::v1::watch_packet_ins_response::Update;

/// See `proto/vswitch/v1/packet.proto`.
pub(crate) struct Packets(pub(crate) Control);

type Message = Result<v1::WatchPacketInsResponse, Status>;

/// A packet-in as a message.
fn message(packet_in: &PacketIn, style: Style, names: &NameMap) -> v1::PacketIn {
    v1::PacketIn {
        table: packet_in.table.into(),
        cookie: (packet_in.cookie != NO_COOKIE).then_some(packet_in.cookie),
        reason: typed::reason(packet_in.reason).into(),
        controller_id: packet_in.controller.into(),
        userdata: packet_in.userdata.to_vec(),
        metadata: typed::fields(&packet_in.metadata),
        packet: packet_in.packet.clone(),
        continuation: packet_in.token.clone(),
        text: text::packet_in(packet_in, style, names),
    }
}

pub(super) fn controller(info: &ControllerInfo) -> v1::ControllerState {
    let of = |fate: Fate| info.packets[fate as usize];
    v1::ControllerState {
        controller_id: info.controller.into(),
        subscribers: u32::try_from(info.subscribers).unwrap_or(u32::MAX),
        told: of(Fate::Told),
        lost: of(Fate::Lost),
        metered: of(Fate::Metered),
        limited: of(Fate::Limited),
    }
}

/// Sends packet-ins, and how many were lost whenever that changes.
async fn forward(mut packets: PacketStream, style: Style, names: NameMap, messages: mpsc::Sender<Message>) {
    let mut told = 0;
    while let Some(packet_in) = packets.receiver.recv().await {
        let lost = packets.lost.load(Relaxed);
        if lost != told {
            lose(StreamKind::Packets, lost.saturating_sub(told));
            told = lost;
            let update = v1::WatchPacketInsResponse { update: Some(Update::Lost(lost)) };
            if messages.send(Ok(update)).await.is_err() {
                return;
            }
        }
        let update = Update::PacketIn(message(&packet_in, style, &names));
        if messages.send(Ok(v1::WatchPacketInsResponse { update: Some(update) })).await.is_err() {
            return;
        }
    }
}

/// A packet to send, and what was odd about it.
pub(super) fn packet_out(
    request: v1::send_packet_request::PacketOut,
    names: &NameMap,
) -> Result<Parsed<PacketOut>, Status> {
    use v1::packet_out::Doing;
    use v1::send_packet_request::PacketOut as Kind;
    match request {
        Kind::Text(line) => parse_packet_out(&line, names).map_err(|error| list::wrong("text", &error)),
        Kind::Typed(message) => {
            let wrong = |error| list::wrong("metadata", &error);
            let mut metadata = typed::metadata(&message.metadata).map_err(wrong)?;
            if !typed::names_field(&message.metadata, Field::InPort) {
                metadata.set(Field::InPort, PacketOut::IN_PORT.into());
            }
            PacketOut::check(&message.packet).map_err(|refusal| list::wrong("packet", &refusal.into()))?;
            let doing = match &message.doing {
                Some(Doing::Actions(actions)) => typed::Text::Typed(actions),
                Some(Doing::ActionsText(text)) => typed::Text::Line(text),
                None => typed::Text::None,
            };
            let mut warnings = Vec::new();
            let wrong = |error| list::wrong("actions", &error);
            let actions = typed::actions(&doing, names, &mut warnings).map_err(wrong)?;
            let actions = typed::accepted_of_packet_out(actions).map_err(wrong)?;
            Ok(Parsed { value: PacketOut { metadata, packet: message.packet, actions }, warnings })
        }
    }
}

/// The status for a packet-out that the switch refused.
fn refused(error: WriteError) -> Status {
    match error {
        WriteError::Switch(error) => status(&error),
        WriteError::Refused(refused) => {
            let text = format!("{}: {}", refused.code, refused.reason);
            Status::new(Code::FailedPrecondition, super::status::clip(&text, 1024))
        }
    }
}

#[tonic::async_trait]
impl v1::packet_service_server::PacketService for Packets {
    type WatchPacketInsStream = BoxStream<v1::WatchPacketInsResponse>;

    async fn watch_packet_ins(
        &self,
        request: Request<v1::WatchPacketInsRequest>,
    ) -> Result<Response<Self::WatchPacketInsStream>, Status> {
        let (_, extensions, request) = request.into_parts();
        let v1::WatchPacketInsRequest { bridge, controller_id, names: by_name, invalid_ttl } = request;
        let controller = u16::try_from(controller_id).map_err(|_| {
            let problem = format!("{controller_id} is out of range");
            invalid(&[FieldError::new("controller_id", problem, "use 0 to 65535")])
        })?;
        let interest = Interest { controller, invalid_ttl };
        let asked = Asked::new("WatchPacketIns", &extensions, &[&bridge, &controller.to_string()]);
        let call = move |switch: &dyn vswitch_control::SwitchApi| {
            let names = switch.names(&bridge)?;
            Ok((names, switch.subscribe_packets(&bridge, interest)?))
        };
        let (names, packets) = self.0.use_logged(asked, call).await?;
        let style = Style { names: by_name };
        let forwarding = |messages| forward(packets, style, names, messages);
        Ok(Response::new(watch::until_stopped(self.0.stopping.clone(), forwarding)))
    }

    async fn send_packet(
        &self,
        request: Request<v1::SendPacketRequest>,
    ) -> Result<Response<v1::SendPacketResponse>, Status> {
        let (_, extensions, v1::SendPacketRequest { bridge, packet_out: message }) = request.into_parts();
        let message = message
            .ok_or_else(|| invalid(&[FieldError::new("packet_out", "not given", "give it as text, or typed")]))?;
        let asked = Asked::new("SendPacket", &extensions, &[&bridge]);
        let call = move |switch: &dyn vswitch_control::SwitchApi| {
            let send = || {
                let names = switch.names(&bridge).map_err(|error| status(&error))?;
                let Parsed { value, warnings } = packet_out(message, &names)?;
                switch.packet_out(&bridge, &value).map_err(refused)?;
                Ok(warnings)
            };
            let sent: Result<_, Status> = send();
            asked.log_use(sent.as_ref().err().map(Status::message));
            sent
        };
        let warnings = self.0.write(call).await??;
        Ok(Response::new(v1::SendPacketResponse { warnings }))
    }

    async fn resume_packet(
        &self,
        request: Request<v1::ResumePacketRequest>,
    ) -> Result<Response<v1::ResumePacketResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let v1::ResumePacketRequest { bridge, continuation, packet } = request;
        let asked = Asked::new("ResumePacket", &extensions, &[&bridge]);
        self.0.use_logged(asked, move |switch| switch.resume_packet(&bridge, &continuation, &packet)).await?;
        Ok(Response::new(v1::ResumePacketResponse {}))
    }

    async fn list_controllers(
        &self,
        request: Request<v1::ListControllersRequest>,
    ) -> Result<Response<v1::ListControllersResponse>, Status> {
        let bridge = request.into_inner().bridge;
        let infos = self.0.try_read(move |switch| switch.controllers(&bridge)).await?;
        Ok(Response::new(v1::ListControllersResponse { controllers: infos.iter().map(controller).collect() }))
    }
}
