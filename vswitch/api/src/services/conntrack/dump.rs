//! Dumps: connection by connection out of the table into messages, as fast as the caller reads
//! them.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;
use vswitch_conntrack::Filter;
use vswitch_dataplane::conntrack::Conntrack;
use vswitch_dataplane::time::{Millis, unix_ms};
use vswitch_messages::connection::{self as present, Now};
use vswitch_proto::v1;

/// Dumps at a time. Each has a thread while it runs.
pub(super) const DUMPS_MAX: usize = 4;

/// Connections per message: about 50 KiB.
const CHUNK: usize = 256;

/// A caller that reads nothing for so long is given up: others wait for its turn to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

type Messages = mpsc::Sender<Result<v1::ListConnectionsResponse, Status>>;

/// Fills the stream of a dump, on a blocking thread.
pub(super) async fn fill(
    conntrack: Arc<Conntrack>,
    filter: Filter,
    messages: Messages,
    permit: OwnedSemaphorePermit,
    patience: Duration,
) {
    // Room for the last word to a caller that reads too slowly.
    let Ok(last_word) = messages.clone().reserve_owned().await else { return };
    let handle = Handle::current();
    let dump = move || {
        let _permit = permit;
        let now = Now { ms: Millis::now().0, unix_ms: unix_ms() };
        let mut part = Vec::with_capacity(CHUNK);
        let mut failed = None;
        let mut send = |part: &mut Vec<v1::Connection>| {
            let connections = std::mem::replace(part, Vec::with_capacity(CHUNK));
            let sending = messages.send_timeout(Ok(v1::ListConnectionsResponse { connections }), patience);
            handle.block_on(sending).map_err(|error| failed = Some(error))
        };
        conntrack.tracker().dump(&filter, now.ms, |connection| {
            part.push(present::connection(connection, now));
            if part.len() == CHUNK && send(&mut part).is_err() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if !part.is_empty() {
            let _ = send(&mut part);
        }
        if let Some(mpsc::error::SendTimeoutError::Timeout(_)) = failed {
            let told = format!("the dump is not complete: nothing was read for {} s; read faster", patience.as_secs());
            last_word.send(Err(Status::deadline_exceeded(told)));
        }
    };
    // A panic is told by its hook, and ends the stream
    let _ = tokio::task::spawn_blocking(dump).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;
    use vswitch_testkit::double;

    /// 2,000 connections into a channel of three messages, one of which is kept for the last word.
    async fn begin(
        patience: Duration,
    ) -> (mpsc::Receiver<Result<v1::ListConnectionsResponse, Status>>, Arc<Semaphore>) {
        let conntrack = Arc::new(Conntrack::new(vswitch_conntrack::Config { connections_max: 1 << 12 }));
        for port in 0..2000 {
            double::connect(&conntrack, 1, port, 0);
        }
        let (messages, receiver) = mpsc::channel(3);
        let dumps = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&dumps).acquire_owned().await.expect("a permit");
        tokio::spawn(fill(conntrack, Filter::default(), messages, permit, patience));
        (receiver, dumps)
    }

    #[tokio::test]
    async fn each_connection_comes_once_in_bounded_messages() {
        let (mut receiver, _dumps) = begin(PATIENCE).await;
        let mut ports = Vec::new();
        while let Some(message) = receiver.recv().await {
            let connections = message.expect("no error").connections;
            assert!((1..=CHUNK).contains(&connections.len()), "{} in one message", connections.len());
            ports.extend(connections.into_iter().filter_map(|one| one.original.map(|tuple| tuple.src_port)));
        }
        ports.sort_unstable();
        assert_eq!(ports, (0..2000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn who_reads_nothing_is_told_and_makes_room() {
        let (mut receiver, dumps) = begin(Duration::from_millis(20)).await;
        let waited = tokio::time::timeout(Duration::from_secs(10), dumps.acquire()).await;
        drop(waited.expect("the dump ended within 10 s").expect("a permit"));
        let mut messages = Vec::new();
        while let Some(message) = receiver.recv().await {
            messages.push(message.map(|message| message.connections.len()));
        }
        let last = messages.pop().expect("a last word").expect_err("an error");
        assert_eq!(last.code(), tonic::Code::DeadlineExceeded, "{last:?}");
        assert!(messages.iter().all(Result::is_ok) && messages.len() == 2, "{messages:?}");
    }

    #[tokio::test]
    async fn who_goes_away_makes_room() {
        let (mut receiver, dumps) = begin(PATIENCE).await;
        assert!(receiver.recv().await.is_some_and(|message| message.is_ok()));
        drop(receiver);
        let waited = tokio::time::timeout(Duration::from_secs(10), dumps.acquire()).await;
        drop(waited.expect("the dump ended within 10 s").expect("a permit"));
    }
}
