//! Events of connections, to one subscriber.

use super::filter;
use crate::calls::{StreamKind, lose};
use crate::services::status::invalid;
use tokio::sync::mpsc;
use tonic::Status;
use vswitch_conntrack::{Event, Filter};
use vswitch_control::switch::conntrack::ConnectionStream;
use vswitch_dataplane::port::FieldError;
use vswitch_dataplane::time::{Millis, unix_ms};
use vswitch_messages::connection::{self as present, Now};
use vswitch_proto::v1;
use vswitch_proto::v1::watch_connections_response::Update;

type Messages = mpsc::Sender<Result<v1::WatchConnectionsResponse, Status>>;

/// What a subscriber wants to know.
pub(super) struct Wanted {
    filter: Filter,
    /// Empty: all.
    kinds: Vec<v1::ConnectionEventKind>,
}

impl Wanted {
    pub(super) fn new(request: v1::WatchConnectionsRequest) -> Result<Self, Status> {
        let kind = |kind: i32| match v1::ConnectionEventKind::try_from(kind) {
            Ok(kind) if kind != v1::ConnectionEventKind::Unspecified => Ok(kind),
            _ => {
                let problem = format!("{kind} is no kind of event");
                Err(invalid(&[FieldError::new("kinds", problem, "use NEW (1), UPDATE (2) or END (3)")]))
            }
        };
        let kinds: Result<_, Status> = request.kinds.into_iter().map(kind).collect();
        Ok(Self { filter: filter::filter(request.filter)?, kinds: kinds? })
    }

    fn wants(&self, event: &Event) -> bool {
        let is_kind = self.kinds.is_empty() || self.kinds.contains(&present::event_kind(event.kind));
        is_kind && self.filter.matches(&event.connection)
    }
}

const fn message(update: Update) -> v1::WatchConnectionsResponse {
    v1::WatchConnectionsResponse { update: Some(update) }
}

/// Tells that the subscription stands, then what happens and how much was lost.
pub(super) async fn forward(mut stream: ConnectionStream, wanted: Wanted, messages: Messages) {
    if messages.send(Ok(message(Update::Started(v1::WatchStarted {})))).await.is_err() {
        return;
    }
    let mut told = 0;
    while let Some((events, lost)) = stream.next().await {
        if lost != told {
            lose(StreamKind::Connections, lost.saturating_sub(told));
            told = lost;
            if messages.send(Ok(message(Update::Lost(lost)))).await.is_err() {
                return;
            }
        }
        let now = Now { ms: Millis::now().0, unix_ms: unix_ms() };
        for event in events.iter().filter(|event| wanted.wants(event)) {
            let kind = present::event_kind(event.kind).into();
            let event = v1::ConnectionEvent { kind, connection: Some(present::connection(&event.connection, now)) };
            if messages.send(Ok(message(Update::Event(event)))).await.is_err() {
                return;
            }
        }
    }
}
