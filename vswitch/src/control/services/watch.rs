//! The stream of port events.

use super::present;
use crate::control::{BridgeInfo, PortEvent, PortEventKind};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use vswitch_proto::v1;
use vswitch_proto::v1::watch_ports_response::Update;

/// Messages between the task of a stream and its connection. Small: a slow client is to fall behind in the switch's queue,
/// where it is told how much it lost.
const STREAM_QUEUED: usize = 16;

type Message = Result<v1::WatchPortsResponse, Status>;

/// A stream of the ports that exist and then of all events, until the client goes away or the server stops.
pub(super) fn stream(
    existing: Vec<BridgeInfo>,
    events: broadcast::Receiver<PortEvent>,
    mut stopping: watch::Receiver<bool>,
) -> ReceiverStream<Message> {
    let (messages, receiver) = mpsc::channel(STREAM_QUEUED);
    tokio::spawn(async move {
        tokio::select! {
            () = messages.closed() => {}
            // An error means that the server is gone, which is as good as stopping.
            _ = stopping.wait_for(|stopping| *stopping) => {
                // Without room the client is slow; then its stream just ends.
                let _ = messages.try_send(Err(Status::unavailable("vswitchd is stopping; call again when it is back")));
            }
            () = forward(existing, events, &messages) => {}
        }
    });
    ReceiverStream::new(receiver)
}

/// Sends until the receiver is gone, or the switch is.
async fn forward(
    existing: Vec<BridgeInfo>,
    mut events: broadcast::Receiver<PortEvent>,
    messages: &mpsc::Sender<Message>,
) {
    for port in existing.iter().flat_map(|bridge| &bridge.ports) {
        let event = PortEvent { sequence: 0, kind: PortEventKind::Added, port: port.clone() };
        if messages.send(Ok(message(Update::Event(present::port_event(&event))))).await.is_err() {
            return;
        }
    }
    loop {
        let update = match events.recv().await {
            Ok(event) => Update::Event(present::port_event(&event)),
            Err(RecvError::Lagged(lost)) => Update::Lost(lost),
            Err(RecvError::Closed) => return,
        };
        if messages.send(Ok(message(update))).await.is_err() {
            return;
        }
    }
}

fn message(update: Update) -> v1::WatchPortsResponse {
    v1::WatchPortsResponse { update: Some(update) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::PortEventKind;
    use crate::control::services::double;
    use std::time::Duration;
    use tokio_stream::StreamExt;

    fn event(sequence: u64) -> PortEvent {
        PortEvent { sequence, kind: PortEventKind::LinkUp, port: double::port("br0", "p0", 1) }
    }

    async fn next(stream: &mut ReceiverStream<Message>) -> Option<Result<String, Status>> {
        let next = tokio::time::timeout(Duration::from_secs(5), stream.next()).await.expect("a message within 5 s");
        next.map(|message| {
            message.map(|message| match message.update.expect("an update") {
                Update::Event(event) => format!("{} {:?}", event.sequence, event.kind()),
                Update::Lost(lost) => format!("lost {lost}"),
            })
        })
    }

    #[tokio::test]
    async fn existing_ports_come_first_and_losses_are_told() {
        let (sender, events) = broadcast::channel(4);
        for sequence in 1..=7 {
            sender.send(event(sequence)).expect("a subscriber");
        }
        let (_stop, stopping) = watch::channel(false);
        let existing = vec![double::bridge("br0", vec![double::port("br0", "p0", 1)])];
        let mut stream = stream(existing, events, stopping);
        for want in ["0 Added", "lost 3", "4 LinkUp", "5 LinkUp", "6 LinkUp", "7 LinkUp"] {
            assert_eq!(next(&mut stream).await.expect("a message").expect("no error"), want);
        }
        drop(sender);
        assert!(next(&mut stream).await.is_none(), "the stream outlived the switch");
    }

    #[tokio::test]
    async fn it_ends_when_the_server_stops_even_if_the_client_reads_nothing() {
        let (sender, events) = broadcast::channel(64);
        let (stop, stopping) = watch::channel(false);
        let mut stream = stream(Vec::new(), events, stopping);
        for sequence in 1..=40 {
            sender.send(event(sequence)).expect("a subscriber");
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // the task now waits for room in the full channel
        stop.send(true).expect("a receiver");
        let closed = async {
            while sender.receiver_count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), closed).await.expect("the task ended");
        let mut messages = 0;
        while next(&mut stream).await.is_some() {
            messages += 1;
        }
        assert_eq!(messages, STREAM_QUEUED, "what was queued is still delivered");
    }

    #[tokio::test]
    async fn a_client_that_reads_is_told_that_the_server_stops() {
        let (_sender, events) = broadcast::channel(4);
        let (stop, stopping) = watch::channel(false);
        let mut stream = stream(Vec::new(), events, stopping);
        stop.send(true).expect("a receiver");
        let status = next(&mut stream).await.expect("a message").expect_err("a status");
        assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
        assert!(next(&mut stream).await.is_none());
    }
}
