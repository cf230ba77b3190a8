//! The queue and the task of a target.

use super::sink::Sink;
use super::target::{Target, Tls};
use crate::last_failure::LastFailure;
use crate::status::{Status, TargetStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use vswitch_flow_export::Flow;
use vswitch_net_types::shown;

/// Batches that wait for a target.
pub(super) const QUEUE_MAX: usize = 64;

/// Waits after a failure: doubled each time up to the longer one.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Where batches of flows for a target are left.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: mpsc::Sender<Vec<Flow>>,
    status: Arc<TargetStatus>,
    wants_remote_names: bool,
}

impl Outbox {
    /// Starts the target's task.
    pub(super) fn open(
        target: &Target,
        (domain, tls): (u32, &Tls),
        status: &Arc<Status>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let (queue, inbox) = mpsc::channel(QUEUE_MAX);
        let status = status.target(&target.to_string());
        tasks.spawn(follow(target.clone(), domain, tls.clone(), inbox, Arc::clone(&status)));
        Self { queue, status, wants_remote_names: target.wants_remote_names() }
    }

    /// Whether flows are to name Pods of other Nodes.
    pub(super) fn wants_remote_names(&self) -> bool {
        self.wants_remote_names
    }

    /// Leaves flows for the target. A full queue loses them.
    pub(super) fn put(&self, flows: Vec<Flow>) {
        let count = flows.len() as u64;
        if count > 0 && self.queue.try_send(flows).is_err() {
            self.status.lost.fetch_add(count, Ordering::Relaxed);
        }
    }
}

async fn follow(
    target: Target,
    domain: u32,
    tls: Tls,
    mut inbox: mpsc::Receiver<Vec<Flow>>,
    status: Arc<TargetStatus>,
) {
    let (mut told, mut pause) = (LastFailure::default(), RETRY.0);
    loop {
        let failure = match Sink::connect(&target, domain, &tls).await {
            Ok(mut sink) => {
                tracing::info!("{target}: flows are sent there");
                status.connected.store(1, Ordering::Relaxed);
                let (sent, failure) = feed(&mut sink, &mut inbox, &status).await;
                status.connected.store(0, Ordering::Relaxed);
                if sent > 0 {
                    pause = RETRY.0;
                }
                let Some(failure) = failure else { return };
                failure
            }
            Err(failure) => failure,
        };
        let failure = shown(&failure).into_owned();
        if told.is_new(&failure) {
            tracing::warn!("{target}: {failure}; flows wait, and are lost when the queue is full");
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY.1);
    }
}

/// Sends flows until that fails. Returns how many were sent, and why no more are. None: the agent
/// ends.
async fn feed(sink: &mut Sink, inbox: &mut mpsc::Receiver<Vec<Flow>>, status: &TargetStatus) -> (u64, Option<String>) {
    let mut sent = 0;
    loop {
        let batch = tokio::select! {
            batch = inbox.recv() => batch,
            failure = sink.ended() => return (sent, Some(failure)),
        };
        let Some(batch) = batch else { return (sent, None) };
        let count = batch.len() as u64;
        if let Err(failure) = sink.send(&batch).await {
            status.lost.fetch_add(count, Ordering::Relaxed);
            return (sent, Some(failure));
        }
        status.sent.fetch_add(count, Ordering::Relaxed);
        sent += count;
    }
}
