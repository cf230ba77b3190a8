//! Dumps: connection by connection out of the table into messages, as fast as the caller reads them.

use super::present::{self, Now};
use crate::conntrack::Conntrack;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;
use vswitch_conntrack::Filter;
use vswitch_proto::v1;

/// Dumps at a time. Each has a thread while it runs.
pub(super) const DUMPS_MAX: usize = 4;

/// Connections per message: about 50 KiB.
const CHUNK: usize = 256;

/// A caller that reads nothing for so long is given up: others wait for its turn to end.
const PATIENCE: Duration = Duration::from_secs(30);

type Messages = mpsc::Sender<Result<v1::ListConnectionsResponse, Status>>;

/// Fills the stream of a dump, on a blocking thread.
pub(super) async fn fill(conntrack: Arc<Conntrack>, filter: Filter, messages: Messages, permit: OwnedSemaphorePermit) {
    // Room for the last word to a caller that reads too slowly.
    let Ok(last_word) = messages.clone().reserve_owned().await else { return };
    let handle = Handle::current();
    let dump = move || {
        let _permit = permit;
        let now = Now::read();
        let mut part = Vec::with_capacity(CHUNK);
        let mut failed = None;
        let mut send = |part: &mut Vec<v1::Connection>| {
            let connections = std::mem::replace(part, Vec::with_capacity(CHUNK));
            let sending = messages.send_timeout(Ok(v1::ListConnectionsResponse { connections }), PATIENCE);
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
            let told = format!("the dump is not complete: nothing was read for {} s; read faster", PATIENCE.as_secs());
            last_word.send(Err(Status::deadline_exceeded(told)));
        }
    };
    let _ = tokio::task::spawn_blocking(dump).await; // a panic is told by its hook, and ends the stream
}
