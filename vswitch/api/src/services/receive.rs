//! Messages of a call that come one after the other.

use std::time::Duration;
use tonic::{Status, Streaming};

/// The next message; None: the client has sent its last one.
///
/// # Errors
/// What the client or its connection did, or that no message came in time.
pub(super) async fn next<T>(stream: &mut Streaming<T>, limit: Duration) -> Result<Option<T>, Status> {
    let waited = tokio::time::timeout(limit, stream.message()).await;
    waited.unwrap_or_else(|_| {
        Err(Status::aborted(format!("no message came for {} s; nothing was changed", limit.as_secs())))
    })
}
