//! `EventService`.

use super::{AntreaServices, refused};
use crate::calls::{StreamKind, lose};
use crate::services::api::Asked;
use crate::services::status::invalid;
use crate::services::watch::until_stopped;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use vswitch_antrea_node::{Delivery, KINDS, Reader, Watch};
use vswitch_dataplane::port::FieldError;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::EventKind;
use vswitch_proto::antrea::v1::watch_events_response::Event;

type Message = Result<v1::WatchEventsResponse, Status>;

/// Kinds that are asked for, each once.
fn wanted(kinds: &[i32]) -> Result<Vec<EventKind>, Status> {
    if kinds.is_empty() {
        return Ok(KINDS.into_iter().filter(|kind| *kind != EventKind::PacketToAnswer).collect());
    }
    let mut wanted = Vec::new();
    for told in kinds {
        let kind = EventKind::try_from(*told).ok().filter(|kind| *kind != EventKind::Unspecified).ok_or_else(|| {
            let problem = format!("{told} is no kind of event");
            invalid(&[FieldError::new("kinds", problem, "use those of EventKind, 1 to 7")])
        })?;
        if !wanted.contains(&kind) {
            wanted.push(kind);
        }
    }
    Ok(wanted)
}

const fn message(event: Event) -> Message {
    Ok(v1::WatchEventsResponse { event: Some(event) })
}

/// Sends events of one kind, and how many were lost whenever there are such.
async fn forward(kind: EventKind, mut reader: Reader<Event>, messages: mpsc::Sender<Message>) {
    let mut known = 0;
    while let Some(Delivery { items, behind, limited }) = reader.next().await {
        lose(StreamKind::Events, behind + limited.saturating_sub(known));
        let lost = (behind > 0 || limited != known).then(|| v1::EventsLost { kind: kind.into(), behind, limited });
        known = limited;
        for event in lost.map(Event::Lost).into_iter().chain(items.into_iter().map(Arc::unwrap_or_clone)) {
            if messages.send(message(event)).await.is_err() {
                return;
            }
        }
    }
}

/// Tells that the subscription stands, then what happens. Each kind waits for the reader by itself.
async fn fill(watch: Watch, messages: mpsc::Sender<Message>) {
    if messages.send(message(Event::Started(watch.started))).await.is_err() {
        return;
    }
    // They end with this future: a set aborts what it has when it is dropped.
    let mut kinds = JoinSet::new();
    for (kind, reader) in watch.readers {
        kinds.spawn(forward(kind, reader, messages.clone()));
    }
    drop(messages);
    while kinds.join_next().await.is_some() {}
}

#[tonic::async_trait]
impl v1::event_service_server::EventService for AntreaServices {
    type WatchEventsStream = BoxStream<v1::WatchEventsResponse>;

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let kinds = wanted(&request.into_inner().kinds)?;
        let watch = self.read(move |antrea| antrea.watch_events(&kinds)).await?;
        Ok(Response::new(until_stopped(self.control.stopping.clone(), |messages| fill(watch, messages))))
    }

    async fn answer_packet(
        &self,
        request: Request<v1::AnswerPacketRequest>,
    ) -> Result<Response<v1::AnswerPacketResponse>, Status> {
        let (_, extensions, v1::AnswerPacketRequest { token, verdict }) = request.into_parts();
        let verdict = v1::PacketVerdict::try_from(verdict).unwrap_or(v1::PacketVerdict::Unspecified);
        let antrea = Arc::clone(&self.antrea);
        // Not behind calls that wait for the node state.
        let asked = Asked::new("AnswerPacket", &extensions, &[verdict.as_str_name()]);
        let answer = move |_: &dyn vswitch_control::SwitchApi| {
            let answered = antrea.answer_packet(&token, verdict);
            asked.log_use(answered.as_ref().err().map(ToString::to_string).as_deref());
            answered
        };
        let answered = self.control.write(answer).await?;
        answered.map_err(|error| refused(&error))?;
        Ok(Response::new(v1::AnswerPacketResponse {}))
    }
}
