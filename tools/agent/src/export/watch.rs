//! The task that reads records of connections from the switch.

use super::connections::{Connections, Due};
use super::facts::Facts;
use super::flow::{flow, unix_ms, without_remote_names};
use super::send::Outbox;
use crate::drive::channel;
use crate::last_failure::LastFailure;
use crate::status::Status;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tonic::Code;
use vswitch_net_types::shown;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::flow_record_service_client::FlowRecordServiceClient;

/// How often connections are looked at that may be due.
const LOOK: Duration = Duration::from_millis(250);

/// Connections of one look: a batch of each target.
const DUE_MAX: usize = 2048;

/// Waits after a failure: doubled each time up to the longer one.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// Why reading ended.
enum Failure {
    /// The switch is not there, or has no Node yet. The driver tells of it.
    Away,
    /// The switch refuses the call.
    Refused(String),
}

/// The task, and what it knows.
pub(super) struct Watch {
    socket: PathBuf,
    connections: Connections,
    outboxes: Vec<Outbox>,
    facts: watch::Receiver<Arc<Facts>>,
    status: Arc<Status>,
    /// Records that the switch has lost before this stream.
    lost: u64,
}

impl Watch {
    pub(super) fn new(
        socket: PathBuf,
        connections: Connections,
        outboxes: Vec<Outbox>,
        facts: watch::Receiver<Arc<Facts>>,
        status: Arc<Status>,
    ) -> Self {
        Self { socket, connections, outboxes, facts, status, lost: 0 }
    }

    /// Reads as long as the agent runs.
    pub(super) async fn follow(mut self, active_seconds: u32) {
        let (mut told, mut pause) = (LastFailure::default(), RETRY.0);
        loop {
            let begin = Instant::now();
            match self.read(active_seconds).await {
                Failure::Away => {}
                Failure::Refused(reason) => {
                    let reason = shown(&reason).into_owned();
                    if told.is_new(&reason) {
                        tracing::warn!("the switch tells no records of connections: {reason}; flows are not exported");
                    }
                }
            }
            if begin.elapsed() > RETRY.1 {
                pause = RETRY.0;
            }
            self.lost = self.status.flows.lost.load(Ordering::Relaxed);
            tokio::time::sleep(pause).await;
            self.look();
            pause = (pause * 2).min(RETRY.1);
        }
    }

    async fn read(&mut self, active_seconds: u32) -> Failure {
        let Ok(channel) = channel(&self.socket).await else { return Failure::Away };
        let request = v1::WatchFlowRecordsRequest { kinds: Vec::new(), active_seconds, include_existing: true };
        let mut stream = match FlowRecordServiceClient::new(channel).watch_flow_records(request).await {
            Ok(stream) => stream.into_inner(),
            Err(status) => return failure(&status),
        };
        self.connections.begin(Instant::now());
        let mut turn = tokio::time::interval(LOOK);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = stream.message() => match message {
                    Ok(Some(message)) => self.take(message),
                    Ok(None) => return Failure::Away,
                    Err(status) => return failure(&status),
                },
                _ = turn.tick() => self.look(),
            }
        }
    }

    fn take(&mut self, message: v1::WatchFlowRecordsResponse) {
        let flows = &self.status.flows;
        flows.records.fetch_add(message.records.len() as u64, Ordering::Relaxed);
        flows.lost.store(self.lost + message.lost, Ordering::Relaxed);
        let now = Instant::now();
        let due: Vec<Due> =
            message.records.into_iter().filter_map(|record| self.connections.take(record, now)).collect();
        self.export(&due);
    }

    fn look(&mut self) {
        let due = self.connections.due(Instant::now(), DUE_MAX);
        self.export(&due);
        let flows = &self.status.flows;
        flows.connections.store(self.connections.len() as u64, Ordering::Relaxed);
        flows.untracked.store(self.connections.untracked(), Ordering::Relaxed);
    }

    fn export(&self, due: &[Due]) {
        if due.is_empty() {
            return;
        }
        let facts = Arc::clone(&self.facts.borrow());
        let now = unix_ms();
        let all: Vec<_> = due.iter().filter_map(|due| Some((due, flow(due, &facts, now)?))).collect();
        for outbox in &self.outboxes {
            let of_target = all.iter().map(|(due, flow)| match outbox.wants_remote_names() {
                true => flow.clone(),
                false => without_remote_names(flow.clone(), &due.record),
            });
            outbox.put(of_target.collect());
        }
    }
}

fn failure(status: &tonic::Status) -> Failure {
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::Unknown | Code::FailedPrecondition => Failure::Away,
        code => Failure::Refused(format!("{code:?}: {}", status.message())),
    }
}
