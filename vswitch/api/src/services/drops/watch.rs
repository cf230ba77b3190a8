//! Samples of drops to one client.
//!
//! **Design**: workers sample at the highest rate of all watchers. A watcher that asked for less
//! gets less: what is beyond its own rate is suppressed here, and counted as that.

use super::filter::Filter;
use crate::services::api::Control;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tonic::Status;
use vswitch_antrea_node::Antrea;
use vswitch_control::drops::{DropEvent, DropStream};
use vswitch_dataplane::observe::DropReason;
use vswitch_proto::v1;
use vswitch_proto::v1::watch_drops_response::Update;

/// What was not told is told so often.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// A watcher.
pub(super) struct Watch {
    control: Control,
    antrea: Arc<Antrea>,
    stream: DropStream,
    filter: Filter,
    /// By reason and worker: the second, and what it has had of that.
    had: HashMap<(DropReason, usize), (u64, u32)>,
    rate: u32,
    /// By reason: what workers sampled, and this has left out.
    left_out: HashMap<DropReason, u64>,
    told: v1::DropsNotTold,
}

type Messages = mpsc::Sender<Result<v1::WatchDropsResponse, Status>>;

impl Watch {
    pub(super) fn new(control: Control, antrea: Arc<Antrea>, stream: DropStream, filter: Filter, rate: u32) -> Self {
        let (had, left_out, told) = (HashMap::new(), HashMap::new(), v1::DropsNotTold::default());
        Self { control, antrea, stream, filter, had, rate, left_out, told }
    }

    /// Until the client is gone.
    pub(super) async fn run(mut self, messages: Messages) {
        let mut every = tokio::time::interval(TOLD_EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let update = tokio::select! {
                event = self.stream.events.recv() => match event {
                    Ok(event) => self.sample(&event).await,
                    Err(RecvError::Lagged(lost)) => Some(Update::Lost(lost)),
                    Err(RecvError::Closed) => return,
                },
                _ = every.tick() => self.not_told().map(Update::NotTold),
            };
            let Some(update) = update else { continue };
            if messages.send(Ok(v1::WatchDropsResponse { update: Some(update) })).await.is_err() {
                return;
            }
        }
    }

    async fn sample(&mut self, event: &Arc<DropEvent>) -> Option<Update> {
        if !self.filter.allows(&event.bridge, &event.port, event.reason) {
            return None;
        }
        if !self.take(event) {
            *self.left_out.entry(event.reason).or_default() += 1;
            return None;
        }
        let (antrea, event) = (Arc::clone(&self.antrea), Arc::clone(event));
        // Only a switch that fails has no answer.
        self.control.read(move |_| Update::Sample(super::sample(&antrea, &event))).await.ok()
    }

    /// Whether the reason has some of its second left.
    fn take(&mut self, event: &DropEvent) -> bool {
        let second = event.second;
        let had = self.had.entry((event.reason, event.worker)).or_default();
        if had.0 != second {
            *had = (second, 0);
        }
        had.1 += 1;
        had.1 <= self.rate
    }

    /// What was not told since this began, if it is news.
    fn not_told(&mut self) -> Option<v1::DropsNotTold> {
        let of = |reason: &DropReason| {
            let (suppressed, lost) = self.stream.not_sampled(*reason);
            let suppressed = suppressed + self.left_out.get(reason).copied().unwrap_or_default();
            v1::DropsNotSampled { reason: reason.name().to_owned(), suppressed, lost }
        };
        let reasons = DropReason::ALL.iter().filter(|reason| self.filter.allows_reason(**reason)).map(of);
        let now = v1::DropsNotTold { reasons: reasons.filter(|one| one.suppressed + one.lost > 0).collect() };
        if now == self.told {
            return None;
        }
        self.told.clone_from(&now);
        Some(now)
    }
}
