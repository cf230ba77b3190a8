//! Streams of events.

use super::present;
use crate::calls::{StreamKind, lose};
use std::future::Future;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::codegen::BoxStream;
use vswitch_control::{BridgeInfo, PortEvent, PortEventKind, PortInfo};
use vswitch_proto::v1;
use vswitch_proto::v1::watch_ports_response::Update;

/// Messages between the task of a stream and its connection. Small: a slow client is to fall behind
/// in the switch's queue, where it is told how much it lost.
const STREAM_QUEUED: usize = 16;

/// What a subscription yields.
pub(super) enum Updates<T> {
    /// Something happened.
    Event(T),
    /// The subscriber fell behind by so many.
    Lost(u64),
}

/// A stream that a task fills until the client goes away or the server stops.
pub(super) fn until_stopped<M, F>(
    mut stopping: watch::Receiver<bool>,
    fill: impl FnOnce(mpsc::Sender<Result<M, Status>>) -> F,
) -> BoxStream<M>
where
    M: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (messages, receiver) = mpsc::channel(STREAM_QUEUED);
    let filling = fill(messages.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = messages.closed() => {}
            // An error means that the server is gone, which is as good as stopping.
            _ = stopping.wait_for(|stopping| *stopping) => {
                // Without room the client is slow; then its stream just ends.
                let _ = messages.try_send(Err(Status::unavailable("vswitchd is stopping; call again when it is back")));
            }
            () = filling => {}
        }
    });
    Box::pin(ReceiverStream::new(receiver))
}

/// A stream of what exists and then of all events, until the client goes away or the server stops.
pub(super) fn stream<T, M>(
    existing: Vec<T>,
    mut events: broadcast::Receiver<T>,
    stopping: watch::Receiver<bool>,
    message: impl Fn(Updates<T>) -> M + Send + 'static,
) -> BoxStream<M>
where
    T: Clone + Send + 'static,
    M: Send + 'static,
{
    until_stopped(stopping, |messages| async move {
        for event in existing {
            if messages.send(Ok(message(Updates::Event(event)))).await.is_err() {
                return;
            }
        }
        loop {
            let update = match events.recv().await {
                Ok(event) => Updates::Event(event),
                Err(RecvError::Lagged(lost)) => Updates::Lost(lost),
                Err(RecvError::Closed) => return,
            };
            if messages.send(Ok(message(update))).await.is_err() {
                return;
            }
        }
    })
}

/// The stream of port events: first the ports that there are.
pub(super) fn ports(
    existing: &[BridgeInfo],
    events: broadcast::Receiver<PortEvent>,
    stopping: watch::Receiver<bool>,
) -> BoxStream<v1::WatchPortsResponse> {
    let added = |port: &PortInfo| PortEvent { sequence: 0, kind: PortEventKind::Added, port: port.clone() };
    let existing = existing.iter().flat_map(|bridge| &bridge.ports);
    // One whose device is being opened is told when it is there.
    let existing = existing.filter(|port| !port.opening).map(added).collect();
    stream(existing, events, stopping, |update| v1::WatchPortsResponse {
        update: Some(match update {
            Updates::Event(event) => Update::Event(present::port_event(&event)),
            Updates::Lost(lost) => {
                lose(StreamKind::Ports, lost);
                Update::Lost(lost)
            }
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio_stream::StreamExt;
    use vswitch_testkit::double;

    fn event(sequence: u64) -> PortEvent {
        PortEvent { sequence, kind: PortEventKind::LinkUp, port: double::port("br0", "p0", 1) }
    }

    async fn next(stream: &mut BoxStream<v1::WatchPortsResponse>) -> Option<Result<String, Status>> {
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
        let mut stream = ports(&existing, events, stopping);
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
        let mut stream = ports(&[], events, stopping);
        for sequence in 1..=40 {
            sender.send(event(sequence)).expect("a subscriber");
        }
        // The task now waits for room in the full channel
        tokio::time::sleep(Duration::from_millis(50)).await;
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
        let mut stream = ports(&[], events, stopping);
        stop.send(true).expect("a receiver");
        let status = next(&mut stream).await.expect("a message").expect_err("a status");
        assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
        assert!(next(&mut stream).await.is_none());
    }
}
